"""Image files for the inputs of a graph that decodes them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from onnxport.validation.input_sets.operands.scene import Rules, Scene, Values

RULES = Rules()

# Height and width where the graph does not declare them.
_HEIGHT, _WIDTH = 5, 7


@RULES.of("ImageDecoder")
def _encoded_image(scene: Scene) -> Values:
    """ImageDecoder's operand: a PNG file of the declared size, with zeros behind it to its declared length."""
    height, width = _size(scene.output_shape())
    row = scene.rng.integers(0, 256, (1, width, 3), np.uint8)
    pixels = np.repeat(row, height, axis=0)
    pixels[height // 2 :] = 255 - pixels[height // 2 :]
    file = np.frombuffer(png(pixels), np.uint8)
    declared = scene.shape(0)
    length = prod(declared) if declared is not None else len(file)
    missing = length - len(file)
    return {0: np.concatenate([file, np.zeros(missing, np.uint8)])} if missing >= 0 else {}


def _size(shape: Sequence[int] | None) -> tuple[int, int]:
    return (shape[0], shape[1]) if shape is not None and len(shape) == 3 and min(shape) > 0 else (_HEIGHT, _WIDTH)


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """A PNG file of uint8 [height, width, 3] (ISO/IEC 15948: signature, IHDR, IDAT, IEND)."""
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
