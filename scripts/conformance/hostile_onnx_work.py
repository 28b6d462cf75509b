"""ONNX graphs that never end, or are deeper or longer than a reader that recurses can bear."""

# ruff: noqa: E501  graphs as text, one a line

from __future__ import annotations

import numpy as np
import onnx
from hostile_onnx_text import parsed
from onnx import helper, numpy_helper


def work() -> dict[str, onnx.ModelProto]:
    """Models by name: loops, patterns, functions and trees without an end."""
    body = "(int64 i, bool c, float[4] v) => (bool d, float[4] w) { d = Identity(c) w = Sin(v) }"
    found = {
        "loop": f"g (float[4] x) => (float[4] y) {{ m = Constant <value_int = {1 << 60}> () t = Constant <value = bool {{1}}> () "
        f"y = Loop (m, t, x) < body = b {body} > }}",
        "while": f"g (float[4] x) => (float[4] y) {{ t = Constant <value = bool {{1}}> () y = Loop (, t, x) < body = b {body} > }}",
        "loop-by-input": f"g (float[4] x, int64 m) => (float[4] y) {{ s = Constant <value_int = {1 << 50}> () k = Max(m, s) "
        f"y = Loop (k, , x) < body = b {body} > }}",
        "loop-on-constants": f"g () => (float[4] y) {{ x = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> () m = Constant <value_int = {1 << 60}> () "
        f"t = Constant <value = bool {{1}}> () y = Loop (m, t, x) < body = b {body} > }}",
        "loop-growing": "g (float[1] x) => (float[k] y) { m = Constant <value_int = 60> () t = Constant <value = bool {1}> () "
        "y = Loop (m, t, x) < body = b (int64 i, bool c, float[p] v) => (bool d, float[q] w) { d = Identity(c) w = Concat <axis = 0> (v, v) } > }",
        "scan": "g (float[1000000, 1] x) => (float[1] s, float[1000000, 1] y) { z = Constant <value_floats = [0.0]> () "
        "s, y = Scan (z, x) < num_scan_inputs = 1, body = b (float[1] a, float[1] e) => (float[1] p, float[1] q) { p = Add(a, e) q = Sin(p) } > }",
        "products": "g (float[2048, 2048] x) => (float[2048, 2048] y) { y = MatMul(x, x) }",
        "labels": 'g (string[1] x) => (string[1] y) { y = StringNormalizer <case_change_action = "LOWER"> (x) }',
    }
    models = {f"work/{name}": parsed(text) for name, text in found.items()}
    products = models["work/products"]
    del products.graph.node[:]
    for i in range(3000):
        products.graph.node.append(
            helper.make_node("MatMul", ["x" if i == 0 else f"p{i}", "x"], [f"p{i + 1}" if i < 2999 else "y"])
        )
    patterns = (
        "(a|a)*b",
        "(a*)*b",
        "(a+)+b",
        "((a|aa)+)+$",
        "(x+x+)+y",
        "((((a{1,30}){1,30}){1,30}){1,30}){1,30}b",
        "(a?){60}a{60}",
        "(.*)(.*)(.*)(.*)(.*)(.*)z",
        "(?:a|a|a|a)*c",
        "[",
        "(",
        "a{1000000000}",
        "\\",
    )
    for index, pattern in enumerate(patterns):
        for kind in ("constant", "input"):
            models[f"work/pattern-{kind}-{index}"] = _pattern(pattern, kind)
    for kind in ("doubling", "recursion", "mutual", "recursion-in-a-branch", "wide"):
        models[f"work/function-{kind}"] = _functions(kind)
    models["work/tree-cycle"] = _tree()
    return models


def _pattern(pattern: str, kind: str) -> onnx.ModelProto:
    text = ("a" * 60).encode()
    model = parsed("g (string[n] x) => (bool[n] y) { y = RegexFullMatch(x) z = Identity(y) }")
    node = helper.make_node("RegexFullMatch", ["t"], ["y"], pattern=pattern)
    first = helper.make_node("Constant", [], ["c"], value_strings=[text])
    second = helper.make_node("StringConcat", ["x", "c"] if kind == "input" else ["c", "c"], ["t"])
    del model.graph.node[:]
    model.graph.node.extend([first, second, node])
    return model


