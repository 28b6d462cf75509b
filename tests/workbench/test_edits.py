"""Names, parts, joins, sizes and simplifications of ONNX files, held against onnxruntime on the files as they were."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from onnxport import OnnxModel
from tests.workbench.graphs import files as files

X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
IMAGE = np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)


def ran(path, *inputs):
    """The outputs by name, in onnxruntime alone."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {item.name: x for item, x in zip(session.get_inputs(), inputs, strict=True)}
    return dict(zip((item.name for item in session.get_outputs()), session.run(None, feeds), strict=True))


def test_one_file_behind_the_other(run, files):
    done = run("merge", "first.onnx", "second.onnx", "-o", "both.onnx", "--json")
    assert (done.code, done.json["validation"]["verdict"]) == (0, "passed"), done
    assert [item["name"] for item in done.json["inputs"] + done.json["outputs"]] == ["x", "y"]
    expected = ran(files / "second.onnx", ran(files / "first.onnx", X)["h"])
    np.testing.assert_array_equal(ran(files / "both.onnx", X)["y"], expected["y"])
    assert [item["shape"] for item in done.json["outputs"]] == [["batch", 2]]
    assert run("merge", "first.onnx", "second.onnx", "h=h", "--keep", "-o", "kept.onnx").code == 0
    assert set(ran(files / "kept.onnx", X)) == {"h", "y"}


def test_a_merge_that_gives_other_numbers_is_an_error(run, files, monkeypatch):
    from onnxport.converters import workbench

    join = workbench.join

    def wrong(first, second, ends, **options):
        result = join(first, second, ends, **options)
        next(node for node in result.graph if node.op_type == "Relu").op_type = "Abs"
        return result

    monkeypatch.setattr(workbench, "join", wrong)
    done = run("merge", "first.onnx", "second.onnx", "-o", "both.onnx")
    assert done.code == 1, done
    assert not (files / "both.onnx").exists()


def test_new_names(run, files):
    names = ["x=image", "h=scores", "w=dense.weight", "m=product"]
    done = run("rename", "first.onnx", *names, "-o", "named.onnx", "--json")
    assert (done.code, done.json["validation"]["verdict"]) == (0, "passed"), done
    proto = onnx.load(files / "named.onnx")
    assert [item.name for item in (*proto.graph.input, *proto.graph.output, *proto.graph.initializer)] == [
        "image",
        "scores",
        "dense.weight",
    ]
    assert proto.graph.node[0].output[0] == "product"
    np.testing.assert_array_equal(ran(files / "named.onnx", X)["scores"], ran(files / "first.onnx", X)["h"])


def test_new_names_of_nodes(run, files):
    proto = onnx.load(files / "first.onnx")
    proto.graph.node[0].name = "/dense/MatMul"
    onnx.save(proto, files / "first.onnx")
    assert run("rename", "first.onnx", "--node", "/dense/MatMul=dense", "-o", "named.onnx").code == 0
    assert onnx.load(files / "named.onnx").graph.node[0].name == "dense"


def test_a_part_and_other_sizes_and_opset(run, files):
    assert run("extract", "first.onnx", "--from", "d", "--to", "h", "-o", "part.onnx").code == 0
    product = X @ np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(ran(files / "part.onnx", product)["h"], 2 * product)
    for words, sizes in {"batch=2": [2, 3], "x=2x3": [2, 3], "x:0=2": [2, 3], "batch=rows": ["rows", 3]}.items():
        done = run("set-shapes", "first.onnx", words, "-o", "sized.onnx", "--json")
        assert (done.code, done.json["inputs"][0]["shape"]) == (0, sizes), done
    done = run("upgrade", "second.onnx", "-o", "newer.onnx", "--json")
    assert (done.code, done.json["opsets"]) == (0, {"": 21}), done
    assert run("upgrade", "second.onnx", "--opset", "15", "-o", "newer.onnx", "--json").json["opsets"] == {"": 15}


def test_fewer_nodes(run, files):
    done = run("slim", "needless.onnx", "-o", "slim.onnx", "--json")
    assert (done.code, done.json["validation"]["verdict"]) == (0, "passed"), done
    proto = onnx.load(files / "slim.onnx")
    assert [node.op_type for node in proto.graph.node] == ["Exp", "Mul", "Max"]
    assert (proto.graph.input[0].name, proto.graph.output[0].name) == ("x", "y")
    np.testing.assert_array_equal(ran(files / "slim.onnx", IMAGE)["y"], ran(files / "needless.onnx", IMAGE)["y"])


TRAINING = """<ir_version: 8, opset_import: ["": 17]>
g (float[n,3] x) => (float[n,3] y, int64[k] s) <bool t = {1}, float r = {0.5}> {
  a = Dropout(x, r, t) y = Neg(a) s = Shape(x) }"""
