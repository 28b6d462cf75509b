"""Graphs written by hand as tools and people write them: odd names, functions, external data, old opsets and IR versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from scripts.conformance.foreign_files import Write, drawn

ODD = {
    "spaces": ("my input", "the weight", "a result"),
    "quotes": ("it's", 'a "weight"', "back\\slash"),
    "keywords": ("lambda", "class", "return"),
    "slashes": ("/model/input:0", "/model/layer.0/MatMul/w", "/model/out"),
    "digits": ("0", "1.weight", "2"),
    "twins": ("a b", "a_b", "a.b"),
    "python": ("self", "torch", "None"),
    "dots": (".", "..", "a."),
    "letters": ("größe", "重み", "ﬁne"),
    "newlines": ("a\nb", "import os\nos", "c\td"),
    "modules": ("training", "forward", "weight"),
    "colons": ("onnx::MatMul_1", "onnx::Add_2", "x:0"),
    "nested": ("x", "a", "a.b"),
}


def _model(
    nodes: Sequence[Any], weights: dict[str, np.ndarray], out: str, x: str = "x", **options: Any
) -> onnx.ModelProto:
    opset, ir_version = options.pop("opset", 17), options.pop("ir_version", 8)
    graph = helper.make_graph(
        list(nodes),
        options.pop("name", "graph"),
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, options.pop("shape", ["n", 4]))],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
        **options.pop("more", {}),
    )
    if options.pop("listed", False):  # files below IR 4 list their initializers among the inputs
        graph.input.extend(helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in weights.items())
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset), *options.pop("domains", [])],
        ir_version=ir_version,
        **options,
    )


def _weights(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def odd(names: tuple[str, str, str]) -> onnx.ModelProto:
    """A small model whose values have odd names."""
    x, w, y = names
    weight, bias = _weights((4, 4), (4,))
    nodes = [
        helper.make_node("MatMul", [x, w], [f"{w} product"], name=f"{y} node"),
        helper.make_node("Add", [f"{w} product", f"{w}_"], [f"{y}-sum"], name=""),
        helper.make_node("Relu", [f"{y}-sum"], [y], name=f"{x}"),
    ]
    return _model(nodes, {w: weight, f"{w}_": bias}, y, x)


def function() -> onnx.ModelProto:
    """A model-local function with an attribute, called twice and through another."""
    step = helper.make_function(
        "my.domain", "Step", ["x", "w"], ["y"],
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            _referring("LeakyRelu", ["h"], ["y"], "alpha", "slope"),
        ],
        [helper.make_opsetid("", 17)], ["slope"],
    )  # fmt: skip
    pair = helper.make_function(
        "my.domain", "Pair", ["x", "v", "w"], ["z"],
        [
            helper.make_node("Step", ["x", "v"], ["y"], domain="my.domain", slope=0.3),
            helper.make_node("Step", ["y", "w"], ["z"], domain="my.domain", slope=0.1),
        ],
        [helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)],
    )  # fmt: skip
    v, w = _weights((4, 4), (4, 3))
    call = helper.make_node("Pair", ["x", "block.0.v", "block.0.w"], ["y"], domain="my.domain", name="block.0")
    return _model(
        [call],
        {"block.0.v": v, "block.0.w": w},
        "y",
        domains=[helper.make_opsetid("my.domain", 1)],
        functions=[step, pair],
    )


def _referring(op: str, inputs: list[str], outputs: list[str], name: str, outer: str) -> onnx.NodeProto:
    node = helper.make_node(op, inputs, outputs)
    attribute = onnx.AttributeProto(name=name, ref_attr_name=outer, type=onnx.AttributeProto.FLOAT)
    node.attribute.append(attribute)
    return node


def old_cnn(opset: int, ir_version: int) -> onnx.ModelProto:
    """A convolution, batch norm, dropout and dense layer as files of old opsets have them."""
    k, s, b, m, v, w, c = _weights((4, 3, 3, 3), (4,), (4,), (4,), (4,), (4, 5), (5,))
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["h"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["h", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Clip", ["n"], ["r"], min=0.0, max=6.0)
        if opset < 11
        else helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Dropout", ["g"], ["d"]),
        helper.make_node("Flatten", ["d"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "c"], ["y"]),
        helper.make_node("Softmax", ["y"], ["z"]),
    ]
    weights = {"k": k, "s": s, "b": b, "m": m, "v": np.abs(v) + 0.5, "w": w, "c": c}
    return _model(nodes, weights, "z", opset=opset, ir_version=ir_version, listed=ir_version < 4, shape=["n", 3, 8, 8])


def old_shapes(opset: int) -> onnx.ModelProto:
    """Squeeze, Slice, Pad, Upsample, ReduceSum and Split with the attributes of old opsets."""
    nodes = [
        helper.make_node("Unsqueeze", ["x"], ["u"], axes=[1, 3]),
        helper.make_node("Pad", ["u"], ["p"], mode="constant", pads=[0, 0, 1, 0, 0, 0, 1, 0], value=0.5),
        helper.make_node("Squeeze", ["p"], ["q"], axes=[1]),
        helper.make_node("ReduceSum", ["q"], ["t"], axes=[2], keepdims=0),
        helper.make_node("Split", ["t"], ["a", "b"], axis=1, split=[2, 4]),
        helper.make_node("Concat", ["b", "a"], ["y"], axis=1),
    ]
    if opset < 10:
        nodes.insert(5, helper.make_node("Slice", ["b"], ["c"], axes=[1], starts=[1], ends=[100]))
        nodes[-1] = helper.make_node("Concat", ["c", "a"], ["y"], axis=1)
    return _model(nodes, {}, "y", opset=opset)


def upsample(opset: int) -> onnx.ModelProto:
    """Upsample, which opset 10 replaces."""
    if opset < 9:
        nodes = [helper.make_node("Upsample", ["x"], ["y"], mode="nearest", scales=[1.0, 1.0, 2.0, 2.0])]
        return _model(nodes, {}, "y", opset=opset, shape=["n", 2, 4, 4])
    nodes = [helper.make_node("Upsample" if opset < 10 else "Resize", ["x", "s"], ["y"], mode="linear")]
    return _model(nodes, {"s": np.array([1, 1, 2, 2], np.float32)}, "y", opset=opset, shape=["n", 2, 4, 4])


def old_lstm(opset: int) -> onnx.ModelProto:
    """An LSTM of both directions with initial states left out."""
    w, r, b = _weights((2, 12, 4), (2, 12, 3), (2, 24))
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["t", "w", "r", "b"], ["s", "", "c"], hidden_size=3, direction="bidirectional"),
        helper.make_node("ReduceMean", ["s"], ["y"], axes=[0], keepdims=0),
    ]
    return _model(nodes, {"w": w, "r": r, "b": b}, "y", opset=opset, shape=["n", 5, 4])


def branches() -> onnx.ModelProto:
    """An If over values that both branches capture."""
    w, v = _weights((4, 4), (4, 4))

    def branch(name: str, weight: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node("MatMul", ["x", weight], [f"{name}_y"])], name, [], [out])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("then", "w"), else_branch=branch("else", "v")),
    ]
    return _model(nodes, {"w": w, "v": v, "zero": np.float32(0).reshape(())}, "y")


def loop() -> onnx.ModelProto:
    """A Loop that ends by a condition on its values."""
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["h", "two"], ["h2"]),
            helper.make_node("ReduceMax", ["h2"], ["m"], keepdims=0),
            helper.make_node("Less", ["m", "limit"], ["go"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h2", TensorProto.FLOAT, None),
        ],
    )
    weights = {"two": np.float32(2).reshape(()), "limit": np.float32(100).reshape(())}
    return _model([helper.make_node("Loop", ["", "", "x"], ["y"], body=body)], weights, "y")


def sparse() -> onnx.ModelProto:
    """A sparse initializer."""
    values = numpy_helper.from_array(np.array([1.5, -2.0, 3.0], np.float32), "w")
    places = numpy_helper.from_array(np.array([1, 6, 11], np.int64), "w_indices")
    held = helper.make_sparse_tensor(values, places, [4, 4])
    return _model([helper.make_node("MatMul", ["x", "w"], ["y"])], {}, "y", more={"sparse_initializer": [held]})


def tied() -> onnx.ModelProto:
    """One weight that two layers share, once transposed by the graph."""
    (w,) = _weights((4, 4))
    nodes = [
        helper.make_node("MatMul", ["x", "tied.weight"], ["h"]),
        helper.make_node("Transpose", ["tied.weight"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["h", "t"], ["y"]),
    ]
    return _model(nodes, {"tied.weight": w}, "y")


def constants() -> onnx.ModelProto:
    """Infinite, not-a-number and empty constants beside a mask."""
    nodes = [
        helper.make_node("Constant", [], ["low"], value=numpy_helper.from_array(np.float32(-np.inf).reshape(()))),
        helper.make_node(
            "Constant", [], ["nan"], value=numpy_helper.from_array(np.array([np.nan, 1, 2, 3], np.float32))
        ),
        helper.make_node("Constant", [], ["one"], value_float=1.0),
        helper.make_node("IsNaN", ["nan"], ["m"]),
        helper.make_node("Where", ["m", "low", "x"], ["h"]),
        helper.make_node("Softmax", ["h"], ["s"], axis=-1),
        helper.make_node("Add", ["s", "one"], ["y"]),
    ]
    return _model(nodes, {}, "y")


def _external(path: Path) -> None:
    model = odd(("x", "big.weight", "y"))
    onnx.save(model, str(path), save_as_external_data=True, location=f"{path.stem}.data", size_threshold=0)


GRAPHS: dict[str, tuple[Callable[[], onnx.ModelProto], tuple[int, ...]]] = {
    **{f"names_{key}": (lambda names=names: odd(names), (2, 4)) for key, names in ODD.items()},  # type: ignore[misc]
    "functions": (function, (2, 4)),
    **{
        f"cnn_{opset}": (lambda o=opset, i=ir: old_cnn(o, i), (2, 3, 8, 8))
        for opset, ir in ((7, 3), (8, 3), (9, 4), (10, 5), (12, 7))
    },  # type: ignore[misc]
    **{f"shapes_{opset}": (lambda o=opset: old_shapes(o), (2, 4)) for opset in (7, 9, 10)},  # type: ignore[misc]
    **{f"upsample_{opset}": (lambda o=opset: upsample(o), (2, 2, 4, 4)) for opset in (7, 8, 9, 10)},  # type: ignore[misc]
    **{f"lstm_{opset}": (lambda o=opset: old_lstm(o), (2, 5, 4)) for opset in (7, 14)},  # type: ignore[misc]
    "if": (branches, (2, 4)),
    "loop": (loop, (2, 4)),
    "sparse": (sparse, (2, 4)),
    "tied": (tied, (2, 4)),
    "constants": (constants, (2, 4)),
}


def _write(make: Callable[[], onnx.ModelProto], shape: tuple[int, ...], path: Path) -> Sequence[Sequence[np.ndarray]]:
    onnx.save(make(), str(path))
    return drawn([np.random.default_rng(0).standard_normal(shape).astype(np.float32)], 3)


def recipes() -> Iterator[tuple[str, Write]]:
    """Every graph, and one with its weights beside it."""
    for name, (make, shape) in GRAPHS.items():
        yield f"by hand/{name}_0", lambda path, a=(make, shape): _write(*a, path)  # type: ignore[misc]

    def external(path: Path) -> Sequence[Sequence[np.ndarray]]:
        _external(path)
        return drawn([np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)], 3)

    yield "by hand/external_0", external
