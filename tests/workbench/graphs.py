"""Small ONNX files that the tests of the workbench edit."""

import onnx
import pytest

# A dense layer and a constant; its output h has the name of the second model's input.
FIRST = """<ir_version: 8, opset_import: ["": 17]>
dense (float[batch,3] x) => (float[batch,4] h) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}> {
  m = MatMul(x, w) c = Constant<value = float {2.0}>() d = Identity(m) h = Mul(d, c) }"""
# At an older opset, its weight w and value m called as those of the first.
SECOND = """<ir_version: 8, opset_import: ["": 13]>
head (float[N,4] h) => (float[N,2] y) <float[4,2] w = {1,-2,3,4,-5,6,7,8}> {
  m = MatMul(h, w) s = Shape(m) r = Reshape(m, s) y = Relu(r) }"""
# What a simplification leaves out, around one Exp.
NEEDLESS = """<ir_version: 9, opset_import: ["": 18]>
g (float[n,2,3] x) => (float[n,2,3] y) <float[1] two = {2}, float[1] three = {3}> {
  a = Transpose<perm = [0, 1, 2]>(x) b = Cast<to = 1>(a) c = Dropout(b) s = Shape<start = 1>(c) half = Mul(two, three)
  o = Constant<value = int64[1] {-1}>() t = Concat<axis = 0>(o, s) d = Reshape(c, t)
  p = Constant<value = int64[6] {0,0,0,0,0,0}>() e = Pad(d, p)
  f = Exp(e) g1 = Mul(f, half) g2 = Mul(f, half) h = Max(g1, g2) y = Identity(h) unused = Neg(h) }"""


@pytest.fixture
def files(tmp_path):
    """The models as files."""
    for name, text in {"first": FIRST, "second": SECOND, "needless": NEEDLESS}.items():
        onnx.save(onnx.parser.parse_model(text), tmp_path / f"{name}.onnx")
    return tmp_path
