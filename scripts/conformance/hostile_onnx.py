"""Damaged ONNX files: bytes, cuts and fields of valid models; what aims at one thing each stands in `hostile_onnx_built.py`.

The valid models are ONNX's own node tests and a few small nets, with weights, subgraphs and functions.
"""

# ruff: noqa: E501  graphs as text

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hostile_onnx_built import NASTY, built
from hostile_run import Attack, Places
from onnx import numpy_helper, parser

# What is tried on the files of one kind, in turn: mostly PyTorch, the others sampled.
TURNS = (("pytorch",),) * 5 + (
    ("pytorch", "inspect"),
    ("pytorch", "validate"),
    ("tensorflow",),
    ("keras",),
    ("roundtrip",),
)
_NETS = (
    """g (float[n, 3, 8, 8] x) => (float[n, 5] y) <float[4, 3, 3, 3] conv.w, float[4] conv.b, float[4, 5] fc.w, float[5] fc.b> {
        c = Conv <pads=[1, 1, 1, 1]> (x, conv.w, conv.b) r = Relu(c) p = GlobalAveragePool(r) f = Flatten(p)
        y = Gemm(f, fc.w, fc.b) }""",
    """g (int64[n, t] ids) => (float[n, t, 4] y) <float[9, 4] table, float[4] scale, float[4] bias> {
        e = Gather(table, ids) y = LayerNormalization <axis=-1> (e, scale, bias) }""",
    """g (float[n, 4] x, bool c) => (float[n, 4] y) <float[4] w> {
        y = If (c) < then_branch = a () => (float[n, 4] t) { t = Mul(x, w) }, else_branch = b () => (float[n, 4] e) { e = Add(x, w) } > }""",
    """g (float[4] x) => (float[4] y, float[k, 4] ys) {
        m = Constant <value_int = 3> () t = Constant <value = bool {1}> ()
        y, ys = Loop (m, t, x) < body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w, float[4] s) {
            d = Identity(c) w = Add(v, v) s = Identity(w) } > }""",
    """g (float[n, 6] x) => (float[n, 3, 2] y, int64[2] s) {
        shape = Shape(x) zero = Constant <value_ints = [0]> () first = Gather(shape, zero) rest = Constant <value_ints = [3, 2]> ()
        to = Concat <axis = 0> (first, rest) y = Reshape(x, to) s = Slice(shape, zero, rest) }""",
    """g (float[t, n, 3] x) => (float[t, 1, n, 2] y) <float[1, 8, 3] w, float[1, 8, 2] r, float[1, 16] b> {
        y, h, c = LSTM <hidden_size = 2> (x, w, r, b) }""",
)
_FUNCTION = """<ir_version: 10, opset_import: ["": 21, "f": 1]> g (float[n, 4] x) => (float[n, 4] y) { y = f.twice <k = 2> (x) }
<domain: "f", opset_import: ["": 21]> twice <k> (v) => (w) { c = Constant <value_int: int = @k> () f = CastLike(c, v) w = Mul(v, f) }"""


