"""Strings."""

from __future__ import annotations

from onnxport.opset_maps.from_onnx.primitives.tensors import TensorFamily, primitive
from onnxport.opset_maps.from_onnx.values import Tensor


class TextFamily(TensorFamily):
    """What is computed of strings."""

    @primitive
    def string_case(self, x: Tensor, upper: bool) -> Tensor:
        """Strings in upper or lower case, by Unicode."""

    @primitive
    def string_concat(self, a: Tensor, b: Tensor) -> Tensor:
        """Each string of a before that of b, broadcast against each other."""

    @primitive
    def string_split(self, x: Tensor, delimiter: str | None, maxsplit: int | None) -> tuple[Tensor, Tensor]:
        """Pieces in a new last axis filled with "", and their INT64 number, 0 for an empty string.

        As Python's str.split, but that without a delimiter whitespace at the end is no part of the last piece.
        """

    @primitive
    def regex_full_match(self, x: Tensor, pattern: str) -> Tensor:
        """Bool: whether a string as a whole matches an expression in RE2's syntax."""
