"""Graphs as other tools write them: what people do with them once they are imported."""

import copy
import io

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxport

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

# Each gives a module whose source torch.fx can't trace again: a loop over steps, an infinite constant, a pooling function that
# torch keeps under another name, a branch that the values decide.
PROGRAMS = {
    "steps": """(float[S, N, 4] x, float[1, 9, 4] w, float[1, 9, 3] r) => (float[S, 1, N, 3] y)
        {y = GRU <hidden_size = 3> (x, w, r)}""",
    "infinity": """(float[N, 4] x) => (float[N, 4] y)
        {zero = Constant <value = float {0.0}> () low = Log (zero)
         c = Greater (x, zero) h = Where (c, x, low) y = Softmax <axis = -1> (h)}""",
    "pool": """(float[N, 2, 5, 5] x) => (float[N, 2, 4, 4] y) {y = MaxPool <kernel_shape = [2, 2]> (x)}""",
    "unknown rank": """(float x, int64[r] s) => (float y) {h = Reshape (x, s) y = Softmax <axis = 0> (h)}""",
    "branch": """(float[N, 4] x) => (float[N, 4] y)
        {zero = Constant <value = float {0.0}> () s = ReduceSum <keepdims = 0> (x) c = Greater (s, zero)
         y = If (c) <then_branch = a () => (float[N, 4] p) {p = Neg (x)},
                     else_branch = b () => (float[N, 4] q) {q = Exp (x)}>}""",
    "steps of a loop": """(float[N, 4] x, int64 n) => (float[N, 4] y)
        {t = Constant <value = bool {1}> ()
         y = Loop (n, t, x) <body = g (int64 i, bool c, float[N, 4] h) => (bool d, float[N, 4] k)
            {d = Identity (c) k = Add (h, x)}>}""",
}


def parsed(text, opset=17):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> case {text}')


def drawn(model):
    rng = np.random.default_rng(0)
    for item in model.graph.input:
        if item.name == "s":
            yield torch.tensor([1, 1])
        elif item.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            yield torch.tensor(3)
        else:
            sizes = [dim.dim_value or 2 for dim in item.type.tensor_type.shape.dim]
            yield torch.tensor(rng.standard_normal(sizes), dtype=torch.float32)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pickled_module_is_the_same_program(name):
    model = parsed(PROGRAMS[name])
    module, inputs = onnxport.convert(model, to="pytorch", validate=False), tuple(drawn(model))
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    torch.testing.assert_close(loaded(*inputs), module(*inputs), rtol=0, atol=0)
    assert loaded.code == module.code
    assert loaded.input_names == module.input_names
    assert list(loaded.state_dict()) == list(module.state_dict())


def test_a_state_dict_has_the_files_names_in_the_files_order():
    weights = ["b.self.query.weight", "b.self.query.bias", "a.graph.weight", "a.graph.bias", "b.out.weight"]
    shapes = {"weight": [4, 4], "bias": [4]}
    rng = np.random.default_rng(0)
    tensors = [
        onnx.numpy_helper.from_array(rng.standard_normal(shapes[name.split(".")[-1]]).astype("float32"), name)
        for name in weights
    ]
    model = parsed(
        """(float[N, 4] x) => (float[N, 4] y) <float[4, 4] "b.out.weight", float[4, 4] "a.graph.weight", float[4] "a.graph.bias",
            float[4, 4] "b.self.query.weight", float[4] "b.self.query.bias">
        {g = MatMul (x, "b.out.weight") h = Gemm <transB = 1> (g, "a.graph.weight", "a.graph.bias")
         y = Gemm <transB = 1> (h, "b.self.query.weight", "b.self.query.bias")}"""
    )
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)
    module = onnxport.convert(model, to="pytorch", validate=False)
    assert list(module.state_dict()) == [
        "b.self.query.weight",
        "b.self.query.bias",
        "b.out.weight",
        "a.graph.weight",
        "a.graph.bias",
    ]


