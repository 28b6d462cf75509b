"""The outcome of a validation: as text, dict, JSON and one HTML page."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any

from onnxport.graph.atomic import atomic_file
from onnxport.validation.html import page
from onnxport.validation.records import ProofRecord
from onnxport.validation.text import lines


class Report(ProofRecord):
    """The outcome of a validation; printing it gives a compact table. Its attributes are those of `ProofRecord`."""

    def __str__(self) -> str:
        return "\n".join(lines(self))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain dicts, lists and numbers; NaN and infinities are strings."""
        summary = {"verdict": self.verdict, "passed": self.passed, "unproved": self.unproved}
        plain: dict[str, Any] = _as_json({**summary, **dataclasses.asdict(self)})
        return plain

    def to_json(self, *, indent: int | None = 2) -> str:
        """The report as strict JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as one page that needs no other file."""
        with atomic_file(Path(path)) as file:
            file.write(page(self).encode())


def _as_json(value: object) -> Any:
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
