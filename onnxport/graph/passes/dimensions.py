"""Dimensions of a graph's inputs, named or fixed."""

from __future__ import annotations

import re
from collections.abc import Mapping

import onnx_ir as ir

from onnxport.errors import InvalidInputError
from onnxport.graph.passes.rename import every_value

_WORD = re.compile(r"\w+")

# What becomes of the dimensions of inputs: a name for one that varies, a size for one that does not.
Dimensions = Mapping[tuple[str, int], str | int]


def relax(model: ir.Model, dimensions: Dimensions) -> None:
    """Makes dimensions of the graph's inputs vary under a name; in place.

    A dimension that has a name already is renamed wherever the graph uses that name. Shapes of other values are forgotten
    where a size became a name, since they may follow from it; ONNX's inference finds them anew.

    Raises:
        InvalidInputError: two names for dimensions that are of one size in the model.
    """
    inputs = {value.name: value for value in model.graph.inputs}
    renamed: dict[str, str | int] = {}
    forget = False
    for (name, axis), dim in dimensions.items():
        shape = inputs[name].shape
        if isinstance(dim, int) or shape is None:
            continue
        before = shape[axis]
        if isinstance(before, ir.SymbolicDim) and before.value:
            _same(renamed, before.value, dim)
        elif isinstance(before, int):
            forget = True
        _set(inputs[name], axis, ir.SymbolicDim(dim))
    _replace(model, renamed)
    if forget:
        own = set(model.graph.inputs) | set(model.graph.initializers.values())
        for value in every_value(model.graph):
            if value not in own and not value.is_initializer() and value.shape is not None:
                rank = value.shape.rank()
                value.shape = ir.Shape([None] * rank) if value.is_graph_output() else None


def fix(model: ir.Model, dimensions: Dimensions) -> None:
    """Gives dimensions of the graph's inputs a size, and all others that share their name; in place.

    Raises:
        InvalidInputError: the model has another size there, or two sizes are given for one name.
    """
    inputs = {value.name: value for value in model.graph.inputs}
    sizes: dict[str, str | int] = {}
    for (name, axis), dim in dimensions.items():
        shape = inputs[name].shape
        if not isinstance(dim, int) or shape is None:
            continue
        before = shape[axis]
        if isinstance(before, int) and before != dim:
            raise InvalidInputError(
                f"dynamic_shapes: dimension {axis} of {name!r} is {before} in the model, not {dim}: name it first"
            )
        if isinstance(before, ir.SymbolicDim) and before.value:
            _same(sizes, before.value, dim)
        _set(inputs[name], axis, dim)
    _replace(model, sizes)


def _same(names: dict[str, str | int], symbol: str, dim: str | int) -> None:
    if names.setdefault(symbol, dim) != dim:
        raise InvalidInputError(
            f"dynamic_shapes: {names[symbol]!r} and {dim!r} are one dimension in the model, {symbol!r}: say the same of both"
        )


def _set(value: ir.Value, axis: int, dim: int | ir.SymbolicDim) -> None:
    assert value.shape is not None
    dims = list(value.shape)
    dims[axis] = dim
    value.shape = ir.Shape(dims)


def _replace(model: ir.Model, symbols: Mapping[str, str | int]) -> None:
    if not symbols:
        return
    for value in every_value(model.graph):
        if value.shape is not None:
            value.shape = ir.Shape([_replaced(dim, symbols) for dim in value.shape])


def _replaced(dim: int | ir.SymbolicDim, symbols: Mapping[str, str | int]) -> int | ir.SymbolicDim | None:
    """The dimension under its new name; None where it was an expression of a dimension that has one."""
    if isinstance(dim, int) or not dim.value:
        return dim
    if dim.value in symbols:
        new = symbols[dim.value]
        return ir.SymbolicDim(new) if isinstance(new, str) else new
    return None if set(_WORD.findall(dim.value)) & set(symbols) else dim
