"""Random valid graphs of ONNX's own schemas through the importers: none may differ from ONNX's reference evaluator.

    python -m scripts.conformance.random_graphs [--to pytorch,tensorflow,keras] [--draws 5000] [--seed 0] [--first 0]
        [--only Conv,Gather] [--minimise] [--verbose] [--record FILE]

A graph counts where onnx's checker accepts it and its reference evaluator runs it. The judge is that of the proofs; where the
evaluator and onnxruntime differ, the specification decides (`DEFECTS` of `random_graph_judgement.py`). What is refused by name is
counted by its reason.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from scripts.conformance.random_graph_drawing import DrawnGraph
from scripts.conformance.random_graph_judgement import GraphOutcome, judged_graph
from scripts.conformance.random_graph_operators import graph_of


def minimised_graph(drawn: DrawnGraph, outcome: GraphOutcome, framework: str) -> tuple[DrawnGraph, GraphOutcome]:
    """The fewest successive nodes with the same verdict, on the values that reach them."""
    from scripts.conformance.random_graph_judgement import pieces_of

    for piece in pieces_of(drawn):
        result = judged_graph(piece, framework)
        if result.verdict == outcome.verdict:
            return piece, result
    return drawn, outcome


def main() -> int:
    """Draws, judges and prints what differs; 1 where anything does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", default="pytorch")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--only", default="", help="operators of which each graph has one")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--record", default="", help="a file to which each verdict is appended as a line of JSON")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    verdicts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    operators: Counter[str] = Counter()
    only = tuple(filter(None, options.only.split(",")))
    began = time.monotonic()
    number = options.first
    for number in range(options.first, options.first + options.draws):
        drawn = graph_of(options.seed, number, only)
        operators.update(drawn.operators)
        for framework in options.to.split(","):
            outcome = judged_graph(drawn, framework)
            verdicts[framework, outcome.verdict] += 1
            if options.record:
                line = {
                    "number": number,
                    "seed": options.seed,
                    "to": framework,
                    **vars(outcome),
                    "operators": drawn.operators,
                }
                with Path(options.record).open("a") as file:
                    file.write(json.dumps(line) + "\n")
            if outcome.verdict == "refused":
                reasons[framework, outcome.reason[:140]] += 1
            elif outcome.is_bad or options.verbose:
                print(
                    f"{number} {framework} {outcome.verdict}: {outcome.reason[:500]}\n    {drawn.operators}", flush=True
                )
                if options.minimise and outcome.is_bad:
                    least, why = minimised_graph(drawn, outcome, framework)
                    print(f"  least: {why.verdict}: {why.reason[:400]}\n{described(least)}", flush=True)
        if time.monotonic() - began > options.seconds:
            break
    print(f"draws {options.first} to {number} in {time.monotonic() - began:.0f} s, {len(operators)} operators")
    for (framework, verdict), count in sorted(verdicts.items()):
        print(f"  {framework} {verdict}: {count}")
    for (framework, reason), count in reasons.most_common(40):
        print(f"  {count} {framework} refused: {reason}")
    return int(any(verdict in GraphOutcome.BAD for _, verdict in verdicts))


def described(drawn: DrawnGraph) -> str:
    """The graph as text, with the values of its leaves."""
    import onnx

    lines = ["    " + line for line in onnx.printer.to_text(drawn.model).splitlines()]
    for info, value in zip(drawn.model.graph.input, drawn.inputs, strict=True):
        lines.append(f"    {info.name} = {str(value)[:300]!r}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
