"""Mistakes with exported programs, files and folders of all sources: one way out that fits, three lines at most."""

import json
import pickle
import zipfile

import numpy as np
import pytest

import onnxport
from onnxport.errors import OnnxportError

X = np.ones((3, 4), np.float32)
LINE = "test_mistakes_with_programs_and_files.py:"


def check(model, options, words, call=onnxport.convert):
    with pytest.raises(OnnxportError) as caught:
        call(model, **options)
    text = str(caught.value)
    assert [word for word in words if word not in text] == [], text
    assert len(text.splitlines()) <= 3, text


@pytest.fixture(scope="module")
def program():
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Net(torch.nn.Module):
        def forward(self, image, scale):
            return image * scale["by"]

    rows = torch.export.Dim("rows")
    example = (torch.ones(3, 4), {"by": torch.ones(4)})
    shapes = {"image": {0: rows}, "scale": {"by": {}}}
    return torch.export.export(Net(), example, dynamic_shapes=shapes)


@pytest.mark.pytorch
def test_a_program_takes_inputs_by_name(program):
    """Also those that it was exported with by position."""
    inputs = {"image": np.full((5, 4), 2, np.float32), "scale": {"by": np.full(4, 3, np.float32)}}
    model = onnxport.convert(program, inputs=inputs)
    assert model.report.passed
    assert onnxport.validate(program, model, inputs=(inputs["image"], inputs["scale"])).passed


@pytest.mark.pytorch
@pytest.mark.parametrize(
    "inputs, words",
    [
        ({"img": X, "scale": {"by": X[0]}}, ["exported for the inputs image, scale", "given: 'img', 'scale'"]),
        ((X,), ["exported for the inputs image, scale", "given: 1 by position"]),
        ((X, {"by": X[0]}, X), ["exported for the inputs image, scale", "given: 3 by position"]),
        ((X[:, :3], {"by": X[0]}), ["'image' is float32[3, 3]", "float32[any, 4]", "dynamic_shapes="]),
        ((X[0], {"by": X[0]}), ["'image' is float32[4]", "float32[any, 4]", "pass such a tensor"]),
        ((X.astype(np.float64), {"by": X[0]}), ["'image' is float64[3, 4]", "exported for float32[any, 4]"]),
        ((X, {"by": X[0], "more": X[0]}), ["exported for 2 inputs, 3 are given"]),
    ],
)
def test_inputs_that_a_program_was_not_exported_for_are_named(program, inputs, words):
    check(program, {"inputs": inputs}, words)


@pytest.mark.pytorch
def test_what_is_no_module_is_answered_with_what_to_pass():
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    for model in (torch.ones(3), torch.optim.SGD([torch.ones(3, requires_grad=True)], 0.1)):
        check(model, {"inputs": (X,)}, [type(model).__name__, "pass the module itself"])
    check(
        torch.nn.Conv2d(3, 4, 3),
        {"inputs": ((1, 3, 8, 8),)},
        ["got (tuple,", "'input.0' is int 1", "pass tensors, torch.randn"],
    )
    check(
        torch.nn.Linear(4, 2),
        {"inputs": (X,), "dynamic_shapes": {"input": {0.5: "rows"}}},
        ["keyed by whole numbers: {0: ...}, not {'0.5': ...}"],
    )


@pytest.fixture
def graph(tmp_path):
    import onnx

    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N, 4] x, int64[N] k) => (float[N, 4] y) {y = Relu (x)}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "g.onnx")
    return str(tmp_path / "g.onnx")


ROWS = np.ones(3, np.int64)


@pytest.mark.pytorch
@pytest.mark.parametrize(
    "inputs, words",
    [
        ((X[0], ROWS), ["input 'x' has the shape [4]", "the model takes float32[N, 4]"]),
        ((X[:, :3], ROWS), ["input 'x' has the shape [3, 3]", "the model takes float32[N, 4]"]),
        ((X,), ["the model takes 2 inputs (x, k); k was not given"]),
        ((X, ROWS, ROWS), ["the model takes 2 inputs (x, k), 3 are given"]),
        ({"x": X, "rows": ROWS}, ["the model has no input 'rows': it takes x, k"]),
        ((X.astype(np.float64), ROWS), ["input 'x' is float64, the model takes float32"]),
    ],
)
def test_inputs_that_an_onnx_file_does_not_take_are_named(graph, inputs, words):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    check(graph, {"to": "pytorch", "inputs": inputs}, words)
    check(graph, {"converted": graph, "inputs": inputs}, words, onnxport.validate)


