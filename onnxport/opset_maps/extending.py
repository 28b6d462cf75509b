"""How others add operators to the maps."""

from __future__ import annotations

from collections.abc import Callable

from onnxport import frameworks
from onnxport.errors import InvalidInputError
from onnxport.opset_maps.registry import Function


def register_to_onnx(framework: str, op: str) -> Callable[[Function], Function]:
    """Registers the decorated function as the way `op` of `framework` is written in ONNX.

    Args:
        framework: ``"pytorch"``, ``"tensorflow"``, ``"keras"``, ``"sklearn"``, or one that was registered.
        op: the operator in that framework's spelling: ``"mylib::op"``, ``"MyOp"``, ``"MyEstimator.predict"``.

    The function is called as ``function(op, *operands, **attributes)``, with `op` the
    `onnxport.graph.builder.OpBuilder` and operands as ONNX values, and gives a value or a tuple of them. It replaces an
    entry that the package has.

    Raises:
        InvalidInputError: no such framework, or ONNX itself; or `op` or the function is none.

    >>> @register_to_onnx("pytorch", "mylib::double")
    ... def double(op, x):
    ...     return op.Add(x, x)
    """
    owner = frameworks.get(framework)
    if owner.to_onnx_map is None:
        raise InvalidInputError(f"no operator of {owner.title} is looked up in a map on the way to ONNX")
    _check_words(op=op)
    return _checked(owner.to_onnx_map().lower(op))


def register_from_onnx(framework: str, domain: str, op_type: str, since: int = 1) -> Callable[[Function], Function]:
    """Registers the decorated function as what an ONNX operator is in `framework`.

    Args:
        framework: ``"pytorch"``, ``"tensorflow"``, ``"keras"``, or one that was registered.
        domain: the operator's domain; ``""`` is ai.onnx.
        op_type: the operator's name.
        since: first version of the operator that the function is right for.

    The function is called as ``function(xp, *inputs, **attributes)``, with inputs as the framework's own tensors, and
    gives a tensor or a tuple of them; `xp` is the framework's array namespace.

    Raises:
        InvalidInputError: no such framework, or nothing is rebuilt into it; or another argument is none of its kind.
    """
    owner = frameworks.get(framework)
    if owner.from_onnx_map is None:
        raise InvalidInputError(f"no ONNX operator is looked up in a map on the way to {owner.title}")
    _check_words(domain=domain, op_type=op_type)
    if isinstance(since, bool) or not isinstance(since, int) or since < 1:
        raise InvalidInputError(f"since={since!r}: a version of the operator, 1 or more")
    return _checked(owner.from_onnx_map().op(op_type, versions=(since,), domain=domain))


def _check_words(**given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, str) or (not value and name != "domain"):
            raise InvalidInputError(f"{name}={value!r}: a string, as 'mylib::op' or 'MyOp'")


def _checked(register: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """The decorator, which takes functions alone."""

    def decorate(function: Function) -> Function:
        if not callable(function):
            raise InvalidInputError(f"{function!r} is no function: the decorator stands above one, def op(op, x): ...")
        return register(function)

    return decorate
