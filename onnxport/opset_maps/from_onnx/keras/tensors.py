"""Tensors of Keras: what is known of one, how one is created; calls on them are recorded as layers of a functional model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeGuard

import keras
import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.names import NameAuthority, is_written_number
from onnxport.opset_maps.from_onnx.keras.backend import backend_arrays, backend_primitive, plain_name, scope_name
from onnxport.opset_maps.from_onnx.keras.batches import rows_along
from onnxport.opset_maps.from_onnx.keras.coding import OF_NAME, Constant, Slot, encode, replaced
from onnxport.opset_maps.from_onnx.keras.lookups import LOOKUPS
from onnxport.opset_maps.from_onnx.keras.operations import OPERATIONS
from onnxport.opset_maps.from_onnx.keras.primitives import Primitive, Weight
from onnxport.opset_maps.from_onnx.keras.sizes import SIZED, Sizes
from onnxport.opset_maps.from_onnx.keras.tables import carried
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import (
    Array,
    Host,
    Int,
    IntOp,
    Ints,
    Law,
    UnknownUntilRun,
    carrier,
    host_array,
    known,
)

# Constants up to this size stand in the model's description, larger ones among its weights.
_DESCRIBED_BYTES = 2048


@dataclass(frozen=True, eq=False)
class Parameter:
    """A weight that no layer holds yet: it becomes part of a layer, or a `Weight` where a primitive needs it.

    Attributes:
        value: the model's initializer.
        steps: what has been done to its shape since: a name of `_RESHAPERS` and its argument.
        shape: its shape after them.
    """

    value: ir.Value
    shape: tuple[int, ...]
    steps: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def name(self) -> str:
        """Its name in the ONNX model."""
        return self.value.name or ""

    @property
    def dtype(self) -> ir.DataType:
        """Its ONNX element type."""
        assert self.value.const_value is not None
        return ir.DataType(self.value.const_value.dtype)

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from others."""
        return (self.value, self.steps)

    def array(self) -> Array:
        """Its content in the element type that Keras holds."""
        assert self.value.const_value is not None
        content = self.value.const_value.numpy()
        for step, argument in self.steps:
            content = _RESHAPERS[step](content, argument)
        held = carrier(self.dtype)
        return content if held == "string" or content.dtype.name == held else content.astype(held)

    def after(self, step: str, argument: Ints) -> Parameter:
        """The parameter after another step."""
        taken = tuple(int(item) for item in argument)
        shape = _RESHAPERS[step](np.broadcast_to(np.int8(0), self.shape), taken).shape
        return replace(self, shape=shape, steps=(*self.steps, (step, taken)))


