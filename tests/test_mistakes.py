"""Common mistakes: the error holds the thing, its value and the way out."""

from types import SimpleNamespace

import numpy as np
import pytest

import onnxport
from onnxport.errors import InvalidInputError, InvalidModelError, OnnxportError

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
X = np.ones((3, 4), np.float32)


@pytest.mark.pytorch
@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {"onnx_file_path": "m.onnx"}, ["onnx_file_path", 'output="model.onnx"']),
        ((), {"inputs": (X,), "training": False}, ["'training'", "torch.onnx", "model.eval()"]),
        ((), {"inputs": (X,), "device": "cpu"}, ["'device'", 'model.to("cpu")']),
        ((), {"inputs": (X,), "fp16": True}, ["'fp16'", 'dtype="float16"']),
        ((), {"inputs": (X,), "kwargs": (X,)}, ["kwargs is a tuple", "kwargs={'mask': mask}", "inputs=(x,)"]),
        ((), {"inputs": (X,), "dynamic_shapes": {"input": {"0": "n"}}}, ["whole numbers: {0: ...}, not {'0': ...}"]),
        ((), {"inputs": (X.astype(np.int8),)}, ["given: int8[3, 4]", "that the model itself runs on"]),
        (((X,), "m.onnx"), {}, ["by position", "tuple", "inputs=(x,), output='m.onnx'"]),
        (((X,),), {}, ["by position", "tuple", "inputs=(x,)"]),
        (({"input": X},), {}, ["by position", "dict", "inputs=(x,)"]),
        ((), {"inputs": (X.astype(np.float64),)}, ["'input' is float64[3, 4]", "weights are float32", "same dtype"]),
        ((), {"inputs": (X.astype(np.int64),)}, ["'input' is int64[3, 4]", "weights are float32", "same dtype"]),
        ((), {"inputs": (X,), "ouput": "m.onnx"}, ["no 'ouput'", "did you mean output=?"]),
        ((), {"inputs": (X,), "verbose": True}, ["no 'verbose'", "it takes to, inputs"]),
        ((), {"inputs": (X,), "validate": "no"}, ["validate='no'", "True, or False"]),
        ((), {"inputs": "x.npy"}, ["'x.npy' is a path", "numpy.load"]),
        ((), {"inputs": (X,), "target_opset": {"": 17, "ai.onnx.ml": 9}}, ["'ai.onnx.ml'", "from 1 to 5, not 9"]),
        ((), {"inputs": (X,), "target_opset": {"": 17, "com.acme": 2}}, ["'com.acme' at 2", "no operator of it"]),
    ],
)
def test_a_mistake_is_named_with_the_way_out(args, kwargs, words):
    with pytest.raises((TypeError, InvalidInputError)) as caught:
        onnxport.convert(torch.nn.Linear(4, 2), *args, **kwargs)
    assert [word for word in words if word not in str(caught.value)] == []


class Net(torch.nn.Module):
    """A user's module: what is asked of it is in `kind`."""

    def __init__(self, kind: str = ""):
        super().__init__()
        self.fc, self.kind = torch.nn.Linear(4, 2), kind

    def forward(self, image, mask=None):
        if self.kind == "branch" and float(image.sum()) > 0:
            return image
        if self.kind == "reshape":
            return image.reshape(3, 4) + 1
        if self.kind == "sizes":
            return torch.stack([image[place % 3] for place in range(len(image.nonzero()))])
        if self.kind == "generator":
            return (row for row in image)
        while self.kind == "loop" and image.sum() < 100:
            image = image * 2
        if self.kind == "key":
            return {"a": image}["weights"]
        if self.kind == "faceless":
            return faceless(image)
        return None if self.kind == "nothing" else self.fc(image)


@torch.library.custom_op("mistakes::faceless", mutates_args=())
def faceless(x: torch.Tensor) -> torch.Tensor:
    """An operator whose result's shape torch does not know."""
    return x * 2


LINE = "test_mistakes.py:"
SPEC = SimpleNamespace(shape=(None, 4), dtype="float32")  # as TensorSpec, ShapeDtypeStruct and KerasTensor are


