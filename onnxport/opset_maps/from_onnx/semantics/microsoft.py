"""Operators of com.microsoft that onnxruntime's optimisers and quantisers write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.cases import Case, f32, i32
from onnxport.opset_maps.from_onnx.axes import int_op, resolved
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.semantics import elementwise, linear, normalization, windows
from onnxport.opset_maps.from_onnx.values import Tensor, optional
from onnxport.opset_maps.maps import onnx
from onnxport.opset_maps.registry import Function

MICROSOFT = "com.microsoft"


def microsoft_op(op_type: str, *cases: Case) -> Callable[[Function], Function]:
    """Registers the decorated function for an operator of com.microsoft."""
    return onnx.op(op_type, versions=(1,), domain=MICROSOFT, cases=cases)


_ROWS = "float[N, 4] x"


def _node(call: str, *inputs: Any, operands: str = _ROWS, result: str = "float[N, 4] y") -> Any:
    return graph(f"({operands}) => ({result}) {{y = com.microsoft.{call}}}", *inputs)


@microsoft_op("QuickGelu", _node("QuickGelu <alpha = 1.5> (x)", f32(3, 4)))
def quick_gelu(xp: Namespace, x: Tensor, *, alpha: float = 1.702) -> Tensor:
    """x sigmoid(alpha x)."""
    return elementwise.swish(xp, x, alpha=alpha)


@microsoft_op("Gelu", _node("Gelu (x)", f32(3, 4)))
def gelu(xp: Namespace, x: Tensor) -> Tensor:
    """x times the normal distribution function of x."""
    return elementwise.gelu(xp, x)


class FusedMatMulAttributes(linear.ProductAttributes, total=False):
    """Attributes of FusedMatMul."""

    transBatchA: int
    transBatchB: int


@microsoft_op(
    "FusedMatMul",
    _node(
        "FusedMatMul <alpha = 0.5, transB = 1> (x, w)",
        f32(2, 3, 4),
        f32(5, 4),
        operands="float[N, 3, 4] x, float[5, 4] w",
        result="float[N, 3, 5] y",
    ),
    _node(
        "FusedMatMul <transA = 1> (x, w)",
        f32(2, 4, 3),
        f32(2, 4, 5),
        operands="float[N, 4, 3] x, float[N, 4, 5] w",
        result="float[N, 3, 5] y",
    ),
)
def fused_matmul(xp: Namespace, a: Tensor, b: Tensor, **form: Unpack[FusedMatMulAttributes]) -> Tensor:
    """alpha A B, each transposed first where asked for: `transBatch` moves the first axis before the last."""

    def turned(x: Tensor, transposed: int | None, batch: int | None) -> Tensor:
        order = list(range(xp.ndim(x)))
        if batch:
            order = [*order[1:-1], order[0], order[-1]]
        if transposed:
            order[-2:] = order[:-3:-1]
        return x if order == sorted(order) else xp.permute_dims(x, order)

    left = turned(a, form.get("transA"), form.get("transBatchA"))
    product = xp.matmul(left, turned(b, form.get("transB"), form.get("transBatchB")))
    alpha = form.get("alpha", 1.0)
    return product if alpha == 1 else xp.multiply(product, alpha)


@microsoft_op("BiasGelu", _node("BiasGelu (x, b)", f32(3, 4), f32(4), operands=f"{_ROWS}, float[4] b"))
def bias_gelu(xp: Namespace, x: Tensor, bias: Tensor) -> Tensor:
    """Gelu of x + bias."""
    return elementwise.gelu(xp, xp.add(x, bias))


@microsoft_op(
    "FastGelu",
    _node("FastGelu (x)", f32(3, 4)),
    _node("FastGelu (x, b)", f32(3, 4), f32(4), operands=f"{_ROWS}, float[4] b"),
)
def fast_gelu(xp: Namespace, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """The tanh form of Gelu, of x + bias."""
    return elementwise.gelu(xp, x if bias is None else xp.add(x, bias), approximate="tanh")


class FusedActivation(TypedDict, total=False):
    """The activation of a fused operator and its parameters."""

    activation: str
    activation_params: Sequence[float]
    activation_alpha: float
    activation_beta: float
    activation_gamma: float


class FusedConvAttributes(windows.ConvAttributes, FusedActivation, total=False):
    """Attributes of FusedConv."""


class FusedGemmAttributes(linear.GemmAttributes, FusedActivation, total=False):
    """Attributes of FusedGemm."""


def _activated(xp: Namespace, x: Tensor, form: FusedActivation) -> Tensor:
    """x after the activation of a fused operator."""
    kind = form.get("activation", "")
    numbers = tuple(form.get("activation_params") or ())
    if not numbers:
        alpha = {"LeakyRelu": 0.01, "HardSigmoid": 0.2}.get(kind, 1.0)
        numbers = (form.get("activation_alpha", alpha), form.get("activation_beta", 0.5))
    match kind:
        case "":
            return x
        case "Relu":
            return xp.clip(x, 0)
        case "Tanh":
            return xp.tanh(x)
        case "Sigmoid":
            return xp.sigmoid(x)
        case "LeakyRelu":
            return elementwise.leaky_relu(xp, x, alpha=numbers[0])
        case "Clip":
            return xp.clip(x, numbers[0], numbers[1])
        case "HardSigmoid":
            return elementwise.hard_sigmoid(xp, x, alpha=numbers[0], beta=numbers[1])
        case "HardSwish":
            return xp.elementwise("HardSwish", x)
        case "Softplus":
            return xp.softplus(x)
        case "Softsign":
            return xp.divide(x, xp.add(xp.abs(x), 1.0))
        case "Elu":
            return elementwise.elu(xp, x, alpha=numbers[0])
        case "ThresholdedRelu":
            return elementwise.thresholded_relu(xp, x, alpha=numbers[0])
    raise UnsupportedOperator(f"activation {kind!r}")


def _convolved(attributes: str, names: str, operands: str = "", *inputs: Any, height: int = 3, width: int = 4) -> Case:
    return _node(
        f"FusedConv <{attributes}> ({names})",
        f32(2, 3, 5, 6),
        f32(4, 3, 3, 3),
        *inputs,
        operands=f"float[N, 3, 5, 6] x, float[4, 3, 3, 3] w{operands}",
        result=f"float[N, 4, {height}, {width}] y",
    )


@microsoft_op(
    "FusedConv",
    _convolved(
        'activation = "LeakyRelu", activation_params = [0.2], pads = [1, 1, 1, 1]',
        "x, w, b",
        ", float[4] b",
        f32(4),
        height=5,
        width=6,
    ),
    _convolved('activation = "Relu"', "x, w, b, z", ", float[4] b, float[N, 4, 3, 4] z", f32(4), f32(2, 4, 3, 4)),
    _convolved('activation = "HardSigmoid", activation_params = [0.3, 0.4]', "x, w"),
    _convolved('activation = "HardSwish"', "x, w"),
)
def fused_conv(
    xp: Namespace, x: Tensor, w: Tensor, *more: Tensor | None, **form: Unpack[FusedConvAttributes]
) -> Tensor:
    """Convolution, the sum with another image, and an activation."""
    b, added = optional(more, 2)
    result = windows.conv(xp, x, w, b, **form)  # type: ignore[misc]  # a convolution's attributes are among them
    return _activated(xp, result if added is None else xp.add(result, added), form)


def _multiplied(attributes: str, *weight: int) -> Case:
    return _node(
        f"FusedGemm <{attributes}> (x, w, b)",
        f32(3, 4),
        f32(*weight),
        f32(5),
        operands=f"{_ROWS}, float{list(weight)} w, float[5] b",
        result="float[N, 5] y",
    )


@microsoft_op(
    "FusedGemm",
    _multiplied('activation = "Relu", alpha = 0.5, transB = 1', 5, 4),
    _multiplied('activation = "LeakyRelu", activation_alpha = 0.3', 4, 5),
    _multiplied('activation = "Softplus"', 4, 5),
    _multiplied('activation = "Softsign"', 4, 5),
    _multiplied('activation = "Elu", activation_alpha = 0.7', 4, 5),
    _multiplied('activation = "ThresholdedRelu", activation_alpha = 0.3', 4, 5),
)
def fused_gemm(
    xp: Namespace, a: Tensor, b: Tensor, c: Tensor | None = None, **form: Unpack[FusedGemmAttributes]
) -> Tensor:
    """A product and an activation."""
    plain = linear.GemmAttributes(
        alpha=form.get("alpha", 1.0),
        beta=form.get("beta", 1.0),
        transA=form.get("transA", 0),
        transB=form.get("transB", 0),
    )
    return _activated(xp, linear.gemm(xp, a, b, c, **plain), form)


_SKIP = "float[N, 3, 4] x, float[N, 3, 4] s, float[4] g, float[4] b, float[4] c"


def _skipped(xp: Namespace, x: Tensor, skip: Tensor, bias: Tensor | None) -> Tensor:
    total = xp.add(x, skip)
    return total if bias is None else xp.add(total, bias)


def _with_sum(xp: Namespace, result: Tensor, total: Tensor) -> Any:
    """The result, and the sum before it as the fourth one."""
    return result if xp.output_count < 4 else (result, None, None, total)


@microsoft_op(
    "SkipLayerNormalization",
    _node(
        "SkipLayerNormalization <epsilon = 0.01> (x, s, g, b, c)",
        *[f32(2, 3, 4)] * 2,
        *[f32(4)] * 3,
        operands=_SKIP,
        result="float[N, 3, 4] y",
    ),
)
def skip_layer_normalization(
    xp: Namespace, x: Tensor, skip: Tensor, gamma: Tensor, *more: Tensor | None, epsilon: float = 1e-5
) -> Any:
    """Layer normalisation of x + skip + bias."""
    beta, bias = optional(more, 2)
    total = _skipped(xp, x, skip, bias)
    normal = normalization.standardised(xp, total, (xp.ndim(x) - 1,), epsilon)[0]
    result = xp.multiply(normal, gamma)
    return _with_sum(xp, result if beta is None else xp.add(result, beta), total)


def _root_mean(xp: Namespace, x: Tensor, epsilon: float) -> Tensor:
    """x divided by the root of the mean of its squares along the last axis."""
    square = xp.mean(xp.square(x), (xp.ndim(x) - 1,), True)
    return xp.multiply(x, xp.reciprocal(xp.sqrt(xp.add(square, epsilon))))


@microsoft_op(
    "SkipSimplifiedLayerNormalization",
    _node(
        "SkipSimplifiedLayerNormalization <epsilon = 0.01> (x, s, g, b)",
        *[f32(2, 3, 4)] * 2,
        *[f32(4)] * 2,
        operands="float[N, 3, 4] x, float[N, 3, 4] s, float[4] g, float[4] b",
        result="float[N, 3, 4] y",
    ),
)
def skip_simplified_layer_normalization(
    xp: Namespace,
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-5,
) -> Any:
    """Root mean square normalisation of x + skip + bias."""
    total = _skipped(xp, x, skip, bias)
    return _with_sum(xp, xp.multiply(_root_mean(xp, total, epsilon), gamma), total)


@onnx.op(
    "SimplifiedLayerNormalization",
    versions=(1,),
    cases=[
        graph(
            "(float[N, 4] x, float[4] g) => (float[N, 4] y) "
            "{y = SimplifiedLayerNormalization <axis = -1, epsilon = 0.01> (x, g)}",
            f32(3, 4),
            f32(4),
        )
    ],
)
def simplified_layer_normalization(
    xp: Namespace, x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Root mean square normalisation, as onnxruntime writes it in the domain of ONNX."""
    if axis not in (-1, xp.ndim(x) - 1):
        raise UnsupportedOperator(f"axis {axis} of {xp.ndim(x)}")
    dtype = xp.dtype(x)
    wide = xp.astype(x, ir.DataType(stash_type))
    return xp.multiply(xp.astype(_root_mean(xp, wide, epsilon), dtype), scale)


