"""If and Loop, and the subgraphs that they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import onnx_ir as ir

from onnxport.graph.guard.deadline import check_time
from onnxport.opset_maps.from_onnx.primitives.tensors import TensorFamily, primitive
from onnxport.opset_maps.from_onnx.values import Int, Tensor

# What a loop runs: it gives whether to go on, the next carried values and the elements to be stacked.
Step: TypeAlias = Callable[..., tuple[Any, ...]]


class Body:
    """A subgraph attribute: called with its inputs it gives the tuple of its outputs, in the namespace that is running.

    Values of enclosing graphs are seen from inside, as in ONNX.

    Attributes:
        inputs: its formal inputs; their names, element types and shapes as far as the model declares them.
        outputs: its results, likewise.
    """

    inputs: Sequence[ir.Value]
    outputs: Sequence[ir.Value]

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs for these inputs."""
        raise NotImplementedError("the walk calls subgraphs")


@dataclass(frozen=True)
class Iteration:
    """What a loop runs.

    Attributes:
        step: called as ``step(iteration, condition, *carried)`` with an INT64 scalar and a bool scalar tensor; gives the next
            condition, the next carried values and `scan_count` elements to be stacked.
        scan_count: how many.
        formal: for each carried value the type that the model declares for it in the body, which may be less than is known of
            the first one: its shape may change from iteration to iteration.
    """

    step: Step
    scan_count: int
    formal: Sequence[ir.Value | None]


class ControlFamily(TensorFamily):
    """Branches and loops."""

    @primitive
    def cond(self, condition: Tensor, then_branch: Body, else_branch: Body) -> tuple[Tensor, ...]:
        """The results of one branch; a condition known at import never comes here."""

    @primitive
    def loop(
        self, trip_count: Int | None, condition: Tensor | None, carried: Sequence[Tensor], body: Iteration
    ) -> tuple[Tensor, ...]:
        """ONNX's Loop.

        Args:
            trip_count: greatest number of iterations; None is no limit.
            condition: scalar bool before the first iteration; None is true.
            carried: values carried from iteration to iteration.
            body: what an iteration computes.

        Returns:
            The carried values at the end, then the scan outputs, stacked along a new axis 0.
        """


def unrolled(
    step: Step, going: bool, limit: int | None, carried: Sequence[Any], scan_count: int
) -> tuple[list[Any], list[list[Any]]]:
    """A loop as its iterations one after the other.

    Args:
        step: called as ``step(i, *carried)``; gives whether to go on, the next carried values and the elements to be stacked.
        going: whether there is a first iteration.
        limit: greatest number of iterations; None is no limit.
        carried: values carried from iteration to iteration.
        scan_count: how many elements each iteration gives to be stacked.

    Returns:
        The carried values at the end, and the elements that each scan output collected.
    """
    values, i = list(carried), 0
    scans: list[list[Any]] = [[] for _ in range(scan_count)]
    while going and (limit is None or i < limit):
        check_time()
        going, *results = step(i, *values)
        values, elements = results[: len(values)], results[len(values) :]
        for scan, item in zip(scans, elements, strict=True):
            scan.append(item)
        i += 1
    return values, scans
