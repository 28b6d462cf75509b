"""Attention of com.microsoft, as onnxruntime's optimiser of transformers writes it."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any, TypedDict, Unpack

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.cases import f32, i32, i64
from onnxport.opset_maps.from_onnx.axes import int_op
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.semantics import attention as onnx_attention
from onnxport.opset_maps.from_onnx.semantics.attention import heads_first, heads_last
from onnxport.opset_maps.from_onnx.semantics.microsoft import microsoft_op
from onnxport.opset_maps.from_onnx.values import Ints, Tensor, known, optional

_FLOAT, _INT64 = ir.DataType.FLOAT, ir.DataType.INT64
_LOWEST = float(np.finfo(np.float32).min)  # by which a runtime excludes later words


class AttentionForm(TypedDict, total=False):
    """Attributes of com.microsoft's attention operators."""

    num_heads: int
    unidirectional: int
    scale: float
    mask_filter_value: float
    do_rotary: int
    past_present_share_buffer: int
    rotary_embedding_dim: int
    qkv_hidden_sizes: Ints | None


def checked(form: AttentionForm) -> None:
    """Refuses what has no entry.

    Raises:
        UnsupportedOperator: rotary embedding inside, or a cache that shares its memory with the next.
    """
    for name in ("do_rotary", "past_present_share_buffer"):
        if form.get(name):
            raise UnsupportedOperator(f"{name}={form[name]}")


def _masked(xp: Namespace, mask: Tensor, queries: Any, keys: Any, filtered: float) -> Tensor:
    """What a mask adds to scores (batch, heads, queries, keys).

    Its forms: counts (batch), ends and then starts (2 batch), or which keys count (batch, keys), (batch, queries, keys) or
    (batch, 1, longest, longest).
    """
    rank = xp.ndim(mask)
    if rank == 1:
        raise UnsupportedOperator(
            "a mask of one axis stands for counts or for ends and starts, which its size alone tells"
        )
    if rank == 2:
        allowed = xp.expand_dims(mask, [1, 2])
    elif rank == 3:
        allowed = xp.expand_dims(mask, [1])
    else:
        longest = int_op(xp, "sub", keys, queries)
        allowed = xp.slice(xp.slice(mask, 2, longest, keys), 3, 0, keys)
    zero = xp.zeros((), _FLOAT)
    return xp.where(xp.greater(allowed, 0), zero, xp.full((), filtered, _FLOAT))


def _counted(xp: Namespace, counts: Tensor, keys: Any, filtered: float) -> Tensor:
    """What a mask by counts (batch) adds."""
    places = xp.expand_dims(xp.arange(0, keys), [0, 1, 2])
    allowed = xp.less(places, xp.expand_dims(xp.astype(counts, _INT64), [1, 2, 3]))
    return xp.where(allowed, xp.zeros((), _FLOAT), xp.full((), filtered, _FLOAT))


def _later(xp: Namespace, queries: Any, keys: Any) -> Tensor:
    """What excludes later words."""
    ahead = xp.subtract(
        xp.expand_dims(xp.arange(0, keys), [0]),
        xp.expand_dims(xp.arange(int_op(xp, "sub", keys, queries), keys), [1]),
    )
    return xp.where(xp.less_equal(ahead, 0), xp.zeros((), _FLOAT), xp.full((), _LOWEST, _FLOAT))


def attended(
    xp: Namespace, heads: tuple[Tensor, Tensor, Tensor], mask: Tensor | None, bias: Tensor | None, form: AttentionForm
) -> Tensor:
    """Scaled dot product attention of (batch, heads, words, size), as (batch, words, heads size)."""
    q, k, v = heads
    dtype = xp.dtype(q)
    queries, keys = xp.shape(q)[2], xp.shape(k)[2]
    size, scale = xp.shape(q)[3], form.get("scale") or 0.0
    if not scale:
        if not known(size):
            raise UnsupportedOperator("heads of a size that the model does not say")
        scale = 1 / math.sqrt(int(size))
    scores = xp.multiply(xp.matmul(q, xp.permute_dims(k, (0, 1, 3, 2))), scale)
    terms = [] if bias is None else [bias]
    if mask is not None:
        filtered = form.get("mask_filter_value", -10000.0)
        one = xp.ndim(mask) == 1
        if one and known(xp.shape(mask)[0]) and known(xp.shape(q)[0]) and xp.shape(mask)[0] != xp.shape(q)[0]:
            raise UnsupportedOperator("a mask of ends and starts")
        added = _counted(xp, mask, keys, filtered) if one else _masked(xp, mask, queries, keys, filtered)
        terms.append(xp.astype(added, dtype))
    if form.get("unidirectional"):
        terms.append(xp.astype(_later(xp, queries, keys), dtype))
    scores = reduce(xp.add, terms, scores)
    return heads_last(xp, xp.matmul(xp.softmax(scores, 3), v))


