"""State dicts of torch modules there and back: module to ONNX to module, for transformers' architectures and timm's families.

    nice python -m scripts.conformance.state_dicts --results build/state_dicts.jsonl [--timm]
    python -m scripts.conformance.state_dicts --results build/state_dicts.jsonl --report docs/conformance/state_dicts.md

*right*: the module that comes back has the original's keys in their order, with equal shapes and values. *unused*: it lacks
keys alone that the traced call does not use, which a file does not hold where they are large. Both load the whole state dict
of the original strictly; rows of *unused* that ran before that was asked loaded the keys that came back. A later run goes on
where the first stopped.
"""

from __future__ import annotations

import os
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.conformance import workers
from scripts.conformance.workers import first_line

os.environ.setdefault("OMP_NUM_THREADS", "1")
SECONDS = 120
VERDICTS = ("right", "unused", "wrong", "not converted", "not built", "defect", "timeout")
Finding = tuple[str, str, str]


def findings(item: str) -> Iterator[Finding]:
    """What comes back of one module."""
    import onnxport

    try:
        model, inputs = _ready(item)
    except Exception as error:
        yield item, "not built", first_line(error)
        return
    try:
        back = onnxport.convert(onnxport.convert(model, inputs=inputs, validate=False), to="pytorch", validate=False)
    except Exception as error:
        yield item, "not converted", f"{type(error).__name__}: {first_line(error)}"
        return
    yield (item, *_compared(model, back))


def _ready(item: str) -> tuple[Any, Any]:
    kind, name = item.split(" ", 1)
    if kind == "timm":
        from scripts.conformance import zoo_timm

        _, model, inputs = zoo_timm.ready(name)
        return model, inputs
    from scripts.conformance import zoo_models

    ready = zoo_models.ready(zoo_models.architectures()[name])
    return ready.model, ready.inputs


def _compared(model: Any, back: Any) -> tuple[str, str]:
    import torch

    ours, theirs = back.state_dict(), model.state_dict()
    missing = [key for key in theirs if key not in ours]
    extra = [key for key in ours if key not in theirs]
    common = [key for key in theirs if key in ours]
    if extra:
        return "wrong", f"{len(extra)} of {len(ours)} keys are not the module's: {', '.join(extra[:3])}"
    if common != list(ours):
        return "wrong", "the keys have another order"
    for key in common:
        if ours[key].shape != theirs[key].shape or ours[key].dtype != theirs[key].dtype:
            return "wrong", f"{key}: {tuple(ours[key].shape)} {ours[key].dtype}"
        if not torch.equal(torch.nan_to_num(ours[key]), torch.nan_to_num(theirs[key])):
            return "wrong", f"{key}: other values"
    back.load_state_dict(theirs, strict=True)
    used = [name for name, _ in model.named_parameters() if name in ours]
    if used != [name for name, _ in back.named_parameters()]:
        return "wrong", "the parameters differ from the module's"
    return ("unused", f"{len(missing)} of {len(theirs)} keys: {', '.join(missing[:3])}") if missing else ("right", "")


def report(results: dict[str, list[Any]], path: Path) -> None:
    """The table as Markdown."""
    rows = {
        title: Counter(found[0][1] for name, found in results.items() if name.startswith(f"{kind} "))
        for kind, title in (("transformers", "transformers' architectures"), ("timm", "timm's families"))
    }
    text = (__doc__ or "").split("\n\n")[2].strip()
    intro = f"Written by `scripts/conformance/state_dicts.py`, of {len(results)} modules. {text}"
    lines = ["# State dicts there and back", "", *textwrap.wrap(intro, 125), ""]
    lines += workers.counts(VERDICTS, rows, {})
    bad = [(name, found[0]) for name, found in sorted(results.items()) if found[0][1] not in ("right", "not built")]
    lines += ["", "| module | verdict | cause |", "|-|-|-|"]
    for name, (_, verdict, reason) in bad:
        cause = reason.replace("|", "\\|").replace("\n", " ")[:160]
        lines.append(f"| {name} | {verdict} | {cause} |")
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Runs the modules, or writes the report."""
    parser = workers.parser(__doc__, "build/state_dicts.jsonl")
    parser.add_argument("--timm", action="store_true", help="timm's families, where it is installed")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.work is not None:
        workers.work(options.work, findings)
    elif options.report:
        report(workers.known(options.results), options.report)
    else:
        if options.timm:
            from scripts.conformance import zoo_timm

            names = [f"timm {name}" for name in zoo_timm.families()]
        else:
            from scripts.conformance import zoo_models

            names = [f"transformers {name}" for name in zoo_models.architectures()]
        todo = workers.remaining(options, names)
        workers.supervise("scripts.conformance.state_dicts", todo, options.results, SECONDS)


if __name__ == "__main__":
    main()
