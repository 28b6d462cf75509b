"""Which values an input may take, as the operators that read it tell.

Two tables: `RANGES` bounds each element of one operand by itself, so that it holds through operators that hand values on; the
operands that must fit together (starts and ends, a shape and its data) are drawn by the rules in `operands`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from onnxport.graph.bodies import bodies
from onnxport.graph.constants import constant_of
from onnxport.graph.runtimes.kernels import GATE_LIMIT, REDUCES_EMPTY_FROM_THE_LAST, RUN_WITHOUT_ROWS
from onnxport.validation.numerics import CARRIERS


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included; `nonzero` leaves 0 out."""

    low: float
    high: float
    nonzero: bool = False

    def within(self, other: Range) -> Range:
        """What both allow; `self` where that is nothing."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Range(low, high, self.nonzero or other.nonzero) if low <= high else self


REDUCTIONS = tuple(f"Reduce{name}" for name in "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare".split())


def _by_operand(*rows: tuple[Range, str]) -> dict[tuple[str, int], Range]:
    """Ranges by operator and index of the operand, from rows of a range and the operands ``Operator.index`` that it bounds."""
    operands = ((allowed, text.partition(".")) for allowed, texts in rows for text in texts.split())
    return {(operator, int(index)): allowed for allowed, (operator, _, index) in operands}


# The floating-point numbers on which operators are defined.
FLOAT_RANGES = _by_operand(
    (Range(-1, 1), "Acos.0 Asin.0"),
    (Range(-0.99, 0.99), "Atanh.0"),
    (Range(1, 9), "Acosh.0"),
    (Range(1e-3, 9), "Log.0 ReduceLogSum.0"),
    (Range(0, 9), "Sqrt.0"),
    (Range(0, 1), "Bernoulli.0"),
    (Range(0.5, 2), "BatchNormalization.4"),
    (
        Range(2.0**-6, 2.0**-3),
        "QuantizeLinear.1 DequantizeLinear.1 QLinearMatMul.1 QLinearMatMul.4 QLinearConv.1 QLinearConv.4",
    ),
    (Range(2.0**-2, 2), "QLinearMatMul.6 QLinearConv.6"),
    (Range(-1.2, 1.2), "GridSample.1"),
    (Range(0.1, 1), "NegativeLogLikelihoodLoss.2 SoftmaxCrossEntropyLoss.2"),
    (Range(0.1, 2), "Adagrad.4 Adam.5"),
    (Range(0, 0), "Dropout.1"),  # any other ratio draws at random, which can't be compared
    (Range(-4, 4), "Pow.0"),
    (Range(-3, 3), "Pow.1"),
    (Range(0, 0), "MelWeightMatrix.3"),
    (Range(4000, 4096), "MelWeightMatrix.4"),
    (Range(-100, 100), "Cast.0 CastLike.0"),
    (
        Range(-GATE_LIMIT, GATE_LIMIT),
        " ".join(f"{name}.{place}" for name in ("RNN", "GRU", "LSTM") for place in (0, 1, 2, 3, 5, 6, 7)),
    ),
)
_CASTS = ("Cast", "CastLike")
# The whole numbers on which operators are defined.
WHOLE_RANGES = _by_operand(
    (Range(-9, 40, nonzero=True), "Div.1 Mod.1"),
    (Range(-4, 4), "Pow.0 CumProd.0 Trilu.1"),
    (Range(0, 3), "Pow.1"),
    (Range(0, 7), "BitShift.1"),
    (Range(0, 0), "Adam.1"),  # of later steps onnx.reference, which alone runs it, gives another type than declared
    (Range(0, 5), "Adagrad.1 Momentum.1 Loop.0"),
    (Range(2, 12), "BlackmanWindow.0 HammingWindow.0 HannWindow.0"),
    (Range(8192, 8192), "MelWeightMatrix.2"),
    (Range(1, 4), "NonMaxSuppression.2"),
    (Range(-9, 9), "OneHot.0"),
    (Range(0, 100), "QuantizeLinear.2 DequantizeLinear.2"),
)
# By operator the operands that say how large something is: never drawn large.
_SIZES = {
    name: places
    for places, names in (
        ((0,), "ConstantOfShape BlackmanWindow HammingWindow HannWindow"),
        (
            (1,),
            "Reshape Expand Tile Upsample OneHot TopK Split SplitToSequence CenterCropPad AffineGrid Unsqueeze Squeeze",
        ),
        ((1,), " ".join(("CumSum", "CumProd", *REDUCTIONS))),
        ((2,), "MaxUnpool"),
        ((1, 2), "Col2Im DFT"),
        ((1, 3), "Pad STFT"),
        ((2, 3), "Resize"),
        ((0, 1, 2), "Range"),
        ((1, 2, 3, 4), "Slice"),
        ((0, 1, 2, 3, 4), "MelWeightMatrix"),
        (range(64), "Loop Scan"),
    )
    for name in names.split()
}
# Operators whose results on NaN or infinities ONNX leaves open, so that runtimes differ there: a choice by order, a saturation,
# an approximation, a step of an algorithm.
_OPEN_ON_NAN = frozenset(
    "ArgMax ArgMin Attention AveragePool BatchNormalization Bernoulli Celu Clip Cos DFT DeformConv Det DynamicQuantizeLinear Elu "
    "FlexAttention GRU Gelu GlobalMaxPool GridSample GroupNormalization HardSigmoid HardSwish Hardmax "
    "InstanceNormalization LRN LSTM LayerNormalization LogSoftmax Loop LpNormalization LpPool MaxPool MaxUnpool "
    "MeanVarianceNormalization Mish Mod Multinomial NonMaxSuppression Pow QuantizeLinear RMSNormalization RNN "
    "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMin Resize RoiAlign STFT Scan Scatter ScatterElements Selu Shrink "
    "Sign Sin Softmax Softplus Softsign Swish Tan ThresholdedRelu TopK Unique Upsample".split()
)
_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_WINDOWS = frozenset({"AveragePool", "Conv", "GlobalAveragePool", "MaxPool"})
# Of the source's operators those whose mean of an infinity and numbers is infinite where that stands last, and else NaN.
_OPEN_IN_SOURCE = ("aten::var_mean", "aten::std_mean")
# Operators whose results do not depend on the values of their operands.
_BLIND = frozenset({"Shape", "Size", "ZerosLike", "EyeLike"})


# Operators through which an index in a table's range goes unchanged, and which of their operands: what wraps those below 0
# around, as Keras' embeddings do, or holds them within the table.
_KEEP_INDEX = {"Where": (1, 2), "Clip": (0,), "Max": range(8), "Min": range(8), "Mod": (0,)}


def consumers(
    value: ir.Value, further: Mapping[str, Sequence[int]] = MappingProxyType({})
) -> Iterator[tuple[ir.Node, int]]:
    """Nodes that use the value or an unchanged carrier of it, with the index of that input; `further` are more carriers."""
    stack, seen = [value], {value}
    while stack:
        for node, index in stack.pop().uses():
            yield node, index
            if (node.op_type in CARRIERS and index == 0) or index in further.get(node.op_type, ()):
                fresh = [output for output in node.outputs if output not in seen]
                seen.update(fresh)
                stack.extend(fresh)


@dataclass(frozen=True)
class Reach:
    """What is computed from an input."""

    sizes: bool = False  # the size of something depends on it
    divides: bool = False  # whole numbers are divided by something that depends on it
    floats: bool = False  # floating-point numbers depend on it


def owners_of(graph: ir.Graph) -> dict[int, ir.Node]:
    """For each body of a loop or branch, by its id, the node that holds it."""
    return {id(body): node for node in graph.all_nodes() for body in bodies(node)}


def reach(value: ir.Value, owners: Mapping[int, ir.Node]) -> Reach:
    """What depends on the values of an input, through any operators; `owners` as `owners_of` gives them."""
    stack, seen = [value], {value}
    sizes = divides = floats = False
    while stack:
        for node, index in stack.pop().uses():
            if node.op_type in _BLIND:
                continue
            sizes |= index in _SIZES.get(node.op_type, ())
            divides |= node.op_type in ("Div", "Mod") and index == 1
            outputs = list(node.outputs)
            owner = owners.get(id(node.graph))
            if owner is not None:
                sizes |= owner.op_type in ("Loop", "Scan")
                outputs.extend(list(owner.outputs))
            for body in bodies(node):
                outputs.extend(list(body.inputs))
            floats |= any(map(is_floating, outputs))
            fresh = [output for output in outputs if output not in seen]
            seen.update(fresh)
            stack.extend(fresh)
    return Reach(sizes, divides, floats)


def number_range(value: ir.Value, dtype: np.dtype) -> Range | None:
    """The numbers that every operator allows that reads the value or an unchanged carrier of it; None for all."""
    rows = WHOLE_RANGES if dtype.kind in "iu" or "int" in dtype.name else FLOAT_RANGES
    allowed: Range | None = None
    for node, index in consumers(value):
        row = rows.get((node.op_type, index))
        if node.op_type in _CASTS and is_floating(node.outputs[0]):
            continue  # between types of floats a number stays what it is
        if row is not None and node.domain in ("", "ai.onnx", "ai.onnx.preview.training"):
            allowed = row if allowed is None else allowed.within(row)
    return allowed


def becomes_half(value: ir.Value) -> bool:
    """Whether an operator makes half precision of a value or of an unchanged carrier of it."""
    casts = (node.outputs[0] for node, _ in consumers(value) if node.op_type in _CASTS)
    return any(is_floating(result) and result.dtype is not None and result.dtype.itemsize <= 2 for result in casts)


def index_limit(value: ir.Value) -> int | None:
    """The size of the smallest weight axis that the value indexes; None where it indexes none."""
    limits = []
    for node, index in consumers(value, _KEEP_INDEX):
        if node.op_type in ("Gather", "GatherElements") and index == 1 and node.inputs[0] is not None:
            shape = node.inputs[0].shape
            axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
            if shape is not None and shape.rank() and isinstance(size := shape[axis % shape.rank()], int):
                limits.append(size)
        if node.op_type == "OneHot" and index == 0 and node.inputs[1] is not None:
            depth = node.inputs[1].const_value
            if depth is not None:
                limits.append(int(depth.numpy().reshape(-1)[0]))
    return max(min(limits), 1) if limits else None


_VOCABULARIES = ("keys_strings", "cats_strings", "pool_strings", "classlabels_strings", "stopwords")
_NUMBERS = ("keys_int64s", "cats_int64s", "pool_int64s")
# Operators of ai.onnx that read strings: texts on which they do something.
_TEXTS: dict[str, tuple[str, ...]] = {
    "Cast": ("1", "-2.5", "0.125", "1e3"),
    "CastLike": ("1", "-2.5", "0.125", "1e3"),
    "StringSplit": ("a b", "c.d,e", " f  g "),
    "RegexFullMatch": ("www.google.com", "a@b.org", "1-2"),
}


UNKNOWN = "not in the vocabulary"  # a word that no graph knows


def vocabulary(value: ir.Value) -> list[str]:
    """Strings that the graph knows, and one that it does not."""
    words: list[str] = []
    readers = [node for node, _ in consumers(value)]
    texts = [text for node in readers for text in _TEXTS.get(node.op_type, ())]
    if texts:
        return texts
    everywhere = value.graph.all_nodes() if value.graph is not None else ()
    reading = ("TfIdfVectorizer", "StringNormalizer")
    for node in [*readers, *(node for node in everywhere if node.domain == "ai.onnx.ml" or node.op_type in reading)]:
        for name in _VOCABULARIES:
            if name in node.attributes:
                words += [item if isinstance(item, str) else item.decode() for item in node.attributes[name].value]
        for item in node.inputs:
            if item is not None and item.const_value is not None and item.dtype == ir.DataType.STRING:
                words += [_text(word) for word in item.const_value.numpy().ravel()]
        if words:
            break
    return [*dict.fromkeys(words), UNKNOWN]


def _text(word: object) -> str:
    return word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word)


def known_numbers(value: ir.Value) -> list[int]:
    """Whole numbers that the operators which read the value look up."""
    readers = (node.attributes for node, _ in consumers(value))
    tables = (attributes[name].value for attributes in readers for name in _NUMBERS if name in attributes)
    return list(dict.fromkeys(int(item) for table in tables for item in table))


@cache
def limits(dtype: np.dtype) -> tuple[int, int]:
    """The least and the greatest number of an integer type, those of 4 and 2 bits included."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return int(info.min), int(info.max)
    bits = int(dtype.name.lstrip("uint"))
    return (0, 2**bits - 1) if dtype.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def defined_on_nan(graph: ir.Graph, *, products: bool = True) -> bool:
    """Whether it is settled what a graph gives on NaN and infinities; `products` counts convolutions and products as settled."""
    still_open = _OPEN_ON_NAN if products else _OPEN_ON_NAN | _PRODUCTS
    nodes = list(graph.all_nodes())
    settled = all(not node.domain and node.op_type not in still_open for node in nodes)
    settled &= not any(node.metadata_props.get("onnxport.op", "").startswith(_OPEN_IN_SOURCE) for node in nodes)
    return settled and not any(map(_is_open_form, nodes))


