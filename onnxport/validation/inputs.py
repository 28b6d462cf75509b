"""Sets of inputs: what the user gave, the same at other sizes, edge values, and drawn ones where nothing was given.

A conversion is proven on inputs that the tracer did not see: a size that was baked in by mistake shows only at another.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.validation.numerics import CARRIERS
from onnxport.validation.runners.base import InputSpec

# The sizes that free dimensions are drawn at: the first for the leading dimension, then one after the other.
_FIRST_BATCH, _FIRST_SIZE, _FIRST_IMAGE = 2, 6, 64
# Integers of unknown meaning: small enough for an index into nearly anything.
_SAFE_INTEGER = 3
# A dimension that is an expression of others, not a name.
_ARITHMETIC = r"[-+*/() ]"


@dataclass(frozen=True)
class InputSet:
    """Leaves in the order of the graph's inputs, and what kind of set they are.

    Attributes:
        name: ``"given"``, ``"other sizes"``, ...
        leaves: arrays; lists, dicts and None where the input is a sequence, map or absent optional.
        optional: a source that can't run on it has not failed: the set is then left out.
    """

    name: str
    leaves: tuple[Any, ...]
    optional: bool = True


def own_inputs(graph: ir.Model) -> list[ir.Value]:
    """The graph's inputs that have no initializer."""
    return [value for value in graph.graph.inputs if value.name not in graph.graph.initializers]


def specs_of(model: ir.Model) -> tuple[InputSpec, ...]:
    """The graph's inputs that have no initializer, in order."""
    return tuple(_spec(value) for value in own_inputs(model))


def _spec(value: ir.Value) -> InputSpec:
    kind: Any = value.type
    shape = (
        tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape) if value.shape is not None else None
    )
    words = {"SequenceType": "sequence", "OptionalType": "optional"}
    label = words.get(type(kind).__name__, "tensor")
    while kind is not None and hasattr(kind, "elem_type") and not isinstance(kind, ir.TensorType):
        kind = kind.elem_type
    dtype = numpy_dtype(kind.dtype) if isinstance(kind, ir.TensorType) else None
    return InputSpec(value.name or "", dtype, shape, label)


def numpy_dtype(dtype: ir.DataType) -> np.dtype | None:
    """The NumPy type of an ONNX element type (strings are objects); None where there is none."""
    if dtype == ir.DataType.STRING:
        return np.dtype(object)
    try:
        return np.dtype(dtype.numpy())
    except (TypeError, KeyError):
        return None


# -- the given inputs, changed ---------------------------------------------------------------------------------------------


def other_sizes(leaves: Sequence[Any], specs: Sequence[InputSpec]) -> Iterator[InputSet]:
    """The given leaves at other sizes of their dynamic dimensions, boldest change first.

    Rows are repeated and changed (see `vary`), and the same symbolic name gets the same size everywhere. A dimension that is an
    expression of others (``2*N``) follows them; one that can't be told stays as it is.
    """
    sizes = _sizes(leaves, specs)
    if not sizes:
        return
    batch = {spec.dims[0] for spec in specs if spec.dims and isinstance(spec.dims[0], str)} & set(sizes)
    plans = [
        {name: size + 1 + (size == 1) for name, size in sizes.items()},
        {name: max(size - 1, 1) if size > 1 else 2 for name, size in sizes.items()},
        {name: (size + 1 + (size == 1) if name in batch else size) for name, size in sizes.items()},
        {name: (max(size - 1, 1) if size > 1 else 2) if name in batch else size for name, size in sizes.items()},
        {name: size * 2 for name, size in sizes.items()},
    ]
    seen: list[dict[str, int]] = [sizes]
    for plan in plans:
        if plan in seen:
            continue
        seen.append(plan)
        changed = tuple(_resized(leaf, spec, plan, sizes) for leaf, spec in zip(leaves, specs, strict=True))
        label = ", ".join(f"{name}={size}" for name, size in plan.items())
        rng = np.random.default_rng(sum(plan.values()))
        yield InputSet(f"other sizes ({label})", tuple(vary(leaf, rng) for leaf in changed))