class Left:
    """A class that is gone when its pickle is read."""


def pickled(tmp_path, name, content):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else pickle.dumps(content))
    return str(tmp_path / name)


@pytest.mark.sklearn
def test_files_of_estimators_that_hold_none_are_named(tmp_path, monkeypatch):
    pytest.importorskip("sklearn", reason="scikit-learn is an extra")
    options = {"inputs": X, "allow_pickle": True}
    check(pickled(tmp_path, "e.pkl", b"\x80\x04"), options, ["e.pkl", "it ends too early"])
    check(pickled(tmp_path, "j.pkl", b"nonsense"), options, ["j.pkl", "no pickled estimator"])
    check(pickled(tmp_path, "d.pkl", {"a": 1}), options, ["d.pkl", "holds a dict, not an estimator"])
    module = b"\x80\x04\x8c\x07nopemod\x8c\x03Foo\x93)\x81."
    check(pickled(tmp_path, "m.pkl", module), options, ["m.pkl", "No module named 'nopemod'", "install it"])
    gone = pickled(tmp_path, "c.pkl", Left())
    monkeypatch.delattr(f"{__name__}.Left")
    check(gone, options, ["c.pkl", "'Left'", "convert in the program that has it"])
    with zipfile.ZipFile(tmp_path / "z.skops", "w") as archive:
        archive.writestr("a", "b")
    check(str(tmp_path / "z.skops"), {"inputs": X}, ["z.skops", "no skops file: There is no item named"])


@pytest.mark.sklearn
def test_more_mistakes_with_estimators():
    pytest.importorskip("sklearn", reason="scikit-learn is an extra")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression().fit(np.random.default_rng(0).normal(size=(20, 4)), [0, 1] * 10)
    check(fitted, {"inputs": (X, ROWS)}, ["inputs= holds 2 arrays", "inputs=X"])
    check(fitted, {"inputs": "some text"}, ["inputs='some text' is one text", "inputs=[text]"])
    check(fitted, {"inputs": X, "methods": ["score"]}, ["'score' of LogisticRegression infers nothing"])
    check(fitted, {"inputs": np.array([[1, "a", 2, 3]], object)}, ["holds strings", "as a DataFrame"])

    def own(text):
        return text.split("-")

    words = TfidfVectorizer(tokenizer=own, token_pattern=None).fit(["a-b", "c-d"])
    check(words, {"inputs": ["a-b"]}, ["tokenizer= is the function", "own'", "do that step before the model"])


@pytest.mark.keras
def test_more_mistakes_with_keras(tmp_path):
    keras = pytest.importorskip("keras", reason="Keras is an extra")

    class Lacking(keras.Model):
        def call(self, x):
            return self.head(x)

    class Chooses(keras.Model):
        def call(self, x):
            return x if keras.ops.sum(x) > 0 else -x

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    check(Lacking(), {"inputs": (X,)}, [LINE, "self.head(x)", "no attribute 'head'"])
    check(Chooses(), {"inputs": (X,)}, [LINE, "keras.ops.sum(x) > 0", "value of a tensor", "with keras.ops"])
    check(keras.optimizers.Adam(), {}, ["Adam is no Keras model or layer"])
    check(keras.callbacks.History(), {}, ["History is no Keras model or layer"])
    check(model.to_json(), {}, ["no file or directory"])

    class Own(keras.layers.Layer):
        def call(self, x):
            return x * 2

    keras.Sequential([keras.Input((4,)), Own()]).save(tmp_path / "own.keras")
    options = {"allow_code": True}
    check(str(tmp_path / "own.keras"), options, ["own.keras", "holds the class 'Own'", "register_keras_serializable"])
    check(str(tmp_path / "own.keras"), {}, ["own.keras", "Own", "register_keras_serializable"])
    with zipfile.ZipFile(tmp_path / "a.keras", "w") as archive:
        archive.writestr("a", "b")
    check(str(tmp_path / "a.keras"), {}, ["is damaged: There is no item named 'config.json'"])


