"""Operators of ONNX as Python objects: their inputs are names, arrays and other operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx
import onnx_ir as ir
from onnx import defs, numpy_helper

from onnxport.compat.absent import refusing
from onnxport.compat.skl2onnx.common.data_types import DataType, guess_proto_type, guess_tensor_type
from onnxport.compat.skl2onnx.writing import Container, Scope, Variable, Written, build
from onnxport.converters.to_onnx.finish import finish
from onnxport.errors import InvalidInputError, MapEntryError, UnsupportedOperator
from onnxport.frameworks.descriptor import Lazy
from onnxport.graph.builder import OpBuilder
from onnxport.model import OnnxModel
from onnxport.request import DEFAULT_OPSET

__getattr__ = refusing(__name__)
_LOWERING = Lazy("onnxport.converters.to_onnx.sklearn:Lowering")  # of estimators within


class OnnxOperatorItem:
    """One of the results of an operator."""

    def __init__(self, operator: OnnxOperator, place: int) -> None:
        self.operator, self.place = operator, place


class OnnxOperator:
    """A node: ``OnnxAdd("X", array, op_version=18, output_names=["Y"])``."""

    operator: ClassVar[str] = ""
    operator_domain: ClassVar[str] = ""

    def __init__(
        self,
        *inputs: Any,
        op_version: int | None = None,
        output_names: Sequence[Any] | None = None,
        domain: str | None = None,
        global_context: Any = None,
        **attributes: Any,
    ) -> None:
        self.inputs, self.op_version, self.attributes = inputs, op_version, attributes
        self.output_names = [output_names] if isinstance(output_names, (str, Variable)) else list(output_names or ())
        self.domain = self.operator_domain if domain is None else domain
        self._results = 1

    def __getitem__(self, place: int) -> OnnxOperatorItem:
        """One of its results, by its place."""
        self._results = max(self._results, place + 1)
        return OnnxOperatorItem(self, place)

    def add_to(self, scope: Scope, container: Container, operator: Any = None, run_converters: bool = False) -> None:
        """Writes the node, and all before it, into a container."""
        self.results(scope, container)

    def results(self, scope: Scope, container: Container) -> list[str]:
        """The names of what the node gives, which stands in the container from then on."""
        if id(self) not in container.results:
            taken = [_name(item, scope, container) for item in self.inputs]
            names = [getattr(item, "onnx_name", item) for item in self.output_names]
            while len(names) < self._count():
                names.append(scope.get_unique_variable_name(f"{self.operator or 'estimator'}_{len(container.nodes)}"))
            container.results[id(self)] = self, names
            container.nodes.append(self._written(taken, names, container))
        return container.results[id(self)][1]

    def _count(self) -> int:
        return max(self._results, _required(self.operator, self.domain))

    def _written(self, inputs: list[str], outputs: list[str], container: Container) -> Written:
        return Written(self.operator, self.domain, inputs, outputs, dict(self.attributes), self.op_version)

    def to_onnx(
        self,
        inputs: Any = None,
        outputs: Sequence[Any] | None = None,
        other_outputs: Sequence[OnnxOperator] | None = None,
        target_opset: int | Mapping[str, int] | None = None,
        domain: str | None = None,
        verbose: int = 0,
    ) -> onnx.ModelProto:
        """The graph that ends in this node, as a message.

        Args:
            inputs: types or arrays by name, or pairs of both.
            outputs: pairs of a name and a type; by default the names that the node was given, and the types that follow.
            other_outputs: more nodes whose results are outputs.
            target_opset: the version of ai.onnx, or versions by domain.

        Raises:
            InvalidInputError: the graph is none that ONNX takes.
        """
        versions = dict(target_opset) if isinstance(target_opset, Mapping) else {}
        opset = versions.get("", target_opset if isinstance(target_opset, int) else self.op_version) or DEFAULT_OPSET
        scope, container = Scope(), Container(opset)
        op = OpBuilder(opset, ml_opset=versions.get("ai.onnx.ml"))
        given: dict[str, Any] = {}
        for name, kind in _pairs(inputs):
            given[scope.get_unique_variable_name(name)] = op.input(name, *_typed(name, kind))
        names = [name for node in (self, *(other_outputs or ())) for name in node.results(scope, container)]
        for name in names:
            op.names.reserve(name)
        lowering = _LOWERING.get()(op) if any(item.estimator is not None for item in container.nodes) else None
        try:
            values = build(op, container, given)
        except (MapEntryError, UnsupportedOperator) as error:
            raise InvalidInputError(f"skl2onnx.algebra: {error}") from error
        if lowering is not None:
            lowering.refused.raise_all()
        ends = [op.Identity(values[name]) for name in names]
        model = OnnxModel(finish(op, ends, names, runtime="reference"), runtime="reference")
        wanted = {item[0]: item for item in outputs or ()}
        if wanted and sorted(wanted) != sorted(names):
            raise InvalidInputError(
                f"skl2onnx.algebra: outputs= has {', '.join(wanted)}, the nodes give {', '.join(names)}"
            )
        return model.proto


class OnnxSubEstimator(OnnxOperator):
    """What a fitted estimator gives for a value."""

    def __init__(self, model: Any, *inputs: Any, options: Any = None, **rest: Any) -> None:
        super().__init__(*inputs, **rest)
        self.model = model

    def _count(self) -> int:
        both = not hasattr(self.model, "transform") and hasattr(self.model, "predict_proba")
        return max(self._results, 2 if both else 1)

    def _written(self, inputs: list[str], outputs: list[str], container: Container) -> Written:
        return Written("", "", inputs, outputs, estimator=self.model)


OnnxSubOperator = OnnxSubEstimator


def _required(operator: str, domain: str) -> int:
    try:
        return max(1, defs.get_schema(operator, domain=domain).min_output)
    except defs.SchemaError:
        return 1


def _name(item: Any, scope: Scope, container: Container) -> str:
    """The name of an input; what is no name becomes a constant, what is a node is written."""
    if isinstance(item, str):
        return item
    if isinstance(item, Variable):
        return item.onnx_name
    if isinstance(item, OnnxOperatorItem):
        return item.operator.results(scope, container)[item.place]
    if isinstance(item, OnnxOperator):
        return item.results(scope, container)[0]
    array = numpy_helper.to_array(item) if isinstance(item, onnx.TensorProto) else np.asarray(item)
    if isinstance(item, float):
        array = array.astype(np.float32)
    name = scope.get_unique_variable_name(f"constant_{len(container.constants)}")
    container.constants[name] = array
    return name


def _pairs(inputs: Any) -> list[tuple[str, Any]]:
    items = list(inputs.items()) if isinstance(inputs, Mapping) else list(inputs or ())
    if not all(isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[0], str) for item in items):
        raise InvalidInputError("skl2onnx.algebra: inputs= are arrays or types by name, {'X': X}")
    return items


def _typed(name: str, kind: Any) -> tuple[ir.DataType, list[Any] | None]:
    """Element type and shape of an input: of a type, whose shape may be left open, or like an array of any number of rows.

    Raises:
        InvalidInputError: it is neither.
    """
    if isinstance(kind, np.ndarray):
        kind = guess_tensor_type(kind)
    if not isinstance(kind, DataType):
        raise InvalidInputError(
            f"skl2onnx.algebra: {name!r} is {type(kind).__name__}: an array, or FloatTensorType([None, 4])"
        )
    rows = ["batch" if size is None else size for size in kind.shape[:1]]
    return ir.DataType(guess_proto_type(kind)), [*rows, *kind.shape[1:]] or None
