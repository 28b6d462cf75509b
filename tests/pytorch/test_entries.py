"""Every entry of the ATen map: its cases exported, run and compared with PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from onnxport.converters.request import Request  # noqa: E402
from onnxport.converters.to_onnx.pytorch import export  # noqa: E402
from onnxport.model import OnnxModel  # noqa: E402
from onnxport.opset_maps.cases import Case  # noqa: E402
from onnxport.opset_maps.maps import aten  # noqa: E402

pytestmark = pytest.mark.pytorch


def unique_cases() -> Iterator[tuple[str, Case]]:
    """Each case once, with the names of the first entry that carries it."""
    seen: set[int] = set()
    for entry in aten:
        for index, case in enumerate(entry.cases):
            if id(case) not in seen:
                seen.add(id(case))
                yield f"{entry.name}-{case.name or index}", case


CASES = list(unique_cases())
PARAMETERS = [pytest.param(case, id=name) for name, case in CASES]


def as_tensors(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(torch.from_numpy(item.copy()) if isinstance(item, np.ndarray) else item for item in inputs)


def model_of(case: Case) -> Any:
    torch.manual_seed(0)
    return case.call() if case.factory else case.call


def flat(result: Any) -> list[np.ndarray]:
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if leaf is not None]
    return [array(leaf) for leaf in leaves]


def array(leaf: Any) -> np.ndarray:
    if not isinstance(leaf, torch.Tensor):
        return np.asarray(leaf)
    leaf = leaf.detach()
    return (torch.view_as_real(leaf.resolve_conj()) if leaf.is_complex() else leaf.resolve_neg()).numpy()


def feeds(inputs: tuple[Any, ...]) -> list[np.ndarray]:
    return [array(item) for item in as_tensors(inputs) if isinstance(item, torch.Tensor)]


def compare(exported: OnnxModel, model: Any, inputs: tuple[Any, ...], rtol: float = 2e-4, atol: float = 2e-5) -> None:
    with torch.no_grad():
        wanted = flat(model(*as_tensors(inputs)))
    found = exported(*feeds(inputs))
    found = list(found) if isinstance(found, tuple) else [found]
    assert len(found) == len(wanted)
    for have, want in zip(found, wanted, strict=True):
        assert have.shape == want.shape
        assert have.dtype == want.dtype
        assert_allclose(have, want, rtol=rtol, atol=atol)


def run(case: Case, opset: int) -> None:
    model = model_of(case)
    inputs = case.draw()
    exported = export(model, Request(inputs=as_tensors(inputs), target_opset=opset))
    compare(exported, model, inputs)
    if case.dynamic:
        compare(exported, model, grown(inputs))


def grown(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs with the batch one larger: every first dimension that equals the first input's."""
    batch = next(item.shape[0] for item in inputs if isinstance(item, np.ndarray) and item.ndim)

    def grow(item: Any) -> Any:
        if isinstance(item, np.ndarray) and item.ndim and item.shape[0] == batch:
            return np.concatenate([item, item[:1]])
        return item

    return tuple(grow(item) for item in inputs)


@pytest.mark.parametrize("case", PARAMETERS)
def test_case_at_the_default_opset(case: Case) -> None:
    run(case, max(21, case.min_opset))


@pytest.mark.parametrize("opset", [13, 17, 23, 26])
@pytest.mark.parametrize("case", PARAMETERS[::3])
def test_sampled_cases_at_other_opsets(case: Case, opset: int) -> None:
    if opset < case.min_opset:
        pytest.skip(f"needs opset {case.min_opset}")
    run(case, opset)


def test_every_entry_carries_a_case_and_a_docstring() -> None:
    assert [entry.name for entry in aten if not entry.cases or not entry.summary] == []
