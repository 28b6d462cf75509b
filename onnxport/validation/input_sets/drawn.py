"""Inputs drawn from a graph's signature."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.validation.input_sets.base import InputSet, specs_of
from onnxport.validation.input_sets.domains import index_limit, vocabulary
from onnxport.validation.input_sets.sizes import ARITHMETIC, dimension
from onnxport.validation.input_sets.trees import thresholds
from onnxport.validation.runners.base import InputSpec

# The sizes that free dimensions are drawn at: the first for the leading dimension, then one after the other.
_FIRST_BATCH, _FIRST_SIZE, _FIRST_IMAGE = 2, 6, 64
# Integers of unknown meaning: small enough for an index into nearly anything.
_SAFE_INTEGER = 3


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
            if not isinstance(dim, str) or dim in sizes or re.search(ARITHMETIC, dim):
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
