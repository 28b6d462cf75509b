"""Random numbers, drawn when the graph runs: of a distribution, never the source's own numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.lowerings.loops import loop
from onnxport.opset_maps.lowerings.special import lgamma, ndtr, ndtri

_FLOAT, _DOUBLE, _INT32 = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32
# The least number above 0 that the generators give: -log of it is finite.
LEAST = 2.0**-24
# Of numbers that are drawn again until they are accepted, more than 0.95 are at once.
_MOST_TURNS = 1000
# Means below which numbers are counted up.
_FEW = 10.0


def _filled(op: OpBuilder, kind: str, size: ir.Value, dtype: ir.DataType, **attributes: Any) -> ir.Value:
    """RandomUniformLike or RandomNormalLike of a tensor of `size`; drawn in float32, which is as fine as frameworks draw."""
    static = op.constant(size)
    if static is not None:
        result = op.node(f"Random{kind}", shape=[int(item) for item in static], dtype=int(_FLOAT), **attributes)
        result.type, result.shape = ir.TensorType(_FLOAT), ir.Shape([int(item) for item in static])
    else:
        result = op.node(f"Random{kind}Like", op.Expand(op.const(0.0, _FLOAT), size), dtype=int(_FLOAT), **attributes)
    return op.cast(result, dtype)


def is_drawn(x: ir.Value) -> bool:
    """Whether `x` depends on random numbers."""
    seen, waiting = {x}, [x]
    while waiting:
        node = waiting.pop().producer()
        if node is None:
            continue
        if node.op_type.startswith("Random"):
            return True
        new = [item for item in node.inputs if item is not None and item not in seen]
        seen.update(new)
        waiting += new
    return False


def uniform(
    op: OpBuilder, size: ir.Value, dtype: ir.DataType = _FLOAT, low: float = 0.0, high: float = 1.0
) -> ir.Value:
    """Uniform numbers between `low` and `high`."""
    return _filled(op, "Uniform", size, dtype, low=low, high=high)


def normal(op: OpBuilder, size: ir.Value, dtype: ir.DataType = _FLOAT) -> ir.Value:
    """Standard normal numbers."""
    return _filled(op, "Normal", size, dtype)


def integers(op: OpBuilder, size: ir.Value, start: ir.Value, stop: ir.Value) -> ir.Value:
    """floor of uniform numbers over [start, stop), all in double so that large ranges keep their integers."""
    spread = op.Mul(uniform(op, size, _DOUBLE), op.Sub(stop, start))
    return op.Min(op.Floor(op.Add(spread, start)), op.Sub(stop, 1.0))


def permutation(op: OpBuilder, size: ir.Value) -> ir.Value:
    """The numbers below `size`, an INT64 vector of one element, in the order of uniform numbers."""
    return op.TopK(uniform(op, size), size)[1]


def gumbel(op: OpBuilder, size: ir.Value) -> ir.Value:
    """-log(-log(u)) of uniform u: scores with this noise have their maximum where a softmax of them would draw.

    Source: Kool et al., "Stochastic Beams and Where to Find Them", 2019, section 2.3.
    """
    return op.Neg(op.Log(op.Neg(op.Log(uniform(op, size, low=LEAST)))))


def categorical(op: OpBuilder, scores: ir.Value, count: ir.Value) -> ir.Value:
    """`count` (an INT64 vector of one element) draws with replacement along the last axis of logarithms of weights."""
    rank = scores.shape.rank() if scores.shape is not None else 1
    size = op.Concat(*[op.dim(scores, i) for i in range(rank - 1)], count, op.dim(scores, -1), axis=0)
    return op.ArgMax(op.Add(op.Unsqueeze(scores, op.axes(rank - 1)), gumbel(op, size)), axis=-1, keepdims=0)


def truncated_normal(op: OpBuilder, size: ir.Value, dtype: ir.DataType = _FLOAT) -> ir.Value:
    """Standard normal numbers within two deviations, by the inverse of the distribution function in double."""
    edge = 0.5 * math.erfc(math.sqrt(2.0))  # the probability beyond two deviations on one side
    inner = op.cast(uniform(op, size, low=edge, high=1 - edge), _DOUBLE)
    return op.cast(op.Clip(ndtri(op, inner), -2.0, 2.0), dtype)


# draw(builder) gives numbers in double, and which of them are accepted.
Draw = Callable[[OpBuilder], tuple[ir.Value, ir.Value]]


def _until_accepted(op: OpBuilder, like: ir.Value, draw: Draw) -> ir.Value:
    """Numbers of at least 0, drawn again until each is accepted; as many as `like`, in double, has."""

    def build(b: OpBuilder) -> list[ir.Value]:
        b.input("k", ir.DataType.INT64, [])
        b.input("going", ir.DataType.BOOL, [])
        before = b.input("state", _DOUBLE, list(like.shape) if like.shape is not None else None)
        drawn, accepted = draw(b)
        after = b.Where(b.And(b.Less(before, 0.0), accepted), drawn, before)
        missing = b.Concat(b.const([0], ir.DataType.INT32), b.Reshape(b.cast(b.Less(after, 0.0), _INT32), [-1]), axis=0)
        return [b.Greater(b.ReduceMax(missing, keepdims=0), 0), after]

    none = op.Sub(op.Mul(like, 0.0), 1.0)
    result = op.Loop(_MOST_TURNS, True, none, body=op.body(build), outputs=1)
    result.shape = like.shape
    return result


def gamma(op: OpBuilder, alpha: ir.Value) -> ir.Value:
    """Numbers of gamma distributions of scale 1, one for each shape `alpha`, in double; NaN of a shape that is not positive.

    Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000; below a shape of 1 the number of
    alpha + 1 times a power of a uniform one.
    """
    alpha = op.cast(alpha, _DOUBLE)
    shape, valid = op.shape(alpha), op.Greater(alpha, 0.0)
    safe = op.Where(valid, alpha, op.const(1.0, _DOUBLE))
    small = op.Less(safe, 1.0)
    base = op.Sub(op.Where(small, op.Add(safe, 1.0), safe), 1.0 / 3.0)
    slope = op.Reciprocal(op.Sqrt(op.Mul(base, 9.0)))

    def draw(b: OpBuilder) -> tuple[ir.Value, ir.Value]:
        x = normal(b, shape, _DOUBLE)
        root = b.Add(b.Mul(x, slope), 1.0)
        cube = b.Mul(b.Mul(root, root), root)
        positive = b.Greater(root, 0.0)
        logarithm = b.Log(b.Where(positive, cube, b.const(1.0, _DOUBLE)))
        bound = b.Add(b.Mul(b.Mul(x, x), 0.5), b.Mul(base, b.Add(b.Sub(1.0, cube), logarithm)))
        return b.Mul(base, cube), b.And(positive, b.Less(b.Log(uniform(b, shape, _DOUBLE, low=LEAST)), bound))

    drawn = _until_accepted(op, safe, draw)
    power = op.Exp(op.Div(op.Log(uniform(op, shape, _DOUBLE, low=LEAST)), safe))
    result = op.Where(small, op.Mul(drawn, power), drawn)
    return op.Where(valid, result, op.const(math.nan, _DOUBLE))


def _counted_up(op: OpBuilder, first: ir.Value, ratio: Callable[[OpBuilder, ir.Value], ir.Value]) -> ir.Value:
    """Whole numbers by inversion, for means below `_FEW`.

    `first` is the probability of 0, `ratio(builder, k)` that of k + 1 over that of k.
    """
    chance = uniform(op, op.shape(first), _DOUBLE)

    def step(b: OpBuilder, k: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        weight, below, number = states
        more = b.GreaterOrEqual(chance, below)
        weight = b.Mul(weight, ratio(b, b.cast(k, _DOUBLE)))
        return [weight, b.Add(below, weight), b.Add(number, b.cast(more, _DOUBLE))]

    # The share of what is beyond is below 2^-24, as fine as the numbers are drawn.
    return loop(op, op.const(int(6 * _FEW)), [first, first, op.Mul(first, 0.0)], step)[2]


def _hat(op: OpBuilder, shape: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """A uniform number about 0, how far it is from the nearer end, and another uniform number."""
    u = op.Sub(uniform(op, shape, _DOUBLE, low=LEAST), 0.5)
    return u, op.Max(op.Sub(0.5, op.Abs(u)), LEAST), uniform(op, shape, _DOUBLE, low=LEAST)


def poisson(op: OpBuilder, rate: ir.Value) -> ir.Value:
    """Numbers of Poisson distributions, one for each rate, in double; 0 of a rate of 0, NaN of a negative one.

    Source: Hoermann, "The transformed rejection method for generating Poisson random variables", 1993, algorithm PTRS.
    """
    rate = op.cast(rate, _DOUBLE)
    one = op.const(1.0, _DOUBLE)
    few = op.Less(rate, _FEW)
    low = op.Where(op.And(few, op.Greater(rate, 0.0)), rate, one)
    high = op.Where(few, op.const(_FEW, _DOUBLE), rate)
    b_ = op.Add(op.Mul(op.Sqrt(high), 2.53), 0.931)
    a_ = op.Sub(op.Mul(b_, 0.02483), 0.059)
    inverse = op.Add(op.Div(1.1328, op.Sub(b_, 3.4)), 1.1239)
    quick = op.Sub(0.9277, op.Div(3.6224, op.Sub(b_, 2.0)))

    def draw(b: OpBuilder) -> tuple[ir.Value, ir.Value]:
        u, near, v = _hat(b, b.shape(high))
        k = b.Floor(b.Add(b.Mul(b.Add(b.Div(b.Mul(a_, 2.0), near), b_), u), b.Add(high, 0.43)))
        at_once = b.And(b.GreaterOrEqual(near, 0.07), b.LessOrEqual(v, quick))
        safe = b.Max(k, 0.0)
        left = b.Log(b.Div(b.Mul(v, inverse), b.Add(b.Div(a_, b.Mul(near, near)), b_)))
        right = b.Sub(b.Sub(b.Mul(safe, b.Log(high)), high), lgamma(b, b.Add(safe, 1.0)))
        out = b.Or(b.Less(k, 0.0), b.And(b.Less(near, 0.013), b.Greater(v, near)))
        return safe, b.Or(at_once, b.And(b.Not(out), b.LessOrEqual(left, right)))

    small = _counted_up(op, op.Exp(op.Neg(low)), lambda b, k: b.Div(low, b.Add(k, 1.0)))
    drawn = op.Where(few, small, _until_accepted(op, high, draw))
    other = op.Where(op.Equal(rate, 0.0), rate, op.const(math.nan, _DOUBLE))
    return op.Where(op.Greater(rate, 0.0), drawn, other)


def binomial(op: OpBuilder, counts: ir.Value, chances: ir.Value) -> ir.Value:
    """Numbers of binomial distributions, in double.

    Source: Hoermann, "The generation of binomial random variates", 1993, algorithm BTRS.
    """
    counts, chances = op.cast(counts, _DOUBLE), op.cast(chances, _DOUBLE)
    n, share = op.Add(counts, op.Mul(chances, 0.0)), op.Add(chances, op.Mul(counts, 0.0))
    usual = op.And(op.Greater(n, 0.0), op.And(op.Greater(share, 0.0), op.Less(share, 1.0)))
    mirrored = op.Greater(share, 0.5)  # the failures are counted
    p = op.Where(usual, op.Where(mirrored, op.Sub(1.0, share), share), op.const(0.5, _DOUBLE))
    q = op.Sub(1.0, p)
    few = op.Less(op.Mul(n, p), _FEW)
    least = op.Where(few, op.const(4.0 * _FEW, _DOUBLE), n)
    shape = op.shape(p)
    first = op.Exp(op.Mul(n, op.Log(q)))
    odds = op.Div(p, q)
    small = _counted_up(
        op,
        op.Where(op.And(few, usual), first, op.const(1.0, _DOUBLE)),
        lambda b, k: b.Mul(odds, b.Div(b.Max(b.Sub(n, k), 0.0), b.Add(k, 1.0))),
    )
    chance = op.Where(few, op.const(0.5, _DOUBLE), p)
    rest = op.Sub(1.0, chance)
    spread = op.Sqrt(op.Mul(op.Mul(least, chance), rest))
    b_ = op.Add(op.Mul(spread, 2.53), 1.15)
    a_ = op.Add(op.Add(op.Mul(b_, 0.0248), -0.0873), op.Mul(chance, 0.01))
    centre = op.Add(op.Mul(least, chance), 0.5)
    quick = op.Sub(0.92, op.Div(4.2, b_))
    alpha = op.Mul(op.Add(op.Div(5.1, b_), 2.83), spread)
    mode = op.Floor(op.Mul(op.Add(least, 1.0), chance))
    top = op.Add(lgamma(op, op.Add(mode, 1.0)), lgamma(op, op.Add(op.Sub(least, mode), 1.0)))
    slope = op.Log(op.Div(chance, rest))

    def draw(b: OpBuilder) -> tuple[ir.Value, ir.Value]:
        u, near, v = _hat(b, shape)
        k = b.Floor(b.Add(b.Mul(b.Add(b.Div(b.Mul(a_, 2.0), near), b_), u), centre))
        at_once = b.And(b.GreaterOrEqual(near, 0.07), b.LessOrEqual(v, quick))
        inside = b.And(b.GreaterOrEqual(k, 0.0), b.LessOrEqual(k, least))
        safe = b.Where(inside, k, b.const(0.0, _DOUBLE))
        left = b.Log(b.Div(b.Mul(v, alpha), b.Add(b.Div(a_, b.Mul(near, near)), b_)))
        falls = b.Add(lgamma(b, b.Add(safe, 1.0)), lgamma(b, b.Add(b.Sub(least, safe), 1.0)))
        right = b.Add(b.Sub(top, falls), b.Mul(b.Sub(safe, mode), slope))
        return safe, b.And(inside, b.Or(at_once, b.LessOrEqual(left, right)))

    drawn = op.Where(few, small, _until_accepted(op, least, draw))
    drawn = op.Where(mirrored, op.Sub(n, drawn), drawn)
    fixed = op.Where(op.GreaterOrEqual(share, 1.0), n, op.const(0.0, _DOUBLE))
    return op.Where(usual, drawn, op.Where(op.Greater(n, 0.0), fixed, op.const(0.0, _DOUBLE)))


def truncated(
    op: OpBuilder, size: ir.Value, mean: ir.Value, deviation: ir.Value, least: ir.Value, most: ir.Value
) -> ir.Value:
    """Normal numbers between two bounds, in double, by the inverse of the distribution function of the nearer side."""
    low, high = (op.Div(op.Sub(op.cast(item, _DOUBLE), mean), deviation) for item in (least, most))
    # Beyond the mean the other side is drawn: the distribution function is close to 1 there.
    turned = op.Greater(op.Add(low, high), 0.0)
    first, second = op.Where(turned, op.Neg(high), low), op.Where(turned, op.Neg(low), high)
    start, end = ndtr(op, first), ndtr(op, second)
    share = op.Add(start, op.Mul(op.Sub(end, start), uniform(op, size, _DOUBLE, low=LEAST)))
    drawn = op.Min(op.Max(ndtri(op, share), first), second)
    drawn = op.Where(turned, op.Neg(drawn), drawn)
    return op.Add(mean, op.Mul(drawn, deviation))


def bits(op: OpBuilder, size: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Whole numbers of all the values that an integer type has, alike: of pieces of 16 bits each."""
    pieces = [
        op.cast(op.Floor(op.Mul(uniform(op, size, _DOUBLE), 65536.0)), ir.DataType.INT64)
        for _ in range(max(int(dtype.bitwidth) // 16, 1))
    ]
    number = pieces[0]
    for piece in pieces[1:]:
        number = op.Add(op.Mul(number, 65536), piece)
    return op.cast(number, dtype)