def varied(leaves: Sequence[Any], seed: int) -> InputSet:
    """The given leaves at their own sizes with other values."""
    rng = np.random.default_rng(seed)
    return InputSet("other values", tuple(vary(leaf, rng) for leaf in leaves))


def vary(leaf: Any, rng: np.random.Generator) -> Any:
    """An array like `leaf` with other values that mean the same kind of thing.

    Floating-point values move by up to a tenth (a constant array gets noise); whole numbers, as ids and categories are,
    keep their values and change places along the last axis; masks, strings, sequences and scalars stay.
    """
    if isinstance(leaf, list):
        return [vary(item, rng) for item in leaf]
    if not isinstance(leaf, np.ndarray) or leaf.size < 2 or leaf.dtype.kind not in "iufc":
        return leaf
    whole = leaf.dtype.kind in "iu" or (
        leaf.dtype.kind == "f" and bool(np.all(leaf == np.round(leaf))) and np.ptp(leaf) > 0
    )
    if whole:
        if leaf.ndim < 2 or len(np.unique(leaf[:4])) <= 2:
            return leaf
        return np.concatenate([leaf[:1], np.roll(leaf[1:], 1, axis=-1)], axis=0) if leaf.dtype.kind in "iu" else leaf
    noise = rng.uniform(-0.1, 0.1, leaf.shape)
    spread = leaf.max() - leaf.min() if leaf.dtype.kind == "f" else 1.0
    moved = leaf * (1 + noise) if spread else leaf + 5 * noise * max(1.0, float(np.abs(leaf).max()))
    return np.asarray(moved).astype(leaf.dtype)


def _sizes(leaves: Sequence[Any], specs: Sequence[InputSpec]) -> dict[str, int]:
    """The size of each symbolic dimension in the given leaves."""
    found: dict[str, int] = {}
    for leaf, spec in zip(leaves, specs, strict=True):
        if spec.dims is None or not isinstance(leaf, np.ndarray) or leaf.ndim != len(spec.dims):
            continue
        for dim, size in zip(spec.dims, leaf.shape, strict=True):
            if isinstance(dim, str) and not re.search(_ARITHMETIC, dim) and size > 0:
                found.setdefault(dim, size)
    return found


def _resized(leaf: Any, spec: InputSpec, plan: Mapping[str, int], sizes: Mapping[str, int]) -> Any:
    if spec.dims is None or not isinstance(leaf, np.ndarray) or leaf.ndim != len(spec.dims) or 0 in leaf.shape:
        return leaf
    for axis, dim in enumerate(spec.dims):
        size = dimension(dim, plan)
        if size is None or dimension(dim, sizes) != leaf.shape[axis] or size < 1:
            continue
        leaf = np.take(leaf, np.arange(size) % leaf.shape[axis], axis=axis)
    return leaf


def dimension(dim: int | str | None, sizes: Mapping[str, int]) -> int | None:
    """The size of a dimension: a number, a name, or an expression of names in + - * // and parentheses.

    >>> dimension("2*N + 1", {"N": 3}), dimension("M", {"N": 3})
    (7, None)
    """
    if not isinstance(dim, str):
        return dim
    if dim in sizes:
        return sizes[dim]
    try:
        return _evaluated(ast.parse(dim.replace("floor", ""), mode="eval").body, sizes)
    except (SyntaxError, KeyError, ValueError, ZeroDivisionError):
        return None


