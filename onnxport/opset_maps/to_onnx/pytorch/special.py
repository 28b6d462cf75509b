"""Special functions that take more than tensors; the others are rows of the shared table."""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, f64
from onnxport.opset_maps.lowerings import special
from onnxport.opset_maps.maps import aten


@aten.lower(
    "aten::polygamma",
    "aten::special_polygamma",
    cases=[
        *(
            case(lambda x, n=n: torch.polygamma(n, x), f32(20, low=0.1, high=20.0), name=f"polygamma-{n}")
            for n in range(4)
        ),
        case(lambda x: torch.special.polygamma(2, x), f64(20, low=0.1)),
    ],
)
def polygamma(op: OpBuilder, n: int, x: ir.Value) -> ir.Value:
    """The n-th derivative of digamma."""
    return special.polygamma(op, n, op.cast(x, op.result.dtype))


@aten.lower(
    "aten::mvlgamma",
    "aten::special_multigammaln",
    cases=[case(lambda x: torch.mvlgamma(x, 3), f32(2, 5, low=1.5, high=20.0), dynamic=True)],
)
def multigammaln(op: OpBuilder, x: ir.Value, p: int) -> ir.Value:
    """The sum of p log gammas."""
    return special.multigammaln(op, op.cast(x, op.result.dtype), p)
