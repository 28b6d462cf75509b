"""Primitives that are whole layers of Keras: each function gives the layer's result, or None where no layer computes the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeGuard, Unpack

import keras
import numpy as np

from onnxport.opset_maps.from_onnx.keras.parameters import KerasValue, Parameter
from onnxport.opset_maps.from_onnx.keras.tensors import KerasTensorFamily
from onnxport.opset_maps.from_onnx.values import Axes, GroupedStrides, Pads, known

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_ACTIVATIONS = {
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "HardSwish": "hard_silu",
    "Mish": "mish",
}
_MERGES = {
    "Add": keras.layers.Add,
    "Sub": keras.layers.Subtract,
    "Mul": keras.layers.Multiply,
    "Max": keras.layers.Maximum,
    "Min": keras.layers.Minimum,
}
_CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
_TRANSPOSED = (keras.layers.Conv1DTranspose, keras.layers.Conv2DTranspose, keras.layers.Conv3DTranspose)
_DEPTHWISE = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)
_PADDINGS = (keras.layers.ZeroPadding1D, keras.layers.ZeroPadding2D, keras.layers.ZeroPadding3D)
_MAX_POOLINGS = (keras.layers.MaxPooling1D, keras.layers.MaxPooling2D, keras.layers.MaxPooling3D)
_GLOBAL = {
    "Average": (
        keras.layers.GlobalAveragePooling1D,
        keras.layers.GlobalAveragePooling2D,
        keras.layers.GlobalAveragePooling3D,
    ),
    "Max": (keras.layers.GlobalMaxPooling1D, keras.layers.GlobalMaxPooling2D, keras.layers.GlobalMaxPooling3D),
}


def module_of(*parameters: Parameter | None) -> str:
    """The path of the module that holds weights of these names: what stands before their last part.

    >>> from types import SimpleNamespace
    >>> module_of(SimpleNamespace(name="features.0.weight"))
    'features.0'
    """
    name = next(item.name for item in parameters if item is not None)
    stem = re.sub(r":\d+$", "", name)
    head = re.split(r"[./]", stem)
    return ".".join(head[:-1]) or stem


def policy(x: keras.KerasTensor) -> str | None:
    """The dtype policy of a layer that only moves elements: Keras' own would cast them to float32."""
    return x.dtype if x.dtype in _FLOATS else None


def _is_weight(item: object) -> TypeGuard[Parameter]:
    return isinstance(item, Parameter)


def _fill(layer: keras.layers.Layer, *weights: np.ndarray[Any, Any] | None) -> None:
    layer.set_weights([weight for weight in weights if weight is not None])


def elementwise(xp: KerasTensorFamily, name: str, xs: Sequence[Any]) -> Any:
    """Activations, and merges of two tensors of one shape."""
    x = xs[0]
    if len(xs) == 1 and xp.is_symbolic(x) and x.dtype in _FLOATS:
        if name == "Relu":
            return xp.apply(keras.layers.ReLU(name=xp.layer_name("re_lu"), dtype=x.dtype), x)
        if name in _ACTIVATIONS:
            function = _ACTIVATIONS[name]
            return xp.apply(keras.layers.Activation(function, name=xp.layer_name(function), dtype=x.dtype), x)
    if len(xs) == 2 and name in _MERGES and all(xp.is_symbolic(item) for item in xs):
        a, b = xs
        # Sizes that are not known may differ, one of them being 1: rows of a batch alone are surely as many.
        if a.dtype in _FLOATS and len(a.shape) > 1 and tuple(a.shape) == tuple(b.shape) and None not in a.shape[1:]:
            layer = _MERGES[name](name=xp.layer_name(name.lower()), dtype=a.dtype)
            return xp.apply(layer, a, b, listed=True)
    return None


def reshape(xp: KerasTensorFamily, x: keras.KerasTensor, shape: Sequence[int]) -> Any:
    """A reshape that leaves the batch alone."""
    if list(x.shape[1:]) == list(shape):
        return x
    if len(shape) == 1 and None not in x.shape[1:]:
        return xp.apply(keras.layers.Flatten(name=xp.layer_name("flatten"), dtype=policy(x)), x)
    return xp.apply(keras.layers.Reshape(tuple(shape), name=xp.layer_name("reshape"), dtype=policy(x)), x)


