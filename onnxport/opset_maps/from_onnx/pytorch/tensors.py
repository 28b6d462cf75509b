"""Tensors of torch: what is known of one, how one is created, its element type; recorded while importing, else executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import ml_dtypes
import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import InvalidModelError
from onnxport.graph import limits
from onnxport.graph.element_types import element_types
from onnxport.opset_maps.from_onnx.axes import INT_OPS
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.operands import tensor_value
from onnxport.opset_maps.from_onnx.pytorch import functions, text
from onnxport.opset_maps.from_onnx.pytorch.dtypes import FLOAT8, ONNX, TORCH, from_numpy
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor, Traced, holds_traced, leaves
from onnxport.opset_maps.from_onnx.pytorch.tracing import Recorder, RootRecorder
from onnxport.opset_maps.from_onnx.pytorch.worlds import META, in_world
from onnxport.opset_maps.from_onnx.values import (
    Array,
    Host,
    Int,
    IntOp,
    InvalidOperand,
    Law,
    UnknownUntilRun,
    host_array,
    known,
)

_INT_OPS: dict[str, Callable[..., Any]] = {**INT_OPS, "min": torch.sym_min, "max": torch.sym_max}
# Integers that are held in a wider type.
_MOST_SIZES = 1 << 16  # of one operand: each is a value of the trace
_NARROW = element_types("INT4 INT2 UINT4 UINT2 UINT16 UINT32")
# Signed types with the bits of those that are held in a wider one.
_SAME_BITS = {ir.DataType.UINT16: torch.int16, ir.DataType.UINT32: torch.int32}
_MINIFLOAT = element_types("FLOAT4E2M1 FLOAT6E2M3 FLOAT6E3M2")


def _bounded(function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Refuses a call on constants whose result is too large to be computed while a model is read."""
    given = sum(item.numel() for item in leaves((list(args), kwargs)) if isinstance(item, torch.Tensor))
    try:
        with META:
            result = function(*in_world(args, 0), **in_world(kwargs, 0))
    except Exception:  # its size depends on the constants' content
        return
    count = sum(item.numel() for item in leaves(result) if isinstance(item, torch.Tensor))
    if count > max(limits.MAX_ELEMENTS, given):
        raise InvalidModelError(
            f"{getattr(function, '__name__', function)} on constants alone gives {count:,} elements; "
            f"at most {limits.MAX_ELEMENTS:,} are computed while a model is read"
        )


def calling(function: Callable[..., Any]) -> Callable[..., Any]:
    """A primitive that is one function, of the same arguments."""

    def primitive(self: TorchTensorFamily, *args: object, **kwargs: object) -> Any:
        return self.call(function, *args, **kwargs)

    return primitive


