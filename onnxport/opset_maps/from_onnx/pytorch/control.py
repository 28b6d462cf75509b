"""Control flow and operators that decide when the model runs, as modules of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
import torch
from torch import fx, nn

from onnxport.errors import UnsupportedOperator
from onnxport.graph.guard import check_time
from onnxport.opset_maps.from_onnx.call import Call
from onnxport.opset_maps.from_onnx.primitives.control import Body
from onnxport.opset_maps.from_onnx.pytorch.dtypes import TORCH
from onnxport.opset_maps.from_onnx.pytorch.paths import is_constant
from onnxport.opset_maps.from_onnx.pytorch.tracing import (
    Recorder,
    Sizes,
    Traced,
    dims_of,
    example,
    leaves,
    merged,
)
from onnxport.opset_maps.from_onnx.values import UnknownUntilRun

if TYPE_CHECKING:
    from onnxport.opset_maps.from_onnx.pytorch.namespace import TorchNamespace

# Retraces of a loop body until the types of its carried values are stable; each can only forget.
_MOST_TRACES = 4


def graph_module(recorder: Recorder, name: str) -> fx.GraphModule:
    """The module of a finished graph."""
    root = nn.Module()
    # A layer stands at its path before parameters that lie in it are looked at; else an empty module would hold them.
    for kind in ("call_module", "get_attr"):
        for target in sorted((str(node.target) for node in recorder.graph.nodes if node.op == kind), key=_depth):
            place(root, target, recorder.attributes.get(target))
    found = fx.GraphModule(root, recorder.graph, name)
    _without_constants(found)
    found._deepcopy_hooks.append(_without_constants)
    return found


def _without_constants(module: nn.Module) -> None:
    """Leaves constants of the program out of the state dict: a GraphModule, and its copy, makes every buffer persistent."""
    module._non_persistent_buffers_set.update(name for name in module._buffers if is_constant(name))


def _depth(target: str) -> int:
    return target.count(".")


def place(root: nn.Module, target: str, value: Any) -> None:
    """Sets a parameter, buffer, module or other object at a dotted path."""
    *path, name = target.split(".")
    module = root
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module._modules[part]
    if value is None or name in module._modules or name in module._parameters or name in module._buffers:
        return
    if isinstance(value, nn.Module):
        module.add_module(name, value)
    elif isinstance(value, nn.Parameter):
        module.register_parameter(name, value)
    elif isinstance(value, torch.Tensor):
        module.register_buffer(name, value, persistent=not is_constant(name))
    else:
        setattr(module, name, value)


# Operators whose result has one type, whatever they are given.
_TOLD = {"SequenceLength": torch.int64, "OptionalHasElement": torch.bool}


class RunTimeOperator(nn.Module):
    """One ONNX operator whose rank, element type or attribute values are known only when the model runs."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call
        self.op_type = call.entry.op_type

    def forward(self, *operands: Any) -> Any:
        """The operator's outputs."""
        from onnxport.opset_maps.from_onnx.pytorch.namespace import TorchNamespace

        xp = TorchNamespace()
        xp.run_time_device = next((x.device for x in leaves(list(operands)) if isinstance(x, torch.Tensor)), None)
        result = self.call(xp, list(operands))
        return tuple(_plain(xp, x) for x in result) if isinstance(result, tuple) else _plain(xp, result)

    def extra_repr(self) -> str:
        """Operator name."""
        return self.op_type


def _plain(xp: TorchNamespace, item: Any) -> Any:
    from onnxport.opset_maps.from_onnx.call import to_tensor

    return to_tensor(xp, item)


def defer(
    xp: TorchNamespace, call: Call, operands: Sequence[Any], outputs: Sequence[ir.Value], error: UnknownUntilRun
) -> Any:
    """An operator put off until the model runs."""
    if any(isinstance(item, Body) for item in call.attributes.values()):
        raise UnsupportedOperator(f"{error}; an operator with a subgraph can't wait for that") from error
    recorder = xp.recorder
    assert recorder is not None
    target = recorder.free_target(f"{call.entry.op_type.lower()}_at_run_time")
    recorder.attributes[target] = RunTimeOperator(call)
    node = recorder.graph.call_module(target, tuple(recorder.create_arg(_argument(item)) for item in operands))
    told = _TOLD.get(call.entry.op_type)
    if told is not None:
        return Traced(node, recorder, example(told, (), recorder.sizes))
    whole = Traced(node, recorder, None, opaque=True)
    if call.context.output_count <= 1 and len(outputs) <= 1:
        return whole
    return tuple(recorder.item(whole, index, None) for index in range(len(outputs)))


def _argument(item: Any) -> Any:
    return list(item) if isinstance(item, list) else item