def _evaluated(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluated(operand, sizes)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _evaluated(left, sizes), _evaluated(right, sizes)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv() | ast.Div():
                    return a // b
    raise ValueError(f"not arithmetic of dimensions: {ast.dump(node)}")


# -- tables ----------------------------------------------------------------------------------------------------------------


def table_sets(leaves: Sequence[Any], graph: ir.Model | None, *, missing: bool, seed: int) -> Iterator[InputSet]:
    """Cheap further sets for a table of rows.

    Rows in another order; columns dealt anew; all zeros; missing values where the estimator allows them; and for trees
    rows that lie on their thresholds and one step beside them, where a threshold that was rounded wrongly shows.
    """
    arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray) and leaf.ndim]
    rows = len(arrays[0]) if arrays else 0
    if not rows or any(len(array) != rows for array in arrays):
        return
    rng = np.random.default_rng(seed)
    order = rng.permutation(rows)
    yield InputSet("rows in another order", tuple(leaf[order] for leaf in leaves))
    floats = [i for i, leaf in enumerate(leaves) if leaf.dtype.kind == "f"]
    if not floats:
        return
    # Each column's values dealt out anew: combinations that no given row has.
    dealt = tuple(rng.permuted(leaf, axis=0) if i in floats else leaf for i, leaf in enumerate(leaves))
    yield InputSet("columns dealt anew", dealt)
    yield InputSet("zeros", tuple(np.zeros_like(leaf) if i in floats else leaf for i, leaf in enumerate(leaves)))
    if missing:
        holes = tuple(
            np.where(rng.random(leaf.shape) < 0.2, np.nan, leaf).astype(leaf.dtype) if i in floats else leaf
            for i, leaf in enumerate(leaves)
        )
        yield InputSet("missing values", holes)
    if graph is not None and len(leaves) == 1 and leaves[0].ndim == 2:
        levels = thresholds(own_inputs(graph)[0])
        if levels is not None:
            yield InputSet("at thresholds", (_at_thresholds(leaves[0], levels, rng),))