def parted(xp: Namespace, joined: Tensor, form: AttentionForm) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of a product with all of their weights, heads first."""
    total, parts = xp.shape(joined)[2], form.get("qkv_hidden_sizes")
    if not parts:
        if not known(total):
            raise UnsupportedOperator("a hidden size that the model does not say")
        parts = (int(total) // 3,) * 3
    q, k, v = (heads_first(xp, item, form["num_heads"]) for item in xp.split(joined, list(parts), 2))
    return q, k, v


def cached(xp: Namespace, k: Tensor, v: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Keys and values behind those of the cache (2, batch, heads, words, size), and the next cache."""
    if past is not None:
        before = [xp.squeeze(item, [0]) for item in xp.split(past, [1, 1], 0)]
        k, v = xp.concat([before[0], k], 2), xp.concat([before[1], v], 2)
    return k, v, xp.stack([k, v], 0) if xp.output_count > 1 else None


_OPERANDS = "float[N, 3, 4] x, float[4, 12] w, float[12] b"
_THREE = (f32(2, 3, 4), f32(4, 12), f32(12))


def _case(attributes: str, names: str, operands: str, *inputs: Any, kind: str = "Attention") -> Any:
    call = f"com.microsoft.{kind} <{attributes}> ({names})"
    return graph(f"({operands}) => (float[N, 3, 4] y) {{y = {call}}}", *inputs)


@microsoft_op(
    "Attention",
    _case("num_heads = 2", "x, w, b", _OPERANDS, *_THREE),
    _case("num_heads = 2, unidirectional = 1, scale = 0.3", "x, w, b", _OPERANDS, *_THREE),
    _case("num_heads = 2", "x, w, b, m", f"{_OPERANDS}, int32[N, 3] m", *_THREE, i32(2, 3, low=0, high=2)),
    _case("num_heads = 2", "x, w, b, m", f"{_OPERANDS}, int32[N] m", *_THREE, i32(2, low=1, high=4)),
    _case(
        "num_heads = 2, mask_filter_value = -5.0",
        "x, w, b, m",
        f"{_OPERANDS}, int32[N, 3, 3] m",
        *_THREE,
        i32(2, 3, 3, low=0, high=2),
    ),
    _case(
        "num_heads = 2",
        "x, w, b, , , e",
        f"{_OPERANDS}, float[1, 2, 3, 3] e",
        *_THREE,
        f32(1, 2, 3, 3),
    ),
    graph(
        f"({_OPERANDS}, float[2, N, 2, 5, 2] p) => (float[N, 3, 4] y, float[2, N, 2, 8, 2] q) "
        "{y, q = com.microsoft.Attention <num_heads = 2, unidirectional = 1> (x, w, b, , p)}",
        *_THREE,
        f32(2, 2, 2, 5, 2),
    ),
)
def attention(xp: Namespace, x: Tensor, weights: Tensor, *more: Tensor | None, **form: Unpack[AttentionForm]) -> Any:
    """Self attention with the product that gives queries, keys and values."""
    checked(form)
    bias, mask, past, attention_bias, past_length = optional(more, 5)
    if past_length is not None:
        raise UnsupportedOperator("a cache that shares its memory with the next")
    joined = xp.matmul(x, weights)
    q, k, v = parted(xp, joined if bias is None else xp.add(joined, bias), form)
    k, v, present = cached(xp, k, v, past)
    result = attended(xp, (q, k, v), mask, attention_bias, form)
    return result if present is None else (result, present)


_SEPARATE = "float[N, 3, 4] q, float[N, 3, 4] k, float[N, 3, 4] v"