class Tied(torch.nn.Module):
    """Weights under two names, buffers that the state dict leaves out, and a norm that has counted batches."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.table = torch.nn.Embedding(7, 4)
        self.register_buffer("places", torch.randn(3, 4), persistent=False)
        self.register_buffer("scale", torch.randn(4))
        self.head = torch.nn.Linear(4, 7)
        self.head.weight = self.table.weight
        self.register_parameter("offset", self.head.bias)

    def forward(self, ids):
        x = self.table(ids) * self.scale + self.places
        return self.head(self.norm(x.transpose(1, 2)).transpose(1, 2)) + self.offset


def test_a_state_dict_comes_back_with_ties_and_buffers_as_they_were():
    module = Tied()
    ids = torch.randint(0, 7, (2, 3))
    module(ids)
    module.eval()
    hub = onnxport.convert(module, inputs=(ids,), validate=False)
    for made in (onnxport.convert(hub, to="pytorch"), copy.deepcopy(onnxport.convert(hub, to="pytorch"))):
        theirs, ours = module.state_dict(), made.state_dict()
        assert list(ours) == list(theirs)
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
        assert [name for name, _ in made.named_parameters()] == [name for name, _ in module.named_parameters()]
        assert made.head.weight is made.table.weight
        assert type(made.head) is torch.nn.Linear
        other = Tied().eval()
        other.places = module.places
        made.load_state_dict(other.state_dict(), strict=True)
        torch.testing.assert_close(made(ids), other(ids), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "text",
    ['{"keys": [["a", "w"], ["w.b", "w"]]}', '{"keys": [["__import__(0)", "w"]]}', '{"keys": [[1, 2]]}', "[[", "7"],
)
def test_what_a_file_tells_of_its_state_dict_cannot_break_the_module(text):
    model = parsed("(float[N, 2] x) => (float[N, 2] y) <float[2] w = {2.0, 3.0}> {y = Mul (x, w)}")
    onnx.helper.set_model_props(model, {"onnxport.state": text})
    module = onnxport.convert(model, to="pytorch")
    assert "import" not in module.code
    torch.testing.assert_close(module(torch.ones(1, 2)), torch.tensor([[2.0, 3.0]]))


RECURRENT = [
    ("LSTM", 4, torch.nn.LSTM, ""),
    ("GRU", 3, torch.nn.GRU, ", linear_before_reset = 1"),
    ("RNN", 1, torch.nn.RNN, ""),
]


@pytest.mark.parametrize("kind, gates, layer, more", RECURRENT)
def test_recurrent_weights_of_torch_onnx_become_those_of_a_layer(kind, gates, layer, more):
    rng = np.random.default_rng(0)
    shapes = [(2, gates * 4, 3), (2, gates * 4, 4), (2, gates * 8)]
    names = [f"onnx::{kind}_{i}" for i in range(3)]
    declared = ", ".join(f'float{list(shape)} "{name}"' for name, shape in zip(names, shapes, strict=True))
    model = parsed(
        f"""(float[5, N, 3] x) => (float[5, 2, N, 4] y) <{declared}>
        {{y = {kind} <hidden_size = 4, direction = "bidirectional"{more}> (x, "{names[0]}", "{names[1]}", "{names[2]}")}}"""
    )
    del model.graph.initializer[:]
    arrays = (rng.standard_normal(shape).astype("float32") for shape in shapes)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for a, n in zip(arrays, names, strict=True))
    module = onnxport.convert(model, to="pytorch", validate=False)
    assert type(getattr(module, kind.lower())) is layer
    assert set(module.state_dict()) == {
        f"{kind.lower()}.{name}" for name in layer(3, 4, bidirectional=True).state_dict()
    }
    x = rng.standard_normal((5, 2, 3)).astype("float32")
    wanted = onnxport.convert(model, validate=False)(x)
    torch.testing.assert_close(module(torch.from_numpy(x)), torch.from_numpy(wanted), rtol=1e-5, atol=1e-5)


def test_a_transposed_weight_of_torch_onnx_is_turned_back():
    linear = torch.nn.Linear(3, 2)
    model = parsed(
        """(float[N, 4, 3] x) => (float[N, 4, 2] y) <float[3, 2] "onnx::MatMul_7", float[2] "head.fc.bias">
        {h = MatMul (x, "onnx::MatMul_7") y = Add ("head.fc.bias", h)}"""
    )
    del model.graph.initializer[:]
    weights = {"onnx::MatMul_7": linear.weight.detach().T.numpy(), "head.fc.bias": linear.bias.detach().numpy()}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(item, name) for name, item in weights.items())
    module = onnxport.convert(model, to="pytorch", validate=False)
    assert type(module.head.fc) is torch.nn.Linear
    assert set(module.state_dict()) == {"head.fc.weight", "head.fc.bias"}
    x = torch.randn(2, 4, 3)
    torch.testing.assert_close(module(x), linear(x))


WRITTEN_OUT = """(float[N, 3, 4] x) => (float[N, 3, 4] y)
    <float[4] "norm.weight" = {{1.0, 2.0, -1.0, 0.5}}, float[4] "norm.bias" = {{0.1, 0.2, 0.3, 0.4}}>
    {{two = Constant <value_float = 2.0> () eps = Constant <value_float = 0.01> () root = Constant <value_float = {root}> ()
      one = Constant <value_float = 1.0> () half = Constant <value_float = 0.5> ()
      m = ReduceMean <axes = [{axis}]> (x) c = Sub (x, m) p = Pow (c, two) v = ReduceMean <axes = [{axis}]> (p) e = Add (v, eps)
      s = Sqrt (e) d = Div (c, s) w = Mul (d, "norm.weight") n = Add (w, "norm.bias")
      r = Div (n, root) f = Erf (r) g = Add (f, one) h = Mul (n, g) y = Mul (h, half)}}"""


@pytest.mark.parametrize("axis, root, recognised", [(-1, 2**0.5, True), (2, 2**0.5, True), (1, 1.5, False)])
def test_a_norm_and_a_gelu_that_old_opsets_write_out_are_themselves(axis, root, recognised):
    model = parsed(WRITTEN_OUT.format(axis=axis, root=root), opset=14)
    module = onnxport.convert(model, to="pytorch", validate=False)
    assert (type(module.norm) is torch.nn.LayerNorm) is recognised
    assert ("gelu" in module.code) is recognised
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    wanted = onnxport.convert(model, validate=False)(x)
    torch.testing.assert_close(module(torch.from_numpy(x)), torch.from_numpy(wanted), rtol=1e-5, atol=1e-5)


def test_weights_of_a_masked_attention_have_gradients_where_a_row_is_masked_whole():
    model = parsed(
        """(float[N, 3] x, float[3, 3] mask) => (float[N, 3] y)
        <float[3, 3] "fc.weight" = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float val_0 = {0.0}>
        {h = MatMul (x, "fc.weight") a = Add (h, mask) s = Softmax <axis = 1> (a) n = IsNaN (s) y = Where (n, val_0, s)}"""
    )
    module = onnxport.convert(model, to="pytorch", validate=False)
    assert [name for name, _ in module.named_parameters()] == ["fc.weight"]
    mask = np.zeros((3, 3), "float32")
    mask[1] = -np.inf
    for x in (np.ones((3, 3), "float32"), np.array([[1, 2, 3], [0, 0, 0], [np.nan, 1, np.inf]], "float32")):
        result = module(torch.from_numpy(x), torch.from_numpy(mask))
        wanted = onnxport.convert(model, validate=False)(x, mask)
        torch.testing.assert_close(result, torch.from_numpy(wanted), rtol=1e-6, atol=1e-6, equal_nan=True)
    module(torch.ones(3, 3), torch.from_numpy(mask)).square().sum().backward()
    assert bool(torch.isfinite(module.fc.weight.grad).all())


@pytest.mark.parametrize("name, trained", [("val_3", False), ("h/Constant_2_output_0", False), ("logit_scale", True)])
def test_numbers_of_a_program_are_no_parameters(name, trained):
    model = parsed(
        f"""(float[N, 3] x) => (float[N, 3] y) <float "{name}" = {{3.0}}, float limit = {{0.5}}, float cube = {{3.0}}>
        {{a = Mul (x, "{name}") b = Pow (a, cube) c = Less (x, limit) y = Where (c, b, x)}}"""
    )
    module = onnxport.convert(model, to="pytorch", validate=False)
    assert [key for key, _ in module.named_parameters()] == ([name] if trained else [])
    assert list(module.state_dict()) == ([name] if trained else [])
    x = torch.tensor([[-1.0, 0.25, 2.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(module(x).sum(), x)
    torch.testing.assert_close(gradient, torch.tensor([[81.0, 81 * 0.25**2, 1.0]]))


# Nodes that stand before what they read: onnxruntime sorts them.
UNSORTED = {
    "nodes": "(float[N, 4] x) => (float[N, 4] y) {y = Add (a, b) b = Sigmoid (a) a = Relu (x)}",
    "a branch": """(float[N, 4] x) => (float[N, 4] y)
        {zero = Constant <value = float {0.0}> () s = ReduceSum <keepdims = 0> (x) c = Greater (s, zero)
         h = If (c) <then_branch = a () => (float[N, 4] p) {p = Neg (late)},
                     else_branch = b () => (float[N, 4] q) {q = Abs (late)}>
         late = Exp (x) y = Abs (h)}""",
}


@pytest.mark.parametrize("name", UNSORTED)
@pytest.mark.parametrize("to", ["pytorch", "onnx"])
def test_nodes_in_any_order(tmp_path, name, to):
    model, given = parsed(UNSORTED[name]), np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": given})[0]
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    for source in (model, path):
        converted = onnxport.convert(source, to=to)
        got = converted(torch.tensor(given)).numpy() if to == "pytorch" else converted(given)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    onnx.checker.check_model(onnxport.convert(path).proto)
    assert model == parsed(UNSORTED[name])  # the caller's message stays as it is
