"""Models of other frameworks are saved in one step too."""

import json
import os
import stat
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnxport
from onnxport.converters.convert import save
from onnxport.errors import InvalidInputError, SavingError
from tests.graph.test_saving import full_disk, generation

PLACES = [
    ("pytorch", "m.pt2"),
    ("pytorch", "m.pt"),
    ("pytorch", "m.safetensors"),
    ("keras", "m.keras"),
    ("tensorflow", "saved"),
]


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("to", "name"), PLACES)
def test_the_old_model_stays_whole_until_the_new_one_is(tmp_path, to, name):
    place = tmp_path / name
    models = [onnxport.convert(generation(number, rows=40_000).model, to, validate=False) for number in (1, 2)]
    save(models[0], to, place)
    mode = 0o750 if place.is_dir() else 0o600
    place.chmod(mode)
    before = contents(tmp_path)
    with pytest.raises(SavingError, match=name), full_disk(100_000):
        save(models[1], to, place)
    assert contents(tmp_path) == before
    assert os.listdir(tmp_path) == [name]
    save(models[1], to, place)
    assert contents(tmp_path).keys() == before.keys()
    assert contents(tmp_path) != before
    assert os.listdir(tmp_path) == [name]
    assert stat.S_IMODE(place.stat().st_mode) == mode


@pytest.mark.parametrize(("to", "name"), [("onnx", "m.onnx"), *PLACES])
@pytest.mark.parametrize("missing", [True, False])
def test_a_place_that_takes_nothing_is_refused_before_the_work(tmp_path, to, name, missing, monkeypatch):
    monkeypatch.setattr("onnxport.converters.convert.load", lambda *args, **kwargs: pytest.fail("the work has begun"))
    place = tmp_path / "missing" / name if missing else tmp_path / name
    if not missing:
        place.mkdir()
        (place / "notes.txt").write_text("mine")
    with pytest.raises((InvalidInputError, SavingError), match="no folder" if missing else "folder"):
        onnxport.convert(generation(1).model, to, output=place)


def test_a_saved_model_directory_keeps_the_users_files(tmp_path):
    place = tmp_path / "saved"
    save(onnxport.convert(generation(1).model, "tensorflow", validate=False), "tensorflow", place)
    (place / "README.md").write_text("mine")
    save(onnxport.convert(generation(2).model, "tensorflow", validate=False), "tensorflow", place)
    assert (place / "README.md").read_text() == "mine"
    given = np.ones((1, 3), np.float32)
    assert onnxport.validate(generation(2).model, place, inputs=(given,)).passed


@pytest.mark.tensorflow
def test_a_map_under_whole_numbers_is_saved_with_an_output_for_each(tmp_path):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    kind, domain = onnx.TensorProto.FLOAT, "ai.onnx.ml"
    node = onnx.helper.make_node("ZipMap", ["x"], ["p"], domain=domain, classlabels_int64s=[3, 7])
    value = onnx.helper.make_map_type_proto(onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(kind, []))
    output = onnx.helper.make_value_info("p", onnx.helper.make_sequence_type_proto(value))
    graph = onnx.helper.make_graph([node], "g", [onnx.helper.make_tensor_value_info("x", kind, ["N", 2])], [output])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(domain, 3)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnxport.convert(model, to="tensorflow", output=tmp_path / "saved", validate=False)
    loaded = tf.saved_model.load(tmp_path / "saved")
    x = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]], "float32")
    results = loaded.signatures["serving_default"](x=tf.constant(x))
    assert {key: item.numpy().tolist() for key, item in results.items()} == {
        "p.3": x[:, 0].tolist(),
        "p.7": x[:, 1].tolist(),
    }


MAPPED = ["[3, 7]", "[10, -1, 9]", '["no", "yes"]', '["config", "class_name"]', '["b", "a", "0"]']


