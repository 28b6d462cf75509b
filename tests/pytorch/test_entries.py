"""Every entry of the ATen map: its cases exported, run and compared with PyTorch."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

from onnxport.opset_maps.cases import Case  # noqa: E402
from onnxport.opset_maps.maps import aten  # noqa: E402
from onnxport.tracing import pytorch_detection  # noqa: E402
from tests import torchvision_operators  # noqa: E402
from tests.evidence import require_case  # noqa: E402

torchvision_operators.declare()
pytorch_detection.operator()

pytestmark = pytest.mark.pytorch

OTHER_OPSETS = (13, 17, 23, 26)


def unique_cases() -> Iterator[tuple[str, Case]]:
    """Each case once, with the name of the first entry that carries it."""
    seen: set[int] = set()
    for entry in aten:
        for index, case in enumerate(entry.cases):
            if id(case) not in seen:
                seen.add(id(case))
                yield f"{entry.name}-{case.name or index}", case


CASES = list(unique_cases())


def at_the_default_opset() -> Iterator[Any]:
    """The first case of each entry, and some of the others."""
    firsts = {id(entry.cases[0]) for entry in aten if entry.cases}
    for name, case in CASES:
        yield pytest.param(case, id=name, marks=[] if id(case) in firsts else [pytest.mark.sampled(0.03)])


def at_other_opsets() -> Iterator[Any]:
    """Each case at one of the other opsets that it has a form for, in turn."""
    for position, (name, case) in enumerate(CASES):
        opset = max(OTHER_OPSETS[position % len(OTHER_OPSETS)], case.min_opset)
        yield pytest.param(case, opset, id=f"{name}-{opset}")


def run(case: Case, opset: int) -> None:
    torch.manual_seed(0)
    require_case(
        case, "pytorch", opset, native=lambda item: torch.tensor(item) if isinstance(item, np.ndarray) else item
    )


@pytest.mark.parametrize("case", list(at_the_default_opset()))
def test_case_at_the_default_opset(case: Case) -> None:
    run(case, max(21, case.min_opset))


@pytest.mark.sampled(0.1)
@pytest.mark.parametrize("case, opset", list(at_other_opsets()))
def test_case_at_another_opset(case: Case, opset: int) -> None:
    run(case, opset)


def test_every_entry_carries_a_case_and_a_docstring() -> None:
    assert [entry.name for entry in aten if not entry.cases or not entry.summary] == []


# Overloads that no graph of the CPU's holds, or that are no functions of tensors.
NOT_IN_GRAPHS = re.compile(r"aten::(addmm|baddbmm|bmm|mm)\.dtype|aten::copy\.(t|Dict_\w+)|aten::einsum\.sublist")


def overloads() -> Iterator[tuple[str, Any]]:
    """Each overload of ATen that gives its results, with its schema."""
    for base in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, base)
        for overload in getattr(packet, "overloads", list)():
            schema = getattr(packet, overload)._schema
            if not any(argument.is_out for argument in schema.arguments) and not base.endswith("_"):
                yield f"aten::{base}" + (f".{overload}" if overload != "default" else ""), schema


def test_entries_take_the_arguments_of_every_overload_that_they_stand_for() -> None:
    """One without an entry of its own is converted by that of the operator's name."""
    misfits = []
    for name, schema in overloads():
        entry = aten.find(name)
        given = [None for argument in schema.arguments if not argument.kwarg_only]
        named = {argument.name: None for argument in schema.arguments if argument.kwarg_only}
        try:
            if entry is not None:
                inspect.signature(entry.function).bind(None, *given, **named)
        except TypeError as error:
            misfits.append(f"{name}: {error}")
    assert [item for item in misfits if not NOT_IN_GRAPHS.match(item)] == []
