"""Whether a file and its source have the same weights: what a factory draws anew is another model each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from onnxport.frameworks import Framework
from onnxport.model import OnnxModel

_MOST = 200  # weights that are looked at


def note(source: object, framework: Framework, file: OnnxModel) -> str:
    """That weights of a file have other values than those of its source that have their names; "" where none has.

    Only values are compared: a weight may stand in the file in another layout.
    """
    weights, to_numpy = _weights(source), framework.to_numpy
    if to_numpy is None:
        return ""
    held = {name: value.const_value for name, value in file.model.graph.initializers.items()}
    common = [(name, tensor, weights[name]) for name, tensor in held.items() if tensor is not None and name in weights]
    seen = [name for name, tensor, own in common[:_MOST] if _differ(tensor.numpy(), to_numpy(own))]
    if not seen:
        return ""
    text = f"{len(seen)} of {len(common[:_MOST])} weights of the file have other values than the source's ({seen[0]!r})"
    if 2 * len(seen) < len(common):
        return text
    return f"{text}: a source that draws its weights anew is another model each time; load them, or fix the seed"


def _weights(source: object) -> Mapping[str, object]:
    """A model's weights by their names in files."""
    state: Callable[[], Mapping[str, object]] | None = getattr(source, "state_dict", None)
    if callable(state):
        return state()
    weights = getattr(source, "weights", None)  # a Keras model's, whose layers are called without the model's own name
    paths = [(str(getattr(item, "path", "")), item) for item in weights] if isinstance(weights, list) else []
    return {path[start:]: item for path, item in paths for start in _starts(path)}


def _starts(path: str) -> list[int]:
    return [0, *(place + 1 for place, letter in enumerate(path) if letter == "/")]


def _differ(one: np.ndarray, other: object) -> bool:
    values = np.asarray(other)
    if one.size != values.size or one.dtype != values.dtype or one.dtype.kind != "f":
        return False
    return not np.array_equal(np.sort(one, axis=None), np.sort(values, axis=None))
