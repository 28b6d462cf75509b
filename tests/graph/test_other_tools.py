"""What onnxruntime's own tools make of the files as they are written."""

import numpy as np
import onnx
import pytest

import onnxport

quantization = pytest.importorskip("onnxruntime.quantization", reason="onnxruntime's quantiser reads the files")


def dense():
    import torch

    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
    return torch.nn.Sequential(*layers), {"inputs": (torch.randn(3, 8),)}


def images():
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.GlobalMaxPooling2D(), keras.layers.Dense(2)
    return keras.Sequential([keras.Input((8, 8, 3)), *layers]), {}


@pytest.mark.parametrize(
    "make", [pytest.param(dense, marks=pytest.mark.pytorch), pytest.param(images, marks=pytest.mark.keras)]
)
def test_a_file_is_quantised_as_it_is(tmp_path, make):
    places = [tmp_path / name for name in ("float.onnx", "int8.onnx")]
    model, how = make()
    onnxport.convert(model, output=places[0], **how)
    quantization.quantize_dynamic(*places)
    kinds = [node.op_type for node in onnx.load(places[1]).graph.node]
    assert sum("Integer" in kind for kind in kinds) == 2
    given = np.random.default_rng(0).standard_normal((3, 8) if make is dense else (3, 8, 8, 3)).astype(np.float32)
    want, got = (onnxport.OnnxModel.load(place)(given) for place in places)
    assert 0 < np.max(np.abs(got - want)) < 0.1 * np.max(np.abs(want))


@pytest.mark.pytorch
def test_the_type_of_an_initializer_stands_in_the_file_once():
    model, how = dense()
    proto = onnxport.convert(model, **how).proto
    assert not {item.name for item in proto.graph.value_info} & {item.name for item in proto.graph.initializer}
