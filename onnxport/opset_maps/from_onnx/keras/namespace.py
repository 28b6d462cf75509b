"""The array namespace in Keras: primitives on symbolic tensors become layers of a functional model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.keras import recognised
from onnxport.opset_maps.from_onnx.keras.coding import encode
from onnxport.opset_maps.from_onnx.keras.control import KerasControlFamily
from onnxport.opset_maps.from_onnx.keras.primitives import results_of
from onnxport.opset_maps.from_onnx.keras.run_time import RunTimeOperator, form_of, results_of_call
from onnxport.opset_maps.from_onnx.keras.sizes import MOVED
from onnxport.opset_maps.from_onnx.keras.tensors import KerasValue, Parameter
from onnxport.opset_maps.from_onnx.layout import ChannelsLast
from onnxport.opset_maps.from_onnx.namespace import Call, Namespace
from onnxport.opset_maps.from_onnx.primitives.control import Body
from onnxport.opset_maps.from_onnx.values import Array, Axes, Int, Ints, UnknownUntilRun, all_known, known


def _or_layer(name: str, recognise: Callable[..., Any]) -> Callable[..., Any]:
    """A primitive that becomes Keras' own layer where `recognise` gives one."""

    def primitive(self: KerasArrays, *args: object, **how: object) -> Any:
        result = recognise(self, *args, **how)
        return self.record(name, *args, **how) if result is None else result

    return primitive


