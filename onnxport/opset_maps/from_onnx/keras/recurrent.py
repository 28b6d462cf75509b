"""RNN, GRU and LSTM as the layers of Keras, one a direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import keras
import numpy as np

from onnxport.opset_maps.from_onnx.axes import part
from onnxport.opset_maps.from_onnx.keras.namespace import KerasNamespace
from onnxport.opset_maps.from_onnx.keras.recognised import module_of
from onnxport.opset_maps.from_onnx.keras.tensors import KerasValue, Parameter
from onnxport.opset_maps.from_onnx.semantics.recurrent import BACKWARD, RecurrentAttributes, outputs_of
from onnxport.opset_maps.from_onnx.values import Array, optional
from onnxport.opset_maps.maps import keras_native as native

_DEFAULTS = {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}
# The order of ONNX's gates (i o f c, z r h) in Keras' (i f c o, z r h).
_GATES = {"RNN": (0,), "GRU": (0, 1, 2), "LSTM": (0, 2, 3, 1)}
_KINDS: dict[str, type[keras.layers.Layer]] = {
    "RNN": keras.layers.SimpleRNN,
    "GRU": keras.layers.GRU,
    "LSTM": keras.layers.LSTM,
}


def _functions(kind: str, attributes: RecurrentAttributes, directions: int) -> list[dict[str, str]] | None:
    """The activations of each direction as the layer's arguments; None where it has none of them, or has no such form."""
    defaults = _DEFAULTS[kind]
    names = [item.lower() for item in attributes.get("activations", ())][: len(defaults) * directions]
    names = names or list(defaults) * directions
    odd = attributes.get("clip") or attributes.get("input_forget") or len(names) < len(defaults) * directions
    if odd or any(name not in ("sigmoid", "tanh", "relu") for name in names):
        return None
    results = []
    for first in range(0, len(names), len(defaults)):
        chosen = names[first : first + len(defaults)]
        if kind == "LSTM" and chosen[1] != chosen[2]:
            return None
        gates = {} if kind == "RNN" else {"recurrent_activation": chosen[0]}
        results.append({"activation": chosen[-1], **gates})
    return results


def _ordered(kind: str, array: Array) -> Array:
    """Gates along axis 0 in Keras' order."""
    gates = np.split(array, len(_GATES[kind]), axis=0)
    return np.concatenate([gates[place] for place in _GATES[kind]], axis=0)


def _contents(kind: str, weights: Sequence[Parameter | None], index: int, after: bool) -> list[Array]:
    """The contents of a layer's kernels and bias: those of inputs and state are one unless the state's is reset first."""
    w, r, *b = (item.array()[index] for item in weights if item is not None)
    arrays = [_ordered(kind, w).T, _ordered(kind, r).T]
    if b:
        biases = [_ordered(kind, piece) for piece in np.split(b[0], 2)]
        arrays.append(np.stack(biases) if after else biases[0] + biases[1])
    return arrays


def _recurrent(kind: str, xp: KerasNamespace, operands: Sequence[Any], attributes: RecurrentAttributes) -> Any:
    x, w, r, *rest = operands
    b, lengths, *states, peepholes = optional(rest, 5)
    backward = BACKWARD.get(attributes.get("direction", "forward"), ())
    functions = _functions(kind, attributes, len(backward))
    weights = [w, r] if b is None else [w, r, b]
    if functions is None or not backward or lengths is not None or peepholes is not None:
        return NotImplemented
    if not all(isinstance(item, Parameter) for item in weights) or not xp.is_symbolic(x) or xp.ndim(x) != 3:
        return NotImplemented
    if x.dtype not in ("float32", "float64") or x.shape[2] is None:
        return NotImplemented
    batch_first = bool(attributes.get("layout", 0))
    steps = x if batch_first else xp.permute_dims(x, (1, 0, 2))
    after = bool(kind == "GRU" and attributes.get("linear_before_reset"))
    given = [item for item in states[: 2 if kind == "LSTM" else 1] if item is not None]
    if given and kind == "LSTM" and len(given) < 2:
        return NotImplemented
    results = []
    for index, (reverse, chosen) in enumerate(zip(backward, functions, strict=True)):
        initial = [xp.as_symbolic(part(xp, item, 1 if batch_first else 0, index)) for item in given]
        layer = _layer(kind, xp, steps, (w, r, b), index, {"go_backwards": reverse, **chosen}, after)
        options: dict[str, Any] = {"initial_state": initial} if initial else {}
        y, *lasts = xp.apply(layer, steps, **options)
        y = xp.record("flip", y, (1,)) if reverse else y
        results.append((xp.permute_dims(y, (1, 0, 2)), *lasts))
    return outputs_of(xp, results, batch_first)


def _layer(
    kind: str,
    xp: KerasNamespace,
    steps: keras.KerasTensor,
    weights: tuple[Parameter, Parameter, Parameter | None],
    index: int,
    how: dict[str, Any],
    after: bool,
) -> Any:
    w, r, b = weights

    def build() -> Any:
        options = {
            "return_sequences": True,
            "return_state": True,
            "use_bias": b is not None,
            "dtype": steps.dtype,
            **how,
        }
        reset = {"reset_after": after} if kind == "GRU" else {}
        layer = _KINDS[kind](r.shape[2], name=xp.layer_name(module_of(*weights)), **options, **reset)
        layer.build(steps.shape)
        layer.set_weights(_contents(kind, weights, index, after))
        return layer

    key = (kind, w.key, r.key, None if b is None else b.key, index, after, *sorted(how.items()))
    return xp.layer(key, build)


@native.op("RNN", versions=(7, 14, 22))
def rnn(xp: KerasNamespace, *operands: KerasValue | None, **attributes: Unpack[RecurrentAttributes]) -> Any:
    """SimpleRNN."""
    return _recurrent("RNN", xp, operands, attributes)


@native.op("GRU", versions=(7, 14, 22))
def gru(xp: KerasNamespace, *operands: KerasValue | None, **attributes: Unpack[RecurrentAttributes]) -> Any:
    """GRU."""
    return _recurrent("GRU", xp, operands, attributes)


@native.op("LSTM", versions=(7, 14, 22))
def lstm(xp: KerasNamespace, *operands: KerasValue | None, **attributes: Unpack[RecurrentAttributes]) -> Any:
    """LSTM."""
    return _recurrent("LSTM", xp, operands, attributes)
