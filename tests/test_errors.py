"""What errors say."""

import pytest

from onnxport.errors import Unsupported, UnsupportedOperator, first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("\n  no such axis\nsee the trace"), "no such axis"),
        (KeyError(), "KeyError"),
        (
            RuntimeError("Exception encountered when calling Conv2D.call().\n\n\x1b[1mNCHW on a CPU\x1b[0m\n"),
            "NCHW on a CPU",
        ),
        (RuntimeError("Exception encountered when calling Conv2D.call()."), "RuntimeError"),
    ],
)
def test_the_first_line_gives_the_reason(error, line):
    assert first_line(error) == line


@pytest.mark.keras
def test_keras_gives_the_reason_behind_its_own_line():
    keras = pytest.importorskip("keras", reason="Keras is an extra")
    with pytest.raises(ValueError, match="Exception encountered") as caught:
        keras.layers.Dense(2)(keras.Input((3,))) + keras.layers.Reshape((7,))(keras.ops.ones((2, 3)))
    assert not first_line(caught.value).startswith("Exception encountered")


REFUSALS = [
    ([Unsupported("pytorch", "aten::a", "no form")], {"mapping": "add one"}, "  aten::a: no form"),
    (
        [Unsupported("pytorch", "aten::a", "no form"), Unsupported("pytorch", "aten::b")],
        {"mapping": "add one"},
        "add one",
    ),
    ([Unsupported("onnx", "Add", "no form")], {"way_out": "ask for another opset"}, "ask for another opset"),
]


@pytest.mark.parametrize(("operators", "ways", "last"), REFUSALS)
def test_a_mapping_is_asked_for_where_one_is_missing(operators, ways, last):
    assert str(UnsupportedOperator.of(operators, **ways)).splitlines()[-1] == last
