"""Attention as torch's own function."""

from __future__ import annotations

from typing import Any, Unpack

import onnx_ir as ir
import torch
import torch.nn.functional as F

from onnxport.opset_maps.from_onnx.pytorch.namespace import TorchNamespace
from onnxport.opset_maps.from_onnx.pytorch.operators import floating
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor
from onnxport.opset_maps.from_onnx.semantics.attention import AttentionAttributes, AttentionHeads
from onnxport.opset_maps.from_onnx.values import known
from onnxport.opset_maps.maps import pytorch_native


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor, scale: float | None, grouped: bool
) -> torch.Tensor:
    """torch's attention under a mask whose rows may forbid every key; such a query gives zeros."""
    result = F.scaled_dot_product_attention(q, k, v, bias, scale=scale, enable_gqa=grouped)
    empty = (bias == -torch.inf).all(-1, keepdim=True)
    return torch.where(empty, torch.zeros((), dtype=result.dtype, device=result.device), result)


@pytorch_native.op("Attention", versions=(23, 24, 25))
def attention(
    xp: TorchNamespace,
    q: TorchTensor,
    k: TorchTensor,
    v: TorchTensor,
    *optional: TorchTensor | None,
    **form: Unpack[AttentionAttributes],
) -> Any:
    """torch's scaled_dot_product_attention, in single and double precision."""
    dtype, precision = xp.dtype(q), form.get("softmax_precision")
    if form.get("softcap") or xp.wants(3) or dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        return NotImplemented
    if not floating(xp, q, k, v) or (precision is not None and ir.DataType(precision).bitwidth > dtype.bitwidth):
        return NotImplemented
    heads = AttentionHeads.of(xp, q, k, v, optional, form)
    queries, groups = xp.shape(heads.q)[1], xp.shape(heads.k)[1]
    if not (known(queries) and known(groups)):
        return NotImplemented
    operands, options = (heads.q, heads.k, heads.v), {"scale": form.get("scale"), "enable_gqa": queries != groups}
    if heads.sees_all and not heads.causal:
        result = xp.call(F.scaled_dot_product_attention, *operands, **options)
    elif heads.sees_all and heads.past is None:
        result = xp.call(F.scaled_dot_product_attention, *operands, is_causal=True, **options)
    else:
        result = xp.call(attend, *operands, heads.bias(xp), form.get("scale"), queries != groups)
    return heads.outputs(xp, result)
