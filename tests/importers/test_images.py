"""ImageDecoder against Pillow, which reads what is written here in every format that ONNX names."""

import io

import numpy as np
import onnx.parser
import pytest

import onnxport
from onnxport.errors import InvalidInputError

pytestmark = pytest.mark.pytorch
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 9, 3), np.uint8)
FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")


def decoder(pixel_format):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (uint8[n] x) => (uint8[h, w, c] y) '
        f'{{ y = ImageDecoder <pixel_format = "{pixel_format}"> (x) }}'
    )
    net = onnxport.convert(model, to="pytorch", validate=False)
    return lambda data: net(torch.frombuffer(bytearray(data), dtype=torch.uint8)).numpy()


def written(pixels, kind, mode="RGB"):
    images = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    images.fromarray(pixels).convert(mode).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_of_each_format_gives_its_pixels(kind):
    images = pytest.importorskip("PIL.Image")
    data = written(PIXELS, kind)
    expected = np.array(images.open(io.BytesIO(data)).convert("RGB"))
    np.testing.assert_array_equal(decoder("RGB")(data), expected)
    np.testing.assert_array_equal(decoder("BGR")(data), expected[:, :, ::-1])


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "1"])
def test_any_kind_of_pixel_comes_in_the_format_asked_for(mode):
    images = pytest.importorskip("PIL.Image")
    data = written(PIXELS, "PNG", mode)
    image = images.open(io.BytesIO(data))
    np.testing.assert_array_equal(decoder("RGB")(data), np.array(image.convert("RGB")))
    np.testing.assert_array_equal(decoder("Grayscale")(data), np.array(image.convert("L"))[:, :, None])


def test_what_is_no_image_is_refused():
    with pytest.raises(InvalidInputError, match="ImageDecoder: the bytes can't be decoded"):
        decoder("RGB")(b"no image at all")


def test_an_image_of_too_many_pixels_is_refused():
    images = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    images.new("1", (9000, 9000)).save(file, "PNG")
    with pytest.raises(InvalidInputError, match="too large"):
        decoder("RGB")(file.getvalue())
