"""The array namespace: what a framework gives so that the ONNX semantics can be said in it.

`Namespace` lists the primitives with the names and signatures of the Python array API standard wherever it has the
function (https://data-apis.org/array-api), plus what ONNX needs and the standard lacks. The functions in `semantics/` are
written against it and run while a framework traces (torch.fx proxies, symbolic tf.Tensor, KerasTensor), and again on real
tensors where an operator could not be resolved before the model runs.

Conventions, binding for every framework:

- Element types are `onnx_ir.DataType`. Operands of one elementwise primitive have the same element type, or are Python
  numbers, which take the other operand's; no primitive promotes. Results have the operands' type unless said otherwise.
- Axes given to primitives are non-negative ints, resolved by the semantics; `axis=None` means all axes.
- Indices given to primitives are non-negative (`take`, `gather_nd`, `scatter_*`), resolved by the semantics.
- Images are channels-first (N, C, d1, d2, ...); paddings are explicit (before, after) pairs.
- Sizes are Python ints, or the framework's dynamic ints where a dimension is known only when the model runs (`Int`): what
  `shape` gives may be added, multiplied and handed to `reshape`, but never compared or branched on. `known(n)` says which.
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

# A primitive's body is its docstring: `_primitive` replaces it by a refusal.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import onnx_ir as ir

from onnxport.errors import OnnxportError, UnsupportedOperator

Tensor: TypeAlias = Any  # the framework's tensor, symbolic or real
Int: TypeAlias = Any  # int, or the framework's dynamic int
Host: TypeAlias = np.ndarray[Any, Any]  # a value known while importing, but for dynamic ints among its elements
Number: TypeAlias = Any  # a Python number where it is known while importing, else a scalar tensor
Known: TypeAlias = Any  # a NumPy array where it is known while importing, else a tensor
Axes: TypeAlias = tuple[int, ...] | None
Pads: TypeAlias = Sequence[tuple[Int, Int]]
Reduction: TypeAlias = Literal["none", "add", "mul", "max", "min"]
PadMode: TypeAlias = Literal["constant", "edge", "reflect", "wrap"]

IntOp: TypeAlias = Literal[
    "add",
    "sub",
    "mul",
    "div",
    "floor_div",
    "ceil_div",
    "mod",
    "min",
    "max",
    "neg",
    "abs",
    "eq",
    "lt",
    "le",
    "and",
    "or",
    "not",
    "where",
]

Method = TypeVar("Method", bound=Callable[..., Any])


class UnknownUntilRun(OnnxportError):
    """An operator needs to know something of its inputs that only the running model has."""


@dataclass(frozen=True)
class HostValue:
    """A small tensor that stays on the Python side: ONNX's shape arithmetic.

    Attributes:
        array: its elements: of the NumPy type of `dtype`, or objects among which are dynamic ints.
        dtype: its ONNX element type.
    """

    array: Host
    dtype: ir.DataType = ir.DataType.INT64

    @classmethod
    def of(cls, elements: Sequence[Int] | Int, dtype: ir.DataType = ir.DataType.INT64) -> HostValue:
        """A vector of `elements`, or a scalar of one."""
        return cls(host_array(elements, dtype.numpy()), dtype)

    @property
    def is_static(self) -> bool:
        """Whether every element is known at import."""
        return self.array.dtype != object or self.dtype == ir.DataType.STRING


def known(n: Int) -> bool:
    """Whether a size is known at import.

    >>> known(3), known("s0")
    (True, False)
    """
    return isinstance(n, (int, np.integer, np.bool_))


def host_array(elements: Any, dtype: Any = np.int64) -> Host:
    """`elements` (a number or a flat sequence) as an array of `dtype` where all are known, else of objects.

    NumPy never gets to look into a framework's symbolic objects, which would try to run them.
    """
    scalar = not isinstance(elements, (list, tuple, np.ndarray))
    items = [elements] if scalar else list(elements)
    if all(isinstance(item, (int, float, np.generic)) for item in items):
        found = np.asarray(items, dtype)
    else:
        found = np.empty(len(items), object)
        for index, item in enumerate(items):
            found[index] = item
    return found.reshape(()) if scalar else found


def is_host(annotation: Any) -> bool:
    """Whether a parameter's annotation is `Host` or ``Host | None``; annotations are strings in files that postpone them."""
    return "Host" in (annotation if isinstance(annotation, str) else getattr(annotation, "__name__", ""))


