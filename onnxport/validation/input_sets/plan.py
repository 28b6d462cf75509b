"""Which sets of inputs a proof runs, in which order, and what the source gives on them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxport.errors import InvalidInputError
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.input_sets.drawn import drawn
from onnxport.validation.input_sets.given import other_sizes, varied
from onnxport.validation.input_sets.tables import table_sets
from onnxport.validation.parties import Comparison
from onnxport.validation.runners import Outputs, Runner
from onnxport.validation.runners.base import InputSpec


@dataclass(frozen=True)
class SourceRun:
    """What the source gives on a set of inputs, and in how many seconds."""

    inputs: InputSet
    outputs: Outputs
    seconds: float


def source_runs(parties: Comparison, seed: int, notes: list[str]) -> Iterator[SourceRun]:
    """The source's results on one set of inputs after the other; what it can't run on goes to `notes`.

    Raises:
        InvalidInputError: the source can't run on the user's own inputs, or on none of those that were drawn.
    """
    count = 0
    for candidates in _sets(parties, seed):
        run = _first_run(parties, candidates, notes)
        if run is not None:
            count += 1
            yield run
    if not count:
        raise InvalidInputError(
            f"the source model can't run on drawn inputs; pass inputs=(...). {' '.join(notes[-1:])}"
        )


def _sets(parties: Comparison, seed: int) -> Iterator[list[InputSet]]:
    """The sets of inputs, each as candidates of which the first counts that the source can run on."""
    example, specs = parties.source.example, parties.specs
    if example is None:
        if parties.graph is None:
            raise InvalidInputError("pass inputs=...: neither side has a signature to draw them from")
        yield from drawn(parties.graph, seed)
        return
    leaves = example.leaves if parties.order is None else tuple(example.leaves[i] for i in parties.order)
    if specs is not None:
        leaves = tuple(_as_declared(leaf, spec, parties.source) for leaf, spec in zip(leaves, specs, strict=True))
    yield [InputSet("given", leaves, optional=False)]
    if parties.source.tabular or parties.converted.tabular:
        missing = parties.source.allows_missing
        yield from ([item] for item in table_sets(leaves, parties.graph, missing=missing, seed=seed))
        return
    yield [varied(leaves, seed)]
    if specs is not None and parties.order is not None and len(parties.order) == len(example.leaves):
        yield list(other_sizes(leaves, specs))


def _as_declared(leaf: Any, spec: InputSpec, source: Runner) -> Any:
    """A table's values in the element type that the graph takes them in: both sides get the rounded values."""
    if not source.own_dtypes or not isinstance(leaf, np.ndarray) or spec.dtype is None or leaf.dtype == spec.dtype:
        return leaf
    if spec.dtype.kind == "O" or leaf.dtype.kind == "O":
        return leaf
    return leaf.astype(spec.dtype)


def _first_run(parties: Comparison, candidates: Sequence[InputSet], notes: list[str]) -> SourceRun | None:
    """The first of the sets that the source can run on."""
    reason = ""
    for item in candidates:
        own = parties.source_leaves(item.leaves)
        started = time.perf_counter()
        try:
            expected = parties.source.run(own)
        except Exception as error:  # the source is the user's: any error at all
            if not item.optional:
                raise InvalidInputError(f"the source model can't run on the inputs: {first_line(error)}") from error
            reason = reason or f"{item.name}: left out, the source can't run on it: {first_line(error)}"
            continue
        return SourceRun(item, expected, time.perf_counter() - started)
    if reason:
        notes.append(reason)
    return None


def first_line(error: BaseException) -> str:
    """The error's type and the first line of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
