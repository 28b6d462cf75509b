"""Python's functions of sizes: of values of the graph they give what they give of Python's numbers."""

import operator

import pytest

from onnxport.graph.builder import OpBuilder

pytestmark = pytest.mark.pytorch


@pytest.mark.parametrize("name", ["and_", "or_", "eq", "ne"])
@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
def test_conditions_on_sizes(name, a, b):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    from onnxport.opset_maps.maps import aten

    op = OpBuilder(21)
    result = aten.find(f"operator::{name}").function(op, op.const(a), b)
    assert bool(op.constant(result)) is getattr(operator, name)(a, b)
