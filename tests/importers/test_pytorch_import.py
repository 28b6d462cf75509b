"""ONNX models as torch modules: calling convention, parameters, layers, shapes, control flow, files."""

import operator

import numpy as np
import onnx_ir as ir
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper, parser
from torch import nn

import onnxport
from onnxport.converters.from_onnx import pytorch
from onnxport.errors import InvalidInputError, UnsupportedOperator
from onnxport.opset_maps.from_onnx.pytorch.tracing import Recorder
from onnxport.opset_maps.from_onnx.pytorch.worlds import Sizes, example

pytestmark = pytest.mark.pytorch


def built(text, initializers=()):
    proto = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]>\n{text}')
    for node in proto.graph.node:  # the parser takes no dots in names
        node.input[:] = [name.replace("__", ".") for name in node.input]
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in initializers)
    return pytorch.build(ir.from_proto(proto))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.bn1(self.conv1(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2)
        self.layer1 = nn.Sequential(Residual(8), Residual(8))
        self.up = nn.ConvTranspose2d(8, 6, 2, stride=2)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        return self.head(self.up(self.layer1(self.stem(x))).mean((2, 3)))


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.lstm = nn.LSTM(8, 6, num_layers=2, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, 3)

    def forward(self, ids):
        return self.head(self.norm(self.lstm(self.embedding(ids))[0]))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, x):
        return self.encoder(x)


MODELS = [
    (Net, lambda n: torch.randn(n, 3, 16, 16), {nn.Conv2d, nn.BatchNorm2d, nn.ConvTranspose2d, nn.Linear}),
    (Text, lambda n: torch.randint(0, 11, (n, 5)), {nn.Embedding, nn.LayerNorm, nn.Linear, nn.LSTM}),
    (Encoder, lambda n: torch.randn(n, 7, 16), {nn.LayerNorm, nn.Linear}),
]


