"""Attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypedDict, Unpack

import onnx_ir as ir

from onnxport.opset_maps.from_onnx.axes import int_op, size_operand
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Int, InvalidOperand, Scalar, Tensor, host_array, known, optional
from onnxport.opset_maps.maps import onnx


def heads_first(xp: Namespace, x: Tensor, heads: int | None) -> Tensor:
    """(batch, heads, sequence, size), from (batch, sequence, heads size) where x has three axes."""
    if xp.ndim(x) == 4 or heads is None:
        return x
    batch, length, hidden = xp.shape(x)
    if known(hidden) and hidden % heads:
        raise InvalidOperand(f"{hidden} elements for {heads} heads")
    size = hidden // heads if known(hidden) else int_op(xp, "floor_div", hidden, heads)
    return xp.permute_dims(xp.reshape(x, (batch, length, heads, size)), (0, 2, 1, 3))


def heads_last(xp: Namespace, x: Tensor) -> Tensor:
    """(batch, sequence, heads size) from (batch, heads, sequence, size)."""
    batch, heads, length, size = xp.shape(x)
    return xp.reshape(xp.permute_dims(x, (0, 2, 1, 3)), (batch, length, int_op(xp, "mul", heads, size)))


def repeated_heads(xp: Namespace, x: Tensor, queries: Int) -> Tensor:
    """Key or value heads repeated, each in its place, to as many as there are query heads."""
    batch, heads, length, size = xp.shape(x)
    if known(queries) and known(heads) and queries == heads:
        return x
    repeats = int_op(xp, "floor_div", queries, heads)
    spread = xp.broadcast_to(xp.expand_dims(x, [2]), (batch, heads, repeats, length, size))
    return xp.reshape(spread, (batch, queries, length, size))


def _offset(xp: Namespace, heads: AttentionHeads) -> Scalar:
    """How many keys precede the queries: one number, or a tensor (batch, 1, 1, 1)."""
    if heads.past is not None:
        return size_operand(xp, xp.shape(heads.past)[2])
    if heads.valid is None:
        return 0
    queries = size_operand(xp, xp.shape(heads.q)[2])
    counts = xp.subtract(xp.astype(heads.valid, ir.DataType.INT64), queries)
    return xp.expand_dims(xp.reshape(counts, (-1,)), [1, 2, 3])


def _allowed(xp: Namespace, heads: AttentionHeads) -> Tensor | None:
    """Which keys each query may attend by place; None where all."""
    keys = xp.expand_dims(xp.arange(0, xp.shape(heads.k)[2]), [0])
    allowed = []
    if heads.causal or heads.left >= 0 or heads.right >= 0:
        queries = xp.expand_dims(xp.arange(0, xp.shape(heads.q)[2]), [1])
        ahead = xp.subtract(keys, xp.add(queries, _offset(xp, heads)))
        if heads.causal or heads.right >= 0:
            allowed.append(xp.less_equal(ahead, 0 if heads.causal else heads.right))
        if heads.left >= 0:
            allowed.append(xp.greater_equal(ahead, -heads.left))
    if heads.valid is not None:
        counts = xp.expand_dims(xp.astype(heads.valid, ir.DataType.INT64), [1, 2, 3])
        allowed.append(xp.less(xp.expand_dims(keys, [0, 1]), counts))
    return reduce(xp.logical_and, allowed) if allowed else None


class AttentionAttributes(TypedDict, total=False):
    """Attributes of Attention."""

    is_causal: int
    kv_num_heads: int | None
    left_window_size: int
    q_num_heads: int | None
    qk_matmul_output_mode: int
    right_window_size: int
    scale: float | None
    softcap: float
    softmax_precision: int | None


@dataclass(frozen=True)
class AttentionHeads:
    """Operands of Attention in the form (batch, heads, sequence, size), the cache joined.

    Attributes:
        q: queries.
        k: keys, those of the cache before them.
        v: values, likewise.
        flat: the operands have three axes, and so has the result.
        mask: what is added to the scores, or which of them count.
        past: keys of the cache.
        valid: INT64 (batch): how many keys count.
        causal: a query attends no later key.
        left: how many earlier keys a query attends; -1 for all.
        right: how many later ones, likewise.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    flat: bool
    mask: Tensor | None
    past: Tensor | None
    valid: Tensor | None
    causal: bool
    left: int
    right: int

    @classmethod
    def of(
        cls, xp: Namespace, q: Tensor, k: Tensor, v: Tensor, rest: Sequence[Tensor | None], form: AttentionAttributes
    ) -> AttentionHeads:
        """The operands of a node; the others are mask, past key, past value, and how many keys are valid."""
        mask, past_key, past_value, valid = optional(rest, 4)
        flat = xp.ndim(q) == 3
        key_heads = form.get("kv_num_heads")
        q = heads_first(xp, q, form.get("q_num_heads"))
        k, v = heads_first(xp, k, key_heads), heads_first(xp, v, key_heads)
        k = k if past_key is None else xp.concat([past_key, k], 2)
        v = v if past_value is None else xp.concat([past_value, v], 2)
        left, right = form.get("left_window_size", -1), form.get("right_window_size", -1)
        return cls(q, k, v, flat, mask, past_key, valid, bool(form.get("is_causal", 0)), left, right)

    @property
    def sees_all(self) -> bool:
        """Whether every query attends every key, causality aside."""
        return self.mask is None and self.valid is None and self.left < 0 and self.right < 0

    def bias(self, xp: Namespace) -> Tensor | None:
        """What is added to the scores: the mask, and -inf where a key may not be attended; None where nothing is."""
        dtype = xp.dtype(self.q)
        allowed = _allowed(xp, self)
        terms = []
        lowest = xp.full((), -math.inf, dtype)
        if self.mask is not None:
            mask = self.mask
            total, given = xp.shape(self.k)[2], xp.shape(mask)[-1]
            is_bool = xp.dtype(mask) == ir.DataType.BOOL
            missing = int_op(xp, "sub", total, given)
            if not (known(missing) and missing <= 0):
                missing = missing if known(missing) else int_op(xp, "max", missing, 0)
                pairs = [(0, 0)] * (xp.ndim(mask) - 1) + [(0, missing)]
                mask = xp.pad(mask, pairs, "constant", False if is_bool else -math.inf)
            terms.append(xp.where(mask, xp.zeros((), dtype), lowest) if is_bool else mask)
        if allowed is not None:
            terms.append(xp.where(allowed, xp.zeros((), dtype), lowest))
        return reduce(xp.add, terms) if terms else None

    def outputs(self, xp: Namespace, result: Tensor, seen: Tensor | None = None) -> Any:
        """The result in the form of the operands, with the cache and the scores where they are asked for."""
        result = heads_last(xp, result) if self.flat else result
        return (result, self.k, self.v, seen)[: xp.output_count] if xp.output_count > 1 else result


