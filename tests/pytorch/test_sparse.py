"""Buffers that are sparse tensors: a dense one where the model makes it dense, refused where it computes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

from torch import nn  # noqa: E402

import onnxport  # noqa: E402
from onnxport.errors import UnsupportedOperator  # noqa: E402

pytestmark = pytest.mark.pytorch

TABLE = torch.tensor([[0.0, 1.0, 0.0, 0.0], [2.0, 0.0, 0.0, 3.0], [0.0, 0.0, 0.0, 0.0]])
X = torch.linspace(-1, 1, 24).reshape(4, 6)


class Held(nn.Module):
    def __init__(self, table: Any, compute: Callable[..., Any]) -> None:
        super().__init__()
        self.register_buffer("table", table)
        self.compute = compute

    def forward(self, x: Any) -> Any:
        return self.compute(self.table, x)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr], ids=str)
def test_a_sparse_buffer(layout: Any) -> None:
    table = TABLE.to_sparse(layout=layout)
    written = onnxport.convert(Held(table, lambda held, x: held.to_dense() @ x), inputs=(X,))
    assert written.report.verdict == "passed"
    for compute in (torch.sparse.mm, torch.matmul, lambda held, x: (held * 2.0).to_dense() @ x):
        with pytest.raises(UnsupportedOperator, match="sparse tensor.*to_dense"):
            onnxport.convert(Held(table, compute), inputs=(X,))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_a_result_without_elements_needs_no_operator() -> None:
    def sampled(table: Any, x: Any) -> Any:
        return torch.sparse.sampled_addmm(table, x[:0], x.T).to_dense()

    written = onnxport.convert(Held(torch.zeros(0, 4).to_sparse_csr(), sampled), inputs=(X,), validate=False)
    assert np.asarray(written(X.numpy())).shape == (0, 4)
