"""Operators without a kernel for an element type, computed in another type that holds its values exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtimes.defect import ALL_OPSETS, NO_KERNEL, Defect, Write, Written

_T = ir.DataType
_LEAST = -(1 << 63)


def again(
    op: OpBuilder, node: ir.Node, inputs: Sequence[ir.Value | None], **changed: object
) -> ir.Value | tuple[ir.Value, ...]:
    """The node once more, on other inputs."""
    attributes: dict[str, Any] = {name: item.value for name, item in node.attributes.items()}
    result: ir.Value | tuple[ir.Value, ...] = op.node(
        node.op_type, *inputs, domain=node.domain, outputs=len(node.outputs), **{**attributes, **changed}
    )
    return result


def _converted(
    into: Callable[[OpBuilder, ir.Value], ir.Value],
    back: Callable[[OpBuilder, ir.Value, ir.DataType], ir.Value],
    dtypes: frozenset[ir.DataType],
) -> Write:
    """Computes a node on its operands of `dtypes` brought `into` another type, and brings results of `dtypes` `back`."""

    def write(op: OpBuilder, node: ir.Node) -> Written:
        inputs = [into(op, value) if value is not None and value.dtype in dtypes else value for value in node.inputs]
        results = again(op, node, inputs)
        return tuple(
            back(op, result, old.dtype) if old.dtype in dtypes and old.dtype != result.dtype else result
            for old, result in zip(node.outputs, results if isinstance(results, tuple) else (results,), strict=True)
        )

    return write


# Computes a node on UINT64 in INT64, shifted by 2**63: the shift keeps the order.
ordered = _converted(
    lambda op, value: op.Add(op.cast(value, _T.INT64), _LEAST),
    lambda op, result, dtype: op.cast(op.Add(result, _LEAST), dtype),
    frozenset({_T.UINT64}),
)


def cast_row(
    operators: str,
    dtypes: Sequence[ir.DataType],
    wide: ir.DataType,
    reason: str = NO_KERNEL,
    *,
    operands: tuple[int, ...] | None = None,
    opsets: range = ALL_OPSETS,
    applies: Callable[[ir.Node], bool] | None = None,
) -> Defect:
    """A row for operators that are computed in `wide`: operands of `dtypes` are cast to it, and results of `dtypes` back."""
    kinds = frozenset(dtypes)
    write = _converted(lambda op, value: op.cast(value, wide), OpBuilder.cast, kinds)
    instead = f"{wide.name.lower()} between casts"
    return Defect(tuple(operators.split()), write, instead, reason, kinds, operands, opsets, applies)


# Without a kernel for BFLOAT16 in 1.24 and 1.31, IsInf and Sign aside, which takes NaN for 0; results are rounded to it after
# each operator, as the frameworks do.
_NO_BFLOAT16 = (
    "Abs Acos Acosh Add AffineGrid ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization Ceil Celu "
    "Clip Col2Im Conv ConvTranspose Cos Cosh CumProd CumSum DFT DeformConv DepthToSpace Det Div Dropout Einsum Elu Equal "
    "Erf Exp Expand Floor GRU Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample "
    "GroupNormalization HardSigmoid HardSwish Hardmax InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization "
    "LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool MatMul Max MaxPool MaxRoiPool MaxUnpool Mean "
    "MeanVarianceNormalization Min Mish Mod Mul Multinomial Neg NegativeLogLikelihoodLoss NonZero OneHot PRelu Pad Pow "
    "RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
    "ReduceProd ReduceSum ReduceSumSquare Relu Resize RoiAlign RotaryEmbedding Round STFT Selu Shrink Sigmoid Sign Sin "
    "Sinh Size Softmax SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu "
    "Tile TopK Trilu Unique Where"
)
_REDUCTIONS = " ".join(f"Reduce{name}" for name in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split())

CASTS = (
    cast_row(_NO_BFLOAT16, [_T.BFLOAT16], _T.FLOAT),
    cast_row("ArgMax ArgMin Clip Einsum Max Min NonZero Pad Relu TopK Trilu", [_T.INT16, _T.UINT16], _T.INT32),
    cast_row("Where", [_T.INT16, _T.UINT16], _T.INT32, operands=(1, 2)),
    cast_row("Einsum NonZero TopK Trilu", [_T.INT8], _T.INT32),
    cast_row("Where", [_T.INT8], _T.INT32, operands=(1, 2)),
    cast_row("Einsum TopK Trilu", [_T.UINT8], _T.INT32),
    cast_row("BitShift", [_T.UINT16], _T.UINT32),
    cast_row("Pow", [_T.INT8, _T.UINT8, _T.INT16, _T.UINT16], _T.INT32, operands=(1,)),
    cast_row("Pow", [_T.UINT32], _T.INT64, operands=(1,)),
    cast_row("Unique", [_T.UINT8, _T.INT16, _T.UINT16, _T.INT32, _T.UINT32], _T.INT64),
    cast_row("Unique", [_T.BOOL], _T.INT8),
    cast_row("Trilu", [_T.INT32, _T.UINT32, _T.UINT64], _T.INT64, operands=(0,)),
    cast_row(f"ArgMax ArgMin CumSum Einsum Gemm NonZero PRelu TopK {_REDUCTIONS}", [_T.UINT32], _T.INT64),
    cast_row("Where", [_T.UINT32, _T.UINT64], _T.INT64, operands=(1, 2)),
    cast_row("CumSum Einsum Gemm NonZero ReduceProd ReduceSum ReduceSumSquare", [_T.UINT64], _T.INT64),
    cast_row("Gemm", [_T.INT32], _T.DOUBLE),
    Defect(
        tuple("ArgMax ArgMin ReduceMax ReduceMin TopK Unique".split()),
        ordered,
        "int64 between shifts by 2**63",
        dtypes=frozenset({_T.UINT64}),
    ),
)
