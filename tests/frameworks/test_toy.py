"""A framework that is added from outside: one folder (`toyport`) and one registration."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxport
from onnxport import frameworks
from onnxport.errors import InvalidInputError, InvalidModelError, MissingDependencyError, UnsupportedOperator
from onnxport.frameworks import Framework

HERE = Path(__file__).parent
ROWS = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
WEIGHT = np.random.default_rng(1).standard_normal((3, 2)).astype(np.float32)
STEPS = (("project", WEIGHT), ("shift", np.float32([0.5, -0.5])), "rectify", ("scale", np.float32(2.0)))


@pytest.fixture
def toyport(monkeypatch):
    """The package as if it were installed, registered until the test ends."""
    monkeypatch.syspath_prepend(HERE)
    import toyport
    import toyport.model

    onnxport.register_framework(toyport.FRAMEWORK)
    yield toyport.model
    frameworks.unregister_framework("toy")
    for name in [name for name in sys.modules if name.partition(".")[0] == "toyport"]:
        del sys.modules[name]
    assert frameworks.registered() == frameworks.BUILT_IN


def test_the_guide_shows_its_descriptor():
    source = (HERE / "toyport" / "__init__.py").read_text()
    assert source[source.index("FRAMEWORK =") :] in (HERE.parent.parent / "CONTRIBUTING.md").read_text()


def test_a_model_of_it_becomes_onnx(toyport):
    model = toyport.Toy(*STEPS)
    hub = onnxport.convert(model, inputs=(ROWS,), target_opset=17, output_names=["scores"])
    assert (hub.report.verdict, str(hub.report.source)) == ("passed", "toy Toy of 4 steps")
    assert (hub.opset, hub.input_names, hub.output_names) == (17, ["x"], ["scores"])
    session = onnxruntime.InferenceSession(hub.proto.SerializeToString())
    np.testing.assert_allclose(session.run(None, {"x": ROWS})[0], model(ROWS), rtol=1e-6)


def test_onnx_becomes_a_model_of_it(toyport):
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N, 3] x) => (float[N, 2] y) <float[3, 2] w> '
    proto = onnx.parser.parse_model(text + "{ h = MatMul(x, w) y = Relu(h) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHT, "w"))
    model = onnxport.convert(proto, to="toy")
    assert isinstance(model, toyport.Toy)
    assert model.onnxport_report.passed
    np.testing.assert_array_equal(model(ROWS), np.maximum(ROWS @ WEIGHT, 0))
    assert onnxport.validate(model, proto, inputs=(ROWS,)).passed
    assert onnxport.validate(proto, model).passed


@pytest.mark.pytorch
def test_it_goes_to_other_frameworks_and_comes_from_them(toyport):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    model = toyport.Toy(*STEPS)
    net = onnxport.convert(model, to="pytorch", inputs=(ROWS,))
    np.testing.assert_allclose(net(torch.from_numpy(ROWS)).detach(), model(ROWS), rtol=1e-6)
    layer = torch.nn.Sequential(torch.nn.Threshold(0.0, 0.0), torch.nn.ReLU())
    with pytest.raises(UnsupportedOperator):
        onnxport.convert(layer, to="toy", inputs=(torch.from_numpy(ROWS),))
    back = onnxport.convert(torch.nn.ReLU(), to="toy", inputs=(torch.from_numpy(ROWS),))
    assert back.steps == [("rectify", ())]


def test_a_wrong_weight_is_a_failed_proof(toyport):
    hub = onnxport.convert(toyport.Toy(*STEPS), inputs=(ROWS,))
    report = onnxport.validate(toyport.Toy(("project", WEIGHT * 1.01), *STEPS[1:]), hub, inputs=(ROWS,))
    assert report.verdict == "failed"
    assert report.divergence.source_op == "project"


def test_all_that_is_unsupported_is_said_at_once(toyport):
    with pytest.raises(UnsupportedOperator, match="spin") as caught:
        onnxport.convert(toyport.Toy("spin", "rectify", "spin"), inputs=(ROWS,))
    assert [(item.framework, item.count) for item in caught.value.operators] == [("toy", 2)]

    @onnxport.register_to_onnx("toy", "spin")
    def spin(op, x):
        return op.Gather(x, np.int64([2, 1, 0]), axis=-1)

    assert onnxport.convert(toyport.Toy("spin", "rectify"), inputs=(ROWS,)).report.passed


REFUSED = [
    ({"methods": ["predict"]}, "methods= means nothing for a toy model to ONNX"),
    ({"signature": "s"}, "signature= means nothing for a toy model to ONNX"),
    ({"kwargs": {"x": 1}}, "kwargs= means nothing for a toy model to ONNX: its inputs have no names"),
    ({"to": "keras", "output_names": ["y"]}, "output_names= means nothing for a toy model to Keras"),
    ({"output": "model.toy"}, "written as .onnx, not '.toy'"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=[str(row[0]) for row in REFUSED])
def test_options_that_mean_nothing_are_refused_by_name(toyport, given, message):
    with pytest.raises(InvalidInputError, match=message):
        onnxport.convert(toyport.Toy(*STEPS), **{"inputs": (ROWS,), **given})


def test_the_command_line_knows_it(toyport, run, tmp_path):
    toyport.Toy(*STEPS).save("net.toy")
    done = run("convert", "net.toy", "-o", "net.onnx", "--input-shape", "4x3", "--json")
    assert (done.code, done.json["from"], done.json["validation"]["verdict"]) == (0, "toy", "passed")
    assert run("validate", "net.toy", "net.onnx", "--input-shape", "4x3").code == 0
    back = run("convert", "net.onnx", "-o", "back.toy")
    assert back.code == 0, back
    assert "onnx to toy" in back.out
    assert run("validate", "net.toy", "back.toy", "--input-shape", "5x3").code == 0
    legs = run("roundtrip", "net.onnx", "--through", "toy", "--json").json["legs"]
    assert [leg["leg"] for leg in legs] == ["onnx to toy", "toy to onnx", "onnx to onnx"]
    assert all(leg["validation"]["passed"] for leg in legs)


def test_the_command_line_lists_its_operators(toyport, run):
    table = run("ops", "toy", "--json").json["toy"]
    assert {row["op"]: row["about"] for row in table["to_onnx"]}.items() >= {
        "project": "MatMul.",
        "rectify": "Relu.",
    }.items()
    assert [row["op"] for row in table["from_onnx"]] == ["Add", "MatMul", "Mul", "Relu"]
    assert "Toy to ONNX" in run("ops", "toy").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--signature", "s", "--input-shape", "4x3"], "--signature means nothing for a toy model to ONNX"),
        ([], "a toy model carries no signature: give example inputs"),
        (["--weights", "w.npz"], "--weights belongs to package.module:factory"),
    ],
)
def test_the_command_line_refuses_by_name(toyport, run, arguments, message):
    toyport.Toy(*STEPS).save("net.toy")
    done = run("convert", "net.toy", "-o", "net.onnx", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_a_damaged_file_is_refused(toyport, tmp_path):
    (tmp_path / "broken.toy").write_bytes(b"nothing")
    with pytest.raises(InvalidModelError, match=r"broken\.toy"):
        onnxport.convert(tmp_path / "broken.toy", inputs=(ROWS,))


def test_nothing_is_left_once_it_is_unregistered(toyport, run, tmp_path):
    toyport.Toy(*STEPS).save("net.toy")
    descriptor = frameworks.get("toy")
    frameworks.unregister_framework("toy")
    try:
        assert frameworks.owner_of(toyport.Toy) is None
        with pytest.raises(InvalidInputError, match="unknown framework 'toy'"):
            onnxport.convert("net.toy", to="toy")
        assert "none of" in run("convert", "net.toy", "-o", "net.onnx").err
        assert "--output: 'net.toy' does not say" in run("convert", "net.onnx", "-o", "net.toy").err
        assert "unknown framework 'toy'" in run("ops", "toy").err
        with pytest.raises(InvalidInputError, match="not registered"):
            frameworks.unregister_framework("toy")
    finally:
        onnxport.register_framework(descriptor)


CLASHES = [
    ({"name": "pytorch"}, "the name 'pytorch' is pytorch's"),
    ({"aliases": ("tf",)}, "the name 'tf' is tensorflow's"),
    ({"owners": ("lightgbm",)}, "the package 'lightgbm' is sklearn's"),
    ({"files": frameworks.get("keras").files}, "the suffix '.h5' is keras's"),
]


@pytest.mark.parametrize(("fields", "message"), CLASHES, ids=[str(*row[0]) for row in CLASHES])
def test_what_another_framework_has_is_refused(fields, message):
    with pytest.raises(InvalidInputError, match=message):
        onnxport.register_framework(Framework(**{"name": "other", "title": "Other", "kinds": (), **fields}))
    with pytest.raises(InvalidInputError, match="not registered"):
        frameworks.unregister_framework("pytorch")


def installed(tmp_path, monkeypatch, value):
    """A distribution in `tmp_path` that brings the framework by an entry point."""
    folder = tmp_path / "toyport-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: toyport\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[onnxport.frameworks]\ntoy = {value}\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{HERE}:{HERE.parent.parent}")


DISCOVERED = """
import sys
import numpy as np
import onnxport
from onnxport import frameworks

