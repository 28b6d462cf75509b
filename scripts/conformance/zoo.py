"""Every architecture of the installed transformers, and with --timm every family of timm, through the exporter as it stands.

    nice python -m scripts.conformance.zoo --results build/zoo.jsonl
    nice python -m scripts.conformance.zoo --results build/zoo_timm.jsonl --timm
    python -m scripts.conformance.zoo --results build/zoo.jsonl --more build/zoo_timm.jsonl --report docs/conformance/zoo.md

The architectures are those of transformers' own mappings. A configuration class is made tiny by its own fields
(`zoo_configs`), inputs come from the parameters of ``forward`` (`zoo_inputs`), weights are random, and no model is patched.
``onnxport.convert`` makes the batch dynamic and proves the file in onnxruntime, on the given batch and on others. Models that
generate also convert with their cache as inputs and outputs, and decode greedily in onnxruntime against ``generate``
(`zoo_decoding`). A worker process takes one after the other (`workers`).
"""

from __future__ import annotations

import collections
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scripts.bench.page import version
from scripts.conformance import workers
from scripts.conformance.workers import first_line

os.environ.setdefault("OMP_NUM_THREADS", "1")

SECONDS = 400
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
Finding = tuple[str, str, str]  # what was converted, its verdict and the reason


def check(model: Any, inputs: dict[str, Any], **options: Any) -> tuple[str, str, Any]:
    """Verdict and reason on one model, and what was converted."""
    import onnxport
    from onnxport.errors import TracingError, UnsupportedOperator, ValidationError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = onnxport.convert(model, inputs=inputs, **options)
    except TracingError as error:
        return "untraceable", _reason(error), None
    except UnsupportedOperator as error:
        reasons = [f"{item.op}: {item.reason}" if item.reason else item.op for item in error.operators]
        return "refused", "; ".join(reasons)[:300] or first_line(error), None
    except ValidationError as error:
        return *_difference(error.report), None
    except Exception as error:
        return "defect", f"{type(error).__name__}: {first_line(error)}", None
    if made.report.verdict != "passed":
        return "unproved", "; ".join(f"{name}: {reason}" for name, reason in made.report.unproved)[:300], made
    sizes = {shape[:1] for item in made.report.sets if item.passed for _, _, shape in item.inputs}
    dynamic = [value for value in made.model.graph.inputs if value.shape and not isinstance(value.shape[0], int)]
    if not dynamic or len(sizes) < 2:
        notes = [note for note in made.report.notes if "static" in note or "fixed size" in note or "left out" in note]
        return "fixed batch", "; ".join(notes)[:300], made
    return "agrees", "", made


def _reason(error: BaseException) -> str:
    """The lines of an error that name the cause, below the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[1:4])[:300] or first_line(error)


def _difference(report: Any) -> tuple[str, str]:
    """Whether numbers differ or the file does not run, with the first set of inputs on which that is so."""
    failed = next(item for item in report.sets if item.failed)
    if failed.error:
        return "defect", f"{failed.name}: {failed.error}"[:300]
    output = next(item for item in failed.outputs if item.verdict == "fail")
    figures = output.figures
    numbers = f" {figures.source!r} became {figures.converted!r} at {figures.where}" if figures else ""
    node = f" ({report.divergence})" if report.divergence else ""
    return "wrong", f"{failed.name}: {output.name}: {output.reason}{numbers}{node}"[:400]


def findings(name: str) -> Iterator[Finding]:
    """What a conversion of an architecture gives, and where it generates its cache in and out."""
    from scripts.conformance import zoo_decoding, zoo_models

    try:
        ready = zoo_models.ready(zoo_models.architectures()[name])
    except zoo_models.DoesNotRun as error:
        yield name, "not in eager", first_line(error)
        return
    verdict, reason, _ = check(ready.model, ready.inputs)
    if verdict == "untraceable":
        verdict, reason = _frozen(ready, reason)
    yield ready.label, verdict, reason
    if verdict == "agrees":
        yield from zoo_decoding.findings(ready.model, ready.inputs)


def _frozen(ready: Any, reason: str) -> tuple[str, str]:
    """Verdict and reason with the branches on values frozen, as a user may allow; those without where that is no better."""
    verdict, other, made = check(ready.model, ready.inputs, strategy="trace")
    if verdict != "agrees":
        return "untraceable", reason if verdict == "untraceable" else f"{reason}; frozen: {verdict}: {other}"
    return "frozen", "; ".join(note for note in made.report.notes if "frozen" in note)[:300]


def timm_findings(name: str) -> Iterator[Finding]:
    """What a conversion of timm's smallest model of a family gives."""
    from scripts.conformance import zoo_timm

    try:
        label, model, inputs = zoo_timm.ready(name)
    except zoo_timm.DoesNotRun as error:
        yield name, "not in eager", first_line(error)
        return
    verdict, reason, _ = check(model, inputs)
    yield label, verdict, reason


