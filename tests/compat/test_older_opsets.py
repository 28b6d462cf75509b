"""Programs that ask for an opset from before 13, as those of the other converters' documentation do."""

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.compat.programs import run

SUPER_RESOLUTION = """
import torch
import torch.nn as nn
import torch.nn.init as init

class SuperResolutionNet(nn.Module):
    def __init__(self, upscale_factor, inplace=False):
        super().__init__()
        self.relu = nn.ReLU(inplace=inplace)
        self.conv1 = nn.Conv2d(1, 16, (5, 5), (1, 1), (2, 2))
        self.conv4 = nn.Conv2d(16, upscale_factor ** 2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(upscale_factor)
        init.orthogonal_(self.conv1.weight, init.calculate_gain('relu'))

    def forward(self, x):
        x = self.relu(self.conv1(x))
        return torch.clamp(self.pixel_shuffle(self.conv4(x)), 0, 1)

torch.manual_seed(0)
torch_model = SuperResolutionNet(upscale_factor=3)
torch_model.eval()
x = torch.randn(2, 1, 24, 24, requires_grad=True)
torch_out = torch_model(x)
torch.onnx.export(torch_model,               # model being run
                  x,                         # model input (or a tuple for multiple inputs)
                  "super_resolution.onnx",   # where to save the model
                  export_params=True,
                  opset_version={opset},
                  do_constant_folding=True,
                  input_names = ['input'],
                  output_names = ['output'],
                  dynamic_axes={{'input' : {{0 : 'batch_size'}}, 'output' : {{0 : 'batch_size'}}}})
feeds, expected = {{"input": x.detach().numpy()}}, torch_out.detach().numpy()
"""
OPSETS = """
import numpy
import skl2onnx
from onnxruntime import InferenceSession
from sklearn.ensemble import IsolationForest
from sklearn.datasets import make_blobs

X, y = make_blobs(n_samples=100, n_features=2, random_state=0)
model = IsolationForest(n_estimators=3, random_state=0)
model.fit(X)
taken, refused = [], []
for opset in range(5, 20, 3):
    try:
        onx = skl2onnx.to_onnx(model, X[:1].astype(numpy.float32), target_opset={"": opset, "ai.onnx.ml": 1})
    except RuntimeError as e:
        refused.append(opset)
        continue
    sess = InferenceSession(onx.SerializeToString(), providers=["CPUExecutionProvider"])
    results = sess.run(None, {"X": X.astype(numpy.float32)})
    assert results[0].ravel().tolist() == model.predict(X).tolist()
    taken.append([item.version for item in onx.opset_import if item.domain == ""][0])
"""
TYPES = """
import numpy
import skl2onnx
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier
from skl2onnx.common.data_types import FloatTensorType

data = load_iris()
model = KNeighborsClassifier().fit(data.data, data.target)
initial_type = [('float_input', FloatTensorType([None, 4]))]
onx = skl2onnx.convert_sklearn(model, initial_types=initial_type, target_opset={opset})
feeds, expected = {{"float_input": data.data.astype(numpy.float32)}}, model.predict(data.data)
"""
KERAS = """
import tensorflow as tf
import tf2onnx

inputs = tf.keras.Input((4, 3), name="x")
model = tf.keras.Model(inputs, tf.keras.layers.Dense(2, "softmax")(tf.keras.layers.SimpleRNN(8)(inputs)))
onnx_model, _ = tf2onnx.convert.from_keras(model, opset={opset})
x = tf.random.stateless_normal((2, 4, 3), seed=(1, 2)).numpy()
feeds, expected = {{"x": x}}, model(x).numpy()
"""
TORCH = ("import torch", "from onnxport.compat import torch", "super_resolution.onnx")
SKLEARN = ("import skl2onnx", "from onnxport.compat import skl2onnx", "onx")
TF2ONNX = ("import tf2onnx", "from onnxport.compat import tf2onnx", "onnx_model")


@pytest.mark.parametrize(
    ("program", "opset", "line"),
    [
        *[pytest.param(SUPER_RESOLUTION, opset, TORCH, marks=pytest.mark.pytorch) for opset in (10, 12)],
        *[pytest.param(TYPES, opset, SKLEARN, marks=pytest.mark.sklearn) for opset in (11,)],
        *[pytest.param(KERAS, opset, TF2ONNX, marks=pytest.mark.keras) for opset in (12,)],
    ],
)
def test_the_file_is_at_the_opset_and_gives_the_source_s_numbers(program, opset, line, tmp_path, monkeypatch, capfd):
    old, new, result = line
    package = {"import torch": "torch", "import skl2onnx": "sklearn", "import tf2onnx": "tensorflow"}[old]
    pytest.importorskip(package, reason=f"{package} is an extra")
    monkeypatch.chdir(tmp_path)
    program = program.replace("from skl2onnx.", "from onnxport.compat.skl2onnx.")  # another import of the same package
    names = run(program.format(opset=opset), old, new)
    proto = onnx.load(result) if result.endswith(".onnx") else names[result]
    onnx.checker.check_model(proto, full_check=True)
    assert {item.domain: item.version for item in proto.opset_import}[""] == opset
    capfd.readouterr()
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert capfd.readouterr().err == ""  # as of a weight that nothing reads
    result = session.run(None, names["feeds"])[0]
    np.testing.assert_allclose(result, names["expected"], rtol=1e-4, atol=1e-5)


@pytest.mark.sklearn
def test_an_opset_that_is_too_old_is_an_error_that_programs_wait_for():
    pytest.importorskip("sklearn", reason="scikit-learn is an extra")
    names = run(OPSETS, "import skl2onnx", "from onnxport.compat import skl2onnx")
    assert (names["taken"], names["refused"]) == ([11, 14, 17], [5, 8])  # Where exists from opset 9 on
