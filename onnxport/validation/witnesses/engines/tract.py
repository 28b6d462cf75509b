"""tract, Sonos' engine in Rust, on the CPU."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxport.validation.witnesses.engine import Engine, OpenFile, Shapes

_OPENER = "onnxport.validation.witnesses.engines.tract:open_file"
# Its Relu makes 0 of NaN.
ENGINE = Engine("tract", "tract", _OPENER, packages=("tract",), distribution="tract", extra="tract", settles_nan=False)


def open_file(path: Path, shapes: Shapes) -> OpenFile:
    """The file with the sizes that vary as symbols; where tract can't have that, prepared anew for each set of shapes.

    Raises:
        ValueError: it can't prepare the file for the shapes of the first set either.
    """
    try:
        return _File(path)
    except Exception as symbolic:  # its errors share no type with those of its loader
        file = _FixedFile(path)
        try:
            file.prepare(shapes)
        except Exception:
            raise ValueError(_reason(symbolic)) from symbolic
        return file


def _reason(error: Exception) -> str:
    """The first line of tract's error, which names the node, and the last of its causes."""
    text, _, _ = str(error).partition("Stack backtrace:")
    first, _, causes = text.partition("Caused by:")
    last = re.sub(r"^\d+: ", "", causes.strip().rpartition("\n")[2].strip())
    return f"{first.strip()}: {last}" if last else first.strip()


class _File:
    """A file whose shapes are all known to tract, as sizes or symbols."""

    def __init__(self, path: Path) -> None:
        import tract

        model = tract.onnx().load(path)
        self._names = [model.input_name(i) for i in range(model.input_count())]
        self._runnable = model.into_model().into_runnable()

    def __call__(self, feeds: Mapping[str, Any]) -> list[Any]:
        return _results(self._runnable, [feeds[name] for name in self._names])


class _FixedFile:
    """A file that tract prepares for inputs of fixed shapes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._prepared: dict[tuple[tuple[int, ...], ...], Any] = {}

    def prepare(self, shapes: Mapping[str, Sequence[int]]) -> tuple[Any, list[str]]:
        """The file for these shapes, and the names of its inputs in tract's order."""
        import tract

        model = tract.onnx().load(self._path)
        names = [model.input_name(i) for i in range(model.input_count())]
        key = tuple(tuple(shapes[name]) for name in names)
        if key not in self._prepared:
            for place, name in enumerate(names):
                kind = model.input_fact(place).dump().rpartition(",")[2]
                model.set_input_fact(place, ",".join([*map(str, shapes[name]), kind]))
            self._prepared[key] = model.into_model().into_runnable()
        return self._prepared[key], names

    def __call__(self, feeds: Mapping[str, Any]) -> list[Any]:
        runnable, names = self.prepare({name: value.shape for name, value in feeds.items()})
        return _results(runnable, [feeds[name] for name in names])


def _results(runnable: Any, inputs: list[Any]) -> list[Any]:
    return [item.to_numpy().copy() for item in runnable.run(inputs)]  # the memory is tract's