def _functions(kind: str) -> onnx.ModelProto:
    model = parsed("g (float[n] x) => (float[n] y) { y = f.f0 (x) }")
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]

    def add(name: str, nodes: list[onnx.NodeProto]) -> None:
        model.functions.append(helper.make_function("f", name, ["v"], ["r"], nodes, opsets))

    def call(name: str, given: str, result: str) -> onnx.NodeProto:
        return helper.make_node(name, [given], [result], domain="f")

    match kind:
        case "doubling":
            for i in range(50):
                add(f"f{i}", [call(f"f{i + 1}", "v", "h"), call(f"f{i + 1}", "h", "r")])
            add("f50", [helper.make_node("Neg", ["v"], ["r"])])
        case "recursion":
            add("f0", [call("f0", "v", "r")])
        case "mutual":
            add("f0", [call("f1", "v", "r")])
            add("f1", [call("f0", "v", "r")])
        case "recursion-in-a-branch":
            branch = helper.make_graph([call("f0", "v", "b")], "b", [], [helper.make_tensor_value_info("b", 1, None)])
            condition = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
            add("f0", [condition, helper.make_node("If", ["c"], ["r"], then_branch=branch, else_branch=branch)])
        case "wide":
            add("f0", [call("f1", "v" if i == 0 else f"h{i}", "r" if i == 999 else f"h{i + 1}") for i in range(1000)])
            add(
                "f1",
                [
                    helper.make_node("Neg", ["v" if i == 0 else f"h{i}"], ["r" if i == 999 else f"h{i + 1}"])
                    for i in range(1000)
                ],
            )
    return model


def _tree() -> onnx.ModelProto:
    """A tree whose nodes lead back to its root."""
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_values=[0.5, 0.25, 0.0],
        nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ", "BRANCH_LEQ"],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 2, 1],
        target_treeids=[0],
        target_nodeids=[2],
        target_ids=[0],
        target_weights=[1.0],
    )
    model = parsed("g (float[n, 2] x) => (float[n, 1] y) { y = Identity(x) }")
    model.graph.node[0].CopyFrom(node)
    return model


def depth() -> dict[str, onnx.ModelProto | bytes]:
    """Files by name: long chains, graphs and types deep in each other, what is no model at all."""
    found: dict[str, onnx.ModelProto | bytes] = {}
    for op in ("Relu", "Identity", "Neg", "Sigmoid"):
        found[f"depth/chain-{op}"] = _chain(op, 20000)
    found["depth/chain-Add"] = _chain("Add", 20000)
    found["depth/chain-Constant"] = _chain("Constant", 20000)
    for depth in (20, 90, 400, 3000):
        found[f"depth/branches-{depth}"] = _nested(depth)
    found["depth/types"] = _deep_type(2000)
    found["depth/many-outputs"] = _many("output", 5000)
    found["depth/many-inputs"] = _many("input", 2000)
    found["depth/bytes"] = b"\x3a\x80\x80\x80\x80\x01" * 2000
    found["depth/nothing"] = b""
    found["depth/text"] = b"<html>404</html>"
    found["depth/zeros"] = bytes(100000)
    return found


def _chain(op: str, length: int) -> onnx.ModelProto:
    model = parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    del model.graph.node[:]
    names = ["x", *(f"v{i}" for i in range(length - 1)), "y"]
    for i in range(length):
        if op == "Constant":
            model.graph.node.append(helper.make_node("Constant", [], [f"c{i}"], value_floats=[float(i)]))
            model.graph.node.append(helper.make_node("Add", [names[i], f"c{i}"], [names[i + 1]]))
        else:
            model.graph.node.append(helper.make_node(op, [names[i]] * (2 if op == "Add" else 1), [names[i + 1]]))
    return model


def _nested(depth: int) -> onnx.ModelProto | bytes:
    """If in If in If."""
    inner = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["r0"])], "b", [], [helper.make_tensor_value_info("r0", 1, None)]
    )
    data = inner.SerializeToString()
    leaf = inner.SerializeToString()
    for i in range(1, depth):
        # written by hand: protobuf's own writer is recursive
        attributes = b"".join(
            _field(5, _field(1, name) + _field(6, graph) + b"\xa0\x01\x05")
            for name, graph in ((b"then_branch", data), (b"else_branch", leaf))
        )
        node = _field(1, b"c") + _field(2, b"r%d" % i) + _field(4, b"If") + attributes
        data = _field(1, node) + _field(2, b"b") + _field(12, _field(1, b"r%d" % i))
    head = parsed("g (float[n] x, bool c) => (float[n] r0) { r0 = Neg(x) }")
    shape = b"".join(_field(11, item.SerializeToString()) for item in head.graph.input)
    head.ClearField("graph")
    return head.SerializePartialToString() + _field(7, data + shape)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _deep_type(depth: int) -> bytes:
    kind = helper.make_tensor_type_proto(1, [1]).SerializeToString()
    for _ in range(depth):
        kind = _field(4, _field(1, kind))
    head = parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    data = head.graph.SerializeToString() + _field(11, _field(1, b"z") + _field(2, kind))
    head.ClearField("graph")
    return head.SerializePartialToString() + _field(7, data)


def _many(kind: str, count: int) -> onnx.ModelProto:
    model = parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    for i in range(count):
        if kind == "output":
            model.graph.node.append(helper.make_node("Neg", ["x"], [f"o{i}"]))
            model.graph.output.append(onnx.ValueInfoProto(name=f"o{i}"))
        else:
            model.graph.input.append(helper.make_tensor_value_info(f"i{i}", 1, [1]))
    return model
