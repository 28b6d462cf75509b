"""Graphs as other tools write them: what people do with them once they are imported."""

import copy
import io

import numpy as np
import onnx
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


def parsed(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> case {text}')


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
