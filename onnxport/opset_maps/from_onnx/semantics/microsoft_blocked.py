"""Operators of com.microsoft.nchwc, which onnxruntime writes for the processor that it optimises a graph on.

Their images hold channels in blocks, as many as a vector register takes. Here such an image is an ordinary one whose channels are
filled up with zeros to whole blocks; the weights of convolutions are brought back from blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Unpack

import numpy as np
import onnx as onnx_package

from onnxport.errors import OnnxportError, UnsupportedOperator
from onnxport.graph.runtime import Session
from onnxport.opset_maps.cases import Case, f32
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.semantics import image, microsoft, windows
from onnxport.opset_maps.from_onnx.values import Ints, Tensor, all_known, known
from onnxport.opset_maps.maps import onnx
from onnxport.opset_maps.registry import Function

BLOCKED = "com.microsoft.nchwc"
_PROBE = f"""<ir_version: 8, opset_import: ["": 17, "{BLOCKED}": 1]>
probe (float[1, 4, 1, 1] x) => (float[a, b, c, d] y) {{y = {BLOCKED}.ReorderInput (x)}}"""


@cache
def block_size() -> int:
    """How many channels onnxruntime takes as a block on this processor; a file that it optimised elsewhere may have others.

    Raises:
        UnsupportedOperator: it has no such operators here.
    """
    try:
        return int(
            Session(onnx_package.parser.parse_model(_PROBE)).run({"x": np.zeros((1, 4, 1, 1), np.float32)})[0].shape[1]
        )
    except OnnxportError as error:
        raise UnsupportedOperator(f"onnxruntime has no {BLOCKED} on this processor") from error


def _blocked(op_type: str, *cases: Case) -> Callable[[Function], Function]:
    return onnx.op(op_type, versions=(1,), domain=BLOCKED, cases=cases)


def _between(call: str) -> Case:
    """An operator on an image, which others bring into blocks and out of them."""
    nodes = f"a = {BLOCKED}.ReorderInput (x) b = {BLOCKED}.{call} y = {BLOCKED}.ReorderOutput <channels = 4> (b)"
    return graph(f"(float[N, 4, 5, 6] x) => (float[N, 4, h, w] y) {{{nodes}}}", f32(2, 4, 5, 6))


_LAST = f"""(float[N, 5, 6, 4] x) => (float[N, 5, 6, 4] y) {{
    a = {BLOCKED}.ReorderInput <channels_last = 1> (x) y = {BLOCKED}.ReorderOutput <channels = 4, channels_last = 1> (a) }}"""


@_blocked("ReorderInput", graph(_LAST, f32(2, 5, 6, 4)))
def reorder_input(xp: Namespace, x: Tensor, *, channels_last: int = 0) -> Tensor:
    """An image in blocks of channels."""
    if channels_last:
        rank = xp.ndim(x)
        x = xp.permute_dims(x, (0, rank - 1, *range(1, rank - 1)))
    count = xp.shape(x)[1]
    if not known(count):
        raise UnsupportedOperator("an image with an open number of channels")
    rest = -int(count) % block_size()
    return xp.pad(x, [(0, 0), (0, rest), *[(0, 0)] * (xp.ndim(x) - 2)]) if rest else x


@_blocked("ReorderOutput", graph(_LAST, f32(2, 5, 6, 4)))
def reorder_output(xp: Namespace, x: Tensor, *, channels: int, channels_last: int = 0) -> Tensor:
    """An image out of blocks of channels."""
    held, size = xp.shape(x)[1], block_size()
    if not known(held) or held != channels + -channels % size:
        raise UnsupportedOperator(
            f"{held} channels for {channels}: the file is of a processor of other blocks than {size}"
        )
    rank = xp.ndim(x)
    plain = x if held == channels else xp.slice(x, 1, 0, channels)
    return xp.permute_dims(plain, (0, *range(2, rank), 1)) if channels_last else plain


def _out_of_blocks(xp: Namespace, w: Tensor) -> Tensor:
    """The weight of a convolution: results in blocks, and within those its operands, where they fill blocks too."""
    size = block_size()
    sizes = xp.shape(w)
    if not all_known(sizes):
        raise UnsupportedOperator("a weight of an open size")
    outs, ins, *kernel = (int(n) for n in sizes)
    if outs % size or (ins > size and ins % size):
        raise UnsupportedOperator(
            f"a weight of {outs} x {ins} channels: the file is of a processor of other blocks than {size}"
        )
    places = range(2, len(kernel) + 2)
    if ins < size:
        parts = xp.reshape(w, (outs // size, ins, *kernel, size))
        return xp.reshape(xp.permute_dims(parts, (0, len(kernel) + 2, 1, *places)), (outs, ins, *kernel))
    parts = xp.reshape(w, (outs // size, ins // size, *kernel, size, size))
    order = (0, len(kernel) + 3, 1, len(kernel) + 2, *places)
    return xp.reshape(xp.permute_dims(parts, order), (outs, ins, *kernel))


def _convolved(inputs: str, ins: int, *more: Any, attributes: str = "pads = [1, 1, 1, 1]", channels: int = 16) -> Case:
    """Of an image that is in blocks already, a convolution to 16 channels, which are whole blocks on any processor."""
    operands = "".join(f", float{list(item.shape)} {name}" for name, item in zip("bz", more, strict=False))
    start = f"a = {BLOCKED}.ReorderInput (x) " if inputs[0] == "a" else ""
    nodes = f"{start}c = {BLOCKED}.Conv <{attributes}> ({inputs})"
    return graph(
        f"(float[N, {channels}, 5, 6] x, float[16, {ins}, 3, 3] w{operands}) => (float[N, 16, h, v] y) "
        f"{{{nodes} y = {BLOCKED}.ReorderOutput <channels = 16> (c)}}",
        f32(2, channels, 5, 6),
        f32(16, ins, 3, 3),
        *more,
    )


@_blocked(
    "Conv",
    _convolved("a, w", 16),
    _convolved("x, w, b", 3, f32(16), channels=3, attributes='strides = [2, 1], activation = "Relu"'),
    _convolved(
        "a, w, b", 1, f32(16), attributes='group = 16, activation = "HardSigmoid", activation_params = [0.3, 0.4]'
    ),
    _convolved("a, w, b, a", 16, f32(16), attributes='pads = [1, 1, 1, 1], activation = "Tanh"'),
)
def conv(
    xp: Namespace, x: Tensor, w: Tensor, *more: Tensor | None, **form: Unpack[microsoft.FusedConvAttributes]
) -> Tensor:
    """Convolution of an image in blocks, or of one of few channels as it is; a sum and an activation."""
    return microsoft.fused_conv(xp, x, _out_of_blocks(xp, w), *more, **form)


@_blocked("MaxPool", _between("MaxPool <kernel_shape = [2, 3], strides = [1, 2], pads = [1, 0, 0, 1]> (a)"))
def max_pool(xp: Namespace, x: Tensor, **form: Unpack[windows.PoolAttributes]) -> Any:
    """Greatest element of each window."""
    return windows.max_pool(xp, x, **form)


@_blocked(
    "AveragePool", _between("AveragePool <kernel_shape = [2, 3], pads = [1, 0, 0, 1], count_include_pad = 1> (a)")
)
def average_pool(xp: Namespace, x: Tensor, **form: Unpack[windows.PoolAttributes]) -> Tensor:
    """Mean of each window."""
    return windows.average_pool(xp, x, **form)


@_blocked("GlobalAveragePool", _between("GlobalAveragePool (a)"))
def global_average_pool(xp: Namespace, x: Tensor) -> Tensor:
    """Mean of each channel."""
    return xp.mean(x, tuple(range(2, xp.ndim(x))), True)


@_blocked("GlobalMaxPool", _between("GlobalMaxPool (a)"))
def global_max_pool(xp: Namespace, x: Tensor) -> Tensor:
    """Greatest element of each channel."""
    return xp.max(x, tuple(range(2, xp.ndim(x))), True)


@_blocked(
    "Upsample",
    _between("Upsample <scales = [1, 1, 2, 3]> (a)"),
    _between('Upsample <scales = [1, 1, 2, 2], mode = "linear", coordinate_transformation_mode = "half_pixel"> (a)'),
)
def upsample(
    xp: Namespace,
    x: Tensor,
    *,
    scales: Ints,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "asymmetric",
) -> Tensor:
    """Enlarged by whole factors."""
    form: image.ResizeAttributes = {"mode": mode, "nearest_mode": "floor"}
    form["coordinate_transformation_mode"] = coordinate_transformation_mode
    return image.enlarged(xp, x, scales, form)