def mapped(labels, several):
    """A classifier's graph: the best column, and a map of columns or a sequence with two of them."""
    names = json.loads(labels)
    domain, kind = "ai.onnx.ml", onnx.TensorProto.FLOAT
    key = "classlabels_strings" if isinstance(names[0], str) else "classlabels_int64s"
    key_type = onnx.TensorProto.STRING if isinstance(names[0], str) else onnx.TensorProto.INT64
    table = onnx.helper.make_map_type_proto(key_type, onnx.helper.make_tensor_type_proto(kind, []))
    rows = onnx.helper.make_sequence_type_proto(table)
    make = onnx.helper.make_node
    nodes = [make("ArgMax", ["x"], ["best"], axis=1, keepdims=0), make("Neg", ["x"], ["y"])]
    nodes += [make("ZipMap", [item], [f"p{item}"], domain=domain, **{key: names}) for item in ("x", "y")]
    outputs = [onnx.helper.make_tensor_value_info("best", onnx.TensorProto.INT64, ["N"])]
    if several:
        nodes.append(make("SequenceConstruct", ["px", "py"], ["all"]))
        outputs.append(onnx.helper.make_value_info("all", onnx.helper.make_sequence_type_proto(rows)))
    else:
        outputs.append(onnx.helper.make_value_info("px", rows))
    x = onnx.helper.make_tensor_value_info("x", kind, ["N", len(names)])
    graph = onnx.helper.make_graph(nodes, "g", [x], outputs)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(domain, 3)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


LOADING = """
import sys, json, keras, tensorflow as tf, onnxport.keras
for place, labels in json.load(sys.stdin):
    x = tf.random.stateless_normal((5, len(json.loads(labels))), [1, 2])
    shown = [x.numpy().tolist()]
    for model in (keras.saving.load_model(place + '.keras'), tf.saved_model.load(place).serve):
        best, *parts = model(x)
        maps = parts[0] if isinstance(parts[0], list) else parts
        listed = [list(item.items()) if isinstance(item, dict) else [('', item)] for item in maps]
        shown.append([best.numpy().tolist(), [[key, v.numpy().tolist()] for m in listed for key, v in m]])
    print(json.dumps(shown))
"""


@pytest.mark.tensorflow
def test_a_keras_model_of_maps_keeps_their_keys_when_loaded_and_has_columns_when_served(tmp_path):
    rows = [(labels, several) for labels in MAPPED for several in (False, True)]
    places = [(str(tmp_path / str(i)), labels) for i, (labels, _) in enumerate(rows)]
    for (labels, several), (place, _) in zip(rows, places, strict=True):
        model = onnxport.convert(mapped(labels, several), to="keras", validate=False)
        model.save(f"{place}.keras")
        model.export(place, verbose=False)
    command, environment = [sys.executable, "-c", LOADING], {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, input=json.dumps(places), capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    for (labels, several), line in zip(rows, done.stdout.splitlines(), strict=True):
        given, loaded, served = json.loads(line)
        x = np.array(given, np.float32)
        names = json.loads(labels) * (1 + several)
        columns = [column.tolist() for item in ((x, -x) if several else (x,)) for column in item.T]
        assert loaded == [x.argmax(1).tolist(), [list(pair) for pair in zip(names, columns, strict=True)]]
        assert served == [x.argmax(1).tolist(), [["", column] for column in columns]]


@pytest.mark.tensorflow
@pytest.mark.keras
def test_a_keras_model_of_sequences_is_served_with_their_parts_side_by_side(tmp_path):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[N,2] x) => (float[N,2] y, seq(float[N,2]) all) {
      y = Neg(x) z = Exp(x) all = SequenceConstruct(x, z) }"""
    model = onnxport.convert(onnx.parser.parse_model(text), to="keras", validate=False)
    model.export(tmp_path / "served", verbose=False)
    x = np.array([[0.25, 0.75], [-0.5, 0.5], [1.0, 0.0]], "float32")
    results = tf.saved_model.load(tmp_path / "served").serve(tf.constant(x))
    for result, expected in zip(results, (-x, x, np.exp(x)), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("with_weight", [False, True])
def test_a_chain_longer_than_pythons_limit_of_calls(tmp_path, with_weight):
    kinds = ("Add", "Neg", "Mul") if with_weight else ("Neg", "Relu", "Abs")
    nodes = []
    for step in range(1200):
        kind = kinds[step % 3]
        nodes.append(
            helper.make_node(kind, [f"v{step}", "c"] if kind in ("Add", "Mul") else [f"v{step}"], [f"v{step + 1}"])
        )
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4]) for name in ("v0", "v1200"))
    weights = [numpy_helper.from_array(np.linspace(0.5, 0.9, 4, dtype=np.float32), "c")] if with_weight else []
    graph = helper.make_graph(nodes, "chain", [x], [y], weights)
    file = tmp_path / "chain.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    limit = sys.getrecursionlimit()
    model = onnxport.convert(file, "keras", validate=False, output=tmp_path / "chain.keras")
    assert sys.getrecursionlimit() == limit
    given = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    expected = onnxport.OnnxModel.load(file)(given)
    np.testing.assert_allclose(np.asarray(model(given)), expected, rtol=1e-6)
    assert all(len(layer._inbound_nodes) == 1 for layer in model.layers)  # as before it was saved
    program = (
        "import sys, keras, numpy\n"
        "sys.modules['onnxport'] = None\n"
        "model, given = keras.models.load_model(sys.argv[1]), numpy.load(sys.argv[2])\n"
        "numpy.save(sys.argv[3], model(given))"
    )
    np.save(tmp_path / "given.npy", given)
    files = [str(tmp_path / name) for name in ("chain.keras", "given.npy", "result.npy")]
    subprocess.run([sys.executable, "-c", program, *files], check=True)
    np.testing.assert_allclose(np.load(files[2]), expected, rtol=1e-6)


BODY = "b (int64 i, bool k, float[n] a) => (bool k2, float[n] a2) { k2 = Identity(k) a2 = Add(a, a) }"
GRAPHS = {
    "control": (
        f"(float[n] x, int64 m) => (float[n] y) {{ c = Constant<value = bool {{1}}>() y = Loop<body = {BODY}>(m, c, x) }}",
        "GuardOnDataDependentSymNode: ",
    ),
    "pieces": (
        "(float[n] x, int64 m) => (seq(float[k]) y) { y = SplitToSequence<axis = 0>(x, m) }",
        "how many pieces there are is known only when the model runs",
    ),
    "strings": ("(string[n] x) => (string[n] y) { y = Identity(x) }", "an input is no tensor of known rank"),
}


@pytest.mark.pytorch
@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_no_exported_program_is_answered_in_two_lines(run, tmp_path, name):
    """Without the graph that torch prints of what it can't trace."""
    text, reason = GRAPHS[name]
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}'), tmp_path / "net.onnx")
    done = run("convert", "net.onnx", "-o", "net.pt2")
    assert (done.code, done.out) == (2, "")
    assert reason in done.err
    assert ".safetensors" in done.err
    assert done.err.count("\n") <= 2
    assert os.listdir(tmp_path) == ["net.onnx"]


