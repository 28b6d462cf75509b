"""Which sets of inputs a proof runs, in which order and for how long, and what the source gives on them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import ceil
from typing import Any

import numpy as np

from onnxport.errors import InvalidInputError, OnnxportError, first_line, reason_of
from onnxport.graph import decisions
from onnxport.graph.provenance import user_line
from onnxport.validation.branches import Branches
from onnxport.validation.comparison import is_floating
from onnxport.validation.input_sets import edges, lookups
from onnxport.validation.input_sets.base import InputSet, Kind, own_inputs
from onnxport.validation.input_sets.boundaries import rows_at_boundaries
from onnxport.validation.input_sets.certain import certain_sets
from onnxport.validation.input_sets.domains import defined_on_nan, takes_empty
from onnxport.validation.input_sets.drawn import DrawnInputs
from onnxport.validation.input_sets.given import GivenInputs
from onnxport.validation.input_sets.ledger import Ledger, bytes_of
from onnxport.validation.input_sets.masks import unmasked
from onnxport.validation.input_sets.sizes import alone, labelled, plans
from onnxport.validation.input_sets.tables import other_rows, table_sets
from onnxport.validation.input_sets.tree_rows import rows_at_thresholds
from onnxport.validation.parties import Comparison
from onnxport.validation.runners import Outputs, Runner
from onnxport.validation.runners.base import InputSpec
from onnxport.validation.surroundings import Reading, readings_of

SECONDS = 1.0  # a search for a first set on which each output has a number takes so long
_LONG, _PART = 4096, 16  # a table with more rows than 4,096 is asked for the first 16th of them before the whole
_EVERY, _FITTING = "every row of tables", "as many rows of tables as fit"
_TREE_ROWS = 32  # rows drawn for trees, from which those at their thresholds come


class SourceCannotRun(OnnxportError):
    """The source runs on none of the inputs that were drawn for it."""


@dataclass(frozen=True)
class SourceRun:
    """What the source gives on a set of inputs, and in how many seconds."""

    inputs: InputSet
    outputs: Outputs
    seconds: float


# Sizes at which the source decides otherwise, and the conditions under which it does not.
_Excluded = tuple[Sequence[Mapping[str, int]], Sequence[decisions.Condition]]
_Inputs = GivenInputs | DrawnInputs  # where sets come from: what the user gave, or a graph's signature


def source_runs(
    parties: Comparison,
    seed: int,
    notes: list[str],
    readings: list[Reading] | None = None,
) -> Iterator[SourceRun]:
    """The source's results on one set of inputs after the other; what it can't run on, or there is no time for, goes to `notes`.

    What its first run reads of its surroundings is added to `readings`.

    The time between two sets counts as the time of the first: what the caller does with it is part of its price.

    Raises:
        InvalidInputError: the source can't run on the user's own inputs, or takes more memory or time than a file may cost.
        SourceCannotRun: it runs on none of those that were drawn.
    """
    inputs = _inputs(parties, seed)
    ledger = Ledger()
    with readings_of(readings is not None and parties.source.graph is None) as read:
        first = _telling_run(parties, inputs, notes)
    if readings is not None:
        readings += read
    if first is None and not parties.source.stopped and parties.source.stand_in():
        first = _telling_run(parties, inputs, notes)
    if first is None and parties.source.stopped:
        raise InvalidInputError(parties.source.stopped)
    if first is None:
        raise SourceCannotRun(f"the source model can't run on drawn inputs; pass inputs=(...). {' '.join(notes[-1:])}")
    inputs.settle(first.inputs)
    yield first
    ledger.open(first.inputs, first.outputs, again=partial(_run_again, parties, first.inputs))
    branches = Branches.of(parties)
    if branches is not None:
        branches.note(first.inputs)
    further = partial(_further, parties, inputs, first, seed, ledger)
    once_more = chain.from_iterable(further() for _ in ledger.second_turn())
    for candidates in chain(further(), once_more, _on_other_ways(branches, first.inputs)):
        if parties.source.stopped:
            notes.append(f"further inputs were left out: {parties.source.stopped}")
            break
        before = ledger.spent()
        try:
            run = next(_runs(parties, ledger.affordable(candidates), notes), None)
        except InvalidInputError as error:  # a shape too large to draw
            notes.append(f"left out: {type(error).__name__}: {first_line(error)}")
            continue
        if run is not None:
            yield run
            ledger.learn(run.inputs, run.seconds, ledger.spent() - before)
            if branches is not None:
                branches.note(run.inputs)
    notes += branches.notes() if branches is not None else ()
    if ledger.left_out:
        notes.append(f"left out for time: {', '.join(ledger.left_out)}")


def _inputs(parties: Comparison, seed: int) -> _Inputs:
    example, specs = parties.source.example, parties.specs
    if example is None:
        if parties.graph is None:
            raise InvalidInputError("pass inputs=...: neither side has a signature to draw them from")
        return DrawnInputs(parties.graph, seed)
    leaves = example.leaves if parties.order is None else tuple(example.leaves[i] for i in parties.order)
    if specs is not None:
        leaves = tuple(_as_declared(leaf, spec, parties.source) for leaf, spec in zip(leaves, specs, strict=True))
    whole = specs is not None and parties.order is not None and len(parties.order) == len(example.leaves)
    return GivenInputs(leaves, specs, parties.graph, resizable=whole)


def _further(
    parties: Comparison, inputs: _Inputs, first: SourceRun, seed: int, ledger: Ledger
) -> Iterator[Iterable[InputSet]]:
    """The sets beyond the first, each as candidates of which the first counts that the source can run on."""
    if isinstance(inputs, GivenInputs) and (parties.source.tabular or parties.converted.tabular):
        missing = parties.source.allows_missing
        sets = table_sets(inputs.leaves, missing=missing, seed=seed)
        yield from ([item] for item in sets if _rows_fit(item, parties.specs))
        yield (item for item in _other_rows(parties, inputs, seed) if _rows_fit(item, parties.specs))
        yield (item for item in _at_thresholds(parties, inputs, seed) if _rows_fit(item, parties.specs))
        if all(isinstance(value, np.ndarray) and not is_floating(value.dtype) for _, value in first.outputs):
            yield (item for item in _at_boundaries(parties, inputs, ledger, seed) if _rows_fit(item, parties.specs))
        return
    metadata = parties.graph.metadata_props if parties.graph is not None else {}
    excluded = [sizes for sizes in decisions.read(metadata) if sizes.keys() <= inputs.sizes.keys()]
    conditions = decisions.read_conditions(metadata)
    at = partial(_at_plan, inputs, (excluded, conditions), ledger)
    certain = _at_plan(
        inputs, (excluded, conditions), None, "nothing left to chance", (inputs.sizes,), "ordinary", seed
    )
    yield certain_sets(parties.chances, certain, seed)
    yield unmasked(inputs.leaves) if isinstance(inputs, GivenInputs) else ()
    others = list(plans(inputs.sizes, inputs.batch, inputs.steps))
    if not others:
        yield inputs.at("other values", inputs.sizes, "ordinary", seed + 1)
    yield _at_thresholds(parties, inputs, seed)
    for plan in others[:1]:
        yield at(plan.words, plan.candidates, "ordinary", seed)
    for sizes in excluded:  # these may be large: what a run takes is known better now
        yield at("where the source decides otherwise", (inputs.sizes | sizes,), "ordinary", seed)
    for plan in others[1:2]:
        yield at(plan.words, plan.candidates, "ordinary", seed)
    rows = {name: edges.ROWS if name in inputs.batch else size for name, size in inputs.sizes.items()}
    yield at("edges", (rows, inputs.sizes), "edges", seed)
    yield from _at_tables(parties, inputs, ledger, seed)
    windows = parties.source.windows_without_rows and parties.converted.windows_without_rows
    for plan in others[2:]:
        if plan.empty and (parties.graph is None or not takes_empty(parties.graph.graph, windows=windows)):
            continue
        yield at(plan.words, plan.candidates, "ordinary", seed)
    if not parties.source.settles_nan:
        return
    products = parties.source.products_keep_nan and parties.converted.products_keep_nan
    if parties.graph is None or not defined_on_nan(parties.graph.graph, products=products):
        return
    if parties.source.computes_complex(parties.source_leaves(first.inputs.leaves)):
        return  # which part of a product, or of a sum with a real number, becomes NaN differs between kernels of one framework
    few = {name: len(edges.NOT_FINITE) if name in inputs.batch else size for name, size in inputs.sizes.items()}
    yield at("not finite", (few, inputs.sizes), "not finite", seed)


def _on_other_ways(branches: Branches | None, first: InputSet) -> Iterator[Iterable[InputSet]]:
    """Sets that take branches which none has taken so far."""
    yield from ([item] for item in branches.others(first.leaves)) if branches is not None else ()


def _other_rows(parties: Comparison, inputs: GivenInputs, seed: int) -> Iterator[InputSet]:
    """Rows of a table that nobody gave."""
    fixed = [spec.dims[0] for spec in parties.specs or () if spec.dims and isinstance(spec.dims[0], int)]
    values = own_inputs(parties.graph) if parties.graph is not None else None
    order = parties.order if parties.order is not None else range(len(inputs.leaves))
    known = {
        (order.index(leaf), place): item for (leaf, place), item in parties.source.categories.items() if leaf in order
    }
    return other_rows(inputs.leaves, values, known, count=fixed[0] if fixed else None, seed=seed)


def _at_boundaries(parties: Comparison, inputs: GivenInputs, ledger: Ledger, seed: int) -> Iterator[InputSet]:
    """Rows between which the source's labels change, near those given and those that nobody gave."""

    def labels_of(leaves: Sequence[Any]) -> list[np.ndarray]:
        if not ledger.allows("at boundaries", 0, cheap=True):
            raise TimeoutError
        return [np.asarray(value) for _, value in parties.source.run(parties.source_leaves(tuple(leaves)))]

    others = next(_other_rows(parties, inputs, seed), None)
    near = [inputs.leaves, *([others.leaves] if others is not None else [])]
    try:
        rows = [np.concatenate(leaf) for leaf in zip(*near, strict=True)]
        at_both_sides = rows_at_boundaries(labels_of, rows, np.random.default_rng(seed))
    except Exception:  # of whatever estimator: it can't run on them, or gives not one label a row; or there is no time
        return
    if at_both_sides is not None:
        yield InputSet("at boundaries", at_both_sides, cheap=True)


