"""If and Loop in torch: each subgraph is a module of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import onnx_ir as ir
import torch
from torch import nn

from onnxport.opset_maps.from_onnx.primitives.control import Body, Iteration, unrolled
from onnxport.opset_maps.from_onnx.pytorch.dtypes import TORCH
from onnxport.opset_maps.from_onnx.pytorch.tensors import TorchTensorFamily
from onnxport.opset_maps.from_onnx.pytorch.traced import TensorWorlds, TorchTensor, Traced, twins
from onnxport.opset_maps.from_onnx.pytorch.tracing import Recorder, graph_module
from onnxport.opset_maps.from_onnx.pytorch.worlds import Sizes, dims_of, example, merged
from onnxport.opset_maps.from_onnx.values import Int

# Retraces of a loop body until the types of its carried values are stable; each can only forget.
_MOST_TRACES = 4


class _Traceable:
    """A body traced in a graph of its own: its module, what it captures, what is known of its outputs."""

    def __init__(
        self, xp: TorchTensorFamily, name: str, body: Callable[..., Any], inputs: Sequence[tuple[Any, bool]]
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

    def _own(self, item: object) -> Any:
        if isinstance(item, Traced) and item.recorder is not self.recorder:
            return self.recorder.capture(item)
        return item

    def worlds(self, index: int) -> Any:
        """What is known of output `index`."""
        return _known(self.results[index])


def _known(item: object) -> Any:
    if isinstance(item, Traced):
        return item.worlds
    if isinstance(item, torch.Tensor):
        return twins(item)
    return None


def _opaque(item: object) -> bool:
    if isinstance(item, Traced):
        return item.opaque
    return not isinstance(item, torch.Tensor)


def _with_tensors(values: Sequence[Any], tensors: Sequence[torch.Tensor]) -> list[Any]:
    """The values with these in place of their tensors."""
    rest = iter(tensors)
    return [next(rest) if torch.is_tensor(x) else x for x in values]


def _own(x: torch.Tensor) -> torch.Tensor:
    """A copy, laid out in order: torch's operators take results that are no inputs, laid out alike in both branches."""
    return x.clone(memory_format=torch.contiguous_format)


class Cond(nn.Module):
    """ONNX's If."""

    def __init__(self, then_branch: nn.Module, else_branch: nn.Module) -> None:
        super().__init__()
        self.then_branch = then_branch
        self.else_branch = else_branch

    def forward(self, condition: torch.Tensor, then_values: Sequence[Any], else_values: Sequence[Any]) -> Any:
        """The outputs of the branch that the condition picks."""
        if torch.compiler.is_compiling() and isinstance(condition, torch.Tensor):
            # torch's operator takes tensors alone; sizes and devices stay with the branch.
            given = [tuple(x for x in values if torch.is_tensor(x)) for values in (then_values, else_values)]
            count = len(given[0])
            return torch.cond(
                condition.reshape(()),
                lambda *xs: tuple(_own(x) for x in self.then_branch(*_with_tensors(then_values, xs[:count]))),
                lambda *xs: tuple(_own(x) for x in self.else_branch(*_with_tensors(else_values, xs[count:]))),
                (*given[0], *given[1]),
            )
        return self.then_branch(*then_values) if bool(condition) else self.else_branch(*else_values)