def _is_open_form(node: ir.Node) -> bool:
    """Whether a form of an operator leaves open what comes of NaN: casts to whole numbers or exponents, scattered extremes."""
    if node.op_type in _CASTS:
        result = node.outputs[0]
        return not is_floating(result) or result.dtype == ir.DataType.FLOAT8E8M0
    return node.op_type == "ScatterND" and node.attributes.get_string("reduction", "none") in ("max", "min")


def takes_empty(graph: ir.Graph, *, windows: bool = True) -> bool:
    """Whether runtimes are known to run a graph's operators without rows; `windows` counts convolutions and pools among these."""
    known = RUN_WITHOUT_ROWS if windows else RUN_WITHOUT_ROWS - _WINDOWS
    nodes = list(graph.all_nodes())
    settled = all(not node.domain and node.op_type in known for node in nodes)
    return settled and (REDUCES_EMPTY_FROM_THE_LAST or not any(map(_counts_from_the_last, nodes)))


def _counts_from_the_last(node: ir.Node) -> bool:
    """Whether a reduction's axes may count from the last."""
    if node.op_type not in REDUCTIONS:
        return False
    if "axes" in node.attributes:
        return min(node.attributes["axes"].as_ints(), default=0) < 0
    value = node.inputs[1] if len(node.inputs) > 1 else None
    axes = None if value is None else constant_of(value)
    return value is not None and (axes is None or bool(axes.size and axes.numpy().min() < 0))


def is_floating(value: ir.Value) -> bool:
    """Whether a value is of a floating-point type."""
    return value.dtype is not None and value.dtype.is_floating_point()
