"""Models that leave out a mask of ones by its values, as transformers' attention does: a trace can't, and the proof tells."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

import onnxport  # noqa: E402
from onnxport.errors import ValidationError  # noqa: E402


class Skips(torch.nn.Module):
    """Sums what came before, or everything where the mask has ones alone."""

    def forward(self, x, mask):
        if not torch.compiler.is_exporting() and bool(mask.all()):
            return x.sum(1, keepdim=True) + 0 * x
        return (x * mask).cumsum(1)


class Applies(torch.nn.Module):
    def forward(self, x, mask):
        return (x * mask).cumsum(1)


def inputs(*zeros):
    mask = torch.ones(2, 6, dtype=torch.int64)
    mask[1, zeros] = 0
    return torch.rand(2, 6) + 0.5, mask


def test_a_masked_example_is_proved_with_ones_alone_too():
    with pytest.raises(ValidationError, match="masks of ones alone"):
        onnxport.convert(Skips().eval(), inputs=inputs(4, 5))
    report = onnxport.convert(Applies().eval(), inputs=inputs(0, 1)).report
    assert report.passed
    assert "masks of ones alone" in [item.name for item in report.sets]


def test_the_report_names_the_mask_by_which_the_source_chooses():
    with pytest.raises(ValidationError) as caught:
        onnxport.convert(Skips().eval(), inputs=inputs())
    assert "only the last row of 'mask' gets zeros" in str(caught.value)


@pytest.mark.parametrize("zeros", [(), (1, 3)])
def test_other_masks_are_left_as_they_are(zeros):
    report = onnxport.convert(Applies().eval(), inputs=inputs(*zeros)).report
    assert report.passed
    assert "masks of ones alone" not in [item.name for item in report.sets]
