"""Primitives that are whole layers of Keras: each function gives the layer's result, or None where no layer computes the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard, Unpack

import keras
import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.from_onnx.keras.tensors import KerasTensorFamily, KerasValue, Parameter
from onnxport.opset_maps.from_onnx.values import Array, Axes, GroupedStrides, Ints, PaddedStrides, Strides, known

FLOATS = ("float16", "bfloat16", "float32", "float64")
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
    return x.dtype if x.dtype in FLOATS else None


def _is_weight(item: object) -> TypeGuard[Parameter]:
    return isinstance(item, Parameter)


def _of_rank(kind: str, spatial: int) -> type[keras.layers.Layer]:
    """Keras' layer over so many spatial axes: ``"Conv{}D"``."""
    return getattr(keras.layers, kind.format(spatial))


def with_weights(
    xp: KerasTensorFamily,
    kind: str,
    x: keras.KerasTensor,
    parameters: Sequence[Parameter | None],
    make: Callable[[str], keras.layers.Layer],
    arrays: Callable[[], Sequence[Array]],
    *form: object,
) -> keras.layers.Layer:
    """The layer of a kind that holds these parameters: the same one for the same parameters and form.

    Args:
        xp: the namespace.
        kind: what tells the layer from others of the same weights.
        x: what it is called on first.
        parameters: the model's weights, None for one that is left out.
        make: the layer of a name.
        arrays: the contents of its weights.
        form: what else it depends on.
    """

    def build() -> Any:
        layer = make(xp.layer_name(module_of(*parameters)))
        build_with(layer, x.shape, arrays())
        return layer

    return xp.layer((kind, *(None if item is None else item.key for item in parameters), *form), build)


def build_with(layer: keras.layers.Layer, shape: Sequence[int | None], arrays: Sequence[Array]) -> None:
    """Builds a layer for inputs of a shape, with its weights: Keras alone would draw numbers for them first."""
    asked: list[tuple[int, ...]] = []

    def content(shape: Sequence[int], dtype: str | None = None) -> Any:
        asked.append(tuple(shape))
        array = arrays[len(asked) - 1] if len(asked) <= len(arrays) else None
        if array is None or array.shape != asked[-1]:
            return keras.ops.zeros(shape, dtype)
        # Of the backends TensorFlow alone copies what it is given.
        return keras.ops.convert_to_tensor(array if keras.backend.backend() == "tensorflow" else np.array(array), dtype)

    own = {name: item for name, item in vars(layer).items() if name.endswith("_initializer") and item is not None}
    for name in own:
        setattr(layer, name, content)
    try:
        layer.build(shape)
    finally:
        for name, item in own.items():
            setattr(layer, name, item)
    # Weights stand in the order of their creation, those that are not trained behind the others.
    if asked != [array.shape for array in arrays] or layer.non_trainable_variables or len(layer.weights) != len(asked):
        layer.set_weights(arrays)


def _contents(kernel: Array, bias: Parameter | None) -> list[Array]:
    return [kernel] if bias is None else [kernel, bias.array().reshape(-1)]


def elementwise(xp: KerasTensorFamily, name: str, xs: Sequence[Any]) -> Any:
    """Activations, and merges of two tensors of one shape."""
    x = xs[0]
    if len(xs) == 1 and xp.is_symbolic(x) and x.dtype in FLOATS:
        if name == "Relu":
            return xp.apply(keras.layers.ReLU(name=xp.layer_name("re_lu"), dtype=x.dtype), x)
        if name in _ACTIVATIONS:
            function = _ACTIVATIONS[name]
            return xp.apply(keras.layers.Activation(function, name=xp.layer_name(function), dtype=x.dtype), x)
    if len(xs) == 2 and name in _MERGES and all(xp.is_symbolic(item) for item in xs):
        a, b = xs
        # Sizes that are not known may differ, one of them being 1: rows of a batch alone are surely as many. Of nothing, Keras
        # takes a second operand for a bias.
        alike = len(a.shape) > 1 and tuple(a.shape) == tuple(b.shape) and None not in a.shape[1:]
        if a.dtype in FLOATS and alike and 0 not in a.shape:
            layer = _MERGES[name](name=xp.layer_name(name.lower()), dtype=a.dtype)
            return xp.apply(layer, a, b, listed=True)
    return None


