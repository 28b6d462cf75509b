"""Model files other than ONNX that are written to do harm: to run code, to read or write files, to take memory without end."""

from __future__ import annotations

from collections.abc import Iterator

from hostile_run import Attack, Places


def built(places: Places) -> Iterator[Attack]:
    """Attacks with canaries in the places that are watched."""
    yield from ()
