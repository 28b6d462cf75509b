"""The main graph while it is recorded, and the model's initializers in it."""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnxport.opset_maps.from_onnx.pytorch.dtypes import FLOAT8, from_numpy
from onnxport.opset_maps.from_onnx.pytorch.tracing import Recorder, Traced

_RESERVED = frozenset({"training", "graph", "code"})


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


def is_constant_name(name: str) -> bool:
    """Whether an initializer is a constant that onnxport wrote (``const``, ``const_1``), not a weight."""
    head, _, tail = name.partition("_")
    return head == "const" and (not tail or tail.isdigit())