def reshape(xp: KerasTensorFamily, x: keras.KerasTensor, shape: Ints) -> Any:
    """A reshape that leaves the batch alone."""
    if list(x.shape[1:]) == list(shape):
        return x
    if len(shape) == 1 and None not in x.shape[1:]:
        return xp.apply(keras.layers.Flatten(name=xp.layer_name("flatten"), dtype=policy(x)), x)
    return xp.apply(keras.layers.Reshape(tuple(shape), name=xp.layer_name("reshape"), dtype=policy(x)), x)


def global_pool(
    xp: KerasTensorFamily, x: keras.KerasTensor, axis: Axes = None, keepdims: bool = False, *, kind: str
) -> Any:
    """A mean or greatest element over all axes between batch and channels."""
    if not xp.is_symbolic(x) or axis is None or x.dtype not in FLOATS:
        return None
    rank = xp.ndim(x)
    if rank not in (3, 4, 5) or tuple(axis) != tuple(range(1, rank - 1)):
        return None
    options = {"keepdims": keepdims, "name": xp.layer_name(f"global_{kind.lower()}_pooling"), "dtype": x.dtype}
    layer = _of_rank(f"Global{kind}Pooling{{}}D", rank - 2)(data_format="channels_last", **options)
    return xp.apply(layer, x)


def dense(xp: KerasTensorFamily, x: keras.KerasTensor, kernel: KerasValue, bias: KerasValue | None = None) -> Any:
    """A product with a matrix of weights on the last axis."""
    if not xp.is_symbolic(x) or not _is_weight(kernel) or len(kernel.shape) != 2 or x.dtype not in FLOATS:
        return None
    if xp.ndim(x) < 2 or x.shape[-1] is None or (bias is not None and not _is_weight(bias)):
        return None
    units = kernel.shape[1]
    layer = with_weights(
        xp,
        "dense",
        x,
        (kernel, bias),
        lambda name: keras.layers.Dense(units, use_bias=bias is not None, name=name, dtype=x.dtype),
        lambda: _contents(kernel.array(), bias),
    )
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
    if held.dtype.name not in FLOATS:
        return None
    layer = with_weights(
        xp,
        "embedding",
        indices,
        (table,),
        lambda name: keras.layers.Embedding(*table.shape, name=name, dtype=held.dtype.name),
        lambda: [held],
    )
    return xp.apply(layer, indices)


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


def _padded(xp: KerasTensorFamily, x: keras.KerasTensor, kernel: Ints, form: PaddedStrides) -> tuple[Any, str] | None:
    """The image and the padding that the layer itself does."""
    pads = form["pads"]
    pairs = [(int(a), int(b)) for a, b in pads if known(a) and known(b)]
    if len(pairs) < len(pads):
        return None
    if all(pair == (0, 0) for pair in pairs):
        return x, "valid"
    axes = zip(pairs, x.shape[1:-1], kernel, form["strides"], form["dilations"], strict=True)
    if all(pair == same_pads(n, k, s, d) for pair, n, k, s, d in axes):
        return x, "same"
    amount = pairs[0] if len(pairs) == 1 else tuple(pairs)
    name = xp.layer_name("zero_padding")
    kind = _of_rank("ZeroPadding{}D", len(pairs))
    return xp.apply(kind(amount, data_format="channels_last", name=name, dtype=x.dtype), x), "valid"


def convolution(
    xp: KerasTensorFamily, x: KerasValue, w: KerasValue, bias: KerasValue | None = None, **how: Unpack[PaddedStrides]
) -> Any:
    """Conv1D to Conv3D, and DepthwiseConv where each channel is on its own."""
    strides, dilations = how["strides"], how["dilations"]
    spatial = xp.ndim(x) - 2
    if not xp.is_symbolic(x) or not _is_weight(w) or spatial not in (1, 2, 3) or x.dtype not in FLOATS:
        return None
    if (bias is not None and not _is_weight(bias)) or x.shape[-1] is None:
        return None
    if any(s > 1 for s in strides) and any(d > 1 for d in dilations):
        return None
    _, per_group, *kernel = w.shape
    padded = _padded(xp, x, kernel, how)
    if padded is None:
        return None
    image, padding = padded
    if spatial == 2 and per_group == 1 and strides[1] > 1 and keras.backend.backend() == "tensorflow":
        columns = image.shape[2]
        if columns is None or columns - (kernel[1] - 1) * dilations[1] - 1 < strides[1]:
            return None  # TensorFlow (2.21) computes a single column of one channel wrong; the primitive knows
    return _convolution_layer(xp, image, padding, w, bias, how)


