"""The outcome of a validation: as text, dict, JSON and one HTML page."""

from __future__ import annotations

import dataclasses
import glob
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxport.argument_types import check_path
from onnxport.errors import InvalidInputError
from onnxport.graph.atomic import atomic_file
from onnxport.validation.records import ProofRecord
from onnxport.validation.text import lines

if TYPE_CHECKING:
    from onnxport.validation.html import Repeat


class Report(ProofRecord):
    """The outcome of a validation; printing it gives a compact table. Its attributes are those of `ProofRecord`."""

    def __str__(self) -> str:
        return "\n".join(lines(self))

    def __repr__(self) -> str:
        return f"<Report {self.verdict}: {self.source} against {self.converted}, {len(self.sets)} sets of inputs>"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain dicts, lists and numbers; NaN and infinities are strings."""
        summary = {"verdict": self.verdict, "passed": self.passed, "unproved": self.unproved}
        witnesses = [{"verdict": item.verdict, **dataclasses.asdict(item)} for item in self.witnesses]
        own = dataclasses.asdict(dataclasses.replace(self, details=None))
        del own["details"]  # hundreds of numbers to draw; `onnxport debug --json` has the layers
        plain: dict[str, Any] = _as_json({**summary, **own, "witnesses": witnesses})
        return plain

    def to_json(self, *, indent: int | None = 2) -> str:
        """The report as strict JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_html(
        self, path: str | os.PathLike[str], *, command: str = "", files: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        """Writes the report as one page that needs no other file.

        Args:
            path: file to write.
            command: the command line that gives the report again, for the page to show.
            files: models that it is about; the page shows their SHA-256.
        """
        from onnxport.validation.html import page

        check_path(path)
        if not isinstance(command, str):
            raise InvalidInputError(f"command={command!r}: the command line, a string")
        if isinstance(files, str) or not isinstance(files, Sequence):
            raise InvalidInputError(f"files={files!r}: a list of paths, such as ['model.onnx']")
        for file in files:
            check_path(file, "files")
        _write(path, page(self, repeat(command, files)))

    def _repr_html_(self) -> str:
        from onnxport.validation.html import fragment

        return fragment(self)


def write_pages(
    path: str | os.PathLike[str],
    reports: Sequence[tuple[str, Report]],
    *,
    command: str = "",
    files: Sequence[str | os.PathLike[str]] = (),
) -> None:
    """Writes several reports, each with its title, as one page; see `Report.to_html`."""
    from onnxport.validation.html import pages

    _write(path, pages(reports, repeat(command, files)))


def repeat(command: str, files: Sequence[str | os.PathLike[str]]) -> Repeat:
    """How to get a report again, with the sizes and hashes of those of `files` that are files, and of weights beside them."""
    from onnxport.validation.html import ModelFile, Repeat

    present = [Path(file) for file in files if Path(file).is_file()]
    weights = [data for file in present for data in sorted(file.parent.glob(f"{glob.escape(file.name)}.*.data"))]
    return Repeat(command, tuple(ModelFile.of(file) for file in dict.fromkeys([*present, *weights])))


def _write(path: str | os.PathLike[str], text: str) -> None:
    with atomic_file(Path(path)) as file:
        file.write(text.encode())


def _as_json(value: object) -> Any:
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
