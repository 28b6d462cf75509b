"""A graph rewritten by the table of defects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import onnx_ir as ir
from onnx_ir.passes import Sequential

from onnxport.graph.bodies import bodies, every_node
from onnxport.graph.builder import OpBuilder
from onnxport.graph.passes.cleanup import clean
from onnxport.graph.passes.rewriting import replace_value
from onnxport.graph.runtimes.casts import CASTS
from onnxport.graph.runtimes.defect import ALL_OPSETS, Defect
from onnxport.graph.runtimes.deformed import DEFORMED
from onnxport.graph.runtimes.double import DOUBLE
from onnxport.graph.runtimes.others import OTHERS
from onnxport.graph.runtimes.padding import PADDING
from onnxport.graph.runtimes.pools import POOLS
from onnxport.graph.runtimes.products import PRODUCTS, SettleProductsPass
from onnxport.graph.runtimes.quantised import QUANTISED
from onnxport.graph.runtimes.recurrences import RECURRENCES
from onnxport.graph.runtimes.scales import KeepDoubleScalesPass
from onnxport.graph.runtimes.scatter import SCATTERS
from onnxport.graph.runtimes.strings import STRINGS
from onnxport.graph.runtimes.whole_numbers import WHOLE_NUMBERS
from onnxport.graph.runtimes.windows import WINDOWS

DEFECTS: tuple[Defect, ...] = (
    *OTHERS,
    *WHOLE_NUMBERS,
    *SCATTERS,
    *STRINGS,
    *PRODUCTS,
    *QUANTISED,
    *DOUBLE,
    *RECURRENCES,
    *WINDOWS,
    *DEFORMED,
    *POOLS,
    *PADDING,
    *CASTS,
)


def _by_operator() -> dict[tuple[str, str], list[Defect]]:
    table: dict[tuple[str, str], list[Defect]] = defaultdict(list)
    for defect in DEFECTS:
        for operator in defect.operators:
            table[defect.domain, operator].append(defect)
    return dict(table)


_BY_OPERATOR = _by_operator()


def fit(model: ir.Model, op: OpBuilder, *, merge: bool = True) -> tuple[str, ...]:
    """Rewrites the nodes of a typed model that onnxruntime lacks or gets wrong, in place; `op` knows the model's names and opset.

    Returns:
        A sentence a kind of rewriting, with the operators and their count.
    """
    fitting = _Fitting(op)
    fitting.graph(model.graph)
    for value in op.initializers:  # new ones, and those that nothing used any more when the graph was cleaned
        if value.name not in model.graph.initializers and value.uses():
            model.graph.register_initializer(value)
    model.graph.opset_imports.update(op.opset_imports)
    notes = fitting.notes()
    if notes:
        clean(model, merge=merge)  # casts there and back, once more for each use
    if any(node.op_type == "MatMul" for node in every_node(model.graph)):
        Sequential(KeepDoubleScalesPass(), SettleProductsPass())(model)
    return notes


def misread(model: ir.Model, *, optimised: bool = False) -> str:
    """Why onnxruntime's results are not the graph's: an operator that it does not run by its definition; empty without one.

    With `optimised` one that it runs by its definition only without its optimisations.
    """
    opset = model.opset_imports.get("", ALL_OPSETS.stop - 1)
    for node in every_node(model.graph):
        for defect in _BY_OPERATOR.get((node.domain, node.op_type), ()):
            if (defect.optimised if optimised else defect.misread) and defect.concerns(node, opset):
                return f"{node.op_type}: {defect.reason}"
    return ""


# Operators of which each thread of onnxruntime quantises its own part of the rows by the range of that part.
_PARTED = frozenset({("com.microsoft", "DynamicQuantizeLSTM")})


def parted_by_threads(model: ir.Model) -> str:
    """The operator whose numbers depend on how many threads onnxruntime has; empty without one."""
    parted = (node.op_type for node in every_node(model.graph) if (node.domain, node.op_type) in _PARTED)
    return next(parted, "")


# MatMulNBits: above this `accuracy_level` onnxruntime may round the other operand, at 4 to 8 bits.
_UNROUNDED = 1


def unrounded(model: ir.Model) -> ir.Model | None:
    """The model with products that round no operand, which it leaves to onnxruntime; None where it has no such leave."""
    if not any(map(_may_round, every_node(model.graph))):
        return None
    copy = model.clone()
    for node in filter(_may_round, every_node(copy.graph)):
        node.attributes.add(ir.AttrInt64("accuracy_level", _UNROUNDED))
    return copy


def _may_round(node: ir.Node) -> bool:
    product = (node.domain, node.op_type) == ("com.microsoft", "MatMulNBits")
    return product and node.attributes.get_int("accuracy_level", 0) > _UNROUNDED


class _Fitting:
    """One run over a model."""

    def __init__(self, op: OpBuilder) -> None:
        self._op = op
        self._used: dict[Defect, Counter[str]] = {}

    def graph(self, graph: ir.Graph, before: tuple[Defect, ...] = ()) -> None:
        """Rewrites a graph and those that its nodes hold; it was written for the defects `before`, which concern it no more."""
        self._nodes(list(graph), before)

    def _nodes(self, nodes: Iterable[ir.Node], before: tuple[Defect, ...]) -> None:
        for node in nodes:
            for body in bodies(node):
                self.graph(body, before)
            for defect in _BY_OPERATOR.get((node.domain, node.op_type), ()):
                if defect not in before and defect.concerns(node, self._op.opset):
                    self._replace(node, defect, before)
                    break

    def _replace(self, node: ir.Node, defect: Defect, before: tuple[Defect, ...]) -> None:
        graph = node.graph
        assert graph is not None
        inner = self._op.subgraph()
        with self._op.instead_of(node):
            written = defect.write(inner, node)
            results = written if isinstance(written, tuple) else (written,)
            own = {value for item in inner.nodes for value in item.outputs}
            results = tuple(value if value in own else inner.identity(value) for value in results)
        graph.insert_before(node, inner.nodes)
        for old, new in zip(node.outputs, results, strict=True):
            replace_value(old, new)
        graph.remove(node, safe=True)
        if not before:
            self._used.setdefault(defect, Counter())[node.op_type] += 1
        self._nodes(inner.nodes, (*before, defect))

    def notes(self) -> tuple[str, ...]:
        """What was rewritten, a sentence a kind."""
        written = ((_counted(operators), defect) for defect, operators in self._used.items())
        return tuple(f"for onnxruntime: {what} written as {row.instead}, since {row.reason}" for what, row in written)


def _counted(operators: Counter[str]) -> str:
    return ", ".join(f"{name} x{count}" if count > 1 else name for name, count in operators.items())
