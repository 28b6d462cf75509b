"""Pictures: patches of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import take
from onnxport.opset_maps.to_onnx.sklearn.fitted import unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, matrix

if TYPE_CHECKING:
    from sklearn.feature_extraction.image import PatchExtractor


def _extractor(**options: object) -> Any:
    return unfitted("feature_extraction.image", "PatchExtractor", **options)


@sklearn.lower(
    "PatchExtractor.transform",
    cases=[
        built(lambda: _extractor(patch_size=(2, 3)), f64(3, 5, 6), dynamic=True),
        built(lambda: _extractor(patch_size=(2, 2)), f32(2, 4, 4, 3)),
        built(lambda: _extractor(), f64(2, 12, 20)),
    ],
)
def patches(op: OpBuilder, model: PatchExtractor, x: Table) -> Array:
    """All patches of all pictures [N, H, W] or [N, H, W, C], one after the other."""
    if model.max_patches is not None:
        raise UnsupportedOperator(f"PatchExtractor: max_patches={model.max_patches!r} draws patches at random")
    pictures = Array(op, matrix(op, x)).astype(np.float64)
    height, width, *channels = (int(size or 0) for size in pictures.shape[1:])
    high, wide = model.patch_size or (height // 10, width // 10)
    across = np.arange(width - wide + 1)[:, None] + np.arange(wide)  # [places, wide]
    down = np.arange(height - high + 1)[:, None] + np.arange(high)
    flat = down[:, None, :, None] * width + across[None, :, None, :]
    depth = [channels[0]] if channels and channels[0] > 1 else []
    rows = pictures.reshape((-1, height * width, *depth))
    return take(rows, flat.ravel(), axis=1).reshape((-1, high, wide, *depth))
