"""Checks that converters of ``skl2onnx`` begin with."""

from __future__ import annotations

from typing import Any

from onnxport.compat.absent import refusing
from onnxport.errors import InvalidInputError

__getattr__ = refusing(__name__)


def check_input_and_output_numbers(
    operator: Any,
    input_count_range: int | list[int | None] | None = None,
    output_count_range: int | list[int | None] | None = None,
) -> None:
    """Refuses an operator of other numbers of inputs or outputs.

    Raises:
        InvalidInputError: it has others.
    """
    for what, items, wanted in (
        ("inputs", operator.inputs, input_count_range),
        ("outputs", operator.outputs, output_count_range),
    ):
        if wanted is None:
            continue
        least, most = (wanted, wanted) if isinstance(wanted, int) else wanted
        if (least is not None and len(items) < least) or (most is not None and len(items) > most):
            raise InvalidInputError(f"{operator.full_name} has {len(items)} {what}, it may have {least} to {most}")


def check_input_and_output_types(
    operator: Any, good_input_types: list[type] | None = None, good_output_types: list[type] | None = None
) -> None:
    """Refuses an operator of inputs or outputs of other types.

    Raises:
        InvalidInputError: it has such.
    """
    for items, good in ((operator.inputs, good_input_types), (operator.outputs, good_output_types)):
        for item in items:
            if good is not None and type(item.type) not in good:
                names = ", ".join(kind.__name__ for kind in good)
                raise InvalidInputError(f"{item.raw_name!r} of {operator.full_name} is {item.type}, it may be {names}")
