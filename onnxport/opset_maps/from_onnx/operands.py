"""What stands for an ONNX value while a model is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import onnx_ir as ir

from onnxport.errors import InvalidModelError
from onnxport.opset_maps.from_onnx.values import HostValue, Tensor, object_array

# A tensor of the framework, a value known at import, a sequence, nothing.
Operand: TypeAlias = "Tensor | HostValue | Weight | Refused | list[Operand] | dict[Any, Operand] | None"


class Refused:
    """Stands for the result of a node that was refused, so that the walk goes on and meets the others."""


@dataclass(frozen=True, eq=False)
class Weight:
    """An initializer: read into Python where a host value is asked for, a parameter of the framework elsewhere."""

    value: Any

    @property
    def host(self) -> HostValue:
        """Its content."""
        return tensor_value(self.value.const_value)


def tensor_value(tensor: ir.TensorProtocol) -> HostValue:
    """The content of an ONNX tensor; strings as Python strings.

    Raises:
        InvalidModelError: a string is of bytes that are no text. Runtimes take them, and a file may hold them.
    """
    if tensor.dtype != ir.DataType.STRING:
        return HostValue(tensor.numpy(), tensor.dtype)
    array = tensor.numpy()
    try:
        texts = [item.decode() if isinstance(item, bytes) else str(item) for item in array.reshape(-1)]
    except UnicodeDecodeError as error:
        bytes_ = error.object[:40]
        raise InvalidModelError(f"constant {tensor.name!r}: the string {bytes_!r} is not UTF-8") from None
    return HostValue(object_array(texts, array.shape), ir.DataType.STRING)


def as_host(item: Operand) -> HostValue | None:
    """The host value of an operand, None for a tensor."""
    return item.host if isinstance(item, Weight) else item if isinstance(item, HostValue) else None
