"""Resize: every coordinate transformation, mode and rounding against onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.evidence import require_import

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

TRANSFORMS = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric")
SIZES = [(4, 7), (7, 4), (5, 1), (1, 3), (6, 12), (5, 13)]


def model(size, opset=19, scales=None, **attributes):
    inputs = ["x", "", "scales"] if scales is not None else ["x", "", "", "sizes"]
    given = numpy_helper.from_array(np.float32(scales), "scales") if scales is not None else None
    wanted = numpy_helper.from_array(np.int64([1, 2, size]), "sizes") if scales is None else given
    graph = helper.make_graph(
        [helper.make_node("Resize", inputs, ["y"], **attributes)],
        "resize",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, None])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [wanted],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def rows():
    for transform in TRANSFORMS:
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            yield {"mode": "nearest", "nearest_mode": rounding, "coordinate_transformation_mode": transform}
        yield {"mode": "linear", "coordinate_transformation_mode": transform}


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize(("ours", "wanted"), SIZES)
@pytest.mark.parametrize("attributes", list(rows()), ids=lambda a: "-".join(a.values()))
def test_an_axis_is_resampled_as_the_runtime_does(attributes, ours, wanted):
    x = np.random.default_rng(0).normal(size=(1, 2, ours)).astype(np.float32)
    proto = model(wanted, **attributes)
    require_import(proto, "pytorch", (x,))


@pytest.mark.parametrize("scale", [2.6, 0.7, 1.5, 3.0, 0.3])
@pytest.mark.parametrize("rounding", ["floor", "round_prefer_floor"])
def test_scales_give_the_sizes_of_float32(scale, rounding):
    x = np.random.default_rng(0).normal(size=(1, 2, 5)).astype(np.float32)
    proto = model(0, scales=[1, 1, scale], mode="nearest", nearest_mode=rounding)
    require_import(proto, "pytorch", (x,))


def test_tensorflows_own_centres():
    x = np.random.default_rng(0).normal(size=(1, 2, 5)).astype(np.float32)
    attributes = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    proto = model(8, opset=11, **attributes)
    proto.graph.node[0].input[1:3] = ["roi", "none"]
    proto.graph.initializer.extend([numpy_helper.from_array(np.zeros(0, np.float32), name) for name in ("roi", "none")])
    require_import(proto, "pytorch", (x,))
