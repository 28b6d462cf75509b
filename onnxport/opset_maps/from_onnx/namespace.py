"""The array namespace: what a framework provides for the ONNX semantics, and an ONNX node as a call in it.

`Namespace` lists the primitives with the names and signatures of the Python array API standard wherever it has the
function (https://data-apis.org/array-api), plus what ONNX needs and the standard lacks. The functions in `semantics/` are
written against it and run while a framework traces (torch.fx proxies, symbolic tf.Tensor, KerasTensor), and again on real
tensors where an operator could not be resolved before the model runs.

Conventions, binding for every framework:

- Element types are `onnx_ir.DataType`. Operands of one elementwise primitive have the same element type, or are Python
  numbers, which take the other operand's; no primitive promotes. Results have the operands' type unless stated otherwise.
- Axes given to primitives are non-negative ints, resolved by the semantics; `axis=None` means all axes.
- Indices given to primitives are non-negative (`take`, `gather_nd`, `scatter_*`), resolved by the semantics.
- Images are channels-first (N, C, d1, d2, ...); paddings are explicit (before, after) pairs.
- Sizes are Python ints, or the framework's dynamic ints where a dimension is known only when the model runs (`Int`): what
  `shape` gives may be added, multiplied and handed to `reshape`, but never compared or branched on. `known(n)` tells them apart.
- Attributes come with the defaults of the schema's version filled in; a function need not know them. An absent attribute
  without a default takes the function's own.
- A semantics parameter annotated `Number` gets a Python number where the operand is a constant, else a scalar tensor; one
  annotated `Known` a NumPy array where it is a constant, else a tensor.
- A semantics parameter annotated `Host` gets a NumPy array instead of a tensor: of the operator's element type where all is
  known at import, of dtype object with `Int` elements where some are dynamic. Reshape's shape, Slice's starts, a reduction's
  axes come that way, so that shape arithmetic never becomes tensor arithmetic. A function that gives a `HostValue` keeps its
  result on this path.
- Sequences are Python lists of tensors, an absent optional is None, a map is a dict.
- A function that has to know a rank, element type or value that is known only when the model runs raises
  `UnknownUntilRun` (primitives do it by themselves); the importer then calls the function when the model runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Unpack, get_args, get_origin, get_type_hints

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.operands import Operand, Weight, as_host
from onnxport.opset_maps.from_onnx.primitives.control import ControlFamily
from onnxport.opset_maps.from_onnx.primitives.elementwise import ElementwiseFamily
from onnxport.opset_maps.from_onnx.primitives.indexing import IndexingFamily
from onnxport.opset_maps.from_onnx.primitives.shapes import ShapeFamily
from onnxport.opset_maps.from_onnx.primitives.tensors import Context, TensorFamily
from onnxport.opset_maps.from_onnx.primitives.text import TextFamily
from onnxport.opset_maps.from_onnx.primitives.windows import WindowFamily
from onnxport.opset_maps.from_onnx.values import HostValue, OperandKind, UnknownUntilRun
from onnxport.opset_maps.registry import SemanticsEntry

# What a namespace consists of: a class in `primitives/` describes each family, and a framework has one class for each that it
# computes itself, in a file of the same name. Defaults of shapes and indexing compute with the families before them.
FAMILIES = (TensorFamily, ElementwiseFamily, ShapeFamily, IndexingFamily, TextFamily, WindowFamily, ControlFamily)


class Namespace(IndexingFamily, TextFamily, WindowFamily, ControlFamily):
    """The primitives of all families. A framework subclasses it; what it does not define refuses by name."""

    def refine(self, x: object, value: ir.Value) -> Any:
        """`x` with the type that the model declares, where the framework does not know it."""
        return x

    def mark(self) -> Any:
        """A place in the traced program to which `rollback` can return."""
        return None

    def rollback(self, mark: object) -> None:
        """Forgets what was traced since `mark`; frameworks that drop unused nodes need not."""

    def defer(
        self, call: Call, operands: Sequence[Operand], outputs: Sequence[ir.Value], error: UnknownUntilRun
    ) -> Any:
        """Operator `call` put off until the model runs; by default it is refused with `error`."""
        raise UnsupportedOperator(str(error)) from error


@dataclass(frozen=True)
class Signature:
    """How a semantics function takes its operands and attributes.

    Attributes:
        kinds: in what form each positional parameter takes its operand.
        variadic: that of the operands beyond, None where there may be none.
        attributes: names of keyword parameters.
        any_attribute: it takes every attribute.
    """

    kinds: tuple[OperandKind, ...]
    variadic: OperandKind | None
    attributes: frozenset[str]
    any_attribute: bool

    def kind(self, index: int) -> OperandKind | None:
        """Kind of operand `index`; None where the function takes no such operand."""
        return self.kinds[index] if index < len(self.kinds) else self.variadic


def _kind(hint: object) -> OperandKind:
    """The kind that an annotation carries, also one of several alternatives (``Host | None``)."""
    kinds = (item for item in getattr(hint, "__metadata__", ()) if isinstance(item, OperandKind))
    nested = (_kind(item) for item in get_args(hint))
    return next((kind for kind in (*kinds, *nested) if kind != OperandKind.TENSOR), OperandKind.TENSOR)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError:  # a user's entry may name what it imports for type checkers alone
        return {}


@cache
def signature(function: Callable[..., Any]) -> Signature:
    """The signature of a semantics function ``function(xp, *operands, **attributes)``.

    ``**attributes: Unpack[SomeTypedDict]`` takes the attributes that the TypedDict lists.
    """
    hints = _hints(function)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    kinds, variadic, names, any_attribute = [], None, set(), False
    for item in parameters:
        hint = hints.get(item.name)
        if item.kind in positional:
            kinds.append(_kind(hint))
        elif item.kind == inspect.Parameter.VAR_POSITIONAL:
            variadic = _kind(hint)
        elif item.kind == inspect.Parameter.KEYWORD_ONLY:
            names.add(item.name)
        elif get_origin(hint) is Unpack:
            names.update(get_args(hint)[0].__annotations__)
        else:
            any_attribute = True
    return Signature(tuple(kinds), variadic, frozenset(names), any_attribute)


@dataclass(frozen=True)
class Call:
    """A node ready to be computed in a namespace: while importing, or when the model runs.

    Attributes:
        entry: what the operator means.
        attributes: keyword arguments, checked against the function's signature.
        context: what the function may ask about its node.
        otherwise: the call to make where this one declines.
        form: how the function takes its operands; read once, since torch.compile can't trace the reading of annotations.
    """

    entry: SemanticsEntry
    attributes: dict[str, Any] = field(default_factory=dict)
    context: Context = field(default_factory=Context)
    otherwise: Call | None = None
    form: Signature = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "form", signature(self.entry.function))

    def __call__(self, xp: Namespace, operands: Sequence[Operand]) -> Any:
        """The function's result: an operand, a tuple of them, or NotImplemented where a native spelling declines.

        Raises:
            UnknownUntilRun: the function needs what only the running model knows.
            UnsupportedOperator: it refuses.
        """
        form = self.form
        while operands and operands[-1] is None:
            operands = operands[:-1]
        if len(operands) > len(form.kinds) and form.variadic is None:
            raise UnsupportedOperator(f"it is called with {len(operands)} inputs; {len(form.kinds)} are known")
        arguments = [_in_form(xp, item, form.kind(index) or OperandKind.TENSOR) for index, item in enumerate(operands)]
        outer, xp.context = xp.context, self.context
        try:
            result = self.entry.function(xp, *arguments, **self.attributes)
        finally:
            xp.context = outer
        return self.otherwise(xp, operands) if result is NotImplemented and self.otherwise is not None else result


def _in_form(xp: Namespace, item: Operand, kind: OperandKind) -> Any:
    """An operand in the form that a parameter of `kind` takes."""
    if item is None or isinstance(item, list):
        return item
    value = None if kind == OperandKind.TENSOR else as_host(item)
    if kind == OperandKind.HOST:
        return value.array if value is not None else xp.to_host(to_tensor(xp, item))
    if value is not None and value.is_static:
        if kind == OperandKind.KNOWN:
            return value.array
        if kind == OperandKind.NUMBER and value.array.size == 1:
            return value.array.item()
    return to_tensor(xp, item)


def to_tensor(xp: Namespace, item: Operand) -> Any:
    """An operand as a tensor of the framework; sequences, maps and absent values stay."""
    if isinstance(item, Weight):
        return xp.parameter(item.value)
    if isinstance(item, HostValue):
        if item.is_static:
            return xp.constant(item.array, item.dtype)
        if item.dtype.is_floating_point():  # whole numbers that were cast
            return xp.astype(xp.from_host(item.array, ir.DataType.INT64), item.dtype)
        return xp.from_host(item.array, item.dtype)
    return item
