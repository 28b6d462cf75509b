"""The steps of a pipeline one by one, each as a message that ends there, beside what scikit-learn's step gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import numpy as np

from onnxport.compat.absent import refusing
from onnxport.frameworks.descriptor import Lazy

__getattr__ = refusing(__name__)

_convert = Lazy("onnxport.compat.skl2onnx:convert_sklearn")  # whose module knows this one
_METHODS = ("transform", "predict", "predict_proba", "decision_function", "score_samples")


@dataclass
class Seen:
    """What the methods of a step were given and gave when they ran last."""

    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)


def collect_intermediate_steps(
    model: Any,
    name: str | None = None,
    initial_types: Sequence[tuple[str, Any]] | None = None,
    target_opset: int | Mapping[str, int] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """By step of a pipeline its ``model`` and ``onnx_step``, the pipeline up to it; a step keeps what it gives in ``_debug``.

    Raises:
        InvalidInputError: see `onnxport.compat.skl2onnx.convert_sklearn`.
    """
    steps = []
    for place, (step_name, step) in enumerate(model.steps):
        if step is None or isinstance(step, str):  # passthrough
            continue
        part = model[: place + 1]
        graph = _convert(part, name, initial_types, target_opset=target_opset, **options)
        _watch(step)
        steps.append({"model": step, "name": step_name, "onnx_step": graph})
    return steps


def _watch(step: Any) -> None:
    """Has a step keep what its methods are given and give."""
    step._debug = seen = Seen()

    def kept(method: str, call: Any) -> Any:
        @wraps(call)
        def run(X: Any, *args: Any, **kwargs: Any) -> Any:
            result = call(X, *args, **kwargs)
            seen.inputs[method], seen.outputs[method] = X, result
            return result

        return run

    for method in _METHODS:
        if hasattr(step, method):
            vars(step)[method] = kept(method, getattr(step, method))


def compare_objects(expected: Any, result: Any, decimal: int = 4) -> None:
    """Compares arrays, lists and dicts of numbers.

    Raises:
        AssertionError: they differ by more than `decimal` places allow.
    """
    if isinstance(expected, (list, tuple)) and isinstance(result, (list, tuple)):
        if len(expected) != len(result):
            raise AssertionError(f"{len(expected)} and {len(result)} items")
        for one, other in zip(expected, result):
            compare_objects(one, other, decimal)
        return
    first, second = (np.asarray(item.toarray() if hasattr(item, "toarray") else item) for item in (expected, result))
    if first.dtype.kind in "OUS":
        np.testing.assert_array_equal(first, second)
    else:
        np.testing.assert_almost_equal(np.squeeze(first), np.squeeze(second), decimal=decimal)


def enumerate_pipeline_models(
    pipe: Any, coor: tuple[int, ...] | None = None, vs: Any = None
) -> Iterator[tuple[tuple[int, ...], Any, Any]]:
    """An estimator and those within, with their places among the steps and the columns that they take."""
    coor = coor or (0,)
    yield coor, pipe, vs
    parts = [item[1:] for item in getattr(pipe, "steps", ())]
    parts += [item[1:] for item in getattr(pipe, "transformer_list", ())]
    parts += [item[1:] for item in getattr(pipe, "transformers_", ())]
    for place, (part, *columns) in enumerate(parts):
        if part is not None and not isinstance(part, str):
            yield from enumerate_pipeline_models(part, (*coor, place), columns[0] if columns else None)
