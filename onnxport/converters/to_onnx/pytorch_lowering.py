"""The walk over an exported graph: each node through the ATen map, or through torch's own decomposition."""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor, from_torch_dtype
from torch.utils import _pytree as pytree

from onnxport.converters.to_onnx import pytorch_aliases as aliases
from onnxport.converters.to_onnx.pytorch_aliases import AliasCell, Inexpressible, Ref
from onnxport.converters.to_onnx.pytorch_boundary import NUMPY, Boundary
from onnxport.converters.to_onnx.pytorch_decompose import decompose
from onnxport.converters.to_onnx.pytorch_places import operator_name, source_of
from onnxport.converters.to_onnx.pytorch_strides import in_storage_order
from onnxport.converters.to_onnx.pytorch_types import OF_SPARSE, Types, computes_sparse, holds_complex, stored, typed
from onnxport.converters.to_onnx.refusals import Refusals
from onnxport.converters.to_onnx.wider import holds_halves, in_single
from onnxport.errors import MapEntryError, OnnxportError, UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.provenance import Source
from onnxport.graph.result_types import Expected
from onnxport.opset_maps.lowerings.complex_numbers import PART_TYPES, mark_complex
from onnxport.opset_maps.lowerings.normalization import moved_statistics
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.registry import Entry, Undefined
from onnxport.tracing.pytorch_nodes import computed_numbers, recorded
from onnxport.tracing.pytorch_programs import Traced
from onnxport.tracing.pytorch_signs import signs_matter

# Where tensors lie in memory has no meaning in ONNX.
_DROPPED_ARGUMENTS = frozenset(("device", "layout", "pin_memory", "memory_format", "non_blocking"))
# Checks on sizes and values, which ran with the trace.
_DROPPED = frozenset(
    "aten::_assert_async.msg aten::_assert_async.default aten::_assert_scalar.default aten::_linalg_check_errors.default "
    "aten::_assert_tensor_metadata.default aten::sym_constrain_range.default "
    "aten::sym_constrain_range_for_size.default".split()
)
# Parts of PyTorch's decompositions that are ATen's operators, without promotion.
_SAME_AS_ATEN = frozenset(
    f"prims::{name}.default"
    for name in "abs add cos div eq exp ge gt le lt log mul ne neg pow sin sqrt sub tanh where".split()
)
# Operators that give vectors whose signs are LAPACK's choice: the entry for any other choice, and the vectors' places.
_VECTORS = {
    **dict.fromkeys(("aten::linalg_eigh.default", "aten::_linalg_eigh.default"), ("onnxport::eigenvectors", (1,))),
    **dict.fromkeys(
        ("aten::linalg_svd.default", "aten::_linalg_svd.default", "aten::svd.default"),
        ("onnxport::singular_vectors", (0, 2)),
    ),
}

Env = dict[torch.fx.Node, Any]  # what stands for the nodes of a graph that are lowered


