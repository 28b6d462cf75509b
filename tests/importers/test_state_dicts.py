"""The state dict of a module that went to ONNX and came back: keys, order, contents, and other states that load into it."""

import copy
import json
import pickle

import pytest
import torch
from torch import nn

import onnxport

pytestmark = pytest.mark.pytorch


class _Partial(nn.Module):
    """A module whose call leaves a layer, a weight that is tied to it, a token and buffers unused."""

    def __init__(self, width=4):
        super().__init__()
        self.body = nn.Linear(3, 3)
        self.pooler = nn.Linear(width, width)
        self.same = self.pooler.weight
        self.heads = nn.ModuleList([nn.Linear(3, 2), nn.Linear(3, 2)])
        self.again = self.heads
        self.mask_token = nn.Parameter(torch.rand(2, dtype=torch.bfloat16))
        self.register_buffer("positions", torch.arange(3).reshape(1, 3))
        self.register_buffer("scale", torch.rand(3))
        self.register_buffer("empty", torch.zeros(0, 2))
        self.last = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.last(self.body(x))


def _there_and_back(module, x):
    """What a file of the module becomes."""
    return onnxport.convert(onnxport.convert(module, inputs=(x,), validate=False), to="pytorch", validate=False)


def _assert_same_state(ours, theirs):
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for key, value in theirs.state_dict().items():
        assert ours.state_dict()[key].dtype == value.dtype
        torch.testing.assert_close(ours.state_dict()[key], value, rtol=0, atol=0)
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]


def test_small_weights_that_the_exported_call_did_not_use_come_back(tmp_path):
    module, x = _Partial().eval(), torch.randn(2, 3)
    back = _there_and_back(module, x)
    for item in (back, copy.deepcopy(back), pickle.loads(pickle.dumps(back)), _there_and_back(back, x)):
        _assert_same_state(item, module)
        torch.testing.assert_close(item(x), module(x))
    assert back.pooler.weight is back.same


def test_weights_come_back_from_a_program_that_lists_none_of_them():
    """Dynamo's programs have no inputs for what is unused."""
    module, x = _Partial().eval(), torch.randn(2, 3)
    program = torch.export.export(module, (x,), strict=True)
    back = onnxport.convert(onnxport.convert(program, validate=False), to="pytorch", validate=False)
    _assert_same_state(back, module)
    assert back.get_parameter("again.0.weight") is back.get_parameter("heads.0.weight")


def test_large_weights_that_the_exported_call_did_not_use_cost_nothing():
    module, x = _Partial(300).eval(), torch.randn(2, 3)
    model = onnxport.convert(module, inputs=(x,), validate=False)
    assert len(model.proto.SerializeToString()) < 20_000
    assert [key for key in onnxport.convert(model, to="pytorch").state_dict() if "same" in key or "pooler" in key] == []


@pytest.mark.parametrize(
    "content",
    [
        ["FLOAT", [2], "AAAAAA=="],
        ["FLOAT", [-1], "AAAAAA=="],
        ["NOTHING", [1], "AAAAAA=="],
        ["STRING", [1], "AAAAAA=="],
        ["FLOAT", [True], "AAAAAA=="],
        ["FLOAT", [1], "§"],
        ["FLOAT", 1, "AAAAAA=="],
        "FLOAT",
        [[], [1], "AAAAAA=="],
    ],
)
def test_contents_that_someone_else_wrote_are_left_out(content):
    module, x = _Partial().eval(), torch.randn(2, 3)
    model = onnxport.convert(module, inputs=(x,), validate=False)
    parts = json.loads(model.model.metadata_props["onnxport.state"])
    assert parts["contents"]["scale"][0] == "FLOAT"
    parts["contents"]["scale"] = content
    model.model.metadata_props["onnxport.state"] = json.dumps(parts)
    back = onnxport.convert(model, to="pytorch", validate=False)
    torch.testing.assert_close(back(x), module(x))
    assert "scale" not in back.state_dict()


