"""Operators that read memory by strides, of operands whose axes lie there in another order."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

import onnxport  # noqa: E402
from onnxport.errors import UnsupportedOperator  # noqa: E402


class Chunks(torch.nn.Module):
    """Chunks that overlap by half, of rows that lie behind one another in memory."""

    def forward(self, x):
        x = (x * 2).transpose(0, 1)
        x = x.view(x.size(0), 3, 4, x.size(2))
        size, stride = list(x.size()), list(x.stride())
        size[1], stride[1] = size[1] * 2 - 1, stride[1] // 2
        return x.as_strided(size, stride)


class Part(torch.nn.Module):
    def forward(self, x):
        return (x * 2)[:, 1:].as_strided((3, 2), (2, 1))


def test_an_operand_in_another_order():
    x = torch.rand(12, 2, 5)
    model = onnxport.convert(Chunks(), inputs=(x,), dynamic_shapes={"x": {1: "batch"}})
    assert model.report.passed
    assert torch.equal(torch.from_numpy(model(x.numpy())), Chunks()(x))
    other = torch.rand(12, 7, 5)
    assert torch.equal(torch.from_numpy(model(other.numpy())), Chunks()(other))


def test_a_part_of_other_memory_is_refused():
    with pytest.raises(UnsupportedOperator, match="view of other memory"):
        onnxport.convert(Part(), inputs=(torch.rand(3, 4),))
