"""Calls whose weights are parameters become layers, where the parameters are named as the layer's would be.

``layer1.0.conv1.weight`` and ``layer1.0.conv1.bias`` in one convolution make ``layer1.0.conv1`` a `torch.nn.Conv2d`, so that
a state dict goes from torch to ONNX and back under its own keys. Parameters with other names stay where their names
put them and the call stays a function.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn import init
from torch.overrides import TorchFunctionMode

from onnxport.opset_maps.from_onnx.pytorch import patterns
from onnxport.opset_maps.from_onnx.pytorch.matching import called, constant, is_parameter, scalar
from onnxport.opset_maps.from_onnx.pytorch.tracing import Recorder
from onnxport.opset_maps.from_onnx.values import Ints, Strings

_MAKERS = frozenset((torch.empty, torch.ones, torch.tensor, torch.zeros))
_FILLERS = frozenset(
    (
        *(torch.Tensor.fill_, torch.Tensor.normal_, torch.Tensor.uniform_, torch.Tensor.zero_),
        *(init.constant_, init.kaiming_uniform_, init.normal_, init.ones_, init.uniform_, init.zeros_),
    )
)


class WithoutContent(TorchFunctionMode):
    """In the block layers get no memory of their own and nothing is drawn: their parameters are put in afterwards."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func in _FILLERS:
            return args[0] if args else given["tensor"]
        return func(*args, **{**given, "device": "meta"} if func in _MAKERS else given)


@dataclass(frozen=True)
class _Call:
    """A recorded call with its arguments by the function's parameter names."""

    recorder: Recorder
    arguments: dict[str, Any]

    def tensor(self, name: str) -> torch.Tensor | None:
        """The parameter or buffer given as an argument."""
        item = self.arguments.get(name)
        return self.recorder.attributes[item.target] if isinstance(item, fx.Node) else None

    @property
    def weight(self) -> torch.Tensor:
        """The weight, where the function always takes one."""
        weight = self.tensor("weight")
        assert weight is not None
        return weight

    @property
    def has_bias(self) -> bool:
        """Whether a bias is given."""
        return self.arguments.get("bias") is not None


def recognise(recorder: Recorder) -> None:
    """Rewrites a finished graph: products with a parameter to linear, softmax of products to attention, calls to layers."""
    rewrites: tuple[tuple[Container[object], Callable[[Recorder, fx.Node], None]], ...] = (
        ((torch.matmul,), _turned_back),
        ((torch.matmul,), _to_linear),
        ((F.linear,), _whole),
        ((F.linear,), _with_bias),
        ((operator.truediv,), patterns.to_layer_norm),
        ((torch.erf,), patterns.to_gelu),
        ((torch.sigmoid,), patterns.to_silu),
        ((torch.where,), patterns.to_settled_softmax),
        ((torch.where,), patterns.to_max_pool),
        ((F.softmax,), _to_attention),
        (_LAYERS, _to_layer),
    )
    for functions, rewrite in rewrites:
        for node in list(recorder.graph.nodes):
            if node.op == "call_function" and node.target in functions:
                rewrite(recorder, node)
    for node in reversed(recorder.graph.nodes):
        if node.op == "get_attr" and not node.users:
            recorder.graph.erase_node(node)


_Build = Callable[[_Call], nn.Module | None]


# How torch.onnx calls a weight that it has transposed.
_TRANSPOSED_NAME = re.compile(r"onnx::MatMul_\d+")


