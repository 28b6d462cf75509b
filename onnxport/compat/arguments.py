"""Arguments of other converters that mean nothing here: accepted at the values that change nothing, else refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxport.errors import InvalidInputError


class RefusedArgumentError(InvalidInputError, RuntimeError):
    """An argument asks for what is not done here; other converters raise a RuntimeError then, for which programs wait."""


def refuse_others(
    function: str, given: Mapping[str, Any], neutral: Mapping[str, tuple[tuple[object, ...], str]]
) -> None:
    """Refuses arguments whose values would change something that is not done here.

    Args:
        function: the name that the error has.
        given: the arguments by name.
        neutral: by name the values that change nothing, and the way out for any other.

    Raises:
        RefusedArgumentError: there are such; all are named at once.
    """
    lines = []
    for name, value in given.items():
        values, way_out = neutral[name]
        if not any(value is item or (type(value) is type(item) and value == item) for item in values):
            lines.append(f"{function}: {name}={value!r} is not taken: {way_out}")
    if lines:
        raise RefusedArgumentError("\n".join(lines))