class KerasArrays(KerasControlFamily):
    """The primitives on ``KerasTensor``; what has no symbolic operand is computed at once."""

    def __init__(self) -> None:
        super().__init__()
        self._used_once: set[int] = set()
        self._permuted: dict[int, tuple[Any, Any, tuple[int, ...]]] = {}

    def permute_dims(self, x: KerasValue, axes: Ints) -> KerasValue:
        axes = tuple(axes)
        if isinstance(x, Parameter):
            return x.after("permute_dims", axes)
        if not self.is_symbolic(x):
            return self.eager.permute_dims(x, axes)
        if id(x) in self._permuted:  # two permutations are one, and perhaps none
            _, x, before = self._permuted[id(x)]
            axes = tuple(before[axis] for axis in axes)
        if axes == tuple(range(len(axes))):
            return x
        if axes[0] == 0 and not x.dtype.startswith("complex"):  # which Keras' layers would cast
            result = self.apply(
                keras.layers.Permute(axes[1:], name=self.layer_name("permute"), dtype=recognised.policy(x)), x
            )
        else:
            result = self.record("permute_dims", x, axes)
        self._permuted[id(result)] = (result, x, axes)
        return result

    def reshape(self, x: KerasValue, shape: Sequence[Int]) -> KerasValue:
        if isinstance(x, Parameter) and all_known(shape):
            return x.after("reshape", shape)
        plain = self.is_symbolic(x) and not x.dtype.startswith("complex")
        shape = self._completed(x, shape) if plain else shape
        if plain and (same := self._of_the_batch(x, shape)) is not None:
            return same
        inner, batched = shape[1:], len(shape) > 0 and self.is_batch(shape[0], x)
        if plain and batched and sum(not known(n) for n in inner) == 1 and -1 not in inner:
            inner = [n if known(n) else -1 for n in inner]  # what is left of the elements
        if plain and len(inner) and all_known(inner) and batched:
            sizes = [int(n) for n in inner]
            # Keras' layer leaves axis 0 alone, which need not be the batch's, as where its rows were cut to pieces.
            alike = None not in x.shape[1:] and math.prod(x.shape[1:]) == math.prod(sizes)
            if alike or known(shape[0]) or self.sizes.is_of(shape[0], x, 0):
                return recognised.reshape(self, x, sizes)
        result = self.record("reshape", x, tuple(shape))
        if (rows := self.sizes.rows_of(shape[0]) if len(shape) else None) is not None and self.is_symbolic(result):
            self.sizes.mark(result, rows)
        return result

    def _completed(self, x: keras.KerasTensor, shape: Sequence[Int]) -> Sequence[Int]:
        """A shape with the number that -1 stands for where all sizes of `x` that are not known stand in it."""
        places = [
            next((i for i in range(len(x.shape)) if self.sizes.is_of(n, x, i)), None) for n in shape if not known(n)
        ]
        unknown = [i for i, n in enumerate(x.shape) if n is None]
        others = math.prod(n for n in shape if known(n) and n != -1)
        total = math.prod(n for n in x.shape if n is not None)
        if places != unknown or -1 not in shape or not others or total % others:
            return shape
        return [total // others if known(n) and n == -1 else n for n in shape]

    def _of_the_batch(self, x: keras.KerasTensor, shape: Sequence[Int]) -> Any:
        """A reshape to so many rows for each element of the batch, whatever -1 stands for; None where it is another."""
        inner = [int(n) if known(n) else None for n in shape[1:]]
        if None in inner or None in x.shape[1:] or not x.shape or not shape or 0 in x.shape[1:]:
            return None
        if known(shape[0]):
            return x if shape[0] == -1 and tuple(inner) == tuple(x.shape[1:]) else None
        before, after = self.sizes.rows(x), self.sizes.rows_of(shape[0])
        if before is None or after is None or before[0] != after[0]:
            return None
        total, others = (
            before[1] * math.prod(x.shape[1:]),
            after[1] * math.prod(n for n in inner if n is not None and n != -1),
        )
        if not others or total % others or (-1 not in inner and total != others):
            return None
        sizes = [total // others if n == -1 else int(n or 0) for n in inner]
        if before == after and sizes:
            return recognised.reshape(self, x, sizes)
        result = self.record("reshape", x, (-1, *sizes))
        self.sizes.mark(result, after)
        return result

    def expand_dims(self, x: KerasValue, axis: Ints) -> KerasValue:
        if isinstance(x, Parameter):
            return x.after("expand_dims", sorted(axis))
        return self.record("expand_dims", x, tuple(axis))

    def squeeze(self, x: KerasValue, axis: Ints) -> KerasValue:
        if isinstance(x, Parameter):
            return x.after("squeeze", sorted(axis))
        return self.record("squeeze", x, tuple(axis)) if len(axis) else x

    def elementwise(self, name: str, *xs: KerasValue | complex) -> KerasValue:
        result = self._with_bias(*xs) if name == "Add" else None
        result = recognised.elementwise(self, name, xs) if result is None else result
        return self.record("elementwise", name, *xs) if result is None else result

    def _with_bias(self, a: KerasValue | complex, b: KerasValue | complex) -> Any:
        """A product that is used for nothing else with a bias added: one layer. None where it is not that."""
        for x, bias in ((a, b), (b, a)):
            if id(x) in self._used_once and isinstance(bias, Parameter):
                _, rebuild = self.products[id(x)]
                result = rebuild(bias)
                if result is not None:
                    return result
        return None

    def softmax(self, x: KerasValue, axis: int) -> KerasValue:
        if not self.is_symbolic(x) or axis == 0 or x.dtype not in recognised.FLOATS:
            return self.record("softmax", x, axis)
        place = -1 if axis == self.ndim(x) - 1 else axis
        return self.apply(keras.layers.Softmax(place, name=self.layer_name("softmax"), dtype=x.dtype), x)

    mean = _or_layer("mean", partial(recognised.global_pool, kind="Average"))
    max = _or_layer("max", partial(recognised.global_pool, kind="Max"))
    matmul = _or_layer("matmul", recognised.dense)
    take = _or_layer("take", recognised.embedding)
    conv_last = _or_layer("conv_last", recognised.convolution)
    conv_transpose_last = _or_layer("conv_transpose_last", recognised.transposed_convolution)
    max_pool_last = _or_layer("max_pool_last", recognised.max_pooling)

    def logsumexp(self, x: KerasValue, axis: Axes = None, keepdims: bool = False) -> KerasValue:
        return (
            Namespace.logsumexp(self, x, axis, keepdims)
            if self.is_symbolic(x)
            else self.record("logsumexp", x, axis, keepdims)
        )

    def lookup(self, x: KerasValue, keys: Array) -> KerasValue:
        whole = self.is_symbolic(x) and x.dtype in MOVED and keys.dtype != object
        return Namespace.lookup(self, x, keys) if whole else self.record("lookup", x, keys)

    def concat(self, xs: Sequence[KerasValue], axis: int) -> KerasValue:
        # Keras' layer declares its own type for all that it joins.
        if len(xs) > 1 and axis > 0 and all(self.is_symbolic(x) and x.dtype in recognised.FLOATS for x in xs):
            place = -1 if axis == self.ndim(xs[0]) - 1 else axis
            name, policy = self.layer_name("concatenate"), recognised.policy(xs[0])
            return self.apply(keras.layers.Concatenate(place, name=name, dtype=policy), *xs, listed=True)
        return xs[0] if len(xs) == 1 else self.record("concat", list(xs), axis)

    def refine(self, x: object, value: ir.Value) -> Any:
        if id(x) in self.products and len(value.uses()) == 1 and not value.is_graph_output():
            self._used_once.add(id(x))
        return x

    def defer(self, call: Call, operands: Sequence[Any], outputs: Sequence[ir.Value], error: UnknownUntilRun) -> Any:
        """A layer that computes the operator when the model runs, where the model tells the ranks of its results."""
        bodies = any(isinstance(item, Body) for item in call.attributes.values())
        results = None if bodies or self.anchor is None else results_of_call(call, operands, outputs, self)
        if results is None:
            raise UnsupportedOperator(str(error)) from error
        operator, form = form_of(call)
        slots, tensors = self.in_slots(list(operands))
        name = self.layer_name(operator[1].lower())
        parts = iter(
            results_of(self.apply(RunTimeOperator(operator, form, encode(slots), results, name=name), *tensors))
        )
        return tuple(next(parts) if wanted else None for wanted in call.context.wanted)


_RECORDED = (
    "full arange astype bitcast complex real imag divide floor_mod trunc_mod pow where "
    "bitwise_left_shift bitwise_right_shift bitwise_invert logical_not isnan isinf equal clip sum prod min argmax argmin "
    "cumulative_sum cumulative_prod log_softmax stack broadcast_to expand flip tile split slice pad take_along_axis "
    "gather_nd scatter_elements scatter_nd nonzero compress unique top_k argsort sort one_hot string_case string_concat "
    "string_split regex_full_match einsum det sum_pool_last fft"
).split()


def _recorder(name: str) -> Callable[..., Any]:
    def primitive(self: KerasArrays, *args: object, **kwargs: object) -> Any:
        return self.record(name, *args, **kwargs)

    primitive.__name__ = name
    primitive.__doc__ = getattr(Namespace, name, primitive).__doc__
    return primitive


for _name in _RECORDED:
    setattr(KerasArrays, _name, _recorder(_name))


class KerasNamespace(ChannelsLast, KerasArrays):
    """`KerasArrays` in which images stay channels-last between the layers that work so."""

    def refine(self, x: object, value: ir.Value) -> Any:
        """As of the arrays; what is used once is an image in either form."""
        if self.is_tensor(x):
            super().refine(self.twin(x), value)
        return super().refine(x, value)