def global_pool(xp: KerasTensorFamily, kind: str, x: keras.KerasTensor, axis: Axes, keepdims: bool) -> Any:
    """A mean or greatest element over all axes between batch and channels."""
    if not xp.is_symbolic(x) or axis is None or x.dtype not in _FLOATS:
        return None
    rank = xp.ndim(x)
    if rank not in (3, 4, 5) or tuple(axis) != tuple(range(1, rank - 1)):
        return None
    name = xp.layer_name(f"global_{kind.lower()}_pooling")
    layer = _GLOBAL[kind][rank - 3](data_format="channels_last", keepdims=keepdims, name=name, dtype=x.dtype)
    return xp.apply(layer, x)


def dense(xp: KerasTensorFamily, x: keras.KerasTensor, kernel: KerasValue, bias: KerasValue | None = None) -> Any:
    """A product with a matrix of weights on the last axis."""
    if not xp.is_symbolic(x) or not _is_weight(kernel) or len(kernel.shape) != 2 or x.dtype not in _FLOATS:
        return None
    if xp.ndim(x) < 2 or x.shape[-1] is None or (bias is not None and not _is_weight(bias)):
        return None
    units = kernel.shape[1]

    def make() -> Any:
        name = xp.layer_name(module_of(kernel, bias))
        layer = keras.layers.Dense(units, use_bias=bias is not None, name=name, dtype=x.dtype)
        layer.build(x.shape)
        _fill(layer, kernel.array(), None if bias is None else bias.array().reshape(units))
        return layer

    layer = xp.layer(("dense", kernel.key, bias.key if bias is not None else None), make)
    result = xp.apply(layer, x)

    def with_bias(added: Parameter) -> Any:
        if added.shape[-1:] != (units,) or int(np.prod(added.shape)) != units or len(added.shape) > xp.ndim(x):
            return None
        xp.names.release(layer.name)  # the layer without bias has no other use
        return dense(xp, x, kernel, added)

    if bias is None:
        xp.products[id(result)] = (result, with_bias)
    return result


def embedding(xp: KerasTensorFamily, table: KerasValue, indices: KerasValue, axis: int) -> Any:
    """Rows of a matrix of weights."""
    if not _is_weight(table) or len(table.shape) != 2 or axis != 0 or not xp.is_symbolic(indices):
        return None
    held = table.array()
    if held.dtype.name not in _FLOATS:
        return None

    def make() -> Any:
        name = xp.layer_name(module_of(table))
        layer = keras.layers.Embedding(*table.shape, name=name, dtype=held.dtype.name)
        layer.build()
        _fill(layer, held)
        return layer

    return xp.apply(xp.layer(("embedding", table.key), make), indices)


# -- convolutions ----------------------------------------------------------------------------------------------------------