class Body:
    """A subgraph attribute: called with its inputs it gives the tuple of its outputs, in the namespace that is running.

    Values of enclosing graphs are seen from inside, as in ONNX.

    Attributes:
        inputs: its formal inputs; their names, element types and shapes as far as the model says them.
        outputs: its results, likewise.
    """

    inputs: Sequence[ir.Value]
    outputs: Sequence[ir.Value]

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs for these inputs."""
        raise NotImplementedError


def _primitive(method: Method) -> Method:
    def absent(self: Namespace, *_: Any, **__: Any) -> Any:
        raise UnsupportedOperator(f"the {self.framework} namespace has no primitive {method.__name__!r}")

    absent.__doc__ = method.__doc__
    absent.__name__ = method.__name__
    return absent  # type: ignore[return-value]


@dataclass
class Context:
    """What a semantics function may ask about the node it stands for.

    Attributes:
        version: since_version of the node's schema.
        opset: version of the node's domain that the model imports.
        output_count: how many outputs the node lists, omitted ones at the end not counted.
        wanted: for each listed output whether it has a name.
        input_dtypes: ONNX element types of the inputs; None where unknown or no tensor. Element types that the framework
            lacks travel in another one (int4 in int8), so that only this tells them apart.
        output_dtypes: likewise of the outputs, as far as the model and ONNX's inference say them.
        output_types: likewise their full types (sequences, optionals).
    """

    version: int = 1
    opset: int = 1
    output_count: int = 1
    wanted: tuple[bool, ...] = (True,)
    input_dtypes: tuple[ir.DataType | None, ...] = ()
    output_dtypes: tuple[ir.DataType | None, ...] = ()
    output_types: tuple[ir.TypeProtocol | None, ...] = ()


class Namespace:
    """The primitives. A framework subclasses it; what it does not define refuses by name.

    Attributes:
        framework: ``"pytorch"``, ``"tensorflow"``, ``"keras"``.
        context: the node being said.
    """

    framework: str = ""

    def __init__(self) -> None:
        self.context = Context()

    @property
    def version(self) -> int:
        """since_version of the node's schema."""
        return self.context.version

    @property
    def output_count(self) -> int:
        """How many outputs the node lists."""
        return self.context.output_count

    def wants(self, index: int) -> bool:
        """Whether output `index` is listed and named."""
        return index < len(self.context.wanted) and self.context.wanted[index]

    def input_dtype(self, index: int) -> ir.DataType | None:
        """ONNX element type of input `index`; None where it is unknown or left out."""
        return self.context.input_dtypes[index] if index < len(self.context.input_dtypes) else None

    def output_dtype(self, index: int = 0) -> ir.DataType | None:
        """ONNX element type of output `index` as far as the model says it."""
        return self.context.output_dtypes[index] if index < len(self.context.output_dtypes) else None

    # -- what is known of a tensor -------------------------------------------------------------------------------------

    @_primitive
    def shape(self, x: Tensor) -> tuple[Int, ...]:
        """Sizes: ints where they are known at import, else dynamic ints."""

    @_primitive
    def ndim(self, x: Tensor) -> int:
        """Rank."""

    @_primitive
    def dtype(self, x: Tensor) -> ir.DataType:
        """Element type in which `x` is held."""

    @_primitive
    def is_tensor(self, x: Any) -> bool:
        """Whether `x` is a tensor of the framework (not a sequence, None or a map)."""

    # -- between Python and tensors ------------------------------------------------------------------------------------

    @_primitive
    def constant(self, array: np.ndarray[Any, Any], dtype: ir.DataType | None = None) -> Tensor:
        """A tensor of a NumPy array (ml_dtypes for bfloat16, float8 and 4-bit types; objects of dtype STRING for strings)."""

    @_primitive
    def parameter(self, value: ir.Value) -> Tensor:
        """An initializer of the model, under its own name; the same tensor each time it is asked for."""

    @_primitive
    def from_host(self, array: Host, dtype: ir.DataType) -> Tensor:
        """A tensor whose elements are Python numbers and dynamic ints."""

    @_primitive
    def to_host(self, x: Tensor) -> Host:
        """The elements of a tensor of rank 0 or 1 and known length as an array of dynamic ints (`host_array`)."""

    def is_size(self, n: Int) -> bool:
        """Whether a dynamic int is surely the size of an axis, not a number that the model computed."""
        return False

    @_primitive
    def int_op(self, name: IntOp, *operands: Int) -> Int:
        """Arithmetic of sizes, of which at least one is dynamic.

        div rounds toward zero, floor_div and ceil_div down and up, mod has the divisor's sign. Comparisons give a dynamic
        truth value, which `and`, `or`, `not` and `where` (condition, a, b) take.
        """

    # -- making --------------------------------------------------------------------------------------------------------

    @_primitive
    def full(self, shape: Sequence[Int], fill_value: Any, dtype: ir.DataType) -> Tensor:
        """A constant tensor; `fill_value` is a Python number or a scalar tensor."""

    @_primitive
    def arange(
        self,
        start: Any,
        stop: Any = None,
        step: Any = 1,
        dtype: ir.DataType = ir.DataType.INT64,
    ) -> Tensor:
        """start, start + step, ... below stop; the arguments are Python numbers, dynamic ints or scalar tensors."""

    @_primitive
    def random_uniform(
        self,
        shape: Sequence[Int],
        low: float,
        high: float,
        dtype: ir.DataType,
        seed: float | None,
    ) -> Tensor:
        """Drawn from [low, high), anew in each call; with a seed, the same in each run of the program."""

    @_primitive
    def random_normal(
        self,
        shape: Sequence[Int],
        mean: float,
        scale: float,
        dtype: ir.DataType,
        seed: float | None,
    ) -> Tensor:
        """Drawn from a normal distribution, anew in each call."""

    def zeros(self, shape: Sequence[Int], dtype: ir.DataType) -> Tensor:
        """A tensor of zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: Sequence[Int], dtype: ir.DataType) -> Tensor:
        """A tensor of ones."""
        return self.full(shape, 1, dtype)

    # -- element types -------------------------------------------------------------------------------------------------

    @_primitive
    def astype(self, x: Tensor, dtype: ir.DataType, saturate: bool = True) -> Tensor:
        """`x` converted as ONNX's Cast does between numbers: float to integer truncates, to bool is non-zero, integers wrap.

        To float8, out of range is the greatest value with `saturate`, else infinity or NaN; float4, float6 saturate always.
        Strings are read and written as numbers are in decimal notation.
        """

    @_primitive
    def bitcast(self, x: Tensor, dtype: ir.DataType) -> Tensor:
        """The bits of `x` read as another element type of the same size."""

    @_primitive
    def complex(self, real: Tensor, imag: Tensor) -> Tensor:
        """real + i imag."""

    @_primitive
    def real(self, x: Tensor) -> Tensor:
        """Real part."""

    @_primitive
    def imag(self, x: Tensor) -> Tensor:
        """Imaginary part."""

    # -- elementwise ---------------------------------------------------------------------------------------------------

    @_primitive
    def elementwise(self, name: str, *xs: Tensor) -> Tensor:
        """A row of `opset_maps/elementwise.py` by its ONNX name (``"Asinh"``) or composition name (``"expm1"``)."""

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """a + b."""
        return self.elementwise("Add", a, b)

    def subtract(self, a: Tensor, b: Tensor) -> Tensor:
        """a - b."""
        return self.elementwise("Sub", a, b)

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """a b."""
        return self.elementwise("Mul", a, b)

    @_primitive
    def divide(self, a: Tensor, b: Tensor) -> Tensor:
        """a / b; between integers rounded toward zero."""

    @_primitive
    def floor_mod(self, a: Tensor, b: Tensor) -> Tensor:
        """Remainder with the divisor's sign."""

    @_primitive
    def trunc_mod(self, a: Tensor, b: Tensor) -> Tensor:
        """Remainder with the dividend's sign."""

    @_primitive
    def pow(self, a: Tensor, b: Tensor) -> Tensor:
        """a to the b, in the element type of a; b may have another."""

    @_primitive
    def where(self, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """a where the condition holds, else b; a or b may be a Python number, not both."""

    @_primitive
    def bitwise_left_shift(self, a: Tensor, b: Tensor) -> Tensor:
        """a << b; 0 where b is at least the width."""

    @_primitive
    def bitwise_right_shift(self, a: Tensor, b: Tensor) -> Tensor:
        """a >> b; for unsigned types 0 where b is at least the width."""

    @_primitive
    def bitwise_invert(self, x: Tensor) -> Tensor:
        """not x, bit by bit."""

    @_primitive
    def logical_not(self, x: Tensor) -> Tensor:
        """not x."""

    @_primitive
    def isnan(self, x: Tensor) -> Tensor:
        """Not a number."""

    @_primitive
    def isinf(self, x: Tensor) -> Tensor:
        """Infinite of either sign."""

    @_primitive
    def equal(self, a: Tensor, b: Tensor) -> Tensor:
        """a = b, of strings too."""

    def not_equal(self, a: Tensor, b: Tensor) -> Tensor:
        """a differs from b."""
        return self.logical_not(self.equal(a, b))

    def less(self, a: Tensor, b: Tensor) -> Tensor:
        """a < b."""
        return self.elementwise("Less", a, b)

    def less_equal(self, a: Tensor, b: Tensor) -> Tensor:
        """a <= b."""
        return self.elementwise("LessOrEqual", a, b)

    def greater(self, a: Tensor, b: Tensor) -> Tensor:
        """a > b."""
        return self.elementwise("Greater", a, b)

    def greater_equal(self, a: Tensor, b: Tensor) -> Tensor:
        """a >= b."""
        return self.elementwise("GreaterOrEqual", a, b)

    def logical_and(self, a: Tensor, b: Tensor) -> Tensor:
        """a and b."""
        return self.elementwise("And", a, b)

    def logical_or(self, a: Tensor, b: Tensor) -> Tensor:
        """a or b."""
        return self.elementwise("Or", a, b)

    def maximum(self, a: Tensor, b: Tensor) -> Tensor:
        """The greater; NaN where either is."""
        return self.elementwise("Max", a, b)

    def minimum(self, a: Tensor, b: Tensor) -> Tensor:
        """The lesser; NaN where either is."""
        return self.elementwise("Min", a, b)

    def negative(self, x: Tensor) -> Tensor:
        """-x."""
        return self.elementwise("Neg", x)

    def abs(self, x: Tensor) -> Tensor:
        """Magnitude."""
        return self.elementwise("Abs", x)

    def exp(self, x: Tensor) -> Tensor:
        """e to the x."""
        return self.elementwise("Exp", x)

    def log(self, x: Tensor) -> Tensor:
        """Natural logarithm."""
        return self.elementwise("Log", x)

    def sqrt(self, x: Tensor) -> Tensor:
        """Square root."""
        return self.elementwise("Sqrt", x)

    def square(self, x: Tensor) -> Tensor:
        """x x."""
        return self.multiply(x, x)

    def reciprocal(self, x: Tensor) -> Tensor:
        """1 / x."""
        return self.elementwise("Reciprocal", x)

    def sin(self, x: Tensor) -> Tensor:
        """Sine."""
        return self.elementwise("Sin", x)

    def cos(self, x: Tensor) -> Tensor:
        """Cosine."""
        return self.elementwise("Cos", x)

    def tanh(self, x: Tensor) -> Tensor:
        """Hyperbolic tangent."""
        return self.elementwise("Tanh", x)

    def sigmoid(self, x: Tensor) -> Tensor:
        """1 / (1 + exp(-x))."""
        return self.elementwise("Sigmoid", x)

    def erf(self, x: Tensor) -> Tensor:
        """Error function."""
        return self.elementwise("Erf", x)

    def relu(self, x: Tensor) -> Tensor:
        """max(x, 0)."""
        return self.elementwise("Relu", x)

    def softplus(self, x: Tensor) -> Tensor:
        """log(1 + exp(x)) without overflow."""
        return self.elementwise("Softplus", x)

    def floor(self, x: Tensor) -> Tensor:
        """Rounded toward minus infinity."""
        return self.elementwise("Floor", x)

    def ceil(self, x: Tensor) -> Tensor:
        """Rounded toward infinity."""
        return self.elementwise("Ceil", x)

    def round(self, x: Tensor) -> Tensor:
        """Rounded to nearest, halves to even."""
        return self.elementwise("Round", x)

    def sign(self, x: Tensor) -> Tensor:
        """-1, 0 or 1."""
        return self.elementwise("Sign", x)

    def clip(self, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
        """min(max(x, low), high); bounds are numbers or scalar tensors."""
        x = x if low is None else self.maximum(x, low)
        return x if high is None else self.minimum(x, high)

    # -- reductions ----------------------------------------------------------------------------------------------------

    @_primitive
    def sum(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """Sum, in the element type of x; over no elements 0."""

    @_primitive
    def prod(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """Product, in the element type of x; over no elements 1."""

    @_primitive
    def mean(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """Mean; of integers rounded toward zero."""

    @_primitive
    def max(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """Greatest element; over no elements the least value of the type (-inf, false)."""

    @_primitive
    def min(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """Least element; over no elements the greatest value of the type."""

    @_primitive
    def argmax(self, x: Tensor, axis: int, keepdims: bool = False) -> Tensor:
        """INT64 index of the first greatest element."""

    @_primitive
    def argmin(self, x: Tensor, axis: int, keepdims: bool = False) -> Tensor:
        """INT64 index of the first least element."""

    @_primitive
    def cumulative_sum(self, x: Tensor, axis: int) -> Tensor:
        """Inclusive running sum, in the element type of x."""

    @_primitive
    def cumulative_prod(self, x: Tensor, axis: int) -> Tensor:
        """Inclusive running product, in the element type of x."""

    def logsumexp(self, x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """log(sum(exp(x))) without overflow; -inf over no elements or where all are -inf."""
        peak = self.max(x, axis, True)
        peak = self.where(self.isinf(peak), self.zeros((), self.dtype(x)), peak)
        total = self.add(self.log(self.sum(self.exp(self.subtract(x, peak)), axis, True)), peak)
        if keepdims:
            return total
        return self.squeeze(total, tuple(range(self.ndim(x))) if axis is None else axis)

    def softmax(self, x: Tensor, axis: int) -> Tensor:
        """exp(x) / sum(exp(x)) along one axis."""
        shifted = self.exp(self.subtract(x, self.max(x, (axis,), True)))
        return self.divide(shifted, self.sum(shifted, (axis,), True))

    def log_softmax(self, x: Tensor, axis: int) -> Tensor:
        """log(softmax(x))."""
        return self.subtract(x, self.logsumexp(x, (axis,), True))

    # -- shape ---------------------------------------------------------------------------------------------------------

    @_primitive
    def reshape(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        """The same elements in another shape; one size may be -1."""

    @_primitive
    def permute_dims(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Axes reordered."""

    @_primitive
    def expand_dims(self, x: Tensor, axis: Sequence[int]) -> Tensor:
        """Axes of size 1 inserted at the given places of the result."""

    @_primitive
    def squeeze(self, x: Tensor, axis: Sequence[int]) -> Tensor:
        """Axes of size 1 removed."""

    @_primitive
    def concat(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        """Joined along an axis."""

    @_primitive
    def stack(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        """Joined along a new axis."""

    @_primitive
    def broadcast_to(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        """Repeated to `shape`, which has at least the rank of x and no -1."""

    @_primitive
    def expand(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        """ONNX's Expand: x and a tensor of `shape` broadcast against each other, of which dynamic sizes may be 1."""

    @_primitive
    def flip(self, x: Tensor, axis: Sequence[int]) -> Tensor:
        """Reversed along axes."""

    @_primitive
    def tile(self, x: Tensor, repeats: Sequence[Int]) -> Tensor:
        """Repeated along each axis."""

    @_primitive
    def split(self, x: Tensor, sizes: Sequence[Int], axis: int) -> list[Tensor]:
        """Cut along an axis into pieces of `sizes`."""

    @_primitive
    def slice(self, x: Tensor, axis: int, start: Int | None, stop: Int | None, step: int = 1) -> Tensor:
        """``x[..., start:stop:step]`` along one axis; negative and excessive bounds and negative steps as in Python."""

    @_primitive
    def pad(self, x: Tensor, pads: Pads, mode: PadMode = "constant", value: Any = 0) -> Tensor:
        """Padded by non-negative (before, after) pairs, one an axis; `value` is a number or scalar tensor."""

    # -- indexing, sorting ---------------------------------------------------------------------------------------------

    @_primitive
    def take(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        """Slices of x along an axis; the indices' axes stand in the place of that axis (ONNX Gather)."""

    @_primitive
    def take_along_axis(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        """One element an index (ONNX GatherElements: the other axes of `indices` may be shorter)."""

    @_primitive
    def gather_nd(self, x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
        """Slices of x at index tuples (ONNX GatherND)."""

    @_primitive
    def scatter_elements(
        self,
        x: Tensor,
        indices: Tensor,
        updates: Tensor,
        axis: int,
        reduction: Reduction = "none",
    ) -> Tensor:
        """x with one element an index replaced or combined (ONNX ScatterElements)."""

    @_primitive
    def scatter_nd(self, x: Tensor, indices: Tensor, updates: Tensor, reduction: Reduction = "none") -> Tensor:
        """x with slices at index tuples replaced or combined (ONNX ScatterND)."""

    @_primitive
    def nonzero(self, x: Tensor) -> Tensor:
        """INT64 [rank, n]: indices of the elements that are not zero, in row-major order."""

    @_primitive
    def compress(self, x: Tensor, condition: Tensor, axis: int) -> Tensor:
        """Slices along an axis where a boolean vector, perhaps shorter than the axis, is true."""

    @_primitive
    def unique(self, x: Tensor, axis: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sorted distinct elements (axis=None: of the flattened tensor) or slices, INT64 first index, inverse, counts."""

    @_primitive
    def top_k(self, x: Tensor, k: Int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
        """The k greatest or least elements in order and their INT64 indices; of equal ones the lower index first."""

    @_primitive
    def argsort(self, x: Tensor, axis: int, descending: bool = False) -> Tensor:
        """Stable sorting order, INT64."""

    def sort(self, x: Tensor, axis: int, descending: bool = False) -> Tensor:
        """Sorted along an axis."""
        return self.take_along_axis(x, self.argsort(x, axis, descending), axis)

    def one_hot(self, indices: Tensor, depth: Int, axis: int) -> Tensor:
        """Bool: a new axis of size `depth` at `axis`, true at the index; all false where the index is outside."""
        rank = self.ndim(indices) + 1
        positions = self.arange(0, depth, 1, self.dtype(indices))
        positions = self.expand_dims(positions, [i for i in range(rank) if i != axis])
        return self.equal(self.expand_dims(indices, [axis]), positions)

    def lookup(self, x: Tensor, keys: np.ndarray[Any, Any]) -> Tensor:
        """INT64: the place of each element of x among distinct `keys` of its type (objects for strings), -1 where it is none.

        NaN is found where it is among the keys.
        """
        text = self.dtype(x) == ir.DataType.STRING
        held = self.constant(keys, ir.DataType.STRING if text else None)
        spread = self.expand_dims(x, [self.ndim(x)])
        hits = self.equal(spread, held)
        if not text and keys.dtype.kind == "f" and np.isnan(keys).any():
            hits = self.logical_or(hits, self.logical_and(self.isnan(spread), self.isnan(held)))
        codes = self.astype(hits, ir.DataType.INT64)
        last = self.ndim(hits) - 1
        place = self.argmax(codes, last)
        return self.where(self.equal(self.max(codes, (last,)), 1), place, -1)

    # -- strings -------------------------------------------------------------------------------------------------------

    @_primitive
    def string_case(self, x: Tensor, upper: bool) -> Tensor:
        """Strings in upper or lower case, by Unicode."""

    @_primitive
    def string_concat(self, a: Tensor, b: Tensor) -> Tensor:
        """Each string of a before that of b, broadcast against each other."""

    @_primitive
    def string_split(self, x: Tensor, delimiter: str | None, maxsplit: int | None) -> tuple[Tensor, Tensor]:
        """Pieces in a new last axis filled with "", and their INT64 number, 0 for an empty string.

        As Python's str.split, but that without a delimiter whitespace at the end is no part of the last piece.
        """

    @_primitive
    def regex_full_match(self, x: Tensor, pattern: str) -> Tensor:
        """Bool: whether a string as a whole matches an expression in RE2's syntax."""

    # -- linear algebra and neural networks ----------------------------------------------------------------------------

    @_primitive
    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """NumPy's matmul, of integers too."""

    @_primitive
    def einsum(self, equation: str, *xs: Tensor) -> Tensor:
        """Einstein sum in NumPy's notation."""

    @_primitive
    def det(self, x: Tensor) -> Tensor:
        """Determinants of the last two axes."""

    @_primitive
    def conv(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        strides: Sequence[int],
        pads: Pads,
        dilations: Sequence[int],
        groups: int = 1,
    ) -> Tensor:
        """Cross-correlation with weight (out, in/groups, k1, ...), in any number of spatial axes."""

    @_primitive
    def conv_transpose(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        strides: Sequence[int],
        dilations: Sequence[int],
        groups: int = 1,
    ) -> Tensor:
        """Transpose of `conv` without padding, weight (in, out/groups, k1, ...): size (n - 1) stride + (k - 1) dilation + 1."""

    @_primitive
    def max_pool(
        self,
        x: Tensor,
        kernel: Sequence[int],
        *,
        strides: Sequence[int],
        dilations: Sequence[int],
    ) -> Tensor:
        """Greatest element of each window that lies wholly inside x."""

    @_primitive
    def sum_pool(
        self,
        x: Tensor,
        kernel: Sequence[int],
        *,
        strides: Sequence[int],
        dilations: Sequence[int],
    ) -> Tensor:
        """Sum of each window that lies wholly inside x."""

    @_primitive
    def fft(self, x: Tensor, axis: int, inverse: bool = False) -> Tensor:
        """Discrete Fourier transform of a complex tensor along one axis; the inverse divides by n."""

    # -- control flow --------------------------------------------------------------------------------------------------

    @_primitive
    def cond(self, condition: Tensor, then_branch: Body, else_branch: Body) -> tuple[Tensor, ...]:
        """The results of one branch; a condition known at import never comes here."""

    @_primitive
    def loop(
        self,
        trip_count: Int | None,
        condition: Tensor | None,
        carried: Sequence[Tensor],
        body: Callable[..., tuple[Tensor, ...]],
        scan_count: int,
        formal: Sequence[ir.Value | None],
    ) -> tuple[Tensor, ...]:
        """ONNX's Loop.

        Args:
            trip_count: greatest number of iterations; None is no limit.
            condition: scalar bool before the first iteration; None is true.
            carried: values carried from iteration to iteration.
            body: called as ``body(iteration, condition, *carried)`` with an INT64 scalar and a bool scalar tensor; gives the
                next condition, the next carried values and `scan_count` elements to be stacked.
            scan_count: how many.
            formal: for each carried value what the model says of its type in the body, which may be less than is known of
                the first one: its shape may change from iteration to iteration.

        Returns:
            The carried values at the end, then the scan outputs, stacked along a new axis 0.
        """

    # -- what the walk asks of a framework ------------------------------------------------------------------------------

    def refine(self, x: Any, value: ir.Value) -> Any:
        """`x` with what the model says of its type, where the framework does not know it."""
        return x

    def mark(self) -> Any:
        """A place in the traced program to which `rollback` can return."""
        return None

    def rollback(self, mark: Any) -> None:
        """Forgets what was traced since `mark`; frameworks that drop unused nodes need not."""

    def defer(self, call: Any, operands: Sequence[Any], outputs: Sequence[ir.Value], error: UnknownUntilRun) -> Any:
        """Operator `call` (`from_onnx.call.Call`) put off until the model runs; by default it is refused with `error`."""
        raise UnsupportedOperator(str(error)) from error
