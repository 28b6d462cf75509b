"""Single operators that onnxruntime lacks or gets wrong, in any type."""

from __future__ import annotations

import math
from functools import partial

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.casts import again, cast_row
from onnxport.graph.runtimes.defect import Defect, Write, Written, dims, operand, optional, real, wholes
from onnxport.graph.runtimes.whole_numbers import clip

_T = ir.DataType
_BOOL = frozenset({_T.BOOL})
# By types of OneHot's indices and depth, those of the values that onnxruntime has a kernel for (1.21 to 1.31).
_ONE_HOT: dict[tuple[ir.DataType | None, ...], tuple[ir.DataType, ...]] = {
    (_T.INT64, _T.INT64): (_T.INT64, _T.STRING, _T.FLOAT),
    (_T.FLOAT, _T.INT64): (_T.INT64, _T.STRING),
    (_T.FLOAT, _T.FLOAT): (_T.FLOAT,),
    (_T.INT64, _T.FLOAT): (_T.INT32, _T.FLOAT),
    (_T.INT32, _T.INT32): (_T.FLOAT,),
    (_T.INT32, _T.FLOAT): (_T.FLOAT,),
    (_T.INT64, _T.INT32): (_T.FLOAT,),
}
_RESIZED = frozenset({_T.FLOAT, _T.FLOAT16, _T.BFLOAT16, _T.INT32, _T.INT8, _T.UINT8})


def swish(op: OpBuilder, node: ir.Node) -> Written:
    """x sigmoid(alpha x)."""
    x = operand(node, 0)
    alpha = real(node, "alpha", 1.0)
    return op.Mul(x, op.Sigmoid(x if alpha == 1.0 else op.Mul(x, alpha)))


def where_of_booleans(op: OpBuilder, node: ir.Node) -> Written:
    """(condition and x) or (not condition and y)."""
    condition, x, y = operand(node, 0), operand(node, 1), operand(node, 2)
    return op.Or(op.And(condition, x), op.And(op.Not(condition), y))


def relu_of_integers(op: OpBuilder, node: ir.Node) -> Written:
    """x above 0, else 0."""
    x = operand(node, 0)
    zero = op.const(0, x.dtype)
    return op.Where(op.Greater(x, zero), x, zero)


def _is_misread_clip(node: ir.Node) -> bool:
    x = operand(node, 0)
    before = x.producer()
    after_relu = x.dtype == _T.DOUBLE and before is not None and before.op_type == "Relu"
    return optional(node, 1) is None or optional(node, 2) is None or after_relu


def sum_from_the_start(op: OpBuilder, node: ir.Node) -> Written:
    """ReduceSum over axes counted from the first one."""
    x, axes = operand(node, 0), operand(node, 1)
    rank = len(dims(x) or ())
    return again(op, node, [x, op.Where(op.Less(axes, 0), op.Add(axes, rank), axes)])


def _has_computed_axes(node: ir.Node) -> bool:
    axes = optional(node, 1)
    return axes is not None and axes.const_value is None and dims(node.inputs[0]) is not None


def _is_of_scalar(node: ir.Node) -> bool:
    shape = operand(node, 0).shape
    return shape is not None and shape.rank() == 0


def non_zero_of_scalar(op: OpBuilder, node: ir.Node) -> Written:
    """NonZero of a vector, without its row."""
    return op.Slice(op.NonZero(op.Reshape(op.cast(operand(node, 0), _T.BOOL), [1])), [0], [0], [0])


def non_zero(op: OpBuilder, node: ir.Node) -> Written:
    """NonZero of whether an element is not 0."""
    return op.NonZero(op.cast(operand(node, 0), _T.BOOL))


def one_hot(op: OpBuilder, node: ir.Node) -> Written:
    """Zeros and ones in INT64, and Where between the two values."""
    index, depth = (op.cast(operand(node, i), _T.INT64) for i in (0, 1))
    depth = depth if (dims(depth) or []) == [] else op.Squeeze(depth, op.axes(0))
    ones = op.OneHot(index, depth, [0, 1], axis=node.attributes.get_int("axis", -1))
    values = operand(node, 2)
    return op.Where(op.cast(ones, _T.BOOL), op.Gather(values, 1), op.Gather(values, 0))


