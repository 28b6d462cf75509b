"""The page of the zoo: its tables, and the rows of the page as it stands, with which a run of a part goes on."""

from __future__ import annotations

import collections
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.bench.page import version

VERDICTS = (
    "agrees",
    "frozen",
    "fixed batch",
    "wrong",
    "defect",
    "refused",
    "untraceable",
    "unproved",
    "timeout",
    "not in eager",
)
Rows = dict[str, list[Any]]
HEAD = """# Models of transformers and timm

Written by `scripts/conformance/zoo.py`: tiny models of random weights, none patched, none known by name. An
architecture is a folder of transformers' models, by the class that its mappings name for the most complete task; where that
is a decoder alone and there is a class with an encoder, that one as well: the architecture agrees where both do.

- *agrees*: converts with a dynamic batch, and onnxruntime gives the model's numbers at two batch sizes and more
  under the budgets of `onnxport.validation`; *fixed batch*: only for the batch of the example.
  An output that has no elements at any size (a cache's part of width 0) agrees by its type and shape.
- *frozen*: the model decides in Python on the value of a tensor, which torch.export refuses; it agrees so with
  `strategy="trace"`, by which the user lets such branches be frozen as the example takes them.
- A row is as its architecture was last run: what is mended since shows at its next run.
- A loop that a value may end early runs three steps at most: the graph holds a way for each step, and one of hundreds is refused.
- *not in eager*: no tiny configuration and inputs of the generic recipe run in PyTorch itself; not counted.
"""


def page(tables: Mapping[str, Rows], earlier: Mapping[str, Rows]) -> str:
    """The tables as Markdown; rows of `earlier`, those of a page, stand where a table has none."""
    parts = [HEAD]
    for title, table in tables.items():
        before = {name: found for name, found in earlier.get(title, {}).items() if name not in table}
        if table or before:
            parts.append("\n".join(_table(title, table, before)))
    return "\n".join(parts) + "\n"


def names(title: str) -> list[str]:
    """All architectures, or families, that the installed package has."""
    from scripts.conformance import zoo_models, zoo_timm

    return list(zoo_models.architectures()) if title == "transformers" else zoo_timm.families()


def rows(path: Path) -> dict[str, Rows]:
    """The rows of each table of a page."""
    tables: dict[str, Rows] = collections.defaultdict(dict)
    title = ""
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            title = line.split()[1]
        elif line.startswith("| `"):
            name, label, verdict, cause = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:5])
            row = [label or name.strip("`"), verdict, cause.replace("\\|", "|")]
            tables[title].setdefault(name.strip("`"), []).append(row)
    return tables


def verdict_of(found: Sequence[Sequence[str]]) -> str:
    """An architecture's verdict: the worst of its conversions, steps with a cache left aside."""
    verdicts = [verdict for label, verdict, _ in found if not _is_step(label)]
    order = [kind for kind in VERDICTS if kind in verdicts]
    return order[-1] if order else "not in eager"


def _is_step(label: str) -> bool:
    return label.startswith("step with ")


def _table(title: str, table: Rows, before: Rows) -> list[str]:
    results = {**before, **table}
    verdicts = collections.Counter(verdict_of(found) for found in results.values())
    running = sum(verdicts.values()) - verdicts["not in eager"]
    share = 100 * verdicts["agrees"] / max(running, 1)
    steps = [item for found in results.values() for item in found if _is_step(item[0])]
    lines = [
        f"## {title} {version(title)}",
        "",
        f"{len(results)} of {len(names(title))} were tried; of {running} that run {verdicts['agrees']} agree ({share:.1f} %).",
    ]
    if before and table:
        lines += [
            f"{len(table)} of them ran last, the other {len(before)} stand as runs of earlier versions gave them."
        ]
    if steps:
        good = sum(item[1] == "agrees" for item in steps)
        lines += [
            f"With the cache as inputs and outputs, greedy decoding at batch 1 and 3: {good} of {len(steps)} agree."
        ]
    kinds = [kind for kind in VERDICTS if verdicts[kind]]
    lines += ["", "| " + " | ".join(kinds) + " |", "|-" * len(kinds) + "|"]
    lines += ["| " + " | ".join(str(verdicts[kind]) for kind in kinds) + " |", ""]
    lines += ["| architecture | converted | verdict | cause |", "|-|-|-|-|"]
    for name, found in sorted(results.items()):
        for label, verdict, reason in found:
            cause = reason.replace("|", "\\|").replace("\n", " ")[:200]
            lines.append(f"| `{name}` | {label if label != name else ''} | {verdict} | {cause} |")
    return lines
