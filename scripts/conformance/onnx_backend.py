"""Converts ONNX's own backend tests with the default proof and no inputs, and writes docs/conformance/onnx_backend.md.

python -m scripts.conformance.onnx_backend --to pytorch [--sample N --seed S] [--match REGEX] [--verbose]

The inputs that the tests ship are not used: the proof draws its own from each signature. What counts is that a right import
is proved; `backend.py` tells which imports are right.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import warnings
from collections import Counter

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import onnxport
from onnxport.errors import InvalidInputError, UnsupportedOperator, ValidationError
from scripts.conformance.backend import DEFAULT_PROOF, IMPORTERS, Case, Outcome, cases, write_page

# The most tests that may end other than proved, unsupported ones aside.
ALLOWED = 15


def node_tests(match: str = "") -> list[Case]:
    """The node tests of the onnx package."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # some of them overflow on purpose
        return [case for case in cases(match) if case.kind == "node"]


def proved(case: Case, framework: str) -> Outcome:
    """How the conversion of one test ends: ``passed``, ``unproved``, ``refused`` or ``unsupported``."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", onnxport.UnprovedWarning)
            converted = onnxport.convert(case.model, to=framework)
    except UnsupportedOperator as error:
        reasons = "; ".join(f"{item.op}: {item.reason or 'no mapping'}" for item in error.operators)
        return Outcome(case.name, "unsupported", reasons or _line(error))
    except ValidationError as error:
        return Outcome(case.name, "refused", _why(error))
    except InvalidInputError as error:
        return Outcome(case.name, "unproved", _line(error))
    report = converted.onnxport_report
    if report.verdict == "unproved":
        return Outcome(case.name, "unproved", "; ".join(f"{name}: {reason}" for name, reason in report.unproved))
    return Outcome(case.name, "passed")


def _line(error: Exception) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


def _why(error: ValidationError) -> str:
    """Of the first set that failed, what of it did."""
    for item in error.report.sets:
        if item.error:
            return f"{item.name}: {item.error.splitlines()[0]}"
        for output in item.outputs:
            if output.verdict == "fail":
                return f"{item.name}: {output.reason or 'numbers differ'}"
    return " ".join(error.report.notes[-1:]) or _line(error)


def main() -> int:
    """Runs the tests; 1 where more of them than `ALLOWED` end unproved or refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", choices=sorted(IMPORTERS), default="pytorch")
    parser.add_argument("--match", default="", help="only tests whose name has this")
    parser.add_argument("--sample", type=int, default=0, help="only so many, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--verbose", action="store_true", help="print each test that did not pass")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tests = node_tests(options.match)
    if options.sample:
        tests = random.Random(options.seed).sample(tests, min(options.sample, len(tests)))
    outcomes = []
    for case in tests:
        outcomes.append(proved(case, options.to))
        if options.verbose and outcomes[-1].verdict != "passed":
            print(f"{outcomes[-1].verdict:12} {case.name}: {outcomes[-1].reason}"[:300], flush=True)
    counts = Counter(item.verdict for item in outcomes)
    print(dict(counts))
    if not options.match and not options.sample:
        write_page(f"{DEFAULT_PROOF}{options.to}", [_tidy(item) for item in outcomes])
    return int(counts["unproved"] + counts["refused"] > ALLOWED)


def _tidy(outcome: Outcome) -> Outcome:
    """The outcome with its reason as it can stand on a page: no sizes of the inputs, no numbers of bytes."""
    reason = re.sub(r" on inputs of shapes \{.*?\}", "", outcome.reason)
    return Outcome(outcome.name, outcome.verdict, reason[:300].replace("|", "/"))


if __name__ == "__main__":
    sys.exit(main())