UNKNOWN = """<ir_version: 8, opset_import: ["": 17]>
g (float[n,m] x, int64[2] s) => (float[k,l] y) { a = Reshape(x, s) b = Transpose<perm = [1, 0]>(a) y = Relu(b) }"""


@pytest.mark.parametrize("text", [TRAINING, UNKNOWN])
def test_what_computes_something_stays(run, tmp_path, text):
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    assert run("slim", "net.onnx", "-o", "slim.onnx", "--allow-unproved").code == 0
    before, after = (
        [node.op_type for node in onnx.load(tmp_path / name).graph.node] for name in ("net.onnx", "slim.onnx")
    )
    assert after == before


REFUSED = [
    (["merge", "first.onnx", "first.onnx", "-o", "o.onnx"], "say which feeds which, OUTPUT=INPUT"),
    (
        ["merge", "first.onnx", "first.onnx", "h=x", "-o", "o.onnx"],
        "the output has shape [batch,4], the input [batch,3]",
    ),
    (["merge", "first.onnx", "second.onnx", "y=h", "-o", "o.onnx"], "y=h: an output of the first model (h)"),
    (["rename", "first.onnx", "y=z", "-o", "o.onnx"], "the model has no value 'y'; it has x, w"),
    (["rename", "first.onnx", "x=w", "-o", "o.onnx"], "another value is called 'w' already"),
    (["rename", "first.onnx", "x", "-o", "o.onnx"], "'x': written as OLD=NEW"),
    (["rename", "first.onnx", "-o", "o.onnx"], "nothing to do: give names as OLD=NEW"),
    (["extract", "first.onnx", "-o", "o.onnx"], "nothing to do: give --from, --to or both"),
    (["extract", "first.onnx", "--to", "z", "-o", "o.onnx"], "the graph has no value 'z'"),
    (
        ["set-shapes", "first.onnx", "rows=2", "-o", "o.onnx"],
        "'rows' is no input, no dimension's name and no INPUT:AXIS",
    ),
    (["set-shapes", "first.onnx", "x=2", "-o", "o.onnx"], "input 'x' has 2 dimensions, 1 are given"),
    (["set-shapes", "first.onnx", "x=2x4", "-o", "o.onnx"], "dimension 1 of 'x' is 3 in the model, not 4"),
    (
        ["rename", "first.onnx", "batch=n", "-o", "o.onnx"],
        "'batch' is a dimension, no value: set_shapes({'batch': 'n'})",
    ),
    (["extract", "first.onnx", "--inputs", "h", "--to", "h", "-o", "o.onnx"], "where the part begins is --from"),
    (["upgrade", "missing.onnx", "-o", "o.onnx"], "missing.onnx"),
    (
        ["upgrade", "newest.onnx", "-o", "o.onnx"],
        "nothing to do: newest.onnx is at opset 22: give another with --opset",
    ),
    (["slim", "net.pt2", "-o", "o.onnx"], "'net.pt2' is a file of PyTorch, no ONNX model: onnxport convert net.pt2"),
    (["slim", "graphs.txt", "-o", "o.onnx"], "graphs.txt"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[" ".join(row[0][:4]) for row in REFUSED])
def test_what_does_not_fit_is_refused(run, files, arguments, message):
    (files / "net.pt2").write_bytes(b"PK program")
    newest = onnx.load(files / "second.onnx")
    newest.opset_import[0].version = 22
    onnx.save(newest, files / "newest.onnx")
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err, done
    assert not (files / "o.onnx").exists()


def test_the_same_on_live_models(files):
    model = OnnxModel.load(files / "first.onnx")
    named = model.rename({"x": "image", "h": "scores"})
    assert (named.input_names, named.output_names, named.report.verdict) == (["image"], ["scores"], "passed")
    np.testing.assert_array_equal(named(X), model(X))
    part = model.cut(outputs=["m"])
    assert (part.output_names, part.report.verdict) == (["m"], "passed")
    for sizes in ({"batch": 5}, {"x": (5, 3)}, {"x:0": 5}):
        fixed = model.set_shapes(sizes)
        assert list(fixed.model.graph.inputs[0].shape) == [5, 3]
        np.testing.assert_array_equal(fixed(X), model(X))
    half = model.to_float16(keep_io_types=True)
    assert (half.report.verdict, half(X).dtype) == ("passed", np.float32)
    assert half.model.graph.initializers["w"].dtype == ir.DataType.FLOAT16
    assert model.input_names == ["x"]
    lines = model.summary().splitlines()
    assert lines[0] == "dense: ai.onnx 17, IR 8, 4 nodes"
    assert "  input   x: FLOAT [batch, 3]" in lines
    assert lines[-1] == "  operators MatMul, Constant, Identity, Mul"
    model.model.metadata_props["long"] = "x" * 1234
    assert f"  long: {'x' * 200}... (1,234 characters)" in model.summary().splitlines()
