"""A sample of the elementwise operators on the edges of their types; scripts/conformance/edges.py runs all of them."""

from __future__ import annotations

import random

import pytest

from scripts.conformance import edges

ALWAYS = {
    "torch": (
        "torch.i0:float32 torch.special.i1:float64 torch.igamma:float32 torch.special.zeta:float32 torch.polygamma(2):float32 "
        "torch.polygamma(1):float16 torch.gcd:int32 torch.lcm:int32 F.threshold:int64 F.gelu:float16 torch.floor_divide:int64 "
        "torch.floor_divide:int32 torch.igamma:float64 torch.polygamma(1):float64 torch.add(alpha):float32 "
        "torch.special.ndtr:float16"
    ).split(),
    "tensorflow": (
        "tf.math.igamma:float32 tf.math.igammac:float32 tf.math.special.fresnel_sin:float32 tf.nn.gelu:float16 "
        "tf.bitwise.left_shift:uint8 tf.math.floormod:int32 tf.math.erf:float64 tf.math.special.bessel_y1:float64"
    ).split(),
}
SAMPLED = 12


def require_right(name: str) -> None:
    framework = edges.Framework(name)
    rest = sorted(f"{item}:{dtype}" for item in framework.functions for dtype in ("float32", "float16", "int32"))
    chosen = [*ALWAYS[name], *random.Random(0).sample(rest, SAMPLED)]
    found = {item: next(iter(edges.check(framework, item))) for item in chosen}
    assert {item: row for item, row in found.items() if row[1] in ("wrong", "defect")} == {}
    assert {found[item][1] for item in ALWAYS[name]} == {"right"}


@pytest.mark.pytorch
@pytest.mark.filterwarnings("ignore")  # operators are tried that are deprecated, and numbers that overflow
def test_edges_of_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    require_right("torch")
    assert repr(torch.ones(2)) == "tensor([1., 1.])"  # no setting of the process was taken for an operator


@pytest.mark.tensorflow
@pytest.mark.filterwarnings("ignore")  # operators are tried that are deprecated, and numbers that overflow
def test_edges_of_tensorflow() -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    require_right("tensorflow")
