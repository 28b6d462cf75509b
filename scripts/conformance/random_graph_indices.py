"""Recipes of operators that gather, scatter, choose and order, of constants, sequences and strings."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, defs, numpy_helper

from onnxport.validation.input_sets.domains import Range
from scripts.conformance.random_graph_drawing import Call, Drawing, Undrawable, kind_of
from scripts.conformance.random_graph_operators import recipe

_WHOLE = (np.int32, np.int64)


def _indices(d: Drawing, shape: tuple[int, ...], size: int, *, negative: bool = True) -> str:
    """Positions along an axis of `size`."""
    if not size:
        raise Undrawable("nothing to choose from")
    low = -size if negative and d.opset >= 11 and d.chance(0.5) else 0
    return d.new(d.numpy.integers(low, size, shape).astype(d.rng.choice(_WHOLE)))


@recipe("Gather")
def _gather(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(1, 4))
    axis = d.axis(d.values[x].ndim)
    return Call(
        [x, _indices(d, d.shape(0, 2), d.values[x].shape[axis])], {"axis": axis if axis or d.chance(0.5) else None}
    )


@recipe("GatherElements", "ScatterElements", "Scatter")
def _elements(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(1, 3), least=1)
    shape = d.values[x].shape
    axis = d.axis(len(shape))
    sizes = tuple(d.rng.randint(1, size) for size in shape)
    drawn: dict[str, Any] = {"axis": axis if axis or d.chance(0.5) else None}
    if s.name == "GatherElements":
        return Call([x, _indices(d, sizes, shape[axis])], drawn)
    reduction = d.rng.choice([None, "none", "add", "mul", *(["max", "min"] if d.opset >= 18 else [])])
    plain = d.values[x].dtype.kind not in "Obc"
    drawn["reduction"] = reduction if "reduction" in s.attributes and plain else None
    if drawn["reduction"] in (None, "none"):  # each place once: the order of updates is open
        order = np.argsort(
            d.numpy.random((*sizes[: axis % len(shape)], shape[axis], *sizes[axis % len(shape) + 1 :])), axis
        )
        places = np.take(order, range(sizes[axis]), axis).astype(d.rng.choice(_WHOLE))
        indices = d.new(places - (shape[axis] if d.opset >= 11 and d.chance(0.3) else 0))
    else:
        indices = _indices(d, sizes, shape[axis])
    return Call([x, indices, d.like(x, sizes)], drawn)


@recipe("GatherND", "ScatterND")
def _nd(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(1, 4), least=1)
    shape = d.values[x].shape
    batch = d.rng.choice([0, 0, 1]) if s.name == "GatherND" and len(shape) > 1 and "batch_dims" in s.attributes else 0
    depth = d.rng.randint(1, len(shape) - batch)
    sizes = (*shape[:batch], *d.shape(0 if batch else 1, 2, least=1))
    grid = np.stack([d.numpy.integers(0, n, sizes) for n in shape[batch : batch + depth]], -1)
    if s.name == "GatherND":
        return Call([x, d.new(grid.astype(np.int64))], {"batch_dims": batch or None})
    reduction = d.rng.choice([None, "add", "mul", *(["max", "min"] if d.opset >= 18 else [])])
    if reduction is None or "reduction" not in s.attributes or d.values[x].dtype.kind in "Obc":
        flat = grid.reshape(-1, depth)
        if len(np.unique(flat, axis=0)) != len(flat):
            raise Undrawable("a place twice")
        reduction = None
    updates = d.like(x, (*sizes, *shape[depth:]))
    return Call([x, d.new(grid.astype(np.int64)), updates], {"reduction": reduction})


@recipe("OneHot")
def _one_hot(d: Drawing, s: defs.OpSchema) -> Call:
    indices = d.operand(d.kinds(s, "T1"), rank=(0, 3), allowed=Range(-9, 9))
    if d.values[indices].dtype.kind not in "iu":
        raise Undrawable("whole numbers")
    depth = d.new(np.asarray(d.rng.randint(1, 5), d.rng.choice(_WHOLE)), constant=0.8)
    values = d.new(d.numbers(d.kind(d.kinds(s, "T3")), (2,)))
    return Call([indices, depth, values], {"axis": d.axis(d.values[indices].ndim, 1) if d.chance(0.6) else None})


@recipe("TopK")
def _top(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(1, 3), least=1)
    axis = d.axis(d.values[x].ndim)
    count = d.rng.randint(1, d.values[x].shape[axis])
    drawn = {"axis": axis}
    if d.opset >= 11:
        drawn["largest"] = d.rng.choice([None, 0, 1])
    return Call([x, d.host([count])] if d.opset >= 10 else [x], drawn if d.opset >= 10 else drawn | {"k": count}, 2)


@recipe("Unique")
def _unique(d: Drawing, s: defs.OpSchema) -> Call:
    kinds = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.INT8]  # which onnxruntime has
    x = d.operand(kinds, rank=(1, 3), least=1)
    axis = d.axis(d.values[x].ndim) if d.chance(0.4) else None
    return Call([x], {"axis": axis, "sorted": d.rng.choice([None, 0, 1])}, d.rng.randint(1, 4))


@recipe("Compress")
def _compress(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(1, 3), least=1)
    axis = d.axis(d.values[x].ndim) if d.chance(0.6) else None
    size = d.values[x].size if axis is None else d.values[x].shape[axis]
    return Call([x, d.new(d.numbers(TensorProto.BOOL, (d.rng.randint(1, size),)))], {"axis": axis})


@recipe("ReverseSequence")
def _reverse(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(2, 4), least=1)
    time = d.rng.randint(0, 1)
    shape = d.values[x].shape
    lengths = d.new(d.numpy.integers(1, shape[time] + 1, shape[1 - time]).astype(np.int64))
    return Call([x, lengths], {"time_axis": time, "batch_axis": 1 - time})


@recipe("Trilu", "EyeLike")
def _triangle(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T" if s.name == "Trilu" else "T1"), rank=(2, 4 if s.name == "Trilu" else 2))
    if s.name == "EyeLike":
        target = d.kind(d.kinds(s, "T2")) if d.chance(0.5) else None
        if target is None and kind_of(d.values[x]) not in d.kinds(s, "T2"):
            raise Undrawable("no such type")
        return Call([x], {"k": d.rng.choice([None, -1, 0, 2]), "dtype": target})
    diagonal = d.new(np.asarray(d.rng.randint(-3, 3), np.int64), constant=0.8) if d.chance(0.6) else ""
    return Call([x, diagonal], {"upper": d.rng.choice([None, 0, 1])})


@recipe("Range")
def _range(d: Drawing, s: defs.OpSchema) -> Call:
    kind = d.kind(d.kinds(s, "T"))
    dtype = d.numbers(kind, ()).dtype
    step = d.rng.choice([1, 2, 0.5, -1] if dtype.kind == "f" else [1, 2, 3, -1])
    start = d.rng.choice([0, 1, -2, 5])
    numbers = (start, start + d.rng.choice([0, 1, 2, 3, 5, -1]) * (1 if step > 0 else -1), step)
    return Call([d.new(np.asarray(number, dtype), constant=0.7) for number in numbers])


@recipe("ConstantOfShape")
def _of_shape(d: Drawing, s: defs.OpSchema) -> Call:
    value = numpy_helper.from_array(d.numbers(d.kind(d.kinds(s, "T2")), (1,))) if d.chance(0.7) else None
    return Call([d.host(d.shape())], {"value": value})


@recipe("Constant")
def _constant(d: Drawing, s: defs.OpSchema) -> Call:
    kind = d.kind(d.kinds(s, "T"))
    forms: list[dict[str, Any]] = [{"value": numpy_helper.from_array(d.numbers(kind, d.shape()))}]
    if d.opset >= 12:
        forms += [{"value_float": 0.5}, {"value_int": 3}, {"value_floats": [0.5, -1.0]}, {"value_ints": [2, -3]}]
        forms += [{"value_string": "a"}, {"value_strings": ["a", "b"]}]
    return Call([], forms[0] if d.chance(0.5) else d.rng.choice(forms))


@recipe("CenterCropPad")
def _crop(d: Drawing, s: defs.OpSchema) -> Call:
    kinds = set(d.kinds(s, "T")) - {TensorProto.STRING}  # with what strings are padded is open
    x = d.operand(sorted(kinds), rank=(1, 3), least=1)
    axes = d.axes(d.values[x].ndim) if d.chance(0.5) else None
    sizes = [d.rng.randint(1, 5) for _ in (axes or d.values[x].shape)]
    return Call([x, d.host(sizes, d.rng.choice(_WHOLE))], {"axes": axes})


@recipe("BlackmanWindow", "HammingWindow", "HannWindow")
def _spectral_window(d: Drawing, s: defs.OpSchema) -> Call:
    kinds = [TensorProto.FLOAT, TensorProto.DOUBLE]
    size = d.new(np.asarray(d.rng.randint(2, 9), d.rng.choice(_WHOLE)), constant=0.7)
    return Call([size], {"periodic": d.rng.choice([None, 0, 1]), "output_datatype": d.rng.choice([None, *kinds])})


@recipe("DFT")
def _dft(d: Drawing, s: defs.OpSchema) -> Call:
    kinds = [TensorProto.FLOAT, TensorProto.DOUBLE]
    rows, length = d.rng.randint(1, 2), d.rng.randint(2, 6)
    x = d.new(d.numbers(d.kind(kinds), (rows, length, d.rng.randint(1, 2))))
    real = d.values[x].shape[-1] == 1
    drawn = {"onesided": 1 if real and d.chance(0.4) else None, "inverse": 1 if not real and d.chance(0.4) else None}
    size = (
        d.host([])
        if False
        else (d.new(np.asarray(d.rng.randint(2, 7), np.int64), constant=1.0) if d.chance(0.4) else "")
    )
    if "axis" in s.attributes:
        return Call([x, size], drawn | {"axis": 1})
    return Call([x, size, d.new(np.asarray(1, np.int64), constant=1.0)], drawn)


@recipe("StringNormalizer")
def _normalizer(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.new(d.numbers(TensorProto.STRING, (d.rng.randint(1, 4),)))
    drawn = {
        "case_change_action": d.rng.choice([None, "LOWER", "UPPER", "NONE"]),
        "is_case_sensitive": 1,
        "locale": "C",  # which every machine has: onnxruntime runs it
    }
    return Call([x], drawn | {"stopwords": d.rng.choice([None, ["a", "WORD"]])})


@recipe("SequenceConstruct")
def _sequence(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"))
    return Call([x, *(d.like(x, d.shape()) for _ in range(d.rng.randint(0, 2)))])


def _known_sequence(d: Drawing) -> str:
    names = [name for name, value in d.values.items() if isinstance(value, list) and value and name in d.results]
    if not names:
        raise Undrawable("no sequence")
    return d.rng.choice(names)


@recipe("SequenceAt", "SequenceErase", "SequenceLength", "SequenceInsert")
def _of_sequence(d: Drawing, s: defs.OpSchema) -> Call:
    x = _known_sequence(d)
    size = len(d.values[x])
    place = d.new(np.asarray(d.rng.randint(-size, size - 1), d.rng.choice(_WHOLE)), constant=0.8)
    if s.name == "SequenceLength":
        return Call([x])
    if s.name == "SequenceInsert":
        item = d.new(d.numbers(kind_of(d.values[x][0]), d.shape()))
        return Call([x, item, place if d.chance(0.6) else ""])
    return Call([x, place if s.name == "SequenceAt" or d.chance(0.6) else ""])


@recipe("ConcatFromSequence")
def _from_sequence(d: Drawing, s: defs.OpSchema) -> Call:
    x = _known_sequence(d)
    rank = min(item.ndim for item in d.values[x])
    stack = d.chance(0.3)
    return Call([x], {"axis": d.axis(rank, int(stack)), "new_axis": int(stack)})


@recipe("SplitToSequence")
def _to_sequence(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(1, 3), least=1)
    axis = d.axis(d.values[x].ndim)
    size = d.values[x].shape[axis]
    part = d.rng.choice([n for n in range(1, size + 1) if size % n == 0])
    split = d.new(np.asarray(part, np.int64), constant=0.8) if d.chance(0.6) else ""
    return Call([x, split], {"axis": axis, "keepdims": d.rng.choice([None, 0, 1])})
