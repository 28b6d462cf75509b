"""The path of a Keras model through the command line."""

import onnx
import pytest

from tests.cli.weights import change_one_weight

keras = pytest.importorskip("keras")
pytestmark = [pytest.mark.keras, pytest.mark.tensorflow]


@pytest.fixture
def saved(tmp_path):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((8, 8, 1), name="image"), *layers])
    model.save(tmp_path / "cnn.keras")
    model.save_weights(tmp_path / "cnn.weights.h5")
    return tmp_path / "cnn.keras"


def test_convert_and_validate_a_file(run, saved, tmp_path):
    done = run("convert", "cnn.keras", "-o", "cnn.onnx", "--json")
    assert done.code == 0, done
    assert done.json["validation"]["passed"]
    onnx.checker.check_model(tmp_path / "cnn.onnx", full_check=True)
    assert run("validate", "cnn.keras", "cnn.onnx").code == 0
    change_one_weight(tmp_path / "cnn.onnx")
    done = run("validate", "cnn.keras", "cnn.onnx")
    assert done.code == 1
    assert "note: 1 of 4 weights of the file have other values than the source's" in done.out


def test_the_alias_takes_the_same_options(run, saved):
    done = run("keras2onnx", "cnn.keras", "--opset", "17", "--input-names", "picture", "--json")
    assert (done.code, done.json["output"], done.json["opsets"]) == (0, "cnn.onnx", {"": 17})
    assert done.json["inputs"][0]["name"] == "picture"


def test_a_name_that_the_user_did_not_choose_replaces_nothing(run, saved, tmp_path):
    assert run("convert", "cnn.keras").code == 0
    before = (tmp_path / "cnn.onnx").read_bytes()
    done = run("convert", "cnn.keras", "--no-validate")
    assert done.code == 2
    assert "'cnn.onnx' exists" in done.err
    assert (tmp_path / "cnn.onnx").read_bytes() == before


@pytest.mark.parametrize("broken", ["truncated", "text"])
def test_broken_files(run, saved, tmp_path, broken):
    content = saved.read_bytes()[:-100] if broken == "truncated" else b"this is no model"
    (tmp_path / "broken.keras").write_bytes(content)
    done = run("convert", "broken.keras")
    assert done.code == 2
    assert "broken.keras" in done.err
    assert not (tmp_path / "broken.onnx").exists()


def test_a_model_that_came_from_onnx_is_read_back(run, saved):
    assert run("convert", "cnn.keras", "-o", "cnn.onnx").code == 0
    assert run("onnx2keras", "cnn.onnx", "-o", "back.keras").code == 0
    assert run("validate", "cnn.onnx", "back.keras").code == 0
    change_one_weight(saved.parent / "cnn.onnx")
    assert run("validate", "cnn.onnx", "back.keras").code == 1