@pytest.mark.parametrize("width", [4, 300])
def test_a_state_dict_loads_strictly_with_keys_that_the_exported_call_did_not_use(width):
    module, other = _Partial(width).eval(), _Partial(width).eval()
    x = torch.randn(2, 3)
    back = _there_and_back(module, x)
    for loaded in (back, copy.deepcopy(back), nn.Sequential(back)[0]):
        loaded.load_state_dict(other.state_dict(), strict=True)
        torch.testing.assert_close(loaded(x), other(x))
    inside = nn.Sequential(back)
    inside.load_state_dict({f"0.{key}": value for key, value in module.state_dict().items()}, strict=True)
    torch.testing.assert_close(back(x), module(x))
    with pytest.raises(RuntimeError, match=r"Unexpected key.*stranger"):
        back.load_state_dict({**module.state_dict(), "stranger": torch.zeros(1)})


class _Cached(nn.Module):
    """Makes a table of a weight once, as transformers of images do with their position biases."""

    def __init__(self):
        super().__init__()
        self.biases, self.table = nn.Parameter(torch.randn(6)), None

    def forward(self, x):
        if self.table is None:
            self.table = self.biases.detach()[torch.tensor([[0, 1, 2], [3, 4, 5]])]
        return x + self.table


def test_a_weight_out_of_which_a_constant_was_made_before_the_trace_loads_with_its_own_values_only():
    module, x = _Cached().eval(), torch.randn(2, 3)
    fresh = onnxport.convert(onnxport.convert(copy.deepcopy(module), inputs=(x,), validate=False), to="pytorch")
    module(x)
    back = onnxport.convert(onnxport.convert(module, inputs=(x,), validate=False), to="pytorch")
    for loaded in (back, copy.deepcopy(back), fresh):
        loaded.load_state_dict(module.state_dict())
        torch.testing.assert_close(loaded(x), module(x))
    with pytest.raises(RuntimeError, match=r"biases has other values.*has not run since"):
        back.load_state_dict(_Cached().state_dict())


class _Ordered(nn.Module):
    """Buffers between parameters, two of them read as numbers while a graph is written."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.register_buffer("scale", torch.rand(4))
        self.register_buffer("order", torch.tensor([1, 0, 3, 2]))
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        return self.head(self.body(x) * self.scale)[:, self.order]


class _Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = _Ordered()
        self.register_buffer("positions", torch.arange(8)[None])
        self.last = nn.Linear(4, 4)
        self.table = nn.Embedding(8, 4)

    def forward(self, x):
        return self.last(self.first(x)) + self.table(self.positions[:, :4]).mean(1)


def test_a_state_dict_keeps_its_order_and_the_buffers_that_the_graph_has_as_numbers():
    module = _Nested().eval()
    x = torch.randn(2, 4)
    back = onnxport.convert(onnxport.convert(module, inputs=(x,)), to="pytorch")
    _assert_same_state(back, module)
    for loaded in (back, copy.deepcopy(back), nn.Sequential(back)[0]):
        other = _Nested().eval()
        loaded.load_state_dict(other.state_dict())
        torch.testing.assert_close(loaded(x), other(x))
    with pytest.raises(RuntimeError, match="first.order has other values than the file"):
        back.load_state_dict({**module.state_dict(), "first.order": torch.tensor([0, 1, 2, 3])})


class _AttentionBehindBranch(nn.Module):
    def forward(self, x):
        chosen = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
        heads = chosen.reshape(x.shape[0], -1, 2, 4).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(heads, heads, heads)


def test_an_attention_is_found_behind_a_branch_that_is_a_module():
    module, x = _AttentionBehindBranch(), torch.randn(2, 3, 8)
    back = onnxport.convert(onnxport.convert(module, inputs=(x,)), to="pytorch")
    assert {"call_module"} <= {node.op for node in back.graph.nodes}
    assert any(node.target is nn.functional.scaled_dot_product_attention for node in back.graph.nodes)
    for item in (x, -x):
        torch.testing.assert_close(back(item), module(item))
