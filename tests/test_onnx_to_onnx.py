"""ONNX to ONNX: cut, renamed, with other dimensions, at another opset; each option shows in the result or is refused."""

import numpy as np
import onnx
import onnx.helper as make
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx.numpy_helper import from_array
from onnxruntime import InferenceSession

import onnxport
from onnxport.errors import InvalidInputError, OnnxportError, UnsupportedOperator

FLOAT = onnx.TensorProto.FLOAT
RNG = np.random.default_rng(0)


def built(nodes, inputs, outputs, opset, weights=(), *, ir_version=8, functions=(), domains=()):
    """A model of float32 values; weights are arrays by name."""
    infos = [[make.make_tensor_value_info(name, FLOAT, shape) for name, shape in side] for side in (inputs, outputs)]
    graph = make.make_graph(
        nodes, "g", *infos, [from_array(np.asarray(item), name) for name, item in dict(weights).items()]
    )
    imports = [make.make_opsetid("", opset), *(make.make_opsetid(domain, 1) for domain in domains)]
    return make.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=functions)


def node(op, inputs, outputs="y", **attributes):
    return make.make_node(op, inputs.split(), outputs.split(), name=f"the_{op}", **attributes)


def expected(proto, feeds):
    """What onnxruntime makes of the source; ONNX's reference evaluator knows only the newest Softmax."""
    return InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)


def chain(opset=17):
    """x, z -> h = relu(x W), k = -h, y = k + z."""
    nodes = [
        node("MatMul", "x w", "m"),
        node("Relu", "m", "h"),
        node("Neg", "h", "k"),
        node("Add", "k z"),
    ]
    weight = RNG.normal(size=(3, 3)).astype(np.float32)
    return built(nodes, [("x", ["n", 3]), ("z", ["n", 3])], [("y", ["n", 3])], opset, {"w": weight})


def branch(name, op, **attributes):
    info = make.make_tensor_value_info(name, FLOAT, ["n", 1])
    return make.make_graph([make.make_node(op, ["x"], [name], **attributes)], name, [], [info])


def repeated():
    """A body that carries nothing and gives x in each of its runs."""
    ends = [make.make_tensor_value_info(name, kind, []) for name, kind in (("i", 7), ("c", 9), ("d", 9))]
    nodes = [make.make_node("Identity", ["c"], ["d"]), make.make_node("Neg", ["x"], ["r"])]
    return make.make_graph(nodes, "body", ends[:2], [ends[2], make.make_tensor_value_info("r", FLOAT, ["n", 3])])


X43, X234, IMAGE = [("x", ["n", 3])], [("x", [2, 3, 4])], [("x", [1, 2, 4, 6])]
SIZES = np.array([1, 1, 2, 2], np.float32)
CONVERTED = [
    ("softmax flattens", built([node("Softmax", "x")], X234, [("y", [2, 3, 4])], 11), 13),
    ("means take axes", built([node("ReduceMean", "x", axes=[1])], X43, [("y", ["n", 1])], 13), 21),
    ("and give them back", built([node("ReduceMean", "x a")], X43, [("y", ["n", 1])], 18, {"a": [1]}), 13),
    ("sums", built([node("ReduceSum", "x", axes=[1])], X43, [("y", ["n", 1])], 9), 26),
    ("clip", built([node("Clip", "x", min=-0.5)], X43, [("y", ["n", 3])], 7, ir_version=3), 17),
    ("pad", built([node("Pad", "x", pads=[0, 1, 0, 2])], X43, [("y", ["n", 6])], 9), 19),
    ("split", built([node("Split", "x", "y v", axis=1)], [("x", ["n", 4])], [("y", ["n", 2]), ("v", ["n", 2])], 11), 18),
    ("split by sizes", built([node("Split", "x s", "y v", axis=1)], [("x", ["n", 4])], [("y", ["n", 1]), ("v", ["n", 3])], 18,
                             {"s": [1, 3]}), 13),
    ("squeeze", built([node("Squeeze", "x", axes=[0])], IMAGE, [("y", [2, 4, 6])], 11), 21),
    ("unsqueeze back", built([node("Unsqueeze", "x a")], X43, [("y", [1, "n", 3])], 21, {"a": [0]}), 13),
    ("dropout", built([node("Dropout", "x", ratio=0.3)], X43, [("y", ["n", 3])], 10), 21),
    ("upsample", built([node("Upsample", "x s", mode="nearest")], IMAGE, [("y", [1, 2, 8, 12])], 9, {"s": SIZES}), 13),
    ("resize", built([node("Resize", "x  s".replace("  ", " r "))], IMAGE, [("y", [1, 2, 8, 12])], 13,
                     {"r": np.zeros(0, np.float32), "s": SIZES}), 19),
    ("weights as inputs", built([node("Add", "x w")], [("x", ["n", 3]), ("w", [3])], [("y", ["n", 3])], 8,
                                {"w": np.ones(3, np.float32)}, ir_version=3), 21),
    ("branches", built([node("If", "c", then_branch=branch("r", "ReduceMean", axes=[1]),
                             else_branch=branch("s", "ReduceMax", axes=[1]))], X43, [("y", ["n", 1])], 13, {"c": True}), 21),
    ("a loop that carries nothing", built([node("Loop", "m c", body=repeated())], X43, [("y", [2, "n", 3])], 12,
                                          {"m": np.int64(2), "c": True}), 21),
    ("up and up", chain(13), 26),
    ("down and down", chain(23), 13),
]  # fmt: skip


