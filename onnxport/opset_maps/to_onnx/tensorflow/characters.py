"""Strings by their characters and bytes: lengths, parts, code points, base64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, case
from onnxport.opset_maps.lowerings import characters, cutting, groups, strings
from onnxport.opset_maps.lowerings.search import insertion
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import components, int64, rank

_INT = ir.DataType.INT64
_TEXTS = np.array([["abc", "\u00e9t\u00e9"], ["", "a\n \U0001f600\u6f22"]], object)
_PARTS = np.array(["thirteen", "\u00e9t\u00e9 \u6f22", "abcd"], object)
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def _codes(op: OpBuilder, x: ir.Value) -> ir.Value:
    """The code points of strings of any shape, one behind the other [N, L], -1 beyond the last."""
    return characters.codes(op, characters.characters(op, op.Reshape(x, [-1])))


def _joined(op: OpBuilder, pieces: ir.Value, shape: ir.Value) -> ir.Value:
    """Pieces [N, L] of strings as strings of a shape; with a column before them, so that there is one."""
    blank = op.Expand(cutting.blank(op), op.Concat(op.dim(pieces, 0), op.const([1]), axis=0))
    every = op.Concat(blank, pieces, axis=1)
    return op.Reshape(strings.all_joined(op, every, 1, "", keepdims=False), shape)


def _of_bytes(op: OpBuilder, code: ir.Value) -> ir.Value:
    """Strings of one byte each; the empty string of 256."""
    return op.Gather(op.const(np.array([*(bytes([i]) for i in range(256)), b""], object)), code, axis=0)


@tensorflow.lower(
    "StringLength",
    min_opset=20,
    cases=[
        case(lambda x: tf.strings.length(x), _TEXTS),
        case(lambda x: tf.strings.length(x, unit="UTF8_CHAR"), _TEXTS, dynamic=True),
    ],
)
def string_length(op: OpBuilder, input: ir.Value, *, unit: str = "BYTE") -> ir.Value:
    """How many bytes or characters strings have."""
    code = _codes(op, input)
    sizes = characters.sizes(op, code) if unit == "BYTE" else op.cast(op.GreaterOrEqual(code, 0), _INT)
    total = op.Reshape(op.reduce("ReduceSum", sizes, [1], keepdims=False), op.shape(input))
    return op.cast(total, op.result.dtype)


def _part(position: Any, length: Any, unit: str = "BYTE") -> Case:
    return case(lambda x: tf.strings.substr(x, position, length, unit=unit), _PARTS)


@tensorflow.lower(
    "Substr",
    min_opset=20,
    cases=[
        _part(0, 2),
        _part(-4, 2, "UTF8_CHAR"),
        _part([8, 5, -2], [3, 9, 1]),
        _part([1, 2, 3], [1, 0, 9], "UTF8_CHAR"),
        case(
            lambda x: tf.strings.substr(x, 3, 3), np.array(["thirteen", "\u00e9t\u00e9 \u6f22"], object), dynamic=True
        ),
    ],
)
def substr(op: OpBuilder, input: ir.Value, pos: ir.Value, len: ir.Value, *, unit: str = "BYTE") -> ir.Value:
    """From a position on so many bytes or characters, from the end where the position is negative."""
    if rank(pos) not in (0, rank(input)):
        raise UnsupportedOperator("Substr: positions that are broadcast have no entry")
    cells = characters.characters(op, op.Reshape(input, [-1]))
    code = characters.codes(op, cells)
    if unit == "BYTE":
        read = characters.bytes_of_codes(op, code)
        size, cells = read.lengths, _of_bytes(op, read.values)
    else:
        there = op.cast(op.GreaterOrEqual(code, 0), _INT)
        size = op.reduce("ReduceSum", there, [1], keepdims=False)
    start, count = (op.Reshape(int64(op, item), [-1]) for item in (pos, len))
    start = op.Where(op.Less(start, 0), op.Add(start, size), start)
    end = op.Where(op.Less(count, op.Sub(size, start)), op.Add(start, count), size)
    place = op.Range(0, op.Squeeze(op.dim(cells, 1), op.axes(0)), 1)
    low, high = (op.Unsqueeze(item, op.axes(1)) for item in (start, end))
    kept = op.And(op.GreaterOrEqual(place, low), op.Less(place, high))
    return _joined(op, op.Where(kept, cells, cutting.blank(op)), op.shape(input))


def _decoded(**options: Any) -> Case:
    def run(x: Any) -> Any:
        return components(tf.strings.unicode_decode(x, "UTF-8", **options))

    return case(run, _TEXTS.reshape(-1))


def _with_offsets(x: Any) -> Any:
    return components(tf.strings.unicode_decode_with_offsets(x, "UTF-8"))


@tensorflow.lower(
    "UnicodeDecode UnicodeDecodeWithOffsets",
    min_opset=20,
    cases=[
        _decoded(),
        _decoded(replace_control_characters=True, replacement_char=63),
        case(_with_offsets, _TEXTS.reshape(-1)),
    ],
)
def unicode_decode(
    op: OpBuilder,
    input: ir.Value,
    *,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    Tsplits: ir.DataType = ir.DataType.INT64,
) -> Sequence[ir.Value]:
    """Where the strings end, and their code points, with the bytes that these start at."""
    _require_utf8(op, input_encoding)
    code = _codes(op, input)
    there = op.GreaterOrEqual(code, 0)
    if replace_control_characters:
        controls = op.And(there, op.Less(code, 32))
        code = op.Where(controls, op.const(np.int64(replacement_char)), code)
    flags = op.Reshape(there, [-1])
    lengths = op.reduce("ReduceSum", op.cast(there, _INT), [1], keepdims=False)
    splits = op.cast(groups.splits_of(op, lengths), Tsplits)
    values = op.cast(op.Compress(op.Reshape(code, [-1]), flags, axis=0), ir.DataType.INT32)
    if op.name == "UnicodeDecode":
        return splits, values
    starts = op.CumSum(characters.sizes(op, code), op.const(np.int64(1)), exclusive=1)
    return splits, values, op.Compress(op.Reshape(starts, [-1]), flags, axis=0)


def _require_utf8(op: OpBuilder, *encodings: str) -> None:
    for encoding in encodings:
        if encoding.upper() not in ("UTF-8", "UTF8"):
            raise UnsupportedOperator(f"{op.name}: the strings of ONNX are of UTF-8, not of {encoding}")


@tensorflow.lower(
    "UnicodeEncode",
    min_opset=20,
    cases=[
        case(
            lambda x: tf.strings.unicode_encode(tf.RaggedTensor.from_row_splits(x, [0, 2, 2, 5]), "UTF-8"),
            np.array([97, 0x6F22, 0x1F600, 0xE9, 10], np.int32),
        ),
        case(lambda x: tf.strings.unicode_encode(x, "UTF-8"), np.array([[0xD800, 97], [0x110000, 98]], np.int32)),
    ],
)
def unicode_encode(
    op: OpBuilder,
    input_values: ir.Value,
    input_splits: ir.Value,
    *,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
) -> ir.Value:
    """Strings of code points."""
    _require_utf8(op, output_encoding)
    code, splits = int64(op, input_values), int64(op, input_splits)
    surrogate = op.And(op.GreaterOrEqual(code, 0xD800), op.Less(code, 0xE000))
    wrong = op.Or(op.Or(op.Less(code, 0), op.Greater(code, 0x10FFFF)), surrogate)
    code = op.Where(wrong, op.const(np.int64(-1 if errors == "ignore" else replacement_char)), code)
    letters = characters.of_codes(op, code)
    count = op.Sub(op.shape(splits), 1)
    return strings.joined(op, cutting.Cells(letters, groups.row_ids(op, splits), count))


@tensorflow.lower(
    "UnicodeTranscode",
    cases=[case(lambda x: tf.strings.unicode_transcode(x, "UTF-8", "UTF-8"), _TEXTS)],
)
def unicode_transcode(
    op: OpBuilder,
    input: ir.Value,
    *,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
) -> ir.Value:
    """The strings themselves: those of ONNX are of UTF-8 already."""
    _require_utf8(op, input_encoding, output_encoding)
    if replace_control_characters:
        raise UnsupportedOperator("UnicodeTranscode: replace_control_characters=True has no entry")
    return op.Identity(input)


@tensorflow.lower(
    "UnicodeScript",
    cases=[
        case(
            lambda x: tf.strings.unicode_script(x), np.array([[97, 0x6F22], [0x1F600, 0x431], [-1, 0x110000]], np.int32)
        )
    ],
)
def unicode_script(op: OpBuilder, input: ir.Value) -> ir.Value:
    """The script of code points, from where one begins and the next one."""
    points = np.arange(-1, 0x110001, dtype=np.int32)
    scripts = tf.strings.unicode_script(points).numpy()
    first = np.flatnonzero(np.diff(scripts)) + 1
    place = insertion(op, op.const(points[first].astype(np.int64)), int64(op, input), right=True, dtype=_INT)
    return op.Gather(op.const(scripts[[0, *first]]), place, axis=0)


@tensorflow.lower(
    "EncodeBase64",
    min_opset=20,
    cases=[
        case(lambda x: tf.io.encode_base64(x), _TEXTS),
        case(lambda x: tf.io.encode_base64(x, pad=True), np.array(["", "a", "ab", "abc", "abcd"], object)),
    ],
)
def encode_base64(op: OpBuilder, input: ir.Value, *, pad: bool = False) -> ir.Value:
    """Three bytes as four letters, of the alphabet for addresses."""
    read = characters.bytes_of(op, op.Reshape(input, [-1]))
    room = op.Mod(op.Sub(3, op.Mod(op.dim(read.values, 1), 3)), 3)
    padded = op.Pad(read.values, op.Concat(op.const([0, 0, 0]), room, axis=0))
    number = op.MatMul(characters.in_groups(op, padded, 3), op.const(np.array([[1 << 16], [1 << 8], [1]])))
    sextets = op.Mod(op.Div(number, op.const(np.array([1 << 18, 1 << 12, 1 << 6, 1]))), 64)
    sextets = characters.out_of_groups(op, sextets, 4)
    length = op.Unsqueeze(read.lengths, op.axes(1))
    place = op.Range(0, op.Squeeze(op.dim(sextets, 1), op.axes(0)), 1)
    held = op.Less(place, op.Div(op.Add(op.Mul(length, 4), 2), 3))
    whole = op.Less(place, op.Mul(op.Div(op.Add(length, 2), 3), 4))
    sextets = op.Where(held, sextets, op.Where(whole, op.const(64), op.const(65)))
    table = [*_LETTERS, "=" if pad else "", ""]
    return _joined(op, op.Gather(op.const(np.array(table, object)), sextets, axis=0), op.shape(input))


@tensorflow.lower(
    "DecodeBase64",
    min_opset=20,
    cases=[
        case(
            lambda x: tf.io.decode_base64(x),
            np.array([["", "YQ", "YWI="], ["YWJj", "w6l0w6k", "5ryi-_"]], object)[:, :2],
        ),
        case(lambda x: tf.io.decode_base64(x), np.array(["YQ==", "YWJjZA", "8J-YgA"], object), dynamic=True),
    ],
)
def decode_base64(op: OpBuilder, input: ir.Value) -> ir.Value:
    """Four letters as three bytes."""
    cells = characters.characters(op, op.Reshape(input, [-1]))
    code = cutting.encoded(op, cells, {letter: number for number, letter in enumerate(_LETTERS)}, -1)
    known = op.cast(op.GreaterOrEqual(code, 0), _INT)
    size = op.Div(op.Mul(op.reduce("ReduceSum", known, [1], keepdims=True), 6), 8)
    room = op.Mod(op.Sub(4, op.Mod(op.dim(cells, 1), 4)), 4)
    padded = op.Pad(op.Mul(code, known), op.Concat(op.const([0, 0, 0]), room, axis=0))
    weights = np.array([[1 << 18], [1 << 12], [1 << 6], [1]])
    number = op.MatMul(characters.in_groups(op, padded, 4), op.const(weights))
    octets = op.Mod(op.Div(number, op.const(np.array([1 << 16, 1 << 8, 1]))), 256)
    octets = characters.out_of_groups(op, octets, 3)
    place = op.Range(0, op.Squeeze(op.dim(octets, 1), op.axes(0)), 1)
    return _joined(op, _of_bytes(op, op.Where(op.Less(place, size), octets, 256)), op.shape(input))
