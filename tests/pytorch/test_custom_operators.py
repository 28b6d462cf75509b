"""Operators of ``torch.library.custom_op``: written in PyTorch's operators, they convert as what they do."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import onnxport
from onnxport.errors import UnsupportedOperator


@torch.library.custom_op("onnxport_tests::squared", mutates_args=())
def squared(x: torch.Tensor, shift: float) -> torch.Tensor:
    return x * x + shift


@torch.library.custom_op("onnxport_tests::projected", mutates_args=(), device_types="cpu")
def projected(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows, length, _ = x.shape
    heads = (x @ weight).view(rows, length, 2, -1).transpose(1, 2)
    result = F.scaled_dot_product_attention(heads, heads, heads)
    return result.transpose(1, 2).reshape(rows, length, -1), result.sum((1, 3))


@torch.library.custom_op("onnxport_tests::by_rows", mutates_args=())
def by_rows(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] > 100 else x + 1


@torch.library.custom_op("onnxport_tests::sorted_by_numpy", mutates_args=())
def sorted_by_numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.sort(x.numpy(), -1))


@torch.library.custom_op("onnxport_tests::in_columns", mutates_args=())
def in_columns(x: torch.Tensor) -> torch.Tensor:
    result = torch.empty(x.shape[0], 3)
    result[:, 0] = 1.0
    result[:, 1:] = x.unsqueeze(1) * 2
    result[:, 2].mul_(3)
    return result


@torch.library.custom_op("onnxport_tests::by_value", mutates_args=())
def by_value(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sum() > 0 else x - 1


for _operator in (squared, by_rows, sorted_by_numpy, by_value):
    _operator.register_fake(lambda x, *_: torch.empty_like(x))
projected.register_fake(lambda x, weight: (torch.empty_like(x), x.new_empty(x.shape[0], x.shape[1])))
in_columns.register_fake(lambda x: x.new_empty(x.shape[0], 3))
_WEIGHT = torch.eye(8) + 0.1


def attending(x):
    result, sums = projected(squared(x, 0.5), _WEIGHT)
    return result * 2, sums


def test_what_is_written_in_pytorch_converts():
    converted = onnxport.convert(
        attending, inputs=(torch.randn(2, 3, 8),), dynamic_shapes={"x": {0: "rows", 1: "length"}}
    )
    assert converted.report.passed
    x = torch.randn(5, 7, 8)
    for got, want in zip(converted(x.numpy()), attending(x), strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)


def test_a_body_that_asks_for_sizes_holds_for_the_given_one():
    converted = onnxport.convert(lambda x: by_rows(x), inputs=(torch.randn(3, 4),))
    assert list(converted.model.graph.inputs[0].shape) == [3, 4]


@pytest.mark.parametrize("operator", [sorted_by_numpy, by_value])
def test_a_body_beyond_pytorchs_operators_is_refused(operator):
    with pytest.raises(UnsupportedOperator, match="onnxport_tests::"):
        onnxport.convert(lambda x: operator(x), inputs=(torch.randn(3, 4),))


@pytest.mark.parametrize("call", [in_columns, torch.vander], ids=["a body of the user's", "one of torch's own"])
def test_what_a_body_writes_into_a_part_of_a_tensor_stays_written(call):
    """Also without a proof: the parts share the tensor's memory, which make_fx does not record."""
    x = torch.randn(4)
    converted = onnxport.convert(lambda x: call(x), inputs=(x,), validate=False)
    np.testing.assert_allclose(converted(x.numpy()), call(x).numpy(), rtol=1e-5)
    assert onnxport.convert(lambda x: call(x), inputs=(x,)).report.passed
