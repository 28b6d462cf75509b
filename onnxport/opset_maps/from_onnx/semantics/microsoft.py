"""Operators of com.microsoft that onnxruntime's optimisers and quantisers write."""

from __future__ import annotations

from typing import Any

from onnxport.opset_maps.cases import f32
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.semantics import elementwise, normalization
from onnxport.opset_maps.from_onnx.values import Tensor
from onnxport.opset_maps.maps import onnx

MICROSOFT = "com.microsoft"
_ROWS = "float[N, 4] x"


def _node(call: str, *inputs: Any, operands: str = _ROWS, result: str = "float[N, 4] y") -> Any:
    return graph(f"({operands}) => ({result}) {{y = com.microsoft.{call}}}", *inputs)


@onnx.op("QuickGelu", versions=(1,), domain=MICROSOFT, cases=[_node("QuickGelu <alpha = 1.5> (x)", f32(3, 4))])
def quick_gelu(xp: Namespace, x: Tensor, *, alpha: float = 1.702) -> Tensor:
    """x sigmoid(alpha x)."""
    return elementwise.swish(xp, x, alpha=alpha)


@onnx.op("Gelu", versions=(1,), domain=MICROSOFT, cases=[_node("Gelu (x)", f32(3, 4))])
def gelu(xp: Namespace, x: Tensor) -> Tensor:
    """x times the normal distribution function of x."""
    return elementwise.gelu(xp, x)


@onnx.op(
    "FusedMatMul",
    versions=(1,),
    domain=MICROSOFT,
    cases=[
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
    ],
)
def fused_matmul(
    xp: Namespace,
    a: Tensor,
    b: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    """alpha A B, each transposed first where asked for: `transBatch` moves the first axis before the last."""

    def turned(x: Tensor, transposed: int, batch: int) -> Tensor:
        order = list(range(xp.ndim(x)))
        if batch:
            order = [*order[1:-1], order[0], order[-1]]
        if transposed:
            order[-2:] = order[:-3:-1]
        return x if order == sorted(order) else xp.permute_dims(x, order)

    product = xp.matmul(turned(a, transA, transBatchA), turned(b, transB, transBatchB))
    return product if alpha == 1 else xp.multiply(product, alpha)


_SKIP = "float[N, 3, 4] x, float[N, 3, 4] s, float[4] g, float[4] b, float[4] c"


def _skipped(xp: Namespace, x: Tensor, skip: Tensor, bias: Tensor | None) -> Tensor:
    total = xp.add(x, skip)
    return total if bias is None else xp.add(total, bias)


def _with_sum(xp: Namespace, result: Tensor, total: Tensor) -> Any:
    """The result, and the sum before it as the fourth one."""
    return result if xp.output_count < 4 else (result, None, None, total)


@onnx.op(
    "SkipLayerNormalization",
    versions=(1,),
    domain=MICROSOFT,
    cases=[
        _node(
            "SkipLayerNormalization <epsilon = 0.01> (x, s, g, b, c)",
            *[f32(2, 3, 4)] * 2,
            *[f32(4)] * 3,
            operands=_SKIP,
            result="float[N, 3, 4] y",
        )
    ],
)
def skip_layer_normalization(
    xp: Namespace,
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-5,
) -> Any:
    """Layer normalisation of x + skip + bias."""
    total = _skipped(xp, x, skip, bias)
    normal = normalization.standardised(xp, total, (xp.ndim(x) - 1,), epsilon)[0]
    result = xp.multiply(normal, gamma)
    return _with_sum(xp, result if beta is None else xp.add(result, beta), total)
