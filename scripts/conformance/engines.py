"""Files in other engines: which load them, give the source's numbers, and how quickly; writes docs/conformance/engines.md.

    python -m scripts.conformance.engines --engines openvino,tract,litert --group demo build/demo/*.onnx
    python -m scripts.conformance.engines --engines openvino,tract --group backend
    python -m scripts.conformance.engines --report docs/conformance/engines.md

The engines are extras of onnxport. The first command takes the files that ``scripts/demo`` leaves, the second those that the onnx
package brings with test data, each on its own inputs first. A later run goes on where the first stopped.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

VERDICTS = ("passed", "failed", "unproved", "refused", "not asked")
_ROOMS = (
    "simple",
    "pytorch-operator",
    "pytorch-converted",
)  # of the onnx package's test data: whole files, most of other converters


def main() -> int:
    """Asks the engines, or writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--engines", default="openvino,tract")
    parser.add_argument("--group", default="demo", choices=("demo", "backend"))
    parser.add_argument("--results", type=Path, default=Path("build/engines.jsonl"))
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    if options.report is not None:
        options.report.write_text(page([json.loads(line) for line in options.results.read_text().splitlines()]))
        return 0
    options.results.parent.mkdir(parents=True, exist_ok=True)
    files = options.files if options.group == "demo" else list(backend_files())
    with options.results.open("a+") as results:
        results.seek(0)
        known = {(row["group"], row["file"], row["engine"]) for row in map(json.loads, results)}
        for file in files:
            name = file.stem if options.group == "demo" else file.parent.name
            names = [item for item in options.engines.split(",") if (options.group, name, item) not in known]
            for row in asked(file, options.group, names) if names else ():
                results.write(json.dumps({"group": options.group, "file": name, **row}) + "\n")
                results.flush()
    return 0


def backend_files() -> Iterator[Path]:
    """The files of the onnx package that have test data."""
    import onnx.backend.test

    data = Path(onnx.backend.test.__file__).parent / "data"
    for room in _ROOMS:
        yield from sorted((data / room).glob("*/model.onnx"))


def asked(file: Path, group: str, engines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What each engine gives for a file."""
    import onnxport
    from onnxport.graph import test_vectors
    from onnxport.model import OnnxModel
    from onnxport.validation.witnesses.engine import known_engines

    try:
        written = test_vectors.read(file, OnnxModel.load(file).model.graph) if group == "backend" else []
        inputs = dict(written[0].inputs) if written else None
        report = onnxport.validate(file, file, inputs=inputs, runtimes=engines)
    except onnxport.OnnxportError as error:
        for name, engine in ((name, known_engines()[name]) for name in engines):
            version = f"{engine.title} {engine.version}"
            yield {"engine": name, "version": version, "verdict": "not asked", "reason": type(error).__name__}
        return
    own = next((item.converted_seconds for item in report.sets if item.outputs), None)
    for item in report.witnesses:
        yield {
            "engine": item.engine,
            "version": str(item),
            "verdict": item.verdict,
            "reason": item.reasons[0] if item.reasons else "",
            "load": item.load_seconds,
            "latency": item.latency,
            "onnxruntime": own,
            "proof": report.verdict,
        }


def page(rows: Sequence[dict[str, Any]]) -> str:
    """The page."""
    versions = sorted({row["version"] for row in rows if row["version"]})
    groups = {name: [row for row in rows if row["group"] == name] for name in ("demo", "backend")}
    lines = [
        "# Files in other engines",
        "",
        f"Written by `scripts/conformance/engines.py` with {', '.join(versions)}. Each engine loads the file, runs it on the",
        "sets of inputs of a proof and is judged by the same budgets",
        "([witnesses](../howto/opsets-and-runtimes.md#other-engines-as-witnesses)).",
        "*refused*: it does not load the file; *failed*: it gives other numbers, or can't run where onnxruntime can.",
        "",
        "## The demo's files",
        "",
        "What `scripts/demo` writes, against onnxruntime on the same file, with the time of a run on two rows.",
        "",
        *_table(groups["demo"]),
    ]
    if groups["backend"]:
        number = len({row["file"] for row in groups["backend"]})
        lines += [
            "",
            "## Files of the onnx package",
            "",
            f"{number} files with test data, most by another converter, on their own inputs and further sets. *not asked*: none",
            "of the runtimes beside them has the file's operators.",
            "",
            *_totals(groups["backend"]),
        ]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    engines = list(dict.fromkeys(row["version"] for row in rows))
    cells = {(row["file"], row["version"]): row for row in rows}
    lines = [f"| file | {' | '.join(engines)} |", "|-|" + "-|" * len(engines)]
    for file in dict.fromkeys(row["file"] for row in rows):
        shown = (cells.get((file, engine)) for engine in engines)
        lines.append(f"| {file.replace('_', ' ')} | {' | '.join('' if row is None else _cell(row) for row in shown)} |")
    taken = [[row["verdict"] for row in rows if row["version"] == engine] for engine in engines]
    numbers = [f"{verdicts.count('passed')} of {len(verdicts)}" for verdicts in taken]
    return [*lines, f"| **passed** | {' | '.join(numbers)} |"]


def _cell(row: dict[str, Any]) -> str:
    if row["verdict"] != "passed":
        return f"{row['verdict']}: {_plain(row['reason'])}"
    return f"passed, {1e3 * row['latency']:.2g} ms"


def _totals(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"| engine | files | {' | '.join(VERDICTS)} |", "|-|-|" + "-|" * len(VERDICTS)]
    for engine in dict.fromkeys(row["version"] for row in rows):
        count = Counter(row["verdict"] for row in rows if row["version"] == engine)
        lines.append(
            f"| {engine} | {sum(count.values())} | {' | '.join(str(count[verdict]) for verdict in VERDICTS)} |"
        )
    lines += ["", "| engine | file | verdict |", "|-|-|-|"]
    for row in rows:
        if row["verdict"] != "passed":
            lines.append(f"| {row['version']} | {row['file']} | {row['verdict']}: {_plain(row['reason'])} |")
    return lines


def _plain(reason: str) -> str:
    text = reason.removeprefix("does not load the file: ").replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= 160 else f"{text[:157]}..."


if __name__ == "__main__":
    raise SystemExit(main())