@pytest.mark.tensorflow
def test_more_mistakes_with_tensorflow():
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")

    @tf.function
    def checked(x):
        tf.debugging.assert_greater(x, 100.0)
        return x

    with tf.Graph().as_default() as graph:
        tf.nn.relu(tf.compat.v1.placeholder(tf.float32, [None, 4], name="inp"), name="outp")

    class Scaled(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 4], name="x"), tf.TensorSpec([], name="by")])
        def __call__(self, x, by):
            return x * by

    by = np.float32(2)
    assert onnxport.convert(Scaled(), inputs=(X, by)).report.passed
    assert onnxport.convert(Scaled(), inputs={"x": X, "by": by}).report.passed
    takes = "the signature takes x: float32[None, 4], by: float32[]"
    check(Scaled(), {"inputs": (by, X)}, ["'x' is float32[]", "the signature takes float32[None, 4]"])
    check(Scaled(), {"inputs": {"x": X, "factor": by}}, [takes, "given were x, factor"])
    check(Scaled(), {"inputs": (X,)}, ["takes 2 inputs (x, by)", "hold 1 arrays (x)"])
    check(checked, {"inputs": (X,)}, ["assertion failed", "Condition x > y", "pass inputs"])
    check(tf.Variable(1.0), {}, ["Variable has neither", "pass the function or module"])
    check(tf.constant(1.0), {}, ["Tensor has neither", "pass the function or module"])
    check(graph, {}, ["Graph has neither", "graph.as_graph_def()"])
    check(graph.as_graph_def(), {"inputs": {"image": X}}, ["the graph takes inputs inp; given: 'image'"])


def folder(place, **files):
    place.mkdir()
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (place / name.replace("__", ".")).write_text(text)
    return str(place)


@pytest.mark.pytorch
def test_folders_that_are_no_models_are_named(tmp_path):
    pytest.importorskip("transformers", reason="transformers is an extra")
    adapter = folder(tmp_path / "adapter", adapter_config__json={"peft_type": "LORA"})
    check(adapter, {}, ["PEFT adapter alone", "merge_and_unload()"])
    check(folder(tmp_path / "empty", config__json={}), {}, ["config.json", "names no model_type"])
    new = folder(tmp_path / "new", config__json={"model_type": "nonsuch"})
    check(new, {}, ["knows no model_type 'nonsuch'", "install one that does"])
    cpp = folder(
        tmp_path / "cpp", config__json={"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, m__gguf=""
    )
    check(cpp, {}, ["m.gguf", "weights of llama.cpp", "original folder"])


def test_an_option_of_a_source_alone_is_not_answered_with_another():
    from onnxport.cli.foreign_options import answer

    assert "did you mean" not in answer("--seed", "onnxport inspect", ["--verbose"])
    assert "did you mean --verbose?" in answer("--verbos", "onnxport inspect", ["--verbose"])


def test_a_factory_that_fails_is_named_with_its_line(tmp_path, monkeypatch):
    from onnxport.cli.source import resolve

    (tmp_path / "failing.py").write_text("def make():\n    return {}['weights']\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(OnnxportError, match=r"calling 'make' failed: KeyError: 'weights' \(at .*failing\.py:2: return"):
        resolve("failing:make")


def test_types_and_sizes_that_a_file_does_not_tell_are_question_marks(tmp_path):
    """onnx_ir reads no type of a map; a value may have no shape."""
    import onnx
    import onnx_ir as ir

    from onnxport.graph.workbench.description import signature, signature_lines
    from onnxport.graph.workbench.differences import differences

    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float y) {y = Relu (x)}'
    one = ir.from_proto(onnx.parser.parse_model(text))
    two = ir.from_proto(onnx.parser.parse_model(text))
    one.graph.outputs[0].shape, two.graph.outputs[0].shape = None, ir.Shape([2])
    assert ["FLOAT [?]" in str(item) for item in differences(one, two) if "output" in str(item)] == [True]
    one.graph.outputs[0].type = None
    assert [line.split(":")[1] for line in signature_lines(signature(one)) if "output" in line] == [" ? [?]"]
