"""Writes docs/conformance/random_graphs.md from the records of `random_graphs.py --record`.

python -m scripts.conformance.random_graph_page RECORDS...
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from scripts.conformance.random_graph_judgement import DEFECTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conformance" / "random_graphs.md"
VERDICTS = ("right", "by onnxruntime", "refused", "wrong", "crashed")


def page(lines: list[dict[str, Any]]) -> str:
    """The page of some verdicts; of two on the same draw the later one counts."""
    latest = {(line["to"], line["seed"], line["number"]): line for line in lines}.values()
    counts: Counter[tuple[str, str]] = Counter((line["to"], line["verdict"]) for line in latest)
    importers = sorted({line["to"] for line in latest})
    operators = {name for line in latest for name in line["operators"]}
    reasons = Counter((line["to"], _shortened(line["reason"])) for line in latest if line["verdict"] == "refused")
    text = [
        "# Random valid graphs through the importers",
        "",
        "Written by `scripts/conformance/random_graph_page.py` from what `scripts/conformance/random_graphs.py` records: graphs",
        "of one to eight nodes at opsets 7 to 26, drawn from ONNX's own schemas, which onnx's checker accepts and its reference",
        "evaluator runs. The judge is that of the proofs. *By onnxruntime* counts graphs with an operator of the last table that",
        "agree with onnxruntime.",
        f"The graphs hold {len(operators)} operators.",
        "",
        f"| importer | graphs | {' | '.join(VERDICTS)} |",
        f"|{'-|' * (len(VERDICTS) + 2)}",
    ]
    for importer in importers:
        each = [counts[importer, verdict] for verdict in VERDICTS]
        text.append(f"| {importer} | {sum(each)} | {' | '.join(map(str, each))} |")
    wrong = [line for line in latest if line["verdict"] in ("wrong", "crashed")]
    if wrong:
        text += ["", "## Wrong or crashed", "", "| importer | draw | operators | difference |", "|-|-|-|-|"]
        for line in wrong:
            found = re.search(r"reason='([^']*)'", line["reason"])
            cells = (
                line["to"],
                line["number"],
                ", ".join(line["operators"]),
                found[1] if found else line["reason"][:120],
            )
            text.append("| " + " | ".join(map(str, cells)) + " |")
    text += ["", "## Refused, by reason", "", "| importer | graphs | reason |", "|-|-|-|"]
    text += [f"| {importer} | {count} | {reason} |" for (importer, reason), count in reasons.most_common()]
    text += [
        "",
        "## Where the evaluator does not do what the specification says",
        "",
        "| operator | specification and evaluator |",
    ]
    text += ["|-|-|", *(f"| {name} | {reason} |" for name, reason in sorted(DEFECTS.items()))]
    return "\n".join(text) + "\n"


def _shortened(reason: str) -> str:
    reason = re.sub(r"\x1b\[[0-9N;]*m", "", reason)  # Keras colours what it says
    reason = " ".join(reason.split()).replace("Exception encountered when calling Primitive.call(). ", "")
    words = reason.removeprefix("running: the converted model can't run: UnsupportedOperator: ")
    return "an output is no tensor or map of tensors" if words.startswith("output '") else words[:120].replace("|", "/")


def main() -> None:
    """Reads the records and writes the page."""
    lines = [json.loads(line) for name in sys.argv[1:] for line in Path(name).read_text().splitlines()]
    PAGE.write_text(page(lines))


if __name__ == "__main__":
    main()
