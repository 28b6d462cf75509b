"""The main graph while it is recorded, and the model's initializers in it."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir
import torch

from onnxport.graph.names import is_written_constant
from onnxport.opset_maps.from_onnx.pytorch.dtypes import FLOAT8, from_numpy
from onnxport.opset_maps.from_onnx.pytorch.paths import Paths
from onnxport.opset_maps.from_onnx.pytorch.traced import Traced
from onnxport.opset_maps.from_onnx.pytorch.tracing import Recorder


class RootRecorder(Recorder):
    """The main graph's recorder: it holds the parameters, under their own names."""

    def reserve(self, initializers: Iterable[ir.Value]) -> None:
        """Takes the paths of a model's initializers before anything else does."""
        self.paths = Paths(initializers)

    def parameter(self, value: ir.Value) -> Traced:
        """An initializer as parameter (floating point) or buffer."""
        tensor = value.const_value
        assert tensor is not None
        content = from_numpy(tensor.numpy(), ir.DataType(tensor.dtype))
        if is_written_constant(value.name or ""):
            return Traced(self.constant(content), self, (twin := content.to("meta"), twin))
        if content.dtype.is_floating_point and content.dtype not in FLOAT8:
            content = torch.nn.Parameter(content)
        return self.attribute(self.paths.of(value), content)
