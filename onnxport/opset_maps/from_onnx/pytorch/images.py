"""Image files: bytes in a tensor, decoded by Pillow when the model runs."""

from __future__ import annotations

import io

import numpy as np
import torch

from onnxport.errors import InvalidInputError, MissingDependencyError, UnsupportedOperator
from onnxport.graph.limits import MAX_ELEMENTS
from onnxport.opset_maps.from_onnx.pytorch.namespace import TorchNamespace
from onnxport.opset_maps.from_onnx.pytorch.traced import TorchTensor
from onnxport.opset_maps.from_onnx.pytorch.worlds import META, rule
from onnxport.opset_maps.maps import pytorch_native

_CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}


def decode(encoded: torch.Tensor, pixel_format: str) -> torch.Tensor:
    """The pixels of an image file.

    Args:
        encoded: uint8 [N], the bytes of the file: BMP, JPEG, JPEG 2000, TIFF, PNG, WebP or a portable map.
        pixel_format: ``"RGB"``, ``"BGR"`` or ``"Grayscale"``.

    Returns:
        uint8 [height, width, channels].

    Raises:
        InvalidInputError: the bytes are no image, or one of too many pixels.
        MissingDependencyError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError.for_extra("pillow", "images") from error
    try:
        with Image.open(io.BytesIO(encoded.cpu().numpy().tobytes())) as image:
            width, height = image.size
            if width * height * _CHANNELS[pixel_format] > MAX_ELEMENTS:
                raise InvalidInputError(f"ImageDecoder: an image of {width} x {height} pixels is too large")
            pixels = np.array(image.convert("L" if pixel_format == "Grayscale" else "RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"ImageDecoder: the bytes can't be decoded: {error}") from error
    pixels = pixels.reshape(height, width, _CHANNELS[pixel_format])
    return torch.from_numpy(np.ascontiguousarray(pixels[:, :, ::-1] if pixel_format == "BGR" else pixels))


rule(
    decode,
    lambda fresh, encoded, pixel_format: torch.empty(
        (fresh, fresh, _CHANNELS[pixel_format]), dtype=torch.uint8, device=META
    ),
)


@pytorch_native.op("ImageDecoder", versions=(20,))
def image_decoder(xp: TorchNamespace, x: TorchTensor, *, pixel_format: str = "RGB") -> TorchTensor:
    """The pixels of an image file."""
    if pixel_format not in _CHANNELS:
        raise UnsupportedOperator(f"ImageDecoder: pixel_format={pixel_format!r} is none that ONNX names")
    return xp.call(decode, x, pixel_format)