def _turned_back(recorder: Recorder, node: fx.Node) -> None:
    """matmul(x, weight) + bias is linear, its weight transposed back and named after the bias, where the name is torch.onnx's."""
    weight, users = node.args[1], list(node.users)
    if not is_parameter(weight) or not _TRANSPOSED_NAME.fullmatch(str(weight.target)) or len(weight.users) != 1:
        return
    if len(users) != 1 or getattr(users[0].target, "__name__", "") != "add" or len(users[0].args) != 2:
        return
    bias = users[0].args[1] if users[0].args[0] is node else users[0].args[0]
    if not is_parameter(bias):
        return
    path, _, role = str(bias.target).rpartition(".")
    content, target = recorder.attributes[str(weight.target)], f"{path}.weight"
    inside = recorder.attributes.inside(path)
    if not path or role != "bias" or path in recorder.attributes or any(key.startswith(target) for key in inside):
        return
    if content.dim() != 2 or recorder.attributes[str(bias.target)].shape != content.shape[1:]:
        return
    own = nn.Parameter(content.detach().t().contiguous())
    node.target, node.args = F.linear, (node.args[0], recorder.attribute(target, own).node)
    recorder.graph.erase_node(weight)


def _to_linear(recorder: Recorder, node: fx.Node) -> None:
    """matmul(x, permute(weight, (1, 0))) is linear(x, weight)."""
    x, turned = node.args
    if not isinstance(turned, fx.Node) or turned.target is not torch.permute or tuple(turned.args[1]) != (1, 0):
        return
    if not is_parameter(turned.args[0]):
        return
    node.target, node.args = F.linear, (x, turned.args[0])
    if not turned.users:
        turned.graph.erase_node(turned)


def _weight_of(recorder: Recorder, node: fx.Node) -> torch.Tensor | None:
    """The parameter that a linear multiplies with."""
    return recorder.attributes[str(node.args[1].target)] if is_parameter(node.args[1]) else None


def _whole(recorder: Recorder, node: fx.Node) -> None:
    """linear of rows that are put back in their places is linear of all axes but the last."""
    rows = node.args[0]
    if len(node.users) != 1 or not called(rows, torch.reshape):
        return
    (back,), weight = node.users, _weight_of(recorder, node)
    x, shapes = rows.args[0], recorder.shapes
    if weight is None or not called(back, torch.reshape) or any(item not in shapes for item in (x, rows, back)):
        return
    for whole, flat, result in zip(shapes[x], shapes[rows], shapes[back], strict=True):
        if len(whole) < 2 or whole[-1:] != flat[-1:] or whole[:-1] != result[:-1]:
            return
        if result[-1:] != weight.shape[:1]:
            return
    node.args = (x, *node.args[1:])
    recorder.shapes[node], recorder.ranks[node] = shapes[back], recorder.ranks[back]
    back.replace_all_uses_with(node)
    node.graph.erase_node(back)
    if not rows.users:
        node.graph.erase_node(rows)


def _with_bias(recorder: Recorder, node: fx.Node) -> None:
    """linear(x, weight) + bias is linear(x, weight, bias)."""
    if any(item is not None for item in node.args[2:]) or len(node.users) != 1:
        return
    (user,) = node.users
    is_add = user.op == "call_function" and getattr(user.target, "__name__", "") == "add"
    if not is_add or len(user.args) != 2 or user.kwargs:
        return
    bias = user.args[1] if user.args[0] is node else user.args[0]
    if not is_parameter(bias) or not is_parameter(node.args[1]):
        return
    vector, weight = recorder.attributes[bias.target], recorder.attributes[node.args[1].target]
    if vector.shape != weight.shape[:1] or vector.dtype != weight.dtype:
        return
    user.target, user.args = F.linear, (*node.args[:2], bias)
    node.graph.erase_node(node)


def _unscaled(recorder: Recorder, item: object) -> tuple[Any, float]:
    """A product with a number as its other factor and that number; a quotient likewise."""
    if isinstance(item, fx.Node) and item.op == "call_function" and len(item.users) == 1 and len(item.args) == 2:
        number = scalar(recorder, item.args[1])
        if number is not None and item.target is operator.mul:
            return item.args[0], number
        if number and item.target is operator.truediv:
            return item.args[0], 1 / number
    return item, 1.0


def _open_mask(recorder: Recorder, item: fx.Node) -> bool:
    """Whether a mask is a constant that leaves every query a key; otherwise torch's attention gives zeros, not NaN."""
    content = constant(recorder, item)
    if content is None or not content.is_floating_point() or not content.dim():
        return False
    return bool((content > -torch.inf).any(-1).all())


