"""What the source itself shows of rounding on one set of inputs, and the budget that follows from it.

Nothing here runs the converted model but `_twins`, whose results only narrow what a tie excuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from onnxport.validation import tolerance
from onnxport.validation.comparison import as_pairs, is_floating
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.numerics import CARRIERS, outputs_behind
from onnxport.validation.parties import Comparison
from onnxport.validation.runners import Outputs
from onnxport.validation.tolerance import Budget
from onnxport.validation.values import as_table

# Sizes of the moves in units of the last place; the first ones measure noise, all of them show where the source jumps.
_MOVES = (1, 1, 1, 1, 1, 1, 2, 4)
_NOISE_MOVES = 6
# Further moves where columns are computed before trees, or steps on the way: each shows only with some chance which side of a
# threshold a number is on.
_MORE_MOVES = (1, 2, 4) * 8
# As large, in units of the last place: equal distances come to differ, and what is no jump moves by far less than one.
_PARTING = {np.dtype(np.float64): 1 << 20, np.dtype(np.float32): 1 << 6}
_TWINS, _FEW_TWINS = 60, 32
# Which of equal elements these give differs from one framework to another.
_CHOOSING = frozenset(("ArgMax", "ArgMin", "NonMaxSuppression", "TopK"))
_PARTS_OF_ONE = frozenset(("Sigmoid", "Elu", "Selu", "Celu"))
_RECURRENT = frozenset(("RNN", "GRU", "LSTM"))  # which add up such parts, step by step
_SMALL_MOVE = 1e-3
_SINGLE = 2.0**-23  # what a source that computes in float64 may lose to the type that the graph declares


@dataclass(frozen=True)
class Pair:
    """One output of both sides, or one part of an output that is a sequence or map."""

    name: str
    expected: Any  # what the source gives
    result: Any  # what the converted model gives
    index: int  # the output's place among the source's outputs
    converted_index: int  # its place among the converted model's
    path: tuple[Any, ...] = ()  # the keys that lead from the output to the part


@dataclass(frozen=True)
class Evidence:
    """Further runs of the source."""

    truth: Outputs | None = None  # its results in float64; None where it can't
    moved: tuple[Outputs, ...] = ()  # its results with inputs and weights off by a few units in the last place
    # Results of the source and of the converted model on the same inputs, off by enough to part what is tied.
    twins: tuple[tuple[Outputs, Outputs], ...] = ()
    # Epsilon of the coarsest type that it computes in, whatever type its outputs have; None where that is theirs.
    coarse: float | None = None
    stopped: bool = False  # the guard of a foreign file's runs has ended one of these, so that some are missing
    # Places of the graph's outputs that depend on a choice, which alone the twins tell of; None without a graph: of all.
    chosen: frozenset[int] | None = None

    def of_output(self, place: int) -> Evidence:
        """What counts for one output of the graph: a model jumps at a threshold of a tree, too, which excuses nothing."""
        return self if self.chosen is None or place in self.chosen else replace(self, twins=())


def gather(parties: Comparison, item: InputSet, own: Sequence[object]) -> Evidence:
    """The source's further runs, with which an output is judged that rounding of the last place alone does not explain.

    `own` has the inputs in the source's order.
    """
    coarse = parties.source.coarse(own)
    truth, moved = parties.source.run_float64(own), (*_lost_in_float64(parties, own), *_moved(parties, item, coarse))
    stopped = truth is None and len(moved) < len(_MOVES) and bool(parties.source.stopped)
    return Evidence(truth, moved, (), coarse, stopped)


def _lost_in_float64(parties: Comparison, own: Sequence[object]) -> Iterator[Outputs]:
    """Results of a source in float64, off by what its float32 run on the same numbers loses, in units of float64.

    No type is wider to measure against; but rounding errors go with the unit roundoff (Higham, section 2.2), so that those of the
    one run tell of the other where sums cancel, which no small move of the inputs shows.
    """
    start = list(own)
    if not any(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in start):
        return
    with np.errstate(over="ignore"):
        short = [x.astype(np.float32).astype(x.dtype) if _is_float(x) else x for x in start]
    try:
        single = parties.source.run_float32(short)
        if single is not None:
            wide, here = parties.source.run(short), parties.source.run(start)
            yield [(name, _off(x, a, b)) for (name, x), (_, a), (_, b) in zip(here, single, wide, strict=True)]
    except Exception:  # what the model's code does in float32 is its own affair
        return


def _off(x: Any, single: Any, wide: Any) -> Any:
    if not isinstance(x, np.ndarray) or x.dtype != np.float64 or not x.shape == np.shape(single) == np.shape(wide):
        return x
    with np.errstate(invalid="ignore", over="ignore"):
        lost = np.asarray(single, np.float64) - wide
    return x + np.where(np.isfinite(lost), lost, 0.0) * (tolerance.epsilon(x.dtype) / _SINGLE)


def with_more_moves(parties: Comparison, item: InputSet, evidence: Evidence) -> Evidence:
    """The same with more runs of a source that computes what its trees read or rounds to steps: few of them may show a jump."""
    numerics = parties.source.numerics
    if not (parties.source.computes_in_steps or (numerics.trees and not numerics.direct_trees)):
        return evidence
    more = _moved(parties, item, evidence.coarse, _MORE_MOVES, first=len(_MOVES))
    return replace(evidence, moved=(*evidence.moved, *more))


def with_twins(parties: Comparison, item: InputSet, evidence: Evidence) -> Evidence:
    """The same with runs on parted inputs, for a source that chooses: among neighbours, or which of equal elements is first."""
    chosen: frozenset[int] | None = None
    if parties.graph is not None:
        behind = outputs_behind(parties.graph, lambda node: node.op_type in _CHOOSING)
        chosen = frozenset(place for place, value in enumerate(parties.graph.graph.outputs) if value in behind)
    several = parties.source.tabular and not parties.source.numerics.direct_trees
    if not (several if chosen is None else chosen):
        return evidence
    return replace(evidence, twins=tuple(_twins(parties, item, _TWINS if several else _FEW_TWINS)), chosen=chosen)


def _moved(
    parties: Comparison, item: InputSet, coarse: float | None, sizes: Sequence[int] = _MOVES, first: int = 0
) -> Iterator[Outputs]:
    """Where trees read the inputs as they are, nothing is rounded before a threshold: the inputs then stay."""
    start = list(item.leaves)
    if parties.source.own_dtypes and _gives_float64(parties, start):
        # what a source that computes in float64 makes of narrower inputs moves by units of float64
        start = [x.astype(np.float64) if _is_float(x) else x for x in start]
    direct = parties.source.numerics.direct_trees
    for seed, size in enumerate(sizes, first):
        rng = np.random.default_rng(seed)
        leaves = start if direct else [tolerance.nudge(x, size, rng, coarse or 0.0) for x in start]
        try:
            outputs = parties.source.run_moved(parties.source_leaves(leaves), size, seed)
        except Exception:  # an input check of the model's own, as for values above 1
            continue
        if outputs is not None:
            yield outputs


def _twins(parties: Comparison, item: InputSet, count: int) -> Iterator[tuple[Outputs, Outputs]]:
    if not any(_is_float(leaf) for leaf in item.leaves):
        return
    for seed in range(count):
        rng = np.random.default_rng(seed)
        leaves = [_parted(x, rng) if _is_float(x) else x for x in item.leaves]
        try:
            yield parties.source.run(parties.source_leaves(leaves)), parties.converted.run(leaves)
        except Exception:  # an input check of the model's own
            return


def _parted(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers off by enough to part distances that are equal, zeros too."""
    size = _PARTING.get(x.dtype, 1) * tolerance.epsilon(x.dtype)
    scale = np.max(np.abs(x), where=np.isfinite(x) & (x != 0), initial=0.0) or 1.0
    steps = size * rng.choice(np.asarray([-1.0, 1.0]), x.shape) * rng.uniform(0.5, 1.5, x.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.where(x == 0, steps * scale, x.astype(np.float64) * (1.0 + steps)).astype(x.dtype)
        lower = (x.astype(np.float64) * (1.0 - np.abs(steps))).astype(x.dtype)
    return np.where(np.isfinite(moved), moved, lower)  # the greatest numbers have none above them


def _gives_float64(parties: Comparison, leaves: Sequence[object]) -> bool:
    try:
        values = [np.asarray(value) for _, value in parties.source.run(parties.source_leaves(leaves))]
    except (TypeError, ValueError):
        return False
    floating = [value.dtype for value in values if value.dtype.kind == "f"]
    return bool(floating) and all(dtype == np.float64 for dtype in floating)


def budget(parties: Comparison, item: InputSet, pair: Pair, evidence: Evidence | None) -> Budget:
    """How far the elements of a floating-point output may lie apart, from the source's further runs.

    Without these a few units in the last place of each element's scale. What a sigmoid or exp(x) - 1 gives has at least a unit
    of 1: onnxruntime computes it as a part of 1, so that a small result has fewer right digits. What a recurrent layer gives
    has a few: its gates are such parts, of the largest state that there is.
    """
    if pair.expected.shape != pair.result.shape:
        return tolerance.EXACT
    allowed = _budget(parties, item, pair, evidence)
    units = 0.0 if parties.tolerance.given else _units_of_one(parties, pair)
    return allowed.at_least(units * _epsilon(parties, item, pair)) if units else allowed


def _units_of_one(parties: Comparison, pair: Pair) -> float:
    """Of a graph's output that one of these operators, or a post-transform that is a sigmoid, gives, moved at most; else 0."""
    outputs = parties.graph.graph.outputs if parties.graph is not None else ()
    value = outputs[pair.converted_index] if pair.converted_index < len(outputs) and not pair.path else None
    node = value.producer() if value is not None else None
    while node is not None and node.op_type in CARRIERS and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None:
        return 0.0
    if node.domain:  # a name, or its number in TreeEnsemble
        transform = node.attributes.get("post_transform")
        return float(transform is not None and transform.value in ("LOGISTIC", 2))
    if node.op_type in _RECURRENT:
        states = np.abs(pair.expected, dtype=np.float64)
        return tolerance.ULPS * float(np.max(states, where=np.isfinite(states), initial=1.0))
    return float(node.op_type in _PARTS_OF_ONE)


def _budget(parties: Comparison, item: InputSet, pair: Pair, evidence: Evidence | None) -> Budget:
    eps, length, axes = _epsilon(parties, item, pair), parties.source.numerics.length, _axes(parties, pair)
    if evidence is not None:
        truth, moved = _truth(pair, evidence), results(evidence.moved[:_NOISE_MOVES], pair, pair.expected)
        eps = max(eps, evidence.coarse or 0.0)
        options: dict[str, Any] = {"axes": axes, "largest_read": _largest(item)}
        allowed = tolerance.derived(pair.expected, eps=eps, length=length, truth=truth, moved=moved, **options)
        return replace(allowed, exact=parties.source.adds_up_exactly)
    if parties.tolerance.given:
        return tolerance.from_user(parties.tolerance.rtol, parties.tolerance.atol, pair.expected)
    return tolerance.by_rounding(pair.expected, eps=eps, length=length, axes=axes)


def _largest(item: InputSet) -> float:
    """The largest finite number among the inputs."""
    arrays = [np.abs(tolerance.wide(leaf)) for leaf in item.leaves if _is_float(leaf)]
    return max((float(np.max(array, where=np.isfinite(array), initial=0.0)) for array in arrays), default=0.0)


def _epsilon(parties: Comparison, item: InputSet, pair: Pair) -> float:
    """Epsilon of the declared types: the source's output, or what a graph that has types of its own takes and gives."""
    own = tolerance.epsilon(pair.expected.dtype)
    if not (parties.source.own_dtypes or parties.converted.own_dtypes):
        return own
    taken = [tolerance.epsilon(leaf.dtype) for leaf in item.leaves if _is_float(leaf)]
    given = min(tolerance.epsilon(pair.result.dtype), max([_SINGLE, *taken]))
    return max(own, given)


def _axes(parties: Comparison, pair: Pair) -> tuple[int, ...] | None:
    if pair.expected.ndim < 2 or len(pair.expected) < 2:  # one row does not show the scale of its columns
        return None
    if parties.source.says_probabilities(pair.name):
        return (0,)  # the classes of a row share one scale: they add up to 1
    return (-1,) if any(side.says_columns(pair.name) for side in (parties.source, parties.converted)) else None


def jumps(pair: Pair, evidence: Evidence) -> list[np.ndarray]:
    """What else the source gives: in float64, and when its inputs and weights move by a few units in the last place.

    Where several choices are as good, as among equally near neighbours, no such move need show the choice of the converted
    model: its own result counts too where both sides agree on moved inputs, on another result than the source's here, and it lies
    among what the source gives for these.
    """
    others = results(evidence.moved, pair, pair.expected)
    truth = _truth(pair, evidence, floating=False)
    others = [item for item in ([truth] if truth is not None else []) + others if item.shape == pair.expected.shape]
    if not evidence.twins or np.shape(pair.result) != pair.expected.shape:
        return others
    ours = results([twin for twin, _ in evidence.twins], pair, pair.expected)
    theirs = results([twin for _, twin in evidence.twins], replace(pair, index=pair.converted_index), pair.expected)
    if len(ours) != len(theirs) or any(item.shape != pair.expected.shape for item in (*ours, *theirs)):
        return others
    agreed = [_agree(x, y) for x, y in zip(ours, theirs, strict=True)]
    other = [both & ~_agree(x, pair.expected) for both, x in zip(agreed, ours, strict=True)]
    tied = np.any(other, axis=0)
    among = _among(pair.result, [pair.expected, *ours])
    return [*others, np.where(tied & among, pair.result, pair.expected)]


def rounded_otherwise(pair: Pair, evidence: Evidence) -> np.ndarray | None:
    """Elements that stand for steps, or are computed from such, and lie no further off than the source's own further runs.

    A sum that lies within its rounding of a half comes to one step or the next, and what is computed from it to others. None may
    lie off by more steps than any of the source's runs shows, nor all together by more than twice what these show: a wrong step
    or zero point moves all of them. A run of whole numbers that lies more than a step off on average is none of rounding: its
    kernel is wrong.
    """
    others = [item for item in results(evidence.moved, pair, pair.expected) if item.shape == pair.expected.shape]
    if np.shape(pair.result) != pair.expected.shape or pair.expected.size == 0:
        return None
    expected = pair.expected.astype(np.float64)
    most = np.inf if is_floating(pair.expected.dtype) else 1.0
    gaps = [gap for item in others if (gap := np.abs(item.astype(np.float64) - expected)).mean() <= most]
    own = np.abs(pair.result.astype(np.float64) - expected)
    if not gaps or own.mean() > 2.0 * max(gap.mean() for gap in gaps):
        return None
    return np.asarray(own <= max(gap.max() for gap in gaps))


def _agree(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise, as far as a small move of the inputs goes; a jump is more."""
    if a.dtype.kind in "OUSb" or b.dtype.kind in "OUSb":
        return np.asarray(a.astype(str) == b.astype(str))
    size = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
    return np.isclose(a, b, rtol=0.0, atol=_SMALL_MOVE * size, equal_nan=True)


def _among(value: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """Where an element is one of the others, or of floating-point numbers no further from them than they lie apart."""
    if value.dtype.kind != "f":
        return np.asarray(np.any([value.astype(str) == item.astype(str) for item in others], axis=0))
    low, high = np.min(others, axis=0), np.max(others, axis=0)  # a few of the choices there are
    return (value >= low - (high - low)) & (value <= high + (high - low))


def results(runs: Sequence[Outputs], pair: Pair, like: np.ndarray) -> list[np.ndarray]:
    """One output's (or part's) values in each of several runs, in the shape of `like`; runs without it are left out."""
    values = [as_table(_part(run[pair.index][1], pair.path)) for run in runs if pair.index < len(run)]
    return [shaped_like(np.asarray(value), like) for value in values if value is not None]


def _part(value: object, path: tuple[object, ...]) -> object:
    for key in path:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def shaped_like(value: np.ndarray, like: np.ndarray) -> np.ndarray:
    """A vector as the one column that a graph gives it as, or the other way round; complex numbers as pairs."""
    value = as_pairs(value, like)
    if (*value.shape, 1) == like.shape or value.shape == (*like.shape, 1):
        return value.reshape(like.shape)
    return value


def _truth(pair: Pair, evidence: Evidence, *, floating: bool = True) -> np.ndarray | None:
    """The float64 result for an output; None where the model fell back to a narrower type by itself."""
    if evidence.truth is None:
        return None
    value = next(iter(results([evidence.truth], pair, pair.expected)), None)
    if value is None or value.shape != pair.expected.shape:
        return None
    wide = value.dtype in (np.dtype(np.float64), np.dtype(np.complex128))
    return value if wide == is_floating(pair.expected.dtype) and (wide or not floating) else None


def _is_float(leaf: object) -> TypeGuard[np.ndarray]:
    return (
        isinstance(leaf, np.ndarray) and is_floating(leaf.dtype) and leaf.dtype.kind != "c" and leaf.dtype.itemsize > 1
    )
