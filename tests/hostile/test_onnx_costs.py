"""What an ONNX file that nobody vouches for may cost and crash, and whose fault its errors are."""

import itertools
import time

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import onnxport
from onnxport import frameworks
from onnxport.converters.from_onnx.blame import bounded
from onnxport.converters.from_onnx.inference import inferred
from onnxport.converters.from_onnx.inference_cost import inference_cost
from onnxport.converters.watching import check_length
from onnxport.errors import InvalidInputError, InvalidModelError, OnnxportError
from onnxport.graph.guard import bounds, process
from onnxport.graph.guard.bounds import Guard, guarded
from onnxport.graph.guard.deadline import OutOfTime, check_time, timed
from onnxport.graph.guard.requests import with_shapes
from onnxport.graph.guard.server import MemoryBound
from onnxport.graph.protos import from_proto
from onnxport.model import OnnxModel
from onnxport.opset_maps.from_onnx.values import HostValue
from onnxport.tracing.trust.onnx import check_model
from onnxport.validation.input_sets import edges

HEAD = '<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 4]>\n'


def parsed(text):
    return parser.parse_model(HEAD + text)


def doubling(count, op="Concat", given="float[1] x", **attributes):
    """A vector joined with itself again and again."""
    model = parsed(f"g ({given}) => (float[k] y) {{ y = Identity(x) }}")
    del model.graph.node[:]
    names = ["x", *(f"v{i}" for i in range(count - 1)), "y"]
    for before, after in itertools.pairwise(names):
        model.graph.node.append(helper.make_node(op, [before, before], [after], **attributes))
    return model


def chain(count):
    model = parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    del model.graph.node[:]
    names = ["x", *(f"v{i}" for i in range(count - 1)), "y"]
    model.graph.node.extend(helper.make_node("Neg", [a], [b]) for a, b in itertools.pairwise(names))
    return model


# -- inference -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, shapes, contents",
    [
        (doubling(40, axis=0), True, False),
        (doubling(10, axis=0), True, True),
        (doubling(40, op="GatherND", given="float[1, 1] x"), False, False),  # its rank doubles
        (doubling(400, op="Gather"), True, True),
        (doubling(400, op="Add"), True, True),
    ],
)
def test_what_inference_would_write_is_counted_first(model, shapes, contents):
    cost = inference_cost(from_proto(model))
    assert (cost.bearable, cost.contents_bearable) == (shapes, contents)


def reshapes(count):
    """Blocks of a product, a bias of 32 elements and a reshape to sizes that are joined from those of the product."""
    block = "p{0} = Add(x{0}, b) s{0} = Shape(p{0}) i{0} = Gather(s{0}, zero) u{0} = Unsqueeze(i{0}, axes) "
    block += "t{0} = Concat<axis = 0>(u{0}, u{0}, u{0}, last) x{1} = Reshape(p{0}, t{0})"
    blocks = " ".join(block.format(i, i + 1) for i in range(count))
    text = f"g (float[n, 32] x0, float[32] b) => (float[k, l, m, 32] x{count}) {{ {blocks} }}"
    model = parsed(text)
    numbers = {"zero": np.int64(0), "axes": np.int64([0]), "last": np.int64([32])}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(item), name) for name, item in numbers.items())
    return model


def test_no_rank_follows_from_a_bias():
    """Blocks of a Segformer: 20 of them were taken for millions of dimensions, so that nothing was inferred."""
    assert inference_cost(from_proto(reshapes(20))).shapes < 1000


def test_functions_count_once_for_each_call():
    function = '<domain: "f", opset_import: ["": 21]> two (v) => (w) { a = Neg(v) w = Neg(a) }'
    text = '<ir_version: 10, opset_import: ["": 21, "f": 1]> g (float[n] x) => (float[n] y) { h = f.two (x) y = f.two (h) }'
    assert inference_cost(from_proto(parser.parse_model(f"{text}\n{function}"))).nodes == 6


@pytest.mark.pytorch
def test_a_vector_that_doubles_forty_times_is_rebuilt_at_once():
    onnxport.convert(chain(1), to="pytorch", validate=False)
    started = time.monotonic()
    onnxport.convert(doubling(40, axis=0), to="pytorch", validate=False)
    assert time.monotonic() - started < 2


def untyped(op, **attributes):
    """An operator on an input without a type: ONNX's inference ends the process on it."""
    domain = "" if op == "EyeLike" else "ai.onnx.ml"
    node = helper.make_node(op, ["x"], ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], "g", [onnx.ValueInfoProto(name="x")], [onnx.ValueInfoProto(name="y")])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize(
    "model",
    [
        untyped("LabelEncoder", keys_strings=["a"], values_int64s=[0]),
        untyped("DictVectorizer", int64_vocabulary=[0]),
    ],
)
def test_inference_that_crashes_ends_the_helper_alone(model):
    with guarded(0), pytest.raises(InvalidModelError, match="has ended"):
        with_shapes(model)
    with guarded(0):
        inferred(from_proto(model))
        assert with_shapes(chain(2)).graph.value_info


