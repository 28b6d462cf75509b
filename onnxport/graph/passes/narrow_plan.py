"""Which nodes of a float32 graph are computed in a 16-bit type, and which are not safe there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxport.graph.bodies import bodies
from onnxport.graph.constants import constant_of
from onnxport.graph.schema import find_schema, parameter
from onnxport.graph.segments import values_read

FLOAT = ir.DataType.FLOAT
# Their results leave float16's range, their sums lose digits there, or they tell near numbers apart.
_UNSAFE = frozenset(
    "AffineGrid BatchNormalization CenterCropPad Cos Cosh CumProd CumSum DFT DequantizeLinear Det Div DynamicQuantizeLinear "
    "Exp GRU GlobalLpPool GridSample GroupNormalization InstanceNormalization LRN LSTM LayerNormalization Log LogSoftmax "
    "LpNormalization LpPool MaxRoiPool MaxUnpool MeanVarianceNormalization MelWeightMatrix Mod Multinomial "
    "NegativeLogLikelihoodLoss Pow QuantizeLinear RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum "
    "ReduceLogSumExp ReduceMean ReduceProd ReduceSum ReduceSumSquare RoiAlign STFT Sin Sinh Softmax SoftmaxCrossEntropyLoss "
    "Softplus Sqrt Tan".split()
)
# What they give is of usual size, however large or small their operands are.
_SETTLING = frozenset(
    "Div Erf Greater GreaterOrEqual HardSigmoid IsInf IsNaN LayerNormalization Less LessOrEqual Log LogSoftmax Mul "
    "RMSNormalization Sigmoid Sign Softmax Tanh".split()
)
# They move elements: on a float32 value they stay beside its maker.
_CARRIERS = frozenset(
    "Concat Dropout Expand Flatten Gather GatherElements GatherND Identity Pad Reshape Slice Split Squeeze Tile Transpose "
    "Unsqueeze".split()
)
_FEW = 16  # elements of a constant that stands for something: an epsilon, a bound, a mask's value


@dataclass(frozen=True)
class NarrowPlan:
    """The nodes of a main graph, by their places, that are computed in `dtype`."""

    dtype: ir.DataType
    places: frozenset[int]
    kept: tuple[tuple[str, int], ...]  # operators that stay in float32, and their counts

    def note(self) -> str:
        """The plan in a sentence."""
        kept = ", ".join(f"{name} x{count}" if count > 1 else name for name, count in self.kept)
        rest = f"; in float32 stay {kept}" if kept else ""
        return f"{len(self.places)} operators are computed in {self.dtype.name.lower()}{rest}"


def narrow_plan(model: ir.Model, dtype: ir.DataType) -> NarrowPlan:
    """The plan of a typed model; it follows from the float32 graph alone."""
    planning = _Planning(model, dtype)
    return planning.run()


def is_float(value: ir.Value | None) -> bool:
    """Whether a value is a tensor of float32; a sequence of such is none."""
    return value is not None and isinstance(value.type, ir.TensorType) and value.dtype == FLOAT


def narrows(node: ir.Node, place: int, dtype: ir.DataType, opset: int) -> bool:
    """Whether the operand at a place of a node may be of the type, where it is float32."""
    schema = find_schema("", node.op_type, opset)
    if schema is None:
        return False
    allowed = parameter(schema, place).dtypes
    return not allowed or dtype in allowed


class _Planning:
    def __init__(self, model: ir.Model, dtype: ir.DataType) -> None:
        self._graph = model.graph
        self._opset = model.graph.opset_imports.get("", 1)
        self._dtype = dtype
        self._wide: set[ir.Value] = set()  # values that may be beyond the type's range
        self._full: set[ir.Value] = set()  # results of nodes that stay
        self._fits: dict[ir.Value, bool] = {}

    def run(self) -> NarrowPlan:
        places: set[int] = set()
        kept: Counter[str] = Counter()
        for place, node in enumerate(self._graph):
            if not any(map(is_float, (*node.inputs, *node.outputs))):
                continue
            if self._stays(node):
                self._full.update(node.outputs)
                if node.op_type not in ("Constant", "Identity") and node.op_type not in _CARRIERS:
                    kept[node.op_type] += 1
            else:
                places.add(place)
        return NarrowPlan(self._dtype, frozenset(places), tuple(sorted(kept.items())))

    def _stays(self, node: ir.Node) -> bool:
        read = [value for value in values_read(node) if is_float(value)]
        large = [value for value in read if not self._in_range(value)]
        if large or any(value in self._wide for value in read):
            if large or node.op_type not in _SETTLING:
                self._wide.update(node.outputs)
            return True
        if node.op_type in _UNSAFE or bodies(node) or node.domain not in ("", "ai.onnx") or not self._allowed(node):
            return True
        if any(_is_other(value) for value in (*node.inputs, *node.outputs)):
            return True
        if node.op_type == "Mul" and node.inputs[0] is node.inputs[1]:
            return True  # a square, most often before a sum
        if node.op_type in _CARRIERS:
            return bool(read) and all(value in self._full for value in read)
        return not read  # numbers out of nothing, or of another type

    def _allowed(self, node: ir.Node) -> bool:
        schema = find_schema("", node.op_type, self._opset)
        if schema is None:
            return False
        given = [value for value in node.outputs if is_float(value)]
        allowed = [{*item.types} for item in schema.outputs]
        names = {f"tensor({self._dtype.name.lower()})"}
        constraints = {item.type_param_str: {*item.allowed_type_strs} for item in schema.type_constraints}
        for place, value in enumerate(node.outputs):
            formal = schema.outputs[min(place, len(schema.outputs) - 1)]
            types = constraints.get(formal.type_str, {formal.type_str})
            if value in given and not names & types:
                return False
        read = [place for place, value in enumerate(node.inputs) if is_float(value)]
        return bool(allowed) and (not read or any(narrows(node, place, self._dtype, self._opset) for place in read))

    def _in_range(self, value: ir.Value) -> bool:
        if value not in self._fits:
            self._fits[value] = _fits(constant_of(value), self._dtype)
        return self._fits[value]


def _is_other(value: ir.Value | None) -> bool:
    """Whether a value is a sequence, a map or an optional."""
    return value is not None and value.type is not None and not isinstance(value.type, ir.TensorType)


def _fits(tensor: ir.TensorProtocol | None, dtype: ir.DataType) -> bool:
    """Whether a constant lies in the type's range: a few numbers that stand for something not below it either."""
    if tensor is None or tensor.dtype != FLOAT or dtype == ir.DataType.BFLOAT16 or not tensor.size:
        return True
    size = np.abs(tensor.numpy())
    finite = size[np.isfinite(size)]
    limits = np.finfo(np.float16)
    if finite.size and float(finite.max()) > float(limits.max):
        return False
    shown = finite[finite > 0]
    return tensor.size > _FEW or not shown.size or float(shown.min()) >= float(limits.smallest_normal)
