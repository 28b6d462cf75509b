"""Boxes and regions in every framework beside onnxruntime."""

import numpy as np
import pytest
from onnx import parser

import onnxport
from onnxport.graph.runtime import Session

RNG = np.random.default_rng(0)
BOXES = RNG.random((2, 30, 4)).astype(np.float32)
SCORES = np.round(RNG.random((2, 3, 30)), 1).astype(np.float32)  # many are equal
IMAGES = RNG.normal(size=(2, 3, 9, 11)).astype(np.float32)
CORNERS = (RNG.random((5, 2)) * 8).astype(np.float32)
# The last two: nothing, and more than the image.
REGIONS = np.concatenate(
    [
        np.concatenate([CORNERS, CORNERS + RNG.random((5, 2)).astype(np.float32) * 8], 1)[:3],
        [[3, 3, 3, 3], [-5, -5, 30, 30]],
    ]
).astype(np.float32)
PLACES = np.array([0, 1, 1, 0, 1])
ROI = (IMAGES, REGIONS, PLACES)


def align(**attributes):
    written = ", ".join(
        f'{key} = "{item}"' if isinstance(item, str) else f"{key} = {item}" for key, item in attributes.items()
    )
    sizes = "(float[N, 3, H, W] x, float[R, 4] r, int64[R] b) => (float[R, 3, 4, 3] y)"
    return f"{sizes} {{ y = RoiAlign <output_height = 4, output_width = 3, spatial_scale = 0.7, {written}> (x, r, b) }}"


NMS = "(float[B, N, 4] b, float[B, C, N] s%s) => (int64[K, 3] y)%s { y = NonMaxSuppression%s (b, s%s) }"
LIMITS = ", int64[1] k, float[1] o, float l"
GIVEN = " <int64[1] k = {5}, float[1] o = {0.3}, float[1] l = {0.2}>"
ROWS = [
    ("limits that are constant", NMS % ("", GIVEN, "", ", k, o, l"), (BOXES, SCORES)),
    (
        "limits that come when it runs",
        NMS % (LIMITS, "", " <center_point_box = 1>", ", k, o, l"),
        (BOXES, SCORES, np.array([20]), np.array([0.1], np.float32), np.array(0.4, np.float32)),
    ),
    ("no score is enough", NMS % ("", GIVEN.replace("0.2", "2.0"), "", ", k, o, l"), (BOXES, SCORES)),
    ("none is asked for", NMS % ("", "", "", ""), (BOXES, SCORES)),
    ("means", align(coordinate_transformation_mode="half_pixel"), ROI),
    ("means of two points", align(sampling_ratio=2), ROI),
    ("maxima", align(mode="max", coordinate_transformation_mode="output_half_pixel"), ROI),
    ("no region", align(mode="avg"), (IMAGES, REGIONS[:0], PLACES[:0])),
]  # fmt: skip


@pytest.mark.parametrize(
    "framework",
    [
        pytest.param("pytorch", marks=pytest.mark.pytorch),
        pytest.param("tensorflow", marks=pytest.mark.tensorflow),
        pytest.param("keras", marks=[pytest.mark.keras, pytest.mark.tensorflow]),
    ],
)
@pytest.mark.parametrize(("text", "inputs"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_regions_are_those_of_onnxruntime(framework, text, inputs):
    proto = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]>\ng {text}')
    names = [item.name for item in proto.graph.input]
    expected = Session(proto).run(dict(zip(names, inputs, strict=True)))[0]
    model = onnxport.convert(proto, to=framework, validate=False)
    if framework == "pytorch":
        import torch

        inputs = tuple(map(torch.from_numpy, inputs))
    result = np.asarray(model(*inputs))
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(result, expected, rtol=0, atol=4 * np.finfo(np.float32).eps * 8)
