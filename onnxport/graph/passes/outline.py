"""Blocks that stay functions: the nodes of each call of a module become one node, which calls a function of the model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from onnxport.graph.names import NameAuthority
from onnxport.graph.passes.blocks import Block, block_of, nested_nodes
from onnxport.graph.passes.cleanup import RANDOM, clean
from onnxport.graph.passes.rewriting import replace_value
from onnxport.graph.provenance import PREFIX, Source, source_name
from onnxport.graph.scopes import Chain, Scope, Scopes
from onnxport.graph.segments import values_read

DOMAIN = "onnxport.functions"
IR_VERSION = 8  # functions of a model came with it
_CONTAINERS = "torch.nn.modules.container."  # they compute nothing of their own
_FEWEST = 3  # nodes of a block that "auto" keeps


class Outline:
    """One model whose blocks become functions.

    The parameters that `scopes` names are inputs of the functions; other small initializers stand in them.
    """

    def __init__(self, model: ir.Model, scopes: Scopes) -> None:
        self._model = model
        self._graph = model.graph
        self._parameters = scopes.parameters
        origins = {node: source_name(node.metadata_props) for node in self._graph}
        self._chains: dict[ir.Node, Chain] = {node: scopes.chains.get(name, ()) for node, name in origins.items()}
        self._names = NameAuthority()
        self._functions: dict[tuple[object, ...], tuple[ir.Function, Block]] = {}
        self._random = any(_is_random(node) for node in model.graph.all_nodes())
        self._replaced: dict[ir.Value, ir.Value] = {}
        self._call_names = NameAuthority()
        self._calls: Counter[str] = Counter()
        self._left: list[str] = []

    def kinds(self) -> dict[str, tuple[str, ...]]:
        """The classes of the modules that the model calls, each with its bases."""
        return {scope.kind: scope.kinds for chain in self._chains.values() for scope in chain}

    def repeated(self) -> set[Chain]:
        """The outermost calls of classes of which several calls come to equal blocks, by the calls around them."""
        chosen: set[Chain] = set()
        for depth in range(1, max(map(len, self._chains.values()), default=0) + 1):
            groups = {
                chain: nodes
                for chain, nodes in self._groups(depth).items()
                if not any(chain[:end] in chosen for end in range(1, depth)) and _may_repeat(chain[-1])
            }
            self._release_sizes(groups)
            blocks = {chain: block for chain, block in self._blocks(groups) if len(block.nodes) >= _FEWEST}
            counts = Counter(block.key for block in blocks.values())
            kinds = {block.scope.kind for block in blocks.values() if counts[block.key] > 1}
            chosen |= {chain for chain in blocks if chain[-1].kind in kinds}
        return chosen

    def run(self, chosen: Collection[Chain]) -> list[str]:
        """Makes functions of the chosen calls, inner ones first; gives notes on what was done."""
        for node, chain in self._chains.items():
            ends = (end for end in range(1, len(chain) + 1) if chain[:end] in chosen)
            self._chains[node] = tuple(chain[end - 1] for end in ends)
        for depth in range(max(map(len, self._chains.values()), default=0), 0, -1):
            groups = self._groups(depth)
            self._release_sizes(groups)
            for chain in self._in_circles(groups):
                self._left.append(f"{chain[-1].class_name} at {chain[-1].path!r}")
                del groups[chain]
            for chain, block in self._blocks(groups):
                self._call(block, chain)
            self._graph.sort()
        for function, _ in self._functions.values():
            self._tidy(function)
        self._model.graph.opset_imports.update({DOMAIN: 1} if self._functions else {})
        self._model.ir_version = max(self._model.ir_version or 0, IR_VERSION)
        clean(self._model, merge=not self._random)
        return self._notes()

    def _groups(self, depth: int) -> dict[Chain, list[ir.Node]]:
        groups: dict[Chain, list[ir.Node]] = defaultdict(list)
        for node in self._graph:
            chain = self._chains[node]
            if len(chain) >= depth:
                groups[chain[:depth]].append(node)
        return groups

    def _readers(self) -> dict[ir.Value, list[ir.Node]]:
        readers: dict[ir.Value, list[ir.Node]] = defaultdict(list)
        for node in self._graph:
            for value in values_read(node):
                readers[value].append(node)
        return readers

    def _blocks(self, groups: Mapping[Chain, Sequence[ir.Node]]) -> Iterator[tuple[Chain, Block]]:
        readers = self._readers()
        blocks = [
            (chain, block_of(chain[-1], nodes, readers, parameters=self._parameters)) for chain, nodes in groups.items()
        ]
        return ((chain, block) for chain, block in blocks if block.outputs)

    def _release_sizes(self, groups: Mapping[Chain, list[ir.Node]]) -> None:
        """Takes sizes of a block's inputs that others read too out of it: the trace asks for each of them but once."""
        readers = self._readers()
        for chain, nodes in groups.items():
            members, own = set(nodes), {value for node in nodes for value in node.outputs}
            free: set[ir.Value] = set()
            for node in nodes:
                if all(map(_is_size, node.outputs)) and all(v in free or v not in own for v in values_read(node)):
                    free.update(node.outputs)
            for node in reversed(nodes):
                users = [reader for value in node.outputs for reader in readers.get(value, ())]
                if free.issuperset(node.outputs) and any(reader not in members for reader in users):
                    members.discard(node)
                    self._chains[node] = chain[:-1]
            nodes[:] = [node for node in nodes if node in members]

    def _in_circles(self, groups: Mapping[Chain, Sequence[ir.Node]]) -> list[Chain]:
        """The blocks that would read, as one node, what depends on them (Kahn's algorithm from both ends)."""
        home: dict[ir.Node, object] = {node: chain for chain, nodes in groups.items() for node in nodes}
        after: dict[object, set[object]] = {home.get(node, node): set() for node in self._graph}
        before: dict[object, set[object]] = {unit: set() for unit in after}
        for value, readers in self._readers().items():
            producer = value.producer()
            first = home.get(producer, producer) if producer is not None else None
            for second in {home.get(reader, reader) for reader in readers} - {first}:
                if first in after:
                    after[first].add(second)
                    before[second].add(first)
        rest = _without_ends(_without_ends(set(after), before, after), after, before)
        return [chain for chain in groups if chain in rest]

    def _call(self, block: Block, chain: Chain) -> None:
        """Puts a call of the block's function into its place; the first of equal blocks becomes the function."""
        block = replace(block, inputs=tuple(self._replaced.get(value, value) for value in block.inputs))
        known = self._functions.get(block.key)
        results = [_twin(value, value.name) for value in block.outputs]
        name = known[0].name if known else self._names.unique(block.scope.class_name)
        place = self._call_names.unique(block.scope.path or name)
        call = ir.Node(DOMAIN, name, block.inputs, outputs=results, name=place, metadata_props=_origin(block))
        for old, new in zip(block.outputs, results, strict=True):
            replace_value(old, new)
        self._replaced.update(zip(block.outputs, results, strict=True))
        self._graph.insert_after(block.nodes[-1], call)
        self._chains[call] = chain[:-1]
        self._calls[name] += 1
        if known:
            for own, other in zip(known[1].values, block.values, strict=True):
                _generalise(own, other)
            self._graph.remove(block.nodes, safe=True)
            return
        self._graph.remove(block.nodes)
        function, inner = self._function(block, name, dict(zip(results, block.outputs, strict=True)))
        self._functions[block.key] = (function, inner)
        self._model.functions[function.identifier()] = function

    def _function(self, block: Block, name: str, mapping: dict[ir.Value, ir.Value]) -> tuple[ir.Function, Block]:
        """The function of a block whose nodes are in no graph, and the block with the function's inputs."""
        names, path = NameAuthority(), block.scope.path
        inputs = [_twin(value, names.unique(_input_name(value, path))) for value in block.inputs]
        mapping.update(zip(block.inputs, inputs, strict=True))
        constants = []
        for value in block.constants:
            constant = _constant(value, names.unique(value.name or "const"))
            mapping[value] = constant.outputs[0]
            constants.append(constant)
        for place, value in enumerate(block.outputs):
            value.name = names.unique("output" if len(block.outputs) == 1 else f"output_{place}")
        for node in block.nodes:
            _rebind(node, mapping)
            for inner in nested_nodes(node):
                _localise(inner, path, names, block.outputs)
        nodes = [*constants, *block.nodes]
        domains = sorted({inner.domain for node in nodes for inner in nested_nodes(node)} - {"", DOMAIN})
        imports = {domain: self._model.graph.opset_imports.get(domain, 1) for domain in ("", *domains)}
        if any(inner.domain == DOMAIN for node in nodes for inner in nested_nodes(node)):
            imports[DOMAIN] = 1
        graph = ir.Graph(inputs, block.outputs, nodes=nodes, opset_imports=imports, name=name)
        function = ir.Function(DOMAIN, name, graph=graph, attributes=())
        function.metadata_props.update({f"{PREFIX}class": block.scope.kind, f"{PREFIX}module": path})
        return function, Block(block.scope, block.nodes, tuple(inputs), block.constants, block.outputs)

    def _tidy(self, function: ir.Function) -> None:
        """Merges equal nodes of a function, as those of a graph are."""
        alone = ir.Model(function.graph, ir_version=self._model.ir_version or IR_VERSION)
        imports = dict(function.opset_imports)
        clean(alone, merge=not self._random)
        function.opset_imports.update(imports)

    def _notes(self) -> list[str]:
        called = ", ".join(f"{name} x{count}" for name, count in self._calls.items())
        notes = [f"functions of {DOMAIN}: {called}"] if called else []
        if self._left:
            reason = "nodes outside of them lie between their own"
            notes.append(f"functions=: left inline: {', '.join(self._left)}: {reason}")
        return notes


