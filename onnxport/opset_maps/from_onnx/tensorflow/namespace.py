"""The array namespace in TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import tensorflow as tf

from onnxport.opset_maps.from_onnx.layout import ChannelsLast
from onnxport.opset_maps.from_onnx.namespace import Call
from onnxport.opset_maps.from_onnx.operands import Operand
from onnxport.opset_maps.from_onnx.tensorflow.control import TensorFlowControlFamily
from onnxport.opset_maps.from_onnx.tensorflow.elementwise import TensorFlowElementwiseFamily
from onnxport.opset_maps.from_onnx.tensorflow.indexing import TensorFlowIndexingFamily
from onnxport.opset_maps.from_onnx.tensorflow.shapes import TensorFlowShapeFamily
from onnxport.opset_maps.from_onnx.tensorflow.tensors import TensorFlowTensorFamily
from onnxport.opset_maps.from_onnx.tensorflow.text import TensorFlowTextFamily
from onnxport.opset_maps.from_onnx.tensorflow.windows import TensorFlowWindowFamily
from onnxport.opset_maps.from_onnx.values import UnknownUntilRun


class TensorFlowArrays(
    TensorFlowElementwiseFamily,
    TensorFlowShapeFamily,
    TensorFlowIndexingFamily,
    TensorFlowTextFamily,
    TensorFlowWindowFamily,
    TensorFlowControlFamily,
    TensorFlowTensorFamily,
):
    """The primitives on ``tf.Tensor``, eager or symbolic: the families of `namespace.FAMILIES`.

    Attributes:
        parameters: the model's initializers: variables, or constants where they are no numbers to be trained.
        deferred: how many operators were refused for want of a value that only the running model has.
    """

    framework = "tensorflow"

    def __init__(self, parameters: Mapping[ir.Value, tf.Variable | tf.Tensor] | None = None) -> None:
        super().__init__()
        self.parameters = parameters or {}
        self.deferred = 0
        self._reads: dict[tuple[ir.Value, tf.Graph | None], tf.Tensor] = {}

    def parameter(self, value: ir.Value) -> tf.Tensor:
        held = self.parameters[value]
        if isinstance(held, tf.Tensor):
            return held
        place = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        if (value, place) not in self._reads:
            self._reads[value, place] = held.read_value()
        return self._reads[value, place]

    def defer(
        self, call: Call, operands: Sequence[Operand], outputs: Sequence[ir.Value], error: UnknownUntilRun
    ) -> Any:
        self.deferred += 1
        return super().defer(call, operands, outputs, error)


class TensorFlowNamespace(ChannelsLast, TensorFlowArrays):
    """`TensorFlowArrays` in which images stay channels-last between the operators that work so."""
