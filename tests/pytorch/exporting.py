"""What the PyTorch tests share: exporting, running, comparing with torch run live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.testing import assert_allclose
from torch.utils import _pytree as pytree

from onnxport.converters.to_onnx.pytorch import export
from onnxport.model import OnnxModel
from onnxport.request import Request


def array(leaf: Any) -> np.ndarray:
    """A tensor as NumPy sees it; a complex one as its parts."""
    if not isinstance(leaf, torch.Tensor):
        return np.asarray(leaf)
    leaf = leaf.detach().clone()
    return torch.view_as_real(leaf.resolve_conj()).numpy() if leaf.is_complex() else leaf.resolve_neg().numpy()


def arrays(tree: Any) -> list[np.ndarray]:
    """All leaves that are not None."""
    return [array(leaf) for leaf in pytree.tree_leaves(tree) if leaf is not None]


def compare(found: Any, wanted: Sequence[np.ndarray], rtol: float = 2e-4, atol: float = 2e-5) -> None:
    """Asserts equal number, shapes, types and values."""
    outputs = list(found) if isinstance(found, tuple) else [found]
    assert len(outputs) == len(wanted)
    for have, want in zip(outputs, wanted, strict=True):
        assert have.shape == want.shape
        assert have.dtype == want.dtype
        assert_allclose(have, want, rtol=rtol, atol=atol)


def exported(model: Any, *inputs: Any, **request: Any) -> OnnxModel:
    """The model as ONNX."""
    return export(model, Request(inputs=inputs, **request))


def run_both(made: OnnxModel, model: Any, *inputs: Any) -> None:
    """Runs both on copies of `inputs` and compares; outputs beyond the model's own are left to the caller."""
    fed = arrays([item for item in pytree.tree_leaves(inputs) if isinstance(item, torch.Tensor)])
    with torch.no_grad():
        wanted = arrays(model(*pytree.tree_map_only(torch.Tensor, torch.clone, inputs)))
    found = made(*fed)
    outputs = list(found) if isinstance(found, tuple) else [found]
    compare(tuple(outputs[: len(wanted)]), wanted)