# -- memory and time -------------------------------------------------------------------------------------------------------


def test_runs_of_one_conversion_share_their_memory():
    requests = MemoryBound()
    seen = []
    for number in (1, 1, 2):
        with requests.memory(number, 1 << 40):
            seen.append(requests._base)
        kept = np.ones(1 << 23)  # 64 MiB that a first run leaves behind
    assert seen[0] == seen[1] < seen[2]
    del kept


def test_drawn_inputs_do_not_raise_what_a_file_may_cost():
    given, drawn = Guard(0), Guard(0, drawn=True)
    assert given.seconds(16 << 20) > 20 > drawn.seconds(16 << 20) > 0
    assert given.memory(16 << 20) > 300 << 20 > drawn.memory(16 << 20)


def test_a_long_graph_without_weights_is_refused_from_a_file_alone(tmp_path):
    long = OnnxModel(from_proto(chain(13_000)))
    for name, refused in (("pytorch", True), ("tensorflow", True), ("onnx", False)):
        target = frameworks.get(name)
        if refused:
            with pytest.raises(InvalidModelError, match="13,000 nodes"):
                check_length(long, target)
        else:
            check_length(long, target)
    check_length(OnnxModel(from_proto(chain(8_000))), frameworks.get("tensorflow"))


def test_each_of_many_outputs_counts_for_several_nodes():
    several = parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    del several.graph.output[:]
    for i in range(3_000):
        several.graph.node.add(op_type="Neg", input=["x"], output=[f"o{i}"])
        several.graph.output.add(name=f"o{i}")
    with pytest.raises(InvalidModelError, match="3,000 outputs"):
        check_length(OnnxModel(from_proto(several)), frameworks.get("tensorflow"))
    del several.graph.output[500:]
    check_length(OnnxModel(from_proto(several)), frameworks.get("tensorflow"))


@pytest.mark.pytorch
def test_a_chain_of_nodes_in_a_file_takes_no_endless_time(tmp_path):
    onnx.save(chain(20_000), tmp_path / "chain.onnx")
    started = time.monotonic()
    with pytest.raises(InvalidModelError, match="20,000 nodes"):
        onnxport.convert(tmp_path / "chain.onnx", to="pytorch")
    assert time.monotonic() - started < 20


SCAN = """g (float[300000, 1] x) => (float[1] s, float[300000, 1] y) { z = Constant <value_floats = [0.0]> ()
    s, y = Scan (z, x) < num_scan_inputs = 1, body = b (float[1] a, float[1] e) => (float[1] p, float[1] q) {
        p = Add(a, e) q = Sin(p) } > }"""


@pytest.mark.parametrize(
    "target",
    [pytest.param("pytorch", marks=pytest.mark.pytorch), pytest.param("tensorflow", marks=pytest.mark.tensorflow)],
)
def test_a_rebuilt_loop_that_takes_too_long_is_ended(target, monkeypatch):
    onnxport.convert(chain(1), to=target)
    monkeypatch.setattr(bounds, "_SECONDS", 1.0)
    started = time.monotonic()
    with pytest.raises(InvalidInputError, match="more time than a file may cost|takes more than"):
        onnxport.convert(parsed(SCAN), to=target)
    assert time.monotonic() - started < 5


@pytest.mark.pytorch
def test_only_a_model_on_drawn_inputs_is_ended():
    with guarded(0) as given, timed():
        given.spent = 100.0
        check_time()
    with guarded(0, drawn=True) as drawn:
        drawn.spent = 100.0
        with pytest.raises(OutOfTime), timed():
            check_time()
        assert "rebuilt model" in drawn.stopped


def test_many_rows_are_drawn_in_no_time():
    started = time.monotonic()
    drawn = edges.numbers((1 << 20, 1), np.dtype(np.float32), np.random.default_rng(0), None)
    assert drawn.shape == (1 << 20, 1)
    assert time.monotonic() - started < 1


# -- what a file may say ---------------------------------------------------------------------------------------------------


def relabelled(change):
    model = parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    data = model.SerializeToString()
    change(model)
    return onnx.ModelProto.FromString(model.SerializeToString().replace(b"#", b"\xff")) if data else model


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda model: setattr(model, "producer_name", "a#"), "not UTF-8"),
        (lambda model: setattr(model.graph, "doc_string", "a#"), "not UTF-8"),
        (lambda model: model.metadata_props.add(key="a", value="#"), "not UTF-8"),
        (lambda model: model.graph.node[0].device_configurations.add(), "has no name"),
        (lambda model: model.graph.input[0].type.tensor_type.shape.dim.add(dim_value=1 << 62), "than any memory holds"),
    ],
)
def test_words_and_sizes_that_nothing_can_hold_are_refused(change, message):
    with pytest.raises(InvalidModelError, match=message):
        check_model(relabelled(change), None)


def test_a_split_into_other_numbers_than_it_has_results_is_refused():
    model = parsed("g (float[4] x) => (float[k] a, float[m] b) { a, b = Split <num_outputs = 1> (x) }")
    with pytest.raises(InvalidModelError, match="2 results, its num_outputs is 1"):
        check_model(model, None)


