"""action.yml: its steps' commands, run as they stand there."""

import re
import shlex
from pathlib import Path
from string import Template

import onnx
import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML comes with transformers")
ACTION = yaml.safe_load((Path(__file__).parents[2] / "action.yml").read_text(encoding="utf-8"))


def commands(given):
    """The commands of onnxport with the inputs filled in, as bash splits them."""
    values = {name: given.get(name, item.get("default")) for name, item in ACTION["inputs"].items()}
    for step in ACTION["runs"]["steps"]:
        script = step.get("run", "")
        assert "${{" not in script, "an input as a part of a script would run as one"
        if script.startswith("onnxport "):
            env = {
                key: values[re.fullmatch(r"\$\{\{ inputs\.(\w+) \}\}", text)[1]] for key, text in step["env"].items()
            }
            yield shlex.split(Template(script).substitute(env))[1:]


def test_the_steps_convert_and_prove(run, tmp_path):
    text = '<ir_version: 8, opset_import: ["": 16]> g (float[n] x) => (float[n] y) { y = Softplus(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    seen = list(commands({"model": "net.onnx", "output": "new.onnx", "arguments": "--opset 18"}))
    assert [words[0] for words in seen] == ["convert", "validate"]
    for words in seen:
        done = run(*words)
        assert done.code == 0, done.err
    assert onnx.load(tmp_path / "new.onnx").opset_import[0].version == 18
    kept = ACTION["runs"]["steps"][-1]["with"]["path"].splitlines()
    assert (tmp_path / kept[1]).is_file()
    assert list(tmp_path.glob(kept[2]))