def _may_repeat(scope: Scope) -> bool:
    return bool(scope.path) and not scope.kind.startswith(_CONTAINERS)


def _is_random(node: ir.Node) -> bool:
    return node.op_type in RANDOM or node.op_type.startswith("Random") or node.op_type == "Multinomial"


def _is_size(value: ir.Value) -> bool:
    """Whether it is a whole number or a vector of such, as sizes and shapes are."""
    return value.dtype == ir.DataType.INT64 and value.shape is not None and value.shape.rank() <= 1


def _without_ends(
    units: set[object], before: Mapping[object, set[object]], after: Mapping[object, set[object]]
) -> set[object]:
    """The units that remain when all without one before them are taken away, again and again."""
    counts = {unit: len(before[unit] & units) for unit in units}
    ready = [unit for unit, count in counts.items() if not count]
    while ready:
        unit = ready.pop()
        units.discard(unit)
        for item in after[unit]:
            if item in units:
                counts[item] -= 1
                if not counts[item]:
                    ready.append(item)
    return units


def _twin(value: ir.Value, name: str | None) -> ir.Value:
    return ir.Value(name=name, type=value.type, shape=None if value.shape is None else ir.Shape(value.shape))


def _constant(value: ir.Value, name: str) -> ir.Node:
    tensor = value.const_value
    assert tensor is not None
    return ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], outputs=[_twin(value, name)], name=name)