def attacks(places: Places, count: int, seed: int) -> Iterator[Attack]:
    """The constructions, then `count` damaged files."""
    yield from built(places)
    models = valid_models()
    kinds: Sequence[tuple[str, Callable[[onnx.ModelProto, random.Random], bytes]]] = (
        ("bytes", flipped),
        ("cut", cut),
        ("field", mutated),
        ("field", mutated),
        ("graph", rewired),
        ("graph", rewired),
        ("names", renamed),
    )
    for index in range(count):
        rng = random.Random(f"{seed}/{index}")
        kind, damage = kinds[index % len(kinds)]
        model = onnx.ModelProto.FromString(models[rng.randrange(len(models))])
        path = places.files / f"{index % 500:03d}" / "model.onnx"  # folders are used again
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(damage(model, rng))
        yield Attack(f"onnx/{kind}/{index:05d}", path, TURNS[(index // len(kinds)) % len(TURNS)])


def valid_models(most: int = 1 << 14) -> list[bytes]:
    """Serialised models, small ones."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        tests = load_model_tests(kind="node")
    found = [test.model.SerializeToString() for test in tests if test.model is not None]
    nets = [item.SerializeToString() for item in small_nets()]
    return nets * 40 + [item for item in found if len(item) < most]


def small_nets() -> list[onnx.ModelProto]:
    """Nets with weights, subgraphs and a function."""
    rng = np.random.default_rng(0)
    models = []
    for text in _NETS:
        model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {_without_weights(text)}')
        for name, shape in _weights(text):
            model.graph.initializer.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name))
        for node in model.graph.node:
            node.input[:] = [name.replace("__", ".") for name in node.input]
        models.append(model)
    return [*models, parser.parse_model(_FUNCTION)]


def _weights(text: str) -> list[tuple[str, tuple[int, ...]]]:
    import re

    found = re.search(r"=> \([^<{]*\) <([^>]*)> \{", text)
    items = re.findall(r"float\[([\d, ]+)\] ([\w.]+)", found[1]) if found else []
    return [(name, tuple(int(n) for n in dims.split(","))) for dims, name in items]


def _without_weights(text: str) -> str:
    import re

    plain = re.sub(r"(=> \([^<{]*\)) <[^>]*> \{", r"\1 {", text, count=1) if _weights(text) else text
    return re.sub(r"\b(conv|fc)\.(\w)", r"\1__\2", plain)


# -- damage ----------------------------------------------------------------------------------------------------------------


def flipped(model: onnx.ModelProto, rng: random.Random) -> bytes:
    """A few bytes of the file are others."""
    data = bytearray(model.SerializeToString())
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def cut(model: onnx.ModelProto, rng: random.Random) -> bytes:
    """The file ends early, or a piece of it is missing or comes twice."""
    data = model.SerializeToString()
    first, second = sorted(rng.randrange(len(data)) for _ in range(2))
    return rng.choice((data[:first], data[:first] + data[second:], data[:second] + data[first:]))


_NUMBERS = (0, 1, -1, 2, 3, 7, 127, 1 << 20, 1 << 31, -(1 << 31), (1 << 34), (1 << 62), -(1 << 63), (1 << 63) - 1)
_FLOATS = (0.0, -1.0, 1e30, float("inf"), float("nan"), 1e-30)


def mutated(model: onnx.ModelProto, rng: random.Random) -> bytes:
    """One to three fields, anywhere in the message, are dropped, repeated or hold another value of their type."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        messages = list(_messages(model))
        _change(rng.choice(messages), rng)
    return model.SerializePartialToString()


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for descriptor, value in message.ListFields():
        if descriptor.type != FieldDescriptor.TYPE_MESSAGE:
            continue
        for item in value if _repeated(descriptor) else (value,):
            yield from _messages(item)


def _repeated(descriptor: Any) -> bool:
    return bool(descriptor.is_repeated)


def _change(message: Message, rng: random.Random) -> None:
    fields = message.ListFields()
    if not fields or rng.random() < 0.2:
        fields = [(item, getattr(message, item.name)) for item in message.DESCRIPTOR.fields]
    descriptor, value = rng.choice(fields)
    name = descriptor.name
    if _repeated(descriptor):
        _change_list(message, descriptor, value, rng)
    elif descriptor.type == FieldDescriptor.TYPE_MESSAGE or rng.random() < 0.2:
        message.ClearField(name)
    else:
        setattr(message, name, _scalar(descriptor, value, rng))


def _change_list(message: Message, descriptor: Any, value: Any, rng: random.Random) -> None:
    choice = rng.randrange(4)
    if descriptor.type == FieldDescriptor.TYPE_MESSAGE:
        items = list(value)
        if choice == 0 and items:
            del value[rng.randrange(len(items))]
        elif choice == 1 and items:
            value.add().CopyFrom(rng.choice(items))
        elif choice == 2 and items:
            rng.shuffle(items)
            message.ClearField(descriptor.name)
            getattr(message, descriptor.name).extend(items)
        else:
            value.add()
        return
    items = list(value)
    if choice == 0 and items:
        del items[rng.randrange(len(items))]
    elif choice == 1 and items:
        items[rng.randrange(len(items))] = _scalar(descriptor, items[0], rng)
    else:
        items.append(_scalar(descriptor, items[0] if items else None, rng))
    del value[:]
    value.extend(items)


def _scalar(descriptor: Any, value: Any, rng: random.Random) -> Any:
    match descriptor.type:
        case FieldDescriptor.TYPE_STRING:
            return rng.choice(["", "x", "é", *NASTY, (value or "") + "_"])
        case FieldDescriptor.TYPE_BYTES:
            data = bytes(value or b"")
            return rng.choice([b"", data[:-1], data + b"\0", b"\xff\xfe", data * 2])
        case FieldDescriptor.TYPE_FLOAT | FieldDescriptor.TYPE_DOUBLE:
            return rng.choice(_FLOATS)
        case FieldDescriptor.TYPE_INT64:
            return rng.choice(_NUMBERS)
        case FieldDescriptor.TYPE_UINT64:
            return abs(rng.choice(_NUMBERS))
        case FieldDescriptor.TYPE_ENUM:
            return rng.choice([item.number for item in descriptor.enum_type.values])
        case _:
            return rng.choice([item for item in _NUMBERS if -(1 << 31) <= item < 1 << 31])


def rewired(model: onnx.ModelProto, rng: random.Random) -> bytes:
    """Nodes take other values, come twice, stand elsewhere, are of another operator or hold another attribute's value."""
    nodes = [item for item in _messages(model) if isinstance(item, onnx.NodeProto)]
    graphs = [
        item for item in _messages(model) if isinstance(item, (onnx.GraphProto, onnx.FunctionProto)) and item.node
    ]
    names = [name for node in nodes for name in (*node.input, *node.output)] + [item.name for item in model.graph.input]
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not nodes or not graphs:
            break
        node, graph = rng.choice(nodes), rng.choice(graphs)
        choice = rng.randrange(7)
        if choice == 0 and node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice([*names, "", "nowhere"])
        elif choice == 1 and node.output:
            node.output[rng.randrange(len(node.output))] = rng.choice([*names, "", "new"])
        elif choice == 2:
            node.op_type = rng.choice(
                ["Tile", "Expand", "Loop", "Reshape", "Range", "Pad", "Identity", "Nothing", "Conv", ""]
            )
        elif choice == 3:
            node.input.append(rng.choice([*names, ""]))
        elif choice == 4:
            copy = onnx.NodeProto()  # the node may hold the graph that it is added to
            copy.CopyFrom(node)
            graph.node.add().CopyFrom(copy)
        elif choice == 5 and node.attribute:
            item = rng.choice(node.attribute)
            item.type = rng.choice(list(onnx.AttributeProto.AttributeType.values()))
        elif choice == 6:
            items = list(graph.node)
            rng.shuffle(items)
            del graph.node[:]
            graph.node.extend(items)
    return model.SerializePartialToString()


def renamed(model: onnx.ModelProto, rng: random.Random) -> bytes:
    """Every value, node, dimension or attribute string of a valid model has a nasty name: it must still convert or be refused."""
    given: dict[str, str] = {}

    def other(name: str) -> str:
        if name not in given:
            given[name] = f"{rng.choice(NASTY)}{len(given)}" if name else ""
        return given[name]

    for message in list(_messages(model)):
        match message:
            case onnx.NodeProto():
                message.name = rng.choice(NASTY)
                message.input[:] = [other(name) for name in message.input]
                message.output[:] = [other(name) for name in message.output]
            case onnx.ValueInfoProto() | onnx.TensorProto():
                message.name = other(message.name)
            case onnx.GraphProto():
                message.name = rng.choice(NASTY)
            case onnx.FunctionProto():
                message.input[:] = [other(name) for name in message.input]
                message.output[:] = [other(name) for name in message.output]
            case onnx.TensorShapeProto.Dimension() if message.dim_param:
                message.dim_param = other(message.dim_param)
    return model.SerializePartialToString()


def sample(folder: Path, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Damaged small nets for the test suite."""
    nets = [item.SerializeToString() for item in small_nets()]
    for index in range(count):
        rng = random.Random(f"{seed}/{index}")
        damage = (flipped, cut, mutated, rewired, renamed)[index % 5]
        yield f"{damage.__name__}/{index}", damage(onnx.ModelProto.FromString(rng.choice(nets)), rng)
