"""Attention."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, case, f32
from onnxport.opset_maps.lowerings.axes import rank
from onnxport.opset_maps.maps import aten

_FUSED = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_PADDING = np.array([True, True, False, True, False])


def _repeated(x: torch.Tensor) -> torch.Tensor:
    """Each head twice, as decoders repeat those that several heads of the query share."""
    batch, heads, length, width = x.shape
    return x[:, :, None].expand(batch, heads, 2, length, width).reshape(batch, heads * 2, length, width)


@aten.lower(
    "aten::scaled_dot_product_attention",
    cases=[
        case(F.scaled_dot_product_attention, f32(2, 3, 4, 8), f32(2, 3, 5, 8), f32(2, 3, 5, 6), dynamic=True),
        case(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            *[f32(2, 3, 4, 8)] * 3,
            dynamic=True,
        ),
        case(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            f32(2, 4, 8),
            f32(2, 6, 8),
            f32(2, 6, 8),
        ),
        case(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), *[f32(2, 3, 4, 8)] * 3, f32(4, 4)),
        case(F.scaled_dot_product_attention, f32(2, 3, 4, 0), f32(2, 3, 5, 0), f32(2, 3, 5, 2)),
        case(
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), *[f32(2, 3, 4, 8)] * 3, boolean(2, 1, 4, 4)
        ),
        case(
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m.expand(1, 1, 4, 5), scale=0.3),
            f32(1, 3, 4, 8),
            f32(1, 3, 5, 8),
            f32(1, 3, 5, 8),
            _PADDING,
        ),
        case(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.full((4, 4), -torch.inf).triu(0)),
            *[f32(2, 3, 4, 8)] * 3,
            name="row-without-keys",
        ),
        case(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            f32(2, 6, 4, 8),
            f32(2, 3, 5, 8),
            f32(2, 3, 5, 8),
            dynamic=True,
        ),
        case(
            lambda q, k, v, m: F.scaled_dot_product_attention(q, _repeated(k), _repeated(v), m),
            f32(2, 6, 4, 8),
            f32(2, 3, 5, 8),
            f32(2, 3, 5, 8),
            boolean(2, 1, 4, 5),
            name="repeated-heads",
            dynamic=True,
        ),
    ],
)
def scaled_dot_product_attention(
    op: OpBuilder,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    attn_mask: ir.Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> ir.Value:
    """Attention from opset 23; before, its matrix products and softmax. A query that may see no key gives 0, as in torch."""
    if dropout_p:
        raise UnsupportedOperator("dropout in attention has no ONNX form; call model.eval()")
    scale = _scale(query) if scale is None else scale
    fused = (
        op.opset >= 23 and query.dtype in _FUSED and rank(query) == rank(key) == rank(value) and rank(query) in (3, 4)
    )
    if any(item.shape is not None and item.shape[-1] == 0 for item in (query, value)):
        fused = False  # heads without numbers are written as products
    few_keys, few_values = _unrepeated(key), _unrepeated(value)
    if few_keys is not None and few_values is not None and _heads(few_keys) == _heads(few_values):
        key, value = few_keys, few_values
    elif enable_gqa:  # of a known number each, or refused
        _heads(key), _heads(query)
    attend = _fused if fused else _written_out
    result = attend(op, query, key, value, attn_mask, is_causal, scale)
    return result if attn_mask is None else _without_blind(op, result, attn_mask)


@aten.lower(
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    cases=[
        case(
            lambda q, k, v, m: _on_cpu(q, k, v, attn_mask=m, scale=0.3),
            *[f32(2, 3, 4, 8)] * 3,
            f32(2, 1, 4, 4),
        ),
        case(lambda q, k, v: _on_cpu(q, k, v, is_causal=True), *[f32(2, 3, 4, 8)] * 3, dynamic=True),
    ],
)
def attention_on_cpu(
    op: OpBuilder,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: ir.Value | None = None,
    scale: float | None = None,
) -> tuple[ir.Value, ir.Value]:
    """Attention, and the logarithm of the sum of each query's exponentials, which torch's decomposition gives otherwise."""
    result = scaled_dot_product_attention(op, query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
    scores = _scores(op, query, key, attn_mask, is_causal, scale or _scale(query))
    return result, op.reduce("ReduceLogSumExp", scores, [-1], keepdims=False)


def _fused(
    op: OpBuilder, query: ir.Value, key: ir.Value, value: ir.Value, mask: ir.Value | None, is_causal: bool, scale: float
) -> ir.Value:
    if rank(query) == 3:
        query, key, value = (op.Unsqueeze(item, op.axes(1)) for item in (query, key, value))
        if mask is not None and rank(mask) == 3:
            mask = op.Unsqueeze(mask, op.axes(1))
        return op.Squeeze(_fused(op, query, key, value, mask, is_causal, scale), op.axes(1))
    return op.Attention(query, key, value, mask, is_causal=int(is_causal), scale=scale, outputs=1)


def _written_out(
    op: OpBuilder, query: ir.Value, key: ir.Value, value: ir.Value, mask: ir.Value | None, is_causal: bool, scale: float
) -> ir.Value:
    shares = op.Softmax(_scores(op, query, key, mask, is_causal, scale), axis=-1)
    if not _is_grouped(query, key):
        return op.MatMul(shares, value)
    return _as_heads(op, op.MatMul(_as_heads(op, shares, _heads(key)), value), _heads(query))


def _scores(
    op: OpBuilder, query: ir.Value, key: ir.Value, mask: ir.Value | None, is_causal: bool, scale: float
) -> ir.Value:
    axes = list(range(rank(key)))
    turned, grouped = op.Transpose(key, perm=[*axes[:-2], axes[-1], axes[-2]]), _is_grouped(query, key)
    rows = _as_heads(op, query, _heads(key)) if grouped else query
    scores = op.Mul(op.MatMul(rows, turned), float(scale))
    if grouped:
        scores = _as_heads(op, scores, _heads(query))
    if is_causal:
        scores = op.Add(scores, _causal(op, query, key))
    return scores if mask is None else op.Add(scores, _bias(op, mask, query.dtype))


def _scale(query: ir.Value) -> float:
    width = query.shape[-1] if query.shape is not None else None
    if not isinstance(width, int):
        raise UnsupportedOperator("attention over a dynamic head size")
    return 1 / math.sqrt(width or 1)  # products of nothing are 0 at any scale


def _is_grouped(query: ir.Value, key: ir.Value) -> bool:
    """Whether heads of the query share those of the key: their rows then stand below each other in one product."""
    many, few = (item.shape[-3] if item.shape is not None and rank(item) > 2 else None for item in (query, key))
    return isinstance(many, int) and isinstance(few, int) and many > few > 1 and many % few == 0


def _heads(x: ir.Value) -> int:
    size = x.shape[-3] if x.shape is not None else None
    if not isinstance(size, int):
        raise UnsupportedOperator("grouped attention with a dynamic number of heads")
    return size


def _as_heads(op: OpBuilder, x: ir.Value, count: int) -> ir.Value:
    """The rows of `x` shared out among so many heads, which copies nothing."""
    return op.Reshape(x, [*[0] * (rank(x) - 3), count, -1, 0])


def _unrepeated(x: ir.Value) -> ir.Value | None:
    """What a key or value of four axes repeats along its heads, which a step of a decoder would copy whole; else None."""
    spread = _input_of(x, "Reshape")
    single = _input_of(spread, "Expand")
    source = _input_of(single, "Unsqueeze")
    shapes = [item.shape if item is not None else None for item in (x, spread, single, source)]
    if any(shape is None for shape in shapes):
        return None
    after, wide, one, before = ([*shape] if shape is not None else [] for shape in shapes)
    if len(before) != 4 or len(wide) != 5 or not isinstance(before[1], int) or not isinstance(wide[2], int):
        return None
    batch, heads, length, width = before
    if None in (batch, length) or one != [batch, heads, 1, length, width]:
        return None
    if wide != [batch, heads, wide[2], length, width] or after != [batch, heads * wide[2], length, width]:
        return None
    return source


def _input_of(x: ir.Value | None, op_type: str) -> ir.Value | None:
    node = x.producer() if x is not None else None
    return node.inputs[0] if node is not None and node.op_type == op_type and node.domain == "" else None


def _bias(op: OpBuilder, mask: ir.Value, dtype: ir.DataType | None) -> ir.Value:
    if mask.dtype != ir.DataType.BOOL:
        return op.cast(mask, dtype or ir.DataType.FLOAT)
    return op.Where(mask, op.const(0.0, dtype), op.const(-math.inf, dtype))


def _causal(op: OpBuilder, query: ir.Value, key: ir.Value) -> ir.Value:
    """0 where a key comes no later than the query, both counted from the first; minus infinity elsewhere."""
    rows, columns = (op.Range(0, op.Squeeze(op.dim(item, -2), op.axes(0)), 1) for item in (query, key))
    later = op.Greater(columns, op.Unsqueeze(rows, op.axes(1)))
    return op.Where(later, op.const(-math.inf, query.dtype), op.const(0.0, query.dtype))


def _without_blind(op: OpBuilder, result: ir.Value, mask: ir.Value) -> ir.Value:
    """0 in the rows whose mask allows no key: softmax of nothing but minus infinity is no number."""
    known = op.constant(mask)
    if known is not None and bool(np.all(known.any(-1) if known.dtype == bool else (known != -np.inf).any(-1))):
        return result
    seen = mask if mask.dtype == ir.DataType.BOOL else op.Not(op.Equal(mask, op.const(-math.inf, mask.dtype)))
    any_key = op.reduce("ReduceMax", op.cast(seen, ir.DataType.INT32), [-1], keepdims=True)
    return op.Where(op.cast(any_key, ir.DataType.BOOL), result, op.const(0.0, result.dtype))
