"""Weights in few bits: blocks of numbers along the axis that a product sums over, each with its scale.

>>> import numpy as np
>>> weight = ir.tensor(np.asarray([[1.0], [-0.5], [0.25], [0.0]], np.float32))
>>> blocks = BitBlocks(weight, bits=4, size=16)
>>> (blocks.rounded().ravel() + 0.0).tolist()
[1.0, -0.5, 0.25, 0.0]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

_ROWS = 512  # columns of the matrix that are worked on at once


@dataclass(frozen=True, eq=False)
class BitBlocks:
    """A matrix ``[K, N]`` (``[N, K]`` where `transposed`) whose columns are rounded in blocks of `size` along K.

    A block is ``scale * q`` with whole numbers q from ``-2**(bits - 1)`` up to ``2**(bits - 1) - 1``. Its scale is that one of
    two with the smaller squared error: the greatest number is ``2**(bits - 1) - 1`` steps, or with its sign ``-2**(bits - 1)``.
    """

    tensor: ir.TensorProtocol
    bits: int
    size: int
    transposed: bool = False

    @property
    def width(self) -> int:
        """K, the length of the sums."""
        return int(self.tensor.shape.numpy()[1 if self.transposed else 0])

    @property
    def columns(self) -> int:
        """N, the number of sums."""
        return int(self.tensor.shape.numpy()[0 if self.transposed else 1])

    @property
    def count(self) -> int:
        """Blocks of a column; the last one may be filled up with zeros."""
        return -(-self.width // self.size)

    def steps(self) -> np.ndarray:
        """The whole numbers q, INT8 ``[N, count, size]``."""
        return np.concatenate([steps for steps, _ in self._parts()])

    def scales(self) -> np.ndarray:
        """FLOAT ``[N, count]``."""
        return np.concatenate([scales for _, scales in self._parts()])

    def rounded(self) -> np.ndarray:
        """The matrix as the blocks have it, FLOAT in the tensor's own layout."""
        parts = [
            (steps * scales[:, :, None]).reshape(len(steps), -1)[:, : self.width] for steps, scales in self._parts()
        ]
        rows = np.concatenate(parts)
        return rows if self.transposed else np.ascontiguousarray(rows.T)

    def packed(self) -> np.ndarray:
        """The numbers above ``-2**(bits - 1)`` as MatMulNBits takes them: UINT8 ``[N, count, size * bits / 8]``."""
        shifted = (self.steps().astype(np.int16) + (1 << (self.bits - 1))).astype(np.uint8)
        return shifted if self.bits == 8 else shifted[..., 0::2] | (shifted[..., 1::2] << 4)

    def _parts(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        array = self.tensor.numpy()
        rows = array if self.transposed else array.T
        for start in range(0, self.columns, _ROWS):
            part = np.zeros((len(rows[start : start + _ROWS]), self.count * self.size), np.float32)
            part[:, : self.width] = rows[start : start + _ROWS]
            yield _in_steps(part.reshape(len(part), self.count, self.size), self.bits)


def _in_steps(blocks: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The whole numbers and the scales of blocks along the last axis."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    place = np.abs(blocks).argmax(-1)[..., None]
    greatest = np.take_along_axis(blocks, place, -1)
    best: tuple[np.ndarray, np.ndarray] | None = None
    error = np.zeros(0)
    for scale in (np.abs(greatest) / high, greatest / low):
        scale = scale.astype(np.float32)
        divisor = np.where(scale == 0, np.float32(1), scale)
        steps = np.clip(np.rint(blocks / divisor), low, high)
        own = np.square(steps * scale - blocks).sum(-1, keepdims=True)
        if best is None:
            best, error = (steps, scale), own
            continue
        better = own < error
        best = np.where(better, steps, best[0]), np.where(better, scale, best[1])
    assert best is not None
    return best[0].astype(np.int8), best[1][..., 0]