class Lowering:
    """The lowering of one traced program into one builder; `refused` has the operators and buffers without a form."""

    def __init__(self, op: OpBuilder, traced: Traced) -> None:
        self._op = op
        self._program = traced.program
        self._types = Types(traced.symbols, traced.sums)
        self.boundary = Boundary(op, traced.program, self._types)
        self._input_cells: dict[str, Ref] = {}
        self.refused = Refusals("pytorch")
        self._depth = 0
        self._signs_matter: bool | None = None
        self.notes: list[str] = []  # on how operators are written
        op.on_call(self._call)

    def written_inputs(self) -> list[tuple[str, Ref]]:
        """Graph inputs that were written to, by name."""
        return [(self.boundary.input_names[key], ref) for key, ref in self._input_cells.items() if ref.cell.version]

    def refuse_buffer(self, name: str, source: Source | None = None, reason: str = "") -> None:
        """Records that the model writes to one of its buffers."""
        stateless = 'the model writes to it, an ONNX graph has no state: states="io" makes it an input and an output'
        self.refused.add(f"buffer {name!r}", reason or stateless, source.where if source else "")

    def run(self, op: OpBuilder, module: torch.fx.GraphModule, arguments: Sequence[Any]) -> list[Any]:
        """Lowers a graph into `op` and gives its results; `arguments` stand for its placeholders in order."""
        graph = module.graph
        tracked = any(
            node.op == "call_function" and (aliases.mutates(node.target) or _moves_statistics(node))
            for node in graph.nodes
        )
        main = module is self._program.graph_module
        env: Env = {}
        given = iter(arguments)
        results: list[Any] = []
        placeholders: list[tuple[torch.fx.Node, Ref]] = []
        for node in graph.nodes:
            if node.op == "call_function":
                env[node] = self._node(op, node, env, tracked)
            elif node.op == "placeholder":
                value = next(given)
                if tracked and isinstance(value, ir.Value):
                    ref = Ref(AliasCell(value))
                    placeholders.append((node, ref))
                    value = ref
                env[node] = value
            elif node.op == "get_attr":
                env[node] = self._attribute(op, module, str(node.target))
            elif node.op == "output":
                expected = node.args[0]
                expected = expected if isinstance(expected, (list, tuple)) else [expected]
                results = pytree.tree_map(
                    lambda item: env[item] if isinstance(item, torch.fx.Node) else item, list(expected)
                )
            else:
                raise MapEntryError(f"the exported graph holds a node of kind {node.op!r}")
        self._note_writes(placeholders, main=main)
        if not main:
            results = pytree.tree_map(lambda item: item.read() if isinstance(item, Ref) else item, results)
        return results

    def _note_writes(self, placeholders: Sequence[tuple[torch.fx.Node, Ref]], *, main: bool) -> None:
        """Records which inputs of a graph it wrote to; buffers that hold something from call to call are refused."""
        for node, ref in placeholders:
            if not ref.cell.version:
                continue
            if not main:
                raise Inexpressible("a branch or body writes to a tensor from outside")
            name = self.boundary.buffers.get(id(ref.cell.first))
            if node.name in self.boundary.input_names:
                self._input_cells[node.name] = ref
            elif not ref.cell.settled and not aliases.written_before_read(node):
                self.refuse_buffer(node.name if name is None else name, ref.cell.writer)

    def _attribute(self, op: OpBuilder, module: torch.fx.GraphModule, target: str) -> Any:
        item: Any = module
        for part in target.split("."):
            item = getattr(item, part)
        if isinstance(item, torch.Tensor):
            item = item.detach()
            return op.const(item.cpu().numpy()) if item.dtype in NUMPY else op.initializer(target, TorchTensor(item))
        return item

    def _call(self, op: OpBuilder, target: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """``op.call`` of an entry: lowers a graph module (a branch, a body) into `op`."""
        if kwargs or not isinstance(target, torch.fx.GraphModule):
            raise MapEntryError(f"{type(target).__name__} is no graph that can be lowered")
        return self.run(op, target, args)

    def _node(self, op: OpBuilder, node: torch.fx.Node, env: Env, tracked: bool) -> Any:
        target = node.target
        if target is operator.getitem and isinstance(node.args[0], torch.fx.Node):
            return self._item(op, node, env, tracked)
        name = operator_name(target)
        if name in _DROPPED:
            return None
        if name == "higher_order::wrap_with_autocast" and node.args[2]:
            raise Inexpressible("a region under torch.autocast")
        source = source_of(node, name)
        if tracked and isinstance(target, torch._ops.OpOverload):
            written = aliases.written_arguments(target)
            reshaping = name.partition(".")[0] in aliases.RESHAPING
            if written and not reshaping:
                return self._in_place(op, node, name, env, source, written)
            name = aliases.functional_name(name) if reshaping else name
            if reshaping or aliases.is_view(node):
                parent = env[node.args[0]]
                if isinstance(parent, Ref) and not isinstance(recorded(node), (list, tuple)):
                    relower = self._relower(op, node, name, env, source)
                    return parent.view(relower, self._writer(op, node, name, env, source))
        args, kwargs = _arguments(node, env)
        result = self._lower(op, node, name, args, kwargs, source)
        if _moves_statistics(node):
            self._move_statistics(op, node, args, env, source)
        return _owned(result) if tracked else result

    def _item(self, op: OpBuilder, node: torch.fx.Node, env: Env, tracked: bool) -> Any:
        origin, index = node.args
        item = env[origin][index]
        if not tracked or not aliases.is_view(origin):
            return item
        parent = env[origin.args[0]]
        name = operator_name(origin.target)
        source = source_of(origin, name)
        relower = self._relower(op, origin, name, env, source)
        return parent.view(lambda value: relower(value)[index], self._writer(op, origin, name, env, source, index))

    def _relower(
        self, op: OpBuilder, node: torch.fx.Node, name: str, env: Env, source: Source
    ) -> Callable[[ir.Value], Any]:
        def again(value: ir.Value) -> Any:
            args, kwargs = _arguments(node, env)
            return self._lower(op, node, name, [value, *args[1:]], kwargs, source)

        return again

    def _writer(
        self, op: OpBuilder, node: torch.fx.Node, name: str, env: Env, source: Source, index: int | None = None
    ) -> Callable[[ir.Value, ir.Value], ir.Value]:
        def write(base: ir.Value, new: ir.Value) -> ir.Value:
            args, kwargs = _arguments(node, env)
            origin = recorded(node.args[0])
            with op.at(source, [self._types.expected(origin)]):
                result = aliases.write_back(op, name, base, new, args[1:], kwargs, index)
                return op.typed(result, base.dtype, tuple(base.shape) if base.shape is not None else None)

        return write

    def _in_place(
        self, op: OpBuilder, node: torch.fx.Node, name: str, env: Env, source: Source, written: tuple[int, ...]
    ) -> Any:
        if written != (0,):
            raise Inexpressible(f"{name} writes to other arguments than its first")
        ref = env[node.args[0]]
        if not isinstance(ref, Ref):
            raise Inexpressible(f"{name} writes to a value that is not tracked")
        args, kwargs = _arguments(node, env)
        result = self._lower(op, node, aliases.functional_name(name), args, kwargs, source)
        ref.write(result, source)
        return ref

    def _move_statistics(self, op: OpBuilder, node: torch.fx.Node, args: list[Any], env: Env, source: Source) -> None:
        """Writes what training makes of running statistics that are inputs; those of a module are refused."""
        refs = [ref for ref in map(env.get, node.args[3:5]) if isinstance(ref, Ref)]
        buffers = [
            self.boundary.buffers[id(ref.cell.first)] for ref in refs if id(ref.cell.first) in self.boundary.buffers
        ]
        if len(refs) < 2 or buffers:
            reason = "training updates these statistics and an ONNX graph has no state; call model.eval()"
            self.refuse_buffer(buffers[0] if buffers else "running_mean", source, reason)
            return
        x, mean, variance, momentum = args[0], args[3], args[4], args[6]
        by_instance = "instance_norm" in operator_name(node.target)
        with op.at(source, [None, None]):
            moved = moved_statistics(op, x, mean, variance, momentum, by_instance=by_instance)
        for ref, value in zip(refs, moved, strict=True):
            ref.write(value, source)

    def _lower(
        self, op: OpBuilder, node: torch.fx.Node, name: str, args: list[Any], kwargs: dict[str, Any], source: Source
    ) -> Any:
        value = recorded(node)
        results = self._types.results(value)
        complex_valued = any(item is not None and item.dtype in PART_TYPES for item in results)
        complex_valued = complex_valued or holds_complex(args, kwargs)
        if undefined := [item for item in pytree.tree_leaves((args, kwargs)) if isinstance(item, Undefined)]:
            self._refuse(undefined[0])
            return self._stand_in(results, value)
        if (empty := _without_elements(op, results)) is not None:
            with op.at(source, results):
                return _checked(op, name, empty, results, value, source)
        if computes_sparse(node, name, self.boundary.input_names):
            self.refused.add(name, OF_SPARSE, source.where)
            return self._stand_in(results, value)
        known = name.replace("prims::", "aten::") if name in _SAME_AS_ATEN else name
        if known in _VECTORS and not complex_valued:
            known = self._of_any_sign(node, known)
        entry = aten.find(known, accepts_complex=complex_valued)
        refusal: UnsupportedOperator | None = None
        if entry is not None:
            try:
                entry.require_opset(op.opset)
                with op.at(source, results), _defects_placed(name, source, node):
                    result = _entered(op, entry, in_storage_order(op, name, node, args), kwargs, results)
                    if isinstance(result, tuple):
                        result = tuple(_placed(item, name, source) for item in result)
                    return _checked(op, name, result, results, value, source)
            except UnsupportedOperator as error:
                refusal = error
        final = refusal is not None and refusal.final
        result, inner = (None, "") if final else self._decomposed(op, node, name, args, kwargs)
        if result is not None:
            items = result if isinstance(value, (list, tuple)) else result[0]
            with op.at(source, results):
                return _checked(op, name, items, results, value, source)
        no_complex = complex_valued and aten.find(name) is not None
        reason = str(refusal) if refusal else "no form for complex numbers" if no_complex else inner
        self.refused.add(name, reason, source.where)
        return self._stand_in(results, value)

    def _of_any_sign(self, node: torch.fx.Node, name: str) -> str:
        """The entry that gives vectors in signs of its own, where they are used and no output depends on their signs."""
        other, places = _VECTORS[name]
        used = _used(node)
        if not any(place in used for place in places):
            return name
        if self._signs_matter is None:
            self._signs_matter = signs_matter(self._program)
        if self._signs_matter:
            return name
        self.notes.append(
            "eigenvectors or singular vectors have signs of their own, on which the outputs do not depend"
        )
        return other

    def _decomposed(
        self, op: OpBuilder, node: torch.fx.Node, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any] | None, str]:
        """The node through torch's own decomposition, or None and why not, where torch has none or it is not supported."""
        if self._depth > 8:
            return None, ""
        small = decompose(node, name)
        if small is None:
            return None, ""
        module, leaves = small
        refused = len(self.refused)
        self._depth += 1
        try:
            result = self.run(op, module, leaves(args, kwargs))
        except Inexpressible as error:
            return None, f"torch's decomposition of it can't be followed: {error}"
        finally:
            self._depth -= 1
        if len(self.refused) > refused:
            inner = self.refused.since(refused)[0]
            self.refused.forget_since(refused)
            return None, f"torch's decomposition of it needs {inner.op}{f': {inner.reason}' if inner.reason else ''}"
        return [item if i in _used(node) else None for i, item in enumerate(result)], ""

    def _refuse(self, item: Undefined) -> None:
        self.refused.add(item.operator, item.reason, item.where)

    def value_of(self, op: OpBuilder, item: Any) -> ir.Value:
        """A result of the graph as a value."""
        if isinstance(item, Undefined):
            self._refuse(item)
            return op.const(0.0)
        item = item.read() if isinstance(item, Ref) else item
        return item if isinstance(item, ir.Value) else op.const(item)

    def _stand_in(self, results: Sequence[Expected | None], value: Any) -> Any:
        """Values of the right type in place of a refused operator's, so that the walk goes on and finds the others."""
        if isinstance(value, (list, tuple)) and any(isinstance(item, (list, tuple)) for item in value):
            return tuple(self._stand_in(self._types.results(item), item) for item in value)
        result: list[ir.Value | None] = []
        for expected in results:
            if expected is None:
                result.append(None)
                continue
            dtype, shape = stored(expected)
            name = self._op.names.unique("refused")
            stand_in = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape or ()))
            if dtype != expected.dtype:
                mark_complex(stand_in)
            result.append(stand_in)
        return tuple(result) if isinstance(value, (list, tuple)) else result[0] if result else None


