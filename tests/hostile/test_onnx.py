"""ONNX files that nobody vouches for: each is converted, or refused by name, within bounds of time and memory."""

import importlib.util
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import onnxport
from onnxport.errors import InvalidInputError, InvalidModelError, OnnxportError
from onnxport.tracing.onnx import load_model
from onnxport.tracing.trust.onnx import check_model

SCRIPTS = Path(__file__).parents[2] / "scripts" / "conformance"
HEAD = '<ir_version: 10, opset_import: ["": 21, "f": 1]>\n'
BODY = "(int64 i, bool c, float[4] v) => (bool d, float[4] w) { d = Identity(c) w = Sin(v) }"
BIG = 1 << 34


def parsed(text):
    return parser.parse_model(HEAD + text)


def script(name):
    """A module of scripts/conformance."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPTS))
    return module


MALFORMED = [
    ("g (float[n] x) => (float[n] y) { a = Add(x, y) y = Neg(a) }", "Add 'a': its operand 'y' is given by nothing"),
    ("g (float[n] x) => (float[n] y) { y = Neg(y) }", "operand 'y' is given by nothing"),
    ("g (float[n] x) => (float[n] y) { y = Neg(x) y = Abs(x) }", "its result 'y' is given twice"),
    ("g (float[n] x) => (float[n] z) { y = Neg(x) }", "nothing gives the output 'z'"),
    ("g (float[n] x) => (float[n] y) { y = Neg(x, x) }", "2 operands, its operator takes 1 to 1"),
    ("g (float[n] x) => (float[n] y) { y = Concat (x, x) }", "the attribute 'axis' is missing"),
    ("g (float[n] x) => (float[n] y) { y = Relu <alpha = 0.5> (x) }", "Relu 'y': Relu-14 has no attribute 'alpha'"),
    ('g (float[n] x) => (float[n] y) { y = Concat <axis = "0"> (x, x) }', "'axis' is STRING, not INT"),
    ("g (float[n] x) => (float[n] y) { y = h.Wurst(x) }", "imports no opset of its domain"),
    ("g (float[1, 1, 4, 4] x) => (float[a, b, c, d] y) { y = MaxPool <kernel_shape = [0, 1]> (x) }", "'kernel_shape'"),
    ("g (float[n] x, int64[n] i) => (float[n] y) { y = Add(x, i) }", "'x' and 'i' are float and int64"),
    ("g (float[n] x, int64[n] i) => (float[n] y) { a = Abs(i) y = Add(x, a) }", "'x' and 'a' are float and int64"),
    ("g (float[n] x) => (float[n] y) { a = Cast <to = 11> (x) y = Add(x, a) }", "'x' and 'a' are float and double"),
    ("g (float[n] x) => (float[n] y) <double[1] w = {1}> { y = Mul(x, w) }", "'x' and 'w' are float and double"),
    ("g (float[n] x, bool[n] c) => (float[n] y) { y = Where(x, x, x) }", "'x' is float; Where-16 takes bool"),
    (
        """g (float[n] x, bool[] c) => (float[n] y) <double[1] w = {1}> { y = If (c)
        <then_branch = t () => (float[n] r) { r = Neg(x) }, else_branch = e () => (float[n] s) { s = Add(x, w) }> }""",
        "else_branch': Add 's': its operands 'x' and 'w'",
    ),
    ("g (float[n] x, float[m] i) => (float[m] y) { y = Gather(x, i) }", "'i' is float; Gather-13 takes int32, int64"),
    ("g (float[n] x) => (int64[n] y) { y = Neg(x) }", "the output 'y' is declared int64, but is float"),
]


@pytest.mark.parametrize("text, message", MALFORMED)
def test_what_a_graph_must_not_be_is_refused_by_place(text, message):
    with pytest.raises(InvalidModelError) as refused:
        check_model(parsed(text), None)
    assert message in str(refused.value)


def functions(kind):
    """Functions that double or call themselves."""
    model = parsed("g (float[n] x) => (float[n] y) { y = f.f0 (x) }")
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]

    def add(name, *calls):
        nodes = [helper.make_node(op, [a], [b], domain="f" if op != "Neg" else "") for op, a, b in calls]
        model.functions.append(helper.make_function("f", name, ["v"], ["r"], nodes, opsets))

    match kind:
        case "doubling":
            for i in range(30):
                add(f"f{i}", (f"f{i + 1}", "v", "h"), (f"f{i + 1}", "h", "r"))
            add("f30", ("Neg", "v", "r"))
        case "itself":
            add("f0", ("f0", "v", "r"))
        case "each other":
            add("f0", ("f1", "v", "r"))
            add("f1", ("f0", "v", "r"))
        case "deep":
            for i in range(100):
                add(f"f{i}", (f"f{i + 1}", "v", "r"))
            add("f100", ("Neg", "v", "r"))
    return model


@pytest.mark.parametrize(
    "kind, message",
    [
        ("doubling", "come to 3,221,225,471 nodes"),
        ("itself", "calls itself"),
        ("each other", "calls itself"),
        ("deep", "deep in each other"),
    ],
)
def test_functions_that_never_end_are_refused(kind, message):
    with pytest.raises(InvalidModelError, match=message):
        check_model(functions(kind), None)


TENSORS = [
    (TensorProto(name="w", data_type=1, dims=[BIG]), "no data for 17179869184 elements"),
    (TensorProto(name="w", data_type=1, dims=[1 << 40, 1 << 40]), "more than any memory holds"),
    (TensorProto(name="w", data_type=1, dims=[-4], raw_data=b"0" * 16), "are negative"),
    (TensorProto(name="w", data_type=1, dims=[4], raw_data=b"0" * 15), "15 bytes of data for 4 elements"),
    (TensorProto(name="w", data_type=99, dims=[1]), "element type 99"),
    (TensorProto(name="w", data_type=1, dims=[2], int32_data=[1, 2]), "2 in int32_data for 2 elements"),
]


@pytest.mark.parametrize("tensor, message", TENSORS)
def test_tensors_whose_data_and_dimensions_disagree_are_refused(tensor, message):
    model = parsed("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    model.graph.initializer.append(tensor)
    with pytest.raises(InvalidModelError, match="initializer 'w'") as refused:
        check_model(model, None)
    assert message in str(refused.value)


def sparse(indices, dims=(4,), values=(1.0, 2.0), shape=None):
    model = parsed("g (float[n, 4] x) => (float[n, 4] y) { y = Mul(x, w) }")
    item = model.graph.sparse_initializer.add(dims=dims)
    item.values.CopyFrom(numpy_helper.from_array(np.float32(values), "w"))
    item.indices.CopyFrom(TensorProto(data_type=7, dims=shape or [len(indices)], int64_data=indices))
    return model


@pytest.mark.parametrize(
    "model, message",
    [
        (sparse([-1, 2]), "not ascending within"),
        (sparse([1, 99]), "not ascending within"),
        (sparse([3, 1]), "not ascending within"),
        (sparse([0, 1], dims=(1 << 40,)), "more elements"),
        (sparse([0, 1], dims=()), "not positive"),
        (sparse(list(range(18)), dims=(4, 4), shape=[2, 9]), "indices of shape"),
    ],
)
def test_sparse_initializers_that_lead_outside_are_refused(model, message):
    with pytest.raises(InvalidModelError, match=message):
        check_model(model, None)


@pytest.mark.pytorch
def test_a_sparse_initializer_is_its_dense_self():
    import torch

    net = onnxport.convert(sparse([1, 3]), to="pytorch", validate=False)
    assert torch.equal(net(torch.ones(2, 4)).detach(), torch.tensor([[0.0, 1.0, 0.0, 2.0]] * 2))


LARGE = [
    f"g () => (float[k] y) {{ s = Constant <value_ints = [{BIG}]> () y = ConstantOfShape(s) }}",
    f"g () => (int64[k] y) {{ o = Constant <value_ints = [1]> () s = Constant <value_ints = [{BIG}]> () y = Tile(o, s) }}",
    f"g () => (float[k] y) {{ o = Constant <value_floats = [1.0]> () s = Constant <value_ints = [{BIG}]> () y = Expand(o, s) }}",
    f"g () => (float[k] y) {{ s = Constant <value_int = {BIG}> () y = HannWindow(s) }}",
    f"g () => (int64[k] y) {{ a = Constant <value_int = 1> () b = Constant <value_int = {BIG}> () y = Range(a, b, a) }}",
    f"g (float[n] x) => (float[m] y) {{ s = Constant <value_ints = [{BIG}]> () y = Tile(x, s) }}",
    f"g (float[n] x) => (float[m] y) {{ s = Constant <value_ints = [{BIG}, 0]> () y = Pad(x, s) }}",
    "g (float[65536, 1] x) => (float y) { t = Transpose(x) m = MatMul(x, t) y = ReduceSum <keepdims = 0> (m) }",
    f"g (float[{BIG}] x) => (float[{BIG}] y) {{ y = Neg(x) }}",
    f"g (float[4] x) => (float[4] y) {{ m = Constant <value_int = {1 << 60}> () y = Loop (m, , x) < body = b {BODY} > }}",
]


@pytest.mark.pytorch
def test_what_asks_for_any_amount_of_memory_or_time_is_refused():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for text in LARGE:
        started = time.monotonic()
        with pytest.raises((InvalidModelError, InvalidInputError)):
            onnxport.convert(parsed(text), to="pytorch")
        assert time.monotonic() - started < 20
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    assert grown < 300, f"{grown} MiB"


# -- data in files ---------------------------------------------------------------------------------------------------------


def with_data(owner, **entries):
    """y = x w, where w's data lie in a file and w is an initializer, a constant, or one of a function or branch."""
    tensor = TensorProto(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    model = parsed("g (float[n, 4] x) => (float[n, 4] y) { y = Mul(x, w) }")
    constant = helper.make_node("Constant", [], ["w"], value=tensor)
    if owner == "initializer":
        model.graph.initializer.append(tensor)
    elif owner == "constant":
        model.graph.node.insert(0, constant)
    else:
        body = [constant, helper.make_node("Mul", ["v", "w"], ["r"])]
        model.functions.append(helper.make_function("f", "scaled", ["v"], ["r"], body, [helper.make_opsetid("", 21)]))
        model.graph.node[0].CopyFrom(helper.make_node("scaled", ["x"], ["y"], domain="f"))
    return model


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "model"
    inside.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    (inside / "w.bin").write_bytes(np.float32([9, 1, 2, 3, 4]).tobytes())
    (inside / "link.bin").symlink_to(tmp_path / "secret.bin")
    (inside / "out").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe")
    return inside


DATA = [
    ({"location": "../secret.bin"}, "outside the model's folder"),
    ({"location": "link.bin"}, "outside the model's folder"),
    ({"location": "out/secret.bin"}, "outside the model's folder"),
    ({"location": "/dev/zero"}, "outside the model's folder"),
    ({"location": "pipe"}, "not a file"),
    ({"location": "."}, "not a file"),
    ({"location": "a\0b"}, "no file name"),
    ({"location": "w.bin", "offset": "-4"}, "no number of bytes"),
    ({"location": "w.bin", "offset": "8"}, "truncated"),
    ({"location": "w.bin", "length": "9" * 5000}, "no number of bytes"),
    ({"location": "w.bin", "length": str(1 << 40)}, "1099511627776 bytes of data for 4 elements"),
]


@pytest.mark.parametrize("owner", ["initializer", "constant", "function"])
def test_data_outside_the_folder_or_the_file_are_refused(owner, folder):
    for entries, message in DATA:
        onnx.save(with_data(owner, **entries), folder / "model.onnx")
        with pytest.raises(InvalidModelError) as refused:
            load_model(folder / "model.onnx")
        assert message in str(refused.value), entries


@pytest.mark.pytorch
@pytest.mark.parametrize("owner", ["initializer", "constant", "function"])
def test_data_in_the_folder_are_read_wherever_they_are_named(owner, folder):
    import torch

    onnx.save(with_data(owner, location="w.bin", offset="4", length="16"), folder / "model.onnx")
    net = onnxport.convert(folder / "model.onnx", to="pytorch")
    assert torch.equal(net(torch.ones(1, 4)).detach(), torch.tensor([[1.0, 2.0, 3.0, 4.0]]))


# -- a sample --------------------------------------------------------------------------------------------------------------


@pytest.mark.pytorch
def test_damaged_files_are_converted_or_refused(tmp_path):
    sample = script("hostile_onnx").sample
    raised = []
    for name, data in sample(tmp_path, 60, seed=1):
        path = tmp_path / "model.onnx"
        path.write_bytes(data)
        try:
            onnxport.convert(path, to="pytorch")
        except OnnxportError:
            continue
        except Exception as error:
            raised.append(f"{name}: {type(error).__name__}: {error}")
    assert not raised
    assert os.listdir(tmp_path) == ["model.onnx"]