def _has_no_one_hot(node: ir.Node) -> bool:
    kinds = tuple(_T.FLOAT if item.dtype == _T.FLOAT16 else item.dtype for item in node.inputs if item is not None)
    return None not in kinds and kinds[2] not in _ONE_HOT.get(kinds[:2], ())


def gemm_by_steps(op: OpBuilder, node: ir.Node) -> Written:
    """alpha A B + beta C by MatMul, Mul and Add."""
    a, b, c = operand(node, 0), operand(node, 1), optional(node, 2)
    a = op.Transpose(a, perm=[1, 0]) if node.attributes.get_int("transA", 0) else a
    b = op.Transpose(b, perm=[1, 0]) if node.attributes.get_int("transB", 0) else b
    alpha, beta = real(node, "alpha", 1.0), real(node, "beta", 1.0)
    result = op.MatMul(a, b)
    result = result if alpha == 1 else op.Mul(result, op.const(alpha, a.dtype))
    if c is None:
        return result
    return op.Add(result, c if beta == 1 else op.Mul(c, op.const(beta, a.dtype)))


def _has_nothing_to_sum(node: ir.Node) -> bool:
    sizes = dims(operand(node, 0))
    return sizes is not None and sizes[0 if node.attributes.get_int("transA", 0) else 1] == 0


def _has_whole_factors(node: ir.Node) -> bool:
    return all(real(node, name, 1.0).is_integer() for name in ("alpha", "beta"))


def blocks(op: OpBuilder, node: ir.Node) -> Written:
    """DepthToSpace and SpaceToDepth by Reshape and Transpose (ONNX operator specification)."""
    x, size = operand(node, 0), node.attributes.get_int("blocksize", 1)
    n, c, h, w = (op.dim(x, axis) for axis in range(4))
    if node.op_type == "SpaceToDepth":
        parts = op.Reshape(x, op.shape_vector([n, c, op.Div(h, size), size, op.Div(w, size), size]))
        moved = op.Transpose(parts, perm=[0, 3, 5, 1, 2, 4])
        return op.Reshape(moved, op.shape_vector([n, op.Mul(c, size * size), op.Div(h, size), op.Div(w, size)]))
    depth = op.Div(c, size * size)
    by_column = node.attributes.get_string("mode", "DCR") == "CRD"
    sizes = [n, depth, size, size, h, w] if by_column else [n, size, size, depth, h, w]
    order = [0, 1, 4, 2, 5, 3] if by_column else [0, 3, 4, 1, 5, 2]
    moved = op.Transpose(op.Reshape(x, op.shape_vector(sizes)), perm=order)
    return op.Reshape(moved, op.shape_vector([n, depth, op.Mul(h, size), op.Mul(w, size)]))


def resize_of_all_axes(op: OpBuilder, node: ir.Node) -> Written:
    """Resize with a size or a factor for each axis."""
    x, region, scales, sizes = (optional(node, index) for index in range(4))
    assert x is not None
    rank = len(dims(x) or ())
    axes = [axis % rank for axis in wholes(node, "axes", [])]
    place = {axis: i for i, axis in enumerate(axes)}
    inputs: list[ir.Value | None] = [x, None, None, None]
    if region is not None:
        ends = [op.Slice(region, [i], [i + 1]) for i in range(2 * len(axes))]
        begin = [ends[place[axis]] if axis in place else op.const([0.0], region.dtype) for axis in range(rank)]
        end = [
            ends[place[axis] + len(axes)] if axis in place else op.const([1.0], region.dtype) for axis in range(rank)
        ]
        inputs[1] = op.Concat(*begin, *end, axis=0)
    if sizes is not None:
        given = op.split(sizes, [1] * len(axes), 0)
        known = op.constant(sizes)
        whole_sizes: list[int | ir.Value] = [op.dim(x, axis) for axis in range(rank)]
        for axis, i in place.items():
            whole_sizes[axis] = given[i] if known is None else int(known[i])
        inputs[3] = op.shape_vector([_static(op, item) for item in whole_sizes])
    else:
        assert scales is not None
        factors = op.split(scales, [1] * len(axes), 0)
        one = op.const([1.0], _T.FLOAT)
        inputs[2] = op.Concat(*(factors[place[axis]] if axis in place else one for axis in range(rank)), axis=0)
    return again(op, node, inputs, axes=None)


