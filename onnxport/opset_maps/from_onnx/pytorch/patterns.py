"""Compositions that stand for one call each: a layer normalisation, a Gelu and a silu, a masked softmax, a pool with NaN."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from onnxport.opset_maps.from_onnx.pytorch import functions
from onnxport.opset_maps.from_onnx.pytorch.matching import called, is_parameter, scalar
from onnxport.opset_maps.from_onnx.pytorch.tracing import Recorder
from onnxport.opset_maps.from_onnx.pytorch.windows import MAX_POOL


def _other(node: fx.Node, item: object) -> Any:
    """The other operand of two."""
    return node.args[1] if node.args[0] is item else node.args[0]


def _only_user(node: fx.Node, function: object) -> fx.Node | None:
    """What alone uses a value, where that is a call of the function with two operands."""
    users = list(node.users)
    return users[0] if len(users) == 1 and called(users[0], function) and len(users[0].args) == 2 else None


def _mean(recorder: Recorder, node: object) -> Any:
    """What a value is the mean of over the last axis, kept as one of size 1."""
    if not called(node, torch.mean) or not isinstance(node, fx.Node) or len(node.users) != 1 or len(node.args) != 3:
        return None
    x, axes, kept = node.args
    rank = recorder.ranks.get(x) if isinstance(x, fx.Node) else None
    return x if rank and tuple(axes) in ((rank - 1,), (-1,)) and kept is True else None


def _square(recorder: Recorder, node: object) -> Any:
    """What a value is the square of."""
    if isinstance(node, fx.Node) and len(node.users) == 1:
        if called(node, torch.pow) and scalar(recorder, node.args[1], 1) == 2.0:
            return node.args[0]
        if called(node, operator.mul) and node.args[0] is node.args[1]:
            return node.args[0]
    return None


def _vector(recorder: Recorder, item: object, size: int | None = None) -> torch.Tensor | None:
    """The parameter of one axis that an operand is."""
    content = recorder.attributes.get(str(item.target)) if is_parameter(item) and isinstance(item, fx.Node) else None
    fits = isinstance(content, nn.Parameter) and content.dim() == 1 and size in (None, content.shape[0])
    return content if fits else None


def to_layer_norm(recorder: Recorder, node: fx.Node) -> None:
    """(x - mean) / sqrt(mean of its square + epsilon) * weight + bias is a layer normalisation over the last axis."""
    centred, root = node.args
    if not called(centred, operator.sub) or not called(root, torch.sqrt) or len(root.users) != 1:
        return
    x, mean = centred.args
    total = root.args[0]
    if _mean(recorder, mean) is not x or not called(total, operator.add) or len(total.users) != 1:
        return
    variance, epsilon = total.args[0], scalar(recorder, total.args[1], 1)
    square = _mean(recorder, variance)
    if epsilon is None or square is None or _square(recorder, square) is not centred:
        return
    if set(centred.users) != {node, square}:
        return
    scaled = _only_user(node, operator.mul)
    weight = _other(scaled, node) if scaled is not None else None
    content = _vector(recorder, weight)
    shifted = _only_user(scaled, operator.add) if scaled is not None and content is not None else None
    bias = _other(shifted, scaled) if shifted is not None else None
    if content is None or shifted is None or _vector(recorder, bias, content.shape[0]) is None:
        return
    shapes = recorder.shapes.get(x)
    if shapes is None or any(shape[-1] != content.shape[0] for shape in shapes):
        return
    shifted.target, shifted.args = F.layer_norm, (x, (content.shape[0],), weight, bias, epsilon)
    recorder.drop_unused()


def to_gelu(recorder: Recorder, node: fx.Node) -> None:
    """x (erf(x / sqrt 2) + 1) / 2 is Gelu."""
    inner = node.args[0]
    if len(node.users) != 1 or not isinstance(inner, fx.Node) or len(inner.users) != 1 or len(inner.args) != 2:
        return
    x, number = inner.args[0], scalar(recorder, inner.args[1], 1)
    if not recorder.ranks.get(x):
        return
    root = called(inner, operator.truediv) and number is not None and math.isclose(number, math.sqrt(2), rel_tol=1e-6)
    part = called(inner, operator.mul) and number is not None and math.isclose(number, math.sqrt(0.5), rel_tol=1e-6)
    raised = _only_user(node, operator.add)
    if not (root or part) or raised is None or scalar(recorder, _other(raised, node), 1) != 1.0:
        return
    product = _only_user(raised, operator.mul)
    if product is None:
        return
    other = _other(product, raised)
    last = _only_user(product, operator.mul)
    if other is x and last is not None and scalar(recorder, _other(last, product), 1) == 0.5:
        final = last
    elif called(other, operator.mul) and len(other.users) == 1 and x in other.args:
        final = product if scalar(recorder, _other(other, x), 1) == 0.5 else None
    else:
        final = None
    if final is not None:
        final.target, final.args = functions.gelu, (x,)
        recorder.drop_unused()


def to_silu(recorder: Recorder, node: fx.Node) -> None:
    """x times its sigmoid is silu, one pass over the elements instead of two."""
    x = node.args[0]
    product = _only_user(node, operator.mul)
    if product is not None and recorder.ranks.get(x) and _other(product, node) is x:
        product.target, product.args = F.silu, (x,)
        recorder.graph.erase_node(node)


def to_settled_softmax(recorder: Recorder, node: fx.Node) -> None:
    """Zero where a softmax is NaN, else the softmax, as torch.onnx writes the weights of an attention with a mask."""
    condition, zero, softmax = node.args
    if not called(softmax, F.softmax) or not called(condition, torch.isnan) or condition.args[0] is not softmax:
        return
    if scalar(recorder, zero) != 0.0 or set(softmax.users) != {condition, node} or len(condition.users) != 1:
        return
    node.target, node.args = functions.settled_softmax, tuple(softmax.args)
    recorder.drop_unused()


def to_max_pool(recorder: Recorder, node: fx.Node) -> None:
    """NaN where a pool of where x is NaN is not 0, else the pool of x, is that pool alone: torch's keep NaN themselves.

    The pool may be twice that of half of x, which keeps other runtimes from giving the least number for minus infinity.
    """
    is_marked, nan, result = node.args
    if not called(is_marked, torch.ne) or scalar(recorder, is_marked.args[1]) != 0.0:
        return
    marks, number = is_marked.args[0], scalar(recorder, nan, 0)
    doubled = result if called(result, operator.mul) and scalar(recorder, result.args[1], 0) == 2.0 else None
    pool = result if doubled is None else doubled.args[0]
    if number is None or not math.isnan(number) or not _is_max_pool(marks) or not _is_max_pool(pool):
        return
    halved = pool.args[0] if doubled is not None else None
    if halved is not None and (not called(halved, operator.mul) or scalar(recorder, halved.args[1], 0) != 0.5):
        return
    x = pool.args[0] if halved is None else halved.args[0]
    cast, same_windows = marks.args[0], (marks.target, marks.args[1:]) == (pool.target, pool.args[1:])
    if not same_windows or not called(cast, torch.Tensor.to):
        return
    is_nan = cast.args[0]
    if not called(is_nan, torch.isnan) or is_nan.args[0] is not x:
        return
    if any(item is not None and len(item.users) != 1 for item in (doubled, pool)):
        return
    pool.args = (x, *pool.args[1:])
    node.replace_all_uses_with(pool)
    for item in (node, is_marked, marks, cast, is_nan, doubled, halved):
        if item is not None and not item.users:
            recorder.graph.erase_node(item)


def _is_max_pool(item: object) -> bool:
    return isinstance(item, fx.Node) and not item.kwargs and any(called(item, function) for function in MAX_POOL)
