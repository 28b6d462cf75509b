"""One ONNX node as a function call: which semantics function, with which attributes and host parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.primitives.tensors import Context
from onnxport.opset_maps.from_onnx.values import HostValue
from onnxport.opset_maps.registry import SemanticsEntry

# What stands for an ONNX value while importing: a tensor of the framework, a value known at import, a sequence, nothing.
Operand = Any


@dataclass(frozen=True)
class Signature:
    """How a semantics function takes its operands and attributes.

    Attributes:
        kinds: for each positional parameter ``"tensor"``, ``"host"``, ``"number"`` or ``"known"``.
        variadic: kind of the operands beyond, None where there may be none.
        attributes: names of keyword parameters.
        any_attribute: it takes every attribute.
    """

    kinds: tuple[str, ...]
    variadic: str | None
    attributes: frozenset[str]
    any_attribute: bool

    def kind(self, index: int) -> str | None:
        """Kind of operand `index`; None where the function takes no such operand."""
        return self.kinds[index] if index < len(self.kinds) else self.variadic


_KINDS = {"Host": "host", "Number": "number", "Known": "known"}


def _kind(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    words = text.replace("|", " ").split()
    return next((kind for word, kind in _KINDS.items() if word in words), "tensor")


@cache
def signature(function: Callable[..., Any]) -> Signature:
    """The signature of a semantics function ``function(xp, *operands, **attributes)``."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    variadic = [_kind(item.annotation) for item in parameters if item.kind == inspect.Parameter.VAR_POSITIONAL]
    return Signature(
        kinds=tuple(_kind(item.annotation) for item in parameters if item.kind in positional),
        variadic=variadic[0] if variadic else None,
        attributes=frozenset(item.name for item in parameters if item.kind == inspect.Parameter.KEYWORD_ONLY),
        any_attribute=any(item.kind == inspect.Parameter.VAR_KEYWORD for item in parameters),
    )


@dataclass(frozen=True)
class Call:
    """A node ready to be said in a namespace: while importing, or when the model runs.

    Attributes:
        entry: what the operator means.
        attributes: keyword arguments, checked against the function's signature.
        context: what the function may ask about its node.
        otherwise: the call to make where this one declines.
    """

    entry: SemanticsEntry
    attributes: dict[str, Any] = field(default_factory=dict)
    context: Context = field(default_factory=Context)
    otherwise: Call | None = None

    def __call__(self, xp: Namespace, operands: Sequence[Operand]) -> Any:
        """The function's result: an operand, a tuple of them, or NotImplemented where a native spelling declines.

        Raises:
            UnknownUntilRun: the function needs what only the running model knows.
            UnsupportedOperator: it refuses.
        """
        form = signature(self.entry.function)
        while operands and operands[-1] is None:
            operands = operands[:-1]
        if len(operands) > len(form.kinds) and form.variadic is None:
            raise UnsupportedOperator(f"it is called with {len(operands)} inputs; {len(form.kinds)} are known")
        arguments = [_as(xp, item, form.kind(index) or "tensor") for index, item in enumerate(operands)]
        outer, xp.context = xp.context, self.context
        try:
            result = self.entry.function(xp, *arguments, **self.attributes)
        finally:
            xp.context = outer
        return self.otherwise(xp, operands) if result is NotImplemented and self.otherwise is not None else result


def _as(xp: Namespace, item: Operand, kind: str) -> Any:
    if item is None or isinstance(item, list):
        return item
    if kind == "tensor":
        return to_tensor(xp, item)
    if kind == "known":
        value = as_host(item)
        return value.array if value is not None and value.is_static else to_tensor(xp, item)
    if kind == "number":
        value = as_host(item)
        return (
            value.array.item()
            if value is not None and value.is_static and value.array.size == 1
            else to_tensor(xp, item)
        )
    value = as_host(item)
    return value.array if value is not None else xp.to_host(item)


@dataclass(frozen=True, eq=False)
class Weight:
    """An initializer: read into Python where a host value is asked for, a parameter of the framework elsewhere."""

    value: Any

    @property
    def host(self) -> HostValue:
        """Its content."""
        return tensor_value(self.value.const_value)


def tensor_value(tensor: ir.TensorProtocol) -> HostValue:
    """The content of an ONNX tensor; strings as Python strings."""
    if tensor.dtype != ir.DataType.STRING:
        return HostValue(tensor.numpy(), tensor.dtype)
    array = tensor.numpy()
    texts = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        item = array[index]
        texts[index] = item.decode() if isinstance(item, bytes) else str(item)
    return HostValue(texts, ir.DataType.STRING)


def as_host(item: Operand) -> HostValue | None:
    """The host value of an operand, None for a tensor."""
    return item.host if isinstance(item, Weight) else item if isinstance(item, HostValue) else None


def to_tensor(xp: Namespace, item: Operand) -> Any:
    """An operand as a tensor of the framework; sequences, maps and absent values stay."""
    if isinstance(item, Weight):
        return xp.parameter(item.value)
    if isinstance(item, HostValue):
        return xp.constant(item.array, item.dtype) if item.is_static else xp.from_host(item.array, item.dtype)
    return item
