"""Strings compared, split and read as numbers; counting of categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, case, f32, i32, i64
from onnxport.opset_maps.lowerings import strings
from onnxport.opset_maps.lowerings.axes import positions
from onnxport.opset_maps.lowerings.characters import digits
from onnxport.opset_maps.lowerings.scatter import scatter_elements
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.hashing import NUMBERS_OF
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, rank

_WORDS = np.array([["To be", " or NOT "], ["", "ÉcOle tO"]], object)


@tensorflow.lower(
    "StringLower",
    "StringUpper",
    cases=[
        case(lambda x: tf.strings.lower(x), _WORDS),
        case(lambda x: tf.strings.lower(x, encoding="utf-8"), _WORDS),
        case(lambda x: tf.strings.upper(x), _WORDS),
    ],
)
def string_case(op: OpBuilder, input: ir.Value, *, encoding: str = "") -> ir.Value:
    """ONNX StringNormalizer on all elements; the C locale changes ASCII letters only, as TensorFlow does without UTF-8."""
    locale = "C.UTF-8" if encoding == "utf-8" else "C"
    action = "LOWER" if op.name == "StringLower" else "UPPER"
    # the operator takes no empty vector
    flat = op.Concat(op.Reshape(input, [-1]), op.const(np.array([""], object)), axis=0)
    changed = op.StringNormalizer(flat, case_change_action=action, is_case_sensitive=1, locale=locale)
    return op.Reshape(op.Slice(changed, [0], [-1], [0]), op.shape(input))


@tensorflow.lower(
    "StringJoin",
    min_opset=20,
    cases=[case(lambda x: tf.strings.join([x, "-x", x], separator="/"), _WORDS)],
)
def string_join(op: OpBuilder, inputs: list[ir.Value], *, separator: str = "") -> ir.Value:
    """ONNX StringConcat, one operand after the other."""
    joined = inputs[0]
    for item in inputs[1:]:
        joined = op.StringConcat(op.StringConcat(joined, op.const(separator)) if separator else joined, item)
    return joined


@tensorflow.lower(
    "RegexFullMatch",
    "StaticRegexFullMatch",
    min_opset=20,
    cases=[case(lambda x: tf.strings.regex_full_match(x, "[A-Z][a-z]+ .*"), _WORDS)],
)
def regex_full_match(op: OpBuilder, input: ir.Value, *pattern: ir.Value, **attributes: Any) -> ir.Value:
    """ONNX RegexFullMatch; both use RE2's syntax."""
    if pattern:
        known = op.constant(pattern[0])
        if known is None:
            raise UnsupportedOperator("RegexFullMatch: the pattern is computed when the model runs")
        return op.RegexFullMatch(input, pattern=str(known.reshape(())))
    return op.RegexFullMatch(input, pattern=attributes["pattern"])


def _split_words(separator: str) -> Any:
    return lambda x: tf.raw_ops.StringSplitV2(input=x, sep=separator)


@tensorflow.lower(
    "StringSplitV2",
    min_opset=20,
    cases=[
        case(_split_words(""), np.array(["to be or", "", " not  to"], object)),
        case(_split_words(""), np.array(["to\nbe", "\t or\r\n ", ""], object)),
        case(_split_words(","), np.array(["a,b,,c", "d"], object)),
        case(_split_words(","), np.array(["a,b", "", ","], object), name="nothing to cut"),
    ],
)
def string_split(op: OpBuilder, input: ir.Value, sep: ir.Value, *, maxsplit: int = -1) -> Sequence[ir.Value]:
    """ONNX StringSplit, its padding taken out: indices, words and the dense shape."""
    known = op.constant(sep)
    if known is None:
        raise UnsupportedOperator("StringSplitV2: the separator is computed when the model runs")
    delimiter = str(known.reshape(()))
    if maxsplit >= 0:
        raise UnsupportedOperator(f"StringSplitV2: maxsplit={maxsplit} has no entry")
    words, counts = strings.parts(op, input, delimiter) if delimiter else strings.words(op, input)
    places = positions(op, words, 1)
    indices = op.Transpose(op.NonZero(op.Less(op.Unsqueeze(places, [0]), op.Unsqueeze(counts, [1]))), perm=[1, 0])
    return indices, op.GatherND(words, indices), op.shape(words)


