"""Arguments of another type than a function takes: each is refused by its name and value, in the user's terms."""

import re

import numpy as np
import onnx.parser
import pytest

import onnxport
from onnxport import compat
from onnxport.errors import InvalidInputError

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

MODEL = """<ir_version: 8, opset_import: ["": 17]>
net (float[n,3] x) => (float[n,3] y) { h = Relu(x) y = Neg(h) }"""
WRONG = (3, 2.5, True, b"bytes", [1], np.zeros(2), float)
NO_PATHS = (None, *WRONG, {})
NO_DICTS = (None, 3, "x", ["x"], ("x", "y"), {1: "x"}, np.zeros(2))


@pytest.fixture(scope="module")
def model():
    return onnxport.convert(onnx.parser.parse_model(MODEL))


# How a function is called with a wrong argument, those that are wrong, and what the error names.
CALLS = [
    (lambda model, bad: onnxport.OnnxModel.load(bad), NO_PATHS, "path="),
    (lambda model, bad: model.save(bad), NO_PATHS, "path="),
    (lambda model, bad: model.save("x.onnx", external_data=bad), (3, "no", []), "external_data="),
    (lambda model, bad: onnxport.convert(model, output=bad), NO_PATHS[1:], "output="),
    (lambda model, bad: model.report.to_html(bad), NO_PATHS, "path="),
    (lambda model, bad: model.report.to_html("r.html", command=bad), NO_PATHS, "command="),
    (lambda model, bad: model.report.to_html("r.html", files=bad), (None, 3, "x.onnx", [None]), "files="),
    (lambda model, bad: model.rename(bad), NO_DICTS, "names"),
    (lambda model, bad: model.rename({}, nodes=bad), NO_DICTS[1:], "nodes"),
    (lambda model, bad: model.set_shapes(bad), NO_DICTS, "sizes"),
    (lambda model, bad: model.check_inputs(bad), NO_DICTS, "feeds"),
    (lambda model, bad: model.cut(bad), (3, "x", {"x"}, np.zeros(2)), "cut_inputs"),
    (lambda model, bad: model.cut(outputs=bad), (3, "x", {"x"}, np.zeros(2)), "cut_outputs"),
    (lambda model, bad: model.to_float16(keep_io_types=bad), (3, "no", np.zeros(2)), "keep_io_types="),
    (lambda model, bad: onnxport.convert(model, options=bad), NO_DICTS[1:], "options"),
    *[
        (lambda model, bad, name=name: onnxport.convert(model, **{name: bad}), WRONG, f"{name}=")
        for name in ("runtime", "dtype", "optimize")
    ],
    (lambda model, bad: onnxport.convert(model, "pytorch", allow_code=bad), (3, "no", np.zeros(2)), "allow_code="),
    (lambda model, bad: onnxport.validate(model, model, allow_pickle=bad), (3, "no", np.zeros(2)), "allow_pickle="),
    (lambda model, bad: onnxport.validate(model, model, runtimes=bad), (3, "tract", [None], np.zeros(2)), "runtimes"),
    (lambda model, bad: onnxport.register_engine(bad), NO_PATHS, "no engine"),
    (lambda model, bad: onnxport.register_framework(bad), NO_PATHS, "no descriptor"),
    (lambda model, bad: onnxport.register_to_onnx("pytorch", bad), (*NO_PATHS, ""), "op="),
    (lambda model, bad: onnxport.register_to_onnx("pytorch", "a::b")(bad), (None, 3, "x", []), "no function"),
    (lambda model, bad: onnxport.register_from_onnx("pytorch", bad, "B"), NO_PATHS, "domain="),
    (lambda model, bad: onnxport.register_from_onnx("pytorch", "a", bad), (*NO_PATHS, ""), "op_type="),
    (lambda model, bad: onnxport.register_from_onnx("pytorch", "a", "B", since=bad), (None, 0, 2.5, "1"), "since="),
    (lambda model, bad: onnxport.register_from_onnx("pytorch", "a", "B")(bad), (None, 3, "x", []), "no function"),
]


@pytest.mark.pytorch
@pytest.mark.parametrize(
    ("call", "bad", "words"), [(call, bad, words) for call, every, words in CALLS for bad in every]
)
def test_a_wrong_type_is_refused_by_name(model, call, bad, words, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=re.escape(words)):
        call(model, bad)
    assert list(tmp_path.iterdir()) == []


# Functions of `onnxport.compat`: an argument that is of another type than the other converter's.
COMPAT = [
    (lambda bad: compat.torch_onnx_export(torch.nn.Linear(3, 2), (torch.ones(1, 3),), bad), (3, b"x", []), "f="),
    (
        lambda bad: compat.torch_onnx_export(torch.nn.Linear(3, 2), (torch.ones(1, 3),), dynamic_axes=bad),
        (3, "x", [0], {0: "batch"}),
        "dynamic_axes",
    ),
    (
        lambda bad: compat.torch_onnx_export(torch.nn.Linear(3, 2), (torch.ones(1, 3),), input_names=bad),
        ("image", 3, [None]),
        "input_names",
    ),
    (lambda bad: compat.convert_sklearn(object(), initial_types=bad), (3, "x", ["x"], [3]), "initial_types="),
    (lambda bad: compat.to_onnx(object(), np.ones((2, 3)), options=bad), (3, "zipmap", [1]), "options="),
]


@pytest.mark.pytorch
@pytest.mark.sklearn
@pytest.mark.parametrize(
    ("call", "bad", "words"), [(call, bad, words) for call, every, words in COMPAT for bad in every]
)
def test_so_is_one_of_another_converter(call, bad, words, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    pytest.importorskip("sklearn", reason="scikit-learn is an extra")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=re.escape(words)):
        call(bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "here"), [("load", "OnnxModel.load(path)"), ("export", "onnxport.convert(")])
def test_what_other_packages_call_otherwise_is_answered(name, here):
    with pytest.raises(AttributeError, match=re.escape(here)):
        getattr(onnxport, name)


@pytest.mark.parametrize(("operator", "since"), [("Gelu", 20), ("Mish", 18), ("Nonsense", 0)])
def test_an_operator_that_the_opset_lacks_is_refused(operator, since, tmp_path, monkeypatch):
    """ONNX's reference evaluator runs Gelu at opset 17 all the same, as opset 20 has it."""
    monkeypatch.chdir(tmp_path)
    wrong = onnx.parser.parse_model(MODEL.replace("Neg", operator))
    onnx.save(wrong, "wrong.onnx")
    words = f"{operator} ('y'): ai.onnx 17 has no such operator"
    words += f"; it exists from opset {since} on" if since else ""
    for run in (
        lambda: onnxport.convert(wrong),
        lambda: onnxport.validate(wrong, wrong),
        lambda: onnxport.OnnxModel.load("wrong.onnx")(np.ones((1, 3), np.float32)),
    ):
        with pytest.raises(onnxport.OnnxportError, match=re.escape(words)):
            run()
