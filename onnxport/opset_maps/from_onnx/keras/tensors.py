"""Tensors of Keras: what is known of one, how one is created."""

from __future__ import annotations

from typing import Any, TypeGuard

import keras
import onnx_ir as ir

from onnxport.opset_maps.from_onnx.keras.coding import OF_NAME
from onnxport.opset_maps.from_onnx.keras.parameters import KerasValue, Parameter, shape_of
from onnxport.opset_maps.from_onnx.keras.recording import KerasRecording
from onnxport.opset_maps.from_onnx.values import (
    Array,
    Host,
    Int,
    IntOp,
    Law,
    UnknownUntilRun,
    carrier,
    host_array,
    known,
)


class KerasTensorFamily(KerasRecording):
    """Symbolic tensors, eager ones, and parameters that are to become weights."""

    def __init__(self) -> None:
        super().__init__()
        self._axis_sizes: dict[tuple[int, int], Any] = {}
        self._size_of: dict[int, tuple[Any, Any, int]] = {}

    def is_tensor(self, x: object) -> TypeGuard[KerasValue]:
        return isinstance(x, (keras.KerasTensor, Parameter)) or self.eager.is_tensor(x)

    def is_symbolic(self, x: object) -> TypeGuard[keras.KerasTensor]:
        """Whether `x` is known only when the model runs."""
        return isinstance(x, keras.KerasTensor)

    def static_shape(self, x: KerasValue) -> tuple[int | None, ...] | None:
        if not isinstance(x, (keras.KerasTensor, Parameter)):
            return tuple(int(n) for n in x.shape)
        return None if x.shape is None else tuple(x.shape)

    def ndim(self, x: KerasValue) -> int:
        shape = self.static_shape(x)
        if shape is None:
            raise UnknownUntilRun("a rank is not known before the model runs")
        return len(shape)

    def shape(self, x: KerasValue) -> tuple[Int, ...]:
        self.ndim(x)
        return tuple(self._axis_size(x, i) if n is None else n for i, n in enumerate(self.static_shape(x) or ()))

    def _axis_size(self, x: object, axis: int) -> Any:
        if (id(x), axis) not in self._axis_sizes:
            size = self.record("axis_size", x, axis)
            self._axis_sizes[id(x), axis] = size
            self._size_of[id(size)] = (size, x, axis)
        return self._axis_sizes[id(x), axis]

    def is_size(self, n: Int) -> bool:
        return id(n) in self._size_of

    def is_batch(self, n: Int, x: KerasValue) -> bool:
        """Whether a size is that of axis 0 of `x`, or of a tensor that `x` was computed from batch by batch."""
        if known(n):
            return bool(self.static_shape(x)) and (self.static_shape(x) or ())[0] == n
        result = self._size_of.get(id(n))
        return result is not None and result[2] == 0 and (result[1] is x or result[1] is self.anchor)

    def dtype(self, x: KerasValue) -> ir.DataType:
        if isinstance(x, Parameter):
            return OF_NAME[carrier(x.dtype)]
        return OF_NAME[x.dtype] if isinstance(x, keras.KerasTensor) else self.eager.dtype(x)

    def constant(self, array: Array, dtype: ir.DataType | None = None) -> KerasValue:
        return self.eager.constant(array, dtype)

    def parameter(self, value: ir.Value) -> KerasValue:
        return Parameter(value, shape_of(value))

    def from_host(self, array: Host, dtype: ir.DataType) -> KerasValue:
        if array.dtype != object or dtype == ir.DataType.STRING:
            return self.eager.from_host(array, dtype)
        return self.record("vector", list(array.ravel()), array.shape, dtype)

    def to_host(self, x: KerasValue) -> Host:
        if isinstance(x, Parameter):
            return x.array()
        if not isinstance(x, keras.KerasTensor):
            return self.eager.to_host(x)
        if self.ndim(x) == 0:
            return host_array(self.record("int", x) if x.dtype != "int64" else x)
        length = x.shape[0]
        if length is None:
            raise UnknownUntilRun("the length of a vector of sizes is not known before the model runs")
        return host_array([self.record("element", x, i) for i in range(length)])

    def int_op(self, name: IntOp, *operands: Int) -> Int:
        return self.record("int_op", name, *operands)

    def random(self, law: Law, *args: object) -> KerasValue:
        return self.record(law, self.anchor, *args)
