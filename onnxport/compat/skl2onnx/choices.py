"""Options of ``skl2onnx`` in our words: by the step that they are for, each honoured, needless or refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from onnxport.errors import InvalidInputError

# By option: the values that change nothing here; None where none does. Texts are split and numbers scaled as by scikit-learn.
_NEEDLESS: dict[str, tuple[object, ...] | None] = {
    "optim": (None, "cdist"),
    "cast": (None, False),
    "cdf": (None,),
    **dict.fromkeys(("separators", "tokenexp", "div")),
}

# By class: the options that its converter, a function of the user's, reads; and those that a conversion is given.
ALLOWED: dict[type, frozenset[str]] = {}
ALIASES: dict[type, str] = {}  # of classes that convert by functions of the user's
CHOSEN: ContextVar[Mapping[type, Mapping[str, Any]]] = ContextVar("CHOSEN", default=MappingProxyType({}))


def taken(model: Any, options: Mapping[Any, Any]) -> tuple[dict[str, Any], dict[type, dict[str, Any]]]:
    """Options by the estimator's id, class or object, or without one, as those of the whole; those of steps by their paths.

    Beside them, by class, those that only its converter knows, a function of the user's.

    Raises:
        InvalidInputError: an option is not known here.
    """
    result: dict[str, Any] = {}
    chosen: dict[type, dict[str, Any]] = {}
    steps = list(_steps(model, ""))
    for key, value in options.items():
        if not isinstance(value, Mapping):  # an option, or step__option
            step, _, option = str(key).rpartition("__")
            known = [path for path, _, name in steps if step and name == step]
            path, value = (known or [""])[0], {option if known or not step else str(key): value}
        else:
            named = [(path, item) for path, item, name in steps if key in (id(item), type(item), name) or key is item]
            if not named:
                raise InvalidInputError(f"skl2onnx: options={key!r}: is no step of {type(model).__name__}")
            path, item = named[-1] if named[0][0] == named[-1][0] else named[0]
            own = {name: given for name, given in value.items() if name in ALLOWED.get(type(item), ())}
            if own:
                chosen[type(item)] = own
                value = {name: given for name, given in value.items() if name not in own}
        read = _read(value)
        result.update(read) if path == "" else result.update({path: read} if read else {})
    return result, chosen


TAKEN = frozenset(
    "zipmap raw_scores labels label return_std score_samples output output_class_labels decision_path decision_leaf nocl".split()
)


def _read(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of one step in our words."""
    result: dict[str, Any] = {}
    for name, value in options.items():
        if name == "nocl":
            result |= {"labels": "ints"} if value else {}
        elif name in _NEEDLESS and ((same := _NEEDLESS[name]) is None or value in same):
            continue
        elif name in TAKEN:
            result[name] = value
        elif value is not False:
            raise InvalidInputError(
                f"skl2onnx: option {name!r} is not taken: onnxport.convert(options=) has those there are"
            )
    return result


def _steps(model: Any, path: str, name: str = "") -> Iterable[tuple[str, Any, str]]:
    """The estimator and its steps by their paths, with their names; the last step of a pipeline stands for the whole."""
    yield path, model, name
    for number, (step_name, step) in enumerate(getattr(model, "steps", ())):
        last = number == len(model.steps) - 1
        yield from _steps(step, path if last else f"{path}.{step_name}".strip("."), step_name)


def get_latest_tested_opset_version() -> int:
    """The newest version of ai.onnx that onnxruntime runs."""
    return 26