@tensorflow.lower(
    "DenseBincount",
    cases=[
        case(
            lambda x: tf.raw_ops.DenseBincount(input=x, size=4, weights=tf.constant([], tf.float32)),
            i32(2, 5, low=0, high=6),
        ),
        case(lambda x, w: tf.raw_ops.DenseBincount(input=x, size=4, weights=w), i32(5, low=0, high=6), f32(5)),
        case(lambda x, w: tf.raw_ops.DenseBincount(input=x, size=4, weights=w), i32(2, 5, low=0, high=6), f32(2, 5)),
        case(
            lambda x: tf.raw_ops.DenseBincount(input=x, size=4, weights=tf.constant([], tf.int32)),
            np.array(3, np.int32),
        ),
        case(lambda x, w: tf.raw_ops.DenseBincount(input=x, size=4, weights=w), np.array(3, np.int32), f32()),
        case(
            lambda x: tf.raw_ops.DenseBincount(input=x, size=4, weights=tf.constant([], tf.int32), binary_output=True),
            i32(2, 5, low=0, high=6),
        ),
    ],
)
def dense_bincount(
    op: OpBuilder, input: ir.Value, size: ir.Value, weights: ir.Value, *, binary_output: bool = False
) -> ir.Value:
    """How often, or with what total weight, each number below `size` stands in a row."""
    if rank(input) == 0 and op.result.shape == ():
        raise UnsupportedOperator("DenseBincount of a single number, of a size that is only known when the model runs")
    if rank(input) == 0:
        input = op.Reshape(input, [1])  # noqa: A001
        weights = op.Reshape(weights, [-1])
    classes = op.Range(0, op.Reshape(int64(op, size), []), 1)
    hit = op.Equal(op.Unsqueeze(op.cast(input, ir.DataType.INT64), [-1]), classes)
    axis = rank(input) - 1
    if binary_output:
        return op.reduce("ReduceMax", op.cast(hit, op.result.dtype), [axis], keepdims=False)
    if weights.shape is None or (rank(weights) < 2 and not weights.shape.is_static()):
        raise UnsupportedOperator("DenseBincount: whether there are weights is only known when the model runs")
    if weights.shape[0] == 0:  # no weights are an empty vector
        parts = op.cast(hit, op.result.dtype)
    else:  # a product would carry an infinite weight to every class
        parts = op.Where(hit, op.Unsqueeze(weights, [-1]), op.const(0, weights.dtype))
    return op.reduce("ReduceSum", parts, [axis], keepdims=False)


def _ragged_counts(**options: Any) -> Any:
    def run(x: Any, w: Any = None) -> Any:
        splits = tf.constant([0, 2, 2, 5], tf.int64)
        weights = tf.constant([], tf.float32) if w is None else w
        return tf.raw_ops.RaggedBincount(splits=splits, values=x, size=4, weights=weights, **options)

    return run


@tensorflow.lower(
    "RaggedBincount",
    min_opset=18,
    cases=[
        case(_ragged_counts(), i32(5, low=0, high=6)),
        case(_ragged_counts(), i32(5, low=0, high=6), f32(5)),
        case(_ragged_counts(binary_output=True), i64(5, low=0, high=6)),
    ],
)
def ragged_bincount(
    op: OpBuilder, splits: ir.Value, values: ir.Value, size: ir.Value, weights: ir.Value, *, binary_output: bool = False
) -> ir.Value:
    """How often, or with what total weight, each number below `size` stands in a ragged row."""
    ends = op.Slice(int64(op, splits), [1], [np.iinfo(np.int64).max], [0])
    passed = op.LessOrEqual(op.Unsqueeze(ends, [0]), op.Unsqueeze(positions(op, values, 0), [1]))
    rows = op.reduce("ReduceSum", op.cast(passed, ir.DataType.INT64), [1], keepdims=False)
    return _counted(op, (rows, op.shape(ends)), values, size, weights, binary_output)


def _counted(
    op: OpBuilder,
    where: tuple[ir.Value, ir.Value] | None,
    values: ir.Value,
    size: ir.Value,
    weights: ir.Value,
    binary_output: bool,
) -> ir.Value:
    """How often each number below `size` stands in a row; `where` gives the row of each, and how many rows there are."""
    if weights.shape is None or not weights.shape.is_static():
        raise UnsupportedOperator(f"{op.name}: whether there are weights is only known when the model runs")
    number, width = int64(op, values), op.Reshape(int64(op, size), [1])
    counted = op.Less(number, width)
    target = number if where is None else op.Add(op.Mul(where[0], width), number)
    places = op.Compress(target, counted, axis=0)
    ones = op.Expand(op.const(1, op.result.dtype), op.shape(number)) if weights.shape[0] == 0 else weights
    blank = op.Expand(op.const(0, op.result.dtype), width if where is None else op.Mul(where[1], width))
    ones = op.Compress(ones, counted, axis=0)
    if binary_output:
        ones = op.Expand(op.const(1, op.result.dtype), op.shape(places))
    result = scatter_elements(op, blank, places, ones, 0, "max" if binary_output else "add")
    return result if where is None else op.Reshape(result, op.Concat(where[1], width, axis=0))


