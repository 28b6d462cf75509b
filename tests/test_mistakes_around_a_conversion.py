"""Mistakes in what surrounds a conversion: modes of torch, NumPy in a module, names of files, what is no model or no input."""

import io
from types import SimpleNamespace

import numpy as np
import pytest

import onnxport
from onnxport.errors import InvalidInputError, InvalidModelError, OnnxportError, TracingError

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
        ("net.keras", [".keras files belong to Keras", "to='keras', output='net.keras'", "name it 'net.onnx'"]),
        ("net.PT2", [".pt2 files belong to PyTorch", "to='pytorch', output='net.PT2'"]),
        ("net.tflite", [".tflite files belong to TensorFlow", "name it 'net.onnx'"]),
        ("net.ckpt", [".ckpt files belong to PyTorch"]),
        ("net.pkl", [".pkl files belong to scikit-learn", "to='sklearn'"]),
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


@pytest.mark.sklearn
def test_a_name_of_a_folder_is_refused_before_the_work(tmp_path, monkeypatch):
    preprocessing = pytest.importorskip("sklearn.preprocessing", reason="scikit-learn is an extra")
    monkeypatch.setattr("onnxport.converters.convert._exported", lambda *args: pytest.fail("the conversion has begun"))
    scaler = preprocessing.StandardScaler().fit(X)
    with pytest.raises(InvalidInputError, match="is the name of a folder: name the file"):
        onnxport.convert(scaler, inputs=X, output=f"{tmp_path}/net.onnx/")


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


@pytest.mark.pytorch
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_what_is_no_model_or_no_input_is_named():
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    dense = torch.nn.Linear(4, 2)

    class Hasty(torch.nn.Module):
        def __init__(self):
            self.factor = 2

        def forward(self, x):
            return x * self.factor

    mistakes = [
        ({"model": dense.state_dict(), "epoch": 3}, {}, ["a dict of 'model', 'epoch' is no model", "load_state_dict"]),
        ([dense], {}, ["a list of Linear is no model", "one model at a time"]),
        ((dense, None), {}, ["a tuple of Linear, NoneType is no model"]),
        (Hasty(), {}, ["Hasty holds no parameters", "super().__init__()"]),
        (dense, {"inputs": (item for item in [X])}, ["inputs= is a generator", "inputs=next(batches)"]),
        (dense, {"inputs": {torch.ones(4)}}, ["'input' is a set;", "pass tensors"]),
        (dense, {"output": 3}, ["output=3", "'model.onnx'"]),
        (dense, {"output": io.BytesIO()}, ["output=<_io.BytesIO", "the path of a file"]),
        (dense, {"input_names": {"a"}}, ["input_names={'a'}", "a list of names"]),
        (dense, {"runtimes": "openvino"}, ["runtimes='openvino'", "['openvino']"]),
        (
            torch.nn.LSTM(4, 3),
            {"inputs": (torch.nn.utils.rnn.pack_sequence([torch.ones(3, 4)]),)},
            ["'input' is a Packed"],
        ),
        (
            dense,
            {"inputs": (torch.nested.nested_tensor([torch.ones(2, 4)]),)},
            ["'input' is a nested tensor", "padded"],
        ),
    ]
    for model, options, words in mistakes:
        with pytest.raises(OnnxportError) as caught:
            onnxport.convert(model, **{"inputs": (X,), **options})
        assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)
        assert len(str(caught.value).splitlines()) <= 3


@pytest.mark.pytorch
def test_a_sparse_example_is_traced_in_its_sizes():
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    assert onnxport.convert(torch.nn.Linear(4, 2), inputs=(torch.from_numpy(X).to_sparse(),)).report.passed


@pytest.mark.pytorch
def test_a_model_takes_tensors_with_gradients_and_names_those_without_memory():
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    model = onnxport.convert(torch.nn.Linear(4, 2), inputs=(X,))
    np.testing.assert_array_equal(model(torch.from_numpy(X).requires_grad_()), model(X))
    with pytest.raises(InvalidInputError, match=r"input 'input' can't be read as an array: .* meta"):
        model(torch.ones(3, 4, device="meta"))


EDITS = [
    (lambda model: model.set_shapes({"batch": -1}), ["batch=-1: '-1' is no size"]),
    (lambda model: model.set_shapes({"x": (1.5, 4)}), ["'1.5' is no size", "a whole number"]),
    (lambda model: model.set_shapes([1, 4]), ["sizes is a list", "{'batch': 1}"]),
    (lambda model: model.rename({"x": ""}), ["the new name of value 'x' is ''"]),
    (lambda model: model.rename({"x": 1}), ["the new name of value 'x' is 1"]),
    (lambda model: model.cut(outputs="y"), ["cut_outputs='y': a list of names, such as ['y']"]),
    (lambda model: model.set_shapes({"rows": 2}), ["'rows' is no input", "dimensions batch"]),
]


@pytest.mark.parametrize("edit, words", EDITS)
def test_an_edit_of_a_model_that_means_nothing_is_refused(edit, words):
    import onnx

    text = '<ir_version: 8, opset_import: ["": 17]> g (float[batch, 4] x) => (float[batch, 4] y) {y = Relu (x)}'
    model = onnxport.convert(onnx.parser.parse_model(text))
    with pytest.raises((InvalidInputError, InvalidModelError)) as caught:
        edit(model)
    assert [word for word in words if word not in str(caught.value)] == []