def _rows_fit(item: InputSet, specs: Sequence[InputSpec] | None) -> bool:
    """Whether a table has as many rows as the graph takes, where that is a number."""
    fixed = [(spec.dims[0], leaf) for spec, leaf in zip(specs or (), item.leaves) if spec.dims]
    return all(not isinstance(rows, int) or len(leaf) == rows for rows, leaf in fixed)


def _at_thresholds(parties: Comparison, inputs: _Inputs, seed: int) -> Iterator[InputSet]:
    graph = parties.graph
    if graph is None or not any(node.op_type.startswith("TreeEnsemble") for node in graph.graph):
        return
    rows = {name: _TREE_ROWS if name in inputs.batch else size for name, size in inputs.sizes.items()}
    drawn = [] if isinstance(inputs, GivenInputs) else inputs.at("", rows, "ordinary", seed)
    given = [inputs.leaves] if isinstance(inputs, GivenInputs) else []
    for near in chain(given, (item.leaves for item in drawn)):
        leaves = rows_at_thresholds(graph, near, np.random.default_rng(seed))
        if leaves is None:
            return
        yield InputSet("at thresholds", leaves, cheap=True)


def _at_tables(parties: Comparison, inputs: _Inputs, ledger: Ledger, seed: int) -> Iterator[Iterable[InputSet]]:
    """Every row of the tables by itself; before them the first ones, which tell what a row takes.

    Of a table that is no vocabulary the first ones run only where there seems to be no time for all.
    """
    looked_up = lookups.tables(parties.graph) if parties.graph is not None else {}
    if not looked_up:
        return
    first = {place: ceil(rows / _PART) for place, rows in looked_up.items()}
    few = _at_rows(first, "the first rows of tables", inputs, ledger, seed) if inputs.batch else ()
    every = partial(_at_rows, looked_up, _EVERY, inputs, ledger, seed)
    yield every() if max(looked_up.values()) <= _LONG else ()
    missing = not ledger.has_run(_EVERY, _FITTING)
    yield few if missing else ()
    yield every() if missing else ()


