"""The table of PyTorch's operator database: what came of each operator and element type."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from scripts.conformance import workers

# What can come of a sample; "wrong" (numbers) and "defect" (an error of ours) must never occur.
VERDICTS = ("right", "refused", "untraceable", "wrong", "defect", "timeout", "no reference")


def verdict_of(found: Sequence[Sequence[Any]]) -> str:
    """An operator's verdict: the worst of its samples'; partly right where some are refused."""
    kinds = {item[2] for item in found}
    for bad in ("wrong", "defect"):
        if bad in kinds:
            return bad
    if kinds - {"no reference"} == {"right"}:
        return "right"
    if "right" in kinds:
        return "partly"
    return next((kind for kind in ("refused", "untraceable", "timeout", "no reference") if kind in kinds), "no samples")


_COLUMNS = ("right", "partly", "refused", "untraceable", "timeout", "wrong", "defect", "no reference", "no samples")


def _by_dtype(results: dict[str, list[list[Any]]], dtypes: Sequence[str]) -> list[str]:
    """A table of the element types: operators of which all samples are right, and samples."""
    lines = [
        "| element type | operators right | samples right | refused | untraceable | wrong or defect |",
        "|-|-|-|-|-|-|",
    ]
    rows = [(name, [name]) for name in dtypes]
    for title, names in [*rows, ("all", [name for name, _ in rows])]:
        tried = [[item[2] for item in found if item[0] in names] for found in results.values()]
        tried = [kinds for kinds in ([kind for kind in kinds if kind != "no reference"] for kinds in tried) if kinds]
        every = collections.Counter(kind for kinds in tried for kind in kinds)
        count = sum(every.values())
        whole = sum(set(kinds) == {"right"} for kinds in tried)
        lines.append(
            f"| {title} | {whole} of {len(tried)} | {every['right']} of {count} ({every['right'] / max(count, 1):.1%}) "
            f"| {every['refused']} | {every['untraceable'] + every['timeout']} | {every['wrong'] + every['defect']} |"
        )
    return lines


def report(results: dict[str, list[list[Any]]], path: Path, dtypes: Sequence[str]) -> None:
    """The table as Markdown."""
    verdicts = {name: verdict_of(found) for name, found in results.items()}
    tally = collections.Counter(verdicts.values())
    every = collections.Counter(item[2] for found in results.values() for item in found)
    notes = collections.Counter(
        item[3] for found in results.values() for item in found if item[2] == "right" and item[3]
    )
    lines = [
        "# PyTorch's operator database (OpInfo)",
        "",
        f"Written by `scripts/conformance/opinfo.py` with torch {torch.__version__}: samples of every OpInfo",
        "of every element type that it lists for the CPU, each exported, run and compared with PyTorch.",
        "",
        "- *right*: all samples; *partly*: some right, the rest refused or untraceable.",
        "- *refused*: an error names the operator and the reason.",
        "- *untraceable*: `torch.export` can't trace the sample.",
        "- *no reference*: PyTorch itself does not run the sample on this machine, or gives a type that NumPy lacks (complex",
        "  numbers of half precision); such a sample counts nowhere.",
        "- Numbers are never wrong: such a sample would stand here as *wrong*, an error of ours as *defect*.",
        "",
        "The budget is the one of `onnxport.validation`; in float32 it is at least four units in the last place of 1 (of the",
        "largest number among the arguments), which is what runtimes' sigmoid or erf reach. Of the samples that are right, these",
        "were compared in another way:",
        "",
        *(f"- {count}: {note}" for note, count in notes.most_common()),
        "",
        *workers.counts(_COLUMNS, {"operators": tally, "samples": every}, {"samples": set(_COLUMNS) - set(VERDICTS)}),
        "",
        *_by_dtype(results, dtypes),
        "",
        "| operator | verdict | samples right | reason |",
        "|-|-|-|-|",
    ]
    for name in sorted(results):
        found = results[name]
        reasons = collections.Counter(item[3] for item in found if item[2] not in ("right", "no reference"))
        reason = reasons.most_common(1)[0][0].replace("|", "\\|")[:160] if reasons else ""
        right = sum(item[2] == "right" for item in found)
        counted = sum(item[2] != "no reference" for item in found)
        lines.append(f"| `{name}` | {verdicts[name]} | {right}/{counted} | {reason} |")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