def _sparse_counts(rank: int, **options: Any) -> Any:
    places = np.array([[0, 0], [0, 2], [1, 1], [1, 3], [1, 4]], np.int64)[:, -rank:]

    def run(x: Any, w: Any = None) -> Any:
        weights = tf.constant([], tf.float32) if w is None else w
        sparse = {"indices": places, "values": x, "dense_shape": np.array([2, 5], np.int64)[-rank:]}
        return tf.raw_ops.SparseBincount(**sparse, size=4, weights=weights, **options)

    return run


@tensorflow.lower(
    "SparseBincount",
    min_opset=18,
    cases=[
        case(_sparse_counts(2), i32(5, low=0, high=6)),
        case(_sparse_counts(2, binary_output=True), i32(5, low=0, high=6), f32(5)),
        case(_sparse_counts(1), i32(5, low=0, high=6), f32(5)),
    ],
)
def sparse_bincount(
    op: OpBuilder,
    indices: ir.Value,
    values: ir.Value,
    dense_shape: ir.Value,
    size: ir.Value,
    weights: ir.Value,
    *,
    binary_output: bool = False,
) -> ir.Value:
    """How often, or with what total weight, each number below `size` stands in a row of a sparse tensor."""
    count = dense_shape.shape[0] if dense_shape.shape is not None else None
    if count not in (1, 2):
        raise UnsupportedOperator("SparseBincount: needs a vector or a matrix of known rank")
    where = None
    if count == 2:
        where = op.Gather(int64(op, indices), 0, axis=1), op.Slice(int64(op, dense_shape), [0], [1], [0])
    return _counted(op, where, values, size, weights, binary_output)


@tensorflow.lower(
    "AsString",
    cases=[
        case(lambda x: tf.strings.as_string(x), i32(2, 3)),
        case(lambda x: tf.strings.as_string(x), boolean(3)),
        case(lambda x: tf.strings.as_string(x, width=4), i32(2, 3, low=-99999, high=9999), min_opset=20),
        case(
            lambda x: tf.strings.as_string(x, width=5, fill="0"), np.array([-(2**63), -12, 0, 7, 123456]), min_opset=20
        ),
        case(lambda x: tf.strings.as_string(x, width=5, fill="-"), np.array([-12, 0, 123456]), min_opset=20),
    ],
)
def as_string(
    op: OpBuilder,
    input: ir.Value,
    *,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
) -> ir.Value:
    """ONNX Cast of integers, the words of booleans; the spelling of other numbers differs."""
    if input.dtype == ir.DataType.BOOL and width < 0:
        return op.Where(input, *(op.const(np.array(word, object)) for word in ("true", "false")))
    if input.dtype is None or not input.dtype.is_integer() or precision >= 0 or fill == "+":
        raise UnsupportedOperator("AsString: only integers, without signs of positive ones, have an ONNX form")
    result = op.Cast(input, to=ir.DataType.STRING)
    if width > 1 and (input.dtype == ir.DataType.UINT64 or width > 20):
        raise UnsupportedOperator("AsString: a width above 20, or of numbers of UINT64, has no entry")
    if width > 1:
        return _filled(op, int64(op, input), result, width, fill or " ")
    if input.dtype != ir.DataType.UINT64:
        NUMBERS_OF.set(result, input)
    return result


def _filled(op: OpBuilder, x: ir.Value, text: ir.Value, width: int, fill: str) -> ir.Value:
    """Integers and their decimals at a width: blanks before or (`fill` "-") behind them, or zeros behind the sign."""
    length = op.Reshape(digits(op, op.Reshape(x, [-1])).lengths, op.shape(x))
    count = op.Max(op.Sub(width, length), 0)
    character = "0" if fill == "0" else " "
    filling = op.Gather(op.const(np.array([character * number for number in range(width + 1)], object)), count)
    if fill == "-":
        return op.StringConcat(text, filling)
    if fill == "0":
        negative = op.Less(x, 0)
        long = op.Equal(count, 0)  # the least number of all, which has no positive one, is such
        signs = op.Where(negative, op.const(np.array("-", object)), op.const(np.array("", object)))
        filled = op.StringConcat(op.StringConcat(signs, filling), op.Cast(op.Abs(x), to=ir.DataType.STRING))
        return op.Where(long, text, filled)
    return op.StringConcat(filling, text)


@tensorflow.lower("StringToNumber", cases=[case(lambda x: tf.strings.to_number(x), np.array(["1.5", "-2e3"], object))])
def string_to_number(op: OpBuilder, string_tensor: ir.Value, *, out_type: ir.DataType = ir.DataType.FLOAT) -> ir.Value:
    """ONNX Cast."""
    return op.Cast(string_tensor, to=out_type)
