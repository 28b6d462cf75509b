"""What a body of a loop or branch holds is refused by its own name."""

import onnx
import pytest

import onnxport
from onnxport.errors import UnsupportedOperator

LOOP = """<ir_version: 8, opset_import: ["": 17, "my.own": 1]> g (float[N, 4] x, int64 n) => (float[T, N, 4] y)
    {t = Constant <value = bool {1}> ()
     y = Loop (n, t) <body = b (int64 i, bool c) => (bool d, float[N, 4] k) {d = Identity (c) k = my.own.Nothing (x)}>}"""


@pytest.mark.parametrize(
    "framework",
    [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("pytorch", "tensorflow", "keras")],
)
def test_an_operator_in_a_loop_is_refused_by_name(framework):
    with pytest.raises(UnsupportedOperator) as caught:
        onnxport.convert(onnx.parser.parse_model(LOOP), to=framework, validate=False)
    assert "my.own::Nothing" in [item.op for item in caught.value.operators]