def _to_attention(recorder: Recorder, node: fx.Node) -> None:
    """softmax(q k^T scale + mask) v is scaled dot product attention."""
    if len(node.users) != 1:
        return
    (user,) = node.users
    if not called(user, torch.matmul) or user.args[0] is not node or node.args[1] not in (3, -1):
        return
    scores, mask = node.args[0], None
    if called(scores, operator.add) and len(scores.users) == 1 and _open_mask(recorder, scores.args[1]):
        scores, mask = scores.args
    scores, scale = _unscaled(recorder, scores)
    if not called(scores, torch.matmul) or len(scores.users) != 1:
        return
    q, turned = scores.args
    q, q_scale = _unscaled(recorder, q)
    turned, k_scale = _unscaled(recorder, turned)
    if not called(turned, torch.permute) or tuple(turned.args[1]) != (0, 1, 3, 2):
        return
    k, v = turned.args[0], user.args[1]
    if any(not isinstance(item, fx.Node) or recorder.ranks.get(item) != 4 for item in (q, k, v)):
        return
    user.target = F.scaled_dot_product_attention
    user.args = (q, k, v, mask)
    user.kwargs = {"scale": scale * q_scale * k_scale}
    recorder.drop_unused()


def _to_layer(recorder: Recorder, node: fx.Node) -> None:
    names, build = _LAYERS[node.target]
    arguments = {**dict(zip(names, node.args)), **node.kwargs}
    given = {role: arguments[role] for role in _ROLES if arguments.get(role) is not None}
    if not given or not all(is_parameter(item) for item in given.values()):
        return
    paths = _paths(recorder, given)
    if not paths:
        return
    with WithoutContent():
        layer = build(_Call(recorder, arguments))
    if layer is None:
        return
    path = next((path for path in paths if _stands(recorder, path, layer, given)), None)
    if path is None:
        return
    with recorder.graph.inserting_before(node):
        called = recorder.graph.call_module(path, (arguments[names[0]],))
    if node in recorder.ranks:
        recorder.ranks[called] = recorder.ranks[node]
    node.replace_all_uses_with(called)
    recorder.graph.erase_node(node)


def _paths(recorder: Recorder, given: dict[str, fx.Node]) -> list[str]:
    """Paths of modules that have all these parameters under their roles' names, ties among them."""
    of_role = []
    for role, item in given.items():
        target = str(item.target)
        names = (name.rpartition(".") for name in (target, *recorder.paths.tied(target)))
        of_role.append([path for path, _, last in names if path and last == role])
    return [path for path in of_role[0] if all(path in others for others in of_role)]


def _stands(recorder: Recorder, path: str, layer: nn.Module, given: dict[str, fx.Node]) -> bool:
    """Whether a layer stands at a path: one like it that is there already, or it itself with its parameters."""
    existing = recorder.attributes.get(path)
    if existing is not None:
        return _same(existing, layer)
    own = {f"{path}.{name}" for held in (layer._parameters, layer._buffers) for name in held if held[name] is not None}
    if any(key not in own for key in recorder.attributes.inside(path)):
        return False
    for role, item in given.items():
        value = recorder.attributes[str(item.target)]
        if role in layer._parameters:
            if not isinstance(value, nn.Parameter):
                return False
            layer.register_parameter(role, value)
        else:
            layer.register_buffer(role, value.detach() if isinstance(value, nn.Parameter) else value)
    if "num_batches_tracked" in layer._buffers:  # 0 where the model has none
        counter = recorder.attributes.get(f"{path}.num_batches_tracked")
        layer.register_buffer("num_batches_tracked", torch.tensor(0) if counter is None else counter)
    recorder.attributes[path] = layer
    return True


def _same(a: nn.Module, b: nn.Module) -> bool:
    return type(a) is type(b) and a.extra_repr() == b.extra_repr()


def _pairs(value: int | Ints, count: int) -> tuple[int, ...]:
    return (value,) * count if isinstance(value, int) else tuple(value)