@microsoft_op(
    "MultiHeadAttention",
    _case("num_heads = 2", "q, k, v", _SEPARATE, *[f32(2, 3, 4)] * 3, kind="MultiHeadAttention"),
    _case(
        "num_heads = 2, scale = 0.4",
        "q, k, v, b, m",
        f"{_SEPARATE}, float[12] b, int32[N, 3] m",
        *[f32(2, 3, 4)] * 3,
        f32(12),
        i32(2, 3, low=0, high=2),
        kind="MultiHeadAttention",
    ),
    _case(
        "num_heads = 2, unidirectional = 1",
        "q, k, v, , , e",
        f"{_SEPARATE}, float[1, 2, 3, 3] e",
        *[f32(2, 3, 4)] * 3,
        f32(1, 2, 3, 3),
        kind="MultiHeadAttention",
    ),
    graph(
        f"({_SEPARATE}, float[N, 2, 5, 2] c, float[N, 2, 5, 2] d) => "
        "(float[N, 3, 4] y, float[N, 2, 8, 2] e, float[N, 2, 8, 2] f) "
        "{y, e, f = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, , , , c, d)}",
        *[f32(2, 3, 4)] * 3,
        *[f32(2, 2, 5, 2)] * 2,
    ),
    graph(
        "(float[N, 3, 4] q, float[N, 2, 5, 2] k, float[N, 2, 5, 2] v) => (float[N, 3, 4] y) "
        "{y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v)}",
        f32(2, 3, 4),
        *[f32(2, 2, 5, 2)] * 2,
    ),
)
def multi_head_attention(xp: Namespace, q: Tensor, *more: Tensor | None, **form: Unpack[AttentionForm]) -> Any:
    """Attention of queries, keys and values that are products already."""
    checked(form)
    k, v, bias, mask, attention_bias, past_key, past_value = optional(more, 7)
    if k is None or v is None:
        raise UnsupportedOperator("queries, keys and values packed into one operand")
    if xp.ndim(q) != 3 or xp.ndim(k) not in (3, 4) or xp.ndim(v) != xp.ndim(k):
        raise UnsupportedOperator("packed keys and values")
    if bias is not None:
        hidden = [xp.shape(item)[2] for item in (q, k, v) if xp.ndim(item) == 3]
        if len(hidden) < 3 or not all(map(known, hidden)):
            raise UnsupportedOperator("a bias beside keys and values that have their heads apart")
        q, k, v = map(xp.add, (q, k, v), xp.split(bias, hidden, 0))
    count = form["num_heads"]
    q, k, v = (heads_first(xp, item, count) for item in (q, k, v))
    if past_key is not None and past_value is not None:
        k, v = xp.concat([past_key, k], 2), xp.concat([past_value, v], 2)
    result = attended(xp, (q, k, v), mask, attention_bias, form)
    return (result, k, v)[: xp.output_count] if xp.output_count > 1 else result


def _turned(attributes: str, places: str, *inputs: Any) -> Any:
    return graph(
        f"(float[N, 3, 8] x, {places}, float[9, 2] c, float[9, 2] s) => (float[N, 3, 8] y) "
        f"{{y = com.microsoft.RotaryEmbedding {attributes} (x, p, c, s)}}",
        f32(2, 3, 8),
        *inputs,
        f32(9, 2),
        f32(9, 2),
    )


class RotaryForm(TypedDict, total=False):
    """Attributes of com.microsoft's RotaryEmbedding."""

    interleaved: int
    num_heads: int
    rotary_embedding_dim: int
    scale: float
    is_packed_batching: int


@microsoft_op(
    "RotaryEmbedding",
    _turned("", "int64[N, 3] p", i64(2, 3, low=0, high=9)),
    _turned("<interleaved = 1>", "int64[1] p", i64(1, low=0, high=6)),
)
def rotary_embedding(
    xp: Namespace, x: Tensor, positions: Tensor, cosines: Tensor, sines: Tensor, **form: Unpack[RotaryForm]
) -> Tensor:
    """Pairs of each head's elements turned by an angle that grows with the position."""
    if form.get("is_packed_batching"):
        raise UnsupportedOperator("is_packed_batching=1")
    turned = form.get("rotary_embedding_dim", 0)
    half, hidden = xp.shape(cosines)[1], xp.shape(x)[-1]
    if xp.ndim(x) != 3 or not known(half) or not known(hidden):
        raise UnsupportedOperator("operands whose sizes the model does not say, or with their heads apart")
    heads = form.get("num_heads", 0) or int(hidden) // (2 * int(half))
    if xp.ndim(positions) == 1:  # where the first word stands
        positions = xp.add(xp.expand_dims(xp.arange(0, xp.shape(x)[1]), [0]), xp.expand_dims(positions, [0]))
        positions = xp.broadcast_to(positions, xp.shape(x)[:2])
    return onnx_attention.rotary_embedding(
        xp,
        x,
        cosines,
        sines,
        positions,
        interleaved=form.get("interleaved", 0),
        num_heads=heads,
        rotary_embedding_dim=turned,
    )