class Loop(nn.Module):
    """ONNX's Loop.

    Args:
        body: called as ``body(iteration, condition, *carried, *captured)``.
        conditional: the body's condition may become false.
    """

    def __init__(self, body: nn.Module, conditional: bool) -> None:
        super().__init__()
        self.body = body
        self.conditional = conditional

    def forward(
        self, trips: Int | None, condition: TorchTensor | None, carried: list[Any], outer: list[Any], empty: list[Any]
    ) -> list[Any]:
        """The carried values at the end, then the scan outputs, stacked along a new axis 0."""

        def body(*xs: torch.Tensor) -> Any:
            return self.body(*xs, *outer)

        decided = isinstance(trips, int) and condition is None and not self.conditional
        if torch.compiler.is_compiling() and not decided and not empty and all(map(torch.is_tensor, carried)):
            return self._as_one_operator(trips, condition, carried, outer)
        values, scans = _iterated(body, trips, condition, carried, len(empty), self.conditional, outer)
        return values + [_stacked(scan, shape) for scan, shape in zip(scans, empty, strict=True)]

    def _as_one_operator(
        self, trips: Int | None, condition: TorchTensor | None, carried: list[Any], outer: list[Any]
    ) -> list[Any]:
        """The carried values of a loop whose end is known only when it runs, for tracers: torch's own loop."""
        device = next((x.device for x in (*carried, *outer) if isinstance(x, torch.Tensor)), None)
        limit = torch.as_tensor((1 << 63) - 1 if trips is None else trips, dtype=torch.int64, device=device).reshape(())
        going = torch.as_tensor(True if condition is None else condition, dtype=torch.bool, device=device).reshape(())

        def proceeds(i: torch.Tensor, flag: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
            return flag & (i < limit)

        def step(i: torch.Tensor, flag: torch.Tensor, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
            proceed, *results = self.body(i, torch.ones_like(flag), *values, *outer)
            proceed = proceed.reshape(()).clone() if self.conditional else flag.clone()
            return (i + 1, proceed, *map(_own, results))

        start = torch.zeros((), dtype=torch.int64, device=device), going.clone()
        _, _, *values = torch.while_loop(proceeds, step, (*start, *map(_own, carried)))
        return list(values)


def _iterated(
    body: Callable[..., Any],
    trip_count: Int | None,
    condition: TorchTensor | None,
    carried: Sequence[Any],
    scan_count: int,
    conditional: bool,
    captured: Sequence[Any] = (),
) -> tuple[list[Any], list[list[Any]]]:
    """The carried values after all iterations, and the items that each scan output collected."""
    limit = None if trip_count is None else int(cast(int, trip_count))  # a number, or a tensor that holds one
    device = next((x.device for x in (*carried, *captured) if isinstance(x, torch.Tensor)), None)

    def step(i: int, *values: Any) -> tuple[Any, ...]:
        number, flag = torch.tensor(i, dtype=torch.int64, device=device), torch.tensor(True, device=device)
        proceed, *results = body(number, flag, *values)
        return (not conditional or bool(proceed), *results)

    return unrolled(step, condition is None or bool(condition), limit, carried, scan_count)


def _stacked(items: list[Any], empty: tuple[tuple[int, ...], torch.dtype]) -> Any:
    if not items:
        shape, dtype = empty
        return torch.empty((0, *shape), dtype=dtype)
    if isinstance(items[0], torch.Tensor):
        return torch.stack(items)
    return np.stack(items)


def _agree(a: TensorWorlds | None, b: TensorWorlds | None) -> bool:
    if a is None or b is None:
        return a is b
    return all(x.shape == y.shape and x.dtype == y.dtype for x, y in zip(a, b, strict=True))


def _declared(worlds: TensorWorlds | None, value: ir.Value | None, sizes: Sizes) -> TensorWorlds | None:
    if worlds is not None or value is None or value.dtype is None:
        return worlds
    dims, held = dims_of(value), TORCH.get(value.dtype)
    return example(held, dims, sizes) if dims is not None and held is not None else None


def _scanned(scan: TensorWorlds | None, sizes: Sizes) -> Any:
    if scan is None:
        return None
    first = sizes.pair(None)
    return tuple(torch.empty((n, *x.shape), dtype=x.dtype, device="meta") for n, x in zip(first, scan, strict=True))


class TorchControlFamily(TorchTensorFamily):
    """Branches and loops; each body is a module of its own."""

    def cond(self, condition: TorchTensor | None, then_branch: Body, else_branch: Body) -> tuple[Any, ...]:
        if not isinstance(condition, Traced):
            return (then_branch if bool(condition) else else_branch)()
        recorder = self.recorder
        assert recorder is not None
        then_traced = _Traceable(self, "Then", then_branch, ())
        else_traced = _Traceable(self, "Else", else_branch, ())
        module = Cond(then_traced.module, else_traced.module)
        whole = recorder.module("cond", module, (condition, then_traced.captures, else_traced.captures), None)
        return tuple(
            recorder.item(whole, i, merged(then_traced.worlds(i), else_traced.worlds(i), recorder.sizes))
            for i in range(len(then_traced.results))
        )

    def loop(
        self, trip_count: Int | None, condition: TorchTensor | None, carried: Sequence[Any], body: Iteration
    ) -> tuple[Any, ...]:
        recorder = self.recorder
        if recorder is None:
            values, collected = _iterated(body.step, trip_count, condition, carried, body.scan_count, True)
            return (*values, *(_stacked(scan, ((), torch.float32)) for scan in collected))
        sizes = recorder.sizes
        number = example(torch.int64, (), sizes)
        flag = example(torch.bool, (), sizes)
        known = [_known(item) for item in carried]
        opaque = [_opaque(item) for item in carried]
        for _ in range(_MOST_TRACES):
            entry = [(number, False), (flag, False), *zip(known, opaque, strict=True)]
            traced = _Traceable(self, "Body", body.step, entry)
            joined = []
            for index, before in enumerate(known):
                after = traced.worlds(index + 1)
                item = traced.results[index + 1]
                opaque[index] = opaque[index] or (after is None and _opaque(item))
                joined.append(
                    before
                    if _agree(before, after)
                    else _declared(merged(before, after, sizes), body.formal[index], sizes)
                )
            stable = all(a is b for a, b in zip(joined, known, strict=True))
            known = joined
            if stable:
                break
        else:
            known = [None] * len(known)
            opaque = [True] * len(opaque)
            traced = _Traceable(
                self, "Body", body.step, [(number, False), (flag, False), *zip(known, opaque, strict=True)]
            )
        proceed = traced.results[0]
        is_true = isinstance(proceed, torch.Tensor) and bool(proceed.all())
        passed_on = isinstance(proceed, Traced) and proceed.node.op == "placeholder" and proceed.node.name == "input_1"
        module = Loop(traced.module, not (is_true or passed_on))
        scans = [traced.worlds(1 + len(carried) + i) for i in range(body.scan_count)]
        empty = [(tuple(scan[0].shape), scan[0].dtype) if scan is not None else ((), torch.float32) for scan in scans]
        whole = recorder.module("loop", module, (trip_count, condition, list(carried), traced.captures, empty), None)
        results = []
        for index, worlds in enumerate(known):
            result = recorder.item(whole, index, worlds)
            result.opaque = opaque[index]
            results.append(result)
        results += [recorder.item(whole, i, _scanned(scan, sizes)) for i, scan in enumerate(scans, len(carried))]
        return tuple(results)
