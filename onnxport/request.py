"""What the user asked of a conversion, passed to the drivers as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from onnxport.errors import InvalidInputError

DEFAULT_OPSET = 21
OPSETS = range(13, 29)

Optimize = Literal["none", "inference"]


@dataclass(frozen=True)
class Request:
    """The arguments of `onnxport.convert` that concern the export.

    Attributes:
        inputs: example inputs: a tuple of positional ones, a dict by name; for scikit-learn an array, a DataFrame or a list
            of strings; None where the source has a signature.
        kwargs: example keyword inputs.
        dynamic_shapes: dimensions that may vary, in torch.export's notation; a plain string names a dimension.
        target_opset: version of ai.onnx.
        input_names: names for the graph's inputs, in order.
        output_names: names for the graph's outputs, in order.
        signature: which signature of a SavedModel.
        methods: which inference methods of an estimator.
        options: per-step options of an estimator's conversion.
        optimize: ``"inference"`` bakes batch norms and transposes into the weights.
    """

    inputs: Any = None
    kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Any = None
    target_opset: int = DEFAULT_OPSET
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    signature: str | None = None
    methods: Sequence[str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    optimize: Optimize = "none"

    def __post_init__(self) -> None:
        if self.target_opset not in OPSETS:
            raise InvalidInputError(f"target_opset={self.target_opset}: between {OPSETS.start} and {OPSETS.stop - 1}")
