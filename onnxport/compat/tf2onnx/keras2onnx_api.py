"""``tf2onnx.keras2onnx_api``: what keras2onnx was called by, on `from_keras`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from onnxport.compat.absent import refusing
from onnxport.compat.arguments import by_name, refuse_others
from onnxport.compat.skl2onnx.common.data_types import DataType
from onnxport.compat.tf2onnx.convert import from_keras
from onnxport.errors import InvalidInputError
from onnxport.frameworks.descriptor import Lazy

_NAME = "tf2onnx.keras2onnx_api.convert_keras"
_NEUTRAL: Mapping[str, tuple[tuple[object, ...], str]] = {
    "custom_op_conversions": (
        (None, {}),
        "register the operator with onnxport.register_to_onnx('tensorflow', 'Op')",
    ),
}
__getattr__ = refusing(__name__)


@by_name(_NAME)
def convert_keras(
    model: Any,
    name: str | None = None,
    doc_string: str = "",
    target_opset: int | None = None,
    initial_types: Sequence[Any] | None = None,
    channel_first_inputs: Sequence[str] | None = None,
    debug_mode: bool = False,
    custom_op_conversions: Any = None,
) -> onnx.ModelProto:
    """A Keras model as a message of ONNX.

    Args:
        initial_types: types of the inputs in order, each with its name before it or without one.
        channel_first_inputs: inputs to take with their channels before the places.

    Raises:
        InvalidInputError: an argument asks for what is not done here.
        OnnxportError: see `onnxport.convert`.
    """
    refuse_others(_NAME, {"custom_op_conversions": custom_op_conversions}, _NEUTRAL)
    specs = None if initial_types is None else _specs_of(initial_types)
    proto, _ = from_keras(model, specs, opset=target_opset, inputs_as_nchw=channel_first_inputs)
    proto.graph.name = name or getattr(model, "name", None) or proto.graph.name
    proto.graph.doc_string = doc_string
    return proto


def _specs_of(types: Sequence[Any]) -> list[Any]:
    """TensorFlow's specifications of what keras2onnx lists: types, each behind its name or alone.

    Raises:
        InvalidInputError: it is something else.
    """
    result: list[Any] = []
    name = None
    for item in (part for pair in types for part in (pair if isinstance(pair, (tuple, list)) else (pair,))):
        if isinstance(item, str):
            name = item
        elif isinstance(item, DataType):
            shape = [size if isinstance(size, int) else None for size in item.shape]
            result.append(Lazy("tensorflow:TensorSpec").get()(shape, item.numpy, name=name))
            name = None
        else:
            raise InvalidInputError(
                f"{_NAME}: initial_types holds {item!r:.80}: names and types, ['x', FloatTensorType([None, 4])]"
            )
    return result