@onnx.op("Attention", versions=(23, 24, 25))
def attention(
    xp: Namespace, q: Tensor, k: Tensor, v: Tensor, *optional: Tensor | None, **form: Unpack[AttentionAttributes]
) -> Any:
    """Scaled dot product attention with grouped heads, a cache, masks by value and by place.

    Source: ONNX operator specification, Attention-25; a query that may attend no key gives zeros.
    """
    heads = AttentionHeads.of(xp, q, k, v, optional, form)
    q, dtype = heads.q, xp.dtype(heads.q)
    count, size = xp.shape(q)[1], xp.shape(q)[3]
    scale, softcap = form.get("scale"), form.get("softcap", 0.0)
    mode, precision = form.get("qk_matmul_output_mode", 0), form.get("softmax_precision")
    if scale is None:
        root: Scalar = 1 / math.sqrt(math.sqrt(size)) if known(size) else _inverse_fourth_root(xp, size, dtype)
    else:
        root = math.sqrt(scale)
    keys = xp.permute_dims(repeated_heads(xp, heads.k, count), (0, 1, 3, 2))
    scores = xp.matmul(xp.multiply(q, root), xp.multiply(keys, root))
    seen = scores
    if softcap:
        scores = xp.multiply(xp.tanh(xp.divide(scores, softcap)), softcap)
        seen = scores if mode == 1 else seen
    bias = heads.bias(xp)
    biased = scores if bias is None else xp.add(scores, bias)
    seen = biased if mode == 2 else seen
    wide = biased if precision is None else xp.astype(biased, ir.DataType(precision))
    weights = xp.astype(xp.softmax(wide, 3), dtype)
    if bias is not None:
        empty = xp.equal(xp.max(bias, (xp.ndim(bias) - 1,), True), -math.inf)
        weights = xp.where(empty, xp.zeros((), dtype), weights)
    seen = weights if mode == 3 else seen
    return heads.outputs(xp, xp.matmul(weights, repeated_heads(xp, heads.v, count)), seen)


def _inverse_fourth_root(xp: Namespace, size: Int, dtype: ir.DataType) -> Tensor:
    wide = xp.astype(xp.from_host(host_array(size), ir.DataType.INT64), ir.DataType.FLOAT)
    return xp.astype(xp.reciprocal(xp.sqrt(xp.sqrt(wide))), dtype)


@onnx.op("RotaryEmbedding", versions=(23,))
def rotary_embedding(
    xp: Namespace,
    x: Tensor,
    cosines: Tensor,
    sines: Tensor,
    positions: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Pairs of each head's elements turned by an angle that grows with the position."""
    flat = xp.ndim(x) == 3
    x = heads_first(xp, x, num_heads or None)
    size = xp.shape(x)[3]
    turned = rotary_embedding_dim or size
    head, rest = xp.slice(x, 3, 0, turned), xp.slice(x, 3, turned, None)
    cos, sin = (
        item if positions is None else xp.take(item, xp.astype(positions, ir.DataType.INT64), 0)
        for item in (cosines, sines)
    )
    cos, sin = xp.expand_dims(cos, [1]), xp.expand_dims(sin, [1])
    half = int_op(xp, "floor_div", turned, 2)
    if interleaved:
        a, b = xp.slice(head, 3, 0, None, 2), xp.slice(head, 3, 1, None, 2)
    else:
        a, b = xp.slice(head, 3, 0, half), xp.slice(head, 3, half, None)
    real = xp.subtract(xp.multiply(cos, a), xp.multiply(sin, b))
    imag = xp.add(xp.multiply(sin, a), xp.multiply(cos, b))
    if interleaved:
        batch, heads, length, _ = xp.shape(x)
        whole = xp.reshape(xp.stack([real, imag], 4), (batch, heads, length, turned))
    else:
        whole = xp.concat([real, imag], 3)
    whole = whole if known(turned) and known(size) and turned == size else xp.concat([whole, rest], 3)
    return heads_last(xp, whole) if flat else whole
