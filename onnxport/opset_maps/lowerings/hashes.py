"""Hashes of bytes, as integers of 64 bits: FarmHash's Fingerprint64, SipHash-2-4, MurmurHash64A.

ONNX shifts only unsigned integers, and signed ones have a product modulo 2**64 everywhere: all is signed here, and a shift is a
division of what has no low bits any more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.characters import Bytes, in_groups

_INT = ir.DataType.INT64
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F  # FarmHash's, Google Inc., MIT licence
_MURMUR = 0xC6A4A7935BD1E995
_MARGIN = 72  # how far before and behind a string its bytes are asked


def signed(value: int) -> np.int64:
    """A number of 64 bits as a signed one.

    >>> int(signed(2**64 - 1))
    -1
    """
    return np.uint64(value % (1 << 64)).astype(np.int64)


def shifted(op: OpBuilder, x: ir.Value, places: int) -> ir.Value:
    """x as an unsigned number, shifted to the right."""
    whole = op.Div(op.BitwiseAnd(x, signed(-(1 << places))), signed(1 << places))
    return op.BitwiseAnd(whole, signed((1 << (64 - places)) - 1))


def rotated(op: OpBuilder, x: ir.Value, places: int) -> ir.Value:
    """x rotated to the right."""
    return op.BitwiseOr(shifted(op, x, places), op.Mul(x, signed(1 << (64 - places))))


def _mixed(op: OpBuilder, x: ir.Value) -> ir.Value:
    return op.BitwiseXor(x, shifted(op, x, 47))


def remainder(op: OpBuilder, x: ir.Value, divisor: int) -> ir.Value:
    """x as an unsigned number modulo a positive number, one of up to 62 bits or the greatest of 63."""
    most = 2**63 - 1
    if divisor == most:  # what the topmost bit stands for leaves 1
        low = op.BitwiseAnd(x, np.int64(most))
        top = op.cast(op.Less(x, 0), _INT)
        total = op.Where(op.Equal(low, np.int64(most)), top, op.Add(low, top))
        return op.Where(op.Equal(total, np.int64(most)), op.const(np.int64(0)), total)
    if not 0 < divisor < 1 << 62:
        raise UnsupportedOperator(f"a remainder by {divisor}")
    half = op.Mod(shifted(op, x, 1), np.int64(divisor))
    return op.Mod(op.Add(op.Mul(half, 2), op.BitwiseAnd(x, 1)), np.int64(divisor))


def joined(op: OpBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """The fingerprint of two fingerprints (TensorFlow's FingerprintCat64)."""
    other = op.Mul(_mixed(op, op.Mul(second, signed(_MURMUR))), signed(_MURMUR))
    result = op.Mul(op.BitwiseXor(op.BitwiseXor(first, signed(_MURMUR)), other), signed(_MURMUR))
    return _mixed(op, op.Mul(_mixed(op, result), signed(_MURMUR)))


def _word(op: OpBuilder, x: ir.Value, start: ir.Value | int, count: int = 8) -> ir.Value:
    """The number that some bytes from `start` on are, little-endian, [N]; x has `_MARGIN` zeros at both ends."""
    number = np.arange(_MARGIN, _MARGIN + count)
    if isinstance(start, int):
        part = op.Gather(x, op.const(number + start), axis=1)
    else:
        part = op.GatherElements(x, op.Add(op.Unsqueeze(start, op.axes(1)), op.const(number)), axis=1)
    return _little_endian(op, part, count)


def _little_endian(op: OpBuilder, part: ir.Value, count: int) -> ir.Value:
    """The numbers that bytes along the last axis are."""
    weights = np.array([[signed(1 << 8 * i)] for i in range(count)])
    return op.Squeeze(op.MatMul(part, op.const(weights)), op.axes(-1))


class _Farm:
    """FarmHash's Fingerprint64 (Geoff Pike, Google; MIT licence) of strings of one length or another."""

    def __init__(self, op: OpBuilder, x: Bytes) -> None:
        self.op = op
        self.x = op.Pad(x.values, [0, _MARGIN, 0, _MARGIN])
        self.lengths = x.lengths
        self.mul = op.Add(op.Mul(x.lengths, 2), signed(_K2))

    def at(self, start: ir.Value | int, count: int = 8) -> ir.Value:
        """The number that stands at some place."""
        return _word(self.op, self.x, start, count)

    def from_end(self, places: int, count: int = 8) -> ir.Value:
        """The number that stands so many places before the end."""
        return self.at(self.op.Sub(self.lengths, places), count)

    def of_two(self, u: ir.Value, v: ir.Value, mul: ir.Value) -> ir.Value:
        """HashLen16."""
        op = self.op
        a = _mixed(op, op.Mul(op.BitwiseXor(u, v), mul))
        return op.Mul(_mixed(op, op.Mul(op.BitwiseXor(v, a), mul)), mul)

    def up_to_16(self) -> ir.Value:
        """HashLen0to16."""
        op, mul, n = self.op, self.mul, self.lengths
        a, b = op.Add(self.at(0), signed(_K2)), self.from_end(8)
        c = op.Add(op.Mul(rotated(op, b, 37), mul), a)
        d = op.Mul(op.Add(rotated(op, a, 25), b), mul)
        from_8 = self.of_two(c, d, mul)
        from_4 = self.of_two(op.Add(n, op.Mul(self.at(0, 4), 8)), self.from_end(4, 4), mul)
        y = op.Add(self.at(0, 1), op.Mul(self.at(op.Div(n, 2), 1), 256))
        z = op.Add(n, op.Mul(self.from_end(1, 1), 4))
        mixed = op.BitwiseXor(op.Mul(y, signed(_K2)), op.Mul(z, signed(_K0)))
        from_1 = op.Mul(_mixed(op, mixed), signed(_K2))
        short = op.Where(op.Greater(n, 0), from_1, op.const(signed(_K2)))
        return op.Where(op.GreaterOrEqual(n, 8), from_8, op.Where(op.GreaterOrEqual(n, 4), from_4, short))

    def _ends(self, factor: int) -> tuple[ir.Value, ...]:
        op, mul = self.op, self.mul
        a, b = op.Mul(self.at(0), signed(factor)), self.at(8)
        c, d = op.Mul(self.from_end(8), mul), op.Mul(self.from_end(16), signed(_K2))
        first = op.Add(op.Add(rotated(op, op.Add(a, b), 43), rotated(op, c, 30)), d)
        second = op.Add(op.Add(a, rotated(op, op.Add(b, signed(_K2)), 18)), c)
        return a, first, second

    def up_to_32(self) -> ir.Value:
        """HashLen17to32."""
        _, first, second = self._ends(_K1)
        return self.of_two(first, second, self.mul)

    def up_to_64(self) -> ir.Value:
        """HashLen33to64."""
        op, mul = self.op, self.mul
        a, y, second = self._ends(_K2)
        z = self.of_two(y, second, mul)
        e, f = op.Mul(self.at(16), mul), self.at(24)
        g = op.Mul(op.Add(y, self.from_end(32)), mul)
        h = op.Mul(op.Add(z, self.from_end(24)), mul)
        first = op.Add(op.Add(rotated(op, op.Add(e, f), 43), rotated(op, g, 30)), h)
        return self.of_two(first, op.Add(op.Add(e, rotated(op, op.Add(f, a), 18)), g), mul)

    def _weak(self, op: OpBuilder, start: ir.Value, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
        """WeakHashLen32WithSeeds."""
        w, x, y, z = (_word(op, self.x, op.Add(start, 8 * i)) for i in range(4))
        a = op.Add(a, w)
        b = rotated(op, op.Add(op.Add(b, a), z), 21)
        c = a
        a = op.Add(op.Add(a, x), y)
        b = op.Add(b, rotated(op, a, 44))
        return op.Add(a, z), op.Add(b, c)

    def _turn(
        self, op: OpBuilder, start: ir.Value, states: Sequence[ir.Value], last: ir.Value | None
    ) -> list[ir.Value]:
        """One block of 64 bytes; with the `last` factor the final one."""
        x, y, z, v0, v1, w0, w1 = states
        mul: ir.Value = op.const(signed(_K1)) if last is None else last
        times = (1, 1) if last is None else (9, 9)

        def at(places: int) -> ir.Value:
            return _word(op, self.x, op.Add(start, places))

        x = op.Mul(rotated(op, op.Add(op.Add(x, y), op.Add(v0, at(8))), 37), mul)
        y = op.Mul(rotated(op, op.Add(op.Add(y, v1), at(48)), 42), mul)
        x = op.BitwiseXor(x, op.Mul(w1, times[0]))
        y = op.Add(y, op.Add(op.Mul(v0, times[1]), at(40)))
        z = op.Mul(rotated(op, op.Add(z, w0), 33), mul)
        v0, v1 = self._weak(op, start, op.Mul(v1, mul), op.Add(x, w0))
        w0, w1 = self._weak(op, op.Add(start, 32), op.Add(z, w1), op.Add(y, at(16)))
        return [z, y, x, v0, v1, w0, w1]

    def beyond_64(self) -> ir.Value:
        """Blocks of 64 bytes, one after the other, and the last 64."""
        op, n = self.op, self.lengths
        zero = op.Mul(n, 0)
        y = 81 * _K1 + 113
        z = (y * _K2 + 113) % (1 << 64)
        z = (z ^ z >> 47) * _K2
        start = [op.Add(self.at(0), signed(81 * _K2)), *(op.Add(zero, signed(item)) for item in (y, z))]
        blocks = op.Div(op.Sub(n, 1), 64)

        def step(b: OpBuilder) -> list[ir.Value]:
            number = b.input("number", _INT, [])
            going = b.input("going", ir.DataType.BOOL, [])
            states = [b.input("state", _INT, [None]) for _ in range(7)]
            turned = self._turn(b, b.Add(b.Mul(number, 64), b.Mul(n, 0)), states, None)
            inside = b.Less(number, blocks)
            return [b.Identity(going), *(b.Where(inside, a, c) for a, c in zip(turned, states, strict=True))]

        count = op.ReduceMax(blocks, keepdims=0)
        states = op.Loop(count, True, *start, *[zero] * 4, body=op.body(step), outputs=7)
        x, y_, z_, v0, v1, w0, w1 = states
        mul = op.Add(op.Mul(op.BitwiseAnd(z_, 0xFF), 2), signed(_K1))
        w0 = op.Add(w0, op.BitwiseAnd(op.Sub(n, 1), 63))
        v0 = op.Add(v0, w0)
        w0 = op.Add(w0, v0)
        x, y_, z_, v0, v1, w0, w1 = self._turn(op, op.Sub(n, 64), [x, y_, z_, v0, v1, w0, w1], mul)
        # _turn has exchanged x and z already
        first = op.Add(op.Add(self.of_two(v0, w0, mul), op.Mul(_mixed(op, y_), signed(_K0))), z_)
        return self.of_two(first, op.Add(self.of_two(v1, w1, mul), x), mul)


def _any_of(op: OpBuilder, flags: ir.Value) -> ir.Value:
    numbers = op.Concat(op.cast(flags, _INT), op.const([0]), axis=0)
    return op.Greater(op.ReduceMax(numbers, keepdims=0), 0)


def fingerprint(op: OpBuilder, x: Bytes) -> ir.Value:
    """FarmHash's Fingerprint64, INT64 [N]."""
    result = _Farm(op, x).up_to_16()
    forms = ((16, _Farm.up_to_32), (32, _Farm.up_to_64), (64, _Farm.beyond_64))
    for least, form in forms:
        if x.longest is not None and x.longest <= least:
            break
        longer = op.Greater(x.lengths, least)

        def other(b: OpBuilder, longer=longer, form=form, result=result) -> list[ir.Value]:  # type: ignore[no-untyped-def]
            return [b.Where(longer, form(_Farm(b, x)), result)]

        def same(b: OpBuilder, result=result) -> list[ir.Value]:  # type: ignore[no-untyped-def]
            return [b.Identity(result)]

        result = op.If(_any_of(op, longer), then_branch=op.body(other), else_branch=op.body(same))
    return result


def _words(op: OpBuilder, x: Bytes) -> ir.Value:
    """The bytes in groups of eight, [N, W], with one group of zeros at least behind the last byte."""
    width = op.dim(x.values, 1)
    room = op.Sub(op.Mul(op.Div(op.Add(width, 15), 8), 8), width)
    padded = op.Pad(x.values, op.Concat(op.const([0, 0, 0]), room, axis=0))
    return _little_endian(op, in_groups(op, padded, 8), 8)


def siphash(op: OpBuilder, x: Bytes, key: Sequence[int]) -> ir.Value:
    """SipHash-2-4 (Jean-Philippe Aumasson and Daniel J. Bernstein, 2012) with a key of two numbers, INT64 [N]."""
    words, whole = _words(op, x), op.Div(x.lengths, 8)
    names = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    zero = op.Mul(x.lengths, 0)
    start = [op.Add(zero, signed(name ^ (key[i % 2] % (1 << 64)))) for i, name in enumerate(names)]
    ending = op.Mul(op.BitwiseAnd(x.lengths, 0xFF), signed(1 << 56))

    def turn(b: OpBuilder, v: list[ir.Value]) -> list[ir.Value]:
        for left, right, turns in ((0, 1, 51), (2, 3, 48)):
            v[left] = b.Add(v[left], v[right])
            v[right] = b.BitwiseXor(rotated(b, v[right], turns), v[left])
        v[0] = rotated(b, v[0], 32)
        for left, right, turns in ((2, 1, 47), (0, 3, 43)):
            v[left] = b.Add(v[left], v[right])
            v[right] = b.BitwiseXor(rotated(b, v[right], turns), v[left])
        v[2] = rotated(b, v[2], 32)
        return v

    def step(b: OpBuilder) -> list[ir.Value]:
        number = b.input("number", _INT, [])
        going = b.input("going", ir.DataType.BOOL, [])
        before = [b.input("state", _INT, [None]) for _ in range(4)]
        word = b.Add(b.Gather(words, number, axis=1), b.Where(b.Equal(number, whole), ending, 0))
        v = [*before[:3], b.BitwiseXor(before[3], word)]
        v = turn(b, turn(b, v))
        v[0] = b.BitwiseXor(v[0], word)
        there = b.LessOrEqual(number, whole)
        return [b.Identity(going), *(b.Where(there, new, old) for new, old in zip(v, before, strict=True))]

    count = op.Squeeze(op.dim(words, 1), op.axes(0))
    v = list(op.Loop(count, True, *start, body=op.body(step), outputs=4))
    v[2] = op.BitwiseXor(v[2], np.int64(0xFF))
    for _ in range(4):
        v = turn(op, v)
    return op.BitwiseXor(op.BitwiseXor(v[0], v[1]), op.BitwiseXor(v[2], v[3]))


def murmur64(op: OpBuilder, x: Bytes, seed: int) -> ir.Value:
    """MurmurHash64A (Austin Appleby, public domain), INT64 [N]."""
    words, whole = _words(op, x), op.Div(x.lengths, 8)
    factor = signed(_MURMUR)
    start = op.BitwiseXor(op.Mul(x.lengths, factor), signed(seed))
    rest = op.Greater(op.Mod(x.lengths, 8), 0)

    def step(b: OpBuilder) -> list[ir.Value]:
        number = b.input("number", _INT, [])
        going = b.input("going", ir.DataType.BOOL, [])
        state = b.input("state", _INT, [None])
        word = b.Gather(words, number, axis=1)
        mixed = b.Mul(_mixed(b, b.Mul(word, factor)), factor)
        full = b.Less(number, whole)
        after = b.Mul(b.BitwiseXor(state, b.Where(full, mixed, word)), factor)
        there = b.Or(full, b.And(b.Equal(number, whole), rest))
        return [b.Identity(going), b.Where(there, after, state)]

    count = op.Squeeze(op.dim(words, 1), op.axes(0))
    state = op.Loop(count, True, start, body=op.body(step), outputs=1)
    return _mixed(op, op.Mul(_mixed(op, state), factor))