@pytest.mark.parametrize(("proto", "opset"), [row[1:] for row in CONVERTED], ids=[row[0] for row in CONVERTED])
def test_another_opset_gives_the_same_numbers(proto, opset):
    made = onnxport.convert(proto, target_opset=opset)
    assert made.opset == opset
    assert made.report.passed
    onnx.checker.check_model(made.proto, full_check=True)
    shapes = [[2 if isinstance(dim, str) else dim for dim in _dims(value)] for value in made.model.graph.inputs]
    feeds = {
        name: RNG.normal(size=shape).astype(np.float32) for name, shape in zip(made.input_names, shapes, strict=False)
    }
    results = made(**feeds)
    for mine, theirs in zip(results if isinstance(results, tuple) else [results], expected(proto, feeds), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    kept = {item.name for item in proto.graph.initializer}
    assert {item.name for item in made.proto.graph.initializer} <= kept
    assert [item.name for item in made.proto.graph.output] == [item.name for item in proto.graph.output]


REFUSED = [
    (built([node("Gelu", "x")], X43, [("y", ["n", 3])], 20), 17, "Gelu: it exists from opset 20 on"),
    (built([node("LayerNormalization", "x w")], X43, [("y", ["n", 3])], 21, {"w": np.ones(3, np.float32)}), 13, "opset 17"),
    (built([node("GroupNormalization", "x w w", num_groups=1)], X234, [("y", [2, 3, 4])], 18,
           {"w": np.ones(1, np.float32)}), 21, "a value a channel"),
    (built([node("AveragePool", "x", kernel_shape=[2, 2], dilations=[2, 1])], IMAGE, [("y", None)], 19), 17,
     "no attribute 'dilations'"),
    (built([node("Split", "x", "y v", axis=1, num_outputs=2)], X43, [("y", None), ("v", None)], 18), 17, "Split: "),
    (built([node("Gelu", "x", "h"), node("Mish", "h")], X43, [("y", ["n", 3])], 20), 13, "Mish: it exists from opset 18 on"),
]  # fmt: skip


@pytest.mark.parametrize(("proto", "opset", "message"), REFUSED)
def test_what_has_no_form_there_is_refused_by_name(proto, opset, message):
    with pytest.raises(UnsupportedOperator, match=message) as caught:
        onnxport.convert(proto, target_opset=opset)
    assert f"target_opset={opset}" in str(caught.value)
    assert len(caught.value.operators) == len(proto.graph.node)


def test_functions_and_foreign_operators_stay():
    function = make.make_function(
        "mine", "Twice", ["a"], ["b"], [make.make_node("Add", ["a", "a"], ["b"])], [make.make_opsetid("", 13)]
    )
    nodes = [make.make_node("Twice", ["x"], ["h"], domain="mine"), node("ReduceMean", "h", axes=[1])]
    proto = built(nodes, X43, [("y", ["n", 1])], 13, functions=[function], domains=["mine"])
    proto.metadata_props.add(key="author", value="me")
    made = onnxport.convert(proto, target_opset=18)
    assert [item.name for item in made.proto.functions] == ["Twice"] or not made.proto.functions
    assert made.proto.metadata_props[0].value == "me"
    x = RNG.normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(made(x), 2 * x.mean(1, keepdims=True), rtol=1e-5)


def test_a_copy_is_proved_and_is_not_the_model_itself():
    proto = chain()
    before = proto.SerializeToString(deterministic=True)
    source = onnxport.OnnxModel(onnxport.convert(proto).model)
    made = onnxport.convert(source, optimize="inference", input_names=["a", "b"])
    assert made.report.passed
    assert source.report is None
    assert source.input_names == ["x", "z"]
    assert proto.SerializeToString(deterministic=True) == before


def test_swapped_names_are_not_swapped_inputs():
    proto = chain()
    made = onnxport.convert(proto, input_names=["z", "x"], output_names=["h"], inputs={"x": np.ones((2, 3), np.float32),
                            "z": np.zeros((2, 3), np.float32)})  # fmt: skip
    assert made.report.passed
    assert (made.input_names, made.output_names) == (["z", "x"], ["h"])
    a, b = (RNG.normal(size=(4, 3)).astype(np.float32) for _ in range(2))
    np.testing.assert_allclose(made(a, b), expected(proto, {"x": a, "z": b})[0], rtol=1e-5, atol=1e-6)


def test_an_output_that_is_an_input_too_takes_a_name_of_its_own():
    proto = built([node("Relu", "x", "y")], X43, [("y", ["n", 3]), ("x", ["n", 3]), ("y", ["n", 3])], 17)
    proto.graph.output[2].CopyFrom(proto.graph.output[0])
    del proto.graph.output[2]
    made = onnxport.convert(proto, output_names=["a", "b"])
    assert (made.input_names, made.output_names) == (["x"], ["a", "b"])
    assert made.report.passed


CUTS = [
    ({"cut_outputs": ["h"]}, ["x"], ["h"], lambda m: np.maximum(m["x"] @ m["w"], 0)),
    ({"cut_inputs": ["h"]}, ["z", "h"], ["y"], lambda m: m["z"] - m["h"]),
    ({"cut_inputs": ["h"], "cut_outputs": ["k"]}, ["h"], ["k"], lambda m: -m["h"]),
    ({"cut_inputs": ["m"], "cut_outputs": ["h"], "input_names": ["in"], "output_names": ["out"]}, ["in"], ["out"],
     lambda m: np.maximum(m["in"], 0)),
]  # fmt: skip


@pytest.mark.parametrize(("options", "inputs", "outputs", "formula"), CUTS)
def test_a_part_of_a_graph(options, inputs, outputs, formula):
    proto = chain()
    made = onnxport.convert(proto, **options)
    assert (made.input_names, made.output_names) == (inputs, outputs)
    assert made.report.passed
    values = {name: RNG.normal(size=(4, 3)).astype(np.float32) for name in inputs}
    weight = onnx.numpy_helper.to_array(proto.graph.initializer[0])
    np.testing.assert_allclose(made(**values), formula({**values, "w": weight}), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("outputs", [["h"], ["y"]])
def test_a_part_of_a_graph_whose_weights_are_inputs(outputs):
    """As before IR version 4: a weight that the part does not need leaves the inputs and the initializers."""
    nodes = [node("Add", "x w", "h"), node("Mul", "h v")]
    weights = {"w": np.float32([1, 2, 3]), "v": np.float32([4, 5, 6])}
    proto = built(nodes, [("x", ["n", 3]), ("w", [3]), ("v", [3])], [("y", ["n", 3])], 9, weights, ir_version=3)
    made = onnxport.convert(proto, cut_outputs=outputs)
    assert made.report.passed
    x = RNG.normal(size=(4, 3)).astype(np.float32)
    wanted = {"h": x + weights["w"], "y": (x + weights["w"]) * weights["v"]}[outputs[0]]
    np.testing.assert_allclose(expected(made.proto, {"x": x})[0], wanted, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "kind"), [("float16", onnx.TensorProto.FLOAT16), ("int8", onnx.TensorProto.UINT8)])
def test_weights_that_are_inputs_become_smaller_too(dtype, kind):
    weights = {"w": RNG.normal(size=(64, 32)).astype(np.float32)}
    proto = built(
        [node("MatMul", "x w")], [("x", ["n", 64]), ("w", [64, 32])], [("y", ["n", 32])], 9, weights, ir_version=3
    )
    made = onnxport.convert(proto, dtype=dtype, target_opset=21)
    assert made.report.passed
    assert "the weights are inputs no longer" in made.report.notes
    assert kind in [item.data_type for item in made.proto.graph.initializer]
    assert [item.name for item in made.proto.graph.input] == ["x"]
    x = RNG.normal(size=(3, 64)).astype(np.float16 if dtype == "float16" else np.float32)
    np.testing.assert_allclose(expected(made.proto, {"x": x})[0], x @ weights["w"], atol=0.5)


DIMS = [
    ({"x": {0: "rows"}}, [["rows", 3], ["rows", 3]], ["rows", 3]),
    ({"x": {0: 4}}, [[4, 3], [4, 3]], [4, 3]),
    (({0: "rows", 1: None}, None), [["rows", 3], ["rows", 3]], ["rows", 3]),
    ({"x": ["rows", 3]}, [["rows", 3], ["rows", 3]], ["rows", 3]),
]


def _dims(value):
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]


