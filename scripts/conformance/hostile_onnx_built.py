"""ONNX files that aim at one thing each: names, places of data, sizes, endless work, depth, and what graphs must not be."""

# ruff: noqa: E501  graphs as text, one a line

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import onnx
from hostile_run import Attack, Places
from onnx import TensorProto, helper, numpy_helper, parser

NASTY = (
    "a\"); open('ran', 'w').write('ran'); (\"",
    "w\n    open('ran', 'w').write('ran')\n    #",
    "x'); __import__('os').system('touch ran'); ('",
    "{__import__('os').system('touch ran')}",
    'say "w"', "it's", "back\\slash", "new\nline", "nul\0", "class", "None", "self", "torch", "a.b", "a..b", ".", "/", "../up", "a/b:0",
    "training", "__class__", "\ufb01", "²", "-1", "%s{0}$x", "\x1b[31mred", "n" * 500,
)  # fmt: skip
_HEAD = '<ir_version: 10, opset_import: ["": 21, "f": 1, "ai.onnx.ml": 5]>'
_ALL = ("pytorch", "tensorflow", "keras", "roundtrip", "inspect", "validate")
_SOME = ("pytorch", "inspect", "validate")
_HUGE = 1 << 34


def built(places: Places) -> Iterator[Attack]:
    """Every construction, each in a folder of its own."""
    for name, proto in {**_names(), **_sizes(), **_work(), **_depth(), **_malformed()}.items():
        path = places.files / "built" / name.replace("/", "-") / "model.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(proto if isinstance(proto, bytes) else proto.SerializePartialToString())
        yield Attack(f"onnx/{name}", path, _ALL if name.startswith(("names", "work")) else (*_SOME, "tensorflow"))
    yield from _places(places)


def _parsed(text: str) -> onnx.ModelProto:
    return parser.parse_model(f"{_HEAD}\n{text}")


# -- names -----------------------------------------------------------------------------------------------------------------


def _names() -> dict[str, onnx.ModelProto]:
    found = {}
    for index, name in enumerate(NASTY):
        found[f"names/weight-{index}"] = _named(name, "x", "y", "n")
        found[f"names/input-{index}"] = _named("w", name, "y", "n")
        found[f"names/output-{index}"] = _named("w", "x", name, name)
        found[f"names/function-{index}"] = _function_named(name)
    return found


