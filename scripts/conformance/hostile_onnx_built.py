"""ONNX files that aim at one thing each: names and places of data here; sizes, work and malformed graphs in files of their own."""

# ruff: noqa: E501  graphs as text, one a line

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import onnx
from hostile_onnx_malformed import malformed
from hostile_onnx_sizes import sizes
from hostile_onnx_text import parsed
from hostile_onnx_work import depth, work
from hostile_run import Attack, Places
from onnx import TensorProto, helper, numpy_helper

NASTY = (
    "a\"); open('ran', 'w').write('ran'); (\"",
    "w\n    open('ran', 'w').write('ran')\n    #",
    "x'); __import__('os').system('touch ran'); ('",
    "{__import__('os').system('touch ran')}",
    'say "w"', "it's", "back\\slash", "new\nline", "nul\0", "class", "None", "self", "torch", "a.b", "a..b", ".", "/", "../up", "a/b:0",
    "training", "__class__", "\ufb01", "²", "-1", "%s{0}$x", "\x1b[31mred", "n" * 500,
)  # fmt: skip
_ALL = ("pytorch", "tensorflow", "keras", "roundtrip", "inspect", "validate")
_SOME = ("pytorch", "inspect", "validate")


def built(places: Places) -> Iterator[Attack]:
    """Every construction, each in a folder of its own."""
    for name, proto in {**_names(), **sizes(), **work(), **depth(), **malformed()}.items():
        path = places.files / "built" / name.replace("/", "-") / "model.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(proto if isinstance(proto, bytes) else proto.SerializePartialToString())
        yield Attack(f"onnx/{name}", path, _ALL if name.startswith(("names", "work")) else (*_SOME, "tensorflow"))
    yield from _places(places)


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
    model = parsed(
        'g (float[n] x) => (float[n] y) { y = f.one (x) } <domain: "f", opset_import: ["": 21]> one (v) => (w) { w = Neg(v) }'
    )
    model.functions[0].name = model.graph.node[0].op_type = name
    model.functions[0].domain = model.graph.node[0].domain = name
    model.opset_import.append(helper.make_opsetid(name, 1))
    return model


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
    model = parsed("g (float[n, 4] x, bool c) => (float[n, 4] y) { y = Mul(x, w) }")
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