def _at_rows(
    looked_up: Mapping[int, int], words: str, inputs: _Inputs, ledger: Ledger, seed: int
) -> Iterator[InputSet]:
    """So many rows of the tables, in samples of length 1; with others where the source takes no such samples."""
    rows = {name: 1 if name in inputs.batch else size for name, size in inputs.sizes.items()}
    short = rows | alone(rows, [name for name in rows if name not in inputs.batch], inputs.steps)
    for one in (short, rows) if short != rows else (rows,):
        like = next(inputs.at("", one, "ordinary", seed)).leaves
        sizes = lookups.rows_for(looked_up, like, one, inputs.batch)
        times = max((sizes[name] // one[name] for name in inputs.batch if one[name]), default=1)
        named = labelled(words if lookups.all_asked(looked_up, like, times) else _FITTING, sizes)
        if not ledger.allows(named, bytes_of(like) * times):
            return  # before it is drawn: the other inputs get as many rows
        for item in inputs.at(named, sizes, "ordinary", seed):
            yield replace(item, leaves=lookups.with_every_row(looked_up, item.leaves, np.random.default_rng(seed)))


def _at_plan(
    inputs: _Inputs,
    excluded: _Excluded,
    ledger: Ledger | None,
    words: str,
    candidates: Iterable[Mapping[str, int]],
    kind: Kind,
    seed: int,
) -> Iterator[InputSet]:
    """The sets at some sizes; what a ledger does not allow is not drawn, which takes time too."""
    others, conditions = excluded
    for sizes in candidates:
        if ledger is not None and not ledger.allows(labelled(words, sizes), inputs.bytes_at(sizes)):
            continue
        beyond = any(item.items() <= sizes.items() for item in others) or any(item.broken(sizes) for item in conditions)
        for item in inputs.at(labelled(words, sizes), sizes, kind, seed):
            yield replace(item, beyond=beyond)


def _as_declared(leaf: object, spec: InputSpec, source: Runner) -> Any:
    """A table's values in the element type that the graph takes them in: both sides get the rounded values."""
    if not source.own_dtypes or not isinstance(leaf, np.ndarray) or spec.dtype is None or leaf.dtype == spec.dtype:
        return leaf
    if spec.dtype.kind == "O" or leaf.dtype.kind == "O":
        return leaf
    return leaf.astype(spec.dtype)


def _telling_run(parties: Comparison, inputs: _Inputs, notes: list[str]) -> SourceRun | None:
    """The first set to run on: where there is a choice, one on which each output has a number to compare."""
    first: SourceRun | None = None
    started = time.perf_counter()
    for run in _runs(parties, inputs.first(), notes):
        if all(_tells(value) for _, value in run.outputs):
            return run
        first = first or run
        if time.perf_counter() - started > SECONDS:
            break
    return first


def _run_again(parties: Comparison, item: InputSet) -> bool:
    """Whether both sides run on a set on which they have run before."""
    try:
        parties.source.run(parties.source_leaves(item.leaves))
        parties.converted.run(item.leaves)
    except Exception:  # of whatever framework: the set's own judgement tells
        return False
    return True


def _tells(value: object) -> bool:
    """Whether an output holds anything but NaN."""
    if not isinstance(value, np.ndarray):
        return True
    if is_floating(value.dtype):
        value = value if value.dtype.kind == "c" else value.astype(np.float64)
        return not bool(np.isnan(value).all())
    return bool(value.size)


def _described(leaf: object) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}" if isinstance(leaf, np.ndarray) else type(leaf).__name__


def _runs(parties: Comparison, candidates: Iterable[InputSet], notes: list[str]) -> Iterator[SourceRun]:
    """What the source gives on those of the sets that it can run on; where these are none, `notes` has the reason."""
    reason, ran = "", False
    for item in candidates:
        own = parties.source_leaves(item.leaves)
        started = time.perf_counter()
        try:
            expected = parties.source.run(own)
        except Exception as error:  # the source is the user's: any error at all
            described = f"{type(error).__name__}: {reason_of(error)}"
            if not item.optional:
                line = user_line(error)
                place = f" (at {line})" if line else ""
                example = parties.source.example
                names = example.names if example is not None and 1 < len(example.names) == len(own) else [""] * len(own)
                given = ", ".join(f"{name} {_described(leaf)}".strip() for name, leaf in zip(names, own, strict=True))
                raise InvalidInputError(
                    f"the source model can't run on the inputs: {described}{place}\ngiven: {given}: pass inputs that the model "
                    "itself runs on"
                ) from error
            reason = reason or f"{item.name}: left out, the source can't run on it: {described}"
            continue
        ran = True
        yield SourceRun(item, expected, time.perf_counter() - started)
    if reason and not ran:
        notes.append(reason)