# -- bodies ----------------------------------------------------------------------------------------------------------------


class _Traceable:
    """A body traced in a graph of its own: its module, what it captures, what is known of its outputs."""

    def __init__(
        self, xp: TorchNamespace, name: str, body: Callable[..., Any], inputs: Sequence[tuple[Any, bool]]
    ) -> None:
        outer = xp.recorder
        assert outer is not None
        self.recorder = Recorder(outer.sizes, outer)
        xp.recorder = self.recorder
        try:
            formal = [
                self.recorder.placeholder(f"input_{i}", worlds, opaque=opaque)
                for i, (worlds, opaque) in enumerate(inputs)
            ]
            results = body(*formal)
            self.results = [self._own(item) for item in results]
            self.recorder.finish(list(self.results))
        finally:
            xp.recorder = outer
        self.captures = self.recorder.captures
        self.module = graph_module(self.recorder, name)

    def _own(self, item: Any) -> Any:
        if isinstance(item, Traced) and item.recorder is not self.recorder:
            return self.recorder.capture(item)
        return item

    def worlds(self, index: int) -> Any:
        """What is known of output `index`."""
        item = self.results[index]
        if isinstance(item, Traced):
            return item.worlds
        if isinstance(item, torch.Tensor):
            return (twin := item.detach().to("meta"), twin)
        return None


def _known(item: Any) -> Any:
    if isinstance(item, Traced):
        return item.worlds
    if isinstance(item, torch.Tensor):
        return (twin := item.detach().to("meta"), twin)
    return None


def _opaque(item: Any) -> bool:
    if isinstance(item, Traced):
        return item.opaque
    return not isinstance(item, torch.Tensor)


class Cond(nn.Module):
    """ONNX's If."""

    def __init__(self, then_branch: nn.Module, else_branch: nn.Module) -> None:
        super().__init__()
        self.then_branch = then_branch
        self.else_branch = else_branch

    def forward(self, condition: torch.Tensor, then_values: Sequence[Any], else_values: Sequence[Any]) -> Any:
        """The outputs of the branch that the condition picks."""
        if torch.compiler.is_exporting() and isinstance(condition, torch.Tensor):
            count = len(then_values)
            return torch.cond(
                condition.reshape(()),
                lambda *xs: tuple(x.clone() for x in self.then_branch(*xs[:count])),
                lambda *xs: tuple(x.clone() for x in self.else_branch(*xs[count:])),
                (*then_values, *else_values),
            )
        return self.then_branch(*then_values) if bool(condition) else self.else_branch(*else_values)


def cond(xp: TorchNamespace, condition: Any, then_branch: Body, else_branch: Body) -> tuple[Any, ...]:
    """The results of one branch."""
    if not isinstance(condition, Traced):
        return (then_branch if bool(condition) else else_branch)()
    recorder = xp.recorder
    assert recorder is not None
    then_traced = _Traceable(xp, "Then", then_branch, ())
    else_traced = _Traceable(xp, "Else", else_branch, ())
    count = len(then_traced.results)
    target = recorder.free_target("cond")
    recorder.attributes[target] = Cond(then_traced.module, else_traced.module)
    node = recorder.graph.call_module(
        target,
        (
            recorder.create_arg(condition),
            recorder.create_arg(list(then_traced.captures)),
            recorder.create_arg(list(else_traced.captures)),
        ),
    )
    whole = Traced(node, recorder, None)
    return tuple(
        recorder.item(whole, i, merged(then_traced.worlds(i), else_traced.worlds(i), recorder.sizes))
        for i in range(count)
    )


class Loop(nn.Module):
    """ONNX's Loop.

    Args:
        body: called as ``body(iteration, condition, *carried, *captured)``.
        carried: number of values carried from iteration to iteration.
        conditional: the body's condition may become false.
    """

    def __init__(self, body: nn.Module, carried: int, conditional: bool) -> None:
        super().__init__()
        self.body = body
        self.carried = carried
        self.conditional = conditional

    def forward(
        self, trip_count: Any, condition: Any, carried: Sequence[Any], captured: Sequence[Any], empty: Sequence[Any]
    ) -> list[Any]:
        """The carried values at the end, then the scan outputs, stacked along a new axis 0."""
        values, scans = iterate(
            lambda *xs: self.body(*xs, *captured),
            trip_count,
            condition,
            carried,
            len(empty),
            self.conditional,
            captured,
        )
        return values + [_stacked(scan, shape) for scan, shape in zip(scans, empty, strict=True)]


