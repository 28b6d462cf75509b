"""What an operator's function gets besides its operands, and the table of these functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.tracing.tensorflow_lite.file import Operator, Tensor

Function = Callable[..., Any]
TABLE: dict[str, Function] = {}


@dataclass(frozen=True)
class Node:
    """An operator in its graph."""

    operator: Operator
    inputs: tuple[Tensor | None, ...]  # as the file declares them
    outputs: tuple[Tensor, ...]
    run: Callable[[int, Sequence[Any]], list[Any]]  # the results of another graph of the file

    @property
    def options(self) -> Any:
        """The fields of its options.

        Raises:
            UnsupportedOperator: the file gives none.
        """
        if self.operator.options is None:
            raise self.refused("its options are missing")
        return self.operator.options

    def refused(self, why: str) -> UnsupportedOperator:
        """The error for what it can't do."""
        return UnsupportedOperator(f"TFLite operator {self.label}: {why}")

    @property
    def label(self) -> str:
        """What it is, and the name of its first result."""
        return f"{self.operator.code} ({self.outputs[0].name if self.outputs else 'without a result'!r})"

    @property
    def result(self) -> Tensor:
        """The declaration of its first result."""
        return self.outputs[0]


def builtin(names: str) -> Callable[[Function], Function]:
    """Registers a function of a node and its operands under names of schema.BuiltinOperator."""

    def register(function: Function) -> Function:
        TABLE.update(dict.fromkeys(names.split(), function))
        return function

    return register


_ACTIVATIONS: dict[int, Callable[[Any], Any]] = {
    0: lambda x: x,
    1: tf.nn.relu,
    2: lambda x: clipped(x, -1.0, 1.0),
    3: tf.nn.relu6,
    4: tf.tanh,
}


def clipped(x: Any, low: float, high: float) -> Any:
    """x between two numbers."""
    return tf.clip_by_value(x, tf.cast(low, x.dtype), tf.cast(high, x.dtype))


def activated(node: Node, x: Any) -> Any:
    """The operator's fused activation of a result."""
    kind = getattr(node.operator.options, "fusedActivationFunction", 0)
    if kind not in _ACTIVATIONS:
        raise node.refused(f"fused activation {kind} has no form")
    return _ACTIVATIONS[kind](x)


def padding(node: Node) -> str:
    """TensorFlow's name of the operator's padding."""
    kind = node.options.padding
    if kind not in (0, 1):
        raise node.refused(f"padding {kind} has no form")
    return ("SAME", "VALID")[kind]


def static(node: Node, tensor: Any, what: str) -> Any:
    """The numbers of an operand that has to be constant."""
    value = tf.get_static_value(tensor)
    if value is None:
        raise node.refused(f"{what} is computed when the model runs")
    return value


def simple(function: Callable[..., Any]) -> Function:
    """An operator without options."""
    return partial(_plain, function)


def _plain(function: Callable[..., Any], node: Node, *operands: Any) -> Any:
    return function(*operands)