def _static(op: OpBuilder, item: int | ir.Value) -> int | ir.Value:
    known = None if isinstance(item, int) else op.constant(item)
    return item if known is None else int(known.ravel()[0])


def _has_axes(node: ir.Node) -> bool:
    stretch = node.attributes.get_string("keep_aspect_ratio_policy", "stretch") == "stretch"
    return "axes" in node.attributes and dims(node.inputs[0]) is not None and stretch


def cubic(op: OpBuilder, node: ir.Node) -> Written:
    """Resize of images of one channel each, between two Reshapes that no Transpose is moved through."""
    x, region, scales, sizes = (optional(node, index) for index in range(4))
    assert x is not None
    alone = op.Reshape(x, op.const([-1, 1, 0, 0]))
    if sizes is not None:
        sizes = op.Concat(op.Slice(op.Shape(alone), [0], [2]), op.Slice(sizes, [2], [4]), axis=0)
    resized = again(op, node, [alone, region, scales, sizes])
    assert isinstance(resized, ir.Value)
    rows = op.shape_vector([op.dim(x, 0), op.dim(x, 1)])
    return op.Reshape(resized, op.Concat(rows, op.const([0, 0]), axis=0))


def _is_cubic_of_channels(node: ir.Node) -> bool:
    """Whether a Resize by cubic curves leaves the first two of four axes as they are, and stands behind no Reshape."""
    x, scales, sizes = node.inputs[0], optional(node, 2), optional(node, 3)
    shape = dims(x)
    if node.attributes.get_string("mode", "nearest") != "cubic" or "axes" in node.attributes or x is None:
        return False
    if (
        shape is None
        or len(shape) != 4
        or node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch"
    ):
        return False
    producer = x.producer()
    if producer is not None and producer.op_type == "Reshape":
        return False
    if sizes is None:
        known = scales.const_value.numpy() if scales is not None and scales.const_value is not None else None
        return known is not None and bool((known[:2] == 1.0).all())
    return list(node.outputs[0].shape or ())[:2] == list(x.shape or ())[:2]


def nearest(op: OpBuilder, node: ir.Node) -> Written:
    """The places of the nearest elements, resized in float32 an axis at a time, and a Gather by them."""
    x, _, scales, sizes = (optional(node, index) for index in range(4))
    assert x is not None
    kept = ("mode", "coordinate_transformation_mode", "nearest_mode")
    attributes = {name: node.attributes[name].value for name in kept if name in node.attributes}
    rank = len(dims(x) or ())
    for axis in range(rank):
        given = scales if sizes is None else sizes
        assert given is not None
        target = op.Slice(given, [axis], [axis + 1])
        known = op.constant(target)
        if known is not None and (known[0] == 1.0 if sizes is None else known[0] == (dims(x) or [])[axis]):
            continue
        size = op.Squeeze(op.dim(x, axis), op.axes(0))
        numbers = op.cast(op.Range(op.const(0), size, op.const(1)), _T.FLOAT)
        places = op.Resize(numbers, None, *((target,) if sizes is None else (None, target)), **attributes)
        x = op.Gather(x, op.cast(places, _T.INT64), axis=axis)
    return x


def _is_plain_nearest(node: ir.Node) -> bool:
    x = node.inputs[0]
    cut = node.attributes.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    stretch = node.attributes.get_string("keep_aspect_ratio_policy", "stretch") == "stretch"
    plain = node.attributes.get_string("mode", "nearest") == "nearest" and not cut and stretch
    return plain and x is not None and x.dtype is not None and x.dtype not in _RESIZED and dims(x) is not None


def generated(wide: ir.DataType) -> Write:
    """An operator whose attribute `dtype` names the type of its result, in another type and cast."""

    def write(op: OpBuilder, node: ir.Node) -> Written:
        result = node.outputs[0].dtype
        assert result is not None
        inputs = [
            op.cast(value, wide) if value is not None and value.dtype in _GENERATED else value for value in node.inputs
        ]
        wider = again(op, node, inputs, dtype=int(wide))
        assert isinstance(wider, ir.Value)
        return op.cast(wider, result)

    return write