@pytest.mark.parametrize(("asked", "inputs", "output"), DIMS, ids=str)
def test_dimensions_are_named_and_fixed(asked, inputs, output):
    made = onnxport.convert(chain(), dynamic_shapes=asked)
    assert [_dims(value) for value in made.model.graph.inputs] == inputs
    assert _dims(made.model.graph.outputs[0]) == output
    assert made.report.passed


def test_a_size_becomes_a_dimension_that_varies():
    proto = built([node("Relu", "x", "h"), node("Add", "h h")], [("x", [2, 3])], [("y", [2, 3])], 17)
    made = onnxport.convert(proto, dynamic_shapes={"x": {0: "batch"}})
    assert _dims(made.model.graph.outputs[0]) == ["batch", 3]
    assert made(np.ones((7, 3), np.float32)).shape == (7, 3)


WRITTEN = built([node("Reshape", "x s")], [("x", [2, 3])], [("y", [3, 2])], 17, {"s": [3, 2]})
WRONG = [
    (WRITTEN, {"dynamic_shapes": {"x": {0: "batch"}}}, "runs on no others"),
    (chain(), {"dynamic_shapes": {"q": {0: "n"}}}, "no input 'q'; the inputs are x, z"),
    (chain(), {"dynamic_shapes": {"x": {2: "n"}}}, "'x' has no dimension 2"),
    (chain(), {"dynamic_shapes": {"x": [0]}}, "'x' has 2 dimensions, the list"),
    (chain(), {"dynamic_shapes": {"x": {1: 4}}}, "dimension 1 of 'x' is 3 in the model, not 4"),
    (chain(), {"dynamic_shapes": {"x": {0: 4}, "z": {0: 5}}}, "4 and 5 are one dimension"),
    (chain(), {"dynamic_shapes": {"x": {0: "a"}, "z": {0: "b"}}}, "'a' and 'b' are one dimension"),
    (chain(), {"dynamic_shapes": {"x": {0: 1.5}}}, "is 1.5"),
    (chain(), {"dynamic_shapes": {"x": "batch"}}, "'x' is given 'batch'"),
    (chain(), {"dynamic_shapes": "batch"}, "a dict by input name"),
    (chain(), {"input_names": ["a"]}, "input_names: 1 are given, the model has 2"),
    (chain(), {"output_names": ["a", "b"]}, "output_names: 2 are given, the model has 1"),
    (chain(), {"output_names": ["x"]}, "'x' is the name of another"),
    (chain(), {"cut_outputs": ["nothing"]}, "cut_outputs: the graph has no value 'nothing'"),
    (chain(), {"cut_inputs": ["w"]}, "'w' is a weight"),
    (chain(), {"cut_inputs": ["k"], "cut_outputs": ["h"]}, "no output depends on 'k'"),
]


