"""The result of a validation, without its presentation: both sides, the sets of inputs, the verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from onnxport.validation.comparison import RANDOM, RANDOM_SHAPE, STOPPED, OutputReport
from onnxport.validation.details import Details

Outcome = Literal["passed", "failed", "unproved"]


@dataclass(frozen=True)
class Side:
    """One side of the comparison.

    Attributes:
        framework: ``"pytorch"``, ...
        title: what ran: class or file name.
        runtime: what ran it, where that is not the framework itself (``"onnxruntime"``, ``"onnx.reference"``).
        opset: version of ai.onnx, where it is an ONNX model.
    """

    framework: str
    title: str
    runtime: str = ""
    opset: int | None = None

    def __str__(self) -> str:
        return f"{self.framework} {self.title}{f' ({self.runtime})' if self.runtime else ''}"


@dataclass(frozen=True)
class SetReport:
    """What one set of inputs gave.

    Attributes:
        name: what kind of set: ``"given"``, ``"other sizes"``, ...
        inputs: name, element type and shape of each input.
        outputs: the verdicts, in the order of the outputs.
        source_seconds: time of the source's run.
        converted_seconds: time of the converted model's run.
        error: why one side could not run; empty where both did.
        certain: random operators had no choice on it.
    """

    name: str
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    outputs: tuple[OutputReport, ...]
    source_seconds: float
    converted_seconds: float
    error: str = ""
    certain: bool = False

    @property
    def failed(self) -> bool:
        """Whether the converted model could not run or an output differs."""
        return bool(self.error) or any(output.verdict == "fail" for output in self.outputs)

    @property
    def passed(self) -> bool:
        """Whether every output was compared by value and agrees."""
        return not self.failed and all(output.verdict == "pass" for output in self.outputs)


def unproved_of(sets: Sequence[SetReport], notes: Sequence[str] = (), *reasons: str) -> tuple[tuple[str, str], ...]:
    """What none of the sets of inputs proves, and why: names of outputs; "" where it is the whole model, as by `reasons`."""
    ran = [item for item in sets if not item.error]
    if not ran:
        return (("", notes[-1] if notes else "no set of inputs ran"),)
    missing = [("", reason) for reason in reasons if reason]
    missing += [("", "the source gives no outputs")] if not any(item.outputs for item in ran) else []
    seen: dict[str, list[OutputReport]] = {}
    for item in ran:
        for output in item.outputs:
            seen.setdefault(output.name, []).append(output)
    shown = {output.name for item in ran if item.certain for output in item.outputs if output.verdict == "pass"}
    for name, reports in seen.items():
        # What is drawn anew each time agrees by chance (infinities, NaN): it counts where nothing is left to chance.
        random = [output for output in reports if output.reason in (RANDOM, RANDOM_SHAPE, STOPPED)]
        if name not in shown and (random or all(output.verdict == "unproved" for output in reports)):
            missing.append((name, (random or reports)[0].reason))
    return tuple(missing)


@dataclass(frozen=True)
class WitnessRecord:
    """What another engine gives for the converted file, judged against the source as the proof judges.

    Attributes:
        engine: what the user calls it.
        title: its own name.
        version: the version that is installed.
        sets: one entry a set of inputs; `converted_seconds` is the latency there.
        refused: why it does not load the file; empty where it does.
        notes: what else is worth knowing.
        load_seconds: time in which it loads the file.
    """

    engine: str
    title: str
    version: str
    sets: tuple[SetReport, ...] = ()
    refused: str = ""
    notes: tuple[str, ...] = ()
    load_seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """``"refused"``: it does not load the file; else as that of a proof."""
        if self.refused:
            return "refused"
        if any(item.failed for item in self.sets):
            return "failed"
        return "unproved" if self.unproved else "passed"

    @property
    def unproved(self) -> tuple[tuple[str, str], ...]:
        """What no set of inputs proves of a file that it loads, and why."""
        return () if self.refused else unproved_of(self.sets, self.notes)

    @property
    def latency(self) -> float | None:
        """Seconds of a run on the first set of inputs that it runs on; None where there is none."""
        return next((item.converted_seconds for item in self.sets if item.outputs), None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """In a line each, why its verdict is not "passed"."""
        lines = [f"does not load the file: {self.refused}"] if self.refused else []
        for item in self.sets:
            lines += [f"{item.name}: {item.error}"] if item.error else []
            lines += [f"{item.name}, {_failure(output)}" for output in item.outputs if output.verdict == "fail"]
        return tuple(lines + [f"unproved: {f'{name}: ' if name else ''}{reason}" for name, reason in self.unproved])

    def __str__(self) -> str:
        return f"{self.title} {self.version}".rstrip()


def _failure(output: OutputReport) -> str:
    figures = output.figures
    if figures is None:
        return f"{output.name}: {output.reason}"
    change = f"{figures.source!r} became {figures.converted!r} at {list(figures.where)}"
    return f"{output.name}: {output.reason}{'; ' if output.reason else ''}{change}"


@dataclass(frozen=True)
class Divergence:
    """The first node whose own arithmetic differs, fed with the reference's values.

    Attributes:
        node: name of the ONNX node.
        op: its operator.
        output: the value that differs.
        error: its greatest error when the node is fed with the reference's inputs.
        allowed: the budget there.
        source_op: the operator of the source framework that it came from.
        where: module path, file and line in the user's code.
    """

    node: str
    op: str
    output: str
    error: float
    allowed: float
    source_op: str = ""
    where: str = ""

    def __str__(self) -> str:
        origin = f", from {self.source_op}" if self.source_op else ""
        place = f" at {self.where}" if self.where else ""
        size = f"local error {self.error:.3g}, allowed {self.allowed:.3g}"
        return f"first divergent node: {self.op} {self.node!r}{origin}{place}: {size}"


@dataclass(frozen=True)
class ProofRecord:
    """The result of a validation, as data.

    Attributes:
        source: the side that counts as right.
        converted: the side under test.
        sets: one entry a set of inputs.
        notes: what else is worth knowing, from the conversion and from the validation.
        versions: package versions by name.
        divergence: on failure, the first node that differs by itself, where the search has one.
        not_loaded: why the runtime that the converted model is for did not run it; empty where it did.
        witnesses: what other engines give for the converted file; the verdict is without them.
        details: what only the page shows; None unless a page was asked for before the proof.
        frozen: what the source reads of its surroundings that changes its outputs; empty where there is none.
        inside: which operator is wrong by itself where the outputs hardly change with the inputs; empty where none is.
    """

    source: Side
    converted: Side
    sets: tuple[SetReport, ...]
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    divergence: Divergence | None = None
    not_loaded: str = ""
    witnesses: tuple[WitnessRecord, ...] = ()
    details: Details | None = None
    frozen: str = ""
    inside: str = ""

    @property
    def verdict(self) -> Outcome:
        """``"failed"``: something differs; ``"passed"``: every output agreed by value on a set of inputs; else ``"unproved"``."""
        if any(item.failed for item in self.sets):
            return "failed"
        return "unproved" if self.unproved else "passed"

    @property
    def passed(self) -> bool:
        """Whether every output was compared by value on at least one set of inputs, and nothing differs."""
        return self.verdict == "passed"

    @property
    def unproved(self) -> tuple[tuple[str, str], ...]:
        """What no set of inputs proves, and why: names of outputs; "" where it is the whole model."""
        return unproved_of(self.sets, self.notes, self.not_loaded, self.frozen, self.inside)

    @property
    def worst(self) -> OutputReport | None:
        """The output to look at: a failed one if any, else the one that uses most of its budget."""
        outputs = [output for item in self.sets for output in item.outputs]
        return max(outputs, key=lambda output: (output.verdict == "fail", *output.size), default=None)

    @property
    def max_abs(self) -> float:
        """Greatest absolute difference over all outputs and sets."""
        return max((o.figures.max_abs for item in self.sets for o in item.outputs if o.figures), default=0.0)
