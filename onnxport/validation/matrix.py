"""Reports of many models, read from their JSON: a row a model, a column what ran it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from onnxport.errors import InvalidInputError

VERDICTS = ("passed", "unproved", "refused", "impossible", "failed")  # from best to worst
_NOT_DONE = "conversion"  # the column of what ended in an error
_LINES = 6  # of an error that are shown


@dataclass(frozen=True)
class Entry:
    """A verdict on one model.

    Attributes:
        model: the row: the file, folder or factory as it was named, else the source's title.
        column: what the model became, and what ran it.
        verdict: one of `VERDICTS`; ``"impossible"`` where a command ended in an error.
        file: the JSON file.
        used: the greatest share of a budget that is used; NaN where no numbers were compared.
        seconds: of a run on the first set of inputs; NaN where there was none.
        reason: in one line, why it is not ``"passed"``.
    """

    model: str
    column: str
    verdict: str
    file: Path
    used: float = math.nan
    seconds: float = math.nan
    reason: str = ""

    @property
    def page(self) -> Path | None:
        """The report's page, where one lies beside the JSON file under the same name."""
        page = self.file.with_suffix(".html")
        return page if page.is_file() else None


def read_entries(files: Sequence[str | os.PathLike[str]]) -> list[Entry]:
    """The verdicts of reports in JSON, as ``convert``, ``validate``, ``roundtrip`` and `Report.to_json` write them.

    Models of the same title are kept apart by their files' names.

    Raises:
        InvalidInputError: a file is no such report.
    """
    entries = [entry for file in files for entry in _entries(Path(file))]
    places: dict[tuple[str, str], set[Path]] = {}
    for entry in entries:
        places.setdefault((entry.model, entry.column), set()).add(entry.file)
    shared = {model for (model, _), origins in places.items() if len(origins) > 1}
    return [
        replace(entry, model=f"{entry.model} ({entry.file.stem})") if entry.model in shared else entry
        for entry in entries
    ]


def _entries(file: Path) -> Iterator[Entry]:
    try:
        read = json.loads(file.read_bytes())
        known = list(_of_command(read, file))
    except OSError as error:
        raise InvalidInputError(f"{str(file)!r} can't be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InvalidInputError(f"{str(file)!r} is no report of onnxport in JSON: {error}") from error
    if not known:
        raise InvalidInputError(f"{str(file)!r} holds no report: it was written without a proof")
    yield from known


def _of_command(read: Mapping[str, Any], file: Path) -> Iterator[Entry]:
    """The verdicts in what one command prints."""
    if "legs" in read:
        for leg in read["legs"]:
            if leg["validation"] is not None:
                yield replace(_proof(leg["validation"], file), model=str(read["model"]), column=str(leg["leg"]))
    elif "verdict" in read:
        yield from _of_report(read, file, "")
    elif read.get("validation") is not None:
        source = read.get("source")
        yield from _of_report(read["validation"], file, source if isinstance(source, str) else "")
    elif "error" in read:
        lines = str(read["error"]["message"]).split(
            "\n"
        )  # the first names a line of the user's, or how many operators there are
        yield Entry(file.stem, _NOT_DONE, "impossible", file, reason=" ".join(map(str.strip, lines[:_LINES])))


def _of_report(report: Mapping[str, Any], file: Path, model: str) -> Iterator[Entry]:
    main = _proof(report, file)
    main = replace(main, model=model) if model else main
    yield main
    for witness in report.get("witnesses", ()):
        column = f"{witness['title']} {witness['version']}".rstrip()
        opset = report["converted"].get("opset")
        column += f", opset {opset}" if opset is not None else ""
        reason = f"does not load the file: {witness['refused']}" if witness["refused"] else _reason(witness)
        yield replace(_of_sets(witness, reason), model=main.model, column=column, file=file)


def _proof(report: Mapping[str, Any], file: Path) -> Entry:
    source, side = report["source"], report["converted"]
    column = str(side["runtime"] or side["framework"])
    column += f", opset {side['opset']}" if side.get("opset") is not None else ""
    # The source of a replay is the file's own test data.
    model = side["title"] if source["framework"] == "test data" else source["title"]
    return replace(_of_sets(report, _reason(report)), model=str(model), column=column, file=file)


def _of_sets(part: Mapping[str, Any], reason: str) -> Entry:
    verdict = str(part["verdict"])
    if verdict not in VERDICTS:
        raise ValueError(f"the verdict {verdict!r}")
    figures = [output["figures"] for item in part["sets"] for output in item["outputs"] if output["figures"]]
    used = max((float(item["used"]) for item in figures), default=math.nan)
    ran = [float(item["converted_seconds"]) for item in part["sets"] if item["outputs"]]
    seconds = ran[0] if ran else math.nan
    return Entry("", "", verdict, Path(), used, seconds, "" if verdict == "passed" else reason)


def _reason(part: Mapping[str, Any]) -> str:
    """The first set that failed and why, else what is unproved."""
    for item in part["sets"]:
        if item["error"]:
            return f"{item['name']}: {item['error']}"
        for output in item["outputs"]:
            if output["verdict"] == "fail":
                figures = output["figures"]
                change = f"{figures['source']} became {figures['converted']}" if figures else ""
                return f"{item['name']}, {output['name']}: {output['reason'] or change}"
    for name, reason in part.get("unproved", ()):
        return f"{name}: {reason}" if name else str(reason)
    return "no set of inputs proves it"


def rows_of(entries: Sequence[Entry]) -> dict[str, dict[str, list[Entry]]]:
    """The entries by row and column, each in the order in which they come."""
    order = {model: place for place, model in enumerate(dict.fromkeys(entry.model for entry in entries))}
    rows: dict[str, dict[str, list[Entry]]] = {}
    for model, group in groupby(sorted(entries, key=lambda entry: order[entry.model]), key=lambda entry: entry.model):
        cells = rows.setdefault(model, {})
        for entry in group:
            cells.setdefault(entry.column, []).append(entry)
    return rows
