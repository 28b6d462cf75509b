"""The numbers that numpy.random.RandomState draws, in the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array

# Matsumoto and Nishimura, Mersenne Twister, 1998: MT19937. Words are planes of bits, [32, words] with the lowest bit first, since
# ONNX has exclusive or of booleans in every opset, of integers from 18 on only.
_WORDS, _AHEAD = 624, 397
_MATRIX, _B, _C = 0x9908B0DF, 0x9D2C5680, 0xEFC60000


def _bits(words: Array) -> np.ndarray:
    """The bits of words [n], [32, n]."""
    return (np.atleast_1d(np.asarray(words, np.uint32)) >> np.arange(32, dtype=np.uint32)[:, None]) & 1 == 1


def _mixed(high: Array, low: Array) -> Array:
    """The highest bits of words and the other bits of those that follow them, times the recurrence's matrix."""
    shifted = np.concatenate([low[1:31], high[31:], np.zeros((1, 1), bool) & low[:1]], axis=0)
    return shifted ^ (low[:1] & _bits(_MATRIX))


def _twisted(state: Array) -> Array:
    """The next 624 words, each from words that stand before it: three pieces."""
    gap = _WORDS - _AHEAD
    first = state[:, _AHEAD:] ^ _mixed(state[:, :gap], state[:, 1 : gap + 1])
    rest = _mixed(state[:, gap:], np.concatenate([state[:, gap + 1 :], first[:, :1]], axis=1))
    second = first ^ rest[:, :gap]
    return np.concatenate([first, second, second[:, : _AHEAD - gap] ^ rest[:, gap:]], axis=1)


def _tempered(state: Array) -> Array:
    y: Any = np.concatenate([state[:21] ^ state[11:], state[21:]], axis=0)
    y = np.concatenate([y[:7], y[7:] ^ (y[:25] & _bits(_B)[7:])], axis=0)
    y = np.concatenate([y[:15], y[15:] ^ (y[:17] & _bits(_C)[15:])], axis=0)
    return np.concatenate([y[:14] ^ y[18:], y[14:]], axis=0)


def integers_below(op: OpBuilder, seed: int, bound: int, count: ir.Value) -> Array:
    """``RandomState(seed).randint(0, bound, count)``: int64 [count].

    Of each word of 32 bits NumPy keeps as many low bits as `bound` - 1 has, and draws again where that is too large
    (numpy/random/src/distributions/distributions.c, buffered_bounded_masked_uint32). A word depends on its place alone.

    Args:
        op: the builder.
        seed: what RandomState is seeded with.
        bound: at most 2**31.
        count: how many numbers, int64 [1].
    """
    if bound == 1:  # nothing is drawn
        return Array(op, op.Expand(np.int64(0), count))
    width = (bound - 1).bit_length()
    seeded = np.random.RandomState(seed).get_state(legacy=False)["state"]["key"]  # all used up: it is twisted first

    def build(b: OpBuilder) -> list[ir.Value]:
        b.input("block", ir.DataType.INT64, [])
        b.input("going", ir.DataType.BOOL, [])
        before = Array(b, b.input("state", ir.DataType.BOOL, [32, _WORDS]))
        count_kept = Array(b, b.input("found", ir.DataType.INT64, [1]))
        state = _twisted(before)
        weighted = _tempered(state)[:width].astype(np.int64) * (1 << np.arange(width))[:, None]
        drawn = np.sum(weighted, axis=0)
        kept = drawn < bound
        count_kept = count_kept + np.sum(kept)
        going = np.squeeze(count_kept < Array(b, count), axis=0)
        return [going.value, state.value, count_kept.value, drawn.value, kept.value]

    _, _, drawn, kept = op.Loop(None, True, _bits(seeded), np.zeros(1, np.int64), body=op.body(build), outputs=4)
    count_kept = op.Compress(op.Reshape(drawn, [-1]), op.Reshape(kept, [-1]), axis=0)
    return Array(op, op.Slice(count_kept, [0], count, [0]))