def _convolution_layer(
    xp: KerasTensorFamily, x: keras.KerasTensor, padding: str, w: Parameter, bias: Parameter | None, how: PaddedStrides
) -> Any:
    strides, dilations, groups = how["strides"], how["dilations"], how.get("groups", 1)
    out, per_group, *kernel = w.shape
    spatial = len(kernel)
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

    def make(name: str) -> Any:
        if depthwise:
            return _of_rank("DepthwiseConv{}D", spatial)(depth_multiplier=out // groups, name=name, **shared)
        return _of_rank("Conv{}D", spatial)(filters=out, groups=groups, name=name, **shared)

    def arrays() -> list[Array]:
        array = w.array()
        if depthwise:
            array = np.moveaxis(array[:, 0], 0, -1).reshape(*kernel, groups, out // groups)
        else:
            array = np.transpose(array, (*range(2, spatial + 2), 1, 0))
        return _contents(array, bias)

    form = padding, tuple(strides), tuple(dilations), groups
    layer = with_weights(xp, "conv", x, (w, bias), make, arrays, *form)
    result = xp.apply(layer, x)

    def with_bias(added: Parameter) -> Any:
        if added.shape[-1:] != (out,) or int(np.prod(added.shape)) != out or len(added.shape) > xp.ndim(x):
            return None
        xp.names.release(layer.name)  # the layer without bias has no other use
        return _convolution_layer(xp, x, padding, w, added, how)

    if bias is None:
        xp.products[id(result)] = (result, with_bias)
    return result


def transposed_convolution(
    xp: KerasTensorFamily, x: KerasValue, w: KerasValue, bias: KerasValue | None = None, **form: Unpack[GroupedStrides]
) -> Any:
    """Conv1DTranspose to Conv3DTranspose without padding."""
    strides = form["strides"]
    spatial = xp.ndim(x) - 2
    if not xp.is_symbolic(x) or not _is_weight(w) or spatial not in (1, 2, 3) or x.dtype not in FLOATS:
        return None
    kernel = w.shape[2:]
    if (
        form.get("groups", 1) != 1
        or any(d != 1 for d in form["dilations"])
        or any(s > k for s, k in zip(strides, kernel, strict=True))
    ):
        return None  # a stride beyond the kernel makes Keras' result longer
    if (bias is not None and not _is_weight(bias)) or x.shape[-1] is None:
        return None

    def make(name: str) -> Any:
        shared = {"strides": tuple(strides), "use_bias": bias is not None, "name": name, "dtype": x.dtype}
        kind = _of_rank("Conv{}DTranspose", spatial)
        return kind(w.shape[1], tuple(kernel), padding="valid", data_format="channels_last", **shared)

    def arrays() -> list[Array]:
        return _contents(np.transpose(w.array(), (*range(2, spatial + 2), 1, 0)), bias)

    return xp.apply(with_weights(xp, "conv_transpose", x, (w, bias), make, arrays, tuple(strides)), x)


def has_pooling(x: keras.KerasTensor, spatial: int) -> bool:
    """Whether Keras' pooling layers run on an image of this type: TensorFlow has no kernel for three axes of float64."""
    return spatial in (1, 2, 3) and (x.dtype == "float32" or (x.dtype == "float64" and spatial < 3))


def pooling(xp: KerasTensorFamily, kind: str, x: keras.KerasTensor, kernel: Ints, strides: Ints, padding: str) -> Any:
    """MaxPooling1D to AveragePooling3D of a channels-last image."""
    options = {"data_format": "channels_last", "name": xp.layer_name(f"{kind.lower()}_pooling"), "dtype": x.dtype}
    layer = _of_rank(f"{kind}Pooling{{}}D", len(kernel))(tuple(kernel), tuple(strides), padding, **options)
    return xp.apply(layer, x)


def max_pooling(xp: KerasTensorFamily, x: keras.KerasTensor, kernel: Ints, **form: Unpack[Strides]) -> Any:
    """MaxPooling1D to MaxPooling3D without padding."""
    if not xp.is_symbolic(x) or any(d != 1 for d in form["dilations"]):
        return None
    if x.dtype in ("float16", "bfloat16", "int8", "uint8"):  # each of whose numbers FLOAT has
        wide = max_pooling(xp, xp.astype(x, ir.DataType.FLOAT), kernel, **form)
        return None if wide is None else xp.astype(wide, xp.dtype(x))
    if not has_pooling(x, len(kernel)):
        return None
    return pooling(xp, "Max", x, kernel, form["strides"], "valid")