@pytest.mark.pytorch
def test_numbers_that_are_drawn_anew_are_saved_as_an_exported_program(run, tmp_path):
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (float[n] y) { y = RandomNormalLike(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    assert run("convert", "net.onnx", "-o", "net.pt2", "--allow-unproved").code == 0
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    assert torch.export.load(tmp_path / "net.pt2").module()(torch.zeros(7)).shape == (7,)


@pytest.mark.keras
@pytest.mark.tensorflow
@pytest.mark.parametrize("tops", [False, True])
def test_branches_that_share_layers_load_with_their_weights(tmp_path, tops):
    """What optimum writes of a decoder with and without a cache: two branches on the same weights."""
    body = "a = MatMul(x, w) b = MatMul(x, v) c = Add(a, b)"
    branches = f"then_branch = t () => (p) {{ {body} p = MatMul(c, u) }}, else_branch = e () => (q) {{ {body} q = MatMul(c, u) }}"
    outside = "r = MatMul(s, u)" if tops else "r = Identity(s)"
    head = '<ir_version: 8, opset_import: ["" : 18]> g (float[N, 4] x, bool on) => (float[N, 4] r)'
    model = onnx.parser.parse_model(f"{head} {{ s = If<{branches}>(on) {outside} }}")
    model.graph.node[0].attribute[1].g.node[2].op_type = "Sub"
    rng = np.random.default_rng(0)
    model.graph.initializer.extend(
        numpy_helper.from_array(rng.random((4, 4), np.float32), name) for name in ("w", "v", "u")
    )
    live = onnxport.convert(model, to="keras", validate=False)
    import keras

    live.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    again.save(tmp_path / "n.keras")
    x = rng.random((2, 4), np.float32)
    for loaded in (again, keras.saving.load_model(tmp_path / "n.keras")):
        assert len(loaded.weights) == len(live.weights) == 3
        for on in (True, False):
            np.testing.assert_array_equal(loaded(x, np.array(on)), live(x, np.array(on)))
