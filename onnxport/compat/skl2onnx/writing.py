"""What a converter function of ``skl2onnx`` is called with: a scope of names, a container that takes nodes, an operator.

What it writes becomes an entry of our map (`register`), so that the class converts, and is proved, as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import onnxport
from onnxport.compat.skl2onnx.choices import CHOSEN
from onnxport.compat.skl2onnx.common.data_types import DataType, FloatTensorType, Int64TensorType, of_array
from onnxport.errors import UnsupportedOperator

_SECOND = ("predict_proba", "decision_function", "score_samples")
_OF_ITS_SHAPE = ("Binarizer", "Imputer", "LabelEncoder", "Normalizer", "Scaler")  # ONNX infers no shapes of theirs
_METHODS = ("transform", "predict", *_SECOND)


@dataclass
class Variable:
    """A value of the graph: its name and type."""

    onnx_name: str
    type: Any = None

    @property
    def raw_name(self) -> str:
        """The name."""
        return self.onnx_name

    @property
    def full_name(self) -> str:
        """The name."""
        return self.onnx_name

    def get_first_dimension(self) -> Any:
        """The number of rows, None where it varies."""
        shape = list(getattr(self.type, "shape", None) or ())
        return shape[0] if shape else None

    def get_second_dimension(self) -> Any:
        """The number of columns, None where it is not known."""
        shape = list(getattr(self.type, "shape", None) or ())
        return shape[1] if len(shape) > 1 else None


@dataclass
class Operator:
    """The estimator that is written, its inputs and its outputs."""

    raw_operator: Any
    inputs: list[Variable]
    outputs: list[Variable]
    target_opset: int
    onnx_name: str

    @property
    def full_name(self) -> str:
        """The name that nodes may begin with."""
        return self.onnx_name

    @property
    def type(self) -> str:
        """The alias of its class."""
        return f"Sklearn{type(self.raw_operator).__name__}"


def options_of(model: Any, default_values: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options that a conversion gives to the estimators of a class, before those by default."""
    return {**(default_values or {}), **CHOSEN.get().get(type(model), {})}


