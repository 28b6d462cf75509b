"""Linear algebra, convolutions, pooling and Fourier transforms."""

from __future__ import annotations

from typing import Unpack

from onnxport.opset_maps.from_onnx.primitives.tensors import TensorFamily, primitive
from onnxport.opset_maps.from_onnx.values import GroupedStrides, Ints, PaddedStrides, Strides, Tensor


class WindowFamily(TensorFamily):
    """Products, and what slides over images."""

    @primitive
    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """NumPy's matmul, of integers too."""

    @primitive
    def einsum(self, equation: str, *xs: Tensor) -> Tensor:
        """Einstein sum in NumPy's notation."""

    @primitive
    def det(self, x: Tensor) -> Tensor:
        """Determinants of the last two axes."""

    @primitive
    def conv(self, x: Tensor, weight: Tensor, bias: Tensor | None = None, **form: Unpack[PaddedStrides]) -> Tensor:
        """Cross-correlation with weight (out, in/groups, k1, ...), in any number of spatial axes."""

    @primitive
    def conv_transpose(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, **form: Unpack[GroupedStrides]
    ) -> Tensor:
        """Transpose of `conv` without padding, weight (in, out/groups, k1, ...): size (n - 1) stride + (k - 1) dilation + 1."""

    @primitive
    def max_pool(self, x: Tensor, kernel: Ints, **form: Unpack[Strides]) -> Tensor:
        """Greatest element of each window that lies wholly inside x."""

    @primitive
    def sum_pool(self, x: Tensor, kernel: Ints, **form: Unpack[Strides]) -> Tensor:
        """Sum of each window that lies wholly inside x."""

    @primitive
    def fft(self, x: Tensor, axis: int, inverse: bool = False) -> Tensor:
        """Discrete Fourier transform of a complex tensor along one axis; the inverse divides by n."""
