"""ONNX graphs of a few bytes that ask for more memory than any machine has."""

# ruff: noqa: E501  graphs as text, one a line

from __future__ import annotations

import onnx
from hostile_onnx_text import parsed
from onnx import TensorProto, helper

_HUGE = 1 << 34


def sizes() -> dict[str, onnx.ModelProto | bytes]:
    """Models by name: a size in a constant, an attribute, a declared shape or an input."""
    big, one = _HUGE, "o = Constant <value_ints = [1]> ()"
    texts = {
        "constant-of-shape": f"g () => (float[k] y) {{ s = Constant <value_ints = [{big}]> () y = ConstantOfShape(s) }}",
        "tile": f"g () => (int64[k] y) {{ {one} s = Constant <value_ints = [{big}]> () y = Tile(o, s) }}",
        "expand": f"g () => (int64[k] y) {{ {one} s = Constant <value_ints = [{big}]> () y = Expand(o, s) }}",
        "range": f"g () => (int64[k] y) {{ a = Constant <value_int = 0> () b = Constant <value_int = {big}> () "
        "d = Constant <value_int = 1> () y = Range(a, b, d) }",
        "pad": f"g () => (int64[k] y) {{ {one} s = Constant <value_ints = [0, {big}]> () y = Pad(o, s) }}",
        "one-hot": f"g () => (int64[m, k] y) {{ {one} d = Constant <value_int = {big}> () v = Constant <value_ints = [0, 1]> () "
        "y = OneHot(o, d, v) }",
        "resize": f"g (float[1, 1, 2, 2] x) => (float[a, b, c, d] y) {{ s = Constant <value_ints = [1, 1, {1 << 17}, {1 << 17}]> () "
        "y = Resize(x, , , s) }",
        "tile-input": f"g (float[n] x) => (float[m] y) {{ s = Constant <value_ints = [{big}]> () y = Tile(x, s) }}",
        "tile-2-30": f"g (float[n] x) => (float[m] y) {{ s = Constant <value_ints = [{1 << 30}]> () y = Tile(x, s) }}",
        "expand-input": f"g (float[1] x) => (float[m] y) {{ s = Constant <value_ints = [{big}]> () y = Expand(x, s) }}",
        **{
            f"output-{size}": f"g (float[1] x) => (float[m] y) {{ s = Constant <value_ints = [{size}]> () y = Expand(x, s) }}"
            for size in (2_000_000, 5_500_000, 10_000_000, 40_000_000)
        },
        "pad-input": f"g (float[n] x) => (float[m] y) {{ s = Constant <value_ints = [{big}, 0]> () y = Pad(x, s) }}",
        "outer": "g (float[65536, 1] x) => (float[65536, 65536] y) { t = Transpose(x) y = Mul(x, t) }",
        "outer-sums": "g (float[65536, 1] x) => (float y) { t = Transpose(x) m = MatMul(x, t) y = ReduceSum <keepdims = 0> (m) }",
        "input": f"g (float[{big}] x) => (float[{big}] y) {{ y = Neg(x) }}",
        "inputs": f"g (float[{1 << 20}, {1 << 20}] x) => (float y) {{ y = ReduceSum <keepdims = 0> (x) }}",
        "random": f"g () => (float[{big}] y) {{ y = RandomNormal <shape = [{big}]> () }}",
        "window": f"g () => (float[k] y) {{ s = Constant <value_int = {big}> () y = HannWindow(s) }}",
        "mel": "g () => (float[a, b] y) { b = Constant <value_int = 65536> () d = Constant <value_int = 200000> () "
        "r = Constant <value_int = 8000> () l = Constant <value_float = 0.0> () h = Constant <value_float = 4000.0> () "
        "y = MelWeightMatrix(b, d, r, l, h) }",
        "eye": f"g (float[{1 << 17}, {1 << 17}] x) => (float[a, b] y) {{ y = EyeLike(x) }}",
        "eye-shape": f"g () => (float[a, b] y) {{ s = Constant <value_ints = [{1 << 17}, {1 << 17}]> () z = ConstantOfShape(s) y = EyeLike(z) }}",
        "dft": f"g (float[1, 4, 1] x) => (float[a, b, c] y) {{ l = Constant <value_int = {big}> () y = DFT(x, l) }}",
        "conv-pads": f"g (float[1, 1, 2, 2] x) => (float[a, b, c, d] y) {{ y = MaxPool <kernel_shape = [1, 1], pads = [{1 << 17}, {1 << 17}, "
        f"{1 << 17}, {1 << 17}]> (x) }}",
        "roi": "g (float[1, 1, 4, 4] x, float[1, 4] r, int64[1] b) => (float[a, b, c, d] y) { "
        "y = RoiAlign <output_height = 100000, output_width = 100000> (x, r, b) }",
        "roi-samples": "g (float[1, 1, 4, 4] x, float[1, 4] r, int64[1] b) => (float[a, b, c, d] y) { "
        "y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 1000000> (x, r, b) }",
        "split": "g (float[4] x) => (float[1] y) { s = SplitToSequence(x) i = Constant <value_int = 99999999999> () y = SequenceAt(s, i) }",
        "col2im": f"g (float[1, 4, 4] x) => (float[a, b, c, d] y) {{ s = Constant <value_ints = [{1 << 17}, {1 << 17}]> () "
        "k = Constant <value_ints = [2, 2]> () y = Col2Im(x, s, k) }",
        "unpool": f"g (float[1, 1, 1, 1] x, int64[1, 1, 1, 1] i) => (float[a, b, c, d] y) {{ "
        f"s = Constant <value_ints = [1, 1, {1 << 17}, {1 << 17}]> () y = MaxUnpool <kernel_shape = [1, 1]> (x, i, s) }}",
        "multinomial": f"g (float[1, 4] x) => (int32[a, b] y) {{ y = Multinomial <sample_size = {1 << 30}> (x) }}",
        "einsum": 'g (float[4096] x) => (float[a, b, c] y) { y = Einsum <equation = "a,b,c->abc"> (x, x, x) }',
        "shape-by-input": f"g (int64[1] x) => (float[k] y) {{ s = Constant <value_ints = [{big}]> () t = Max(x, s) y = ConstantOfShape(t) }}",
        "range-by-input": f"g (int64 x) => (int64[k] y) {{ z = Constant <value_int = 0> () o = Constant <value_int = 1> () "
        f"b = Constant <value_int = {big}> () m = Max(x, b) y = Range(z, m, o) }}",
        "scan-output": f"g (float[4] x) => (float[k, 4] y) {{ m = Constant <value_int = {1 << 40}> () t = Constant <value = bool {{1}}> () "
        "v, y = Loop (m, t, x) < body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w, float[4] s) { "
        "d = Identity(c) w = Identity(v) s = Identity(v) } > }",
    }
    found: dict[str, onnx.ModelProto | bytes] = {f"sizes/{name}": parsed(text) for name, text in texts.items()}
    found["sizes/concat-doubling"] = _doubling("Concat", "float[1] x", axis=0)
    found["sizes/add-doubling"] = _doubling("StringConcat", "string[1] x")
    found["sizes/folded-doubling"] = _folded_doubling()
    for name, dims in {
        "huge": [_HUGE],
        "overflow": [1 << 40, 1 << 40],
        "negative": [-4],
        "zero": [0, 1 << 62],
        "many": [1] * 5000,
    }.items():
        for dtype in (TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.INT4):
            tensor = TensorProto(name="w", data_type=dtype, dims=dims)
            found[f"sizes/dims-{name}-{dtype}"] = _with_weight(tensor)
            raw = TensorProto(name="w", data_type=dtype, dims=dims, raw_data=b"\0" * 16)
            found[f"sizes/raw-{name}-{dtype}"] = _with_weight(raw)
    return found


def _with_weight(tensor: TensorProto) -> onnx.ModelProto:
    model = parsed("g (float[n, 4] x) => (float[n, 4] y) { i = Identity(w) y = Neg(x) }")
    model.graph.initializer.append(tensor)
    model.graph.output.append(onnx.ValueInfoProto(name="i"))
    return model


def _doubling(op: str, given: str, **attributes: int) -> onnx.ModelProto:
    model = parsed(f"g ({given}) => ({given.replace('[1] x', '[k] y40')}) {{ y40 = Identity(x) }}")
    del model.graph.node[:]
    for i in range(40):
        before = "x" if i == 0 else f"y{i}"
        model.graph.node.append(helper.make_node(op, [before, before], [f"y{i + 1}"], **attributes))
    return model


def _folded_doubling() -> onnx.ModelProto:
    model = _doubling("Concat", "int64[1] x", axis=0)
    model.graph.node.insert(0, helper.make_node("Constant", [], ["c"], value_ints=[1]))
    model.graph.node[1].input[:] = ["c", "c"]
    return model