def _embedded(*, given: str, more: str, inputs: Any) -> Any:
    ids = "int32[N, 3] ids, int32[N, 3] kinds, float[9, 4] w, float[5, 4] p, float[2, 4] s, float[4] g, float[4] b"
    return graph(
        f"({ids}{more}) => (float[N, 3, 4] y) "
        f"{{y, m = com.microsoft.EmbedLayerNormalization <epsilon = 0.01> (ids, kinds, w, p, s, g, b{given})}}",
        i32(2, 3, low=0, high=9),
        i32(2, 3, low=0, high=2),
        f32(9, 4),
        f32(5, 4),
        f32(2, 4),
        f32(4),
        f32(4),
        *inputs,
    )


@microsoft_op(
    "EmbedLayerNormalization",
    _embedded(given="", more="", inputs=()),
    _embedded(
        given=", mask, places",
        more=", int32[N, 3] mask, int32[N, 3] places",
        inputs=(i32(2, 3, low=0, high=2), i32(2, 3, low=0, high=5)),
    ),
)
def embed_layer_normalization(
    xp: Namespace,
    ids: Tensor,
    segment_ids: Tensor | None,
    words: Tensor,
    places: Tensor,
    segments: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 1,
) -> Any:
    """Layer normalisation of the sum of embeddings; how many words of each row count; the sum."""
    if not mask_index_type:
        raise UnsupportedOperator("mask_index_type 0")
    length = xp.shape(ids)[1]
    total = xp.take(words, xp.astype(ids, ir.DataType.INT64), 0)
    positions = xp.arange(0, length) if position_ids is None else xp.astype(position_ids, ir.DataType.INT64)
    total = xp.add(total, xp.take(places, positions, 0))
    if segment_ids is not None and segments is not None:
        total = xp.add(total, xp.take(segments, xp.astype(segment_ids, ir.DataType.INT64), 0))
    normal = normalization.standardised(xp, total, (2,), epsilon)[0]
    result = xp.add(xp.multiply(normal, gamma), beta)
    counted = xp.zeros((xp.shape(ids)[0],), ir.DataType.INT32)
    if mask is not None:
        counted = xp.sum(mask, (1,))
    return (result, counted, total)[: xp.output_count] if xp.output_count > 1 else result


