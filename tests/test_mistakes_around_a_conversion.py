"""Mistakes in what surrounds a conversion: modes of torch, NumPy in a module, names of files, specifications for arrays."""

from types import SimpleNamespace

import numpy as np
import pytest

import onnxport
from onnxport.errors import InvalidInputError, TracingError

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
LINE = "test_mistakes_around_a_conversion.py:"


@pytest.mark.pytorch
def test_a_conversion_in_inference_mode_is_one():
    """Outside of it nothing of it is left: what was imported can be trained, and the mode is on again."""
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()).eval()
    with torch.inference_mode():
        inside = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()).eval()  # its weights are of the mode too
        model = onnxport.convert(net, inputs=(torch.from_numpy(X),))
        assert onnxport.convert(inside, inputs=(torch.ones(3, 4),)).report.passed
        assert onnxport.validate(net, model, inputs=(X,)).passed
        back = onnxport.convert(model, to="pytorch")
        assert torch.is_inference_mode_enabled()
    assert model.report.passed
    back(torch.from_numpy(X)).sum().backward()
    assert all(weight.grad is not None for weight in back.parameters())


@pytest.mark.pytorch
def test_autocast_around_a_conversion_is_refused_and_inside_of_a_module_converted():
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.dense = torch.nn.Linear(4, 3)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return self.dense(x).float()

    net = Net().eval()
    with torch.autocast("cpu"), pytest.raises(InvalidInputError, match=r"torch\.autocast\('cpu'\) is on .* leave its"):
        onnxport.convert(net, inputs=(X,))
    assert onnxport.convert(net, inputs=(X,)).report.passed


@pytest.mark.pytorch
@pytest.mark.parametrize(
    "compute, words",
    [
        (lambda x: np.fft.fft(x).real, ["np.fft.fft(x).real", "(fft) give float64, where the module gives float32"]),
        (lambda x: np.interp(x, [0, 1], [0, 2]), ["compute(x.numpy())", "NumPy computes there"]),
        (lambda x: sliding(x), ["compute(x.numpy())", "NumPy computes there"]),
    ],
)
def test_numpy_in_a_module_is_named_with_its_line(compute, words):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.from_numpy(np.ascontiguousarray(compute(x.numpy())))

    with pytest.raises(TracingError) as caught:
        onnxport.convert(Net(), inputs=(X,))
    lines = str(caught.value).splitlines()
    assert LINE in lines[0]
    assert [word for word in (*words, "Compute with torch, not with NumPy") if word not in str(caught.value)] == []
    assert len(lines) == 3


def sliding(x):
    return np.lib.stride_tricks.sliding_window_view(x, 2, 1).sum(-1)


@pytest.mark.pytorch
@pytest.mark.parametrize("name", ["abs", "tanh"])
def test_numpy_whose_types_are_those_of_torch_converts(name):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.from_numpy(getattr(np, name)(x.numpy())) + 1

    assert onnxport.convert(Net(), inputs=(X,)).report.passed


@pytest.mark.parametrize(
    "name, words",
    [
        ("net.keras", [".keras files are Keras'", "to='keras', output='net.keras'", "name it 'net.onnx'"]),
        ("net.PT2", [".pt2 files are PyTorch's", "to='pytorch', output='net.PT2'"]),
        ("net.tflite", [".tflite files are TensorFlow's", "name it 'net.onnx'"]),
        ("net.ckpt", [".ckpt files are PyTorch's"]),
        ("net.pkl", [".pkl files are scikit-learn's", "to='sklearn'"]),
        ("net/", ["'net/' is the name of a folder", "'net/model.onnx'"]),
    ],
)
def test_an_onnx_model_is_not_saved_under_another_framework_s_name(name, words, tmp_path, monkeypatch):
    import onnx

    monkeypatch.chdir(tmp_path)
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N, 4] x) => (float[N, 4] y) {y = Relu (x)}'
    onnx.save(onnx.parser.parse_model(text), "whole.onnx")
    model = onnxport.OnnxModel.load("whole.onnx")
    with pytest.raises(InvalidInputError) as caught:
        model.save(name)
    assert [word for word in words if word not in str(caught.value)] == []
    model.save("without_suffix")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["whole.onnx", "without_suffix"]


@pytest.mark.keras
def test_a_specification_for_a_model_of_keras_is_answered_with_an_array():
    keras = pytest.importorskip("keras", reason="Keras is an extra")

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, x):
            return self.dense(x)

    built = Net()
    built(X)
    functional = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    specs = [
        keras.KerasTensor((None, 4)),
        keras.InputSpec(shape=(None, 4)),
        SimpleNamespace(shape=(None, 4), dtype="float32"),
    ]
    for model in (Net(), built, functional):
        for spec in specs:
            for inputs in ((spec,), [spec], {"x": spec}):
                with pytest.raises(
                    InvalidInputError, match=r"which has no values: .* numpy\.zeros\(\(1, 4\), 'float32'\)"
                ):
                    onnxport.convert(model, inputs=inputs)
    with pytest.raises(InvalidInputError, match="inputs= may be left out"):
        onnxport.convert(functional, inputs=(specs[0],))
    with pytest.raises(InvalidInputError, match="holds a KerasTensor"):
        onnxport.validate(built, onnxport.convert(built, inputs=(X,)), inputs=(specs[0],))