def _static(*items: object) -> bool:
    if any(isinstance(item, fx.Node) for item in items):
        return False
    return not any(isinstance(part, fx.Node) for item in items if isinstance(item, (list, tuple)) for part in item)


_DEFAULTS = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1}


def _convolution(kind: type[nn.Module], *, transposed: bool = False) -> _Build:
    def build(call: _Call) -> nn.Module | None:
        weight, groups = call.weight, call.arguments.get("groups", 1)
        form = {
            name: call.arguments.get(name, default)
            for name, default in _DEFAULTS.items()
            if transposed or name != "output_padding"
        }
        if not _static(groups, *form.values()):
            return None
        first, second, *kernel = weight.shape
        channels = (first, second * groups) if transposed else (second * groups, first)
        form = {name: _pairs(item, len(kernel)) for name, item in form.items()}
        return kind(*channels, tuple(kernel), groups=groups, bias=call.has_bias, **form)

    return build


def _linear(call: _Call) -> nn.Module | None:
    weight = call.weight
    return nn.Linear(weight.shape[1], weight.shape[0], bias=call.has_bias) if weight.dim() == 2 else None


def _embedding(call: _Call) -> nn.Module | None:
    return nn.Embedding(*call.weight.shape[:2])


def _batch_norm(call: _Call) -> nn.Module | None:
    mean, x = call.tensor("running_mean"), call.arguments["input"]
    rank = call.recorder.ranks.get(x) if isinstance(x, fx.Node) else None
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}.get(rank or 0)
    absent = any(call.tensor(name) is None for name in ("running_var", "weight", "bias"))
    if kind is None or mean is None or absent:
        return None
    return kind(mean.shape[0], eps=call.arguments["eps"], momentum=call.arguments["momentum"])


def _layer_norm(call: _Call) -> nn.Module | None:
    shape = call.arguments["normalized_shape"]
    if not _static(shape) or call.tensor("weight") is None:
        return None
    return nn.LayerNorm(tuple(shape), eps=call.arguments["eps"], bias=call.has_bias)


def _group_norm(call: _Call) -> nn.Module | None:
    weight = call.tensor("weight")
    if weight is None or call.tensor("bias") is None:
        return None
    return nn.GroupNorm(call.arguments["num_groups"], weight.shape[0], eps=call.arguments["eps"])


def _rms_norm(call: _Call) -> nn.Module | None:
    shape = call.arguments["normalized_shape"]
    return nn.RMSNorm(tuple(shape), eps=call.arguments["eps"]) if _static(shape) else None


def _prelu(call: _Call) -> nn.Module | None:
    return nn.PReLU(call.weight.numel()) if call.weight.dim() == 1 else None


_CONV = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_TRANSPOSED = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
# Arguments that are parameters or buffers of a layer, under the same names.
_ROLES = ("running_mean", "running_var", "weight", "bias")
# For each function its parameters' names, and the layer it becomes.
_LAYERS: dict[Any, tuple[Strings, _Build]] = {
    F.conv1d: (_CONV, _convolution(nn.Conv1d)),
    F.conv2d: (_CONV, _convolution(nn.Conv2d)),
    F.conv3d: (_CONV, _convolution(nn.Conv3d)),
    F.conv_transpose1d: (_TRANSPOSED, _convolution(nn.ConvTranspose1d, transposed=True)),
    F.conv_transpose2d: (_TRANSPOSED, _convolution(nn.ConvTranspose2d, transposed=True)),
    F.conv_transpose3d: (_TRANSPOSED, _convolution(nn.ConvTranspose3d, transposed=True)),
    F.linear: (("input", "weight", "bias"), _linear),
    F.embedding: (("input", "weight"), _embedding),
    F.batch_norm: (
        ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"),
        _batch_norm,
    ),
    F.layer_norm: (("input", "normalized_shape", "weight", "bias", "eps"), _layer_norm),
    F.group_norm: (("input", "num_groups", "weight", "bias", "eps"), _group_norm),
    F.rms_norm: (("input", "normalized_shape", "weight", "eps"), _rms_norm),
    F.prelu: (("input", "weight"), _prelu),
}
