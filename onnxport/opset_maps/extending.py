"""How others add operators to the maps."""

from __future__ import annotations

from collections.abc import Callable

from onnxport.frameworks import canonical
from onnxport.opset_maps.maps import FROM_ONNX, TO_ONNX
from onnxport.opset_maps.registry import Function


def register_to_onnx(framework: str, op: str) -> Callable[[Function], Function]:
    """Registers the decorated function as the way `op` of `framework` is written in ONNX.

    Args:
        framework: ``"pytorch"``, ``"tensorflow"``, ``"keras"`` or ``"sklearn"``.
        op: the operator in that framework's spelling: ``"mylib::op"``, ``"MyOp"``, ``"MyEstimator.predict"``.

    The function is called as ``function(op, *operands, **attributes)``, with `op` the
    `onnxport.graph.builder.OpBuilder` and operands as ONNX values, and gives a value or a tuple of them. It replaces an
    entry that the package has.

    >>> @register_to_onnx("pytorch", "mylib::double")
    ... def double(op, x):
    ...     return op.Add(x, x)
    """
    return TO_ONNX[canonical(framework)].lower(op)


def register_from_onnx(framework: str, domain: str, op_type: str, since: int = 1) -> Callable[[Function], Function]:
    """Registers the decorated function as what an ONNX operator is in `framework`.

    Args:
        framework: ``"pytorch"``, ``"tensorflow"``, ``"keras"`` or ``"sklearn"``.
        domain: the operator's domain; ``""`` is ai.onnx.
        op_type: the operator's name.
        since: first version of the operator that the function is right for.

    The function is called as ``function(xp, *inputs, **attributes)``, with inputs as the framework's own tensors, and
    gives a tensor or a tuple of them; `xp` is the framework's array namespace.
    """
    return FROM_ONNX[canonical(framework)].op(op_type, versions=(since,), domain=domain)
