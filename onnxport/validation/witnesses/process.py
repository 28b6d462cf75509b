"""An engine's process, seen from outside: what the engine prints, or a crash of it, does no harm here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from onnxport.errors import InvalidInputError, InvalidModelError
from onnxport.graph.guard.bounds import Guard
from onnxport.graph.guard.process import Helper
from onnxport.graph.guard.requests import open_in, run_in
from onnxport.validation.witnesses.engine import Engine, Shapes

_MEMORY, _MEMORY_PER_MODEL_BYTE, _MEMORY_PER_INPUT_BYTE = 4 << 30, 12, 64
_SECONDS, _MODEL_BYTES_PER_SECOND = 180.0, 4 << 20
_SERVED = "onnxport.validation.witnesses.serving:open_served"


@dataclass
class EngineBounds(Guard):
    """What an engine may cost, which compiles the file and holds it in forms of its own."""

    def seconds(self, input_bytes: int) -> float:
        """What is left."""
        return _SECONDS + self.model_bytes / _MODEL_BYTES_PER_SECOND - self.spent

    def memory(self, input_bytes: int) -> int:
        """Bytes that all runs together may take."""
        return _MEMORY + _MEMORY_PER_MODEL_BYTE * self.model_bytes + _MEMORY_PER_INPUT_BYTE * input_bytes

    @property
    def output_bytes(self) -> int | None:
        """Any number of bytes."""
        return None


class EngineProcess:
    """A process that holds one file in one engine, and ends with the block.

    Raises:
        InvalidModelError: the engine does not load the file.
    """

    def __init__(self, engine: Engine, path: Path, model_bytes: int, shapes: Shapes) -> None:
        self._bounds = EngineBounds(model_bytes)
        self._helper = Helper()
        sizes = {name: list(shape) for name, shape in shapes.items()}
        options = {"opener": _SERVED, "engine": engine.opener, "shapes": sizes}
        try:
            about = open_in(self._helper, path, options, self._bounds)
        except InvalidModelError:
            self._helper.end()
            raise
        self._number: int = about["id"]
        self.load_seconds: float = about["seconds"]
        self.latency = 0.0  # seconds of a run on the inputs of the last one

    def run(self, feeds: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
        """The outputs.

        Raises:
            InvalidInputError: the engine does not run the file on these inputs, or has ended.
        """
        if not self._helper.alive:
            raise InvalidInputError("the engine's process has ended before")
        *results, self.latency = run_in(self._helper, self._number, feeds, names, self._bounds)
        return results

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._helper.alive:
            self._helper.end()