def _generalise(value: ir.Value, other: ir.Value) -> None:
    """Leaves of a value's sizes those that another has too."""
    if value.shape is None or other.shape is None or value.shape.rank() != other.shape.rank():
        value.shape = None
        return
    value.shape = ir.Shape([mine if mine == its else None for mine, its in zip(value.shape, other.shape, strict=True)])


def _rebind(node: ir.Node, mapping: Mapping[ir.Value, ir.Value]) -> None:
    for inner in nested_nodes(node):
        for place, value in enumerate(inner.inputs):
            if value is not None and value in mapping:
                inner.replace_input_with(place, mapping[value])


def _localise(node: ir.Node, path: str, names: NameAuthority, outputs: Iterable[ir.Value]) -> None:
    """Names and places of a node within its block."""
    node.name = _within(node.name or "", path)
    for value in node.outputs:
        if value.name and value not in outputs:
            value.name = names.unique(_within(value.name, path))
    for key in (f"{PREFIX}module", f"{PREFIX}name"):
        if key in node.metadata_props:
            node.metadata_props[key] = _within(node.metadata_props[key], path)


def _within(name: str, path: str) -> str:
    """A name or path as it reads inside of a module.

    >>> _within("layers.0.attn/linear/MatMul", "layers.0"), _within("layers.0/add", "layers.0"), _within("x", "layers.0")
    ('attn/linear/MatMul', 'add', 'x')
    """
    return name[len(path) + 1 :] if path and name.startswith((f"{path}.", f"{path}/")) else name


def _input_name(value: ir.Value, path: str) -> str:
    return _within(value.name or "input", path) if value.is_initializer() else "input"


def _origin(block: Block) -> dict[str, str]:
    """Where a call comes from: the module, and the source's node whose result it gives."""
    last = block.outputs[-1].producer()
    props = {} if last is None else last.metadata_props
    own = Source(block.scope.kind, source_name(props), block.scope.path, props.get(f"{PREFIX}source", ""))
    return own.metadata()