def same_pads(n: int | None, kernel: int, stride: int, dilation: int) -> tuple[int, int] | None:
    """What Keras' padding="same" puts before and after an axis; None where that depends on an unknown size."""
    reach = (kernel - 1) * dilation
    if stride == 1:
        total = reach
    elif n is None:
        return None
    else:
        total = max((-(-n // stride) - 1) * stride + reach + 1 - n, 0)
    return total // 2, total - total // 2


def _padded(
    xp: KerasTensorFamily,
    x: keras.KerasTensor,
    pads: Pads,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[Any, str] | None:
    """The image and the padding that the layer itself does."""
    pairs = [(int(a), int(b)) for a, b in pads if known(a) and known(b)]
    if len(pairs) < len(pads):
        return None
    if all(pair == (0, 0) for pair in pairs):
        return x, "valid"
    axes = zip(pairs, x.shape[1:-1], kernel, strides, dilations, strict=True)
    if all(pair == same_pads(n, k, s, d) for pair, n, k, s, d in axes):
        return x, "same"
    amount = pairs[0] if len(pairs) == 1 else tuple(pairs)
    name = xp.layer_name("zero_padding")
    return xp.apply(
        _PADDINGS[len(pairs) - 1](amount, data_format="channels_last", name=name, dtype=x.dtype), x
    ), "valid"


def convolution(
    xp: KerasTensorFamily,
    x: keras.KerasTensor,
    weight: KerasValue,
    bias: KerasValue | None,
    *,
    strides: Sequence[int],
    pads: Pads,
    dilations: Sequence[int],
    groups: int = 1,
) -> Any:
    """Conv1D to Conv3D, and DepthwiseConv where each channel is on its own."""
    spatial = xp.ndim(x) - 2
    if not xp.is_symbolic(x) or not _is_weight(weight) or spatial not in (1, 2, 3) or x.dtype not in _FLOATS:
        return None
    if (bias is not None and not _is_weight(bias)) or x.shape[-1] is None:
        return None
    if any(s > 1 for s in strides) and any(d > 1 for d in dilations):
        return None
    out, per_group, *kernel = weight.shape
    padded = _padded(xp, x, pads, kernel, strides, dilations)
    if padded is None:
        return None
    image, padding = padded
    shared = {
        "kernel_size": tuple(kernel),
        "strides": tuple(strides),
        "padding": padding,
        "dilation_rate": tuple(dilations),
        "use_bias": bias is not None,
        "data_format": "channels_last",
        "dtype": x.dtype,
    }
    depthwise = per_group == 1 and groups == x.shape[-1] and groups > 1 and spatial < 3 and len(set(strides)) == 1

    def make() -> Any:
        array = weight.array()
        name = xp.layer_name(module_of(weight, bias))
        if depthwise:
            layer = _DEPTHWISE[spatial - 1](depth_multiplier=out // groups, name=name, **shared)
            array = np.moveaxis(array[:, 0], 0, -1).reshape(*kernel, groups, out // groups)
        else:
            layer = _CONVOLUTIONS[spatial - 1](filters=out, groups=groups, name=name, **shared)
            array = np.transpose(array, (*range(2, spatial + 2), 1, 0))
        layer.build(image.shape)
        _fill(layer, array, None if bias is None else bias.array())
        return layer

    key = (
        "conv",
        weight.key,
        bias.key if bias is not None else None,
        padding,
        tuple(strides),
        tuple(dilations),
        groups,
    )
    return xp.apply(xp.layer(key, make), image)


def transposed_convolution(
    xp: KerasTensorFamily,
    x: keras.KerasTensor,
    weight: KerasValue,
    bias: KerasValue | None,
    **form: Unpack[GroupedStrides],
) -> Any:
    """Conv1DTranspose to Conv3DTranspose without padding."""
    strides = form["strides"]
    spatial = xp.ndim(x) - 2
    if not xp.is_symbolic(x) or not _is_weight(weight) or spatial not in (1, 2, 3) or x.dtype not in _FLOATS:
        return None
    kernel = weight.shape[2:]
    if (
        form.get("groups", 1) != 1
        or any(d != 1 for d in form["dilations"])
        or any(s > k for s, k in zip(strides, kernel, strict=True))
    ):
        return None  # a stride beyond the kernel makes Keras' result longer
    if (bias is not None and not _is_weight(bias)) or x.shape[-1] is None:
        return None

    def make() -> Any:
        layer = _TRANSPOSED[spatial - 1](
            weight.shape[1],
            tuple(kernel),
            strides=tuple(strides),
            padding="valid",
            data_format="channels_last",
            use_bias=bias is not None,
            name=xp.layer_name(module_of(weight, bias)),
            dtype=x.dtype,
        )
        layer.build(x.shape)
        array = np.transpose(weight.array(), (*range(2, spatial + 2), 1, 0))
        _fill(layer, array, None if bias is None else bias.array())
        return layer

    key = ("conv_transpose", weight.key, bias.key if bias is not None else None, tuple(strides))
    return xp.apply(xp.layer(key, make), x)


def max_pooling(
    xp: KerasTensorFamily,
    x: keras.KerasTensor,
    kernel: Sequence[int],
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Any:
    """MaxPooling1D to MaxPooling3D without padding."""
    if not xp.is_symbolic(x) or x.dtype not in ("float32", "float64") or len(kernel) not in (1, 2, 3):
        return None
    if any(d != 1 for d in dilations):
        return None
    layer = _MAX_POOLINGS[len(kernel) - 1](
        tuple(kernel),
        tuple(strides),
        "valid",
        data_format="channels_last",
        name=xp.layer_name("max_pooling"),
        dtype=x.dtype,
    )
    return xp.apply(layer, x)