def _entered(
    op: OpBuilder, entry: Entry, args: list[Any], kwargs: dict[str, Any], results: Sequence[Expected | None]
) -> Any:
    """What an entry writes; in float32 where ONNX has no form in the operands' 16-bit type."""
    try:
        return entry.function(op, *args, **kwargs)
    except UnsupportedOperator as error:
        if error.final or not holds_halves(args, kwargs):
            raise
        return in_single(op, entry.function, args, kwargs, results)


def _owned(result: Any) -> Any:
    if isinstance(result, ir.Value):
        return Ref(AliasCell(result))
    if isinstance(result, (list, tuple)):
        return tuple(Ref(AliasCell(item)) if isinstance(item, ir.Value) else item for item in result)
    return result


def _arguments(node: torch.fx.Node, env: Env) -> tuple[list[Any], dict[str, Any]]:
    args = [_argument(item, env) for item in node.args]
    kwargs = {key: _argument(item, env) for key, item in node.kwargs.items() if key not in _DROPPED_ARGUMENTS}
    return args, kwargs


def _argument(item: Any, env: Env) -> Any:
    if isinstance(item, torch.fx.Node):
        result = env[item]
        if isinstance(result, Ref):
            return result.read()
        if isinstance(result, tuple):
            return tuple(part.read() if isinstance(part, Ref) else part for part in result)
        return result
    if isinstance(item, (list, tuple)):
        return [_argument(part, env) for part in item]
    if isinstance(item, torch.dtype):
        return from_torch_dtype(item)
    if isinstance(item, (torch.device, torch.layout, torch.memory_format)):
        return None
    return item