# -- whose fault -----------------------------------------------------------------------------------------------------------

FAULTS = [
    (
        "g (float[4] x) => (float[k] y) { s = SplitToSequence(x) i = Constant <value_int = 9> () y = SequenceAt(s, i) }",
        "position 9 of a sequence of 4",
    ),
    (
        "g (float[n] x) => (float[k] y) { s = Constant <value_ints = [0]> () y = Slice(x, s, s, s, s) }",
        "a step of 0",
    ),
    (
        "g (float[1, 4, 4] x) => (float[a, b, c, d] y) { s = Constant <value_ints = [2, 2]> () y = Col2Im(x, s, s) }",
        "4 columns for 1 blocks",
    ),
    (
        'g (float[3, 4, 5] x) => (float[a, b] y) { y = Einsum <equation = "...ii->...i"> (x) }',
        "label 'i' stands for two sizes",
    ),
    (
        "g (float[2000000] x) => (float[1] y) { s = SplitToSequence(x) i = Constant <value_int = 0> () y = SequenceAt(s, i) }",
        "2,000,000 pieces",
    ),
    # onnxruntime refuses it too, so that it is no defect of ours
    (
        "g (float[2, 3] x, float[7] w) => (float[a, b] y) { y = LayerNormalization <axis = -1> (x, w) }",
        "LayerNormalization",
    ),
]
TARGETS = [
    pytest.param("pytorch", marks=pytest.mark.pytorch),
    pytest.param("tensorflow", marks=pytest.mark.tensorflow),
    pytest.param("keras", marks=pytest.mark.keras),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text, message", FAULTS)
def test_what_a_file_does_wrong_is_said_of_the_file(text, message, target):
    if (
        message == "LayerNormalization" and target == "pytorch"
    ):  # its module can be built: the proof finds nothing that runs
        with pytest.raises(onnxport.UnprovedWarning):
            onnxport.convert(parsed(text), to=target)
        return
    with pytest.raises(OnnxportError) as refused:
        onnxport.convert(parsed(text), to=target, validate=False)
    assert message in str(refused.value)
    assert "defect of onnxport" not in str(refused.value)


@pytest.mark.parametrize("target", TARGETS[1:])
def test_a_pattern_that_is_none_of_re2s_is_refused(target):
    text = 'g (string[n] x) => (bool[n] y) { y = RegexFullMatch <pattern = "["> (x) }'
    with pytest.raises(OnnxportError, match="missing"):
        onnxport.convert(parsed(text), to=target, validate=False)


@pytest.mark.keras
def test_a_graph_without_outputs_makes_no_keras_model():
    with pytest.raises(OnnxportError, match="without outputs"):
        onnxport.convert(parsed("g (float[n, 2] x) => () { y = Neg(x) }"), to="keras", validate=False)


@pytest.mark.pytorch
def test_sizes_that_a_file_contradicts_draw_inputs_all_the_same():
    text = "g (float[2, 2] x, int64[2] p) => (float[3] y) { y = Pad(x, p) }"
    with pytest.raises(OnnxportError) as refused:
        onnxport.convert(parsed(text), to="pytorch")
    assert "defect of onnxport" not in str(refused.value)


@pytest.mark.pytorch
def test_float8_inputs_reach_a_module():
    import torch

    from onnxport.tracing.pytorch_inputs import _tensor

    array = np.ones(3, helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT8E5M2))
    assert _tensor(array).dtype == torch.float8_e5m2
    assert _tensor(array).float().tolist() == [1.0, 1.0, 1.0]
    narrow = np.ones(3, helper.tensor_dtype_to_np_dtype(TensorProto.INT4))
    assert _tensor(narrow) is narrow  # torch.int4 is a name without tensors


def test_what_the_helper_takes_to_start_is_not_the_models_time(monkeypatch):
    monkeypatch.setattr(process, "_helpers", [])
    with guarded(0) as guard:
        with_shapes(chain(2))
        first = guard.spent
        process._helpers[-1].end()
        guard.spent = bounds._SECONDS - 0.2  # less than a start takes
        assert with_shapes(chain(2)).graph.value_info
    assert first < 0.5


@pytest.mark.pytorch
def test_an_expression_that_backtracks_on_a_constant_takes_no_time():
    text = (
        'g () => (bool[1] y) { x = Constant <value_strings = ["' + "a" * 64 + 'b"]> () '
        'y = RegexFullMatch <pattern = "(a|a|aa)+"> (x) }'
    )
    started = time.monotonic()
    onnxport.convert(parsed(text), to="pytorch", validate=False)
    assert time.monotonic() - started < 10


def test_a_cast_to_a_wider_type_counts_more_than_its_operand():
    node = ir.Node("", "Cast", [ir.Value(name="x")], [ir.AttrInt64("to", TensorProto.DOUBLE)])
    counted = bounded(node, [HostValue(np.ones(1000, np.int8), ir.DataType.INT8)], 21, "", 1 << 20)
    assert counted >= 4 * 1000
