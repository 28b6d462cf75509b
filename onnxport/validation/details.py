"""What the page of a report shows beyond its verdict, as data, and whether a proof is to compute it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_wanted: ContextVar[bool] = ContextVar("onnxport_details", default=False)


@contextmanager
def with_details() -> Iterator[None]:
    """Reports of proofs in the block, in this thread, have `details`."""
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


def details_wanted() -> bool:
    """Whether the proof that runs here is for a page."""
    return _wanted.get()


@dataclass(frozen=True)
class OperatorError:
    """One operator whose result the source knows too.

    Attributes:
        node: name of the ONNX node.
        op: its operator.
        output: the value that was compared.
        local: greatest error when the nodes since the last known values are fed with the source's own.
        allowed: the budget of that.
        propagated: greatest error of the value in the converted model's own run.
        differs: the local error is beyond its budget.
        source_op: the operator of the source framework.
        where: module, file and line in the user's code.
    """

    node: str
    op: str
    output: str
    local: float
    allowed: float
    propagated: float
    differs: bool
    source_op: str = ""
    where: str = ""

    @property
    def share(self) -> float:
        """The share of its budget that the local error takes."""
        return float("inf") if self.differs and not self.allowed else self.local / self.allowed if self.allowed else 0.0


@dataclass(frozen=True)
class Sample:
    """Values of one output on one set of inputs, on both sides.

    Attributes:
        inputs: the set.
        output: its name.
        points: some of its finite elements, spread evenly: the source's value and the converted model's.
        counts: how many elements differ by ``10**(k/2)`` to ``10**((k+1)/2)``, by k, in ascending order.
        equal: how many elements are equal.
        unlike: how many are NaN or infinite on either side and not equal.
    """

    inputs: str
    output: str
    points: tuple[tuple[float, float], ...]
    counts: tuple[tuple[int, int], ...]
    equal: int
    unlike: int


@dataclass(frozen=True)
class Neighbour:
    """A node, or an input of the graph, next to the one that differs first; its value, and where it stands."""

    op: str  # empty for an input of the graph
    name: str
    value: str


@dataclass(frozen=True)
class Neighbourhood:
    """The nodes before and after the one that differs first."""

    before: tuple[Neighbour, ...]
    node: Neighbour
    after: tuple[Neighbour, ...]


@dataclass(frozen=True)
class Details:
    """What is computed only for a page.

    Attributes:
        samples: of each output that holds numbers, on each set of inputs.
        inputs: the set on which the layers ran: the first that failed, else the first.
        layers: every operator whose result the source knows, in the graph's order.
        nodes: how many nodes the graph has; 0 where there is none.
        weights: size of its weights in bytes.
        no_layers: why there are none.
        around: the neighbourhood of the first divergent node.
        latency: seconds of a run of the source and of the converted model on that set, the median of some.
    """

    samples: tuple[Sample, ...] = ()
    inputs: str = ""
    layers: tuple[OperatorError, ...] = ()
    nodes: int = 0
    weights: int = 0
    no_layers: str = ""
    around: Neighbourhood | None = None
    latency: tuple[float, float] | None = None