@pytest.mark.pytorch
@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (Net(), {"inputs": (X[:, :3],)}, [LINE, "self.fc(image)", "3x3 and 4x2", "'image' is float32[3, 3]"]),
        (Net(), {"inputs": {"img": X}}, ["forward(image, mask=None)", "missing", "'image'", "given: 'img'"]),
        (Net(), {"inputs": (X, X, X)}, ["forward(image, mask=None)", "too many", "given: 3 by position"]),
        (Net(), {"inputs": (3, 4)}, [LINE, "'image' is int 3, 'mask' is int 4", "pass tensors"]),
        (Net(), {"inputs": (SPEC,)}, ["SimpleNamespace holds no values", "torch.randn(1, 4)"]),
        (Net(), {}, ["no signature", "inputs=(...)"]),
        (None, {"inputs": (X,)}, ["None is given", "return"]),
        (3, {"inputs": (X,)}, ["int is no model", "a module, a function"]),
        (Net, {"inputs": (X,)}, ["Net is a class", "Net(...)"]),
        (Net().state_dict(), {"inputs": (X,)}, ["2 tensors", "'fc.weight'", "load_state_dict"]),
        (Net().to("meta"), {"inputs": (X,)}, ["Net", "meta device", "to_empty"]),
        (Net("nothing"), {"inputs": (X,)}, ["gives no tensor", "None"]),
        (
            Net("branch"),
            {"inputs": (X,)},
            [LINE, "float(image.sum()) > 0", "value of a tensor", "torch.where", 'strategy="trace"'],
        ),
        (
            Net("reshape"),
            {"inputs": (X,), "dynamic_shapes": {"image": {0: "batch"}}},
            ["dimension 0 of 'image' to be 3", "leave the dimension out"],
        ),
        (
            Net(),
            {"inputs": (X,), "dynamic_shapes": {"image": {1: "features"}}},
            ["dimension 1 of 'image' to be 4", "leave the dimension out"],
        ),
        (
            lambda a, b: a + b,
            {"inputs": (torch.ones(3, 4), torch.ones(3, 4)), "dynamic_shapes": ({0: "n"}, {0: "m"})},
            ["'n' and 'm'", "one name"],
        ),
        (
            Net("reshape"),
            {"inputs": (X,), "dynamic_shapes": {"image": {0: torch.export.Dim("rows", min=2, max=9)}}},
            ["dimension 'rows' to be 3", "leave the dimension out"],
        ),
        (
            Net("sizes"),
            {"inputs": (X,), "strategy": "trace"},
            [
                LINE,
                "range(len(image.nonzero()))",
                "value of a tensor",
                'frozen by strategy="trace" is not enough',
                "torch.where",
            ],
        ),
        (Net("generator"), {"inputs": (X,)}, ["Net gives a generator", "Return tensors, in tuples"]),
        (Net("key"), {"inputs": (X,)}, [LINE, "KeyError: 'weights'", "'image' is float32[3, 4]"]),
        (Net().half(), {"inputs": (X,)}, ["same dtype", "weights are float16", "pass float16 inputs", "model.float()"]),
        (Net("key"), {"inputs": (X, object())}, ["'mask' is a object"]),
        (Net("faceless"), {"inputs": (X,)}, [LINE, "return faceless(image)", "@operator.register_fake"]),
        (Net(), {"inputs": (X,), "dynamic_shapes": {"img": {0: "n"}}}, ["no input 'img'", "image"]),
    ],
)
def test_a_mistake_with_pytorch_is_named_in_three_lines(model, options, words):
    if isinstance(model, torch.nn.Module):
        model.eval()
    with pytest.raises(OnnxportError) as caught:
        onnxport.convert(model, **options)
    text = str(caught.value)
    assert [word for word in words if word not in text] == []
    assert len(text.splitlines()) <= 3


@pytest.mark.pytorch
def test_nothing_is_logged_of_a_trace_that_fails_within_a_proof(capfd):
    """torch logs such a trace, and prints its graph: the search for the place that differs traces the model again."""
    with pytest.raises(OnnxportError, match="differs from its source"):
        onnxport.convert(Net("loop").eval(), inputs=(X,), strategy="trace")
    assert capfd.readouterr() == ("", "")


@pytest.mark.pytorch
def test_a_file_of_a_state_dict_is_no_model(tmp_path):
    torch.save(Net().state_dict(), tmp_path / "weights.pt")
    with pytest.raises(InvalidModelError, match=r"weights\.pt' holds weights .* pass the module itself"):
        onnxport.convert(str(tmp_path / "weights.pt"), inputs=(X,))


@pytest.mark.parametrize("place", ["https://example.com/model.onnx", "bert-base-uncased", "org/model"])
def test_nothing_is_downloaded(place):
    with pytest.raises(InvalidModelError, match="nothing is downloaded: pass a file or folder of this machine"):
        onnxport.convert(place, to="pytorch")
