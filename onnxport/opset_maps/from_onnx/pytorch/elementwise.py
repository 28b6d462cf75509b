"""Elementwise functions of torch."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import onnx_ir as ir
import torch
import torch.nn.functional as F

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.elementwise import ROWS
from onnxport.opset_maps.from_onnx.pytorch import functions
from onnxport.opset_maps.from_onnx.pytorch.dtypes import FLOAT8, TORCH
from onnxport.opset_maps.from_onnx.pytorch.tensors import TorchTensorFamily, calling
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor, Traced
from onnxport.opset_maps.from_onnx.pytorch.worlds import broadcasting

_OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Neg": operator.neg,
    "real_div": operator.truediv,
    "Equal": torch.eq,
}
# Unsigned types that torch holds in a signed one.
_HELD_SIGNED = frozenset((ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64))

broadcasting(operator.add, operator.sub, operator.mul, operator.truediv, torch.where, torch.remainder, torch.fmod)
broadcasting(functions.power, functions.shift_left, functions.shift_right)


@cache
def torch_function(name: str) -> Callable[..., Any]:
    """The torch function of a row of the elementwise table.

    Raises:
        UnsupportedOperator: the table names none.
    """
    if name in _OPERATORS:
        return _OPERATORS[name]
    row = next((row for row in ROWS if row.onnx == name), None)
    path = row.torch if row is not None and row.torch else ""
    if row is not None and not path:
        base = row.aten[0].removeprefix("aten::") if row.aten else ""
        path = base if hasattr(torch, base) else f"nn.functional.{base}"
    result: Any = torch
    for part in path.split("."):
        result = getattr(result, part, None)
    if not callable(result):
        raise UnsupportedOperator(f"the elementwise table names no torch function for {name}")
    broadcasting(result)
    return result


class TorchElementwiseFamily(TorchTensorFamily):
    """One result an element."""

    def elementwise(self, name: str, *xs: TorchTensor) -> TorchTensor:
        function = torch_function(name)
        if len(xs) == 2 and name in ("Max", "Min") and any(isinstance(item, (int, float)) for item in xs):
            x, bound = xs if isinstance(xs[1], (int, float)) else (xs[1], xs[0])
            return self.call(torch.clamp_min if name == "Max" else torch.clamp_max, x, bound)
        if name == "Sign" and self.dtype(xs[0]).is_floating_point():  # torch's is 0 for NaN
            return self.where(self.isnan(xs[0]), xs[0], self.call(torch.sign, xs[0]))
        return self.call(function, *xs)

    def divide(self, a: TorchTensor, b: TorchTensor) -> TorchTensor:
        tensor = a if self.is_tensor(a) else b
        if self.dtype(tensor).is_floating_point() or self.dtype(tensor) in (
            ir.DataType.COMPLEX64,
            ir.DataType.COMPLEX128,
        ):
            return self.call(operator.truediv, a, b)
        return self.call(torch.div, a, b, rounding_mode="trunc")

    floor_mod = calling(torch.remainder)
    trunc_mod = calling(torch.fmod)

    def pow(self, a: TorchTensor, b: TorchTensor) -> TorchTensor:
        alike = isinstance(b, (int, float)) or (self.is_tensor(b) and self.dtype(a) == self.dtype(b))
        plain = alike and self.dtype(a).is_floating_point()
        return self.call(torch.pow if plain else functions.power, a, b)

    where = calling(torch.where)

    def bitwise_left_shift(self, a: TorchTensor, b: TorchTensor) -> TorchTensor:
        dtype = self.input_dtype(0) or self.dtype(a)
        result = self.call(functions.shift_left, a, b, dtype.bitwidth)
        return self.astype(result, dtype) if dtype in _HELD_SIGNED and dtype != ir.DataType.UINT64 else result

    def bitwise_right_shift(self, a: TorchTensor, b: TorchTensor) -> TorchTensor:
        dtype = self.input_dtype(0) or self.dtype(a)
        function = functions.shift_right_unsigned if dtype in _HELD_SIGNED else functions.shift_right
        return self.call(function, a, b, dtype.bitwidth)

    bitwise_invert = calling(torch.bitwise_not)
    logical_not = calling(torch.logical_not)

    def isnan(self, x: TorchTensor) -> TorchTensor:
        if isinstance(x, (Traced, torch.Tensor)) and TORCH[self.dtype(x)] in FLOAT8:
            x = self.astype(x, ir.DataType.FLOAT)
        return self.call(torch.isnan, x)

    isinf = calling(torch.isinf)
    equal = calling(torch.eq)
    not_equal = calling(torch.ne)

    def clip(
        self, x: TorchTensor, low: TorchTensor | float | None = None, high: TorchTensor | float | None = None
    ) -> TorchTensor:
        if low is None and high is None:
            return x
        if all(item is None or isinstance(item, (int, float)) for item in (low, high)):
            return self.call(torch.clamp, x, low, high)
        return super().clip(x, low, high)

    def softplus(self, x: TorchTensor) -> TorchTensor:
        return self.call(F.softplus, x, 1.0, 40.0)
