"""Planted wrong conversions that the proof must catch, and right ones that it must not refuse.

Each mutant is the right ONNX graph of a model with one change. It is compared with the model that the graph was converted from
(live to ONNX), rebuilt in a framework and compared with the right graph (ONNX to a framework), or rebuilt and compared with
the live model. Inputs are drawn wherever one side is a graph.

    python -m scripts.conformance.mutants               # all of it; writes the table into docs/validation.md
    python -m scripts.conformance.mutants --sample 40   # a seeded sample, without the demo's models
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import onnxport
from onnxport.errors import OnnxportError
from onnxport.graph.runtime import Session
from onnxport.tracing.onnx import as_onnx_model
from onnxport.validation.input_sets.drawn import DrawnInputs
from onnxport.validation.runners.onnx_wide import WideGraph
from scripts.conformance.mutants_changes import changes
from scripts.conformance.mutants_subjects import Right, Subject, demo, rights, small

SEED = 20261122
PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation.md"
BEGIN, END = "<!-- mutants: begin -->", "<!-- mutants: end -->"
# Draws on which a mutant that passed is compared with the right graph in float64.
_DRAWS = 200
# Above this, relative to the output, a difference in float64 is no rounding.
_ROUNDING = 2.0**-20


@dataclass(frozen=True)
class Outcome:
    """How one proof ended.

    Attributes:
        pair: the frameworks.
        name: of the model.
        change: what was changed; empty for a right conversion.
        result: of a mutant ``caught``, ``missed``, ``unproved`` or ``equivalent``; of a right one ``passed``, ``alarm`` or
            ``unproved``.
    """

    pair: str
    name: str
    change: str
    result: str


@dataclass(frozen=True)
class Mutant:
    """A subject with a changed graph, and the framework that the graph is rebuilt in."""

    subject: Subject
    change: str
    proto: onnx.ModelProto
    target: str


def mutants(subjects: list[Subject], each: int, draw: random.Random) -> Iterator[Mutant]:
    """Up to `each` changes of every subject's graph, for each of its targets in turn; a graph that does not load is none."""
    for subject in subjects:
        found = list(changes(subject.graph, draw))
        draw.shuffle(found)
        kept = 0
        for change, proto in found:
            if kept == each:
                break
            if loads(proto):
                yield Mutant(subject, change, proto, subject.targets[kept % len(subject.targets)])
                kept += 1


def loads(proto: onnx.ModelProto) -> bool:
    """Whether onnxruntime loads a changed graph: one that it refuses proves nothing about the proof."""
    try:
        return Session(proto).backend == "onnxruntime"
    except OnnxportError:
        return False


def outcome(mutant: Mutant) -> Outcome | None:
    """The proof of a mutant; None where it can't be rebuilt."""
    subject, target = mutant.subject, mutant.target
    try:
        converted = mutant.proto
        if target != "onnx":
            converted = onnxport.convert(mutant.proto, to=target, validate=False)
        # Two live models have no signature: then the inputs are given.
        inputs = subject.inputs if subject.framework != "onnx" and target != "onnx" else None
        report = onnxport.validate(subject.model, converted, inputs=inputs)
    except OnnxportError:
        return None
    result = {"failed": "caught", "unproved": "unproved", "passed": "missed"}[report.verdict]
    if result == "missed" and not differs(subject.graph, mutant.proto):
        result = "equivalent"
    return Outcome(f"{subject.framework} to {target}", subject.name, mutant.change, result)


def differs(right: onnx.ModelProto, wrong: onnx.ModelProto) -> bool:
    """Whether two graphs differ in float64 on any of many draws; where they have no float64 form, in their own types."""
    try:
        sides: list[Any] = [WideGraph(right), WideGraph(wrong)]
    except OnnxportError:
        sides = [Session(right), Session(wrong)]
    model = as_onnx_model(right)
    for seed in range(_DRAWS):
        inputs = DrawnInputs(model.model, seed)
        item = next(inputs.first())
        feeds = dict(zip(model.input_names, item.leaves, strict=True))
        try:
            ours, theirs = (side.run(feeds) for side in sides)
        except OnnxportError:
            continue
        for a, b in zip(ours, theirs, strict=True):
            x, y = np.asarray(a), np.asarray(b)
            if x.shape != y.shape or (x.dtype.kind not in "fc" and not np.array_equal(x, y)):
                return True
            if x.dtype.kind in "fc" and not np.allclose(x, y, rtol=_ROUNDING, atol=_ROUNDING * _top(x), equal_nan=True):
                return True
    return False


def _top(x: np.ndarray) -> float:
    return float(np.max(np.abs(x[np.isfinite(x)]), initial=0.0))


def judged(right: Right) -> Outcome:
    """The proof of a right conversion."""
    report = onnxport.validate(right.source, right.converted, inputs=right.inputs, seed=right.seed)
    result = "passed" if report.passed else "alarm" if report.verdict == "failed" else "unproved"
    if result == "alarm":
        print(f"{right.name} (seed {right.seed}): {report}", file=sys.stderr)
    return Outcome(right.pair, right.name, "", result)


def run(sample: int | None = None) -> tuple[list[Outcome], list[Outcome]]:
    """Outcomes of mutants and of right conversions; a sample leaves the demo's models out."""
    draw = random.Random(SEED)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        subjects = small() if sample is not None else [*small(), *demo()]
        planted = list(mutants(subjects, 2 if sample is not None else 24, draw))
        if sample is not None:
            planted = draw.sample(planted, min(sample, len(planted)))
        wrong = [found for mutant in planted if (found := outcome(mutant)) is not None]
        correct = [judged(right) for right in rights(1 if sample is not None else 10)]
    return wrong, correct


def table(wrong: list[Outcome], correct: list[Outcome]) -> str:
    """The counts by pair of frameworks."""
    lines = [
        "| pair | mutants | caught | missed | unproved | equivalent | right ones | false alarms |",
        "|---|" + "---:|" * 7,
    ]
    pairs = dict.fromkeys(item.pair for item in (*wrong, *correct))
    totals: Counter[str] = Counter()
    for pair in pairs:
        counts = Counter(item.result for item in wrong if item.pair == pair)
        fine = Counter(item.result for item in correct if item.pair == pair)
        lines.append(_row(pair, counts, fine))
        totals.update(counts)
        totals.update(fine)
    lines.append(_row("**all**", totals, totals))
    return "\n".join(lines)


def _row(pair: str, counts: Counter[str], fine: Counter[str]) -> str:
    kinds = ("caught", "missed", "unproved", "equivalent")
    planted = counts["caught"] + counts["missed"]
    numbers = [planted, *(counts[kind] for kind in kinds), fine["passed"] + fine["alarm"], fine["alarm"]]
    return f"| {pair} | {' | '.join(map(str, numbers))} |"


def main() -> int:
    """Prints the table and what was missed; the exit code says whether the promise holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=None)
    parser.add_argument("--write", action="store_true", help="write the table into docs/validation.md")
    options = parser.parse_args()
    wrong, correct = run(options.sample)
    made = table(wrong, correct)
    print(made)
    for item in wrong:
        if item.result in ("missed", "unproved"):
            print(f"{item.result}: {item.pair}, {item.name}: {item.change}")
    if options.write:
        page = PAGE.read_text()
        head, rest = page.split(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}")
    planted = [item for item in wrong if item.result in ("caught", "missed", "unproved")]
    caught = sum(item.result == "caught" for item in planted)
    return 0 if caught >= 0.98 * len(planted) and all(item.result != "alarm" for item in correct) else 1


if __name__ == "__main__":
    raise SystemExit(main())
