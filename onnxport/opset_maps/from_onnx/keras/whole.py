"""An ONNX graph that no functional Keras model can hold, as one model that the importer of Keras' backend computes.

Such a graph takes or gives sequences or optionals, has no inputs, or holds tensors whose rank only the running model tells.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import onnx
import onnx_ir as ir

from onnxport.errors import InvalidModelError, UnsupportedOperator
from onnxport.frameworks import get
from onnxport.graph.bodies import all_initializers
from onnxport.graph.names import is_written_number
from onnxport.graph.protos import from_proto, to_proto
from onnxport.opset_maps.from_onnx.keras.backend import PACKAGE, backend_arrays, scope_name, without_autocast
from onnxport.opset_maps.from_onnx.values import TYPE_NAMES

# Larger weights stand in a file once, among its weights, and are left out of the graph there.
_MOST_WRITTEN_BYTES = 2048
_SERVED = "tf_saved_model"
_HELD = frozenset({"float16", "bfloat16", "float32", "float64"})


class _Module:
    """A module of the backend's importer, of which Keras shall track nothing."""

    def __init__(self, graph: ir.Model) -> None:
        self.framework = get("pytorch" if keras.backend.backend() == "torch" else "tensorflow")
        build = self.framework.build
        assert build is not None
        self.call: Any = build(graph)

    def weights(self) -> Iterable[tuple[str, Any, bool]]:
        """Name, tensor, and whether it is trained."""
        if self.framework.name == "tensorflow":
            return [(name, item, True) for name, item in self.call.variables_by_name.items()]
        trained = [(name, item, True) for name, item in self.call.named_parameters()]
        return [*trained, *((name, item, False) for name, item in self.call.named_buffers())]


@keras.saving.register_keras_serializable(package=PACKAGE)
class RunTimeModel(keras.Model):
    """A model that is called as the ONNX graph is: its inputs one after the other, a tuple of several outputs.

    Sequences are lists, absent optionals None. It runs eagerly, has no layers, and its weights have the names of the graph's.

    Args:
        graph: the ONNX graph; from a file as text, without its large weights.
        written_on: the backend that it was imported on, whose importer gave it its weights.
        left_out: for the large weights, by their place among the graph's, the shape.
    """

    def __init__(
        self,
        graph: ir.Model | str,
        written_on: str,
        left_out: Mapping[str, Sequence[int]] | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        backend_arrays()  # refuses a backend that has none
        if written_on != keras.backend.backend():
            raise InvalidModelError(f"the model was imported on Keras' backend {written_on}, and is loaded there alone")
        self._graph = _decoded(graph, left_out or {}) if isinstance(graph, str) else graph
        initialized = self._graph.graph.initializers
        self._count = sum(value.name not in initialized for value in self._graph.graph.inputs)
        self._held = _Module(self._graph)
        for name, tensor, trained in self._held.weights():
            dtype = keras.backend.standardize_dtype(tensor.dtype)
            if dtype in _HELD:
                zeros = np.zeros(tuple(tensor.shape))
                variable = keras.Variable(
                    zeros, dtype=dtype, trainable=trained, name=scope_name(name) or "value", autocast=False
                )
                variable._value = tensor
                self._track_variable(variable)
        self.run_eagerly = True
        self.built = True

    def __call__(self, *inputs: object, **kwargs: object) -> Any:
        """The outputs, in graph order; a list of the inputs, which Keras' own methods pass, is taken too."""
        if len(inputs) == 1 and self._count != 1 and isinstance(inputs[0], (list, tuple)):
            inputs = tuple(inputs[0])
        return self.call(*inputs)

    def call(self, *inputs: object) -> Any:
        """The outputs, in graph order."""
        if any(isinstance(item, keras.KerasTensor) for item in inputs):
            raise UnsupportedOperator("a model that only its values resolve can't be part of a functional model")
        given = inputs if keras.backend.backend() == "tensorflow" else [_tensors(item) for item in inputs]
        return self._held.call(*given)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """As Keras compiles; the model runs eagerly."""
        super().compile(*args, **{**kwargs, "run_eagerly": True})

    def export(self, filepath: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Writes a SavedModel, where no value of an input decides what the graph does; its ``serve`` is that of Keras' own."""
        save = self._held.framework.files.save
        if self._held.framework.name != "tensorflow" or save is None or kwargs.get("format", _SERVED) != _SERVED:
            raise UnsupportedOperator(
                "a model that only its values resolve is exported as a SavedModel of TensorFlow alone"
            )
        self._held.call.serve = self._held.call.served()
        save(self._held.call, filepath)

    def get_config(self) -> dict[str, Any]:
        """What the constructor takes."""
        graph, left_out = _encoded(self._graph)
        own = {"graph": graph, "written_on": keras.backend.backend(), "left_out": left_out}
        return {**without_autocast(super().get_config()), **own}


def _tensors(item: Any) -> Any:
    if isinstance(item, (list, tuple)):
        return [_tensors(part) for part in item]
    is_text = isinstance(item, np.ndarray) and item.dtype.kind in "OUS"
    return item if item is None or is_text else keras.ops.convert_to_tensor(item)


def _encoded(model: ir.Model) -> tuple[str, dict[str, tuple[int, ...]]]:
    """The graph as text, and the shapes of the weights that it leaves out.

    PyTorch's importer recognises layers also by what their weights hold, so that none is left out there.
    """
    light, left_out = model.clone(), {}
    for place, value in enumerate(all_initializers(light)):
        tensor = value.const_value
        if tensor is None or keras.backend.backend() != "tensorflow" or is_written_number(value):
            continue
        dtype = ir.DataType(tensor.dtype)
        if tensor.nbytes > _MOST_WRITTEN_BYTES and TYPE_NAMES.get(dtype) in _HELD:
            left_out[str(place)] = tuple(int(n) for n in tensor.shape.numpy())
            value.const_value = ir.Tensor(np.zeros(0, dtype.numpy()), dtype, name=value.name)
    return base64.b64encode(to_proto(light).SerializeToString()).decode(), left_out


def _decoded(graph: str, left_out: Mapping[str, Sequence[int]]) -> ir.Model:
    model = from_proto(onnx.ModelProto.FromString(base64.b64decode(graph)))
    for place, value in enumerate(all_initializers(model)):
        if str(place) in left_out and value.const_value is not None:
            dtype = ir.DataType(value.const_value.dtype)
            zeros = np.broadcast_to(np.zeros((), dtype.numpy()), tuple(left_out[str(place)]))
            value.const_value = ir.Tensor(zeros, dtype, name=value.name)
    return model
