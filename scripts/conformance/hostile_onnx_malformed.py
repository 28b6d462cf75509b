"""What an ONNX graph must not be: cyclic, undefined, with wrong attributes, versions or sparse tensors."""

# ruff: noqa: E501  graphs as text, one a line

from __future__ import annotations

import onnx
from hostile_onnx_text import parsed
from onnx import TensorProto


def malformed() -> dict[str, onnx.ModelProto]:
    """Models by name."""
    texts = {
        "cycle": "g (float[n] x) => (float[n] y) { a = Add(x, y) y = Neg(a) }",
        "itself": "g (float[n] x) => (float[n] y) { y = Neg(y) }",
        "undefined": "g (float[n] x) => (float[n] y) { y = Add(x, nowhere) }",
        "twice": "g (float[n] x) => (float[n] y) { y = Neg(x) y = Abs(x) }",
        "input-again": "g (float[n] x) => (float[n] x) { x = Neg(x) }",
        "output-undefined": "g (float[n] x) => (float[n] z) { y = Neg(x) }",
        "no-nodes": "g (float[n] x) => () { }",
        "unknown": "g (float[n] x) => (float[n] y) { y = Wurst(x) }",
        "domain": "g (float[n] x) => (float[n] y) { y = f.Wurst(x) }",
        "arity": "g (float[n] x) => (float[n] y) { y = Neg(x, x, x) }",
        "no-operands": "g (float[n] x) => (float[n] y) { y = Neg() }",
        "no-perm": "g (float[n, m] x) => (float[m, n] y) { y = Transpose <perm = [0, 0]> (x) }",
        "far-axis": "g (float[n, m] x) => (float[m, n] y) { y = Concat <axis = 99> (x, x) }",
        "no-attribute": "g (float[n] x) => (float[n] y) { y = Concat (x, x) }",
        "attribute-kind": 'g (float[n] x) => (float[n] y) { y = Concat <axis = "zero"> (x, x) }',
        "cast-to": "g (float[n] x) => (float[n] y) { y = Cast <to = 99> (x) }",
        "kernel": "g (float[1, 1, 4, 4] x) => (float[a, b, c, d] y) { y = MaxPool <kernel_shape = [0, -1]> (x) }",
        "strides": "g (float[1, 1, 4, 4] x) => (float[a, b, c, d] y) { y = AveragePool <kernel_shape = [1, 1], strides = [0, 0]> (x) }",
        "group": "g (float[1, 3, 4, 4] x, float[2, 2, 1, 1] w) => (float[a, b, c, d] y) { y = Conv <group = 0> (x, w) }",
        "hidden": "g (float[1, 1, 1] x, float[1, 4, 1] w, float[1, 4, 1] r) => (float[a, b, c, d] y) { y = LSTM <hidden_size = 99> (x, w, r) }",
        "equation": 'g (float[n] x) => (float[n] y) { y = Einsum <equation = "((((->i"> (x) }',
        "branch-outputs": "g (bool c, float[n] x) => (float[n] y) { y = If (c) < then_branch = a () => (float[n] t) { t = Neg(x) }, "
        "else_branch = b () => () { } > }",
        "loop-outputs": "g (float[4] x) => (float[4] y) { m = Constant <value_int = 3> () y = Loop (m, , x) < body = b (int64 i) => (float[4] z) "
        "{ z = Neg(x) } > }",
        "types": "g (string[n] x) => (float[n] y) { y = Neg(x) }",
        "slice": "g (float[n] x) => (float[n] y) { s = Constant <value_ints = [0]> () z = Constant <value_ints = [0]> () y = Slice(x, s, s, s, z) }",
    }
    found = {f"malformed/{name}": parsed(text) for name, text in texts.items()}
    for name, version in {"zero": 0, "negative": -1, "far": 1 << 40, "old": 1, "next": 29}.items():
        model = parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
        model.opset_import[0].version = version
        found[f"malformed/opset-{name}"] = model
        model = parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
        model.ir_version = version
        found[f"malformed/ir-{name}"] = model
    found |= {f"malformed/sparse-{name}": _sparse(*parts) for name, parts in _SPARSE.items()}
    missing = parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    missing.ClearField("opset_import")
    return {**found, "malformed/no-opset": missing}


_SPARSE: dict[str, tuple[list[int], list[int], list[int], list[int]]] = {
    # dims, dims of values, dims of indices, indices
    "negative": ([4], [2], [2], [-1, 2]),
    "beyond": ([4], [2], [2], [1, 99]),
    "unsorted": ([4], [2], [2], [3, 1]),
    "no-dims": ([], [2], [2], [0, 1]),
    "huge": ([1 << 40], [2], [2], [0, 1]),
    "overflow": ([1 << 40, 1 << 40], [2], [2], [0, 1]),
    "rank": ([4, 4], [2], [2, 9], list(range(18))),
    "indices-of-nothing": ([4], [2], [0], []),
    "values-of-nothing": ([4], [0], [2], [0, 1]),
    "no-match": ([4], [3], [2], [0, 1]),
}


def _sparse(dims: list[int], values: list[int], indices: list[int], content: list[int]) -> onnx.ModelProto:
    model = parsed("g (float[n, 4] x) => (float[n, 4] y) { y = Mul(x, w) }")
    sparse = model.graph.sparse_initializer.add(dims=dims)
    sparse.values.CopyFrom(
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=values, float_data=[1.0] * (values[0] if values else 0))
    )
    sparse.indices.CopyFrom(TensorProto(name="i", data_type=TensorProto.INT64, dims=indices, int64_data=content))
    return model
