"""The array namespace: what a framework provides for the ONNX semantics.

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

from collections.abc import Sequence
from typing import Any, Protocol

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.operands import Operand
from onnxport.opset_maps.from_onnx.primitives.control import ControlFamily
from onnxport.opset_maps.from_onnx.primitives.elementwise import ElementwiseFamily
from onnxport.opset_maps.from_onnx.primitives.indexing import IndexingFamily
from onnxport.opset_maps.from_onnx.primitives.shapes import ShapeFamily
from onnxport.opset_maps.from_onnx.primitives.tensors import Context, TensorFamily
from onnxport.opset_maps.from_onnx.primitives.text import TextFamily
from onnxport.opset_maps.from_onnx.primitives.windows import WindowFamily
from onnxport.opset_maps.from_onnx.values import UnknownUntilRun
from onnxport.opset_maps.registry import SemanticsEntry

# What a namespace consists of: a class in `primitives/` describes each family, and a framework has one class for each that it
# computes itself, in a file of the same name. Defaults of shapes and indexing compute with the families before them.
FAMILIES = (TensorFamily, ElementwiseFamily, ShapeFamily, IndexingFamily, TextFamily, WindowFamily, ControlFamily)


class NodeCall(Protocol):
    """An ONNX node ready to be computed in a namespace; `from_onnx.call.Call` is the one kind there is."""

    @property
    def entry(self) -> SemanticsEntry:
        """What the operator means."""

    @property
    def attributes(self) -> dict[str, Any]:
        """Keyword arguments of the entry's function."""

    @property
    def context(self) -> Context:
        """What the function may ask about its node."""

    def __call__(self, xp: Namespace, operands: Sequence[Operand], /) -> Any:
        """The node's results."""


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
        self, call: NodeCall, operands: Sequence[Operand], outputs: Sequence[ir.Value], error: UnknownUntilRun
    ) -> Any:
        """Operator `call` put off until the model runs; by default it is refused with `error`."""
        raise UnsupportedOperator(str(error)) from error
