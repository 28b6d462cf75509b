"""ONNX operators that are whole layers of Keras."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import keras
import numpy as np

from onnxport.opset_maps.from_onnx.keras.namespace import KerasNamespace
from onnxport.opset_maps.from_onnx.keras.recognised import FLOATS, dense, has_pooling, pooling, same_pads, with_weights
from onnxport.opset_maps.from_onnx.keras.tensors import KerasValue, Parameter
from onnxport.opset_maps.from_onnx.semantics.linear import GemmAttributes
from onnxport.opset_maps.from_onnx.semantics.normalization import BatchNormAttributes, LayerNormAttributes, batch_trains
from onnxport.opset_maps.from_onnx.values import Host
from onnxport.opset_maps.from_onnx.windows import PoolAttributes
from onnxport.opset_maps.maps import keras_native as native


def _all_weights(*items: object) -> bool:
    return all(isinstance(item, Parameter) for item in items if item is not None)


@native.op("Gemm", versions=(7, 9, 11, 13))
def gemm(
    xp: KerasNamespace, a: KerasValue, b: KerasValue, c: KerasValue | None = None, **form: Unpack[GemmAttributes]
) -> Any:
    """Dense."""
    scaled = form.get("alpha", 1.0) != 1.0 or (c is not None and form.get("beta", 1.0) != 1.0)
    if scaled or form.get("transA") or not _all_weights(b, c):
        return NotImplemented
    kernel = b.after("permute_dims", (1, 0)) if form.get("transB") else b
    if c is not None and (int(np.prod(c.shape)) != kernel.shape[1] or c.shape[-1:] != (kernel.shape[1],)):
        return NotImplemented
    result = dense(xp, a, kernel, c)
    return NotImplemented if result is None else result


@native.op("BatchNormalization", versions=(7, 9, 14, 15))
def batch_normalization(
    xp: KerasNamespace, x: KerasValue, *statistics: KerasValue, **form: Unpack[BatchNormAttributes]
) -> Any:
    """BatchNormalization of the channels."""
    trains = batch_trains(xp, form) or not form.get("spatial", 1)  # before version 9, a statistic for each element
    if trains or xp.output_count > 1 or not xp.is_symbolic(x) or x.dtype not in FLOATS:
        return NotImplemented
    weights = [item for item in statistics if isinstance(item, Parameter)]
    if len(weights) < len(statistics) or xp.ndim(x) < 2 or x.shape[1] is None:
        return NotImplemented
    momentum, epsilon = form.get("momentum", 0.9), form.get("epsilon", 1e-5)
    image = xp.as_last(x) if xp.ndim(x) > 2 else x
    options = {"axis": -1, "momentum": momentum, "epsilon": epsilon, "dtype": x.dtype}
    make = partial(keras.layers.BatchNormalization, **options)
    layer = with_weights(
        xp, "batch", image, weights, lambda name: make(name=name), lambda: [item.array() for item in weights], epsilon
    )
    y = xp.apply(layer, image)
    return xp.as_first(y) if xp.ndim(x) > 2 else y


@native.op("LayerNormalization", versions=(17,))
def layer_normalization(
    xp: KerasNamespace, x: KerasValue, *affine: KerasValue | None, **form: Unpack[LayerNormAttributes]
) -> Any:
    """LayerNormalization over the last axis."""
    scale, bias = (*affine, None)[:2]
    if not xp.is_symbolic(x) or xp.output_count > 1 or x.dtype not in FLOATS:
        return NotImplemented
    if not isinstance(scale, Parameter) or not _all_weights(bias):
        return NotImplemented
    axis, epsilon = form.get("axis", -1), form.get("epsilon", 1e-5)
    if axis not in (-1, xp.ndim(x) - 1) or x.shape[-1] is None or scale.shape != (x.shape[-1],):
        return NotImplemented
    options = {"axis": -1, "epsilon": epsilon, "center": bias is not None, "dtype": x.dtype}
    make = partial(keras.layers.LayerNormalization, **options)
    given = [item for item in (scale, bias) if item is not None]
    layer = with_weights(
        xp, "layer norm", x, (scale, bias), lambda name: make(name=name), lambda: [i.array() for i in given], epsilon
    )
    return xp.apply(layer, x)


@native.op("Dropout", versions=(7, 10, 12, 13, 22))
def dropout(
    xp: KerasNamespace, x: KerasValue, share: Host | None = None, training: Host | None = None, **early: Any
) -> Any:
    """Dropout, which Keras does in training alone."""
    if not xp.is_symbolic(x) or x.dtype not in FLOATS or xp.output_count > 1:
        return NotImplemented
    if any(item is not None and item.dtype == object for item in (share, training)):
        return NotImplemented
    if training is not None and bool(training.reshape(-1)[0]):
        return NotImplemented
    rate = float(share.reshape(-1)[0]) if share is not None else early.get("ratio", 0.5)
    return xp.apply(keras.layers.Dropout(rate, name=xp.layer_name("dropout"), dtype=x.dtype), x)


@native.op("MaxPool", versions=(1, 8, 10, 11, 12, 22))
def max_pool(xp: KerasNamespace, x: KerasValue, **form: Unpack[PoolAttributes]) -> Any:
    """MaxPooling."""
    return _pooled(xp, x, "Max", form)


@native.op("AveragePool", versions=(1, 7, 10, 11, 19, 22))
def average_pool(xp: KerasNamespace, x: KerasValue, **form: Unpack[PoolAttributes]) -> Any:
    """AveragePooling."""
    return _pooled(xp, x, "Average", form)


def _pooled(xp: KerasNamespace, x: KerasValue, kind: str, form: PoolAttributes) -> Any:
    """Pooling without padding or with Keras' padding="same"; count_include_pad is the mean's alone."""
    if not xp.is_symbolic(x) or xp.output_count > 1 or not has_pooling(x, len(form["kernel_shape"])):
        return NotImplemented
    kernel_shape, pads, auto_pad = form["kernel_shape"], form.get("pads"), form.get("auto_pad", "NOTSET")
    spatial = len(kernel_shape)
    strides = form.get("strides") or (1,) * spatial
    dilated = any(d != 1 for d in form.get("dilations") or ())
    if form.get("ceil_mode") or dilated or auto_pad == "SAME_LOWER":
        return NotImplemented
    image = xp.as_last(x)
    padding = "valid"
    if auto_pad == "SAME_UPPER":
        padding = "same"
    elif auto_pad == "NOTSET" and any(pads or ()):
        pairs = list(zip(pads[:spatial], pads[spatial:], strict=True)) if pads else []
        axes = zip(pairs, image.shape[1:-1], kernel_shape, strides, strict=True)
        if not all(tuple(pair) == same_pads(n, k, s, 1) for pair, n, k, s in axes):
            return NotImplemented
        padding = "same"
    if padding == "same" and form.get("count_include_pad"):
        return NotImplemented
    if padding == "same" and kind == "Average" and keras.backend.backend() == "torch":
        return NotImplemented  # there Keras' mean (3.15) is of the padding too
    return xp.as_first(pooling(xp, kind, image, kernel_shape, strides, padding))


@native.op("Softmax", versions=(13,))
def softmax(xp: KerasNamespace, x: KerasValue, *, axis: int = -1) -> Any:
    """Softmax."""
    if not xp.is_symbolic(x) or x.dtype not in FLOATS:
        return NotImplemented
    return xp.softmax(x, axis % xp.ndim(x))


@native.op("LeakyRelu", versions=(6, 16))
def leaky_relu(xp: KerasNamespace, x: KerasValue, *, alpha: float = 0.01) -> Any:
    """LeakyReLU."""
    return _activated(xp, x, lambda: keras.layers.LeakyReLU(alpha, name=xp.layer_name("leaky_re_lu"), dtype=x.dtype))


@native.op("Elu", versions=(6, 22))
def elu(xp: KerasNamespace, x: KerasValue, *, alpha: float = 1.0) -> Any:
    """ELU."""
    return _activated(xp, x, lambda: keras.layers.ELU(alpha, name=xp.layer_name("elu"), dtype=x.dtype))


@native.op("Gelu", versions=(20,))
def gelu(xp: KerasNamespace, x: KerasValue, *, approximate: str = "none") -> Any:
    """Gelu in its exact form; of float64 the layer's root of 2 is a float32."""
    if approximate != "none" or x.dtype == "float64":
        return NotImplemented
    return _activated(xp, x, lambda: keras.layers.Activation("gelu", name=xp.layer_name("gelu"), dtype=x.dtype))


def _activated(xp: KerasNamespace, x: KerasValue, make: Callable[[], keras.layers.Layer]) -> Any:
    if not xp.is_symbolic(x) or x.dtype not in FLOATS:
        return NotImplemented
    twin = xp.twin(x)
    return xp.apply(make(), x) if twin is None else xp.as_first(xp.apply(make(), twin))
