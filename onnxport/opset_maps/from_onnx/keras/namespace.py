"""The array namespace in Keras: primitives on symbolic tensors become layers of a functional model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.keras import recognised
from onnxport.opset_maps.from_onnx.keras.coding import OF_NAME, Constant, Slot, encode, keras_dtype, replaced
from onnxport.opset_maps.from_onnx.keras.primitives import Branches, Loop, OnnxModel, Primitive, Weight, backend_arrays
from onnxport.opset_maps.from_onnx.layout import ChannelsLast
from onnxport.opset_maps.from_onnx.namespace import (
    Body,
    Host,
    Int,
    IntOp,
    Namespace,
    Tensor,
    UnknownUntilRun,
    host_array,
    known,
)

# Constants up to this size stand in the model's description, larger ones among its weights.
_DESCRIBED_BYTES = 2048
# Keras' Concatenate takes no strings and casts complex numbers.
_NOT_JOINED = ("string", "complex64", "complex128")


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
        return (self.name, self.steps)

    def array(self) -> np.ndarray[Any, Any]:
        """Its content in the element type that Keras holds."""
        assert self.value.const_value is not None
        content = self.value.const_value.numpy()
        for step, argument in self.steps:
            content = _RESHAPERS[step](content, argument)
        held = keras_dtype(self.dtype)
        return content if held == "string" or content.dtype.name == held else content.astype(held)

    def after(self, step: str, argument: Sequence[int]) -> Parameter:
        """The parameter after another step."""
        taken = tuple(int(item) for item in argument)
        shape = _RESHAPERS[step](np.broadcast_to(np.int8(0), self.shape), taken).shape
        return replace(self, shape=shape, steps=(*self.steps, (step, taken)))


_RESHAPERS: dict[str, Callable[[np.ndarray[Any, Any], tuple[int, ...]], np.ndarray[Any, Any]]] = {
    "permute_dims": np.transpose,
    "reshape": np.reshape,
    "expand_dims": np.expand_dims,
    "squeeze": np.squeeze,
}


class KerasArrays(Namespace):
    """The primitives on ``KerasTensor``; what has no symbolic operand is computed at once.

    Attributes:
        names: names of layers taken so far.
    """

    framework = "keras"

    def __init__(self) -> None:
        super().__init__()
        self.eager = backend_arrays()
        self.names: set[str] = set()
        self.anchor: Tensor | None = None
        self.deferred = 0
        self._made: list[Any] = []
        self._held: list[Any] = []
        self._order: dict[int, int] = {}
        self._axis_sizes: dict[tuple[int, int], Any] = {}
        self._size_of: dict[int, tuple[Any, Any, int]] = {}
        self._weights: dict[Any, Any] = {}
        self._permuted: dict[int, tuple[Any, Any, tuple[int, ...]]] = {}
        self._layers: dict[Any, Any] = {}
        self.products: dict[int, tuple[Any, Callable[[Parameter], Any]]] = {}
        self._used_once: set[int] = set()

    # -- layers --------------------------------------------------------------------------------------------------------

    def layer_name(self, name: str) -> str:
        """A layer name that Keras accepts and no other layer of the model has."""
        base = name.replace("/", ".").strip(".") or "layer"
        found, count = base, 1
        while found in self.names:
            found, count = f"{base}_{count}", count + 1
        self.names.add(found)
        return found

    def apply(self, layer: Any, *tensors: Any, listed: bool = False) -> Any:
        """A layer on symbolic tensors (a list of them where the layer takes one); the results are known as made here."""
        result = layer(list(tensors)) if listed else layer(*tensors)
        for tensor in keras.tree.flatten(result):
            self._order[id(tensor)] = len(self._made)
            self._made.append(tensor)
        return result

    def layer(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The layer made for `key`: the same one each time, so that a weight used twice stays one."""
        if key not in self._layers:
            self._layers[key] = make()
        return self._layers[key]

    def record(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """A primitive: a layer where an operand is symbolic or a weight, else its result."""
        tensors: list[Any] = []

        def symbolic(item: Any) -> bool:
            return isinstance(item, (keras.KerasTensor, Parameter))

        def slot(item: Any) -> Any:
            if symbolic(item):
                tensors.append(self.as_symbolic(item))
                return Slot(len(tensors) - 1)
            array = self._content(item)
            if array.nbytes > _DESCRIBED_BYTES and array.dtype != object:
                tensors.append(self._stored_constant(item, array))
                return Slot(len(tensors) - 1)
            return Constant(array)

        if not any(symbolic(item) for item in _leaves((args, kwargs))):
            return getattr(self.eager, name)(*args, **kwargs)
        args, kwargs = replaced((args, kwargs), lambda item: symbolic(item) or self.eager.is_tensor(item), slot)
        layer = Primitive(name, encode(args), encode(kwargs), name=self.layer_name(name))
        try:
            return self.apply(layer, *tensors)
        except UnsupportedOperator:
            raise
        except (ValueError, TypeError) as error:
            cause: BaseException | None = error
            while cause is not None:
                if isinstance(cause, UnsupportedOperator):
                    raise UnsupportedOperator(str(cause)) from error
                cause = cause.__cause__ or cause.__context__
            if "rank" in str(error) or "unknown" in str(error).lower():
                raise UnsupportedOperator(f"{name}: Keras can't tell the shape of its result") from error
            if isinstance(error, TypeError):
                raise UnsupportedOperator(f"{name}: Keras can't tell the element type of its result") from error
            raise

    def _content(self, item: Any) -> np.ndarray[Any, Any]:
        """An eager tensor's content."""
        array = keras.ops.convert_to_numpy(item) if not hasattr(item, "numpy") else item.numpy()
        array = np.asarray(array)
        if array.dtype.kind in "OS":  # a scalar's content is bytes
            texts = [text.decode() if isinstance(text, bytes) else text for text in array.ravel().tolist()]
            return np.asarray(texts, object).reshape(array.shape)
        return array

    def _stored_constant(self, item: Any, array: np.ndarray[Any, Any]) -> Any:
        key = (id(item), "constant")
        if key not in self._weights:
            if array.dtype == bool:
                stored = self._weight(array.astype(np.uint8), "constant", trainable=False)
                self._weights[key] = (item, self.record("astype", stored, ir.DataType.BOOL))
            else:
                self._weights[key] = (item, self._weight(array, "constant", trainable=False))
        return self._weights[key][1]

    def _weight(self, array: np.ndarray[Any, Any], name: str, *, trainable: bool) -> Any:
        if self.anchor is None:
            raise UnsupportedOperator("a graph without inputs makes no Keras model")
        if array.dtype.kind in "OSU":
            raise UnsupportedOperator("a Keras model holds no strings")
        layer = Weight(array.shape, array.dtype.name, name, name=self.layer_name(name), trainable=trainable)
        layer.value.assign(array)
        return self.apply(layer, self.anchor)

    def as_symbolic(self, item: Any) -> Any:
        """A weight or eager tensor as a symbolic tensor."""
        if isinstance(item, keras.KerasTensor):
            return item
        if not isinstance(item, Parameter):
            return self.record("given", self.anchor, item)
        if item.key not in self._weights:
            if item.steps:
                base = self.as_symbolic(Parameter(item.value, _shape_of(item.value)))
                for step, argument in item.steps:
                    base = self.record(step, base, argument)
                self._weights[item.key] = base
            elif item.dtype in (ir.DataType.STRING, ir.DataType.BOOL):
                content = self.eager.constant(item.array(), item.dtype)
                self._weights[item.key] = self.record("given", self.anchor, content)
            else:
                trainable = item.dtype.is_floating_point()
                self._weights[item.key] = self._weight(item.array(), item.name, trainable=trainable)
        return self._weights[item.key]

    # -- what is known -------------------------------------------------------------------------------------------------

    def is_tensor(self, x: Any) -> bool:
        return isinstance(x, (keras.KerasTensor, Parameter)) or self.eager.is_tensor(x)

    def is_symbolic(self, x: Any) -> bool:
        """Whether `x` is known only when the model runs."""
        return isinstance(x, keras.KerasTensor)

    def static_shape(self, x: Tensor) -> tuple[int | None, ...] | None:
        if not isinstance(x, (keras.KerasTensor, Parameter)):
            return tuple(int(n) for n in x.shape)
        return None if x.shape is None else tuple(x.shape)

    def ndim(self, x: Tensor) -> int:
        shape = self.static_shape(x)
        if shape is None:
            raise UnknownUntilRun("a rank is not known before the model runs")
        return len(shape)

    def shape(self, x: Tensor) -> tuple[Int, ...]:
        self.ndim(x)
        return tuple(self._axis_size(x, i) if n is None else n for i, n in enumerate(self.static_shape(x) or ()))

    def _axis_size(self, x: Any, axis: int) -> Any:
        if (id(x), axis) not in self._axis_sizes:
            size = self.record("axis_size", x, axis)
            self._axis_sizes[id(x), axis] = size
            self._size_of[id(size)] = (size, x, axis)
        return self._axis_sizes[id(x), axis]

    def is_size(self, n: Int) -> bool:
        return id(n) in self._size_of

    def is_batch(self, n: Int, x: Tensor) -> bool:
        """Whether a size is that of axis 0 of `x`, or of a tensor that `x` was made of batch by batch."""
        if known(n):
            return bool(self.static_shape(x)) and (self.static_shape(x) or ())[0] == n
        found = self._size_of.get(id(n))
        return found is not None and found[2] == 0 and (found[1] is x or found[1] is self.anchor)

    def dtype(self, x: Tensor) -> ir.DataType:
        if isinstance(x, Parameter):
            return OF_NAME[keras_dtype(x.dtype)]
        return OF_NAME[x.dtype] if isinstance(x, keras.KerasTensor) else self.eager.dtype(x)

    def refine(self, x: Any, value: ir.Value) -> Any:
        if id(x) in self.products and len(value.uses()) == 1 and not value.is_graph_output():
            self._used_once.add(id(x))
        return x

    # -- between Python and tensors ------------------------------------------------------------------------------------

    def constant(self, array: np.ndarray[Any, Any], dtype: ir.DataType | None = None) -> Tensor:
        return self.eager.constant(array, dtype)

    def parameter(self, value: ir.Value) -> Tensor:
        return Parameter(value, _shape_of(value))

    def from_host(self, array: Host, dtype: ir.DataType) -> Tensor:
        if array.dtype != object or dtype == ir.DataType.STRING:
            return self.eager.from_host(array, dtype)
        return self.record("vector", list(array.ravel()), array.shape, dtype)

    def to_host(self, x: Tensor) -> Host:
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

    def random_uniform(self, *args: Any) -> Tensor:
        return self.record("uniform", self.anchor, *args)

    def random_normal(self, *args: Any) -> Tensor:
        return self.record("normal", self.anchor, *args)

    # -- shape ---------------------------------------------------------------------------------------------------------

    def permute_dims(self, x: Tensor, axes: Sequence[int]) -> Tensor:
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

    def reshape(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        if isinstance(x, Parameter) and all(known(n) for n in shape):
            return x.after("reshape", shape)
        plain = self.is_symbolic(x) and not x.dtype.startswith("complex")
        if plain and len(shape) > 1 and all(known(n) for n in shape[1:]) and self.is_batch(shape[0], x):
            return recognised.reshape(self, x, [int(n) for n in shape[1:]])
        return self.record("reshape", x, tuple(shape))

    def expand_dims(self, x: Tensor, axis: Sequence[int]) -> Tensor:
        if isinstance(x, Parameter):
            return x.after("expand_dims", sorted(axis))
        return self.record("expand_dims", x, tuple(axis))

    def squeeze(self, x: Tensor, axis: Sequence[int]) -> Tensor:
        if isinstance(x, Parameter):
            return x.after("squeeze", sorted(axis))
        return self.record("squeeze", x, tuple(axis)) if len(axis) else x

    # -- what Keras has layers for -------------------------------------------------------------------------------------

    def elementwise(self, name: str, *xs: Tensor) -> Tensor:
        found = recognised.elementwise(self, name, xs)
        return self.record("elementwise", name, *xs) if found is None else found

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return self.elementwise("Add", a, b)

    def with_bias(self, a: Tensor, b: Tensor) -> Any:
        """A product that is used for nothing else with a bias added: one layer. None where it is not that."""
        for x, bias in ((a, b), (b, a)):
            if id(x) in self._used_once and isinstance(bias, Parameter):
                _, rebuild = self.products[id(x)]
                found = rebuild(bias)
                if found is not None:
                    return found
        return None

    def softmax(self, x: Tensor, axis: int) -> Tensor:
        if not self.is_symbolic(x) or axis == 0:
            return self.record("softmax", x, axis)
        place = -1 if axis == self.ndim(x) - 1 else axis
        return self.apply(keras.layers.Softmax(place, name=self.layer_name("softmax"), dtype=x.dtype), x)

    def mean(self, x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
        found = recognised.global_pool(self, "Average", x, axis, keepdims)
        return self.record("mean", x, axis, keepdims) if found is None else found

    def max(self, x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
        found = recognised.global_pool(self, "Max", x, axis, keepdims)
        return self.record("max", x, axis, keepdims) if found is None else found

    def concat(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        if len(xs) > 1 and axis > 0 and all(self.is_symbolic(x) and x.dtype not in _NOT_JOINED for x in xs):
            place = -1 if axis == self.ndim(xs[0]) - 1 else axis
            name = self.layer_name("concatenate")
            return self.apply(
                keras.layers.Concatenate(place, name=name, dtype=recognised.policy(xs[0])), *xs, listed=True
            )
        return xs[0] if len(xs) == 1 else self.record("concat", list(xs), axis)

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        found = recognised.dense(self, a, b)
        return self.record("matmul", a, b) if found is None else found

    def take(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        found = recognised.embedding(self, x, indices, axis)
        return self.record("take", x, indices, axis) if found is None else found

    def conv_last(self, x: Tensor, weight: Tensor, bias: Tensor | None, **how: Any) -> Tensor:
        found = recognised.convolution(self, x, weight, bias, **how)
        return self.record("conv_last", x, weight, bias, **how) if found is None else found

    def conv_transpose_last(self, x: Tensor, weight: Tensor, bias: Tensor | None, **how: Any) -> Tensor:
        found = recognised.transposed_convolution(self, x, weight, bias, **how)
        return self.record("conv_transpose_last", x, weight, bias, **how) if found is None else found

    def max_pool_last(self, x: Tensor, kernel: Sequence[int], **how: Any) -> Tensor:
        found = recognised.max_pooling(self, x, kernel, **how)
        return self.record("max_pool_last", x, tuple(kernel), **how) if found is None else found

    # -- control flow --------------------------------------------------------------------------------------------------

    def cond(self, condition: Tensor, then_branch: Body, else_branch: Body) -> tuple[Tensor, ...]:
        models, captures = [], []
        for branch in (then_branch, else_branch):
            mark = len(self._made)
            outputs = [self._as_output(item) for item in branch()]
            captured = self._captured(outputs, mark) or [self.anchor]
            models.append(self._submodel(captured, outputs, mark))
            captures.append(captured)
        if any(len(a.shape) != len(b.shape) for a, b in zip(*(model.outputs for model in models), strict=True)):
            raise UnsupportedOperator("the branches give tensors of different ranks, which Keras does not know")
        together = _distinct([tensor for captured in captures for tensor in captured])
        places = [[_place(together, tensor) for tensor in captured] for captured in captures]
        layer = Branches(models, places, name=self.layer_name("if"))
        return _tuple(self.apply(layer, self.as_symbolic(condition), *together))

    def loop(
        self,
        trip_count: Int | None,
        condition: Tensor | None,
        carried: Sequence[Tensor],
        body: Callable[..., tuple[Tensor, ...]],
        scan_count: int,
        formal: Sequence[ir.Value | None],
    ) -> tuple[Tensor, ...]:
        if any(not self.is_tensor(item) for item in carried):
            return self._unrolled(trip_count, condition, carried, body, scan_count)
        values = [self.as_symbolic(item) for item in carried]
        shapes = [tuple(value.shape) for value in values]
        while True:
            mark = len(self._made)
            inputs = [keras.Input(batch_shape=(), dtype=dtype) for dtype in ("int64", "bool")]
            inputs += [keras.Input(batch_shape=s, dtype=v.dtype) for s, v in zip(shapes, values, strict=True)]
            self._held.extend(inputs)  # what is known of a tensor is known by its id
            outputs = [self._as_output(item) for item in body(*inputs)]
            relaxed = [_joint(s, tuple(o.shape)) for s, o in zip(shapes, outputs[1:], strict=False)]
            if relaxed == shapes:
                break
            shapes = relaxed
        captured = [tensor for tensor in self._captured(outputs, mark) if not _among(inputs, tensor)]
        model = self._submodel([*inputs, *captured], outputs, mark)
        lead = [] if trip_count is None or known(trip_count) else [self.as_symbolic(trip_count)]
        lead += [] if condition is None else [self.as_symbolic(condition)]
        layer = Loop(
            model,
            carried=len(values),
            scanned=scan_count,
            trips=int(trip_count) if trip_count is not None and known(trip_count) else None,
            has_trips=trip_count is not None and not known(trip_count),
            has_condition=condition is not None,
            name=self.layer_name("loop"),
        )
        return _tuple(self.apply(layer, *lead, *values, *captured))

    def _unrolled(
        self,
        trip_count: Int | None,
        condition: Tensor | None,
        carried: Sequence[Any],
        body: Callable[..., tuple[Any, ...]],
        scan_count: int,
    ) -> tuple[Any, ...]:
        """A loop that carries sequences, as its iterations one after the other."""
        going = True if condition is None else self._truth(condition)
        if trip_count is not None and not known(trip_count):
            raise UnsupportedOperator(
                "a sequence is carried, and the number of iterations is known only when the model runs"
            )
        scanned: list[list[Any]] = [[] for _ in range(scan_count)]
        i = 0
        while going and (trip_count is None or i < int(trip_count)):
            step = self.eager.constant(np.asarray(i, np.int64)), self.eager.constant(np.asarray(True))
            found = body(*step, *carried)
            going = self._truth(found[0])
            carried = found[1 : 1 + len(carried)]
            for stack, item in zip(scanned, found[1 + len(carried) :], strict=True):
                stack.append(item)
            i += 1
        if scan_count and not i:
            raise UnsupportedOperator("a loop that carries a sequence and scans has no iteration")
        return (*carried, *(self.stack(items, 0) for items in scanned))

    def _truth(self, x: Any) -> bool:
        if self.is_symbolic(x) or isinstance(x, Parameter):
            raise UnsupportedOperator(
                "a sequence is carried, and the number of iterations is known only when the model runs"
            )
        return bool(self._content(x).reshape(-1)[0])

    def _as_output(self, item: Any) -> Any:
        if not self.is_tensor(item):
            raise UnsupportedOperator("a branch or loop body that gives a sequence or nothing has no form in Keras")
        return self.as_symbolic(item)

    def _captured(self, outputs: Sequence[Any], mark: int) -> list[Any]:
        """The tensors made before `mark` that `outputs` are computed of."""
        found: list[Any] = []
        seen: set[int] = set()
        stack = list(outputs)
        while stack:
            tensor = stack.pop()
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            if self._order.get(id(tensor), -1) < mark:
                found.append(tensor)
                continue
            operation, node_index, _ = tensor._keras_history
            stack.extend(operation._inbound_nodes[node_index].input_tensors)
        return found

    def _submodel(self, inputs: Sequence[Any], outputs: Sequence[Any], mark: int) -> Any:
        """The model of what was made since `mark`, from `inputs` to `outputs`.

        Its layers are called once more, on inputs of its own: Keras loses nodes when it cuts a model out of a graph whose
        layers have several results.
        """
        own = [keras.Input(batch_shape=tensor.shape, dtype=tensor.dtype) for tensor in inputs]
        found = {id(tensor): mine for tensor, mine in zip(inputs, own, strict=True)}
        for tensor in self._needed(outputs, mark, found):
            if id(tensor) in found:
                continue
            operation, index, _ = tensor._keras_history
            node = operation._inbound_nodes[index]
            arguments = node.arguments.args, node.arguments.kwargs
            args, kwargs = keras.tree.map_structure(lambda item: found.get(id(item), item), arguments)
            results = keras.tree.flatten(operation(*args, **kwargs))
            found.update((id(old), new) for old, new in zip(node.output_tensors, results, strict=True))
        finals = [found[id(tensor)] for tensor in outputs]
        finals = [self.record("identity", item) if _among(own, item) else item for item in finals]
        return OnnxModel(own, finals, name=self.layer_name("body"))

    def _needed(self, outputs: Sequence[Any], mark: int, given: dict[int, Any]) -> list[Any]:
        """The tensors made since `mark` that `outputs` are computed of, in the order in which they were made."""
        found: dict[int, Any] = {}
        stack = [tensor for tensor in outputs if id(tensor) not in given]
        while stack:
            tensor = stack.pop()
            if id(tensor) in found:
                continue
            found[id(tensor)] = tensor
            operation, index, _ = tensor._keras_history
            stack.extend(item for item in operation._inbound_nodes[index].input_tensors if id(item) not in given)
        return sorted(found.values(), key=lambda tensor: self._order[id(tensor)])

    # -- what only the running model knows -----------------------------------------------------------------------------

    def defer(self, call: Any, operands: Sequence[Any], outputs: Sequence[ir.Value], error: UnknownUntilRun) -> Any:
        self.deferred += 1
        return super().defer(call, operands, outputs, error)


_RECORDED = (
    "full arange astype bitcast complex real imag divide floor_mod trunc_mod pow where "
    "bitwise_left_shift bitwise_right_shift bitwise_invert logical_not isnan isinf equal clip sum prod min argmax argmin "
    "cumulative_sum cumulative_prod logsumexp log_softmax stack broadcast_to expand flip tile split slice pad take_along_axis "
    "gather_nd scatter_elements scatter_nd nonzero compress unique top_k argsort sort one_hot lookup string_case string_concat "
    "string_split regex_full_match einsum det sum_pool_last fft"
).split()


def _recorder(name: str) -> Callable[..., Any]:
    def primitive(self: KerasArrays, *args: Any, **kwargs: Any) -> Any:
        return self.record(name, *args, **kwargs)

    primitive.__name__ = name
    primitive.__doc__ = getattr(Namespace, name, primitive).__doc__
    return primitive


for _name in _RECORDED:
    setattr(KerasArrays, _name, _recorder(_name))


class KerasNamespace(ChannelsLast, KerasArrays):
    """`KerasArrays` in which images stay channels-last between the layers that work so."""

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return self.elementwise("Add", a, b)


def _shape_of(value: ir.Value) -> tuple[int, ...]:
    assert value.const_value is not None
    return tuple(int(n) for n in value.const_value.shape.numpy())


def _leaves(item: Any) -> Iterable[Any]:
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


def _among(tensors: Sequence[Any], tensor: Any) -> bool:
    return any(item is tensor for item in tensors)


def _place(tensors: Sequence[Any], tensor: Any) -> int:
    return next(i for i, item in enumerate(tensors) if item is tensor)


def _distinct(tensors: Sequence[Any]) -> list[Any]:
    return list({id(tensor): tensor for tensor in tensors}.values())


def _tuple(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, (list, tuple)) else (found,)


def _joint(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(a) != len(b):
        raise UnsupportedOperator("the rank of a carried value changes from iteration to iteration")
    return tuple(m if m == n else None for m, n in zip(a, b, strict=True))