@pytest.mark.parametrize(("proto", "options", "message"), WRONG, ids=[str(row[1]) for row in WRONG])
def test_what_does_not_fit_is_refused(proto, options, message):
    with pytest.raises(InvalidInputError, match=message):
        onnxport.convert(proto, **options)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "target_opset": st.sampled_from([12, 13, 17, 18, 21]),
            "input_names": st.lists(st.sampled_from(["x", "z", "h", "w", "new"]), max_size=2),
            "output_names": st.lists(st.sampled_from(["y", "m", "x", "out"]), max_size=1),
            "dynamic_shapes": st.sampled_from([{"x": {0: "rows"}}, {"z": {0: 4}}, {"w": {0: "n"}}]),
            "cut_outputs": st.sampled_from([["h"], ["k", "y"], ["absent"]]),
            "methods": st.just(["predict"]),
            "optimize": st.sampled_from(["none", "inference", "speed"]),
        },
    )
)
def test_any_options_show_in_the_result_or_are_named_in_the_error(options):
    try:
        made = onnxport.convert(chain(), **options)
    except OnnxportError as error:
        assert any(name in str(error) for name in options)  # noqa: PT017 (either outcome is right)
        return
    assert made.report.passed
    assert made.opset == options.get("target_opset", 17)
    assert made.input_names == options.get("input_names", made.input_names)
    names = options.get("output_names", options.get("cut_outputs", ["y"]))
    assert made.output_names == names
    first = _dims(made.model.graph.inputs[0])[0]
    asked = options.get("dynamic_shapes", {})
    if asked:
        assert first in next(iter(asked.values())).values()
    assert "methods" not in options
    onnx.checker.check_model(made.proto, full_check=True)
