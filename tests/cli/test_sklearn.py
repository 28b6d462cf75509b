"""The path of a scikit-learn pipeline through the command line."""

import joblib
import numpy as np
import pytest

from tests.cli.weights import change_one_weight

sklearn = pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402


@pytest.fixture
def saved(tmp_path):
    skops = pytest.importorskip("skops.io")
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(60, 3))
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(samples, samples @ [1, 2, -1] > 0)
    skops.dump(model, tmp_path / "pipeline.skops")
    joblib.dump(model, tmp_path / "pipeline.joblib")
    np.save(tmp_path / "samples.npy", samples[:5])
    (tmp_path / "samples.csv").write_text("\n".join(["a,b,c", *(",".join(map(str, row)) for row in samples[:5])]))
    return model


@pytest.mark.parametrize("inputs", [[], ["--inputs", "samples.npy"]])
def test_convert_and_validate_a_skops_file(run, saved, tmp_path, inputs):
    done = run("convert", "pipeline.skops", "-o", "pipeline.onnx", "--json", *inputs)
    assert done.code == 0, done
    assert [item["name"] for item in done.json["outputs"]] == ["label", "probabilities"]
    assert run("validate", "pipeline.skops", "pipeline.onnx", *inputs).code == 0
    change_one_weight(tmp_path / "pipeline.onnx")
    assert run("validate", "pipeline.skops", "pipeline.onnx", *inputs).code == 1


def test_methods(run, saved):
    done = run("sklearn2onnx", "pipeline.skops", "--methods", "predict,decision_function", "--json")
    assert done.code == 0, done
    assert [item["name"] for item in done.json["outputs"]] == ["predict", "decision_function"]


def test_options(run, saved):
    given = ["--option", "label=false", "--option", "zipmap=columns", "--option", "standardscaler.output=scaled"]
    done = run("sklearn2onnx", "pipeline.skops", *given, "--json")
    assert done.code == 0, done
    names = [item["name"] for item in done.json["outputs"]]
    assert names == ["probabilities_False", "probabilities_True", "scaled"]
    assert run("validate", "pipeline.skops", "pipeline.onnx").code == 0
    assert run("sklearn2onnx", "pipeline.skops", "--option", "zipmap").code == 2


def test_a_pickle_is_loaded_only_when_allowed(run, saved, tmp_path):
    refused = run("convert", "pipeline.joblib")
    assert refused.code == 2
    assert "allow" in refused.err
    assert not (tmp_path / "pipeline.onnx").exists()
    assert run("convert", "pipeline.joblib", "--allow-pickle").code == 0


@pytest.mark.parametrize("name", ["broken.skops", "broken.pkl"])
def test_broken_files(run, tmp_path, name):
    (tmp_path / name).write_bytes(b"this is no model")
    done = run("convert", name, "--allow-pickle")
    assert done.code == 2
    assert name in done.err