def _at_thresholds(leaf: np.ndarray, levels: Mapping[int, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    rows = max(len(leaf), 64)
    made = leaf[np.arange(rows) % len(leaf)].copy()
    for column, found in levels.items():
        if column >= made.shape[1]:
            continue
        on = rng.choice(found, rows).astype(made.dtype)
        step = rng.integers(-1, 2, rows)
        beside = np.nextafter(on, np.where(step < 0, -np.inf, np.inf).astype(made.dtype))
        made[:, column] = np.where(rng.random(rows) < 0.5, np.where(step == 0, on, beside), made[:, column])
    return made


# -- drawn inputs ----------------------------------------------------------------------------------------------------------


def drawn(model: ir.Model, seed: int) -> Iterator[list[InputSet]]:
    """Inputs drawn from the graph's signature: two draws at different sizes, each a list of candidates to try in turn.

    Free dimensions all differ in the first candidate, so that a confusion of two shows; in the second they are equal, for
    models whose dimensions must agree without the graph saying so.

    Integers that index a weight stay below its size, strings come from the vocabularies in the graph, table columns that
    trees split lie around their thresholds.
    """
    specs = specs_of(model)
    values = {value.name: value for value in model.graph.inputs}
    for step in range(2):
        candidates = []
        for spread in (1, 0):
            sizes = _drawn_sizes(specs, step, spread)
            rng = np.random.default_rng([seed, step])
            leaves = tuple(_draw(spec, values[spec.name], sizes, rng) for spec in specs)
            label = ", ".join(f"{name}={size}" for name, size in sizes.items())
            candidates.append(InputSet(f"drawn ({label})" if label else f"drawn {step + 1}", leaves))
            if not sizes:
                break
        yield candidates


def _named_dims(spec: InputSpec) -> tuple[int | str, ...]:
    """The dimensions, unknown ones named: a leading one is taken for the batch."""
    dims = spec.dims or ()
    return tuple(
        ("batch" if axis == 0 else f"{spec.name}.{axis}") if dim is None else dim for axis, dim in enumerate(dims)
    )


def _drawn_sizes(specs: Sequence[InputSpec], step: int, spread: int) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for spec in specs:
        image = spec.dims is not None and len(spec.dims) >= 4 and spec.dtype is not None and spec.dtype.kind in "fu"
        for axis, dim in enumerate(_named_dims(spec)):
            if not isinstance(dim, str) or dim in sizes or re.search(_ARITHMETIC, dim):
                continue
            if axis == 0:
                sizes[dim] = _FIRST_BATCH + step
            elif image:
                sizes[dim] = _FIRST_IMAGE + 16 * step
            else:
                sizes[dim] = _FIRST_SIZE + step + spread * len(sizes)
    return sizes


def _draw(spec: InputSpec, value: ir.Value, sizes: Mapping[str, int], rng: np.random.Generator) -> Any:
    shape = tuple(0 if dim == 0 else dimension(dim, sizes) or 1 for dim in _named_dims(spec))
    if spec.kind == "sequence":
        return [_draw_array(spec, value, shape, rng) for _ in range(3)]
    return _draw_array(spec, value, shape, rng)


def _draw_array(spec: InputSpec, value: ir.Value, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    dtype = spec.dtype if spec.dtype is not None else np.dtype(np.float32)
    if dtype.kind == "O":
        words = vocabulary(value)
        return np.asarray(rng.choice(np.asarray(words, object), shape), object).reshape(shape)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype == np.uint8:
        return rng.integers(0, 256, shape).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, index_limit(value) or _SAFE_INTEGER, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    noise = np.asarray(rng.standard_normal(shape))
    levels = thresholds(value)
    if levels is not None and len(shape) == 2:
        for column, found in levels.items():
            if column < shape[1]:
                noise[:, column] = rng.choice(found, shape[0]) + noise[:, column] * (np.std(found) * 0.1 + 1e-3)
    return noise.astype(dtype)


def consumers(value: ir.Value) -> Iterator[tuple[ir.Node, int]]:
    """Nodes that use the value or an unchanged carrier of it, with the index of that input."""
    stack, seen = [value], {value}
    while stack:
        for node, index in stack.pop().uses():
            yield node, index
            if node.op_type in CARRIERS and index == 0:
                fresh = [output for output in node.outputs if output not in seen]
                seen.update(fresh)
                stack.extend(fresh)


def index_limit(value: ir.Value) -> int | None:
    """The size of the smallest weight axis that the value indexes; None where it indexes none."""
    limits = []
    for node, index in consumers(value):
        if node.op_type in ("Gather", "GatherElements") and index == 1 and node.inputs[0] is not None:
            shape = node.inputs[0].shape
            axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
            if shape is not None and shape.rank() and isinstance(shape[axis % shape.rank()], int):
                limits.append(int(shape[axis % shape.rank()]))  # type: ignore[arg-type]
        if (
            node.op_type == "OneHot"
            and index == 0
            and node.inputs[1] is not None
            and node.inputs[1].const_value is not None
        ):
            limits.append(int(node.inputs[1].const_value.numpy().reshape(-1)[0]))
    return max(min(limits), 1) if limits else None


_VOCABULARIES = ("keys_strings", "cats_strings", "pool_strings", "classlabels_strings", "stopwords")


def vocabulary(value: ir.Value) -> list[str]:
    """Strings that the graph knows, and one that it does not."""
    words: list[str] = []
    nodes = [node for node, _ in consumers(value)]
    if value.graph is not None:
        nodes += [
            node
            for node in value.graph.all_nodes()
            if node.domain == "ai.onnx.ml" or node.op_type in ("TfIdfVectorizer", "StringNormalizer")
        ]
    for node in nodes:
        for name in _VOCABULARIES:
            if name in node.attributes:
                words += [item if isinstance(item, str) else item.decode() for item in node.attributes[name].value]
        for item in node.inputs:
            if item is not None and item.const_value is not None and item.dtype == ir.DataType.STRING:
                words += [str(text) for text in item.const_value.numpy().ravel()]
        if words:
            break
    return [*dict.fromkeys(words), "not in the vocabulary"]


def thresholds(value: ir.Value) -> dict[int, np.ndarray] | None:
    """The thresholds at which trees split each column of the value; None where no tree reads it."""
    found: dict[int, list[float]] = {}
    for node, _ in consumers(value):
        names = ("nodes_featureids", "nodes_values")
        if not node.op_type.startswith("TreeEnsemble") or names[0] not in node.attributes:
            continue
        levels = (
            node.attributes.get("nodes_values")
            or node.attributes.get("nodes_values_as_tensor")
            or node.attributes.get("nodes_splits")
        )
        if levels is None:
            continue
        array = levels.value.numpy() if hasattr(levels.value, "numpy") else levels.value
        for feature, level in zip(node.attributes["nodes_featureids"].value, array, strict=False):
            if np.isfinite(level):
                found.setdefault(int(feature), []).append(float(level))
    return {feature: np.asarray(levels) for feature, levels in found.items()} if found else None
