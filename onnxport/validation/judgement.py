"""The verdicts on the outputs of one set of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Number
from typing import Any

import numpy as np

from onnxport.frameworks import HUB
from onnxport.validation import tolerance
from onnxport.validation.comparison import (
    RANDOM,
    RANDOM_SHAPE,
    STOPPED,
    OutputReport,
    as_pairs,
    is_floating,
    judge,
    worst_of,
)
from onnxport.validation.evidence import (
    Evidence,
    Pair,
    budget,
    gather,
    jumps,
    rounded_otherwise,
    shaped_like,
    with_more_moves,
    with_twins,
)
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.numerics import random_outputs
from onnxport.validation.parties import Comparison
from onnxport.validation.runners import Outputs
from onnxport.validation.runners.base import travelled
from onnxport.validation.ties import of_equal_elements
from onnxport.validation.values import as_table

# Beyond this share of a value a difference is no rounding: the root of the type's epsilon.
_SMALL = {"float64": 2.0**-26, "float32": 2.0**-11.5, "float16": 2.0**-5}
# Runs of a random source, and how many standard errors their sums may lie apart: beyond 7 once in 10^11 by chance.
_RUNS, _DEVIATIONS = 64, 7.0
_TRIES = 8  # further runs of both sides where their shapes differ


def judged(parties: Comparison, item: InputSet, own: Sequence[Any], pairs: Sequence[Pair]) -> list[OutputReport]:
    """The verdict on each output: at first on a few units in the last place, then on what further runs of the source show.

    What agrees within a few units agrees within the budget too, which is never smaller: the further runs are for the rest.
    """
    trial = Trial.of(parties, item, own, pairs)
    reports = [trial.verdict(pair) for pair in trial.pairs]
    reports = [trial.but_random(pair, report) for pair, report in zip(trial.pairs, reports, strict=True)]
    if parties.tolerance.given:
        return reports
    evidence: Evidence | None = None
    looks = (
        lambda _: gather(parties, item, own),
        lambda seen: with_more_moves(parties, item, seen),
        lambda seen: with_twins(parties, item, seen),
    )
    for look in looks:
        if not any(_is_open(report) for report in reports):
            break
        evidence = look(evidence)
        judged_so_far = zip(trial.pairs, reports, strict=True)
        reports = [trial.verdict(pair, evidence) if _is_open(seen) else seen for pair, seen in judged_so_far]
    if evidence is not None and evidence.stopped:
        return [_undecided(report) for report in reports]
    return reports


def _undecided(report: OutputReport) -> OutputReport:
    """A floating-point output that lies so near that only the runs which were stopped could tell is not decided."""
    figures = report.figures
    if not _is_open(report) or figures is None or report.dtype not in _SMALL or figures.cosine is None:
        return report
    if figures.max_abs > _SMALL[report.dtype] * max(abs(figures.source), abs(figures.converted)):
        return report
    return replace(report, verdict="unproved", reason=STOPPED)


def _is_open(report: OutputReport) -> bool:
    """Whether values alone failed, not type or shape: further runs may tell that it is rounding."""
    return report.verdict == "fail" and report.figures is not None


@dataclass(frozen=True)
class Trial:
    """Both sides' results on one set of inputs."""

    parties: Comparison
    item: InputSet  # the set of inputs, in graph order
    own: Sequence[Any]  # the same in the source's order
    pairs: tuple[Pair, ...]
    same_dtype: bool  # element types must be equal; else their kinds must

    @classmethod
    def of(cls, parties: Comparison, item: InputSet, own: Sequence[Any], pairs: Sequence[Pair]) -> Trial:
        """A trial on the source's values in the form that the other side's type system gives them."""
        same = not (parties.source.own_dtypes or parties.converted.own_dtypes)
        moved = []
        for pair in pairs:
            pair = _in_tables(pair)
            expected = _comparable(parties, pair, same)
            if parties.source.dtypes_vary or pair.name == "inverse_transform":
                expected = _as_floating(expected, pair.result)
            moved.append(replace(pair, expected=expected))
        return cls(parties, item, own, tuple(moved), same)

    def verdict(self, pair: Pair, evidence: Evidence | None = None) -> OutputReport:
        """The verdict on one output, part by part where it is a sequence or map."""
        expected, result = pair.expected, pair.result
        if isinstance(expected, list) and isinstance(result, list) and len(expected) == len(result):
            return self._of_parts(pair, range(len(expected)), evidence)
        if isinstance(expected, dict) and isinstance(result, dict) and set(expected) == set(result):
            return self._of_parts(pair, list(expected), evidence)
        if not isinstance(expected, np.ndarray) or not isinstance(result, np.ndarray):
            return judge(pair.name, expected, result, tolerance.EXACT, same_dtype=self.same_dtype)
        pair = replace(pair, expected=as_pairs(expected, result))
        says_labels = not pair.path and self.parties.source.says_labels(pair.name)
        allowed = tolerance.EXACT
        if is_floating(pair.expected.dtype) and is_floating(result.dtype) and not says_labels:
            allowed = budget(self.parties, self.item, pair, evidence)
        exempt = self._undecided(pair) if evidence is not None else None
        others = jumps(pair, evidence.of_output(self._place(pair))) if evidence is not None else ()
        in_steps = is_floating(pair.expected.dtype) and self.parties.source.computes_in_steps
        if evidence is not None and (in_steps or self.parties.source.says_steps(pair.name)):
            exempt, others = rounded_otherwise(pair, evidence), ()
        options: dict[str, Any] = {"same_dtype": self.same_dtype, "exempt": exempt, "others": others}
        return judge(pair.name, pair.expected, result, allowed, **options)

    def _of_parts(self, pair: Pair, keys: Sequence[Any], evidence: Evidence | None) -> OutputReport:
        reports = []
        for key in keys:
            expected, result = _as_array(pair.expected[key]), _as_array(pair.result[key])
            name, path = f"{pair.name}[{key!r}]", (*pair.path, key)
            part = replace(pair, name=name, expected=expected, result=result, path=path)
            reports.append(self.verdict(part, evidence))
        return worst_of(pair.name, reports, "a map" if isinstance(pair.expected, dict) else "a sequence")

    def _undecided(self, pair: Pair) -> np.ndarray | None:
        """Labels that the source itself can't tell within the rounding of its scores; places of equal elements."""
        length = self.parties.source.numerics.length
        arrays = (leaf for leaf in self.item.leaves if isinstance(leaf, np.ndarray) and is_floating(leaf.dtype))
        eps = max((tolerance.epsilon(leaf.dtype) for leaf in arrays), default=2.0**-23)
        slack = 2 * (tolerance.ULPS + 2 * np.sqrt(length)) * eps
        known = self.parties.source.undecided(self.own, pair.name, slack)
        if known is not None or self.parties.graph is None or pair.path:
            return known
        return of_equal_elements(self.parties.graph, self._place(pair), self.item.leaves, pair.expected, pair.result)

    def _place(self, pair: Pair) -> int:
        """The output's place among the graph's, which is one of the sides or lies between them."""
        return pair.index if self.parties.source.graph is not None else pair.converted_index

    def but_random(self, pair: Pair, report: OutputReport) -> OutputReport:
        """The report, but for values that the source draws anew each time: those are unproved."""
        if not self.item.certain and self._is_of_random_shape(pair, report):
            return OutputReport(pair.name, "unproved", RANDOM_SHAPE, report.dtype, report.shape)
        if self.item.certain or not self._is_random(pair, report):
            return report
        if self.parties.has_certain_sets and (reason := self._differs_over_runs(pair)):
            return OutputReport(pair.name, "fail", reason, report.dtype, report.shape)
        return OutputReport(pair.name, "unproved", RANDOM, report.dtype, report.shape)

    def _is_of_random_shape(self, pair: Pair, report: OutputReport) -> bool:
        """Whether a shape differs that the source does not give twice, or that the converted model gives at another time."""
        if report.verdict != "fail" or not (
            isinstance(pair.expected, np.ndarray) and isinstance(pair.result, np.ndarray)
        ):
            return False
        usual = pair.expected.shape
        if pair.result.shape == usual:
            return False
        return any(self._shape_again(pair) != usual or self._converted_shape(pair) == usual for _ in range(_TRIES))

    def _shape_again(self, pair: Pair) -> tuple[int, ...]:
        """The shape that the source gives on the same inputs once more; the one seen where it can't run."""
        try:
            value = self.parties.source.run(self.own)[pair.index][1]
        except Exception:  # the source is the user's: any error at all
            return np.shape(pair.expected)
        return np.shape(_comparable(self.parties, replace(pair, expected=value), self.same_dtype))

    def _converted_shape(self, pair: Pair) -> tuple[int, ...]:
        """The shape that the converted model gives on the same inputs once more."""
        return np.shape(self.parties.converted.run(self.item.leaves)[pair.converted_index][1])

    def _is_random(self, pair: Pair, report: OutputReport) -> bool:
        """Whether the source draws an output anew each time, so that agreement and difference are chance alike."""
        named = self._drawn_by_name(pair)
        if named and _is_open(report):
            return True
        again = self._again if named or _is_open(report) else None
        if again is None or pair.index >= len(again):
            return False
        same = _comparable(self.parties, replace(pair, expected=again[pair.index][1]), self.same_dtype)
        return _is_open(self.verdict(replace(pair, result=same)))

    def _drawn_by_name(self, pair: Pair) -> bool:
        """Whether an output depends on a random operator: of the source's graph, else of that which it became."""
        if self.parties.source.graph is not None:
            return pair.name in self.parties.source.numerics.random
        graph = self.parties.graph if self.parties.has_certain_sets else None
        if graph is None or pair.converted_index >= len(graph.graph.outputs):
            return False
        return graph.graph.outputs[pair.converted_index] in random_outputs(graph)

    def _differs_over_runs(self, pair: Pair) -> str | None:
        """How the sums of a random output differ over many runs, beyond chance (Welch's t); None where they don't.

        A source of another framework that never changes is random all the same where its value is the converted model's
        usual one (a draw with a probability near 0 or 1). An ONNX source that never changes has a seed: its mean is
        not known. Nor is that of a converted model that never changes by the seed of its source, which in onnxruntime
        begins one sequence for all runs.
        """
        runs = [(self.parties.source.run(self.own), self.parties.converted.run(self.item.leaves)) for _ in range(_RUNS)]
        ours = [float(np.sum(source[pair.index][1])) for source, _ in runs]
        theirs = [float(np.sum(converted[pair.converted_index][1])) for _, converted in runs]
        if not np.var(ours):
            usual = self.parties.source.graph is not None or 2 * theirs.count(ours[0]) >= _RUNS
            return None if usual else f"random, and the source gave the same numbers on {_RUNS} runs"
        if not np.var(theirs):
            source = self.parties.source.graph
            if source is not None and any("seed" in node.attributes for node in source.graph.all_nodes()):
                return None
            gap = float("inf")
        else:
            error = np.sqrt((np.var(ours) + np.var(theirs)) / _RUNS)
            gap = float(abs(np.mean(ours) - np.mean(theirs)) / error)
        return (
            f"random, and the sums of {_RUNS} runs differ: by {gap:.0f} standard errors" if gap > _DEVIATIONS else None
        )

    @cached_property
    def _again(self) -> Outputs | None:
        """What the source gives on the same inputs once more."""
        try:
            return self.parties.source.run(self.own)
        except Exception:  # the source is the user's: any error at all
            return None


