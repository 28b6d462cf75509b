"""ONNX to Keras 3: a functional model of Keras' own layers, and of registered primitives for what has no layer.

A saved model is loaded by ``keras.saving.load_model``; where it holds a primitive, or whole numbers are the keys of a map, after
``import onnxport.keras``, which registers these classes: Keras imports no module that a file names.
"""

from __future__ import annotations

import os
from typing import Any

import keras
import onnx_ir as ir

from onnxport.converters.from_onnx.walk import Walk
from onnxport.errors import UnsupportedOperator
from onnxport.frameworks.native_log import native_log_kept
from onnxport.graph.atomic import atomic_path
from onnxport.opset_maps import maps
from onnxport.opset_maps.from_onnx.keras.backend import scope_name
from onnxport.opset_maps.from_onnx.keras.namespace import KerasNamespace
from onnxport.opset_maps.from_onnx.keras.primitives import OnnxModel, RunTimeModel
from onnxport.opset_maps.from_onnx.keras.sizes import MOVED
from onnxport.opset_maps.from_onnx.values import carrier


def build(model: ir.Model) -> OnnxModel | RunTimeModel:
    """The model as a functional Keras model, or, where Keras can't know what one has to, as one whole.

    It is called with the graph's inputs in graph order, and gives one value or a tuple in graph output order. Its inputs are
    named as in the graph; Keras allows no "/" in a name, "." takes its place.

    Raises:
        UnsupportedOperator: operators that have no form in Keras, all of them at once.
        InvalidModelError: the graph is malformed.
    """
    try:
        return functional(model)
    except UnsupportedOperator as error:
        if not model.graph.outputs:  # which no call gives anything
            raise
        try:
            name = scope_name(model.graph.name or "onnx") or "onnx"
            return RunTimeModel(model, keras.backend.backend(), name=name)
        except UnsupportedOperator:
            raise error from None


def functional(model: ir.Model) -> OnnxModel:
    """The model as a functional Keras model.

    Raises:
        UnsupportedOperator: operators that have no form in Keras, all of them at once; a graph without inputs, or one that takes
            or gives something else than tensors of known rank.
    """
    xp = KerasNamespace()
    walk = Walk(model, xp, maps.keras_native)
    inputs = [_input(xp, value) for value in walk.inputs]
    if not inputs:
        raise UnsupportedOperator("a graph without inputs makes no Keras model")
    xp.anchor = xp.sizes.first = inputs[0]
    xp.sizes.anchor = next((item for item in inputs if item.dtype in MOVED), None)
    for item, value in zip(inputs[1:], walk.inputs[1:], strict=True):
        if _first_name(value) is not None and _first_name(value) == _first_name(walk.inputs[0]):
            xp.sizes.mark(item, xp.sizes.batch)
    if not walk.outputs:
        raise UnsupportedOperator("a graph without outputs makes no Keras model")
    taken = list(inputs)
    finals = []
    for result, value in zip(walk.run(inputs), walk.outputs, strict=True):
        if isinstance(result, list) and len(walk.outputs) == 1:  # which Keras would take for several outputs
            raise UnsupportedOperator(f"output {value.name!r} is a sequence, and no Keras model gives one alone")
        finals.append(_output(xp, result, value, taken))
    name = xp.layer_name((model.graph.name or "onnx").replace("/", "."))
    return OnnxModel(inputs if len(inputs) > 1 else inputs[0], finals if len(finals) > 1 else finals[0], name=name)


def _first_name(value: ir.Value) -> str | None:
    """The name of a size along axis 0: inputs that share it are as long, as ONNX has it."""
    first = value.shape[0] if value.shape is not None and value.shape.rank() else None
    return first.value if isinstance(first, ir.SymbolicDim) else None


def save(obj: OnnxModel | RunTimeModel, path: str | os.PathLike[str]) -> None:
    """Writes an imported model as a ``.keras`` file.

    Raises:
        SavingError: it can't be written; what stood there is untouched.
    """
    with atomic_path(path) as place, native_log_kept():  # Keras imports TensorFlow for it, whatever its backend is
        obj.save(os.fspath(place))


def _input(xp: KerasNamespace, value: ir.Value) -> Any:
    if not isinstance(value.type, ir.TensorType):
        raise UnsupportedOperator(f"input {value.name!r} is no tensor, and Keras models take tensors")
    if value.shape is None:
        raise UnsupportedOperator(f"input {value.name!r} has no rank, which a Keras model has to know")
    shape = tuple(n if isinstance(n, int) else None for n in value.shape)
    return keras.Input(batch_shape=shape, dtype=carrier(value.type.dtype), name=xp.input_name(value.name or "input"))


def _output(xp: KerasNamespace, result: object, value: ir.Value, taken: list[Any]) -> Any:
    """An output, or the nested parts of one; what is an input or another output too becomes a tensor of its own."""
    if isinstance(result, dict) and result:
        return {key: _output(xp, item, value, taken) for key, item in result.items()}
    if isinstance(result, list) and result:
        return [_output(xp, item, value, taken) for item in result]
    if not xp.is_tensor(result):
        raise UnsupportedOperator(f"output {value.name!r} is no tensor, sequence or map, which Keras models give")
    item = _declared(xp, result, value)
    item = xp.record("identity", item) if any(other is item for other in taken) else item
    taken.append(item)
    return item


def _declared(xp: KerasNamespace, output: object, value: ir.Value) -> Any:
    """An output as a symbolic tensor of the element type that the graph declares."""
    symbolic = xp.as_symbolic(output)
    if not isinstance(value.type, ir.TensorType) or symbolic.dtype == carrier(value.type.dtype):
        return symbolic
    return xp.astype(symbolic, value.type.dtype)