@contextmanager
def _defects_placed(name: str, source: Source, node: torch.fx.Node) -> Iterator[None]:
    """Errors of an entry name the operator and its place; what it refuses passes, a computed number too."""
    try:
        yield
    except (Inexpressible, UnsupportedOperator):
        raise
    except OnnxportError as error:
        raise MapEntryError(f"{name} (at {source.where}): {error}") from error
    except (TypeError, ValueError, AttributeError, IndexError, KeyError, AssertionError) as error:
        if computed := computed_numbers(node):
            raise UnsupportedOperator(f"{', '.join(computed)}: computed when the model runs") from error
        raise MapEntryError(f"{name} (at {source.where}): {type(error).__name__}: {error}") from error


def _without_elements(op: OpBuilder, results: Sequence[Expected | None]) -> list[ir.Value] | None:
    """Results of known shapes that hold no element, whatever the operator; None where one may hold some."""
    empty = []
    for dtype, shape in (stored(item) for item in results if item is not None):
        if shape is None or 0 not in shape or not all(isinstance(size, int) for size in shape):
            return None
        empty.append(op.Identity(op.const(np.zeros(shape), dtype)))
    return empty if empty and len(empty) == len(results) else None


def _placed(item: Any, name: str, source: Source) -> Any:
    return replace(item, operator=name, where=source.where) if isinstance(item, Undefined) else item


