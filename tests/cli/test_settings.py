"""Options that a project's file sets: which command takes them, what is typed comes first, what a file can't set."""

import onnx
import pytest

NET = """<ir_version: 8, opset_import: ["": 17]>
net (float[batch,3] x) => (float[batch,3] y) { y = Relu(x) }"""


@pytest.fixture
def net(tmp_path):
    onnx.save(onnx.parser.parse_model(NET), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


OPTIONS = 'opset = 18\ndynamic = ["x:0=rows"]\n'
PROJECTS = {
    ".onnxport.toml": "{}[convert]\n" + OPTIONS,
    "pyproject.toml": '[project]\nname = "mine"\n[tool.onnxport]\n{}[tool.onnxport.convert]\n' + OPTIONS,
}


@pytest.mark.parametrize("name", PROJECTS)
def test_a_file_sets_options_of_a_command(run, net, tmp_path, name):
    (tmp_path / name).write_text(PROJECTS[name].format("json = true\n"))
    done = run("convert", "net.onnx", "-o", "new.onnx")
    assert (done.code, done.err) == (0, "")
    assert '"opsets": {\n    "": 18' in done.out
    assert [item.dim_param for item in onnx.load("new.onnx").graph.input[0].type.tensor_type.shape.dim] == ["rows", ""]
    typed = run("convert", "net.onnx", "-o", "typed.onnx", "--opset", "19", "--json")  # what is typed comes first
    assert typed.json["opsets"] == {"": 19}
    assert run("inspect", "net.onnx", "--json").json["opsets"] == {"": 17}


def test_the_nearest_file_upwards_is_read(run, net, tmp_path, monkeypatch):
    (tmp_path / ".onnxport.toml").write_text("[convert]\nopset = 18\n")
    inner = tmp_path / "inner" / "most"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert run("convert", "../../net.onnx", "-o", "a.onnx", "--json").json["opsets"] == {"": 18}
    (tmp_path / "inner" / "pyproject.toml").write_text('[project]\nname = "another"\n')  # a project of its own
    assert run("convert", "../../net.onnx", "-o", "b.onnx", "--json").json["opsets"] == {"": 17}


@pytest.mark.pytorch
def test_the_section_of_convert_holds_for_its_aliases(run, module, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    models = module("import torch\ndef net(): return torch.nn.Linear(3, 2).eval(), (torch.ones(4, 3),)")
    # an estimator's option, which the alias has not
    (tmp_path / ".onnxport.toml").write_text(
        '[convert]\nopset = 18\nmethods = ["predict"]\n[torch2onnx]\ninput-names = ["rows"]\n'
    )
    done = run("torch2onnx", f"{models}:net", "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.json["opsets"], done.json["inputs"][0]["name"]) == ({"": 18}, "rows")
    refused = run("convert", f"{models}:net", "-o", "b.onnx")
    assert refused.code == 2
    assert "--methods (set by .onnxport.toml) means nothing for " in refused.err


def test_a_switch_is_taken_back_on_the_command_line(run, net, tmp_path):
    (tmp_path / ".onnxport.toml").write_text("[convert]\nvalidate = false\n")
    assert "not validated" in run("convert", "net.onnx", "--opset", "18", "-o", "a.onnx").out
    assert "passed" in run("convert", "net.onnx", "--opset", "18", "-o", "b.onnx", "--validate").out


REFUSED = [
    ("opsett = 17", ".onnxport.toml: opsett is an option of no command"),
    ("[convert]\nfor = 'tensorrt'", ".onnxport.toml: convert.for is no option of onnxport convert"),
    ("[convertt]\nopset = 17", ".onnxport.toml: there is no command 'convertt'"),
    ("[convert]\nopset = true", ".onnxport.toml: convert.opset = True: a string or a number"),
    ("[convert]\nopset = 'new'", "onnxport convert --opset (set by .onnxport.toml): "),
    ("[convert]\nopset = 12", "--opset 12: a version"),
    ("[convert]\ndynamic = 'x:0=b'", ".onnxport.toml: convert.dynamic = 'x:0=b': a list of strings"),
    ("[convert]\nvalidate = 'no'", ".onnxport.toml: convert.validate = 'no': true or false"),
    ("opset = ", ".onnxport.toml' can't be read: "),
    (
        "[tool.onnxport.convert]\nopset = 17",
        ".onnxport.toml: [tool.onnxport.convert] is pyproject.toml's; here it is written",
    ),
    # what runs code, or names the files of one run
    *(
        (f"[convert]\n{name} = {value}", f"convert.{name} is typed on the command line, not set by a file")
        for name, value in (
            ("allow-pickle", "true"),
            ("allow-code", "true"),
            ("inputs", "'evil:inputs'"),
            ("output", "'/tmp/x.onnx'"),
            ("html", "'/tmp/x.html'"),
            ("weights", "'w.pt'"),
        )
    ),
    ("[reduce]\ncheck = 'rm'", "reduce.check is typed on the command line"),
    ("[tf2onnx]\nload-op-libraries = ['x.so']", "tf2onnx.load-op-libraries is typed on the command line"),
]


@pytest.mark.parametrize("text, message", REFUSED, ids=[row[0] for row in REFUSED])
def test_what_a_file_can_not_set_is_refused_by_name(run, net, tmp_path, text, message):
    (tmp_path / ".onnxport.toml").write_text(text)
    done = run("convert", "net.onnx", "-o", "new.onnx")
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "new.onnx").exists()


def test_what_a_file_sets_of_the_proof_is_named(run, net, tmp_path):
    (tmp_path / ".onnxport.toml").write_text("rtol = 1e-3\nvalidate = true\n")
    done = run("validate", "net.onnx", "net.onnx")
    assert done.out.startswith(".onnxport.toml sets rtol = 0.001\n")
    assert not run("validate", "net.onnx", "net.onnx", "--rtol", "1e-4").out.startswith(".onnxport.toml")
    assert run("validate", "net.onnx", "net.onnx", "--json").json["verdict"] == "passed"