def _named(weight: str, given: str, result: str, node: str) -> onnx.ModelProto:
    info = [helper.make_tensor_value_info(given, TensorProto.FLOAT, ["n" if node == "n" else node, 2])]
    outputs = [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)]
    nodes = [helper.make_node("Mul", [given, weight], [result], name=node)]
    weights = [numpy_helper.from_array(np.float32([2, 3]), weight)]
    graph = helper.make_graph(nodes, node, info, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _function_named(name: str) -> onnx.ModelProto:
    model = _parsed(
        'g (float[n] x) => (float[n] y) { y = f.one (x) } <domain: "f", opset_import: ["": 21]> one (v) => (w) { w = Neg(v) }'
    )
    model.functions[0].name = model.graph.node[0].op_type = name
    model.functions[0].domain = model.graph.node[0].domain = name
    model.opset_import.append(helper.make_opsetid(name, 1))
    return model


# -- places of data --------------------------------------------------------------------------------------------------------


def _places(places: Places) -> Iterator[Attack]:
    """Data that lies, or is said to lie, somewhere it must not be read from; and data that must be read."""
    secret = places.secret / "data.bin"
    locations = {
        "absolute": str(secret),
        "up": "../../../secret/data.bin",
        "dots": "x/../../../../secret/data.bin",
        "link": "link.bin",
        "linked-folder": "folder/data.bin",
        "pipe": "pipe",
        "device": "/dev/zero",
        "self": "model.onnx",
        "folder": ".",
        "empty": "",
        "nul": "a\0b",
        "long": "n" * 5000,
        "missing": "nothing.bin",
        "right": "data.bin",
    }
    ranges = {
        "negative": {"offset": "-8", "length": "16"},
        "huge": {"offset": "0", "length": str(1 << 40)},
        "overflow": {"offset": str((1 << 63) - 1), "length": "16"},
        "beyond": {"offset": "4096", "length": "16"},
        "short": {"offset": "0", "length": "4"},
        "words": {"offset": "many", "length": "0x10"},
        "digits": {"offset": "0", "length": "9" * 5000},
    }
    for owner in ("initializer", "constant", "function", "branch", "sparse"):
        for name, location in locations.items():
            yield _with_data(places, f"{owner}-{name}", owner, {"location": location, "offset": "0", "length": "16"})
        for name, span in ranges.items():
            yield _with_data(places, f"{owner}-{name}", owner, {"location": "data.bin", **span})


def _with_data(places: Places, name: str, owner: str, entries: dict[str, str]) -> Attack:
    folder = places.files / "built" / "data" / name
    folder.mkdir(parents=True)
    (folder / "data.bin").write_bytes(np.float32([1, 2, 3, 4]).tobytes() + bytes(112))
    (folder / "link.bin").symlink_to(places.secret / "data.bin")
    (folder / "folder").symlink_to(places.secret)
    os.mkfifo(folder / "pipe")
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    model = _parsed("g (float[n, 4] x, bool c) => (float[n, 4] y) { y = Mul(x, w) }")
    match owner:
        case "initializer":
            model.graph.initializer.append(tensor)
        case "constant":
            model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
        case "function":
            body = [helper.make_node("Constant", [], ["w"], value=tensor), helper.make_node("Mul", ["v", "w"], ["r"])]
            function = helper.make_function("f", "scaled", ["v"], ["r"], body, [helper.make_opsetid("", 21)])
            model.functions.append(function)
            model.graph.node[0].CopyFrom(helper.make_node("scaled", ["x"], ["y"], domain="f"))
        case "branch":
            graphs = {
                key: helper.make_graph(
                    [helper.make_node("Mul", ["x", "w"], [key])],
                    key,
                    [],
                    [helper.make_tensor_value_info(key, TensorProto.FLOAT, None)],
                    [tensor],
                )
                for key in ("then_branch", "else_branch")
            }
            model.graph.node[0].CopyFrom(helper.make_node("If", ["c"], ["y"], **graphs))
        case "sparse":
            sparse = onnx.SparseTensorProto(dims=[4])
            sparse.values.CopyFrom(tensor)
            sparse.indices.CopyFrom(numpy_helper.from_array(np.arange(4), "indices"))
            model.graph.sparse_initializer.append(sparse)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return Attack(f"onnx/data/{name}", path, _SOME)


# -- sizes -----------------------------------------------------------------------------------------------------------------


def _sizes() -> dict[str, onnx.ModelProto | bytes]:
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
    found: dict[str, onnx.ModelProto | bytes] = {f"sizes/{name}": _parsed(text) for name, text in texts.items()}
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
    model = _parsed("g (float[n, 4] x) => (float[n, 4] y) { i = Identity(w) y = Neg(x) }")
    model.graph.initializer.append(tensor)
    model.graph.output.append(onnx.ValueInfoProto(name="i"))
    return model


def _doubling(op: str, given: str, **attributes: int) -> onnx.ModelProto:
    model = _parsed(f"g ({given}) => ({given.replace('[1] x', '[k] y40')}) {{ y40 = Identity(x) }}")
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


# -- endless work ----------------------------------------------------------------------------------------------------------


def _work() -> dict[str, onnx.ModelProto]:
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
    models = {f"work/{name}": _parsed(text) for name, text in found.items()}
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
    model = _parsed("g (string[n] x) => (bool[n] y) { y = RegexFullMatch(x) z = Identity(y) }")
    node = helper.make_node("RegexFullMatch", ["t"], ["y"], pattern=pattern)
    first = helper.make_node("Constant", [], ["c"], value_strings=[text])
    second = helper.make_node("StringConcat", ["x", "c"] if kind == "input" else ["c", "c"], ["t"])
    del model.graph.node[:]
    model.graph.node.extend([first, second, node])
    return model


def _functions(kind: str) -> onnx.ModelProto:
    model = _parsed("g (float[n] x) => (float[n] y) { y = f.f0 (x) }")
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
    model = _parsed("g (float[n, 2] x) => (float[n, 1] y) { y = Identity(x) }")
    model.graph.node[0].CopyFrom(node)
    return model


# -- depth and length ------------------------------------------------------------------------------------------------------


def _depth() -> dict[str, onnx.ModelProto | bytes]:
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
    model = _parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
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
    head = _parsed("g (float[n] x, bool c) => (float[n] r0) { r0 = Neg(x) }")
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
    head = _parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    data = head.graph.SerializeToString() + _field(11, _field(1, b"z") + _field(2, kind))
    head.ClearField("graph")
    return head.SerializePartialToString() + _field(7, data)


def _many(kind: str, count: int) -> onnx.ModelProto:
    model = _parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    for i in range(count):
        if kind == "output":
            model.graph.node.append(helper.make_node("Neg", ["x"], [f"o{i}"]))
            model.graph.output.append(onnx.ValueInfoProto(name=f"o{i}"))
        else:
            model.graph.input.append(helper.make_tensor_value_info(f"i{i}", 1, [1]))
    return model


# -- what a graph must not be ----------------------------------------------------------------------------------------------


def _malformed() -> dict[str, onnx.ModelProto]:
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
    found = {f"malformed/{name}": parser.parse_model(f"{_HEAD}\n{text}") for name, text in texts.items()}
    for name, version in {"zero": 0, "negative": -1, "far": 1 << 40, "old": 1, "next": 29}.items():
        model = _parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
        model.opset_import[0].version = version
        found[f"malformed/opset-{name}"] = model
        model = _parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
        model.ir_version = version
        found[f"malformed/ir-{name}"] = model
    found |= {f"malformed/sparse-{name}": _sparse(*parts) for name, parts in _SPARSE.items()}
    missing = _parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
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
    model = _parsed("g (float[n, 4] x) => (float[n, 4] y) { y = Mul(x, w) }")
    sparse = model.graph.sparse_initializer.add(dims=dims)
    sparse.values.CopyFrom(
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=values, float_data=[1.0] * (values[0] if values else 0))
    )
    sparse.indices.CopyFrom(TensorProto(name="i", data_type=TensorProto.INT64, dims=indices, int64_data=content))
    return model