onnxport.convert(PROTO, to="onnx")
assert "toyport" not in sys.modules, "a known framework loads no other"
"""
WAYS = {
    "by name": "assert frameworks.get('toy').name == 'toy'",
    "by suffix": "assert frameworks.of_path('net.toy') == 'toy'",
    "by class": "import toyport.model as t; assert frameworks.of_object(t.Toy()) == 'toy'",
    "by suffix on the command line": "from onnxport.cli.main import app; app(['convert', 'net.onnx', '-o', 'other.toy'], "
    "standalone_mode=False)",
    "in a listing": "assert [item.name for item in frameworks.discover()][-1] == 'toy'",
}


@pytest.mark.parametrize("way", WAYS)
def test_an_installed_distribution_brings_it_when_it_is_needed(tmp_path, monkeypatch, way):
    installed(tmp_path, monkeypatch, "toyport:FRAMEWORK")
    (tmp_path / "net.toy").touch()
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    program = f"{DISCOVERED.replace('PROTO', repr('net.onnx'))}{WAYS[way]}\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("no_such_module:FRAMEWORK", MissingDependencyError, "the framework 'toy'.*no_such_module"),
        ("toyport.model:Toy", InvalidInputError, "'toy' .*gives no descriptor of that name"),
    ],
)
def test_a_distribution_that_is_broken_is_named(tmp_path, monkeypatch, value, error, message):
    installed(tmp_path, monkeypatch, value)
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(error, match=message):
        frameworks.get("toy")
    assert frameworks.registered() == frameworks.BUILT_IN
