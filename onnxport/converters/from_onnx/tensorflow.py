"""ONNX to TensorFlow: a `tf.Module` whose call is a traced function in TensorFlow's own operators."""

from __future__ import annotations

import keyword
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.converters.from_onnx.walk import Walk
from onnxport.errors import InvalidInputError, SavingError, UnsupportedOperator
from onnxport.frameworks.tensorflow import SAVED_MODEL_FILES
from onnxport.graph.atomic import atomic_folder, check_folder
from onnxport.graph.bodies import all_initializers
from onnxport.graph.names import NameAuthority, is_written_number, numbered
from onnxport.opset_maps import maps
from onnxport.opset_maps.from_onnx.operands import Operand
from onnxport.opset_maps.from_onnx.tensorflow.elements import held_array, held_in, tensor_of
from onnxport.opset_maps.from_onnx.tensorflow.namespace import TensorFlowNamespace
from onnxport.opset_maps.from_onnx.values import HostValue


class OnnxModule(tf.Module):
    """An ONNX model in TensorFlow.

    Called with the graph's inputs in graph order; the result is one value, or a tuple in graph output order.

    Attributes:
        input_names: names of the graph's inputs.
        output_names: names of the graph's outputs.
        argument_names: names of the inputs in a SavedModel's signature: the graph's own where Python takes them as keywords.
        variables_by_name: the model's weights under their ONNX names.
    """

    def __init__(self, model: ir.Model) -> None:
        super().__init__(name=_identifier(model.graph.name or "onnx"))
        walk = Walk(model, TensorFlowNamespace(), maps.tensorflow_native)
        self.input_names = [value.name or "" for value in walk.inputs]
        self.output_names = [value.name or "" for value in walk.outputs]
        self.variables_by_name: dict[str, tf.Variable] = {}
        names = NameAuthority()
        held = {value: self._hold(value, names) for value in all_initializers(walk.model)}
        self.argument_names = _argument_names(self.input_names)
        self._specs = [_spec(value, name) for value, name in zip(walk.inputs, self.argument_names, strict=True)]
        self._walk = walk
        self._namespace = TensorFlowNamespace(held)
        self._deciding: list[int] = []
        self._is_resolved = True  # whether one traced function is the model
        self._keys: Sequence[tuple[Any, ...] | None] = ()
        self._by_values: dict[tuple[Any, ...], Any] = {}
        self._call = self._traced()

    def _hold(self, value: ir.Value, names: NameAuthority) -> tf.Variable | tf.Tensor:
        tensor = value.const_value
        assert tensor is not None
        dtype = ir.DataType(tensor.dtype)
        array = tensor.numpy()
        if dtype == ir.DataType.STRING or not (held_in(dtype).is_floating or held_in(dtype).is_complex):
            return tensor_of(array, dtype)
        if is_written_number(value):
            return tensor_of(array, dtype)
        name = value.name or "unnamed"
        variable = tf.Variable(held_array(array, dtype), trainable=True, name=names.unique(_identifier(name)))
        # The initializers of two branches may have one name.
        key = numbered(name, {*self.variables_by_name}) if name in self.variables_by_name else name
        self.variables_by_name[key] = variable
        return variable

    def _traced(self) -> Any:
        """The model as a traced function of all its inputs, or one that traces for the values of some."""
        self._deciding = [i for i, spec in enumerate(self._specs) if _may_decide(spec)]
        if None in self._specs:  # how many tensors a sequence holds is known when it is given
            self._is_resolved = False
            self._walk.check_operators()
            return self._call_by_values
        function = tf.function(self._run, input_signature=self._specs, autograph=False)
        try:
            function.get_concrete_function()  # all that has no form is refused here, not at the first call
        except UnsupportedOperator as error:
            if self._refuses(error):
                raise
            self._is_resolved = False
            return self._call_by_values
        return function

    def _run(self, *inputs: Operand) -> Any:
        """The walk, in whatever graph is being traced."""
        walk = self._walk
        walk.xp = self._namespace = TensorFlowNamespace(self._namespace.parameters)
        outputs = [_declared(item, value) for item, value in zip(walk.run(list(inputs)), walk.outputs, strict=True)]
        # A SavedModel holds no function that gives a map under other keys than text.
        self._keys = [tuple(item) if isinstance(item, dict) else None for item in outputs]
        return tuple(list(item.values()) if isinstance(item, dict) else item for item in outputs)

    def _outputs(self, results: Sequence[Any]) -> list[Any]:
        """The graph's outputs, of what `_run` gives: the values of a map under their keys."""
        return [
            item if keys is None else dict(zip(keys, item, strict=True))
            for keys, item in zip(self._keys, results, strict=True)
        ]

    def _refuses(self, error: UnsupportedOperator) -> bool:
        """Whether an operator was refused for another reason than that a value or size is not known yet."""
        return sum(item.count for item in error.operators) > self._namespace.deferred

    def _call_by_values(self, *inputs: tf.Tensor) -> Any:
        """A graph whose structure follows from values of its inputs, as the axes of a reduction: traced for each of them.

        It is traced for each shape of the others too. What decides it may also be computed within: then it runs eagerly.
        """
        arrays = {i: inputs[i].numpy() for i in self._deciding}
        known = {i: HostValue(array, ir.DataType.from_numpy(array.dtype)) for i, array in arrays.items()}
        others = [item for i, item in enumerate(inputs) if i not in known]
        key = (*((i, array.shape, array.tobytes()) for i, array in arrays.items()), *map(_layout, others))

        def call(*others: Operand) -> Any:
            rest = iter(others)
            return self._run(*(known[i] if i in known else next(rest) for i in range(len(self._specs))))

        if key not in self._by_values:
            tensors = all(isinstance(item, tf.Tensor) for item in others)
            specs = [tf.TensorSpec(item.shape, item.dtype) for item in others] if tensors else None
            traced = tf.function(call, autograph=False, **({} if specs is None else {"input_signature": specs}))
            try:
                traced.get_concrete_function(*([] if specs is not None else others))
                self._by_values[key] = traced
            except UnsupportedOperator as error:
                if self._refuses(error):
                    raise
                self._by_values[key] = None
        return (self._by_values[key] or call)(*others)

    def __call__(self, *inputs: object) -> Any:
        """The model's outputs.

        Args:
            inputs: tensors, or arrays of the inputs' element types, in the order of the graph's inputs.

        Raises:
            InvalidInputError: there are more or fewer inputs than the graph has.
        """
        if len(inputs) != len(self._specs):
            names = ", ".join(self.input_names)
            raise InvalidInputError(f"the model takes {len(self._specs)} inputs ({names}), {len(inputs)} were given")
        given = (_fitted(item, spec) for item, spec in zip(inputs, self._specs, strict=True))
        outputs = self._outputs(self._call(*given))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def signature(self) -> Any:
        """The model as a function of keyword tensors (`argument_names`) that gives a dict, named as in the graph.

        A map or sequence is a tensor for each part: ``probabilities.setosa``, ``parts.0``.

        Raises:
            UnsupportedOperator: values of its inputs decide what the graph does, which one traced function can't follow.
        """
        if not self._is_resolved:
            names = ", ".join(self.input_names[i] for i in self._deciding) or "its inputs"
            raise UnsupportedOperator(
                f"the values of {names} decide what the model computes: a SavedModel can't hold it"
            )
        keys = self.argument_names

        def serving(**inputs: tf.Tensor) -> dict[str, Any]:
            outputs = self._outputs(self._call(*(inputs[name] for name in keys)))
            return {
                name: item
                for output, parts in zip(self.output_names, outputs, strict=True)
                for name, item in _leaves(output, parts)
            }

        specs = dict(zip(keys, self._specs, strict=True))
        return tf.function(serving, autograph=False).get_concrete_function(**specs)

    def served(self) -> Any:
        """The model as a function of its input, or of a list of them, that gives a tensor or a list: a SavedModel's ``serve``."""
        specs = self._specs

        def serve(inputs: Any) -> Any:
            outputs = self._outputs(self._call(*(inputs if len(specs) > 1 else [inputs])))
            parts = [part for output in outputs for _, part in _leaves("", output)]
            return parts if len(parts) > 1 else parts[0]

        return tf.function(serve, input_signature=[specs if len(specs) > 1 else specs[0]], autograph=False)


