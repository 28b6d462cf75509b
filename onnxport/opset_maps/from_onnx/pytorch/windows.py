"""Linear algebra, convolutions, pooling and Fourier transforms in torch."""

# The primitives are described once, in from_onnx/primitives/.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch
import torch.nn.functional as F

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.pytorch import functions
from onnxport.opset_maps.from_onnx.pytorch.indexing import Indexing
from onnxport.opset_maps.from_onnx.values import Pads, Tensor, known

_CONV = (F.conv1d, F.conv2d, F.conv3d)
_CONV_TRANSPOSE = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
_MAX_POOL = (F.max_pool1d, F.max_pool2d, F.max_pool3d)


class Windows(Indexing):
    """Products, and what slides over images."""

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        return self.call(torch.matmul, a, b)

    def einsum(self, equation: str, *xs: Tensor) -> Tensor:
        return self.call(torch.einsum, equation, *xs)

    def det(self, x: Tensor) -> Tensor:
        return self.call(torch.linalg.det, x)

    def conv(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        strides: Sequence[int],
        pads: Pads,
        dilations: Sequence[int],
        groups: int = 1,
    ) -> Tensor:
        spatial = _spatial(strides, "convolves")
        padding: Any = [0] * spatial
        if all(known(a) and known(b) and a == b for a, b in pads):
            padding = [int(a) for a, _ in pads]
        else:
            x = self.pad(x, [(0, 0), (0, 0), *pads])
        return self.call(
            _CONV[spatial - 1], x, weight, bias, list(strides), padding, [int(d) for d in dilations], groups
        )

    def conv_transpose(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        strides: Sequence[int],
        dilations: Sequence[int],
        groups: int = 1,
    ) -> Tensor:
        spatial = _spatial(strides, "convolves")
        return self.call(_CONV_TRANSPOSE[spatial - 1], x, weight, bias, list(strides), 0, 0, groups, list(dilations))

    def max_pool(self, x: Tensor, kernel: Sequence[int], *, strides: Sequence[int], dilations: Sequence[int]) -> Tensor:
        spatial = _spatial(kernel, "pools")
        dtype = self.dtype(x)
        if not dtype.is_floating_point():
            wide = self.max_pool(self.astype(x, ir.DataType.DOUBLE), kernel, strides=strides, dilations=dilations)
            return self.astype(wide, dtype)
        return self.call(_MAX_POOL[spatial - 1], x, list(kernel), list(strides), 0, list(dilations))

    def sum_pool(self, x: Tensor, kernel: Sequence[int], *, strides: Sequence[int], dilations: Sequence[int]) -> Tensor:
        _spatial(kernel, "pools")
        return self.call(functions.sum_pool, x, list(kernel), list(strides), list(dilations))

    def fft(self, x: Tensor, axis: int, inverse: bool = False) -> Tensor:
        return self.call(torch.fft.ifft if inverse else torch.fft.fft, x, dim=axis)


def _spatial(axes: Sequence[int], verb: str) -> int:
    """How many spatial axes these are."""
    if not 1 <= len(axes) <= 3:
        raise UnsupportedOperator(f"torch {verb} 1 to 3 spatial axes, not {len(axes)}")
    return len(axes)
