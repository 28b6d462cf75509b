"""Where a hostile file is written, and what its code would do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ACTIONS = ("onnx", "inspect", "validate")
# Kind of the attack, the file, and what is tried on it.
Written = tuple[str, Path, tuple[str, ...]]


def new_place(folder: Path, name: str) -> Path:
    """A path in a new folder."""
    place = folder / f"{len(list(folder.iterdir())):04}" / name
    place.parent.mkdir()
    return place


class Payload:
    """Unpickling it writes a file."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return exec, (f"open({str(self.canary)!r}, 'w').close()",)
