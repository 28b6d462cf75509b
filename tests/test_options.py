"""Options are honoured or refused by name, never ignored."""

import inspect
from pathlib import Path
from typing import get_type_hints

import numpy as np
import onnx
import onnx.helper as make
import pytest

import onnxport
from onnxport import frameworks
from onnxport.converters.convert_options import ConvertOptions
from onnxport.errors import InvalidInputError
from onnxport.options import OPTIONS, check, check_sides, instead

TARGETS = frameworks.BUILT_IN
KINDS = [kind for framework in frameworks.BUILT_IN for kind in framework.kinds]


def linear() -> onnx.ModelProto:
    weight = onnx.numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "weight")
    x = make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 2])
    y = make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 3])
    nodes = [make.make_node("MatMul", ["x", "weight"], ["h"]), make.make_node("Relu", ["h"], ["y"])]
    graph = make.make_graph(nodes, "g", [x], [y], [weight])
    return make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)


def test_the_types_of_keywords_are_those_of_convert():
    hints = get_type_hints(onnxport.convert.__wrapped__)
    named = [
        name for name, item in inspect.signature(onnxport.convert).parameters.items() if item.kind is item.KEYWORD_ONLY
    ]
    assert get_type_hints(ConvertOptions) == {name: hints[name] for name in named}


@pytest.mark.parametrize("target", TARGETS, ids=lambda item: item.name)
@pytest.mark.parametrize("kind", KINDS, ids=lambda item: item.title)
def test_every_option_is_taken_or_refused_by_name(kind, target):
    for option in OPTIONS:
        if kind.takes(option, target):
            check([option], kind, target)
            continue
        with pytest.raises(InvalidInputError, match=f"^{option}= means nothing for .*: {instead(option, kind)}"):
            check([option], kind, target)


def test_all_options_that_mean_nothing_are_named_at_once():
    with pytest.raises(InvalidInputError) as caught:
        onnxport.convert(linear(), methods=["predict"], signature="s", options={"zipmap": True})
    for name in ("methods=", "signature=", "options="):
        assert name in str(caught.value)


REFUSED = [
    ({"methods": ["predict"]}, "methods= means nothing"),
    ({"signature": "serving_default"}, "signature= means nothing"),
    ({"runtime": "reference"}, "runtime= means nothing"),
    ({"to": "pytorch", "target_opset": 17}, "target_opset= means nothing"),
    ({"to": "pytorch", "output_names": ["y"]}, "output_names= means nothing"),
    ({"to": "keras", "output_names": ["y"]}, "output_names= means nothing"),
    ({"to": "mars"}, "unknown framework 'mars'"),
    ({"to": np.ones(2)}, "unknown framework"),
    ({"target_opset": 12}, "target_opset=12"),
    ({"target_opset": 0}, "target_opset=0"),
    ({"target_opset": 17.0}, "target_opset=17.0"),
    ({"target_opset": True}, "target_opset=True"),
    ({"optimize": "speed"}, "optimize='speed': one of 'none', 'inference'"),
    ({"rtol": -1.0}, "rtol= is -1.0"),
    ({"rtol": float("nan")}, "rtol= is nan"),
    ({"atol": float("inf")}, "atol= is inf"),
    ({"atol": "1e-3"}, "atol= is '1e-3'"),
    ({"rtol": 1e-3, "validate": False}, "rtol= means nothing without a validation"),
    ({"input_names": ["a", "a"]}, "'a' is given twice"),
    ({"input_names": [""]}, r"input_names\[0\] is ''"),
    ({"input_names": [3]}, r"input_names\[0\] is 3"),
    ({"input_names": "x"}, "a list of names"),
    ({"input_names": []}, "input_names is empty"),
    ({"output_names": ["a", ""]}, r"output_names\[1\] is ''"),
    ({"input_names": ["a"], "output_names": ["a"]}, "both hold 'a'"),
    ({"output": "model.txt"}, "'model.txt'.*not '.txt'"),
    ({"output": "model"}, "'model'.*not ''"),
    ({"output": "no/such/folder/model.onnx"}, "no folder 'no/such/folder'"),
    ({"output": "folder.onnx"}, "'folder.onnx' is a folder"),
    ({"to": "keras", "output": "model.onnx"}, "written as .keras, not '.onnx'"),
    ({"to": "pytorch", "output": "model.onnx"}, "written as .pt2, .pt, .pth, .safetensors"),
    ({"to": "tensorflow", "output": "model.onnx"}, "a SavedModel is a folder"),
    ({"to": "tensorflow", "output": "plain"}, "'plain' is a file"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=[str(row[0]) for row in REFUSED])
def test_what_means_nothing_is_refused_before_any_work(given, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder.onnx").mkdir()
    Path("plain").touch()
    monkeypatch.setattr("onnxport.converters.convert.load", None)
    with pytest.raises(InvalidInputError, match=message):
        onnxport.convert(linear(), **given)


SIDES = [
    ({"methods": ["predict"]}, "methods= means nothing for an ONNX model and an ONNX model"),
    ({"signature": "s"}, "signature= means nothing"),
    ({"rtol": -1e-9}, "rtol= is -1e-09"),
    ({"seed": -1}, "seed=-1"),
    ({"seed": 0.5}, "seed=0.5"),
]


@pytest.mark.parametrize(("given", "message"), SIDES, ids=[str(row[0]) for row in SIDES])
def test_a_validation_refuses_likewise(given, message):
    with pytest.raises(InvalidInputError, match=message):
        onnxport.validate(linear(), linear(), **given)


def test_an_option_of_either_side_is_taken():
    onnx, tensorflow, sklearn = (frameworks.get(name).kinds[-1] for name in ("onnx", "tensorflow", "sklearn"))
    check_sides(["methods"], onnx, sklearn)
    check_sides(["signature"], tensorflow, onnx)
    with pytest.raises(InvalidInputError, match="kwargs="):
        check_sides(["kwargs"], sklearn, onnx)


@pytest.mark.parametrize(
    ("path", "framework", "kind"),
    [
        ("a.pt2", "pytorch", "an exported program of PyTorch"),
        ("frozen.pb", "tensorflow", "a frozen graph of TensorFlow"),
        ("folder", "tensorflow", "a TensorFlow model"),
        ("folder/saved_model.pb", "tensorflow", "a TensorFlow model"),
        ("a.onnx", "onnx", "an ONNX model"),
    ],
)
def test_the_kind_of_a_path(path, framework, kind):
    assert frameworks.get(framework).kind_of(path).title == kind


@pytest.mark.parametrize(
    ("keyword", "here"),
    [("opset_version", "target_opset"), ("dynamic_axes", "dynamic_shapes"), ("initial_types", "inputs=")],
)
def test_keywords_of_other_converters_are_explained(keyword, here):
    with pytest.raises(TypeError, match=f"{keyword}.*{here}"):
        onnxport.convert(linear(), **{keyword: None})
    with pytest.raises(TypeError, match="nonsense"):
        onnxport.convert(linear(), nonsense=1)