def _leaves(name: str, item: object) -> Iterator[tuple[str, Any]]:
    """The tensors of an output, each with its name."""
    if isinstance(item, (dict, list, tuple)):
        for key, part in item.items() if isinstance(item, dict) else enumerate(item):
            yield from _leaves(f"{name}.{key}", part)
    else:
        yield name, item


def build(model: ir.Model) -> OnnxModule:
    """The model as a `tf.Module`.

    Raises:
        UnsupportedOperator: operators that have no form in TensorFlow, all of them at once.
        InvalidModelError: the graph is malformed.
    """
    return OnnxModule(model)


def save(obj: OnnxModule, path: str | os.PathLike[str]) -> None:
    """Writes an imported model as a SavedModel directory; its serving signature has the graph's own input and output names.

    An existing SavedModel is replaced in one step; files beside it in the directory that are not TensorFlow's stay.

    Raises:
        SavingError: it can't be written, or the directory holds something else; what stood there is untouched.
        UnsupportedOperator: the model is none that a SavedModel can hold.
    """
    check_folder(path, marks=SAVED_MODEL_FILES)
    signature = obj.signature()
    with atomic_folder(path, marks=SAVED_MODEL_FILES, own=_SAVED_MODEL_ENTRIES) as folder:
        try:
            tf.saved_model.save(obj, os.fspath(folder), signatures={"serving_default": signature})
        except tf.errors.OpError as error:  # an error of its file system: a full disk, no permission
            raise SavingError(f"can't write {os.fspath(path)!r}: {error.message}", None, os.fspath(path)) from error


