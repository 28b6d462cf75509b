"""The path of a SavedModel through the command line."""

import pytest

from tests.cli.weights import change_one_weight

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


class Linear(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight = tf.Variable([[0.5, -1.5], [2.0, 0.25], [1.0, 3.0]])

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
    def scores(self, x):
        return {"scores": tf.nn.relu(x @ self.weight)}

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
    def total(self, x):
        return {"total": tf.reduce_sum(x @ self.weight, axis=1)}


@pytest.fixture
def saved(tmp_path):
    model = Linear()
    tf.saved_model.save(model, str(tmp_path / "linear"), {"serving_default": model.scores, "total": model.total})
    return tmp_path / "linear"


def test_convert_and_validate_a_saved_model(run, saved, tmp_path):
    done = run("tf2onnx", "linear", "-o", "linear.onnx", "--json")
    assert done.code == 0, done
    assert [item["name"] for item in done.json["inputs"]] == ["x"]
    assert run("validate", "linear", "linear.onnx").code == 0
    change_one_weight(tmp_path / "linear.onnx")
    assert run("validate", "linear", "linear.onnx").code == 1


def test_a_signature_is_picked_by_name(run, saved):
    done = run("convert", "linear", "-o", "total.onnx", "--signature", "total", "--json")
    assert done.code == 0, done
    assert [item["name"] for item in done.json["outputs"]] == ["total"]
    assert run("validate", "linear", "total.onnx", "--signature", "total").code == 0
    wrong = run("convert", "linear", "-o", "none.onnx", "--signature", "nothing")
    assert wrong.code == 2
    assert "nothing" in wrong.err


def test_a_folder_that_is_no_saved_model(run, tmp_path):
    (tmp_path / "folder").mkdir()
    done = run("convert", "folder")
    assert done.code == 2
    assert "no SavedModel" in done.err
    (tmp_path / "folder" / "saved_model.pb").write_bytes(b"this is no model")
    done = run("convert", "folder")
    assert done.code == 2
    assert "folder" in done.err
