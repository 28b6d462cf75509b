"""The array namespace in torch: recorded as a torch.fx graph while importing, executed when the model runs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.elementwise import ROWS
from onnxport.opset_maps.from_onnx.namespace import (
    Axes,
    Body,
    Host,
    Int,
    IntOp,
    Namespace,
    PadMode,
    Pads,
    Reduction,
    UnknownUntilRun,
    host_array,
    known,
)
from onnxport.opset_maps.from_onnx.pytorch import control, functions, text
from onnxport.opset_maps.from_onnx.pytorch.dtypes import FLOAT8, ONNX, TORCH, from_numpy
from onnxport.opset_maps.from_onnx.pytorch.expressions import compiled
from onnxport.opset_maps.from_onnx.pytorch.tracing import Recorder, Traced, broadcasting, dims_of, example, holds_traced

Tensor = Any

_OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Neg": operator.neg,
    "real_div": operator.truediv,
    "Equal": torch.eq,
}
_INT_OPS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": functions.truncated_div,
    "floor_div": operator.floordiv,
    "ceil_div": functions.ceil_div,
    "mod": operator.mod,
    "min": functions.least,
    "max": functions.greatest,
    "neg": operator.neg,
    "abs": abs,
    "eq": operator.eq,
    "lt": operator.lt,
    "le": operator.le,
    "and": functions.both,
    "or": functions.either,
    "not": operator.not_,
    "where": functions.select,
}
_WIDTH = {ir.DataType.UINT16: 16, ir.DataType.UINT32: 32, ir.DataType.UINT64: 64}
_NARROW = {
    ir.DataType.INT4: (4, True),
    ir.DataType.INT2: (2, True),
    ir.DataType.UINT4: (4, False),
    ir.DataType.UINT2: (2, False),
    ir.DataType.UINT16: (16, False),
    ir.DataType.UINT32: (32, False),
}
# Signed types with the bits of those that are held in a wider one.
_SAME_BITS = {ir.DataType.UINT16: torch.int16, ir.DataType.UINT32: torch.int32}
# Mantissa bits, least exponent, greatest value (OCP Microscaling formats specification 1.0, section 5.3).
_MINIFLOAT = {
    ir.DataType.FLOAT4E2M1: (1, 0, 6.0),
    ir.DataType.FLOAT6E2M3: (3, 0, 7.5),
    ir.DataType.FLOAT6E3M2: (2, -2, 28.0),
}
_CONV = (F.conv1d, F.conv2d, F.conv3d)
_CONV_TRANSPOSE = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
_MAX_POOL = (F.max_pool1d, F.max_pool2d, F.max_pool3d)

broadcasting(
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    torch.where,
    torch.remainder,
    torch.fmod,
    functions.power,
    functions.shift_left,
    functions.shift_right,
)


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
    found: Any = torch
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise UnsupportedOperator(f"the elementwise table names no torch function for {name}")
    broadcasting(found)
    return found


class TorchNamespace(Namespace):
    """torch as the ONNX semantics see it.

    Attributes:
        recorder: the graph being written; None executes.
    """

    framework = "pytorch"

    def __init__(self, recorder: Recorder | None = None) -> None:
        super().__init__()
        self.recorder = recorder
        self.run_time_device: torch.device | None = None
        self._constants: dict[int, tuple[Any, Any]] = {}
        self._parameters: dict[int, Any] = {}

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`function` on the arguments: recorded where one of them is traced, else executed."""
        if self.recorder is not None:
            if holds_traced(args) or holds_traced(kwargs):
                if text.is_text(args):
                    raise UnknownUntilRun(
                        f"strings and what {function.__name__} takes with them meet when the model runs"
                    )
                return self.recorder.record(function, args, kwargs)
            if text.is_text(args):
                return text.call(function, *args, **kwargs)
            with torch.no_grad():
                return function(*args, **kwargs)
        if text.is_text(args):
            return text.call(function, *args, **kwargs)
        return function(*args, **kwargs)

    @property
    def device(self) -> Any:
        """Where new tensors are made."""
        return self.recorder.device if self.recorder is not None else self.run_time_device

    def _make(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.recorder is None or holds_traced(args):
            kwargs["device"] = self.device
        return self.call(function, *args, **kwargs)

    # -- what is known of a tensor -------------------------------------------------------------------------------------

    def shape(self, x: Tensor) -> tuple[Int, ...]:
        if isinstance(x, Traced):
            assert self.recorder is not None
            return tuple(self.recorder.size(x, axis) for axis in range(self.ndim(x)))
        return tuple(x.shape)

    def ndim(self, x: Tensor) -> int:
        if isinstance(x, Traced):
            world = x.world()
            if not isinstance(world, torch.Tensor):
                raise UnknownUntilRun("a sequence has no rank")
            return world.dim()
        return int(x.ndim)

    def dtype(self, x: Tensor) -> ir.DataType:
        if isinstance(x, np.ndarray):
            return ir.DataType.STRING
        return ONNX[(x.world() if isinstance(x, Traced) else x).dtype]

    def is_tensor(self, x: Any) -> bool:
        return isinstance(x, (torch.Tensor, Traced)) or (isinstance(x, np.ndarray) and x.dtype == object)

    # -- between Python and tensors ------------------------------------------------------------------------------------

    def constant(self, array: np.ndarray[Any, Any], dtype: ir.DataType | None = None) -> Tensor:
        found = self._constants.get(id(array))
        if found is None or self.recorder is None:
            if dtype == ir.DataType.STRING or array.dtype.kind in "OUS":
                value: Any = array.astype(object)
            else:
                value = from_numpy(array, dtype)
                if self.recorder is None and self.run_time_device is not None:
                    value = value.to(self.run_time_device)
            found = (array, value)
            self._constants[id(array)] = found
        return found[1]

    def parameter(self, value: ir.Value) -> Tensor:
        assert self.recorder is not None
        found = self._parameters.get(id(value))
        if found is None:
            tensor = value.const_value
            assert tensor is not None
            if ir.DataType(tensor.dtype) == ir.DataType.STRING:
                from onnxport.opset_maps.from_onnx.call import tensor_value

                found = tensor_value(tensor).array
            else:
                found = self._root.parameter(value)
            self._parameters[id(value)] = found
        return found

    @property
    def _root(self) -> RootRecorder:
        recorder = self.recorder
        while recorder is not None and recorder.outer is not None:
            recorder = recorder.outer
        assert isinstance(recorder, RootRecorder)
        return recorder

    def from_host(self, array: Host, dtype: ir.DataType) -> Tensor:
        return self._make(functions.tensor_of, array.tolist(), TORCH[dtype])

    def to_host(self, x: Tensor) -> Host:
        if isinstance(x, Traced):
            if self.ndim(x) == 0:
                return host_array(self.call(functions.item, x))
            if self.ndim(x) != 1 or not known(self.shape(x)[0]):
                raise UnknownUntilRun("a list of sizes whose length is known only when the model runs")
            return host_array(self.call(functions.elements, x))
        if isinstance(x, np.ndarray):
            return x
        values = x.tolist()
        kind = np.float64 if x.dtype.is_floating_point else np.bool_ if x.dtype == torch.bool else np.int64
        return host_array(values, kind) if x.dim() <= 1 else np.asarray(values, kind)

    def is_size(self, n: Int) -> bool:
        if isinstance(n, Traced):
            return n.recorder.is_size(n.node)
        return isinstance(n, torch.SymInt)

    def int_op(self, name: IntOp, *operands: Int) -> Int:
        return self.call(_INT_OPS[name], *operands)

    # -- making --------------------------------------------------------------------------------------------------------

    def full(self, shape: Sequence[Int], fill_value: Any, dtype: ir.DataType) -> Tensor:
        if self.is_tensor(fill_value):
            return self.broadcast_to(self.astype(fill_value, dtype), shape)
        return self._make(torch.full, tuple(shape), fill_value, dtype=TORCH[dtype])

    def arange(self, start: Any, stop: Any = None, step: Any = 1, dtype: ir.DataType = ir.DataType.INT64) -> Tensor:
        if stop is None:
            start, stop = 0, start
        bounds = [
            self.to_host(item)[()] if self.is_tensor(item) and _is_array(item) else item for item in (start, stop, step)
        ]
        return self._make(torch.arange, *bounds, dtype=TORCH[dtype])

    def random_uniform(
        self, shape: Sequence[Int], low: float, high: float, dtype: ir.DataType, seed: float | None
    ) -> Tensor:
        return self._random(functions.random_uniform, shape, low, high, dtype, seed)

    def random_normal(
        self, shape: Sequence[Int], mean: float, scale: float, dtype: ir.DataType, seed: float | None
    ) -> Tensor:
        return self._random(functions.random_normal, shape, mean, scale, dtype, seed)

    def _random(
        self, function: Any, shape: Sequence[Int], a: float, b: float, dtype: ir.DataType, seed: float | None
    ) -> Tensor:
        args = (tuple(shape), a, b, TORCH[dtype], seed, self.device)
        return function(*args) if self.recorder is None else self.recorder.record(function, args, {})

    # -- element types -------------------------------------------------------------------------------------------------

    def astype(self, x: Tensor, dtype: ir.DataType, saturate: bool = True) -> Tensor:
        source = self.dtype(x)
        if ir.DataType.STRING in (source, dtype):
            return self._text(text.cast, x, source, dtype)
        held, wanted = TORCH[source], TORCH[dtype]
        if wanted in FLOAT8 and dtype != ir.DataType.FLOAT8E8M0:
            return x if held == wanted else self.call(functions.to_float8, x, wanted, saturate)
        if dtype in _MINIFLOAT:
            return self.call(functions.to_minifloat, x, *_MINIFLOAT[dtype])
        if held in FLOAT8 and wanted != torch.float32:
            x, held = self.call(torch.Tensor.to, x, torch.float32), torch.float32
        if dtype == ir.DataType.BOOL:
            return x if held == torch.bool else self.call(torch.ne, x, 0)
        if dtype in _NARROW:
            return self.call(functions.wrap, x, *_NARROW[dtype], wanted)
        if held == wanted:
            return x
        if held.is_floating_point and wanted in (torch.int8, torch.uint8, torch.int16):
            return self.call(functions.truncate, x, wanted)
        return self.call(torch.Tensor.to, x, wanted)

    def _text(self, function: Callable[..., Any], *args: Any) -> Any:
        if holds_traced(args):
            raise UnknownUntilRun("strings are there only when the model runs")
        return function(*args)

    def string_case(self, x: Tensor, upper: bool) -> Tensor:
        return self._text(text.case, x, upper)

    def string_concat(self, a: Tensor, b: Tensor) -> Tensor:
        return self._text(text.concat, a, b)

    def string_split(self, x: Tensor, delimiter: str | None, maxsplit: int | None) -> tuple[Tensor, Tensor]:
        values, counts = self._text(text.split, x, delimiter, maxsplit)
        return values, counts

    def regex_full_match(self, x: Tensor, pattern: str) -> Tensor:
        return self._text(text.full_match, x, compiled(pattern))

    def lookup(self, x: Tensor, keys: np.ndarray[Any, Any]) -> Tensor:
        if isinstance(x, np.ndarray):
            return text.lookup(x, keys)
        return super().lookup(x, keys)

    def bitcast(self, x: Tensor, dtype: ir.DataType) -> Tensor:
        source = self.input_dtype(0)
        if source in _SAME_BITS and self.dtype(x) == ONNX[TORCH[source]]:
            x = self.call(torch.Tensor.to, x, _SAME_BITS[source])
        found = self.call(torch.Tensor.view, x, _SAME_BITS.get(dtype, TORCH[dtype]))
        return self.astype(found, dtype) if dtype in _SAME_BITS else found

    def complex(self, real: Tensor, imag: Tensor) -> Tensor:
        return self.call(torch.complex, real, imag)

    def real(self, x: Tensor) -> Tensor:
        return self.call(torch.real, x)

    def imag(self, x: Tensor) -> Tensor:
        return self.call(torch.imag, x)

    # -- elementwise ---------------------------------------------------------------------------------------------------

    def elementwise(self, name: str, *xs: Tensor) -> Tensor:
        function = torch_function(name)
        if len(xs) == 2 and name in ("Max", "Min") and any(isinstance(item, (int, float)) for item in xs):
            x, bound = xs if isinstance(xs[1], (int, float)) else (xs[1], xs[0])
            return self.call(torch.clamp_min if name == "Max" else torch.clamp_max, x, bound)
        return self.call(function, *xs)

    def divide(self, a: Tensor, b: Tensor) -> Tensor:
        tensor = a if self.is_tensor(a) else b
        if self.dtype(tensor).is_floating_point() or self.dtype(tensor) in (
            ir.DataType.COMPLEX64,
            ir.DataType.COMPLEX128,
        ):
            return self.call(operator.truediv, a, b)
        return self.call(torch.div, a, b, rounding_mode="trunc")

    def floor_mod(self, a: Tensor, b: Tensor) -> Tensor:
        return self.call(torch.remainder, a, b)

    def trunc_mod(self, a: Tensor, b: Tensor) -> Tensor:
        return self.call(torch.fmod, a, b)

    def pow(self, a: Tensor, b: Tensor) -> Tensor:
        if isinstance(b, (int, float)) and self.dtype(a).is_floating_point():
            return self.call(torch.pow, a, b)
        if self.is_tensor(b) and self.dtype(a) == self.dtype(b) and self.dtype(a).is_floating_point():
            return self.call(torch.pow, a, b)
        return self.call(functions.power, a, b)

    def where(self, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return self.call(torch.where, condition, a, b)

    def bitwise_left_shift(self, a: Tensor, b: Tensor) -> Tensor:
        dtype = self.context.input_dtypes[0] if self.context.input_dtypes else None
        dtype = dtype or self.dtype(a)
        found = self.call(functions.shift_left, a, b, dtype.bitwidth)
        return self.astype(found, dtype) if dtype in _WIDTH and dtype != ir.DataType.UINT64 else found

    def bitwise_right_shift(self, a: Tensor, b: Tensor) -> Tensor:
        dtype = self.context.input_dtypes[0] if self.context.input_dtypes else None
        dtype = dtype or self.dtype(a)
        function = functions.shift_right_unsigned if dtype in _WIDTH else functions.shift_right
        return self.call(function, a, b, dtype.bitwidth)

    def bitwise_invert(self, x: Tensor) -> Tensor:
        return self.call(torch.bitwise_not, x)

    def logical_not(self, x: Tensor) -> Tensor:
        return self.call(torch.logical_not, x)

    def isnan(self, x: Tensor) -> Tensor:
        if isinstance(x, (Traced, torch.Tensor)) and TORCH[self.dtype(x)] in FLOAT8:
            x = self.astype(x, ir.DataType.FLOAT)
        return self.call(torch.isnan, x)

    def isinf(self, x: Tensor) -> Tensor:
        return self.call(torch.isinf, x)

    def equal(self, a: Tensor, b: Tensor) -> Tensor:
        return self.call(torch.eq, a, b)

    def not_equal(self, a: Tensor, b: Tensor) -> Tensor:
        return self.call(torch.ne, a, b)

    def clip(self, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
        if low is None and high is None:
            return x
        if all(item is None or isinstance(item, (int, float)) for item in (low, high)):
            return self.call(torch.clamp, x, low, high)
        return super().clip(x, low, high)

    def softplus(self, x: Tensor) -> Tensor:
        return self.call(F.softplus, x, 1.0, 40.0)

    # -- reductions ----------------------------------------------------------------------------------------------------

    def _axes(self, x: Tensor, axis: Axes) -> tuple[int, ...]:
        return tuple(range(self.ndim(x))) if axis is None else tuple(axis)

    def _reduces_none(self, x: Tensor, axes: Sequence[int]) -> bool:
        shape = self.shape(x)
        return any(not known(shape[i]) or shape[i] == 0 for i in axes)

    def sum(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        axes = self._axes(x, axis)
        if not axes:
            return x
        if self.dtype(x).is_floating_point():
            return self.call(torch.sum, x, axes, keepdims)
        return self.call(torch.sum, x, axes, keepdims, dtype=TORCH[self.dtype(x)])

    def prod(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        axes = self._axes(x, axis)
        return self.call(functions.reduce_prod, x, axes, keepdims) if axes else x

    def mean(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        axes = self._axes(x, axis)
        if not axes:
            return x
        if self.dtype(x).is_floating_point():
            return self.call(torch.mean, x, axes, keepdims)
        return self.call(functions.reduce_mean, x, axes, keepdims)

    def max(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        axes = self._axes(x, axis)
        if not axes:
            return x
        return self.call(functions.reduce_max if self._reduces_none(x, axes) else torch.amax, x, axes, keepdims)

    def min(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        axes = self._axes(x, axis)
        if not axes:
            return x
        return self.call(functions.reduce_min if self._reduces_none(x, axes) else torch.amin, x, axes, keepdims)

    def argmax(self, x: Tensor, axis: int, keepdims: bool = False) -> Tensor:
        return self.call(torch.argmax, x, axis, keepdims)

    def argmin(self, x: Tensor, axis: int, keepdims: bool = False) -> Tensor:
        return self.call(torch.argmin, x, axis, keepdims)

    def cumulative_sum(self, x: Tensor, axis: int) -> Tensor:
        return self.call(torch.cumsum, x, axis, dtype=TORCH[self.dtype(x)])

    def cumulative_prod(self, x: Tensor, axis: int) -> Tensor:
        return self.call(torch.cumprod, x, axis, dtype=TORCH[self.dtype(x)])

    def logsumexp(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self.call(torch.logsumexp, x, self._axes(x, axis), keepdims)

    def softmax(self, x: Tensor, axis: int) -> Tensor:
        return self.call(F.softmax, x, axis)

    def log_softmax(self, x: Tensor, axis: int) -> Tensor:
        return self.call(F.log_softmax, x, axis)

    # -- shape ---------------------------------------------------------------------------------------------------------

    def reshape(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        return self.call(torch.reshape, x, tuple(shape))

    def permute_dims(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        if tuple(axes) == tuple(range(len(axes))):
            return x
        return self.call(torch.permute, x, tuple(axes))

    def expand_dims(self, x: Tensor, axis: Sequence[int]) -> Tensor:
        for item in sorted(axis):
            x = self.call(torch.unsqueeze, x, item)
        return x

    def squeeze(self, x: Tensor, axis: Sequence[int]) -> Tensor:
        if not axis:
            return x
        return self.call(torch.squeeze, x, axis[0] if len(axis) == 1 else tuple(axis))

    def concat(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        return xs[0] if len(xs) == 1 else self.call(torch.cat, list(xs), axis)

    def stack(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        return self.call(torch.stack, list(xs), axis)

    def broadcast_to(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        return self.call(torch.broadcast_to, x, tuple(shape))

    def expand(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        ours = self.shape(x)
        if len(shape) >= len(ours):
            aligned = (1,) * (len(shape) - len(ours)) + tuple(ours)
            if all(known(b) and (b != 1 or (known(a) and a == 1)) for a, b in zip(aligned, shape, strict=True)):
                return self.call(torch.broadcast_to, x, tuple(shape))
        return self.call(functions.expand, x, tuple(shape))

    def flip(self, x: Tensor, axis: Sequence[int]) -> Tensor:
        return self.call(torch.flip, x, tuple(axis))

    def tile(self, x: Tensor, repeats: Sequence[Int]) -> Tensor:
        return self.call(torch.tile, x, tuple(repeats))

    def split(self, x: Tensor, sizes: Sequence[Int], axis: int) -> list[Tensor]:
        return list(self.call(torch.split, x, list(sizes), axis))

    def slice(self, x: Tensor, axis: int, start: Int | None, stop: Int | None, step: int = 1) -> Tensor:
        if step < 0:
            return self.call(functions.reverse_slice, x, axis, start, stop, step)
        bounds = slice(start, stop, None if step == 1 else step)
        return self.call(operator.getitem, x, (slice(None),) * axis + (bounds,))

    def pad(self, x: Tensor, pads: Pads, mode: PadMode = "constant", value: Any = 0) -> Tensor:
        if mode != "constant":
            return self.call(functions.pad_by_index, x, [tuple(pair) for pair in pads], mode)
        if self.is_tensor(value):
            return self.call(functions.pad_with, x, [tuple(pair) for pair in pads], value)
        pairs = list(pads)
        while pairs and all(known(n) and n == 0 for n in pairs[0]):
            pairs.pop(0)
        flat = [n for pair in reversed(pairs) for n in pair]
        return self.call(F.pad, x, flat, "constant", value) if flat else x

    # -- indexing, sorting ---------------------------------------------------------------------------------------------

    def take(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        if self.ndim(indices) == 1:
            return self.call(torch.index_select, x, axis, indices)
        return self.call(operator.getitem, x, (slice(None),) * axis + (indices,))

    def take_along_axis(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        return self.call(torch.gather, x, axis, self.astype(indices, ir.DataType.INT64))

    def gather_nd(self, x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
        return self.call(functions.gather_nd, x, indices, batch_dims)

    def scatter_elements(
        self, x: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: Reduction = "none"
    ) -> Tensor:
        return self.call(functions.scatter_elements, x, indices, updates, axis, reduction)

    def scatter_nd(self, x: Tensor, indices: Tensor, updates: Tensor, reduction: Reduction = "none") -> Tensor:
        return self.call(functions.scatter_nd, x, indices, updates, reduction)

    def nonzero(self, x: Tensor) -> Tensor:
        return self.call(functions.nonzero, x)

    def compress(self, x: Tensor, condition: Tensor, axis: int) -> Tensor:
        return self.call(functions.compress, x, condition, axis)

    def unique(self, x: Tensor, axis: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        values, first, inverse, counts = self.call(functions.unique, x, axis)
        return values, first, inverse, counts

    def top_k(self, x: Tensor, k: Int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
        values, indices = self.call(functions.top_k, x, k, axis, largest)
        return values, indices

    def argsort(self, x: Tensor, axis: int, descending: bool = False) -> Tensor:
        return self.call(functions.argsort, x, axis, descending)

    # -- linear algebra and neural networks ----------------------------------------------------------------------------

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        return self.call(torch.matmul, a, b)

    def einsum(self, equation: str, *xs: Tensor) -> Tensor:
        return self.call(torch.einsum, equation, *xs)

    def det(self, x: Tensor) -> Tensor:
        return self.call(torch.linalg.det, x)

    def conv(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        strides: Sequence[int],
        pads: Pads,
        dilations: Sequence[int],
        groups: int = 1,
    ) -> Tensor:
        spatial = len(strides)
        if not 1 <= spatial <= 3:
            raise UnsupportedOperator(f"torch convolves 1 to 3 spatial axes, not {spatial}")
        padding: Any = [0] * spatial
        if all(known(a) and known(b) and a == b for a, b in pads):
            padding = [int(a) for a, _ in pads]
        else:
            x = self.pad(x, [(0, 0), (0, 0), *pads])
        return self.call(
            _CONV[spatial - 1], x, weight, bias, list(strides), padding, [int(d) for d in dilations], groups
        )

    def conv_transpose(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        strides: Sequence[int],
        dilations: Sequence[int],
        groups: int = 1,
    ) -> Tensor:
        spatial = len(strides)
        if not 1 <= spatial <= 3:
            raise UnsupportedOperator(f"torch convolves 1 to 3 spatial axes, not {spatial}")
        return self.call(_CONV_TRANSPOSE[spatial - 1], x, weight, bias, list(strides), 0, 0, groups, list(dilations))

    def max_pool(self, x: Tensor, kernel: Sequence[int], *, strides: Sequence[int], dilations: Sequence[int]) -> Tensor:
        spatial = len(kernel)
        if not 1 <= spatial <= 3:
            raise UnsupportedOperator(f"torch pools 1 to 3 spatial axes, not {spatial}")
        dtype = self.dtype(x)
        if not dtype.is_floating_point():
            wide = self.max_pool(self.astype(x, ir.DataType.DOUBLE), kernel, strides=strides, dilations=dilations)
            return self.astype(wide, dtype)
        return self.call(_MAX_POOL[spatial - 1], x, list(kernel), list(strides), 0, list(dilations))

    def sum_pool(self, x: Tensor, kernel: Sequence[int], *, strides: Sequence[int], dilations: Sequence[int]) -> Tensor:
        if not 1 <= len(kernel) <= 3:
            raise UnsupportedOperator(f"torch pools 1 to 3 spatial axes, not {len(kernel)}")
        return self.call(functions.sum_pool, x, list(kernel), list(strides), list(dilations))

    def fft(self, x: Tensor, axis: int, inverse: bool = False) -> Tensor:
        return self.call(torch.fft.ifft if inverse else torch.fft.fft, x, dim=axis)

    # -- control flow --------------------------------------------------------------------------------------------------

    def cond(self, condition: Tensor, then_branch: Body, else_branch: Body) -> tuple[Tensor, ...]:
        return control.cond(self, condition, then_branch, else_branch)

    def loop(
        self,
        trip_count: Int | None,
        condition: Tensor | None,
        carried: Sequence[Tensor],
        body: Callable[..., tuple[Tensor, ...]],
        scan_count: int,
        formal: Sequence[ir.Value | None],
    ) -> tuple[Tensor, ...]:
        return control.loop(self, trip_count, condition, carried, body, scan_count, formal)

    # -- what the walk asks --------------------------------------------------------------------------------------------

    def refine(self, x: Any, value: ir.Value) -> Any:
        if isinstance(x, Traced) and x.worlds is None and isinstance(value.type, ir.TensorType):
            held = TORCH.get(value.type.dtype)
            if held is not None:
                x.opaque = False
                dims = dims_of(value)
                if dims is not None:
                    x.worlds = example(held, dims, self._root.sizes)
        return x

    def mark(self) -> Any:
        return self.recorder.mark() if self.recorder is not None else None

    def rollback(self, mark: Any) -> None:
        if self.recorder is not None:
            self.recorder.rollback(mark)

    def defer(self, call: Any, operands: Sequence[Any], outputs: Sequence[ir.Value], error: UnknownUntilRun) -> Any:
        if self.recorder is None:
            raise UnsupportedOperator(str(error)) from error
        return control.defer(self, call, operands, outputs, error)


def _is_array(item: Any) -> bool:
    return not isinstance(item, Traced) or item.is_tensor


class RootRecorder(Recorder):
    """The main graph's recorder: it holds the parameters, under their own names."""

    def parameter(self, value: ir.Value) -> Traced:
        """An initializer as parameter (floating point) or buffer."""
        tensor = value.const_value
        assert tensor is not None
        content = from_numpy(tensor.numpy(), ir.DataType(tensor.dtype))
        name = value.name or "unnamed"
        if is_constant_name(name):
            return Traced(self.constant(content), self, (twin := content.to("meta"), twin))
        target = self._path(name)
        if content.dtype.is_floating_point and content.dtype not in FLOAT8:
            content = torch.nn.Parameter(content)
        return self.attribute(target, content)

    def _path(self, name: str) -> str:
        parts = name.split(".")
        path = name if all(parts) else name.replace(".", "_").strip() or "unnamed"
        head = path.split(".")
        taken = any(".".join(head[: i + 1]) in self.attributes for i in range(len(head)))
        below = any(other.startswith(f"{path}.") for other in self.attributes)
        reserved = hasattr(torch.nn.Module, head[0]) or head[0] in _RESERVED
        if taken or below or reserved:
            return self.free_target("_".join(head) + ("_" if reserved else ""))
        return path


_RESERVED = frozenset({"training", "graph", "code"})


def is_constant_name(name: str) -> bool:
    """Whether an initializer is a constant that onnxport wrote (``const``, ``const_1``), not a weight."""
    head, _, tail = name.partition("_")
    return head == "const" and (not tail or tail.isdigit())
