"""An entry in float32, where ONNX's operators do not take 16-bit floating-point numbers: its result is rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from onnxport.graph.result_types import Expected

_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_SINGLE = ir.DataType.FLOAT


def holds_halves(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether an operand, also one in a list, is of a 16-bit floating-point type."""
    seen = False

    def look(value: ir.Value) -> ir.Value:
        nonlocal seen
        seen = seen or value.dtype in _HALVES
        return value

    _mapped((list(args), kwargs), look, lambda dtype: dtype)
    return seen


def in_single(
    op: OpBuilder,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    results: Sequence[Expected | None],
) -> Any:
    """The results of `function`, as if the source computed in float32, in the types of `results`."""
    wide_args, wide_kwargs = _mapped(
        (list(args), kwargs),
        lambda value: op.cast(value, _SINGLE) if value.dtype in _HALVES else value,
        lambda dtype: _SINGLE if dtype in _HALVES else dtype,
    )
    wide = [item and replace(item, dtype=_SINGLE) if item and item.dtype in _HALVES else item for item in results]
    with op.at(None, wide):
        seen = function(op, *wide_args, **wide_kwargs)
    if not isinstance(seen, (list, tuple)):
        return _narrowed(op, seen, results[0] if results else None)
    return tuple(_narrowed(op, item, expected) for item, expected in zip(seen, results, strict=False))


def _narrowed(op: OpBuilder, item: Any, expected: Expected | None) -> Any:
    if isinstance(item, ir.Value) and expected is not None and expected.dtype in _HALVES and item.dtype == _SINGLE:
        return op.cast(item, expected.dtype)
    return item


def _mapped(item: Any, of_value: Callable[[ir.Value], ir.Value], of_dtype: Callable[[ir.DataType], ir.DataType]) -> Any:
    if isinstance(item, ir.Value):
        return of_value(item)
    if isinstance(item, ir.DataType):
        return of_dtype(item)
    if isinstance(item, (list, tuple)):
        return type(item)(_mapped(part, of_value, of_dtype) for part in item)
    if isinstance(item, dict):
        return {key: _mapped(part, of_value, of_dtype) for key, part in item.items()}
    return item
