"""What holds a program together: constants, variables, identities and calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, case, f32, i32
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64
from onnxport.opset_maps.to_onnx.tensorflow.values import Function, VariableHandle

# Beyond this many elements a floating-point constant is a weight, and stands in the file under its node's name.
_WEIGHT_ELEMENTS = 64


def constant(op: OpBuilder, array: np.ndarray, name: str) -> ir.Value:
    """A constant of the source: small or integral ones take part in folding, large ones are parameters.

    A complex array becomes pairs along a last axis.
    """
    if array.dtype.kind in "OUS":
        return op.const(decoded(array))
    if array.dtype.kind == "c":
        array = np.ascontiguousarray(np.stack([array.real, array.imag], -1))
    dtype = ir.DataType.from_numpy(array.dtype)
    if dtype.is_floating_point() and array.size > _WEIGHT_ELEMENTS:
        return op.initializer(name, ir.Tensor(array, dtype=dtype))
    return op.const(array, dtype, name=name)


def decoded(array: np.ndarray) -> np.ndarray:
    """Bytes as text; ONNX strings are UTF-8."""
    try:
        flat = [item.decode() if isinstance(item, bytes) else str(item) for item in array.ravel()]
    except UnicodeDecodeError as error:
        raise UnsupportedOperator("a string constant is not UTF-8, which ONNX strings are") from error
    result = np.empty(len(flat), object)
    result[:] = flat
    return result.reshape(array.shape)


def _of_variable(compute: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    """Builds a function of one tensor and a variable of shape [2, 3]."""

    def build() -> Any:
        module = tf.Module()
        module.w = tf.Variable(np.arange(6, dtype=np.float32).reshape(2, 3), name="w")
        return tf.function(lambda x: compute(module.w, x))

    return build


def _with_call() -> Any:
    inner = tf.function(lambda x: (x * 2.0, x + 1.0), autograph=False)
    return tf.function(lambda x: inner(inner(x)[0])[1])


def _with_complex_call() -> Any:
    inner = tf.function(lambda z: (z * 2j, tf.shape(z)), autograph=False)
    return tf.function(lambda x: (tf.abs(inner(tf.complex(x, x))[0]), inner(tf.complex(x, x))[1]))


@tensorflow.lower("Const", cases=[case(lambda x: x + tf.range(100, dtype=tf.float32), f32(2, 100))])
@tensorflow.lower(
    "Const",
    accepts_complex=True,
    cases=[case(lambda x: x * tf.math.real(tf.constant([1 + 2j, 3j, 2], tf.complex64)), f32(2, 3))],
)
def const(op: OpBuilder, *, value: np.ndarray) -> ir.Value:
    """A constant, or a parameter where it is large; complex numbers as pairs."""
    return constant(op, value, op.source.name if op.source else "const")


def _with_complex_variable() -> Any:
    module = tf.Module()
    module.w = tf.Variable(np.array([1 + 2j, 3j, 2], np.complex64), name="w")
    return tf.function(lambda x: tf.math.real(module.w * tf.cast(x, tf.complex64)))


@tensorflow.lower("ReadVariableOp", accepts_complex=True, cases=[built(_with_complex_variable, f32(2, 3))])
@tensorflow.lower("ReadVariableOp", cases=[built(_of_variable(lambda v, x: v + x), f32(2, 3))])
def read_variable(op: OpBuilder, resource: VariableHandle) -> ir.Value:
    """The variable's initializer."""
    return resource.read()


@tensorflow.lower(
    "VariableShape",
    cases=[built(_of_variable(lambda v, x: tf.raw_ops.VariableShape(input=v.handle) + tf.cast(x, tf.int32)), f32(2))],
)
def variable_shape(op: OpBuilder, input: VariableHandle, *, out_type: ir.DataType = ir.DataType.INT32) -> ir.Value:
    """A variable's static shape."""
    return op.const(np.asarray(input.shape), out_type)


@tensorflow.lower(
    "ResourceGather",
    cases=[
        built(
            _of_variable(lambda v, i: tf.raw_ops.ResourceGather(resource=v.handle, indices=i, dtype=tf.float32)),
            i32(4, low=0, high=2),
        )
    ],
)
def resource_gather(op: OpBuilder, resource: VariableHandle, indices: ir.Value, *, batch_dims: int = 0) -> ir.Value:
    """Rows of a variable."""
    if batch_dims:
        raise UnsupportedOperator(f"ResourceGather: batch_dims={batch_dims} has no ONNX form")
    return op.Gather(resource.read(), indices, axis=0)


@tensorflow.lower(
    "ResourceGatherNd",
    cases=[
        built(
            _of_variable(lambda v, i: tf.raw_ops.ResourceGatherNd(resource=v.handle, indices=i, dtype=tf.float32)),
            i32(4, 2, low=0, high=2),
        )
    ],
)
def resource_gather_nd(op: OpBuilder, resource: VariableHandle, indices: ir.Value) -> ir.Value:
    """Slices of a variable."""
    return op.GatherND(resource.read(), int64(op, indices))


@tensorflow.lower(
    "Identity StopGradient PreventGradient Snapshot EnsureShape CheckNumerics CheckNumericsV2",
    "PlaceholderWithDefault DeepCopy OptimizationBarrier GuaranteeConst Copy DebugIdentityV2",
    cases=[
        case(lambda x: tf.guarantee_const(x) + 1.0, f32(2)),
        case(lambda x: tf.identity(x), f32(2, 3)),
        case(lambda x: tf.stop_gradient(x) + tf.ensure_shape(x, [None, 3]), f32(2, 3)),
    ],
)
def identity(op: OpBuilder, input: Any, **_: Any) -> Any:
    """The operand itself."""
    return input


@tensorflow.lower(
    "IdentityN",
    accepts_complex=True,
    cases=[case(lambda x, y: tf.abs(tf.identity_n([tf.complex(x, y), y])[0]), f32(2), f32(2))],
)
@tensorflow.lower(
    "IdentityN", "XlaOptimizationBarrier", cases=[case(lambda x, y: tf.identity_n([x, y]), f32(2), i32(3))]
)
def identity_n(op: OpBuilder, input: list[Any]) -> list[Any]:
    """The operands themselves."""
    return input


@tensorflow.lower(
    "PartitionedCall StatefulPartitionedCall", accepts_complex=True, cases=[built(_with_complex_call, f32(2, 3))]
)
@tensorflow.lower(
    "PartitionedCall",
    "StatefulPartitionedCall",
    cases=[built(_with_call, f32(2, 3))],
)
def partitioned_call(op: OpBuilder, args: list[Any], *, f: Function) -> list[Any]:
    """The function's nodes, in place."""
    return list(op.call(f, args))
