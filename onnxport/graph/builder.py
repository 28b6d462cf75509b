"""OpBuilder: how a map entry writes ONNX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, Self

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.errors import MapEntryError
from onnxport.graph import folding
from onnxport.graph import schema as schemas
from onnxport.graph.constants import Constant, as_array, constant_tensor, element_type, require_double, small_constants
from onnxport.graph.inference import infer_outputs
from onnxport.graph.model_state import ModelState
from onnxport.graph.names import CONSTANT, NameAuthority
from onnxport.graph.provenance import Source
from onnxport.graph.result_types import Dim, Expected, refined_shape, set_types_from_bodies
from onnxport.graph.widening import NARROW, WIDE, lacking, narrow_outputs

# What an entry may pass as an operand: a value, or Python and NumPy constants, promoted to the operands' type.
Operand = ir.Value | Constant | None
Operands = Sequence[ir.Value | None]
Result = Any  # ir.Value, or a tuple of them for a node with several outputs


class OpBuilder:
    """Writes one ONNX graph, node by node, in an opset's own operators.

    ``op.Gelu(x, approximate="tanh")`` appends a Gelu node of the target opset and returns its output with type and shape
    set. Python and NumPy constants are promoted to the type of the operands that share their type variable; a node whose
    inputs are all constants is evaluated at once. ``op.ml.Scaler(...)`` is the same for the domain ai.onnx.ml.

    Attributes:
        opset: target version of ai.onnx.
        ml_opset: target version of ai.onnx.ml.
    """

    def __init__(
        self, opset: int, *, ml_opset: int | None = None, _state: ModelState | None = None, _is_main: bool = True
    ) -> None:
        self._state = _state or ModelState(opset, ml_opset or schemas.ml_opset(opset))
        self.opset: int = self._state.opset
        self.ml_opset: int = self._state.ml_opset
        self._is_main = _is_main
        self.nodes: list[ir.Node] = []
        self.inputs: list[ir.Value] = []
        self.ml: _Domain = _Domain(self, schemas.ML_DOMAIN)

    def __getattr__(self, op_type: str) -> Callable[..., Result]:
        if not op_type[:1].isupper():
            raise AttributeError(f"OpBuilder has no attribute {op_type!r}")
        return lambda *inputs, **kwargs: self.node(op_type, *inputs, **kwargs)

    def node(
        self,
        op_type: str,
        *inputs: Operand,
        domain: str = "",
        outputs: int | None = None,
        name: str | None = None,
        **attributes: Any,
    ) -> Result:
        """Appends a node and gives its output, or a tuple of them.

        Args:
            op_type: operator name in `domain`.
            inputs: values or constants; None for an optional input left out.
            domain: operator domain; for one that ONNX does not define, types are the caller's to set (`typed`).
            outputs: how many outputs; by default those that the schema does not call optional.
            name: hint for the names of node and outputs, instead of the current source's.
            attributes: the schema's attributes; one that is None is left out.

        Raises:
            UnsupportedOperator: the target opset does not have the operator yet.
            MapEntryError: attributes or operand types contradict the schema.
        """
        inputs = tuple(self._operand(item) for item in inputs)
        version = self.opset if domain == "" else self.ml_opset if domain == schemas.ML_DOMAIN else None
        if version is None:
            return self._custom_node(op_type, inputs, domain, outputs or 1, name, attributes)
        schema = schemas.require_schema(domain, op_type, version)
        operands = self._operands(schema, inputs)
        if not domain and (widened := lacking(schema, operands)):
            wide = [self.cast(item, WIDE) if i in widened else item for i, item in enumerate(operands)]  # type: ignore[arg-type]
            return self._narrowed(self.node(op_type, *wide, outputs=outputs, name=name, **attributes), schema, widened)
        attrs = [schemas.attribute(schema, key, item) for key, item in attributes.items() if item is not None]
        if not domain and any(item is not None and item.dtype == ir.DataType.DOUBLE for item in operands):
            require_double(op_type, attrs)
        node = self._make(op_type, operands, attrs, domain, outputs or schemas.default_output_count(schema), name)
        if domain:
            self._state.domains[domain] = version
        has_subgraph = any(item.type == ir.AttributeType.GRAPH for item in attrs)
        if not has_subgraph:
            arrays = [self.constant(item) if item is not None else None for item in operands]
            if operands and all(a is not None or v is None for a, v in zip(arrays, operands, strict=True)):
                folded = self._fold(node, arrays)
                if folded is not None:
                    node.resize_inputs(0)  # or its operands would count as used
                    return folded
            opsets = (("", self.opset), (schemas.ML_DOMAIN, self.ml_opset))
            infer_outputs(schema, node, opsets, small_constants(operands, arrays))
        else:
            set_types_from_bodies(node)
        self.nodes.append(node)
        return node.outputs[0] if len(node.outputs) == 1 else tuple(node.outputs)

    def _narrowed(self, result: Result, schema: onnx.defs.OpSchema, widened: frozenset[int]) -> Result:
        values = result if isinstance(result, tuple) else (result,)
        narrow = narrow_outputs(schema, widened, len(values))
        done = tuple(self.cast(item, NARROW) if flag else item for item, flag in zip(values, narrow, strict=True))
        return done if isinstance(result, tuple) else done[0]

    def _operand(self, item: Operand) -> Operand:
        """An operand; an object with `as_operand`, as a table of columns, gives the value that stands for it."""
        if item is None or isinstance(item, ir.Value):
            return item
        convert = getattr(item, "as_operand", None)
        return item if convert is None else convert(self)

    def _make(
        self, op_type: str, operands: Operands, attrs: Sequence[ir.Attr], domain: str, count: int, name: str | None
    ) -> ir.Node:
        while operands and operands[-1] is None:
            operands = operands[:-1]
        source = self._state.source
        hint = name or (f"{source.name}/{op_type}" if source and source.name else op_type)
        base = self._state.names.unique(hint)
        values = [ir.Value(name=base if count == 1 else self._state.names.unique(f"{base}.{i}")) for i in range(count)]
        props = dict(self._state.metadata)
        return ir.Node(domain, op_type, operands, attrs, outputs=values, name=base, metadata_props=props)

    def _custom_node(
        self, op_type: str, inputs: Sequence[Operand], domain: str, count: int, name: str | None, given: dict[str, Any]
    ) -> Result:
        operands = [item if isinstance(item, ir.Value) or item is None else self.const(item) for item in inputs]
        attrs = [ir._convenience.convert_attribute(key, item) for key, item in given.items() if item is not None]
        node = self._make(op_type, operands, attrs, domain, count, name)
        self._state.domains.setdefault(domain, 1)
        self.nodes.append(node)
        return node.outputs[0] if count == 1 else tuple(node.outputs)

    def _operands(self, schema: onnx.defs.OpSchema, inputs: Sequence[Operand]) -> list[ir.Value | None]:
        bound: dict[str, ir.DataType] = {}
        for index, item in enumerate(inputs):
            if isinstance(item, ir.Value) and item.dtype is not None:
                bound.setdefault(schemas.parameter(schema, index).type_str, item.dtype)
            elif isinstance(item, (np.ndarray, np.generic)):
                bound.setdefault(schemas.parameter(schema, index).type_str, element_type(np.asarray(item)))
        operands: list[ir.Value | None] = []
        for index, item in enumerate(inputs):
            if item is None or isinstance(item, ir.Value):
                operands.append(item)
                continue
            formal = schemas.parameter(schema, index)
            bound_type = bound.get(formal.type_str) if formal.type_str else None
            dtype = formal.dtypes[0] if len(formal.dtypes) == 1 else bound_type
            operands.append(self.const(item, dtype))
        return operands

    def _fold(self, node: ir.Node, arrays: list[np.ndarray | None]) -> Result | None:
        if sum(item.size for item in arrays if item is not None) > folding.MAX_ELEMENTS:
            return None
        results = folding.fold(node, arrays, self.opset)
        if results is None or sum(item.size for item in results) > folding.MAX_ELEMENTS:
            return None
        if any(item.dtype == object and item.size and not isinstance(item.flat[0], str) for item in results):
            return None  # sequences and maps have no constant form
        values = tuple(self.const(item) for item in results)
        return values[0] if len(values) == 1 else values

    def const(self, value: Constant, dtype: ir.DataType | None = None, *, name: str = CONSTANT) -> ir.Value:
        """A constant, shared by all equal constants of the model.

        Args:
            value: Python number, string, nested list or NumPy array.
            dtype: element type; by default the array's own, and for Python values BOOL, INT64, FLOAT or STRING.
        """
        array = as_array(value, dtype)
        element = element_type(array)
        key = (element, array.shape, tuple(array.ravel()) if element == ir.DataType.STRING else array.tobytes())
        constant = self._state.constants.get(key)
        if constant is None:
            unique = self._state.names.unique(name)
            kind, shape, tensor = ir.TensorType(element), ir.Shape(array.shape), constant_tensor(array, element, unique)
            constant = ir.Value(name=unique, type=kind, shape=shape, const_value=tensor)
            self._state.constants[key] = constant
            self._state.arrays[constant] = array
            self._state.initializers.append(constant)
        return constant

    def initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        """A parameter under its own `name`, its storage shared and never folded.

        An input or output of the user's that has this name already keeps it, and the parameter gets a numbered variant.
        """
        name = self._state.names.unique(name)
        tensor.name = name
        kind, shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
        value = ir.Value(name=name, type=kind, shape=shape, const_value=tensor)
        self._state.initializers.append(value)
        return value

    def constant(self, value: Operand) -> np.ndarray | None:
        """The array behind a constant of this builder, else None (parameters are not constants)."""
        return self._state.arrays.get(value) if isinstance(value, ir.Value) else None

    def shape(self, x: ir.Value) -> ir.Value:
        """The shape of `x` as an INT64 vector: a constant where it is static."""
        if x.shape is not None and x.shape.is_static():
            return self.const(np.asarray(x.shape.numpy(), np.int64))
        return self.Shape(x)

    def dim(self, x: ir.Value, axis: int) -> ir.Value:
        """Size of one axis as an INT64 vector of one element: a constant where it is static."""
        if x.shape is not None:
            axis %= x.shape.rank()
            size = x.shape[axis]
            if isinstance(size, int):
                return self.const([size])
            if self.opset >= 15:
                return self.Shape(x, start=axis, end=axis + 1)
        return self.Gather(self.Shape(x), [axis], axis=0)

    def axes(self, *axes: int) -> ir.Value:
        """An INT64 vector, as Squeeze, Unsqueeze and the reductions take their axes."""
        return self.const(np.asarray(axes, np.int64))

    def shape_vector(self, dims: Sequence[int | ir.Value]) -> ir.Value:
        """Sizes, each a Python int or an INT64 scalar or one-element value, as one INT64 vector."""
        if all(isinstance(item, int) for item in dims):
            return self.const(np.asarray(dims, np.int64))
        parts: list[ir.Value] = []
        for static, run in groupby(dims, lambda item: isinstance(item, int)):
            if static:
                parts.append(self.const(list(run)))  # type: ignore[arg-type]
                continue
            for item in run:
                is_vector = isinstance(item, ir.Value) and item.shape is not None and item.shape.rank() == 1
                parts.append(item if is_vector else self.Reshape(item, [1]))  # type: ignore[arg-type]
        return parts[0] if len(parts) == 1 else self.Concat(*parts, axis=0)

    def reduce(self, op_type: str, x: ir.Value, axes: Sequence[int] | None, *, keepdims: bool) -> ir.Value:
        """ReduceMax, ReduceMean, ...: `axes` is an attribute before opset 18 (ReduceSum: 13), an input from then on."""
        if axes is not None and not axes:
            return x
        if axes is not None and x.shape is not None:  # a negative axis of an empty tensor is reduced by no kernel
            axes = [axis % x.shape.rank() for axis in axes]
        if axes is None:
            return self.node(op_type, x, keepdims=int(keepdims))
        if self.opset >= (13 if op_type == "ReduceSum" else 18):
            return self.node(op_type, x, self.axes(*axes), keepdims=int(keepdims))
        return self.node(op_type, x, axes=list(axes), keepdims=int(keepdims))

    def split(self, x: ir.Value, sizes: Sequence[int], axis: int) -> tuple[ir.Value, ...]:
        """`x` cut along `axis` into pieces of `sizes`."""
        if len(sizes) == 1:
            return (x,)
        return self.Split(x, self.const(list(sizes)), axis=axis, outputs=len(sizes))

    def cast(self, x: ir.Value, dtype: ir.DataType) -> ir.Value:
        """`x` in another element type; `x` itself where it has that type."""
        return x if x.dtype == dtype else self.Cast(x, to=dtype)

    def cast_like(self, x: ir.Value, like: ir.Value) -> ir.Value:
        """`x` in the element type of `like`."""
        if like.dtype is None:
            raise MapEntryError(f"the type of {like.name!r} is not known")
        return self.cast(x, like.dtype)

    def typed(
        self, value: ir.Value, dtype: ir.DataType | None = None, shape: Iterable[Dim | str | None] | None = None
    ) -> ir.Value:
        """`value` with the source's knowledge of it: a shape is refined, an element type must agree with the inferred one.

        Raises:
            MapEntryError: the inferred element type, rank or a static dimension differs.
        """
        if dtype is not None:
            if value.dtype is not None and value.dtype != dtype:
                raise MapEntryError(f"value {value.name!r} has type {value.dtype.name}, the source gives {dtype.name}")
            if value.type is None:
                value.type = ir.TensorType(dtype)
        if shape is not None:
            value.shape = refined_shape(value, ir.Shape(shape))
        return value

    def subgraph(self) -> OpBuilder:
        """A builder for a body of If, Loop or Scan: it sees this graph's values and shares names and constants."""
        return OpBuilder(self.opset, _state=self._state, _is_main=False)

    def input(
        self, name: str, dtype: ir.DataType | ir.TypeProtocol, shape: Iterable[Dim | str | None] | None = None
    ) -> ir.Value:
        """Declares a graph input. In the main graph the name must be free; in a body a free variant is taken."""
        if self._is_main:
            self._state.names.reserve(name)
        else:
            name = self._state.names.unique(name)
        kind = ir.TensorType(dtype) if isinstance(dtype, ir.DataType) else dtype
        value = ir.Value(name=name, type=kind, shape=ir.Shape(shape) if shape is not None else None)
        self.inputs.append(value)
        return value

    @property
    def is_main(self) -> bool:
        """Whether this is the model's graph, not the body of a branch or a loop."""
        return self._is_main

    def body(self, build: Callable[[OpBuilder], Sequence[ir.Value]]) -> ir.Graph:
        """The graph that `build` writes into a fresh subgraph builder; what it returns are the outputs.

        >>> op = OpBuilder(21)
        >>> x = op.input("x", ir.DataType.FLOAT, [2])
        >>> y = op.If(op.input("c", ir.DataType.BOOL, []), then_branch=op.body(lambda b: [b.Neg(x)]),
        ...           else_branch=op.body(lambda b: [x]))
        >>> y.dtype, list(y.shape)
        (FLOAT, [2])
        """
        inner = self.subgraph()
        outputs = build(inner)
        return inner.graph(outputs, name=self._state.names.unique("body"))

    def graph(self, outputs: Sequence[ir.Value], *, name: str, output_names: Sequence[str] | None = None) -> ir.Graph:
        """Closes the graph. An output that this graph did not compute, or that stands twice, gets an Identity of its own.

        Args:
            outputs: the graph's results in order.
            name: the graph's name.
            output_names: exact names, reserved before (main graph only).
        """
        own = {value for node in self.nodes for value in node.outputs}
        finals: list[ir.Value] = []
        for index, item in enumerate(outputs):
            value = item
            if value not in own or value in finals:
                value = self.identity(value)
            if output_names is not None:
                value.name = output_names[index]
            finals.append(value)
        own_initializers = self._state.initializers if self._is_main else ()
        imports = self.opset_imports if self._is_main else {}
        return ir.Graph(
            self.inputs, finals, nodes=self.nodes, initializers=own_initializers, opset_imports=imports, name=name
        )

    def identity(self, value: ir.Value) -> ir.Value:
        """`value` as this graph's own: the result of an Identity, also of a constant."""
        node = self._make("Identity", [value], [], "", 1, None)
        node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
        self.nodes.append(node)
        return node.outputs[0]

    @property
    def opset_imports(self) -> dict[str, int]:
        """The domains of the nodes written so far, and their versions."""
        return {"": self.opset, **self._state.domains}

    @property
    def initializers(self) -> list[ir.Value]:
        """The model's constants and parameters so far."""
        return self._state.initializers

    @property
    def names(self) -> NameAuthority:
        """The model's naming authority."""
        return self._state.names

    @property
    def source(self) -> Source | None:
        """The source operator being lowered."""
        return self._state.source

    @property
    def name(self) -> str:
        """The name of the source operator being lowered (``"aten::relu.default"``), empty outside of one."""
        return self._state.source.op if self._state.source is not None else ""

    @property
    def result(self) -> Expected:
        """The type that the source gives the (first) result of the operator being lowered.

        Raises:
            MapEntryError: the source gives none.
        """
        if not self._state.results or self._state.results[0] is None:
            raise MapEntryError("the source gives no type for this operator's result")
        return self._state.results[0]

    @property
    def results(self) -> tuple[Expected | None, ...]:
        """The type that the source gives each result; None for a result that is no tensor."""
        return self._state.results

    @contextmanager
    def at(self, source: Source | None, results: Sequence[Expected | None] = ()) -> Iterator[Self]:
        """All nodes written inside come from `source`, an operator with these `results`; None for the present one."""
        source = source or self._state.source
        with self._state.written_for(source, source.metadata() if source is not None else {}, results):
            yield self

    @contextmanager
    def instead_of(self, node: ir.Node) -> Iterator[Self]:
        """All nodes written inside come from where `node` came from, and are named after it."""
        with self._state.written_for(Source(node.op_type, node.name or ""), dict(node.metadata_props), ()):
            yield self

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """Lowers something the source operator refers to into this graph: a function, a branch, a sub-estimator's method.

        The driver decides how (`on_call`); inside `body` the nodes land in the body.
        """
        if self._state.lower_call is None:
            raise MapEntryError(f"this source has no callable parts ({target!r})")
        return self._state.lower_call(self, target, *args, **kwargs)

    def on_call(self, lower: Callable[..., Any]) -> None:
        """Sets what `call` does: ``lower(op, target, *args, **kwargs)``."""
        self._state.lower_call = lower


class _Domain:
    """``op.ml``: the builder's nodes of another domain."""

    def __init__(self, builder: OpBuilder, domain: str) -> None:
        self._builder = builder
        self._name = domain

    def __getattr__(self, op_type: str) -> Callable[..., Result]:
        return lambda *inputs, **kwargs: self._builder.node(op_type, *inputs, domain=self._name, **kwargs)
