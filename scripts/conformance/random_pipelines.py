"""Random pipelines of scikit-learn on random data: converted and run beside scikit-learn itself, no number may differ.

    python -m scripts.conformance.random_pipelines [--draws 2000] [--seed 0] [--first 0] [--minimise] [--verbose]

A difference is printed as drawn and, with --minimise, as the least pipeline and data that still show it. What is refused is
counted by its reason; what scikit-learn itself can't fit or run is not counted as a draw.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import signal
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from scripts.conformance.random_data import Impossible
from scripts.conformance.random_draws import Drawn, Part, numbered
from scripts.conformance.random_judgement import Outcome, judged

SECONDS, GIBIBYTES = 60, 8


def minimised(drawn: Drawn, outcome: Outcome, tries: int = 150) -> tuple[Drawn, Outcome]:
    """A simpler draw with the same verdict on the same method."""
    plain = Drawn(drawn.model, drawn.task)
    progress = True
    while progress and tries > 0:
        progress = False
        smaller = [replace(drawn, model=model) for model in _reduced(drawn.model)]
        for name, value in vars(plain).items():
            if name not in ("model", "task") and value != getattr(drawn, name):
                smaller.append(replace(drawn, **{name: value}))
        for candidate in smaller:
            tries -= 1
            try:
                result = judged(candidate)
            except Impossible:
                continue
            if (result.verdict, result.method) == (outcome.verdict, outcome.method):
                drawn, outcome, progress = candidate, result, True
                break
            if tries <= 0:
                break
    return drawn, outcome


def _reduced(part: Part) -> Any:
    if part.kind in ("Pipeline", "FeatureUnion", "ColumnTransformer"):
        if len(part.parts) == 1 and not part.columns:
            yield replace(part.parts[0], columns=())
        for index in range(len(part.parts)):
            if len(part.parts) > 1:
                yield replace(part, parts=part.parts[:index] + part.parts[index + 1 :])
    else:
        yield from part.parts
    for index, inner in enumerate(part.parts):
        for smaller in _reduced(inner):
            yield replace(
                part, parts=(*part.parts[:index], replace(smaller, columns=inner.columns), *part.parts[index + 1 :])
            )
    for index in range(len(part.options)):
        if part.kind not in ("TransformedTargetRegressor", "LocalOutlierFactor", "OrdinalEncoder", "GridSearchCV"):
            yield replace(part, options=part.options[:index] + part.options[index + 1 :])


def main() -> None:
    """Draws, judges and says what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _late)
    resource.setrlimit(resource.RLIMIT_AS, (GIBIBYTES << 30, GIBIBYTES << 30))  # polynomials of polynomials
    verdicts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    forgiven: Counter[str] = Counter()
    impossible: Counter[str] = Counter()
    bad: list[tuple[Drawn, Outcome]] = []
    began = time.monotonic()

    number = options.first - 1
    while sum(verdicts.values()) < options.draws:
        number += 1
        drawn = numbered(options.seed, number)
        started = time.monotonic()
        signal.alarm(SECONDS)
        try:
            outcome = judged(drawn)
        except Impossible as error:
            impossible[re.sub(r"\d+", "N", str(error))[:90]] += 1
            if options.verbose:
                print(f"impossible {drawn}: {str(error)[:160]}", flush=True)
            continue
        except TimeoutError as error:
            outcome = Outcome("late", reason=str(error))
        finally:
            signal.alarm(0)
        verdicts[outcome.verdict] += 1
        forgiven.update(item.partition(":")[0] for item in outcome.forgiven)
        if outcome.verdict == "refused":
            reasons[re.sub(r"\s+", " ", outcome.reason)[:160]] += 1
        elif outcome.verdict != "right":
            bad.append((drawn, outcome))
        if options.verbose or outcome.verdict not in ("right", "refused"):
            took = time.monotonic() - started
            for item in outcome.forgiven:
                print(f"{number} {item}")
            print(
                f"{number} {outcome.verdict} {outcome.method}: {outcome.reason[:400]} ({took:.1f} s)\n    {drawn}",
                flush=True,
            )

    print(f"{sum(verdicts.values())} draws in {time.monotonic() - began:.0f} s: {dict(verdicts)}")
    print(f"forgiven: {dict(forgiven)}")
    print(f"scikit-learn could not fit or run {sum(impossible.values())}:")
    for reason, count in impossible.most_common(12):
        print(f"  {count} {reason}")
    print("refused:")
    for reason, count in reasons.most_common():
        print(f"  {count} {reason}")
    if options.minimise:
        for drawn, outcome in bad:
            if outcome.verdict != "late":
                least, why = minimised(drawn, outcome)
                print(f"least: {why.verdict} {why.method}: {why.reason[:400]}\n    {least}\n    {least!r}", flush=True)
    sys.exit(bool(bad))


def _late(*_: Any) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


if __name__ == "__main__":
    main()