def mel_weights(op: OpBuilder, node: ir.Node) -> Written:
    """MelWeightMatrix of float32, rounded."""
    result = node.outputs[0].dtype
    assert result is not None
    narrow = [value is not None and value.dtype == _T.BFLOAT16 for value in node.inputs]
    inputs = [op.cast(operand(node, i), _T.FLOAT) if cast else operand(node, i) for i, cast in enumerate(narrow)]
    wide = _T.FLOAT if result == _T.BFLOAT16 else result
    weights = again(op, node, inputs, output_datatype=int(wide))
    assert isinstance(weights, ir.Value)
    return op.cast(weights, result)


_BITS = 24  # of float32's numbers below 1


def drawn(op: OpBuilder, node: ir.Node) -> Written:
    """Uniform numbers from random bits, which are Dropout's mask; normal ones of two uniform ones.

    Source: G. Box and M. Muller, "A note on the generation of random normal deviates", 1958.
    """
    result = node.outputs[0]
    shape = op.shape(operand(node, 0)) if node.op_type.endswith("Like") else op.const(wholes(node, "shape", []))
    seed = int(real(node, "seed", 0.0)) if "seed" in node.attributes else None
    first = _uniform(op, shape, seed)
    if "Uniform" in node.op_type:
        low, high = real(node, "low", 0.0), real(node, "high", 1.0)
        numbers = op.Add(op.Mul(first, op.const(high - low, _T.FLOAT)), op.const(low, _T.FLOAT))
    else:
        second = _uniform(op, shape, None if seed is None else seed + 1)
        length = op.Sqrt(op.Mul(op.Log(op.Sub(op.const(1.0, _T.FLOAT), first)), op.const(-2.0, _T.FLOAT)))
        normal = op.Mul(length, op.Cos(op.Mul(second, op.const(2 * math.pi, _T.FLOAT))))
        scale, mean = real(node, "scale", 1.0), real(node, "mean", 0.0)
        numbers = op.Add(op.Mul(normal, op.const(scale, _T.FLOAT)), op.const(mean, _T.FLOAT))
    assert result.dtype is not None
    return op.cast(numbers, result.dtype)


def _uniform(op: OpBuilder, shape: ir.Value, seed: int | None) -> ir.Value:
    """Numbers of 24 random bits in [0, 1)."""
    ones = op.Expand(op.const(1.0, _T.FLOAT), op.Concat(shape, op.const([_BITS]), axis=0))
    bits = op.Dropout(ones, op.const(0.5, _T.FLOAT), op.const(True), seed=seed, outputs=2)[1]
    worth = op.const([[2.0**-place] for place in range(1, _BITS + 1)], _T.FLOAT)
    return op.Squeeze(op.MatMul(op.cast(bits, _T.FLOAT), worth), op.axes(-1))


def sigmoid_by_exp(op: OpBuilder, node: ir.Node) -> Written:
    """1 / (1 + exp(-x)), whose order is that of x."""
    return op.Reciprocal(op.Add(op.Exp(op.Neg(operand(node, 0))), 1.0))


_MOVES = frozenset("Concat Flatten Gather Identity Reshape Slice Split Squeeze Transpose Unsqueeze".split())


def _scores_boxes(node: ir.Node) -> bool:
    """Whether the results, moved or chosen among, are the scores of a NonMaxSuppression."""
    seen, waiting = {node.outputs[0]}, [node.outputs[0]]
    while waiting:
        for user, index in waiting.pop().uses():
            if user.op_type == "NonMaxSuppression" and index == 1:
                return True
            moved = [item for item in user.outputs if item not in seen] if user.op_type in _MOVES else []
            seen.update(moved)
            waiting += moved
    return False


def bernoulli(op: OpBuilder, node: ir.Node) -> Written:
    """Whether a number drawn from 0 to 1 lies below the probability."""
    p = operand(node, 0)
    numbers = op.RandomUniformLike(p, seed=node.attributes.get_float("seed"))
    return op.cast(op.Less(numbers, p), node.outputs[0].dtype or _T.FLOAT)


_GENERATED = frozenset({_T.FLOAT16, _T.BFLOAT16, _T.BOOL, _T.INT8, _T.UINT8, _T.INT16, _T.UINT16, _T.UINT32})
_RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")

_resize = partial(Defect, ("Resize",))

