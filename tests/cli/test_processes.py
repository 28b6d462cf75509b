"""Standard error of whole processes: empty where a conversion succeeds, whatever framework it goes through."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAIN = "from onnxport.cli.main import main\nmain()"
NETS = """
import numpy as np

def recurrent():
    import torch
    torch.manual_seed(0)
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True)
            self.gru = torch.nn.GRU(8, 2, batch_first=True)
        def forward(self, x):
            return self.gru(self.lstm(x)[0])[0]
    return Net(), (torch.randn(2, 5, 3),)

def saved():
    import tensorflow as tf
    class Net(tf.Module):
        def __init__(self):
            super().__init__()
            self.weight = tf.Variable(np.ones((3, 2), np.float32))
        @tf.function(input_signature=[tf.TensorSpec((None, 3), name="x")])
        def __call__(self, x):
            return {"y": tf.nn.relu(x @ self.weight)}
    return Net()

def layers():
    import keras
    keras.utils.set_random_seed(0)
    rows = [keras.layers.LSTM(4, return_sequences=True), keras.layers.GRU(3), keras.layers.BatchNormalization()]
    return keras.Sequential([keras.Input((6, 3)), *rows, keras.layers.Dropout(0.5), keras.layers.Dense(2, "gelu")])

def forest():
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    rows = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    return make_pipeline(StandardScaler(), RandomForestClassifier(4, random_state=0)).fit(rows, rows[:, 0] > 0), rows[:8]
"""
# What is converted, with the environment that it needs; what is written is read back by the target behind the arrow.
COMMANDS = {
    "pytorch": ("recurrent", "pytorch", {}),
    "tensorflow": ("saved", "tensorflow", {}),
    "keras on tensorflow": ("layers", "keras", {"KERAS_BACKEND": "tensorflow"}),
    "keras on pytorch": ("layers", "keras", {"KERAS_BACKEND": "torch"}),
    "keras on jax": ("layers", "keras", {"KERAS_BACKEND": "jax"}),
    "sklearn": ("forest", "sklearn", {}),
}
MARKS = {name: [getattr(pytest.mark, target)] for name, (_, target, _) in COMMANDS.items()}
MARKS["keras on pytorch"].append(pytest.mark.pytorch)
MARKS["keras on jax"].append(pytest.mark.jax)
PACKAGES = {"pytorch": "torch", "keras on pytorch": "torch", "keras on jax": "jax"}


def process(program, *arguments, cwd, **more):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CPP", "KERAS"))}
    environment |= {"PYTHONPATH": str(ROOT), **more}
    command = [sys.executable, *program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS[name]) for name in COMMANDS])
def test_a_command_writes_nothing_to_standard_error(name, tmp_path):
    pytest.importorskip(PACKAGES.get(name, COMMANDS[name][1]), reason=f"{name} is an extra")
    factory, target, environment = COMMANDS[name]
    (tmp_path / "nets.py").write_text(NETS)
    for arguments in (["nets:" + factory, "-o", "net.onnx"], ["net.onnx", "--to", target, "--no-validate"]):
        done = process(["-c", MAIN], "convert", *arguments, cwd=tmp_path, **environment)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.keras
def test_so_does_a_file_of_tflite(tmp_path):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    layers = tf.keras.layers
    model = tf.keras.Sequential([tf.keras.Input((8, 8, 1), batch_size=1), layers.Conv2D(4, 3), layers.Flatten()])
    (tmp_path / "net.tflite").write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    done = process(["-c", MAIN], "convert", "net.tflite", "-o", "net.onnx", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