class TorchTensorFamily(Namespace):
    """Tensors, and the calls on them.

    Attributes:
        recorder: the graph being written; None executes.
        run_time_device: the device of new tensors while executing; None leaves it to torch.
    """

    framework = "pytorch"

    def __init__(self, recorder: Recorder | None = None) -> None:
        super().__init__()
        self.recorder = recorder
        self.run_time_device: torch.device | None = None
        self._constants: dict[int, tuple[Any, Any]] = {}
        self._parameters: dict[int, Any] = {}

    def call(self, function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        """`function` on the arguments: recorded where one of them is traced, else executed."""
        if self.recorder is not None and (holds_traced(args) or holds_traced(kwargs)):
            if text.is_text(args):
                raise UnknownUntilRun(f"strings and what {function.__name__} takes with them meet when the model runs")
            return self.recorder.record(function, args, kwargs)
        if text.is_text(args):
            return text.call(function, *args, **kwargs)
        if self.recorder is None:
            return function(*args, **kwargs)
        with torch.no_grad():
            _bounded(function, args, kwargs)
            return function(*args, **kwargs)

    @property
    def device(self) -> Any:
        """The device of new tensors."""
        return self.recorder.device if self.recorder is not None else self.run_time_device

    def _make(self, function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        if self.recorder is None or holds_traced(args):
            kwargs["device"] = self.device
        return self.call(function, *args, **kwargs)

    def shape(self, x: TorchTensor) -> tuple[Int, ...]:
        if isinstance(x, Traced):
            assert self.recorder is not None
            return tuple(self.recorder.size(x, axis) for axis in range(self.ndim(x)))
        return tuple(x.shape)

    def ndim(self, x: TorchTensor) -> int:
        if isinstance(x, Traced):
            return x.tensors()[0].dim()
        return int(x.ndim)

    def dtype(self, x: TorchTensor) -> ir.DataType:
        if isinstance(x, np.ndarray):
            return ir.DataType.STRING
        return ONNX[(x.tensors()[0] if isinstance(x, Traced) else x).dtype]

    def is_tensor(self, x: object) -> TypeGuard[TorchTensor]:
        return isinstance(x, (torch.Tensor, Traced)) or (isinstance(x, np.ndarray) and x.dtype == object)

    def constant(self, array: Array, dtype: ir.DataType | None = None) -> TorchTensor:
        result = self._constants.get(id(array))
        if result is None or self.recorder is None:
            if dtype == ir.DataType.STRING or array.dtype.kind in "OUS":
                value: Any = array.astype(object)
            else:
                value = from_numpy(array, dtype)
                if self.recorder is None and self.run_time_device is not None:
                    value = value.to(self.run_time_device)
            result = (array, value)
            self._constants[id(array)] = result
        return result[1]

    def parameter(self, value: ir.Value) -> TorchTensor:
        assert self.recorder is not None
        result = self._parameters.get(id(value))
        if result is None:
            tensor = value.const_value
            assert tensor is not None
            if ir.DataType(tensor.dtype) == ir.DataType.STRING:
                result = tensor_value(tensor).array
            else:
                result = self._root.parameter(value)
            self._parameters[id(value)] = result
        return result

    @property
    def _root(self) -> RootRecorder:
        recorder = self.recorder
        while recorder is not None and recorder.outer is not None:
            recorder = recorder.outer
        assert isinstance(recorder, RootRecorder)
        return recorder

    def from_host(self, array: Host, dtype: ir.DataType) -> TorchTensor:
        return self._make(torch.tensor, array.tolist(), dtype=TORCH[dtype])

    def to_host(self, x: TorchTensor) -> Host:
        if isinstance(x, Traced):
            if self.ndim(x) == 0:
                return host_array(self.call(torch.Tensor.item, x))
            length = self.shape(x)[0] if self.ndim(x) == 1 else None
            if not known(length):
                raise UnknownUntilRun("a list of sizes whose length is known only when the model runs")
            if length > _MOST_SIZES:
                raise InvalidOperand(f"a list of {length} sizes")
            return host_array(self.call(functions.numbers, x))
        if isinstance(x, np.ndarray):
            return x
        values = x.tolist()
        kind = np.float64 if x.dtype.is_floating_point else np.bool_ if x.dtype == torch.bool else np.int64
        return host_array(values, kind) if x.dim() <= 1 else np.asarray(values, kind)

    def is_size(self, n: Int) -> bool:
        if isinstance(n, Traced):
            return n.recorder.is_size(n.node)
        return isinstance(n, torch.SymInt)

    def is_whole(self, n: object) -> bool:
        return isinstance(n.world(), int) if isinstance(n, Traced) else isinstance(n, torch.SymInt)

    def int_op(self, name: IntOp, *operands: Int) -> Int:
        return self.call(_INT_OPS[name], *operands)

    def full(self, shape: Sequence[Int], fill_value: object, dtype: ir.DataType) -> TorchTensor:
        if self.is_tensor(fill_value):
            return self.broadcast_to(self.astype(fill_value, dtype), shape)
        return self._make(torch.full, tuple(shape), fill_value, dtype=TORCH[dtype])

    def arange(
        self, start: object, stop: object = None, step: object = 1, dtype: ir.DataType = ir.DataType.INT64
    ) -> TorchTensor:
        if stop is None:
            start, stop = 0, start
        bounds = [
            item
            if not self.is_tensor(item) or (isinstance(item, Traced) and not item.is_tensor)
            else self.to_host(item)[()]
            for item in (start, stop, step)
        ]
        return self._make(torch.arange, *bounds, dtype=TORCH[dtype])

    def random(
        self, law: Law, shape: Sequence[Int], a: float, b: float, dtype: ir.DataType, seed: float | None
    ) -> TorchTensor:
        args: Any = (law, tuple(shape), a, b, TORCH[dtype], seed, self.device)
        return functions.random(*args) if self.recorder is None else self.recorder.record(functions.random, args, {})

    def astype(self, x: TorchTensor, dtype: ir.DataType, saturate: bool = True) -> TorchTensor:
        source = self.dtype(x)
        if ir.DataType.STRING in (source, dtype):
            return self._text(text.cast, x, source, dtype)
        held, wanted = TORCH[source], TORCH[dtype]
        if wanted in FLOAT8 and dtype.name != "FLOAT8E8M0":
            return x if held == wanted else self.call(functions.to_float8, x, wanted, saturate)
        if dtype in _MINIFLOAT:
            form = ml_dtypes.finfo(dtype.numpy())
            return self.call(functions.to_minifloat, x, int(form.nmant), int(form.minexp), float(form.max))
        if held in FLOAT8 and wanted != torch.float32:
            x, held = self.call(torch.Tensor.to, x, torch.float32), torch.float32
        if dtype == ir.DataType.BOOL:
            return x if held == torch.bool else self.call(torch.ne, x, 0)
        if dtype in _NARROW:
            return self.call(functions.wrap, x, dtype.bitwidth, dtype.is_signed(), wanted)
        if held == wanted:
            return x
        if held.is_floating_point and wanted in (torch.int8, torch.uint8, torch.int16):
            return self.call(functions.truncate, x, wanted)
        return self.call(torch.Tensor.to, x, wanted)

    def _text(self, function: Callable[..., Any], *args: object) -> Any:
        if holds_traced(args):
            raise UnknownUntilRun("strings are there only when the model runs")
        return function(*args)

    def bitcast(self, x: TorchTensor, dtype: ir.DataType) -> TorchTensor:
        source = self.input_dtype(0)
        if source in _SAME_BITS and self.dtype(x) == ONNX[TORCH[source]]:
            x = self.call(torch.Tensor.to, x, _SAME_BITS[source])
        result = self.call(torch.Tensor.view, x, _SAME_BITS.get(dtype, TORCH[dtype]))
        return self.astype(result, dtype) if dtype in _SAME_BITS else result

    complex = calling(torch.complex)
    real = calling(torch.real)
    imag = calling(torch.imag)