def _in_tables(pair: Pair) -> Pair:
    """Maps of numbers, one a row, as tables on both sides: the numbers of all rows and keys share one scale."""
    if not (isinstance(pair.expected, list) and isinstance(pair.result, list)):
        return pair
    expected, result = as_table(pair.expected), as_table(pair.result)
    tables = isinstance(expected, np.ndarray) and isinstance(result, np.ndarray)
    if not tables or set(pair.expected[0]) != set(pair.result[0]):
        return pair
    return replace(pair, expected=_as_given(expected), result=_as_given(result))


def _as_given(table: np.ndarray) -> np.ndarray:
    """onnxruntime gives the float32 of a map as Python numbers."""
    return table.astype(np.float32) if table.dtype == np.float64 else table


def _comparable(parties: Comparison, pair: Pair, same: bool) -> Any:
    """The source's value in the form that the other side's type system gives it.

    Numbers a row may come as a column, as other converters write them; labels may not: every one writes them as a row.
    """
    expected, result = pair.expected, pair.result
    if parties.converted.framework != HUB and parties.source.framework == HUB:
        expected = travelled(expected, parties.converted.rare_types)
    if isinstance(expected, list) and isinstance(result, dict) and all(isinstance(row, dict) for row in expected):
        # a map a row against a column a key; onnxruntime's Python interface gives float32 as Python numbers
        kinds = {key: np.asarray(column).dtype for key, column in result.items()}
        return {key: np.array([row[key] for row in expected], dtype) for key, dtype in kinds.items()}
    if isinstance(expected, (bool, int, float)) and isinstance(result, np.ndarray):
        natural = np.asarray(expected)
        expected = natural.astype(result.dtype) if natural.dtype.kind == result.dtype.kind else natural
    if isinstance(expected, np.ndarray) and isinstance(result, np.ndarray) and not same:
        row_of_labels = expected.ndim == 1 and parties.source.says_labels(pair.name)
        expected = _without_none(expected if row_of_labels else shaped_like(expected, result), result.dtype)
    return expected


def _as_floating(expected: Any, result: Any) -> Any:
    """Whole numbers in the type of the result, where that has NaN for rows that stand for none."""
    both = isinstance(expected, np.ndarray) and isinstance(result, np.ndarray)
    whole = both and expected.dtype.kind in "iub" and result.dtype.kind == "f"
    return expected.astype(result.dtype) if whole else expected


def _without_none(expected: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """What stands for no category among an encoder's: the words "None" and "nan" among strings, NaN among numbers."""
    if expected.dtype.kind != "O":
        return expected
    if dtype.kind == "f" and all(item is None or isinstance(item, Number) for item in expected.flat):
        return np.array([np.nan if item is None else item for item in expected.flat], dtype).reshape(expected.shape)
    spelled = [str(item) if item is None or item != item else item for item in expected.flat]
    return np.array(spelled, object).reshape(expected.shape) if dtype.kind == "O" else expected


def _as_array(value: object) -> Any:
    """A number inside a map or sequence as what it is in the graph: onnxruntime gives float32 as Python numbers."""
    if isinstance(value, np.generic):
        return np.asarray(value)
    return np.asarray(value, np.float32) if isinstance(value, float) else value
