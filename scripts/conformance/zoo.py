"""Every architecture of the installed transformers, and with --timm every family of timm, through the exporter as it stands.

    nice python -m scripts.conformance.zoo --results build/zoo.jsonl
    nice python -m scripts.conformance.zoo --results build/zoo_timm.jsonl --timm
    python -m scripts.conformance.zoo --results build/zoo.jsonl --more build/zoo_timm.jsonl --report docs/conformance/zoo.md

With ``--start docs/conformance/zoo.md`` the rows of that page stand for what the results file lacks: a run leaves out those that
agree, and the page that ``--report`` writes keeps the others where they have not run again.

The architectures are those of transformers' own mappings. A configuration class is made tiny by its own fields
(`zoo_configs`), inputs come from the parameters of ``forward`` (`zoo_inputs`), weights are random, and no model is patched.
``onnxport.convert`` makes the batch dynamic and proves the file in onnxruntime, on the given batch and on others. Models that
generate also convert with their cache as inputs and outputs, and decode greedily in onnxruntime against ``generate``
(`zoo_decoding`). A worker process takes one after the other (`workers`).
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from onnxport.validation.comparison import NO_ELEMENTS
from scripts.conformance import workers, zoo_page
from scripts.conformance.workers import first_line

os.environ.setdefault("OMP_NUM_THREADS", "1")

SECONDS = 400
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
    if made.report.verdict != "passed" and not _is_empty_by_design(made):
        return "unproved", "; ".join(f"{name}: {reason}" for name, reason in made.report.unproved)[:300], made
    sizes = {shape[:1] for item in made.report.sets if not item.failed for _, _, shape in item.inputs}
    dynamic = [value for value in made.model.graph.inputs if value.shape and not isinstance(value.shape[0], int)]
    if not dynamic or len(sizes) < 2:
        notes = [note for note in made.report.notes if "static" in note or "fixed size" in note or "left out" in note]
        return "fixed batch", "; ".join(notes)[:300], made
    return "agrees", "", made


def _is_empty_by_design(made: Any) -> bool:
    """Whether all that is unproved are outputs that have no elements at any size of the inputs, beside others that are proved."""
    sizes = {value.name: list(value.shape or ()) for value in made.model.graph.outputs}
    never = [name for name, reason in made.report.unproved if reason == NO_ELEMENTS and 0 in sizes.get(name, ())]
    return len(never) == len(made.report.unproved) < len(sizes)


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
    tied = "".join(f"{note}; " for note in report.notes if "chooses among equal elements" in note)
    return "wrong", f"{tied}{failed.name}: {output.name}: {output.reason}{numbers}{node}"[:400]


def findings(name: str) -> Iterator[Finding]:
    """What a conversion of an architecture gives, and where it generates its cache in and out."""
    from scripts.conformance import zoo_decoding, zoo_models

    architecture = zoo_models.architectures()[name]
    try:
        ready = zoo_models.ready(architecture)
    except (zoo_models.DoesNotRun, ImportError) as error:  # a package that the class asks for
        yield name, "not in eager", first_line(error)
        return
    verdict, reason = _verdict(ready)
    yield ready.label, verdict, reason
    if verdict == "agrees":
        try:
            yield from zoo_decoding.findings(ready.model, ready.inputs)
        except Exception as error:  # of a loop that the model's cache or tokens do not fit; its own verdict stands
            yield "step", "defect", f"{type(error).__name__}: {first_line(error)}"
    try:
        second = zoo_models.sequence_to_sequence(architecture, ready)
    except zoo_models.DoesNotRun:
        return
    if second is not None:
        yield second.label, *_verdict(second)


def _verdict(ready: Any) -> tuple[str, str]:
    """Verdict and reason on a model that runs, with branches on values frozen where it can't be traced otherwise."""
    verdict, reason, _ = check(ready.model, ready.inputs)
    if verdict == "unproved" and "no elements" in reason:  # of parts that begin behind so many tokens
        verdict, reason, _ = check(ready.model, _longer(ready.inputs))
    if verdict == "wrong" and _masks_by_values(ready):
        reason = f"sdpa takes a mask of ones for no mask at all, which the trace can't know; agrees in eager attention; {reason}"
    return _frozen(ready, reason) if verdict == "untraceable" else (verdict, reason)


def _longer(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs with tokens again and again."""
    return {name: value.repeat(1, 23) if value.dim() == 2 else value for name, value in inputs.items()}


def _masks_by_values(ready: Any) -> bool:
    """Whether the model agrees with the attention that always applies its mask; transformers' other leaves out a mask of ones."""
    if getattr(ready.model.config, "_attn_implementation", None) != "sdpa":
        return False
    model = copy.deepcopy(ready.model)
    model.set_attn_implementation("eager")
    return check(model, ready.inputs)[0] == "agrees"


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


def main() -> None:
    """Runs a shard, or writes the report."""
    parser = workers.parser(__doc__, "build/zoo.jsonl")
    parser.add_argument("--start", type=Path, help="a page whose rows stand for what has no result here")
    parser.add_argument("--timm", action="store_true", help="timm's families instead of transformers' architectures")
    parser.add_argument("--more", type=Path, default=Path("build/zoo_timm.jsonl"), help="timm's results for the report")
    options = parser.parse_args()
    if options.work is not None:
        work(options.work, options.timm)
    elif options.report:
        earlier = zoo_page.rows(options.start) if options.start else {}
        tables = {"transformers": workers.known(options.results), "timm": workers.known(options.more)}
        options.report.write_text(zoo_page.page(tables, earlier))
    else:
        title = "timm" if options.timm else "transformers"
        earlier = zoo_page.rows(options.start)[title] if options.start else {}
        agree = {name for name, found in earlier.items() if zoo_page.verdict_of(found) == "agrees"}
        names = [name for name in zoo_page.names(title) if name not in agree or name in options.match.split(",")]
        more = ["--timm"] if options.timm else []
        workers.supervise("scripts.conformance.zoo", workers.remaining(options, names), options.results, SECONDS, *more)


if __name__ == "__main__":
    main()