_SAVED_MODEL_ENTRIES = frozenset({*SAVED_MODEL_FILES, "variables", "assets", "fingerprint.pb", "keras_metadata.pb"})


def _spec(value: ir.Value, name: str) -> tf.TensorSpec | None:
    """What the traced function takes for a graph input; None for a sequence, an optional or a map."""
    if not isinstance(value.type, ir.TensorType):
        return None
    shape = None if value.shape is None else [n if isinstance(n, int) else None for n in value.shape]
    return tf.TensorSpec(shape, held_in(value.type.dtype), name=name)


def _may_decide(spec: tf.TensorSpec | None) -> bool:
    """Whether an input may hold axes, counts or a flag."""
    return spec is not None and spec.dtype != tf.string and spec.shape.rank is not None and spec.shape.rank <= 1


def _layout(item: Any) -> Any:
    """What of an input a traced function depends on."""
    if isinstance(item, (list, tuple)):
        return tuple(map(_layout, item))
    return (tuple(item.shape), item.dtype) if isinstance(item, (tf.Tensor, tf.Variable)) else None


def _declared(item: object, value: ir.Value) -> Any:
    """An output in the element type that the graph declares."""
    if isinstance(item, tf.Tensor) and value.dtype is not None:
        held = held_in(value.dtype)
        return item if item.dtype == held else tf.cast(item, held)
    return item


def _fitted(item: object, spec: tf.TensorSpec | None) -> Any:
    if item is None or isinstance(item, (tf.Tensor, tf.Variable)):
        return item
    if isinstance(item, (list, tuple)) and spec is None:
        return [_fitted(part, None) for part in item]
    if isinstance(item, Mapping):
        return {key: _fitted(part, None) for key, part in item.items()}
    array = np.asarray(item)
    if array.dtype.kind in "OUS" or spec is None:
        return tensor_of(array)
    wanted = spec.dtype.as_numpy_dtype
    return tf.constant(array if array.dtype == wanted else array.astype(wanted))


def _argument_names(names: Sequence[str]) -> list[str]:
    """Names as keywords of a function: those that can stay as they are, the others cleaned and unlike them."""
    usable = (name for name in names if name.isidentifier() and name.isascii() and name != "self")
    kept = {name for name in usable if not keyword.iskeyword(name)}
    given = NameAuthority()
    for name in kept:
        given.reserve(name)
    return [name if name in kept else given.unique(_identifier(name or "input")) for name in names]


def _identifier(name: str) -> str:
    """A name that TensorFlow accepts for a module, which must be a Python identifier, and for a variable."""
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII)
    usable = re.match(r"[A-Za-z]", cleaned) and not keyword.iskeyword(cleaned) and cleaned != "self"
    return cleaned if usable else f"v{cleaned}"
