"""The path of a SavedModel through the command line."""

import numpy as np
import pytest

import onnxport
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


def test_a_part_of_a_saved_model(run, saved):
    done = run("tf2onnx", "linear", "--tag", "serve", "--signature", "total", "-o", "tagged.onnx", "--json")
    assert (done.code, done.err) == (0, "")
    assert [item["name"] for item in done.json["outputs"]] == ["total"]
    done = run("tf2onnx", "linear", "--tag", "train", "-o", "none.onnx")
    assert (done.code, done.err) == (2, "error: tag 'train': the SavedModel 'linear' has serve\n")
    module = tf.Module()
    module.__class__ = type("Called", (tf.Module,), {"__call__": Linear.scores})
    module.weight = tf.Variable([[0.5], [2.0], [1.0]])
    module(tf.ones((1, 3)))
    tf.saved_model.save(module, "called")
    done = run("tf2onnx", "--saved-model", "called", "--concrete_function=0", "--output", "called.onnx")
    assert (done.code, done.err) == (0, "")
    assert "against tensorflow concrete function\n" in done.out
    assert "__call__ of 'called' has 0 to 0" in run("tf2onnx", "called", "--concrete-function", "3").err


def test_a_checkpoint_gives_what_is_computed_from_what_is_fed(run):
    """Not what its saver reads; other places of it are answered with the file."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        rate = v1.placeholder_with_default(2.0, [], "rate")
        tf.multiply(x @ v1.get_variable("w", [3, 2], use_resource=True), rate, "y")
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, "trained/model")
    done = run("tf2onnx", "trained/model.meta", "-o", "m.onnx", "--json")
    assert (done.code, done.err) == (0, "")
    assert [item["name"] for item in done.json["outputs"]] == ["y"]
    assert "; there is 'trained/model.meta'" in run("tf2onnx", "trained/model").err
    assert "it holds 'trained/model.meta', which can be given" in run("tf2onnx", "trained").err
    assert "its graph is 'trained/model.meta', pass that" in run("tf2onnx", "trained/model.index").err
    assert "no tensor 'z:0'; it has y:0, x:0" in run("tf2onnx", "trained/model.meta", "--outputs", "z:0").err


def test_a_checkpoint_of_weights_alone_is_answered_with_its_model(run):
    tf.train.Checkpoint(w=tf.Variable([1.0])).save("saved/weights")
    for place in ("saved/weights-1", "saved/weights-1.index", "saved/weights-1.data-00000-of-00001"):
        done = run("convert", place, "-o", "m.onnx")
        assert (done.code, done.out) == (2, "")
        assert "tf.train.Checkpoint(model=model).restore('saved/weights-1'), and pass the model" in done.err


def test_an_opset_of_old_examples(run, saved):
    """As tf2onnx's own command takes it; written once it is proved."""
    done = run("tf2onnx", "--saved-model", "linear", "--output", "old.onnx", "--opset", "11", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json["opsets"][""] == onnxport.OnnxModel.load("old.onnx").opset == 11
    assert run("validate", "linear", "old.onnx").code == 0
    assert "from 7 to 28" in run("tf2onnx", "linear", "-o", "none.onnx", "--opset", "6").err
    assert (
        "--opset 11: a version of ai.onnx from 13 to 28; onnxport tf2onnx"
        in run("convert", "linear", "--opset", "11").err
    )


@pytest.mark.parametrize("resources", [False, True])
def test_a_checkpoint_of_tensorflow_1(run, tmp_path, resources):
    """While it is trained: the optimizer's and the saver's nodes stand in its graph."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        settings = {"initializer": v1.glorot_uniform_initializer(seed=1), "use_resource": resources}
        y = tf.nn.relu(
            x @ v1.get_variable("w", [3, 2], **settings) + v1.get_variable("b", [2], use_resource=resources), "y"
        )
        train = v1.train.AdamOptimizer().minimize(tf.reduce_mean(y**2))
        session.run(v1.global_variables_initializer())
        session.run(train, {x: [[1.0, 2.0, 3.0]]})
        v1.train.Saver().save(session, "trained/model")
        rows = np.float32([[1, -2, 3], [0.5, 4, 5]])
        expected = session.run(y, {x: rows})
    options = "--checkpoint trained/model.meta --inputs x:0[-1,3] --outputs y:0 --output m.onnx"
    done = run("tf2onnx", *options.split())
    assert (done.code, done.err) == (0, "")
    model = onnxport.OnnxModel.load("m.onnx")
    assert (model.input_names, model.output_names) == (["x"], ["y"])
    np.testing.assert_allclose(model(x=rows), expected, rtol=1e-6)
    (tmp_path / "trained" / "model.index").unlink()
    assert "model.index is missing" in run("tf2onnx", "trained/model.meta", "--outputs", "y:0").err


def test_sizes_of_a_frozen_graph_are_those_of_its_inputs(run, tmp_path):
    """As tf2onnx spells them: ``x:0[4,3]``; what a size contradicts is an error."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
        tf.nn.relu(x * 2, name="y")
    (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    done = run("tf2onnx", *"--graphdef graph.pb --inputs x:0[4,3] --outputs y:0 --output m.onnx".split())
    assert (done.code, done.err) == (0, "")
    assert list(onnxport.OnnxModel.load("m.onnx").model.graph.inputs[0].shape) == [4, 3]
    wrong = run("tf2onnx", *"--graphdef graph.pb --inputs x:0[4,5] --outputs y:0 --output m.onnx".split())
    assert "dimension 1 of 'x' is 3, not 5" in wrong.err


def test_libraries_of_operators(run, saved, tmp_path):
    (tmp_path / "text.so").write_text("no library")
    assert "'text.so' is no library of operators" in run("tf2onnx", "linear", "--load_op_libraries", "text.so").err
    graph = tf.compat.v1.GraphDef(
        node=[{"name": "x", "op": "Placeholder"}, {"name": "y", "op": "AcmeTwice", "input": ["x"]}]
    )
    graph.node[0].attr["dtype"].type = tf.float32.as_datatype_enum
    (tmp_path / "graph.pb").write_bytes(graph.SerializeToString())
    answer = (
        "no library of operators that is loaded has 'AcmeTwice': load its own before, by tf.load_op_library or onnxport"
    )
    assert answer in run("tf2onnx", "graph.pb").err
    assert "no file 'none.so'" in run("tf2onnx", "linear", "--load_op_libraries", "none.so").err
    done = run(
        "tf2onnx",
        "linear",
        "-o",
        "l.onnx",
        "--load_op_libraries",
        tf.sysconfig.get_lib() + "/libtensorflow_framework.so.2",
    )
    assert (done.code, done.err) == (0, "")
