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
    """What all graphs of one model share."""

    opset: int  # target version of ai.onnx
    ml_opset: int  # target version of ai.onnx.ml
    names: NameAuthority = field(default_factory=NameAuthority)
    # Each constant by its type, shape and content.
    constants: dict[tuple[Hashable, ...], ir.Value] = field(default_factory=dict)
    # Constants and parameters in the order in which they were added.
    initializers: list[ir.Value] = field(default_factory=list)
    domains: dict[str, int] = field(default_factory=dict)  # versions of the domains beside ai.onnx that nodes are of
    arrays: dict[ir.Value, np.ndarray] = field(default_factory=dict)  # what constants hold
    source: Source | None = None  # the source operator being lowered
    results: tuple[Expected | None, ...] = ()  # the types of its results in the source
    metadata: dict[str, str] = field(default_factory=dict)  # what its nodes carry of it
    lower_call: Callable[..., object] | None = None  # what `OpBuilder.call` does

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
