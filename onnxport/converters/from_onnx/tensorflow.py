"""ONNX to TensorFlow: a `tf.Module` whose call is a traced function in TensorFlow's own operators."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.converters.from_onnx.walk import Walk
from onnxport.errors import InvalidInputError
from onnxport.opset_maps import maps
from onnxport.opset_maps.from_onnx.tensorflow.elements import held_array, held_in, tensor_of
from onnxport.opset_maps.from_onnx.tensorflow.namespace import TensorFlowNamespace


class OnnxModule(tf.Module):
    """An ONNX model in TensorFlow.

    Called with the graph's inputs in graph order; the result is one value, or a tuple in graph output order.

    Attributes:
        input_names: names of the graph's inputs.
        output_names: names of the graph's outputs.
        variables_by_name: the model's weights under their ONNX names.
    """

    def __init__(self, model: ir.Model) -> None:
        super().__init__(name=_identifier(model.graph.name or "onnx"))
        walk = Walk(model, TensorFlowNamespace(), maps.tensorflow_native)
        self.input_names = [value.name or "" for value in walk.inputs]
        self.output_names = [value.name or "" for value in walk.outputs]
        self.variables_by_name: dict[str, tf.Variable] = {}
        self._constants: dict[str, tf.Tensor] = {}
        for value in _initializers(walk.model):
            self._hold(value)
        self._specs = [_spec(value, name) for value, name in zip(walk.inputs, self.input_names, strict=True)]
        self._call = self._traced(walk)

    def _hold(self, value: ir.Value) -> None:
        tensor = value.const_value
        assert tensor is not None
        name = value.name or ""
        dtype = ir.DataType(tensor.dtype)
        array = tensor.numpy()
        if dtype == ir.DataType.STRING or not (held_in(dtype).is_floating or held_in(dtype).is_complex):
            self._constants[name] = tensor_of(array, dtype)
        else:
            held = held_array(array, dtype)
            self.variables_by_name[name] = tf.Variable(held, trainable=True, name=_identifier(name))

    def _traced(self, walk: Walk) -> Any:
        def call(*inputs: Any) -> Any:
            walk.xp = TensorFlowNamespace({**self._constants, **self.variables_by_name})
            outputs = [_declared(item, value) for item, value in zip(walk.run(list(inputs)), walk.outputs, strict=True)]
            return outputs[0] if len(outputs) == 1 else tuple(outputs)

        if None in self._specs:  # how many tensors a sequence holds is known when it is given
            return tf.function(call, autograph=False)
        function = tf.function(call, input_signature=self._specs, autograph=False)
        function.get_concrete_function()  # all that can't be said is refused here, not at the first call
        return function

    def __call__(self, *inputs: Any) -> Any:
        """The model's outputs.

        Args:
            inputs: tensors, or arrays of the inputs' element types, in the order of the graph's inputs.

        Raises:
            InvalidInputError: there are more or fewer inputs than the graph has.
        """
        if len(inputs) != len(self._specs):
            names = ", ".join(self.input_names)
            raise InvalidInputError(f"the model takes {len(self._specs)} inputs ({names}), {len(inputs)} were given")
        return self._call(*(_fitted(item, spec) for item, spec in zip(inputs, self._specs, strict=True)))

    def signature(self) -> Any:
        """The model as a function of keyword tensors that gives a dict, both named as in the graph."""
        names = self.input_names

        def serving(**inputs: tf.Tensor) -> dict[str, Any]:
            result = self._call(*(inputs[name] for name in names))
            outputs = result if isinstance(result, tuple) else (result,)
            return dict(zip(self.output_names, outputs, strict=True))

        specs = dict(zip(names, self._specs, strict=True))
        return tf.function(serving, autograph=False).get_concrete_function(**specs)


def build(model: ir.Model) -> OnnxModule:
    """The model as a `tf.Module`.

    Raises:
        UnsupportedOperator: operators that have no form in TensorFlow, all of them at once.
        InvalidModelError: the graph is malformed.
    """
    return OnnxModule(model)


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Writes an imported model as a SavedModel directory; its serving signature has the graph's own input and output names."""
    tf.saved_model.save(obj, os.fspath(path), signatures={"serving_default": obj.signature()})


def _initializers(model: ir.Model) -> list[ir.Value]:
    found = list(model.graph.initializers.values())
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for item in node.attributes.values():
            if item.type == ir.AttributeType.GRAPH and not item.is_ref():
                found.extend(item.as_graph().initializers.values())
    return found


def _spec(value: ir.Value, name: str) -> tf.TensorSpec | None:
    """What the traced function takes for a graph input; None for a sequence, an optional or a map."""
    if not isinstance(value.type, ir.TensorType):
        return None
    shape = None if value.shape is None else [n if isinstance(n, int) else None for n in value.shape]
    return tf.TensorSpec(shape, held_in(value.type.dtype), name=name)


def _declared(item: Any, value: ir.Value) -> Any:
    """An output in the element type that the graph declares."""
    if isinstance(item, tf.Tensor) and value.dtype is not None:
        held = held_in(value.dtype)
        return item if item.dtype == held else tf.cast(item, held)
    return item


def _fitted(item: Any, spec: tf.TensorSpec | None) -> Any:
    if item is None or isinstance(item, (tf.Tensor, tf.Variable)):
        return item
    if isinstance(item, (list, tuple)) and spec is None:
        return [_fitted(part, None) for part in item]
    if isinstance(item, Mapping):
        return {key: _fitted(part, None) for key, part in item.items()}
    array = np.asarray(item)
    if array.dtype.kind in "OUS":
        return tensor_of(array)
    if spec is None:
        return tensor_of(array)
    wanted = spec.dtype.as_numpy_dtype
    return tf.constant(array if array.dtype == wanted else array.astype(wanted))


def _identifier(name: str) -> str:
    """A name that TensorFlow accepts for a variable or function argument."""
    cleaned = re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", name)
    return cleaned if re.match(r"[A-Za-z0-9.]", cleaned) else f"v{cleaned}"