def _distances(metric: str) -> Case:
    return _node(
        f'CDist <metric = "{metric}"> (x, z)',
        f32(3, 4),
        f32(5, 4),
        operands=f"{_ROWS}, float[5, 4] z",
        result="float[N, 5] y",
    )


@microsoft_op("CDist", _distances("sqeuclidean"), _distances("euclidean"))
def distances(xp: Namespace, a: Tensor, b: Tensor, *, metric: str = "sqeuclidean") -> Tensor:
    """Squared Euclidean distances of the rows of two matrices, or their roots."""
    if metric not in ("sqeuclidean", "euclidean"):
        raise UnsupportedOperator(f"metric {metric!r}")
    gaps = xp.subtract(xp.expand_dims(a, (1,)), xp.expand_dims(b, (0,)))
    squares = xp.sum(xp.square(gaps), (2,))
    return xp.sqrt(squares) if metric == "euclidean" else squares


@microsoft_op(
    "UnfoldTensor",
    _node("UnfoldTensor <size = 2> (x)", f32(3, 4), result="float[N, 3, 2] y"),
    _node(
        "UnfoldTensor <dim = 1, size = 3, step = 2> (x)",
        f32(2, 8, 3),
        operands="float[N, 8, 3] x",
        result="float[N, 3, 3, 3] y",
    ),
    _node("UnfoldTensor <dim = 0, size = 2> (x)", f32(5, 4), result="float[M, 4, 2] y"),
)
def unfold_tensor(xp: Namespace, x: Tensor, *, dim: int = -1, size: int, step: int = 1) -> Tensor:
    """Windows of an axis, `step` apart, which stands for their number; what stands in each is a last axis."""
    axis = resolved(dim, xp.ndim(x))
    count = int_op(xp, "floor_div", int_op(xp, "sub", xp.shape(x)[axis], size), step)
    stop = int_op(xp, "mul", count, step)
    places = [xp.slice(x, axis, k, int_op(xp, "add", stop, k + 1), step) for k in range(size)]
    return xp.stack(places, xp.ndim(x))