class Scope:
    """Names that no other value or node of the function has."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def get_unique_variable_name(self, seed: str, rename: bool = True) -> str:
        """A name for a value."""
        name, number = seed, 0
        while name in self._taken:
            number += 1
            name = f"{seed}{number}"
        self._taken.add(name)
        return name

    get_unique_operator_name = get_unique_variable_name

    def get_options(
        self, model: Any, default_values: Mapping[str, Any] | None = None, fail: bool = True
    ) -> dict[str, Any]:
        """The options of an estimator: those that it is given, and others by default."""
        return options_of(model, default_values)


@dataclass
class Written:
    """A node that a function asked for; with `estimator` what an estimator gives instead."""

    op_type: str
    domain: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    version: int | None = None
    estimator: Any = None


class Container:
    """Takes nodes and constants in any order."""

    def __init__(self, target_opset: int) -> None:
        self.target_opset = target_opset
        self.nodes: list[Written] = []
        self.constants: dict[str, np.ndarray] = {}
        # What operators of `algebra` give, by their ids, which are theirs as long as they are kept.
        self.results: dict[int, tuple[object, list[str]]] = {}

    def target_opset_any_domain(self, domain: str) -> int:
        """The version of ai.onnx."""
        return self.target_opset

    def get_options(
        self, model: Any, default_values: Mapping[str, Any] | None = None, fail: bool = True
    ) -> dict[str, Any]:
        """The options of an estimator: those that it is given, and others by default."""
        return options_of(model, default_values)

    def add_initializer(self, name: str, onnx_type: int, shape: Sequence[int] | None, content: Any) -> str:
        """Takes a constant."""
        if isinstance(content, onnx.TensorProto):
            array = numpy_helper.to_array(content)
        elif onnx_type == onnx.TensorProto.STRING:
            array = np.asarray(content, object)
        else:
            array = np.asarray(content, onnx.helper.tensor_dtype_to_np_dtype(onnx_type))
        self.constants[name] = array.reshape(list(shape)) if shape is not None else array
        return name

    def add_node(
        self,
        op_type: str,
        inputs: str | Sequence[Any],
        outputs: str | Sequence[Any],
        op_domain: str = "",
        op_version: int | None = None,
        name: str | None = None,
        **attributes: Any,
    ) -> None:
        """Takes a node."""
        ends = [[item] if isinstance(item, (str, Variable)) else list(item) for item in (inputs, outputs)]
        taken, given = ([getattr(item, "onnx_name", item) for item in items] for items in ends)
        self.nodes.append(Written(op_type, op_domain, taken, given, attributes, op_version))


def register(model: type, alias: str, shape_fct: Callable[..., Any] | None, convert_fct: Callable[..., Any]) -> None:
    """Has a class convert by what a converter function writes, in each of its methods."""
    for method in _METHODS:
        if callable(getattr(model, method, None)):
            onnxport.register_to_onnx("sklearn", f"{model.__name__}.{method}")(
                _entry(method, alias, shape_fct, convert_fct)
            )


def _entry(
    method: str, alias: str, shape_fct: Callable[..., Any] | None, convert_fct: Callable[..., Any]
) -> Callable[..., Any]:
    def lower(op: Any, model: Any, x: Any) -> Any:
        rows = op.Identity(x)
        kind = of_array(
            rows.dtype.numpy(), [None, *(item if isinstance(item, int) else None for item in rows.shape[1:])]
        )
        labelled = hasattr(model, "predict") and any(hasattr(model, name) for name in _SECOND)
        names = ("label", "scores") if labelled else ("variable",)
        types: tuple[DataType, ...] = (Int64TensorType(), FloatTensorType()) if labelled else (type(kind)(),)
        ends = [Variable(name, type_) for name, type_ in zip(names, types, strict=True)]
        operator = Operator(model, [Variable("X", kind)], ends, op.opset, alias)
        scope, container = Scope(), Container(op.opset)
        for name in ("X", *names):
            scope.get_unique_variable_name(name)
        if shape_fct is not None:
            shape_fct(operator)
        convert_fct(scope, operator, container)
        values = build(op, container, {"X": rows})
        wanted = names[-1] if method in _SECOND else names[0]
        if wanted not in values:
            raise UnsupportedOperator(f"the converter of {alias} writes no {wanted!r}: it writes {', '.join(values)}")
        return values[wanted]

    return lower


def build(op: Any, container: Container, values: dict[str, Any]) -> dict[str, Any]:
    """The values that the nodes of a container give, written by a builder behind those of `values`.

    Raises:
        UnsupportedOperator: a node reads what none gives.
    """
    known = {"": None, **container.constants, **values}
    waiting = list(container.nodes)
    while waiting:
        ready = [node for node in waiting if all(name in known for name in node.inputs)]
        if not ready:
            missing = [name for node in waiting for name in node.inputs if name not in known]
            raise UnsupportedOperator(f"a converter reads {missing[0]!r}, which no node gives")
        for node in ready:
            operands = [known[name] for name in node.inputs]
            if node.estimator is not None:
                result = _of_estimator(op, node, operands[0])
            else:
                options = {"domain": node.domain, "outputs": len(node.outputs), "name": node.outputs[0]}
                result = op.node(node.op_type, *operands, **options, **_attributes(node))
            results = result if isinstance(result, tuple) else (result,)
            if node.op_type in _OF_ITS_SHAPE and results[0].shape is None:
                results[0].shape = getattr(operands[0], "shape", None)
            known.update(zip(node.outputs, results, strict=False))
        waiting = [node for node in waiting if node not in ready]
    return {
        name: value for name, value in known.items() if name not in container.constants and name not in values and name
    }


def _of_estimator(op: Any, node: Written, x: Any) -> tuple[Any, ...]:
    """What an estimator within gives: its label and scores, or the one thing."""
    model = node.estimator
    if hasattr(model, "transform"):
        return (op.call(model, "transform", x),)
    second = next((name for name in _SECOND if hasattr(model, name)), "")
    first = op.call(model, "predict", x)
    return (first, op.call(model, second, x)) if second and len(node.outputs) > 1 else (first,)


def _attributes(node: Written) -> dict[str, Any]:
    """The attributes as the builder takes them; the type of a Cast may be NumPy's."""
    result = dict(node.attributes)
    if not isinstance(result.get("to", 0), int):
        result["to"] = int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(result["to"])))
    return result