@pytest.mark.parametrize("build, draw, layers", MODELS)
def test_a_module_comes_back_with_its_layers_its_keys_and_its_numbers(build, draw, layers):
    torch.manual_seed(0)
    module = build().eval()
    back = onnxport.convert(onnxport.convert(module, inputs=(draw(2),), validate=False), to="pytorch", validate=False)
    ours, theirs = back.state_dict(), module.state_dict()
    assert {key: value.shape for key, value in ours.items()} == {key: value.shape for key, value in theirs.items()}
    assert layers <= {type(item) for item in back.modules()}
    other = build().eval()
    back.load_state_dict(other.state_dict())
    for size in (2, 5):
        x = draw(size)
        torch.testing.assert_close(back(x), other(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("form", [{}, {"bidirectional": True, "batch_first": True}, {"bias": False}])
def test_a_recurrent_layer_that_is_the_whole_model_keeps_its_keys(kind, form):
    module, other = kind(3, 4, 2, **form).eval(), kind(3, 4, 2, **form).eval()
    x = torch.randn(5, 2, 3)
    back = onnxport.convert(onnxport.convert(module, inputs=(x,), validate=False), to="pytorch", validate=False)
    assert list(back.state_dict()) == list(module.state_dict())
    back.load_state_dict(other.state_dict())
    torch.testing.assert_close(back(x)[0], other(x)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("build, draw, layers", MODELS)
def test_gradients_reach_every_parameter(build, draw, layers):
    module = build().eval()
    back = onnxport.convert(onnxport.convert(module, inputs=(draw(2),), validate=False), to="pytorch", validate=False)
    x = draw(2)
    back(x).square().sum().backward()
    module(x).square().sum().backward()
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(back.get_parameter(name).grad, parameter.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("build, draw", [(Net, MODELS[0][1]), (Encoder, MODELS[2][1])])
def test_an_imported_module_exports_with_a_dynamic_batch(build, draw):
    module = build().eval()
    back = onnxport.convert(onnxport.convert(module, inputs=(draw(2),), validate=False), to="pytorch", validate=False)
    program = torch.export.export(back, (draw(2),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    x = draw(6)
    torch.testing.assert_close(program.module()(x), module(x), rtol=1e-5, atol=1e-5)


def test_an_input_may_be_an_output_and_an_output_may_come_twice():
    net = built("g (float[n] x, float[n] y) => (float[n] x, float[n] z, float[n] z) { z = Add(x, y) }")
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    a, b, c = net(x, y)
    assert a is x
    assert torch.equal(b, torch.tensor([4.0, 7.0]))
    assert torch.equal(c, b)


def test_a_graph_without_inputs_and_inputs_with_initializers():
    nothing = built("g () => (float[2] z) { z = Constant <value_floats=[1.0, 2.0]> () }")
    assert torch.equal(nothing(), torch.tensor([1.0, 2.0]))
    given = built("g (float[2] x, float[2] w) => (float[2] z) { z = Mul(x, w) }", [("w", np.float32([2, 3]))])
    assert torch.equal(given(torch.ones(2)), torch.tensor([2.0, 3.0]))
    assert list(given.state_dict()) == ["w"]


@pytest.mark.parametrize("name", ["a.b.weight", "/model/conv/weight", "training", "onnx::MatMul_12", "x..y", "1.2"])
def test_any_initializer_name_becomes_a_parameter(name):
    node = helper.make_node("Mul", ["x", name], ["z"])
    x, z = (helper.make_tensor_value_info(item, TensorProto.FLOAT, [2]) for item in "xz")
    weight = numpy_helper.from_array(np.float32([2, 3]), name)
    model = helper.make_model(helper.make_graph([node], "g", [x], [z], [weight]), ir_version=10)
    net = pytorch.build(ir.from_proto(model))
    assert torch.equal(net(torch.ones(2)), torch.tensor([2.0, 3.0]))
    assert len(list(net.parameters())) == 1


def test_shape_arithmetic_stays_out_of_the_graph():
    net = built("""g (float[n, 4, m] x) => (float[a, b] z) <int64[1] four = {4}, int64[1] zero = {0}, int64[1] two = {2}> {
        s = Shape(x)  n = Gather(s, zero)  m = Gather(s, two)  wide = Mul(m, four)
        shape = Concat <axis=0> (n, wide)  z = Reshape(x, shape) }""")
    assert net(torch.zeros(3, 4, 5)).shape == (3, 20)
    targets = [node.target for node in net.graph.nodes if node.op == "call_function"]
    assert torch.reshape in targets
    assert not any(target in targets for target in (torch.cat, torch.tensor))
    assert not list(net.children())


def test_what_is_unknown_until_the_model_runs_is_decided_then():
    net = built(
        """g (float x, int64[k] shape) => (float z) { z = Reshape(x, shape) }""".replace("float x", "float[a, b] x")
    )
    assert net(torch.zeros(2, 6), torch.tensor([3, -1])).shape == (3, 4)
    assert net(torch.zeros(2, 6), torch.tensor([0, 3, 2])).shape == (2, 3, 2)


def test_a_loop_with_a_scan_output_and_captured_values():
    net = built("""g (int64 trips, float[2] x, float[2] w) => (float[2] last, float[t, 2] all) {
        keep = Constant <value_int=1> ()  going = Cast <to=9> (keep)
        last, all = Loop (trips, going, x) <body = b (int64 i, bool c, float[2] v) => (bool c2, float[2] v2, float[2] s) {
            c2 = Identity(c)  v2 = Mul(v, w)  s = Identity(v2) }> }""")
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    last, every = net(torch.tensor(3), torch.ones(2), w)
    assert torch.equal(last, torch.tensor([8.0, 27.0]))
    assert torch.equal(every, torch.tensor([[2.0, 3.0], [4.0, 9.0], [8.0, 27.0]]))
    last.sum().backward()
    assert torch.equal(w.grad, torch.tensor([12.0, 27.0]))
    assert net(torch.tensor(0), torch.ones(2), w)[1].shape == (0, 2)


def test_a_branch_is_chosen_when_the_model_runs_or_at_import_if_known():
    text = """g (bool c, float[2] x) => (float[2] z) {{ {made}
        z = If ({name}) <
            then_branch = t () => (float[2] a) {{ a = Neg(x) }}, else_branch = e () => (float[2] b) {{ b = Exp(x) }}> }}"""
    net = built(text.format(made="", name="c"))
    x = torch.tensor([0.0, 1.0])
    assert torch.equal(net(torch.tensor(True), x), -x)
    assert torch.equal(net(torch.tensor(False), x), x.exp())
    known = built(text.format(made="one = Constant <value_int=1> () k = Cast <to=9> (one)", name="k"))
    assert torch.equal(known(torch.tensor(False), x), -x)
    assert not list(known.children())


def test_branches_and_loops_on_tensors_compile_as_one_graph():
    net = built("""g (bool c, int64 trips, float[n] x) => (float[n] z) {
        y = If (c) <then_branch = t () => (float[n] a) { a = Neg(x) }, else_branch = e () => (float[n] b) { b = Exp(x) }>
        z = Loop (trips, c, y) <body = b (int64 i, bool g, float[n] v) => (bool g2, float[n] v2) {
            top = Constant <value_float=40.0> () sum = ReduceSum <keepdims=0> (v) g2 = Less(sum, top) v2 = Mul(v, x) }> }""")
    whole = torch.compile(net, fullgraph=True, backend="eager")
    for flag, trips, x in ((True, 3, [2.0, 3.0]), (True, 9, [2.0, 3.0]), (False, 4, [1.0, 2.0])):
        given = torch.tensor(flag), torch.tensor(trips), torch.tensor(x)
        torch.testing.assert_close(whole(*given), net(*given))


def test_all_unsupported_operators_are_named_at_once():
    with pytest.raises(UnsupportedOperator) as caught:
        built("g (float[n] x) => (float[n] z) { a = Foo(x) b = Bar(x) z = Add(a, b) }")
    assert {item.op for item in caught.value.operators} == {"Foo", "Bar"}


def test_unsigned_types_come_out_as_declared():
    net = built("g (uint32[n] x, uint32[n] y) => (uint32[n] z) { z = Add(x, y) }")
    z = net(torch.tensor([1, 2**32 - 1], dtype=torch.uint32), torch.tensor([2, 1], dtype=torch.uint32))
    assert z.dtype == torch.uint32
    assert z.tolist() == [3, 0]


@pytest.mark.parametrize("suffix", [".pt2", ".pt", ".safetensors"])
def test_saving(tmp_path, suffix):
    net = built("g (float[n, 2] x) => (float[n, 3] z) { z = MatMul(x, w) }", [("w", np.ones((2, 3), np.float32))])
    path = tmp_path / f"net{suffix}"
    pytorch.save(net, path)
    x = torch.ones(5, 2)
    if suffix == ".pt2":
        assert torch.equal(torch.export.load(path).module()(x), net(x))
    elif suffix == ".pt":
        assert list(torch.load(path, weights_only=True)) == ["w"]
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_an_unknown_suffix_is_refused(tmp_path):
    net = built("g (float[n] x) => (float[n] z) { z = Neg(x) }")
    with pytest.raises(InvalidInputError, match=r"\.pt2"):
        pytorch.save(net, tmp_path / "net.xyz")
    assert not list(tmp_path.iterdir())


TIED = """
g (int64[n] ids, float[n, 4] v) => (float[n, 4] e, float[n, 6] scores, float[n, 4] z) {
    turned = Transpose <perm=[1, 0]> (wte__weight)
    rows = Slice (wte__weight, zero, one, zero)
    e = Gather (wte__weight, ids)
    scores = MatMul (v, turned)
    d = LayerNormalization <axis=-1> (v, norm__weight, norm__bias)
    r = Mul (d, rows)
    z = Add (r, norm__bias)
}
"""


def test_a_weight_of_a_layer_that_is_used_elsewhere_too_stays_one():
    rng = np.random.default_rng(0)
    shapes = {"wte.weight": (6, 4), "norm.weight": (4,), "norm.bias": (4,)}
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    net = built(TIED, [*weights.items(), ("zero", np.int64([0])), ("one", np.int64([1]))])
    assert {type(net.wte), type(net.norm)} == {nn.Embedding, nn.LayerNorm}
    assert {*net.state_dict()} == {*weights}
    ids, v = torch.tensor([5, 0, 2]), torch.randn(3, 4)
    e, scores, z = net(ids, v)
    w = {name: torch.from_numpy(item) for name, item in weights.items()}
    assert torch.equal(e, w["wte.weight"][ids])
    torch.testing.assert_close(scores, v @ w["wte.weight"].T)
    normed = nn.functional.layer_norm(v, (4,), w["norm.weight"], w["norm.bias"], 1e-5)
    torch.testing.assert_close(z, normed * w["wte.weight"][:1] + w["norm.bias"])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_path_is_a_layer_and_holds_other_weights(order):
    """As in files of torch.onnx: 'block' has weights of a LayerNorm, and 'block.gate.scale' lies below it."""
    lines = ["d = LayerNormalization <axis=-1> (v, block__weight, block__bias)", "g = Mul (v, block__gate__scale)"]
    text = f"g (float[n, 4] v) => (float[n, 4] z) {{ {lines[order[0]]} {lines[order[1]]} z = Add (d, g) }}"
    rng = np.random.default_rng(0)
    names = ("block.weight", "block.bias", "block.gate.scale")
    weights = {name: rng.standard_normal(4).astype(np.float32) for name in names}
    net = built(text, [*weights.items()])
    assert {*net.state_dict()} == {*weights}
    v = torch.randn(3, 4)
    w = {name: torch.from_numpy(item) for name, item in weights.items()}
    normed = nn.functional.layer_norm(v, (4,), w["block.weight"], w["block.bias"], 1e-5)
    torch.testing.assert_close(net(v), normed + v * w["block.gate.scale"])


def test_an_embedding_counts_negative_indices_from_the_end():
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    net = built("g (int64[n] i) => (float[n, 3] y) { y = Gather(wte__weight, i) }", [("wte.weight", table)])
    assert isinstance(net.wte, nn.Embedding)
    indices = [0, -1, 3, -4]
    np.testing.assert_array_equal(net(torch.tensor(indices)).detach(), table[indices])


POSITIONS = """
g (int64[n, t] ids) => (float[n, t, 4] y) {
    words = Gather (words__weight, ids)
    shape = Shape (ids)
    length = Gather (shape, one)
    rows = Constant <value = int64[1, 6] {0, 1, 2, 3, 4, 5}> ()
    places = Slice (rows, zero, length, one)
    positions = Gather (positions__weight, places)
    y = Add (words, positions)
}
"""


def test_a_constant_cut_at_a_size_of_an_input_is_exported_with_that_size_dynamic(capsys):
    rng = np.random.default_rng(0)
    words, positions = (rng.standard_normal((rows, 4)).astype(np.float32) for rows in (9, 6))
    weights = [("words.weight", words), ("positions.weight", positions)]
    net = built(POSITIONS, [*weights, ("zero", np.int64([0])), ("one", np.int64([1]))])
    ids = torch.tensor([[5, 0, 2], [1, 8, 7]])
    dynamic = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(net, (ids,), dynamic_shapes=dynamic)
    longer = torch.tensor([[3, 4, 5, 6, 0]])
    np.testing.assert_array_equal(program.module()(longer).detach(), words[longer] + positions[:5])
    # The proof tries longer sentences than there are positions; what torch prints of that is no news to the user.
    back = onnxport.convert(net, inputs=(ids,), dynamic_shapes=({0: "n", 1: "t"},))
    assert back.report.passed
    assert capsys.readouterr().err == ""


def test_what_a_constant_gives_where_it_is_cut_at_a_size_is_known_at_import():
    """Files of torch.onnx's older exporter say nothing of the result: unknown, all that follows waited for the call."""
    recorder = Recorder(Sizes())
    ids = recorder.placeholder("ids", example(torch.int64, ("n", "t"), recorder.sizes))
    size = recorder.record(torch.Tensor.size, (ids, 1), {})
    cut = recorder.record(operator.getitem, (torch.zeros(1, 512), (slice(None), slice(None, size))), {})
    assert [tuple(item.shape) for item in cut.worlds] == [(1, n) for n in size.worlds]
