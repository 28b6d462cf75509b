"""Recipes of boxes, grids, signals, strings, optionals and what else few models hold."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, defs

from onnxport.validation.input_sets.domains import Range
from scripts.conformance.random_graph_drawing import Call, Drawing, Undrawable
from scripts.conformance.random_graph_operators import recipe

_REAL = (TensorProto.FLOAT, TensorProto.DOUBLE)


@recipe("AffineGrid")
def _affine_grid(d: Drawing, s: defs.OpSchema) -> Call:
    spatial = d.rng.choice([2, 2, 3])  # of float64 the evaluator gives a float32
    batch = d.rng.randint(1, 2)
    theta = d.new(d.numbers(TensorProto.FLOAT, (batch, spatial, spatial + 1)))
    size = d.host([batch, d.rng.randint(1, 3), *(d.rng.randint(2, 4) for _ in range(spatial))])
    return Call([theta, size], {"align_corners": d.rng.choice([None, 0, 1])})


@recipe("BitCast")
def _bit_cast(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand([TensorProto.FLOAT, TensorProto.INT32, TensorProto.UINT32, TensorProto.INT16, TensorProto.UINT8])
    width = d.values[x].dtype.itemsize  # to whole numbers: the bits of a random number are often no finite one
    whole = {1: ("INT8", "UINT8"), 2: ("INT16", "UINT16"), 4: ("INT32", "UINT32")}[width]
    return Call([x], {"to": int(TensorProto.DataType.Value(d.rng.choice(whole)))})


@recipe("MelWeightMatrix")
def _mel(d: Drawing, s: defs.OpSchema) -> Call:
    sizes = [d.new(np.asarray(n, np.int64), constant=0.8) for n in (d.rng.randint(2, 6), 16, 8192)]
    edges = [d.new(np.asarray(n, np.float32), constant=0.8) for n in (0.0, 4096.0)]
    return Call([*sizes, *edges], {"output_datatype": d.rng.choice([None, *_REAL])})


@recipe("STFT")
def _stft(d: Drawing, s: defs.OpSchema) -> Call:
    length, step = d.rng.randint(2, 5), d.rng.randint(1, 3)
    signal = d.new(d.numbers(d.kind(_REAL), (d.rng.randint(1, 2), d.rng.randint(8, 12), 1)))
    window = d.like(signal, (length,)) if d.chance(0.6) else ""
    size = d.new(np.asarray(length, np.int64), constant=1.0) if not window or d.chance(0.5) else ""
    hop = d.new(np.asarray(step, np.int64), constant=1.0)
    return Call([signal, hop, window, size], {"onesided": d.rng.choice([None, 0, 1])})


def _boxes(d: Drawing, count: int) -> np.ndarray:
    """Boxes (count, 4) with their lower corner first."""
    low = d.numpy.uniform(0, 0.6, (count, 2))
    return np.concatenate([low, low + d.numpy.uniform(0.1, 0.4, (count, 2))], 1).astype(np.float32)


@recipe("NonMaxSuppression")
def _suppression(d: Drawing, s: defs.OpSchema) -> Call:
    batch, classes, count = d.rng.randint(1, 2), d.rng.randint(1, 2), d.rng.randint(1, 5)
    boxes = d.new(np.stack([_boxes(d, count) for _ in range(batch)]))
    scores = d.new(d.numpy.permutation(batch * classes * count).reshape(batch, classes, count).astype(np.float32))
    limits = [d.new(np.asarray([d.rng.randint(1, 4)], np.int64), constant=1.0)]
    limits += [d.new(np.asarray([n], np.float32), constant=1.0) for n in (0.4, 0.5)[: d.rng.randint(0, 2)]]
    return Call([boxes, scores, *limits], {"center_point_box": 0} if s.since_version > 10 or d.chance(0.5) else {})


@recipe("RoiAlign")
def _roi_align(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand([TensorProto.FLOAT], rank=(4, 4), least=2)
    count = d.rng.randint(1, 3)
    rois = d.new(_boxes(d, count) * np.float32(d.values[x].shape[-1]))
    batch = d.new(d.numpy.integers(0, d.values[x].shape[0], count).astype(np.int64))
    drawn = {name: d.rng.choice([None, 1, 2]) for name in ("output_height", "output_width")}
    drawn["sampling_ratio"] = d.rng.choice([1, 2])
    if "coordinate_transformation_mode" in s.attributes:
        drawn["coordinate_transformation_mode"] = d.rng.choice([None, "output_half_pixel"])
    return Call([x, rois, batch], drawn)


@recipe("RotaryEmbedding")
def _rotary(d: Drawing, s: defs.OpSchema) -> Call:
    batch, heads, length, half = (d.rng.randint(1, 3) for _ in range(4))
    x = d.new(d.numbers(d.kind(_REAL), (batch, heads, length, 2 * half)))
    by_place = d.chance(0.5)
    table = (7, half) if by_place else (batch, length, half)
    cos, sin = (d.like(x, table, Range(-1, 1)) for _ in range(2))
    places = d.new(d.numpy.integers(0, 7, (batch, length)).astype(np.int64)) if by_place else ""
    return Call([x, cos, sin, places], {"interleaved": d.rng.choice([None, 0, 1])})


@recipe("TensorScatter")
def _tensor_scatter(d: Drawing, s: defs.OpSchema) -> Call:
    past = d.operand(_REAL, rank=(3, 4), least=1)
    shape = d.values[past].shape
    new = d.rng.randint(1, shape[-2])
    update = d.like(past, (*shape[:-2], new, shape[-1]))
    circular = d.chance(0.4)
    most = shape[-2] - 1 if circular else shape[-2] - new
    indices = d.new(d.numpy.integers(0, most + 1, shape[0]).astype(np.int64)) if d.chance(0.7) else ""
    return Call([past, update, indices], {"mode": "circular" if circular else None})


@recipe("StringSplit")
def _string_split(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand([TensorProto.STRING], rank=(0, 2), least=1)
    return Call([x], {"delimiter": d.rng.choice([" ", "o"]), "maxsplit": d.rng.choice([None, 1])}, 2)


@recipe("RegexFullMatch")
def _regex(d: Drawing, s: defs.OpSchema) -> Call:
    return Call([d.operand([TensorProto.STRING])], {"pattern": d.rng.choice(["a", "[a-z]+", "-?[0-9.]+", "w?ord"])})


@recipe("TfIdfVectorizer")
def _tfidf(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.new(d.numpy.integers(0, 5, d.rng.choice([(6,), (2, 5)])).astype(d.rng.choice([np.int32, np.int64])))
    pool = [0, 1, 3, 0, 1, 1, 2]  # two single numbers after one, and two pairs
    drawn = {"pool_int64s": pool, "ngram_counts": [0, 3], "ngram_indexes": [0, 1, 2, 3, 4], "max_skip_count": 0}
    drawn |= {"min_gram_length": 1, "max_gram_length": 2, "mode": d.rng.choice(["TF", "IDF", "TFIDF"])}
    return Call([x], drawn | {"weights": [0.5, 1.0, 2.0, 0.25, 1.5]})


@recipe("DeformConv")
def _deform(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand([TensorProto.FLOAT], rank=(4, 4), least=2)
    batch, channels, height, width = d.values[x].shape
    kernel = (d.rng.randint(1, 2), d.rng.randint(1, 2))
    sizes = (height - kernel[0] + 1, width - kernel[1] + 1)
    w = d.like(x, (d.rng.randint(1, 3), channels, *kernel), constant=0.8)
    offset = d.new(d.numbers(TensorProto.FLOAT, (batch, 2 * kernel[0] * kernel[1], *sizes), Range(-0.9, 0.9)))
    bias = d.like(x, d.values[w].shape[:1]) if d.chance(0.5) else ""
    mask = d.like(x, (batch, kernel[0] * kernel[1], *sizes), Range(0, 1)) if d.chance(0.4) else ""
    return Call([x, w, offset, bias, mask], {"kernel_shape": list(kernel), "pads": [0, 0, 0, 0]})


@recipe("SequenceEmpty")
def _empty(d: Drawing, s: defs.OpSchema) -> Call:
    return Call([], {"dtype": d.kind(_REAL)})


@recipe("Optional")
def _optional(d: Drawing, s: defs.OpSchema) -> Call:
    return Call([d.operand(d.kinds(s, "V") or _REAL)])


@recipe("OptionalHasElement", "OptionalGetElement")
def _of_optional(d: Drawing, s: defs.OpSchema) -> Call:
    if d.opset < 18:
        raise Undrawable("a tensor is no optional before")
    return Call([d.operand([TensorProto.FLOAT, TensorProto.INT64])])
