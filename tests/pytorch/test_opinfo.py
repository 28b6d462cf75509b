"""A seeded sample of PyTorch's operator database; scripts/conformance/opinfo.py runs all of it."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytest.importorskip("expecttest", reason="PyTorch's operator database needs expecttest")

pytestmark = pytest.mark.pytorch

SCRIPT = Path(__file__).parents[2] / "scripts" / "conformance" / "opinfo.py"
# Operators that are always tried: one or two of each family.
ALWAYS = (
    "add cumsum cummax sort topk median searchsorted linalg.inv linalg.qr lgamma special.ndtri gcd "
    "nn.functional.cross_entropy nn.functional.embedding_bag nn.functional.grid_sample histc cdist index_reduce.mean"
).split()
SAMPLED = 2


def load() -> Any:
    spec = importlib.util.spec_from_file_location("opinfo", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


opinfo = load()
BY_TITLE = {opinfo.title(info): info for info in opinfo.op_db}
REST = sorted(set(BY_TITLE) - set(ALWAYS))
CHOSEN = [*ALWAYS, *random.Random(0).sample(REST, SAMPLED)]


@pytest.mark.filterwarnings("ignore")  # the samples warn of deprecated operators and of what they do with them
@pytest.mark.parametrize("title", CHOSEN)
def test_numbers_are_never_wrong(title: str) -> None:
    info = BY_TITLE[title]
    found = [opinfo.check(info, sample) for _, _, sample in opinfo.samples(info, 1)]
    assert [item for item in found if item[0] in ("wrong", "defect")] == []
    if title in ALWAYS:
        assert "right" in {verdict for verdict, _ in found}
