"""Recipes of windows, products, normalisations, recurrent and quantised operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, defs

from onnxport.validation.input_sets.domains import Range
from scripts.conformance.random_graph_drawing import Call, Drawing, Undrawable, kind_of
from scripts.conformance.random_graph_operators import attributes, recipe


def _image(
    d: Drawing, s: defs.OpSchema, name: str = "T", dims: tuple[int, int] = (1, 3)
) -> tuple[str, tuple[int, ...]]:
    """An operand (N, C, d1, ...)."""
    # LRN and LpPool: onnxruntime, which decides on them, has no others
    kinds = (TensorProto.FLOAT, TensorProto.FLOAT16) if s.name in ("LRN", "LpPool") else d.kinds(s, name)
    x = d.operand(kinds, rank=(dims[0] + 2, dims[1] + 2), least=1)
    return x, d.values[x].shape


def _window(d: Drawing, sizes: Sequence[int], *, dilated: bool = True, padded: bool = True) -> dict[str, Any]:
    """Kernel, strides, pads or auto_pad and dilations that fit the sizes of an image."""
    kernel = [d.rng.randint(1, min(3, size)) for size in sizes]
    drawn: dict[str, Any] = {"kernel_shape": kernel}
    if d.chance(0.5):
        drawn["strides"] = [d.rng.randint(1, 3) for _ in sizes]
    dilations = [d.rng.randint(1, 2) if (k - 1) * 2 + 1 <= n else 1 for k, n in zip(kernel, sizes, strict=True)]
    if dilated and d.chance(0.4):
        drawn["dilations"] = dilations
    if padded and d.chance(0.5):
        drawn["pads"] = [d.rng.randint(0, k - 1) for k in kernel * 2]
    elif padded and d.chance(0.4):
        drawn["auto_pad"] = d.rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
    return drawn


@recipe("Conv")
def _conv(d: Drawing, s: defs.OpSchema) -> Call:
    x, shape = _image(d, s)
    group = d.rng.choice([n for n in range(1, shape[1] + 1) if shape[1] % n == 0])
    maps = group * d.rng.randint(1, 3)
    drawn = _window(d, shape[2:])
    kernel = drawn["kernel_shape"]
    if d.chance(0.5):
        del drawn["kernel_shape"]
    w = d.like(x, (maps, shape[1] // group, *kernel), constant=0.8)
    b = d.like(x, (maps,), constant=0.8) if d.chance(0.5) else ""
    return Call([x, w, b], drawn | {"group": group if group > 1 else None})


@recipe("ConvTranspose")
def _conv_transpose(d: Drawing, s: defs.OpSchema) -> Call:
    x, shape = _image(d, s)
    group = d.rng.choice([n for n in range(1, shape[1] + 1) if shape[1] % n == 0])
    each = d.rng.randint(1, 3)
    drawn = _window(d, shape[2:])
    if "strides" in drawn and d.chance(0.5) and "auto_pad" not in drawn:
        drawn["output_padding"] = [d.rng.randint(0, stride - 1) for stride in drawn["strides"]]
    w = d.like(x, (shape[1], each, *drawn["kernel_shape"]), constant=0.8)
    b = d.like(x, (each * group,), constant=0.8) if d.chance(0.5) else ""
    return Call([x, w, b], drawn | {"group": group if group > 1 else None})


@recipe("AveragePool", "MaxPool", "LpPool")
def _pool(d: Drawing, s: defs.OpSchema) -> Call:
    x, shape = _image(d, s)
    drawn = _window(d, shape[2:], dilated="dilations" in s.attributes)
    if "ceil_mode" in s.attributes and d.chance(0.4):
        drawn["ceil_mode"] = 1
    if "count_include_pad" in s.attributes and d.chance(0.5):
        drawn["count_include_pad"] = 1
    if s.name == "LpPool":
        drawn["p"] = d.rng.choice([1, 2, 3])
    outputs = 2 if s.name == "MaxPool" and d.chance(0.3) else 1
    return Call([x], drawn, outputs)


@recipe("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "LRN", "DepthToSpace", "SpaceToDepth")
def _whole_image(d: Drawing, s: defs.OpSchema) -> Call:
    x, shape = _image(d, s, dims=(2, 2) if s.name in ("DepthToSpace", "SpaceToDepth", "LRN") else (1, 3))
    if s.name == "LRN":
        return Call(
            [x],
            {"size": d.rng.choice([1, 3, 5]), "bias": d.rng.choice([None, 2.0]), "alpha": d.rng.choice([None, 0.5])},
        )
    if s.name == "GlobalLpPool":
        return Call([x], {"p": d.rng.choice([1, 2])})
    if s.name in ("DepthToSpace", "SpaceToDepth"):
        if s.name == "DepthToSpace":
            x = d.like(x, (shape[0], 4 * d.rng.randint(1, 2), *shape[2:]))
            mode = d.rng.choice([None, "DCR", "CRD"]) if "mode" in s.attributes else None
            return Call([x], {"blocksize": 2, "mode": mode})
        return Call([d.like(x, (*shape[:2], 2, 2 * d.rng.randint(1, 2)))], {"blocksize": 2})
    return Call([x])


@recipe("MatMul", "MatMulInteger")
def _matmul(d: Drawing, s: defs.OpSchema) -> Call:
    integer = s.name == "MatMulInteger"
    a = d.operand(d.kinds(s, "T1" if integer else "T"), rank=(1, 4))
    shape = d.values[a].shape
    columns = [d.rng.randint(1, 4)] if d.chance(0.85) else []
    batch = list(d.beside(shape[:-2])) if columns else []
    sizes = (*batch, shape[-1], *columns)
    if not integer:
        return Call([a, d.like(a, sizes)])
    b = d.new(d.numbers(d.kind(d.kinds(s, "T2")), sizes))
    zeros = [d.like(a, ()) if d.chance(0.5) else "", d.like(b, ()) if d.chance(0.5) else ""]
    return Call([a, b, *zeros])


@recipe("Gemm")
def _gemm(d: Drawing, s: defs.OpSchema) -> Call:
    a = d.operand(d.kinds(s, "T"), rank=(2, 2))
    drawn: dict[str, Any] = {name: d.rng.randint(0, 1) for name in ("transA", "transB") if d.chance(0.6)}
    rows, inner = d.values[a].shape[:: -1 if drawn.get("transA") else 1]
    columns = d.rng.randint(1, 4)
    b = d.like(a, (columns, inner) if drawn.get("transB") else (inner, columns))
    c = d.like(a, d.rng.choice([(), (columns,), (1, columns), (rows, 1), (rows, columns)]))
    scales = {name: d.rng.choice([None, 0.5, 2.0]) for name in ("alpha", "beta")}
    whole = d.values[a].dtype.kind in "iu"
    return Call([a, b, c if d.opset < 11 or d.chance(0.7) else ""], drawn | ({} if whole else scales))


@recipe("Einsum")
def _einsum(d: Drawing, s: defs.OpSchema) -> Call:
    a = d.operand(d.kinds(s, "T"), rank=(2, 2))
    i, j = d.values[a].shape
    texts = {
        "ij->ji": [], "ij->": [], "ij,jk->ik": [(j, 3)], "ij,ij->i": [(i, j)], "ij,k->ijk": [(2,)], "ij, j -> i": [(j,)],
        "...j->...": [], "ij,jk": [(j, 2)], "ij,ik->jk": [(i, 2)], "ij,bj->bi": [(2, j)], "...i,...i->...": [(i, j)],
    }  # fmt: skip
    text = d.rng.choice(list(texts))
    return Call([a, *(d.like(a, shape) for shape in texts[text])], {"equation": text})


@recipe("Det")
def _det(d: Drawing, s: defs.OpSchema) -> Call:
    fits = lambda value: value.shape[-1] == value.shape[-2]  # noqa: E731
    return Call([d.operand(d.kinds(s, "T"), rank=(2, 3), least=1, fits=fits)])


@recipe("BatchNormalization", "InstanceNormalization", "GroupNormalization")
def _channels(d: Drawing, s: defs.OpSchema) -> Call:
    x, shape = _image(d, s, s.inputs[0].type_str, dims=(0 if s.name[0] == "B" else 1, 3))
    drawn = {"epsilon": d.rng.choice([None, 1e-3, 0.1])}
    sizes = (shape[1],)
    if s.name == "GroupNormalization":
        groups = d.rng.choice([n for n in range(1, shape[1] + 1) if shape[1] % n == 0])
        drawn["num_groups"] = groups
        sizes = (groups,) if s.since_version == 18 else sizes
        if "stash_type" in s.attributes and kind_of(d.values[x]) == TensorProto.DOUBLE:
            drawn["stash_type"] = TensorProto.DOUBLE  # which importers compute in whatever is asked
    scale, bias = d.like(x, sizes, constant=0.8), d.like(x, sizes, constant=0.8)
    if s.name[0] != "B":
        return Call([x, scale, bias], drawn)
    mean, variance = d.like(x, sizes, constant=0.8), d.like(x, sizes, Range(0.5, 2), constant=0.8)
    return Call([x, scale, bias, mean, variance], drawn | {"momentum": d.rng.choice([None, 0.5])})


@recipe("LayerNormalization", "RMSNormalization", "MeanVarianceNormalization")
def _layer(d: Drawing, s: defs.OpSchema) -> Call:
    if s.name[0] == "M":
        x = d.operand(d.kinds(s, "T"), rank=(4, 4), least=1)
        return Call([x], {"axes": d.rng.choice([None, [0, 2, 3], [1], [2, 3]])})
    x = d.operand(d.kinds(s, "T"), rank=(1, 4), least=1)
    rank = d.values[x].ndim
    axis = d.rng.choice([None, *range(-rank, rank)])
    tail = d.values[x].shape[-1 if axis is None else axis :]
    drawn = {"axis": axis, "epsilon": d.rng.choice([None, 1e-3])}
    scale = d.like(x, tail, constant=0.8)
    if s.name[0] == "R":
        return Call([x, scale], drawn)
    return Call([x, scale, d.like(x, tail, constant=0.8) if d.chance(0.6) else ""], drawn, d.rng.choice([1, 1, 3]))


@recipe("PRelu")
def _prelu(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"))
    shape = d.values[x].shape
    sizes = [1 if d.chance(0.5) else size for size in shape[d.rng.randint(0, len(shape)) :]]
    return Call([x, d.like(x, sizes)])


@recipe("Dropout")
def _dropout(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), least=1)
    if "ratio" in s.attributes:
        return Call([x], {"ratio": d.rng.choice([None, 0.3])}, d.rng.choice([1, 2]))
    ratio = d.new(np.float32(0.4) + np.zeros((), np.float32)) if d.chance(0.5) else ""
    mode = d.new(np.zeros((), bool), constant=1.0) if d.chance(0.4) else ""
    return Call([x, ratio, mode], {}, d.rng.choice([1, 2]))


@recipe("RNN", "GRU", "LSTM")
def _recurrent(d: Drawing, s: defs.OpSchema) -> Call:
    # onnxruntime, which decides on what is special, has no others
    x = d.operand([TensorProto.FLOAT], rank=(3, 3), least=1, allowed=Range(-3, 3))
    shape = d.values[x].shape
    by_batch = "layout" in s.attributes and d.chance(0.2)
    batch, length = (shape[0], shape[1]) if by_batch else (shape[1], shape[0])
    gates, hidden = {"RNN": 1, "GRU": 3, "LSTM": 4}[s.name], d.rng.randint(1, 3)
    direction = None if by_batch else d.rng.choice([None, "forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    small = Range(-1, 1)
    w = d.like(x, (ways, gates * hidden, shape[2]), small, 0.9)
    r = d.like(x, (ways, gates * hidden, hidden), small, 0.9)
    b = d.like(x, (ways, 2 * gates * hidden), small, 0.9) if d.chance(0.6) else ""
    lengths = d.new(d.numpy.integers(1, length + 1, batch).astype(np.int32)) if not by_batch and d.chance(0.25) else ""
    state = (batch, ways, hidden) if by_batch else (ways, batch, hidden)
    first = d.like(x, state, small) if d.chance(0.5) else ""
    drawn: dict[str, Any] = {"hidden_size": hidden, "direction": direction, "layout": 1 if by_batch else None}
    if s.name == "GRU":
        drawn["linear_before_reset"] = d.rng.choice([None, 0, 1])
    if d.chance(0.3):
        own = {"RNN": ["Relu"], "GRU": ["HardSigmoid", "Tanh"], "LSTM": ["Sigmoid", "Softsign", "Tanh"]}[s.name]
        drawn["activations"] = own * ways
    drawn["clip"] = d.rng.choice([None, None, None, 0.5])
    if by_batch:  # onnxruntime has no such layout, and the evaluator nothing special
        for name in ("direction", "activations", "clip"):
            drawn.pop(name, None)
    inputs = [x, w, r, b, lengths, first]
    if s.name == "LSTM":
        inputs.append(d.like(x, state, small) if d.chance(0.4) else "")
        inputs.append(d.like(x, (ways, 3 * hidden), small, 0.9) if d.chance(0.3) else "")
        drawn["input_forget"] = None if by_batch else d.rng.choice([None, None, 0, 1])
    return Call(inputs, drawn, d.rng.randint(1, 3 if s.name == "LSTM" else 2))


_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
_SCALES = Range(2.0**-4, 2.0**-1)


@recipe("QuantizeLinear", "DequantizeLinear")
def _quantize(d: Drawing, s: defs.OpSchema) -> Call:
    quantise = s.name == "QuantizeLinear"
    x = d.operand(d.kinds(s, s.inputs[0].type_str))
    shape = d.values[x].shape
    by_axis = bool(shape) and d.opset >= 13 and d.chance(0.4)
    axis = d.axis(len(shape)) if by_axis else None
    sizes = (shape[axis],) if axis is not None else ()
    kind = kind_of(d.values[x]) if quantise and d.opset >= 19 else TensorProto.FLOAT
    kind = kind if kind in (TensorProto.FLOAT, TensorProto.FLOAT16) else TensorProto.FLOAT
    scale = d.new(d.numbers(kind, sizes, _SCALES), constant=0.8)
    narrow = d.kinds(s, s.inputs[2].type_str)
    if not quantise:
        zero = d.like(x, sizes, Range(0, 5), 0.8) if kind_of(d.values[x]) != TensorProto.INT32 and d.chance(0.6) else ""
    else:
        zero = d.new(d.numbers(d.kind(narrow), sizes, Range(0, 5)), constant=0.8) if d.chance(0.7) else ""
    return Call([x, scale, zero], {"axis": axis})


@recipe("QLinearMatMul")
def _qlinear_matmul(d: Drawing, s: defs.OpSchema) -> Call:
    whole = [TensorProto.INT8, TensorProto.UINT8]  # the evaluator truncates float8, and nothing else runs it
    a = d.operand(whole, rank=(2, 3), least=1)
    shape = d.values[a].shape
    b = d.new(d.numbers(d.kind(whole), (shape[-1], d.rng.randint(1, 4))))
    inputs = []
    for x in (a, b, d.new(d.numbers(kind_of(d.values[a]), ()))):
        scale = d.new(d.numbers(TensorProto.FLOAT, (), _SCALES), constant=0.8)
        inputs += [x, scale, d.like(x, (), Range(0, 5), 0.8)]
    return Call([*inputs[:6], *inputs[7:]])


@recipe("ConvInteger")
def _conv_integer(d: Drawing, s: defs.OpSchema) -> Call:
    x, shape = _image(d, s, "T1", (2, 2))
    drawn = _window(d, shape[2:])
    w = d.new(
        d.numbers(d.kind(d.kinds(s, "T2")), (d.rng.randint(1, 3), shape[1], *drawn["kernel_shape"])), constant=0.8
    )
    return Call([x, w, d.like(x, (), Range(0, 5)) if d.chance(0.5) else ""], drawn)


@recipe("QLinearConv")
def _qlinear_conv(d: Drawing, s: defs.OpSchema) -> Call:
    x, shape = _image(d, s, "T1", (2, 2))
    drawn = _window(d, shape[2:])
    w = d.new(d.numbers(kind_of(d.values[x]), (d.rng.randint(1, 3), shape[1], *drawn["kernel_shape"])), constant=0.8)
    scale = [d.new(d.numbers(TensorProto.FLOAT, (), _SCALES), constant=0.8) for _ in range(3)]
    zero = [d.like(x, (), Range(0, 5), 0.8) for _ in range(3)]
    return Call([x, scale[0], zero[0], w, scale[1], zero[1], scale[2], zero[2]], drawn)


@recipe("Resize", "Upsample")
def _resize(d: Drawing, s: defs.OpSchema) -> Call:
    kinds = [kind for kind in d.kinds(s, s.inputs[0].type_str) if kind in _FLOATS]  # how others are rounded is open
    x = d.operand(kinds, rank=(3, 4), least=1)
    shape = d.values[x].shape
    factors = [1.0, 1.0, *(d.rng.choice([1.0, 2.0, 3.0, 0.5]) for _ in shape[2:])]
    scales = d.new(np.asarray(factors, np.float32), constant=0.8)
    if d.opset < 11:
        if d.opset == 7 or "scales" in s.attributes:
            return Call([x], {"mode": d.rng.choice(["nearest", "linear"]), "scales": [max(f, 1.0) for f in factors]})
        return Call([x, scales], {"mode": d.rng.choice(["nearest", "linear"])})
    drawn: dict[str, Any] = {"mode": d.rng.choice(["nearest", "linear", "cubic"])}
    places = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    drawn["coordinate_transformation_mode"] = d.rng.choice([None, *places])
    if drawn["mode"] == "nearest":
        drawn["nearest_mode"] = d.rng.choice([None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if drawn["mode"] == "cubic":
        drawn["exclude_outside"] = d.rng.choice([None, 0, 1])
        drawn["cubic_coeff_a"] = d.rng.choice([None, -0.5])
    if d.opset >= 18:
        drawn["antialias"] = 1 if drawn["mode"] != "nearest" and d.chance(0.2) else None
    roi = "" if d.opset >= 13 else d.new(np.zeros(0, np.float32), constant=1.0)
    if d.chance(0.5):
        return Call([x, roi, scales], drawn)
    sizes = [max(1, round(size * factor)) for size, factor in zip(shape, factors, strict=True)]
    return Call([x, roi, "" if d.opset >= 13 else d.new(np.zeros(0, np.float32), constant=1.0), d.host(sizes)], drawn)


@recipe("GridSample")
def _grid(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand([TensorProto.FLOAT], rank=(4, 4), least=1)  # the evaluator computes doubles in float32
    grid = d.like(x, (d.values[x].shape[0], *d.shape(2, 2, least=1), 2), Range(-1.2, 1.2))
    linear = "linear" if d.opset >= 20 else "bilinear"
    cubic = "cubic" if d.opset >= 20 else "bicubic"
    drawn = attributes(d, s)
    drawn["mode"] = d.rng.choice([None, linear, "nearest", cubic])
    drawn["padding_mode"] = d.rng.choice([None, "zeros", "border", "reflection"])
    return Call([x, grid], drawn | {"align_corners": d.rng.choice([None, 0, 1])})


@recipe("Col2Im")
def _col2im(d: Drawing, s: defs.OpSchema) -> Call:
    height, width = d.rng.randint(2, 5), d.rng.randint(2, 5)
    kernel = (d.rng.randint(1, 2), d.rng.randint(1, 2))
    blocks = (height - kernel[0] + 1) * (width - kernel[1] + 1)
    x = d.new(d.numbers(TensorProto.FLOAT, (d.rng.randint(1, 2), 2 * kernel[0] * kernel[1], blocks)))
    return Call([x, d.host([height, width]), d.host(kernel)])


@recipe("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _loss(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(2, 4), least=1)
    shape = d.values[x].shape
    labels = d.new(d.numpy.integers(0, shape[1], (shape[0], *shape[2:])).astype(d.rng.choice([np.int32, np.int64])))
    weight = d.like(x, (shape[1],), Range(0.1, 1)) if d.chance(0.5) else ""
    drawn = {
        "reduction": d.rng.choice([None, "none", "sum", "mean"]),
        "ignore_index": d.rng.choice([None, None, 0, -1]),
    }
    return Call([x, labels, weight], drawn, 2 if s.name[0] == "S" and d.chance(0.3) else 1)


@recipe("Attention")
def _attention(d: Drawing, s: defs.OpSchema) -> Call:
    q = d.operand([TensorProto.FLOAT], rank=(4, 4), least=1)  # the evaluator takes the root of the scale in float32
    batch, heads, length, size = d.values[q].shape
    groups = d.rng.choice([n for n in range(1, heads + 1) if heads % n == 0])
    total, wide = d.rng.randint(1, 4), d.rng.randint(1, 3)
    k, v = d.like(q, (batch, groups, total, size)), d.like(q, (batch, groups, total, wide))
    mask = ""
    if d.chance(0.4):
        mask = d.like(q, d.beside((batch, heads, length, total))[-4:] if d.chance(0.3) else (length, total))
    drawn = {
        "is_causal": d.rng.choice([None, 0, 1]),
        "scale": d.rng.choice([None, 0.5]),
        "softcap": d.rng.choice([None, None, 2.0]),
    }
    if mask and d.values[mask].ndim < 2:
        raise Undrawable("a mask has two dimensions at least")
    return Call([q, k, v, mask], drawn)