OTHERS = (
    cast_row("Sign", [_T.FLOAT16], _T.FLOAT, "onnxruntime gives 0 for NaN"),
    Defect(
        ("Sigmoid",),
        sigmoid_by_exp,
        "1 / (1 + Exp(-x))",
        "onnxruntime's is no more ordered as x from 16 on, and 0 from -16 down: boxes are kept in another order",
        frozenset({_T.FLOAT}),
        applies=_scores_boxes,
    ),
    Defect(
        ("Sigmoid",),
        sigmoid_by_exp,
        "1 / (1 + Exp(-x))",
        "onnxruntime's of a negative number is right to the last place of 1, and 0 from -37 down",
        frozenset({_T.DOUBLE}),
    ),
    Defect(("Swish",), swish, "x Sigmoid(alpha x)", opsets=range(24, 27)),
    Defect(("Where",), where_of_booleans, "Or and And", dtypes=_BOOL, operands=(1,)),
    Defect(
        ("Clip",),
        clip,
        "Max and Min",
        "onnxruntime clips infinity to the greatest number where a bound is left out, and loads no Clip of a float64 Relu",
        frozenset({_T.FLOAT, _T.FLOAT16, _T.BFLOAT16, _T.DOUBLE}),
        applies=_is_misread_clip,
    ),
    Defect(
        ("ReduceSum",),
        sum_from_the_start,
        "axes counted from the first",
        "of no rows onnxruntime leaves the axes that are counted from the last",
        applies=_has_computed_axes,
    ),
    Defect(("Relu",), relu_of_integers, "Where", dtypes=frozenset({_T.INT64})),
    Defect(("NonZero",), non_zero, "NonZero of booleans", dtypes=frozenset({_T.DOUBLE})),
    Defect(("OneHot",), one_hot, "OneHot of int64 and Where", applies=_has_no_one_hot),
    Defect(
        ("Gemm",),
        gemm_by_steps,
        "MatMul and Add",
        dtypes=frozenset({_T.INT32, _T.INT64}),
        applies=_has_whole_factors,
    ),
    Defect(
        ("Gemm",),
        gemm_by_steps,
        "MatMul and Add",
        "onnxruntime forgets beta where there is nothing to sum",
        applies=_has_nothing_to_sum,
    ),
    Defect(
        ("DepthToSpace", "SpaceToDepth"),
        blocks,
        "Reshape and Transpose",
        dtypes=frozenset(set(_T) - {_T.FLOAT, _T.FLOAT16, _T.DOUBLE, _T.BFLOAT16, _T.UNDEFINED}),
        operands=(0,),
    ),
    _resize(
        resize_of_all_axes,
        "sizes or factors of all axes",
        reason="onnxruntime's transpose optimiser loses the sizes of the axes",
        opsets=range(18, 27),
        applies=_has_axes,
    ),
    _resize(
        cubic,
        "images of one channel each",
        reason="onnxruntime's transpose optimiser moves the channels to where its cubic kernel does not take them",
        applies=_is_cubic_of_channels,
    ),
    _resize(nearest, "Gather", applies=_is_plain_nearest),
    Defect(("EyeLike",), generated(_T.INT64), "int64 and Cast", dtypes=_GENERATED - {_T.FLOAT16, _T.BFLOAT16}),
    Defect(
        ("NonZero",),
        non_zero_of_scalar,
        "none of NonZero's rows",
        reason="of a scalar onnxruntime gives [1, n], as NumPy once did, where the specification has [0, n]",
        applies=_is_of_scalar,
        misread=True,
    ),
    Defect(
        ("Bernoulli",),
        bernoulli,
        "Less of a uniform draw",
        reason="onnxruntime runs the body of its schema, which gives 1 with probability 1 - p",
        opsets=range(15, 27),
        misread=True,
    ),
    Defect(
        _RANDOM,
        drawn,
        "random bits of Dropout's mask",
        reason="onnxruntime 1.31 has no kernel from opset 22 on",
        opsets=range(22, 27),
    ),
    Defect(("MelWeightMatrix",), mel_weights, "float32 and Cast", dtypes=frozenset({_T.BFLOAT16})),
    Defect(("EyeLike", *_RANDOM), generated(_T.FLOAT), "float32 and Cast", dtypes=frozenset({_T.FLOAT16, _T.BFLOAT16})),
)
