"""Complex tensors in the graph: their real and imaginary parts along a last axis of size 2."""

from __future__ import annotations

import onnx_ir as ir

_KEY = "onnxport.complex"


def mark_complex(value: ir.Value) -> None:
    """Says that `value` holds a complex tensor's parts along its last axis."""
    value.meta[_KEY] = True


def is_complex(value: ir.Value) -> bool:
    """Whether `value` holds a complex tensor's parts along its last axis."""
    return bool(value.meta.get(_KEY, False))
