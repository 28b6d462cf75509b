"""Architectures: exported at several opsets, checked, and run at other sizes than they were traced with."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

from onnxport.converters.to_onnx.pytorch import export  # noqa: E402
from onnxport.request import Request  # noqa: E402
from tests.evidence import require_equal  # noqa: E402
from tests.graph.written import moved_constants  # noqa: E402
from tests.pytorch.models import GPT, Encoder, LSTMClassifier, MobileNet, ResNet, ViT  # noqa: E402

pytestmark = pytest.mark.pytorch

IMAGE = torch.randn(1, 3, 32, 32)
IDS = torch.arange(1, 8)[None]
TEXT = {0: "batch", 1: "length"}
MODELS: list[tuple[type[Any], tuple[Any, ...], Any, tuple[Any, ...]]] = [
    (ResNet, (IMAGE,), None, (IMAGE.repeat(3, 1, 1, 1),)),
    (MobileNet, (IMAGE,), None, (IMAGE.repeat(3, 1, 1, 1),)),
    (ViT, (IMAGE[..., :16, :16],), None, (torch.randn(3, 3, 16, 16),)),
    (GPT, (IDS,), {"ids": TEXT}, (IDS.repeat(3, 2),)),
    (LSTMClassifier, (IDS,), {"ids": TEXT}, (IDS.repeat(3, 2),)),
    (
        Encoder,
        (IDS, torch.ones(1, 7), True),
        {"input_ids": TEXT, "attention_mask": TEXT},
        (IDS.repeat(3, 2), torch.tensor([[1.0] * 14, [1.0] * 9 + [0.0] * 5, [0.0] * 3 + [1.0] * 11]), True),
    ),
]


@pytest.mark.sampled(0.25)
@pytest.mark.parametrize("opset", [13, 17, 21, 23, 26])
@pytest.mark.parametrize("kind, inputs, dynamic_shapes, others", MODELS, ids=[item[0].__name__ for item in MODELS])
def test_architecture(
    kind: type[Any], inputs: tuple[Any, ...], dynamic_shapes: Any, others: tuple[Any, ...], opset: int
) -> None:
    torch.manual_seed(0)
    model = kind().eval()
    made = export(model, Request(inputs=inputs, dynamic_shapes=dynamic_shapes, target_opset=opset))
    onnx.checker.check_model(made.proto, full_check=True)
    assert moved_constants(made.model) == []
    for given in (inputs, others):
        require_equal(model, made, given)