def _checked(
    op: OpBuilder, name: str, result: Any, results: Sequence[Expected | None], value: Any, source: Source
) -> Any:
    """The entry's results with the source's types on them."""
    if isinstance(value, (list, tuple)):
        items = list(result) if isinstance(result, (list, tuple)) else [result]
        if len(items) < len(results):
            raise MapEntryError(f"{name} (at {source.where}): the entry gives {len(items)} results of {len(results)}")
        return tuple(typed(op, item, expected) for item, expected in zip(items, results, strict=False))
    if isinstance(result, (list, tuple)):
        result = result[0]
    return typed(op, result, results[0] if results else None)


def _moves_statistics(node: torch.fx.Node) -> bool:
    """Whether a normalisation in training writes to running statistics, which its schema does not say."""
    args = (*node.args, *[None] * 6)
    hidden = isinstance(node.target, torch._ops.OpOverload) and operator_name(node.target) in aliases.HIDDEN_STATE
    return hidden and bool(args[5]) and isinstance(args[3], torch.fx.Node)


def _used(node: torch.fx.Node) -> Container[int]:
    """Which results of a node are used: torch's decompositions take no care of the others."""
    if not isinstance(recorded(node), (list, tuple)):
        return (0,)
    return {user.args[1] for user in node.users if user.target is operator.getitem}