def work(todo: Sequence[str], timm: bool) -> None:
    """Checks architectures and prints a line for each."""
    import logging

    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    workers.work(todo, timm_findings if timm else findings)


def verdict_of(found: Sequence[Sequence[str]]) -> str:
    """An architecture's verdict: that of its conversion."""
    return found[0][1] if found else "not in eager"


def report(results: dict[str, list[Any]], more: dict[str, list[Any]], path: Path) -> None:
    """The tables as Markdown."""
    lines = [
        "# Models of transformers and timm",
        "",
        "Written by `scripts/conformance/zoo.py`: tiny models of random weights, none patched, none known by name. An",
        "architecture is a folder of transformers' models, by the class that its mappings name for the most complete task.",
        "",
        "- *agrees*: converts with a dynamic batch, and onnxruntime gives the model's numbers at two batch sizes and more",
        "  under the budgets of `onnxport.validation`; *fixed batch*: only for the batch of the example.",
        "- *frozen*: the model decides in Python on the value of a tensor, which torch.export refuses; it agrees so with",
        '  `strategy="trace"`, by which the user lets such branches be frozen as the example takes them.',
        "- A row is as its architecture was last run: what is mended since shows at its next run.",
        "- *not in eager*: no tiny configuration and inputs of the generic recipe run in PyTorch itself; not counted.",
        "",
    ]
    for title, table in (("transformers", results), ("timm", more)):
        lines += _table(title, table, _count(title)) if table else []
    path.write_text("\n".join(lines) + "\n")


def _count(title: str) -> int:
    """How many there are."""
    from scripts.conformance import zoo_models, zoo_timm

    return len(zoo_models.architectures() if title == "transformers" else zoo_timm.families())


def _table(title: str, results: dict[str, list[Any]], count: int) -> list[str]:
    verdicts = collections.Counter(verdict_of(found) for found in results.values())
    running = sum(verdicts.values()) - verdicts["not in eager"]
    share = 100 * verdicts["agrees"] / max(running, 1)
    decoded = [item for found in results.values() for item in found[1:]]
    lines = [
        f"## {title} {version(title)}",
        "",
        f"{len(results)} of {count} were tried; {verdicts['agrees']} of the {running} of them that run agree ({share:.1f} %).",
    ]
    if decoded:
        good = sum(item[1] == "agrees" for item in decoded)
        lines += [
            f"With the cache as inputs and outputs, greedy decoding at batch 1 and 3: {good} of {len(decoded)} agree."
        ]
    kinds = [kind for kind in VERDICTS if verdicts[kind]]
    lines += ["", "| " + " | ".join(kinds) + " |", "|-" * len(kinds) + "|"]
    lines += ["| " + " | ".join(str(verdicts[kind]) for kind in kinds) + " |", ""]
    lines += ["| architecture | converted | verdict | cause |", "|-|-|-|-|"]
    for name, found in sorted(results.items()):
        for label, verdict, reason in found:
            cause = reason.replace("|", "\\|").replace("\n", " ")[:200]
            lines.append(f"| `{name}` | {label if label != name else ''} | {verdict} | {cause} |")
    return [*lines, ""]


def main() -> None:
    """Runs a shard, or writes the report."""
    parser = workers.parser(__doc__, "build/zoo.jsonl")
    parser.add_argument("--timm", action="store_true", help="timm's families instead of transformers' architectures")
    parser.add_argument("--more", type=Path, default=Path("build/zoo_timm.jsonl"), help="timm's results for the report")
    options = parser.parse_args()
    if options.work is not None:
        work(options.work, options.timm)
    elif options.report:
        report(workers.known(options.results), workers.known(options.more), options.report)
    elif options.timm:
        from scripts.conformance import zoo_timm

        todo = workers.remaining(options, zoo_timm.families())
        workers.supervise("scripts.conformance.zoo", todo, options.results, SECONDS, "--timm")
    else:
        from scripts.conformance import zoo_models

        todo = workers.remaining(options, list(zoo_models.architectures()))
        workers.supervise("scripts.conformance.zoo", todo, options.results, SECONDS)


if __name__ == "__main__":
    main()
