"""An engine's verdict on a file, on the sets of inputs that a proof ran."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnxport.errors import InvalidModelError, OnnxportError, first_line
from onnxport.frameworks import HUB
from onnxport.graph.external_data import save, weight_bytes
from onnxport.graph.runtime import Session
from onnxport.progress import stage
from onnxport.validation.comparison import is_floating
from onnxport.validation.records import SetReport, WitnessRecord
from onnxport.validation.runners import Outputs, Runner
from onnxport.validation.witnesses.engine import Engine
from onnxport.validation.witnesses.process import EngineProcess
from onnxport.validation.witnesses.refusals import refusal

Feeds = dict[str, Any]
Judge = Callable[["EngineRunner", list[str]], Iterator[SetReport | None]]  # of an engine, on one set after the other


class EngineRunner(Runner):
    """A file in an engine; leaves are the graph's inputs in order."""

    framework: ClassVar[str] = HUB

    def __init__(self, process: EngineProcess, engine: Engine, session: Session, model: ir.Model) -> None:
        super().__init__(model.graph.name or "model", None)
        self.runtime = f"{engine.title} {engine.version}".rstrip()
        self.settles_nan = engine.settles_nan
        self._process, self._session, self._model = process, session, model

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """Outputs in graph order.

        Raises:
            InvalidInputError: the engine does not run on these inputs.
        """
        feeds = prepared(self._session, leaves)
        try:
            results = self._process.run(feeds, self._session.output_names)
        except OnnxportError as error:
            raise type(error)(refusal(str(error), self._model)) from error
        return list(zip(self._session.output_names, results, strict=True))

    @property
    def latency(self) -> float:
        """Seconds of a run on the last inputs."""
        return self._process.latency


def is_finite(leaf: object) -> bool:
    """Whether an input holds no NaN and no infinity."""
    if not isinstance(leaf, np.ndarray) or not is_floating(leaf.dtype):
        return True
    return bool(np.isfinite(leaf if leaf.dtype.kind == "c" else leaf.astype(np.float64)).all())


def prepared(session: Session, leaves: Sequence[Any]) -> Feeds:
    """Leaves by the names of the graph's inputs, in the types that these have."""
    return {name: session.prepare(name, leaf) for name, leaf in zip(session.input_names, leaves, strict=True)}


def testimony(
    engine: Engine, file: Path | None, model: ir.Model, session: Session, leaves: Sequence[Any], judge: Judge
) -> WitnessRecord:
    """What an engine gives for a file on sets of inputs, of which `leaves` are the first; without a file, for the model in one.

    `session` is the model in its own runtime, which knows the types of its inputs.
    """
    stage(f"proving: {engine.title}")
    record = WitnessRecord(engine.name, engine.title, engine.version)
    feeds = prepared(session, leaves)
    shapes = {name: np.shape(value) for name, value in feeds.items()}
    notes: list[str] = []
    sets: list[SetReport] = []
    with _written(file, model) as path:
        try:
            process = EngineProcess(engine, path, weight_bytes(model), shapes)
        except InvalidModelError as error:
            return replace(record, refused=refusal(str(error), model))
        with process:
            runner = EngineRunner(process, engine, session, model)
            try:
                for report in judge(runner, notes):
                    sets += [replace(report, converted_seconds=runner.latency)] if report is not None else []
            except OnnxportError as error:  # of the source, which is run again for the judgement
                notes.append(f"further inputs were left out: {first_line(error)}")
    return replace(record, sets=tuple(sets), notes=tuple(dict.fromkeys(notes)), load_seconds=process.load_seconds)


@contextmanager
def _written(file: Path | None, model: ir.Model) -> Iterator[Path]:
    if file is not None:
        yield file.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="onnxport-") as folder:
        save(model, Path(folder) / "model.onnx")
        yield Path(folder) / "model.onnx"