def iterate(
    body: Callable[..., Any],
    trip_count: Any,
    condition: Any,
    carried: Sequence[Any],
    scan_count: int,
    conditional: bool,
    captured: Sequence[Any] = (),
) -> tuple[list[Any], list[list[Any]]]:
    """The carried values after all iterations, and the items that each scan output collected."""
    limit = int(trip_count) if trip_count is not None else None
    device = next((x.device for x in (*carried, *captured) if isinstance(x, torch.Tensor)), None)
    values = list(carried)
    scans: list[list[Any]] = [[] for _ in range(scan_count)]
    going = condition is None or bool(condition)
    step = 0
    while going and (limit is None or step < limit):
        check_time()
        number = torch.tensor(step, dtype=torch.int64, device=device)
        results = body(number, torch.tensor(True, device=device), *values)
        values = list(results[1 : 1 + len(values)])
        for scan, item in zip(scans, results[1 + len(values) :], strict=True):
            scan.append(item)
        going = not conditional or bool(results[0])
        step += 1
    return values, scans


def _stacked(items: list[Any], empty: Any) -> Any:
    if not items:
        shape, dtype = empty
        return torch.empty((0, *shape), dtype=dtype)
    if isinstance(items[0], torch.Tensor):
        return torch.stack(items)
    return np.stack(items)


def loop(
    xp: TorchNamespace,
    trip_count: Any,
    condition: Any,
    carried: Sequence[Any],
    body: Callable[..., tuple[Any, ...]],
    scan_count: int,
    formal: Sequence[ir.Value | None],
) -> tuple[Any, ...]:
    """ONNX's Loop, its body a module of its own."""
    recorder = xp.recorder
    if recorder is None:
        values, collected = iterate(body, trip_count, condition, carried, scan_count, True)
        return (*values, *(_stacked(scan, ((), torch.float32)) for scan in collected))
    sizes = recorder.sizes
    number = example(torch.int64, (), sizes)
    flag = example(torch.bool, (), sizes)
    known = [_known(item) for item in carried]
    opaque = [_opaque(item) for item in carried]
    for _ in range(_MOST_TRACES):
        entry = [(number, False), (flag, False), *zip(known, opaque, strict=True)]
        traced = _Traceable(xp, "Body", body, entry)
        joined = []
        for index, before in enumerate(known):
            after = traced.worlds(index + 1)
            item = traced.results[index + 1]
            opaque[index] = opaque[index] or (after is None and _opaque(item))
            joined.append(
                before if _agree(before, after) else _declared(merged(before, after, sizes), formal[index], sizes)
            )
        stable = all(a is b for a, b in zip(joined, known, strict=True))
        known = joined
        if stable:
            break
    else:
        known = [None] * len(known)
        opaque = [True] * len(opaque)
        traced = _Traceable(xp, "Body", body, [(number, False), (flag, False), *zip(known, opaque, strict=True)])
    proceed = traced.results[0]
    is_true = isinstance(proceed, torch.Tensor) and bool(proceed.all())
    passed_on = isinstance(proceed, Traced) and proceed.node.op == "placeholder" and proceed.node.name == "input_1"
    target = recorder.free_target("loop")
    recorder.attributes[target] = Loop(traced.module, len(carried), not (is_true or passed_on))
    scans = [traced.worlds(1 + len(carried) + i) for i in range(scan_count)]
    empty = [(tuple(scan[0].shape), scan[0].dtype) if scan is not None else ((), torch.float32) for scan in scans]
    node = recorder.graph.call_module(
        target,
        (
            recorder.create_arg(trip_count),
            recorder.create_arg(condition),
            recorder.create_arg(list(carried)),
            recorder.create_arg(list(traced.captures)),
            recorder.create_arg(empty),
        ),
    )
    whole = Traced(node, recorder, None)
    results = []
    for index, worlds in enumerate(known):
        found = recorder.item(whole, index, worlds)
        found.opaque = opaque[index]
        results.append(found)
    for index, scan in enumerate(scans):
        results.append(recorder.item(whole, len(carried) + index, _scanned(scan, trip_count, sizes)))
    return tuple(results)


def _agree(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return all(x.shape == y.shape and x.dtype == y.dtype for x, y in zip(a, b, strict=True))


def _declared(found: Any, value: ir.Value | None, sizes: Sizes) -> Any:
    if found is not None or value is None or value.dtype is None:
        return found
    dims, held = dims_of(value), TORCH.get(value.dtype)
    return example(held, dims, sizes) if dims is not None and held is not None else None


def _scanned(scan: Any, trip_count: Any, sizes: Sizes) -> Any:
    if scan is None:
        return None
    first = sizes.pair(None)
    return tuple(torch.empty((n, *x.shape), dtype=x.dtype, device="meta") for n, x in zip(first, scan, strict=True))
