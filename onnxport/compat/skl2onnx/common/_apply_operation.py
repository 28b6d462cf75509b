"""``skl2onnx.common._apply_operation``: a function for each operator, that writes one node."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from onnx import defs

from onnxport.compat.absent import absent

# By operator: arguments that are operands from opset 13 on, in order.
_OPERANDS = {
    "Clip": ("min", "max"),
    "Reshape": ("desired_shape",),
    "Slice": ("starts", "ends", "axes", "steps"),
    "TopK": ("k",),
    **dict.fromkeys(("ReduceSum", "Squeeze", "Unsqueeze"), ("axes",)),
}
_KNOWN = {schema.name.lower(): schema.name for schema in defs.get_all_schemas() if not schema.domain}


def __getattr__(name: str) -> Callable[..., None]:
    operator = _KNOWN.get(name.removeprefix("apply_").replace("_", ""), "")
    if not name.startswith("apply_") or not operator:
        absent(__name__, name)
    return partial(_apply, operator)


def _apply(
    operator: str,
    scope: Any,
    inputs: Any,
    outputs: Any,
    container: Any,
    operator_name: str | None = None,
    **attributes: Any,
) -> None:
    taken = [inputs] if not isinstance(inputs, (list, tuple)) else list(inputs)
    for argument in _OPERANDS.get(operator, ()):
        value = attributes.pop(argument, None)
        if value is None:
            taken.append("")
            continue
        constant = scope.get_unique_variable_name(f"{operator}_{argument}")
        kind = np.float32 if operator == "Clip" else np.int64
        rank = 0 if operator == "Clip" else 1
        container.constants[constant] = np.asarray(value, kind).reshape([-1] * rank)
        taken.append(constant)
    while taken and taken[-1] == "":
        taken.pop()
    attributes = {name: value for name, value in attributes.items() if value is not None and name != "op_version"}
    container.add_node(operator, taken, outputs, **attributes)
