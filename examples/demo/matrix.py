"""Every source to every target: converted, compared, timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import onnxport
from examples.demo.models import Trained

TARGETS = ("onnx", "pytorch", "tensorflow", "keras", "sklearn")


@dataclass(frozen=True)
class Cell:
    """What became of one source in one target.

    Attributes:
        source: framework and title of the source.
        target: framework.
        verdict: ``"pass"``, ``"fail"``, or ``"none"`` where the target can't hold such a model.
        reason: why not.
        error: greatest absolute difference over all inputs tried.
        seconds: time of the conversion, without the comparison.
        latency: milliseconds a call on eight samples.
        details: the comparison in full.
    """

    source: str
    target: str
    verdict: str
    reason: str = ""
    error: float = 0.0
    seconds: float = 0.0
    latency: float = 0.0
    details: str = ""


def row(trained: Trained, folder: Path) -> Iterator[Cell]:
    """The cells of one source: to ONNX first, then that file to each framework that can hold it."""
    path = folder / f"{name(trained).replace(' ', '_').replace('+', 'and')}.onnx"
    hub, first = _to_onnx(trained, path)
    yield first
    for target in TARGETS[1:]:
        if hub is None:
            yield Cell(name(trained), target, "fail", "there is no ONNX model to start from")
        else:
            yield _from_onnx(trained, hub, path, target)


def name(trained: Trained) -> str:
    """What a source is called: its framework and what it is."""
    return f"{trained.framework} {trained.title}"


def _to_onnx(trained: Trained, path: Path) -> tuple[onnxport.OnnxModel | None, Cell]:
    def work() -> onnxport.OnnxModel:
        return onnxport.convert(trained.model, inputs=trained.inputs, output=path, validate=False)

    def proof(hub: onnxport.OnnxModel) -> onnxport.Report:
        return onnxport.validate(trained.model, hub, inputs=trained.inputs)

    def latency(hub: onnxport.OnnxModel) -> float:
        feed = graph_inputs(hub, trained.inputs)
        return milliseconds(lambda: hub(*feed))

    return _cell(trained, "onnx", work, proof, latency)


def _from_onnx(trained: Trained, hub: onnxport.OnnxModel, path: Path, target: str) -> Cell:
    def work() -> Any:
        return onnxport.convert(path, to=target, validate=False)

    def proof(model: Any) -> onnxport.Report:
        against_file = onnxport.validate(path, model)
        return onnxport.validate(trained.model, model, inputs=trained.inputs) if against_file.passed else against_file

    def latency(model: Any) -> float:
        if target == "sklearn" and trained.framework == "sklearn":  # an estimator takes the table whole
            return milliseconds(lambda: model.predict(trained.inputs))
        if target == "sklearn":
            arrays = tuple(graph_inputs(hub, trained.inputs))
            return milliseconds(lambda: model.run(arrays))
        feed = [native(target, array) for array in graph_inputs(hub, trained.inputs)]
        return milliseconds(calling(target, model, feed))

    return _cell(trained, target, work, proof, latency)[1]


def _cell(
    trained: Trained,
    target: str,
    work: Callable[[], Any],
    proof: Callable[[Any], onnxport.Report],
    latency: Callable[[Any], float],
) -> tuple[Any, Cell]:
    started = time.perf_counter()
    try:
        result = work()
        seconds = time.perf_counter() - started
        report = proof(result)
        verdict = "pass" if report.passed else "fail"
        cell = Cell(name(trained), target, verdict, "", report.max_abs, seconds, latency(result), details=str(report))
    except onnxport.UnsupportedOperator as error:
        # Estimators hold only what they were made for; every other framework has to hold every model here.
        # Without a list of operators it is the whole direction that is refused, by name.
        return None, Cell(name(trained), target, "fail" if error.operators else "none", str(error))
    except Exception as error:  # a defect is a failed cell, not the end of the demo
        kind = "" if isinstance(error, onnxport.OnnxportError) else f"{type(error).__name__}: "
        return None, Cell(name(trained), target, "fail", f"{kind}{error}")
    return result, cell


def graph_inputs(hub: onnxport.OnnxModel, inputs: Any) -> list[np.ndarray]:
    """The example inputs as arrays in the order and of the types of the graph's inputs."""
    columns = [inputs[[name]].to_numpy() for name in inputs.columns] if hasattr(inputs, "columns") else None
    arrays = columns or [np.asarray(item) for item in (inputs if isinstance(inputs, tuple) else (inputs,))]
    graph = hub.model.graph
    wanted = [value for value in graph.inputs if value.name not in graph.initializers]
    return [
        array.astype(object) if str(value.dtype) == "STRING" else array.astype(value.dtype.numpy())
        for array, value in zip(arrays, wanted, strict=True)
    ]


def native(framework: str, array: np.ndarray) -> Any:
    """An array as the framework's own tensor; strings stay NumPy arrays where it has none."""
    if framework == "pytorch" and array.dtype != object:
        import torch

        return torch.from_numpy(array)
    if framework in ("tensorflow", "keras"):
        import tensorflow as tf

        return tf.constant(array)
    return array


def calling(framework: str, model: Any, feed: list[Any]) -> Callable[[], Any]:
    """A call of an imported model on its inputs."""
    if framework != "pytorch":
        return lambda: model(*feed)
    import torch

    def call() -> Any:
        with torch.no_grad():
            return model(*feed)

    return call


def milliseconds(call: Callable[[], Any], budget: float = 0.3) -> float:
    """Median time of a call, over as many calls as fit into `budget` seconds."""
    call()
    times: list[float] = []
    end = time.perf_counter() + budget
    while not times or (time.perf_counter() < end and len(times) < 200):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)
