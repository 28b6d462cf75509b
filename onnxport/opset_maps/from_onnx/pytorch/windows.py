"""Linear algebra, convolutions, pooling and Fourier transforms in torch."""

from __future__ import annotations

from typing import Any, Unpack

import onnx_ir as ir
import torch
import torch.nn.functional as F

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.pytorch import functions
from onnxport.opset_maps.from_onnx.pytorch.tensors import TorchTensorFamily, calling
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor
from onnxport.opset_maps.from_onnx.values import GroupedStrides, Ints, PaddedStrides, Strides, all_known

_CONV = (F.conv1d, F.conv2d, F.conv3d)
_CONV_TRANSPOSE = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
MAX_POOL = (F.max_pool1d, F.max_pool2d, F.max_pool3d)


class TorchWindowFamily(TorchTensorFamily):
    """Products, and what slides over images."""

    matmul = calling(torch.matmul)
    det = calling(torch.linalg.det)

    def einsum(self, equation: str, *xs: TorchTensor) -> TorchTensor:
        result, dtype = self.call(torch.einsum, equation, *xs), self.dtype(xs[0])
        # torch's sums of whole numbers are int64
        return self.astype(result, dtype) if dtype.name.startswith(("INT", "UINT")) else result

    def conv(
        self, x: TorchTensor, weight: TorchTensor, bias: TorchTensor | None = None, **form: Unpack[PaddedStrides]
    ) -> TorchTensor:
        strides, pads, dilations, groups = form["strides"], form["pads"], form["dilations"], form.get("groups", 1)
        spatial = _spatial(strides, "convolves")
        padding: Any = [0] * spatial
        befores, afters = [before for before, _ in pads], [after for _, after in pads]
        if all_known(befores) and all_known(afters) and befores == afters:
            padding = [int(n) for n in befores]
        else:
            x = self.pad(x, [(0, 0), (0, 0), *pads])
        return self.call(
            _CONV[spatial - 1], x, weight, bias, list(strides), padding, [int(d) for d in dilations], groups
        )

    def conv_transpose(
        self, x: TorchTensor, weight: TorchTensor, bias: TorchTensor | None = None, **form: Unpack[GroupedStrides]
    ) -> TorchTensor:
        strides, dilations, groups = form["strides"], form["dilations"], form.get("groups", 1)
        spatial = _spatial(strides, "convolves")
        return self.call(_CONV_TRANSPOSE[spatial - 1], x, weight, bias, list(strides), 0, 0, groups, list(dilations))

    def max_pool(self, x: TorchTensor, kernel: Ints, **form: Unpack[Strides]) -> TorchTensor:
        spatial = _spatial(kernel, "pools")
        dtype = self.dtype(x)
        if not dtype.is_floating_point():
            wide = self.max_pool(self.astype(x, ir.DataType.DOUBLE), kernel, **form)
            return self.astype(wide, dtype)
        return self.call(MAX_POOL[spatial - 1], x, list(kernel), list(form["strides"]), 0, list(form["dilations"]))

    def sum_pool(self, x: TorchTensor, kernel: Ints, **form: Unpack[Strides]) -> TorchTensor:
        _spatial(kernel, "pools")
        return self.call(functions.sum_pool, x, list(kernel), list(form["strides"]), list(form["dilations"]))

    def fft(self, x: TorchTensor, axis: int, inverse: bool = False) -> TorchTensor:
        return self.call(torch.fft.ifft if inverse else torch.fft.fft, x, dim=axis)


def _spatial(axes: Ints, verb: str) -> int:
    """How many spatial axes these are."""
    if not 1 <= len(axes) <= 3:
        raise UnsupportedOperator(f"torch {verb} 1 to 3 spatial axes, not {len(axes)}")
    return len(axes)
