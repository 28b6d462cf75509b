"""Blocks that stay functions, and where parameters and nodes of a file come from."""

import pickle
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxport
from onnxport.errors import InvalidInputError

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
nn = torch.nn


class Block(nn.Module):
    def __init__(self, scale=2.0):
        super().__init__()
        self.norm, self.linear, self.drop, self.scale = nn.LayerNorm(8), nn.Linear(8, 8), nn.Dropout(), scale

    def forward(self, x, heads):
        y = self.linear(self.norm(x)).relu().reshape(x.shape[0], heads, -1).flatten(1)
        y = self.drop(y)
        y += 1
        y[:, 0] *= self.scale
        return x + y


class Tower(nn.Module):
    """Three equal blocks, one that differs, and one that is called twice."""

    def __init__(self):
        super().__init__()
        self.again = Block()
        self.layers = nn.ModuleList([Block(), Block(), Block(), Block(scale=3.0)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x, x.shape[1] // 4)
        return self.again(self.again(x, 2), 2)


class Hidden(nn.Module):
    """Every block's result is an output; a size that the trace asks for but once is read in all of them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        states = [x]
        for layer in self.layers:
            states.append(layer(states[-1], 2) * x.shape[0])
        return states


class View(nn.Module):
    def forward(self, x):
        return x[:, :2]


class Written(nn.Module):
    """What a block shows is written to outside of it: the write-back belongs to the block's slice."""

    def __init__(self):
        super().__init__()
        self.view = View()

    def forward(self, x):
        y = x + 1
        part = self.view(y)
        part += part.sin()
        return y * 2


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x) - self.drop(x)


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)


def runs_alone(model, live, x):
    """The file in onnxruntime as anyone opens it, against the live model."""
    proto = model.proto
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    results = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    expected = live(x)
    expected = expected if isinstance(expected, list) else [expected]
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, value.detach().numpy(), rtol=1e-5, atol=1e-5)
    return Counter(node.op_type for node in proto.graph.node), {item.name: item for item in proto.functions}


@pytest.mark.parametrize("wanted", [[Block], ["Block"], "auto"], ids=str)
def test_equal_blocks_share_a_function(wanted):
    torch.manual_seed(0)
    live, x = Tower().eval(), torch.randn(3, 8)
    model = onnxport.convert(live, inputs=(x,), functions=wanted, validate=wanted == "auto")
    calls, functions = runs_alone(model, live, torch.randn(5, 8))
    assert calls == {"Block": 5, "Block_1": 1}
    weights = ["norm.weight", "norm.bias", "linear.weight", "linear.bias"]
    assert {name: list(item.input) for name, item in functions.items()} == {
        "Block": ["input", *weights],
        "Block_1": ["input", *weights],
    }
    props = {item.key: item.value for item in functions["Block"].metadata_props}
    assert props == {"onnxport.class": f"{Block.__module__}.Block", "onnxport.module": "layers.0"}
    places = {item.value for node in functions["Block"].node for item in node.metadata_props if "module" in item.key}
    assert places >= {"norm", "linear"}


@pytest.mark.parametrize("opset", [13, 18, 26])
def test_nested_functions_at_every_opset(opset):
    torch.manual_seed(0)
    live, x = encoder().eval(), torch.randn(2, 5, 8)
    shapes = {"src": {0: "batch", 1: "length"}}
    wanted = [nn.TransformerEncoderLayer, "Linear"]
    model = onnxport.convert(
        live, inputs=(x,), dynamic_shapes=shapes, functions=wanted, target_opset=opset, validate=False
    )
    calls, functions = runs_alone(model, live, torch.randn(3, 7, 8))
    assert calls["TransformerEncoderLayer"] == 2
    assert [node.op_type for node in functions["TransformerEncoderLayer"].node].count("Linear") == 2
    assert model.model.ir_version >= 8


def test_functions_are_read_back():
    torch.manual_seed(0)
    live, x = encoder().eval(), torch.randn(2, 5, 8)
    model = onnxport.convert(live, inputs=(x,), functions="auto", validate=False)
    back = onnxport.convert(model, "pytorch", validate=False)
    assert list(back.state_dict()) == list(live.state_dict())
    np.testing.assert_allclose(back(x).detach().numpy(), live(x).detach().numpy(), rtol=1e-5, atol=1e-5)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again(x.numpy()), model(x.numpy()))


def test_results_and_sizes_that_others_read():
    torch.manual_seed(0)
    live, x = Hidden().eval(), torch.randn(3, 8)
    model = onnxport.convert(live, inputs=(x,), dynamic_shapes={"x": {0: "batch"}}, functions=[Block])
    calls, functions = runs_alone(model, live, torch.randn(4, 8))
    assert calls["Block"] == 2
    assert len(functions) == 1


def test_what_is_no_one_piece_stays_inline():
    live, x = Written().eval(), torch.randn(3, 4)
    model = onnxport.convert(live, inputs=(x,), functions=[View])
    _, functions = runs_alone(model, live, x)
    assert not functions
    assert any("left inline: View at 'view'" in note for note in model.notes)


def test_calls_that_draw_stay_apart():
    with pytest.warns(onnxport.UnprovedWarning):
        model = onnxport.convert(Noisy().train(), inputs=(torch.ones(64),), functions=[nn.Dropout])
    assert [node.op_type for node in model.proto.graph.node].count("Dropout") == 2
    assert np.count_nonzero(model(np.ones(64, np.float32)))


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (["Blok"], r"calls no module of class 'Blok'; did you mean Block"),
        ("Block", r"functions='Block': 'auto', or a list of classes"),
        (Block, r"a list of classes such as functions=\[Block\]"),
        ([], "functions is empty"),
        ([3], r"functions\[0\] is 3"),
    ],
    ids=str,
)
def test_refused(wanted, says):
    with pytest.raises(InvalidInputError, match=says):
        onnxport.convert(Tower().eval(), inputs=(torch.randn(3, 8),), functions=wanted, validate=False)


def test_no_function_on_the_way_to_another_framework():
    with pytest.raises(InvalidInputError, match="functions= means nothing"):
        onnxport.convert(Tower(), "tensorflow", inputs=(torch.randn(3, 8),), functions="auto")


def test_a_wrong_node_of_a_function_is_located(tmp_path):
    live, x = Tower().eval(), torch.randn(3, 8)
    model = onnxport.convert(live, inputs=(x,), functions=[Block], validate=False)
    proto = model.proto
    next(node for node in proto.functions[0].node if node.op_type == "Relu").op_type = "Neg"
    onnx.save(proto, tmp_path / "wrong.onnx")
    divergence = onnxport.validate(live, tmp_path / "wrong.onnx", inputs=(x,)).divergence
    assert divergence is not None
    assert divergence.where.startswith("'layers.0'")


def test_initializers_stand_in_the_order_of_the_state_dict(tmp_path):
    live = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 64)).eval()
    model = onnxport.convert(live, inputs=(torch.randn(2, 4, 8, 8),), validate=False)
    model.save(tmp_path / "a.onnx")
    model.save(tmp_path / "b.onnx", external_data=True)
    own = [name for name in live.state_dict() if not name.endswith("num_batches_tracked")]
    for name in ("a.onnx", "b.onnx"):
        written = [item.name for item in onnx.load(tmp_path / name).graph.initializer]
        assert [item for item in written if item in own] == own
    assert all(node.metadata_props.get("onnxport.module") for node in model.model.graph)
