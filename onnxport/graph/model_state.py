"""What the builders of all graphs of one model share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnxport.graph.names import NameAuthority
from onnxport.graph.provenance import Source
from onnxport.graph.result_types import Expected


@dataclass
class ModelState:
    """What all graphs of one model share.

    Attributes:
        opset: target version of ai.onnx.
        ml_opset: target version of ai.onnx.ml.
        names: the naming authority.
        constants: each constant by its type, shape and content.
        initializers: constants and parameters in the order in which they were added.
        domains: versions of the domains beside ai.onnx that nodes are of.
        arrays: what constants hold.
        source: the source operator being lowered.
        results: the types of its results in the source.
        metadata: what its nodes carry of it.
        lower_call: what `OpBuilder.call` does.
    """

    opset: int
    ml_opset: int
    names: NameAuthority = field(default_factory=NameAuthority)
    constants: dict[tuple[Hashable, ...], ir.Value] = field(default_factory=dict)
    initializers: list[ir.Value] = field(default_factory=list)
    domains: dict[str, int] = field(default_factory=dict)
    arrays: dict[ir.Value, np.ndarray] = field(default_factory=dict)
    source: Source | None = None
    results: tuple[Expected | None, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    lower_call: Callable[..., object] | None = None

    @contextmanager
    def written_for(
        self, source: Source | None, metadata: dict[str, str], results: Sequence[Expected | None]
    ) -> Iterator[None]:
        """All nodes written inside carry `metadata` and come from `source`, an operator with these `results`."""
        before = self.source, self.metadata, self.results
        self.source, self.metadata, self.results = source, metadata, tuple(results)
        try:
            yield
        finally:
            self.source, self.metadata, self.results = before
