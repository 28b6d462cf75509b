"""Arguments of other converters that mean nothing here: accepted at the values that change nothing, else refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from onnxport.errors import InvalidInputError


class RefusedArgumentError(InvalidInputError, RuntimeError):
    """An argument asks for what is not done here; other converters raise a RuntimeError then, for which programs wait."""


class UnknownArgumentError(InvalidInputError, TypeError):
    """A call has an argument that the function does not take, or lacks one."""


_P = ParamSpec("_P")
_R = TypeVar("_R")


def by_name(
    function: str, elsewhere: Mapping[str, str] | None = None
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Has a function answer a call that does not fit it with the argument's name and the way out.

    Args:
        function: the name that errors have.
        elsewhere: arguments of other versions or functions, with what to write for them.
    """

    def answering(call: Callable[_P, _R]) -> Callable[_P, _R]:
        form = signature(call)
        takes = f"it takes {', '.join(name for name in form.parameters if name != 'self')}"
        free = any(item.kind is Parameter.VAR_KEYWORD for item in form.parameters.values())

        @wraps(call)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            for name in () if free else kwargs:
                if name not in form.parameters:
                    near = get_close_matches(name, form.parameters, 1, 0.7)
                    way_out = (elsewhere or {}).get(name) or (f"did you mean {near[0]}=?" if near else takes)
                    raise UnknownArgumentError(f"{function}: {name}={kwargs[name]!r:.80} is not taken: {way_out}")
            try:
                form.bind(*args, **kwargs)
            except TypeError as error:
                raise UnknownArgumentError(f"{function}: {error}: {takes}") from None
            return call(*args, **kwargs)

        return checked

    return answering


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
