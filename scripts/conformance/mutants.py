"""Planted wrong conversions that the proof must catch, and right ones that it must not refuse.

Each mutant is the right ONNX graph of a model with one change: what a wrong converter would have written. It is proved as
`onnxport.convert` would prove it, against the live model or against the right graph, in ONNX or rebuilt in a framework, on
inputs drawn from the signature alone.

    python -m scripts.conformance.mutants --results results.jsonl --write    # all of it; each outcome goes to the file at once
    python -m scripts.conformance.mutants --results results.jsonl            # goes on where the last run was cut off
"""

from __future__ import annotations

import argparse
import json
import random
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import numpy as np

from scripts.conformance.mutants_changes import KINDS, Change, changes
from scripts.conformance.mutants_outcomes import SEED, Cell, Outcome, can_hold, hard_one, right_one, runs, wrong_one
from scripts.conformance.mutants_rights import Right, rights
from scripts.conformance.mutants_subjects import Subject, demo, small

TARGETS = ("onnx", "pytorch", "tensorflow", "keras")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation.md"
BEGIN, END = "<!-- mutants: begin -->", "<!-- mutants: end -->"
# Mutants of a model in each target, more of one whose target is ONNX: they cost no conversion.
_EACH, _EACH_ONNX = 4, 10
_SEEDS = 8
# The share of mutants that must be caught.
SHARE = 0.98


def pools(subject: Subject) -> Iterator[Change]:
    """The changes of a subject's graph, each kind in its turn."""
    draw = random.Random(f"{SEED} {subject.framework} {subject.name}")
    found = list(changes(subject.graph, draw))
    draw.shuffle(found)
    by_kind = [[change for change in found if change.kind == kind] for kind in KINDS]
    while any(by_kind):
        for kind in by_kind:
            if kind:
                yield kind.pop()


def planted(cell: Cell, pool: Iterator[Change], each: int) -> Iterator[Outcome]:
    """The outcomes of the next changes of a pool that onnxruntime runs and the target holds."""
    kept = 0
    for change in pool:
        if kept == each:
            return
        if runs(cell.subject.graph, change.proto) and (outcome := wrong_one(cell, change)) is not None:
            kept += 1
            yield outcome


def outcomes(subjects: Iterable[Subject], known: set[tuple[str, str]]) -> Iterator[Outcome]:
    """The outcomes of every subject in every target, but for those that are known."""
    for subject in subjects:
        pool = pools(subject)
        for target in TARGETS:
            cell = Cell(subject, target)
            if (cell.pair, subject.name) in known or not can_hold(cell):
                continue
            yield right_one(cell, 0)
            yield from planted(cell, pool, _EACH_ONNX if target == "onnx" else _EACH)


def hard(found: Iterable[Right], known: Collection[tuple[str, str]] = ()) -> Iterator[Outcome]:
    """The outcomes of right conversions that are hard to compare."""
    return (hard_one(right) for right in found if (right.pair, right.name) not in known)


@contextmanager
def quiet() -> Iterator[None]:
    """Some inputs are drawn to overflow."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def table(found: Iterable[Outcome], key: Callable[[Outcome], str], title: str) -> str:
    """The counts by some key, the sum last."""
    found = list(found)
    kinds = ("caught", "missed", "unproved", "equivalent")
    lines = [
        f"| {title} | wrong | caught | missed | unproved | equivalent | right | passed | false alarms |",
        "|---|" + "---:|" * 8,
    ]
    for name in (*dict.fromkeys(map(key, found)), ""):
        mine = [item for item in found if not name or key(item) == name]
        wrong = Counter(item.result for item in mine if item.kind)
        right = Counter(item.result for item in mine if not item.kind)
        numbers = [
            wrong.total() - wrong["equivalent"],
            *(wrong[kind] for kind in kinds),
            right.total(),
            right["passed"],
            right["alarm"],
        ]
        lines.append(f"| {name or '**all**'} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines)


def kept(found: Iterable[Outcome]) -> bool:
    """Whether the promise holds: nearly all wrong ones caught, no right one refused."""
    found = list(found)
    wrong = [item for item in found if item.kind and item.result != "equivalent"]
    caught = sum(item.result == "caught" for item in wrong)
    return caught >= SHARE * len(wrong) and all(item.result == "passed" for item in found if not item.kind)


def read(path: Path) -> list[Outcome]:
    """The outcomes of a file, none where there is no file."""
    return [Outcome(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def continued(path: Path) -> list[Outcome]:
    """The outcomes of a file without those of its last model and pair, which may have been cut off; they are run again."""
    found = read(path)
    kept = [item for item in found if (item.pair, item.name) != (found[-1].pair, found[-1].name)]
    path.write_text("".join(json.dumps(asdict(item)) + "\n" for item in kept))
    return kept


def main() -> int:
    """Prints the tables and what was not caught; the exit code says whether the promise holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("mutants.jsonl"), help="a line for each outcome")
    parser.add_argument("--only", choices=("small", "demo", "hard"), default=None, help="one part of it")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/validation.md")
    options = parser.parse_args()
    known = {(item.pair, item.name) for item in continued(options.results)}
    parts: dict[str, Callable[[], Iterator[Outcome]]] = {
        "small": lambda: outcomes(small(), known),
        "demo": lambda: outcomes(demo(), known),
        "hard": lambda: hard(rights(_SEEDS), known),
    }
    chosen = [options.only] if options.only else list(parts)
    with quiet(), options.results.open("a") as file:
        for item in chain.from_iterable(parts[name]() for name in chosen):
            file.write(json.dumps(asdict(item)) + "\n")
            file.flush()
    found = read(options.results)
    text = f"{table(found, lambda item: item.pair, 'pair')}\n\n{table([i for i in found if i.kind], lambda i: i.kind, 'change')}"
    print(text)
    for item in found:
        if item.result in ("missed", "unproved", "equivalent", "alarm"):
            print(f"{item.result}: {item.pair}, {item.name}: {item.change}")
    if options.write:
        page = PAGE.read_text()
        head, rest = page.split(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")
    return 0 if kept(found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