_RESHAPERS: dict[str, Callable[[Array, tuple[int, ...]], Array]] = {
    "permute_dims": np.transpose,
    "reshape": np.reshape,
    "expand_dims": np.expand_dims,
    "squeeze": np.squeeze,
}


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The shape of an initializer."""
    assert value.const_value is not None
    return tuple(int(n) for n in value.const_value.shape.numpy())


# What Keras' namespace computes with.
KerasValue: TypeAlias = keras.KerasTensor | Parameter


class KerasTensorFamily(Namespace):
    """Symbolic tensors, eager ones, and parameters that are to become weights; primitives are recorded as layers.

    What has no symbolic operand is computed at once.

    Attributes:
        eager: the namespace of Keras' backend.
        names: names of layers taken so far.
        anchor: an input of the model, on which what has no operand of its own is called.
        sizes: what is known of the sizes that only the running model has.
        products: products to which a bias may still be added, by their results' ids: the result, and what makes the layer anew.
    """

    framework = "keras"

    def __init__(self) -> None:
        super().__init__()
        self.eager = backend_arrays()
        self.names = NameAuthority()
        self.anchor: KerasValue | None = None
        self.products: dict[int, tuple[Any, Callable[[Parameter], Any]]] = {}
        self._made: list[Any] = []
        self._order: dict[int, int] = {}
        self._weights: dict[Any, Any] = {}
        self._layers: dict[Any, Any] = {}
        self._axis_sizes: dict[tuple[int, int], Any] = {}
        self.sizes = Sizes()

    def layer_name(self, name: str) -> str:
        """A layer name that Keras accepts and no other layer of the model has."""
        return self.names.unique(scope_name(name) or "layer")

    def input_name(self, name: str) -> str:
        """The name of an input, which stays as it is but for what Keras does not accept."""
        return self.names.unique(plain_name(name) or "input")

    def apply(
        self, layer: keras.layers.Layer, *tensors: keras.KerasTensor, listed: bool = False, **options: object
    ) -> Any:
        """A layer on symbolic tensors (a list of them where the layer takes one); the results are recorded in order.

        Raises:
            UnsupportedOperator: raised inside of the layer, in its own words: Keras puts its own around every error.
        """
        try:
            result = layer(list(tensors)) if listed else layer(*tensors, **options)
        except Exception as error:
            refusal = _first_refusal(error)
            if refusal is None or refusal is error:
                raise
            raise UnsupportedOperator(str(refusal), refusal.operators, final=refusal.final) from error
        for tensor in keras.tree.flatten(result):
            self._take(tensor)
        return result

    def _take(self, tensor: Any) -> None:
        self._order[id(tensor)] = len(self._made)
        self._made.append(tensor)
        if (rows := rows_along(tensor, self.sizes.rows)) is not None:
            self.sizes.mark(tensor, rows)

    def layer(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The layer of `key`: the same one each time, so that a weight used twice stays one."""
        if key not in self._layers:
            self._layers[key] = make()
        return self._layers[key]

    def record(self, name: str, *args: object, **kwargs: object) -> Any:
        """A primitive: a layer where an operand is symbolic or a weight, else its result."""
        args, kwargs = replaced((args, kwargs), self._is_written, self._written)
        if not any(_is_recorded(item) for item in _leaves((args, kwargs))):
            return backend_primitive(self.eager, name)(*args, **kwargs)
        if (plain := self._as_operation(name, args, kwargs)) is not None:
            return plain
        (args, kwargs), tensors = self.in_slots((args, kwargs))
        layer = Primitive(name, encode(args), encode(kwargs), name=self.layer_name(name))
        try:
            return self.apply(layer, *tensors)
        except (ValueError, TypeError) as error:
            if "rank" in str(error) or "unknown" in str(error).lower():
                raise UnsupportedOperator(f"{name}: Keras can't tell the shape of its result") from error
            if isinstance(error, TypeError):
                raise UnsupportedOperator(f"{name}: Keras can't tell the element type of its result") from error
            raise

    def in_slots(self, operands: Any) -> tuple[Any, list[Any]]:
        """Nested operands with a place for each symbolic tensor, and those tensors; small constants stand in them as they are."""
        tensors: list[Any] = []

        def slot(item: object) -> Any:
            if _is_recorded(item):
                tensors.append(self.as_symbolic(item))
                return Slot(len(tensors) - 1)
            array = self._content(item)
            if array.nbytes > _DESCRIBED_BYTES and array.dtype != object:
                tensors.append(self._stored_constant(item, array))
                return Slot(len(tensors) - 1)
            return Constant(array)

        return replaced(operands, lambda item: _is_recorded(item) or self.eager.is_tensor(item), slot), tensors

    def _as_operation(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A primitive in Keras' own operations, recorded in order; None where they don't have it."""
        operands: list[Any] = []

        def operand(item: object) -> Any:
            if isinstance(item, (keras.KerasTensor, Parameter)):
                operands.append(self.as_symbolic(item))
                return operands[-1]
            array = self._content(item)
            if array.nbytes > _DESCRIBED_BYTES and array.dtype != object:
                operands.append(self._stored_constant(item, array))
                return operands[-1]
            return array

        sized = SIZED.get(name) or LOOKUPS.get(name)
        if name not in OPERATIONS and sized is None:
            return None
        wanted = (keras.KerasTensor, Parameter)
        args, kwargs = replaced(
            (args, kwargs), lambda item: isinstance(item, wanted) or self.eager.is_tensor(item), operand
        )
        result = OPERATIONS[name](*args, **kwargs) if name in OPERATIONS else None
        if result is None and sized is not None:
            result = sized(self.sizes, *args, **kwargs)
        if result is not None:
            self._take_computed(result, operands)
        return result

    def _take_computed(self, result: object, operands: Sequence[Any]) -> None:
        """Records what operations of Keras compute between operands and a result."""
        for tensor in _computed(result, {*self._order, *map(id, operands)}):
            operation = tensor._keras_history.operation
            if not isinstance(operation, keras.layers.Layer):
                operation.name = self.layer_name(type(operation).__name__.lower())
            self._take(tensor)

    def _is_written(self, item: object) -> bool:
        """Whether it is a weight that is not trained, and small enough to stand in the model's description."""
        if not isinstance(item, Parameter) or self._trains(item):
            return False
        return item.dtype != ir.DataType.STRING and math.prod(item.shape) * 8 <= _DESCRIBED_BYTES

    def _written(self, item: Parameter) -> Any:
        key = (item.key, "written")
        if key not in self._weights:
            self._weights[key] = self.eager.constant(item.array(), item.dtype)
        return self._weights[key]

    def _trains(self, item: Parameter) -> bool:
        return item.dtype.is_floating_point() and not is_written_number(item.value)

    def _content(self, item: object) -> Array:
        """An eager tensor's content."""
        array = keras.ops.convert_to_numpy(item) if not hasattr(item, "numpy") else item.numpy()
        array = np.asarray(array)
        if array.dtype.kind in "OS":  # a scalar's content is bytes
            texts = [text.decode() if isinstance(text, bytes) else text for text in array.ravel().tolist()]
            return np.asarray(texts, object).reshape(array.shape)
        return array

    def _stored_constant(self, item: object, array: Array) -> Any:
        key = (id(item), "constant")
        if key not in self._weights:
            if array.dtype == bool:
                stored = self._weight(array.astype(np.uint8), "constant", trainable=False)
                self._weights[key] = (item, self.record("astype", stored, ir.DataType.BOOL))
            else:
                self._weights[key] = (item, self._weight(array, "constant", trainable=False))
        return self._weights[key][1]

    def _weight(self, array: Array, name: str, *, trainable: bool) -> Any:
        if self.anchor is None:
            raise UnsupportedOperator("a graph without inputs makes no Keras model")
        if array.dtype.kind in "OSU":
            raise UnsupportedOperator("a Keras model holds no strings")
        if array.dtype.name.startswith("float8"):  # of which Keras' initializers make no weights
            raise UnsupportedOperator(f"a Keras model holds no weights of {array.dtype.name}")
        layer_name = self.layer_name(name)
        if (table := carried(self.sizes, array, layer_name, trainable)) is not None:
            self._take_computed(table, ())
            return table
        layer = Weight(array.shape, array.dtype.name, plain_name(name), name=layer_name, trainable=trainable)
        layer.value.assign(array)
        return self.apply(layer, self.anchor)

    def as_symbolic(self, item: object) -> Any:
        """A weight or eager tensor as a symbolic tensor."""
        if isinstance(item, keras.KerasTensor):
            return item
        if not isinstance(item, Parameter):
            return self.record("given", self.anchor, item)
        if item.key not in self._weights:
            if item.steps:
                base = self.as_symbolic(Parameter(item.value, shape_of(item.value)))
                for step, argument in item.steps:
                    base = self.record(step, base, argument)
                self._weights[item.key] = base
            elif item.dtype in (ir.DataType.STRING, ir.DataType.BOOL):
                content = self.eager.constant(item.array(), item.dtype)
                self._weights[item.key] = self.record("given", self.anchor, content)
            else:
                self._weights[item.key] = self._weight(item.array(), item.name, trainable=self._trains(item))
        return self._weights[item.key]

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
        if axis == 0 and self.sizes.has_batch(x) and not (self.static_shape(self.sizes.first) or (1,))[0]:
            x = self.sizes.first
        if (id(x), axis) not in self._axis_sizes:
            size = self.record("axis_size", x, axis)
            self._axis_sizes[id(x), axis] = size
            self.sizes.note(size, x, axis)
        return self._axis_sizes[id(x), axis]

    def is_size(self, n: Int) -> bool:
        return self.sizes.source(n) is not None

    def is_whole(self, n: object) -> bool:
        return isinstance(n, keras.KerasTensor) and "int" in n.dtype

    def is_batch(self, n: Int, x: KerasValue) -> bool:
        """Whether a size is the batch's, or that of axis 0 of `x`."""
        if known(n):
            return bool(self.static_shape(x)) and (self.static_shape(x) or ())[0] == n
        return self.sizes.rows_of(n) == self.sizes.batch or self.sizes.is_of(n, x, 0)

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
            return host_array(x if x.dtype == "int64" or "float" in x.dtype else self.record("int", x))
        length = x.shape[0]
        if length is None:
            raise UnknownUntilRun("the length of a vector of sizes is not known before the model runs")
        return host_array([self.record("element", x, i) for i in range(length)])

    def int_op(self, name: IntOp, *operands: Int) -> Int:
        sizes = [item for item in operands if self.is_size(item)]
        bounds = [item for item in operands if known(item)]
        if len(sizes) == len(operands) == 2 and self.sizes.same(*sizes) and name in ("max", "min", "eq"):
            return True if name == "eq" else sizes[0]
        if len(operands) != 2 or len(sizes) != 1 or len(bounds) != 1:
            return self.record("int_op", name, *operands)
        (size,), (bound,) = sizes, bounds
        if (name == "eq" and bound < 0) or (name == "max" and bound <= 0):  # no size is below 0
            return False if name == "eq" else size
        result = self.record("int_op", name, *operands)
        x, axis, factor = self.sizes.source(size) or (None, 0, 1)
        if name == "mul" and bound > 0:
            self.sizes.note(result, x, axis, factor * bound)
        elif name in ("div", "floor_div", "ceil_div") and size is operands[0] and bound > 0 and factor % bound == 0:
            self.sizes.note(result, x, axis, factor // bound)
        return result

    def random(self, law: Law, *args: object) -> KerasValue:
        return self.record(law, self.anchor, *args)


def _first_refusal(error: BaseException) -> UnsupportedOperator | None:
    """The refusal that an error began with; None where it began otherwise."""
    refusal: UnsupportedOperator | None = None
    cause: BaseException | None = error
    while cause is not None:
        refusal = cause if isinstance(cause, UnsupportedOperator) else refusal
        cause = cause.__cause__ or cause.__context__
    return refusal


def _is_recorded(item: object) -> TypeGuard[KerasValue]:
    return isinstance(item, (keras.KerasTensor, Parameter))


def _computed(result: object, done: set[int]) -> list[Any]:
    """The tensors between those of the ids `done` and a result, each behind what it is computed of."""
    order: list[Any] = []

    def visit(tensor: Any) -> None:
        if id(tensor) in done:
            return
        done.add(id(tensor))
        operation, index, _ = tensor._keras_history
        for item in operation._inbound_nodes[index].input_tensors:
            visit(item)
        if not isinstance(operation, keras.layers.InputLayer):
            order.append(tensor)

    for item in keras.tree.flatten(result):
        visit(item)
    return order


def _leaves(item: object) -> Iterable[Any]:
    if isinstance(item, (list, tuple)):
        for part in item:
            yield from _leaves(part)
    elif isinstance(item, dict):
        for part in item.values():
            yield from _leaves(part)
    elif isinstance(item, np.ndarray) and item.dtype == object:
        yield from item.ravel()
    else:
        yield item
