"""One ONNX node as a function call: which semantics function, with which attributes and host parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Unpack, get_args, get_origin, get_type_hints

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.operands import Operand, Weight, as_host
from onnxport.opset_maps.from_onnx.primitives.tensors import Context
from onnxport.opset_maps.from_onnx.values import HostValue, OperandKind
from onnxport.opset_maps.registry import SemanticsEntry


@dataclass(frozen=True)
class Signature:
    """How a semantics function takes its operands and attributes.

    Attributes:
        kinds: in what form each positional parameter takes its operand.
        variadic: that of the operands beyond, None where there may be none.
        attributes: names of keyword parameters.
        any_attribute: it takes every attribute.
    """

    kinds: tuple[OperandKind, ...]
    variadic: OperandKind | None
    attributes: frozenset[str]
    any_attribute: bool

    def kind(self, index: int) -> OperandKind | None:
        """Kind of operand `index`; None where the function takes no such operand."""
        return self.kinds[index] if index < len(self.kinds) else self.variadic


def _kind(hint: object) -> OperandKind:
    """The kind that an annotation carries, also one of several alternatives (``Host | None``)."""
    kinds = (item for item in getattr(hint, "__metadata__", ()) if isinstance(item, OperandKind))
    nested = (_kind(item) for item in get_args(hint))
    return next((kind for kind in (*kinds, *nested) if kind != OperandKind.TENSOR), OperandKind.TENSOR)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError:  # a user's entry may name what it imports for type checkers alone
        return {}


@cache
def signature(function: Callable[..., Any]) -> Signature:
    """The signature of a semantics function ``function(xp, *operands, **attributes)``.

    ``**attributes: Unpack[SomeTypedDict]`` takes the attributes that the TypedDict lists.
    """
    hints = _hints(function)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    kinds, variadic, names, any_attribute = [], None, set(), False
    for item in parameters:
        hint = hints.get(item.name)
        if item.kind in positional:
            kinds.append(_kind(hint))
        elif item.kind == inspect.Parameter.VAR_POSITIONAL:
            variadic = _kind(hint)
        elif item.kind == inspect.Parameter.KEYWORD_ONLY:
            names.add(item.name)
        elif get_origin(hint) is Unpack:
            names.update(get_args(hint)[0].__annotations__)
        else:
            any_attribute = True
    return Signature(tuple(kinds), variadic, frozenset(names), any_attribute)


@dataclass(frozen=True)
class Call:
    """A node ready to be computed in a namespace: while importing, or when the model runs.

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
        arguments = [_in_form(xp, item, form.kind(index) or OperandKind.TENSOR) for index, item in enumerate(operands)]
        outer, xp.context = xp.context, self.context
        try:
            result = self.entry.function(xp, *arguments, **self.attributes)
        finally:
            xp.context = outer
        return self.otherwise(xp, operands) if result is NotImplemented and self.otherwise is not None else result


def _in_form(xp: Namespace, item: Operand, kind: OperandKind) -> Any:
    """An operand in the form that a parameter of `kind` takes."""
    if item is None or isinstance(item, list):
        return item
    value = None if kind == OperandKind.TENSOR else as_host(item)
    if kind == OperandKind.HOST:
        return value.array if value is not None else xp.to_host(to_tensor(xp, item))
    if value is not None and value.is_static:
        if kind == OperandKind.KNOWN:
            return value.array
        if kind == OperandKind.NUMBER and value.array.size == 1:
            return value.array.item()
    return to_tensor(xp, item)


def to_tensor(xp: Namespace, item: Operand) -> Any:
    """An operand as a tensor of the framework; sequences, maps and absent values stay."""
    if isinstance(item, Weight):
        return xp.parameter(item.value)
    if isinstance(item, HostValue):
        return xp.constant(item.array, item.dtype) if item.is_static else xp.from_host(item.array, item.dtype)
    return item
