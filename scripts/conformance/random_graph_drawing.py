"""A random valid graph, drawn node by node: each node runs in ONNX's reference evaluator as soon as it is drawn."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper

from onnxport.graph.evaluator import reference_evaluator
from onnxport.validation.input_sets.domains import FLOAT_RANGES, WHOLE_RANGES, Range, limits

OPSETS = range(7, 27)
# Kinds of numbers by their usual share of the draws; the rest are drawn now and then.
USUAL = ("float", "double", "float16", "int64", "int32", "bool")
_LARGEST = 4096  # elements of a value
_WORDS = ("a", "b", "word", "Wort", "", "x y", "1", "-2.5")


class Undrawable(Exception):
    """No node came of a draw: another one is tried."""


@dataclass(frozen=True)
class DrawnGraph:
    """A model, the values of its inputs in order, and the number that draws it again."""

    model: onnx.ModelProto
    inputs: tuple[Any, ...]
    number: int

    @property
    def operators(self) -> list[str]:
        """The operators of its nodes, in order."""
        return [node.op_type for node in self.model.graph.node]


@dataclass
class Call:
    """A node to be: names of its operands, attributes, number of outputs."""

    inputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1


def element_type(text: str) -> int:
    """The element type of ``tensor(float)``; 0 where it is no tensor's."""
    if not text.startswith("tensor("):
        return 0
    return int(TensorProto.DataType.Value(text[7:-1].upper()))


def kind_of(value: np.ndarray) -> int:
    """The element type of an array."""
    return int(TensorProto.STRING if value.dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(value.dtype))


@cache
def schemas_at(opset: int) -> dict[str, defs.OpSchema]:
    """The operators of the default domain that a graph of `opset` may hold."""
    names = {item.name for item in defs.get_all_schemas_with_history() if item.domain == ""}
    known = {name: defs.get_schema(name, opset, "") for name in sorted(names) if defs.has(name, opset, "")}
    return {name: schema for name, schema in known.items() if not schema.deprecated}


class Drawing:
    """A graph while it is drawn: its nodes so far, and every value as the reference evaluator has it."""

    def __init__(self, rng: random.Random, opset: int, outer: Drawing | None = None) -> None:
        self.rng, self.opset, self.outer = rng, opset, outer
        self.numpy = np.random.default_rng(rng.getrandbits(32)) if outer is None else outer.numpy
        self.values: dict[str, Any] = {} if outer is None else outer.values
        self.nodes: list[onnx.NodeProto] = []
        self.given: dict[str, bool] = {} if outer is None else outer.given  # leaves: whether an initializer
        self.results: list[str] = []
        self._names: Iterator[int] = itertools.count() if outer is None else outer._names

    def fresh(self) -> int:
        """A number that no name has yet."""
        return next(self._names)

    # what a recipe asks for

    def chance(self, share: float) -> bool:
        """True in `share` of the draws."""
        return self.rng.random() < share

    def shape(self, low: int = 0, high: int = 4, least: int = 0) -> tuple[int, ...]:
        """A shape whose rank is between `low` and `high`."""
        sizes = [0, *[1] * 6, *[2] * 10, *[3] * 10, *[4] * 6, 5, 7]
        return tuple(self.rng.choice([n for n in sizes if n >= least]) for _ in range(self.rng.randint(low, high)))

    def beside(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to `shape`, most often; now and then a larger one."""
        sizes = [1 if self.chance(0.2) else size for size in shape]
        return tuple(sizes[self.rng.randint(0, len(sizes)) if self.chance(0.3) else 0 :])

    def kinds(self, schema: defs.OpSchema, name: str) -> list[int]:
        """Element types that the schema allows for a type parameter or type."""
        allowed = next((c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == name), [name])
        return [kind for text in allowed if (kind := element_type(text))]

    def kind(self, kinds: Iterable[int]) -> int:
        """One of the element types, usual ones more often."""
        kinds = list(kinds)
        usual = [kind for kind in kinds if TensorProto.DataType.Name(kind).lower() in USUAL]
        if not kinds:
            raise Undrawable("no tensor type")
        return self.rng.choice(usual) if usual and self.chance(0.75) else self.rng.choice(kinds)

    def numbers(self, kind: int, shape: Sequence[int], allowed: Range | None = None) -> np.ndarray:
        """Random elements of a type, within a range."""
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        if kind == TensorProto.STRING:
            words = np.empty(tuple(shape), object)
            words[...] = self.numpy.choice(np.array(_WORDS, object), tuple(shape)) if words.size else words
            return words
        if kind == TensorProto.BOOL:
            return self.numpy.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu" or "int" in dtype.name:
            low, high = limits(dtype)
            bounds = allowed or Range(-4, 9)
            drawn = self.numpy.integers(max(low, int(bounds.low)), min(high, int(bounds.high)) + 1, shape)
            return np.where(drawn == 0, 1, drawn).astype(dtype) if bounds.nonzero else drawn.astype(dtype)
        bounds = allowed or Range(-3, 3)
        drawn = self.numpy.uniform(bounds.low, bounds.high, shape)
        if self.chance(0.3):
            drawn = np.clip(np.round(drawn * 4) / 4, bounds.low, bounds.high)
        if dtype.kind == "c":
            drawn = drawn + 1j * self.numpy.uniform(-2, 2, shape)
        return np.asarray(drawn).astype(dtype)

    def new(self, value: Any, *, constant: float = 0.4) -> str:
        """A leaf: an initializer in `constant` of the draws, else an input."""
        name = f"x{next(self._names)}"
        self.values[name] = value
        self.given[name] = self.chance(constant) and isinstance(value, np.ndarray)
        return name

    def host(self, values: Sequence[int], dtype: Any = np.int64) -> str:
        """An operand such as axes or a shape: most often an initializer."""
        return self.new(np.asarray(values, dtype), constant=0.8)

    def operand(
        self,
        kinds: Iterable[int],
        *,
        rank: tuple[int, int] = (0, 4),
        least: int = 0,
        allowed: Range | None = None,
        fits: Callable[[np.ndarray], bool] = lambda value: True,
        constant: float = 0.2,
    ) -> str:
        """A value of the graph that fits, or a new leaf."""
        kinds = list(kinds)
        candidates = [
            name
            for name, value in self.values.items()
            if isinstance(value, np.ndarray)
            and kind_of(value) in kinds
            and rank[0] <= value.ndim <= rank[1]
            and all(size >= least for size in value.shape)
            and (allowed is None or within(value, allowed))
            and fits(value)
        ]
        if candidates and self.chance(0.75):
            return self.rng.choice(candidates[-4:])
        value = self.numbers(self.kind(kinds), self.shape(*rank, least=least), allowed)
        if not fits(value):
            raise Undrawable("no such operand")
        return self.new(value, constant=constant)

    def like(self, name: str, shape: Sequence[int], allowed: Range | None = None, constant: float = 0.5) -> str:
        """An operand of another one's element type and a shape: one of the graph's, or new."""
        kind = kind_of(self.values[name])
        for known, value in self.values.items():
            fits = isinstance(value, np.ndarray) and value.shape == tuple(shape) and kind_of(value) == kind
            if fits and self.chance(0.3) and (allowed is None or within(value, allowed)):
                return known
        return self.new(self.numbers(kind, shape, allowed), constant=constant)

    def range_of(self, operator: str, place: int, kind: int) -> Range | None:
        """Where an operand is defined."""
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        whole = dtype.kind in "iu" or "int" in dtype.name
        return (WHOLE_RANGES if whole else FLOAT_RANGES).get((operator, place))

    def axis(self, rank: int, extra: int = 0) -> int:
        """An axis of a value of `rank` dimensions, negative ones too."""
        rank += extra
        if not rank:
            raise Undrawable("no axis")
        axis = self.rng.randrange(rank)
        return axis - rank if self.opset >= 11 and self.chance(0.4) else axis

    def axes(self, rank: int, low: int = 1) -> list[int]:
        """Several axes of a value of `rank` dimensions."""
        chosen = self.rng.sample(range(rank), self.rng.randint(min(low, rank), rank)) if rank else []
        return [axis - rank if self.opset >= 13 and self.chance(0.3) else axis for axis in sorted(chosen)]

    # what becomes of it

    def add(self, operator: str, call: Call) -> list[str]:
        """Adds a node and runs it.

        Raises:
            Undrawable: the reference evaluator does not run it.
        """
        number = next(self._names)
        names = [f"y{number}_{place}" for place in range(call.outputs)]
        attributes = {name: value for name, value in call.attributes.items() if value is not None}
        while call.inputs and not call.inputs[-1]:
            call.inputs.pop()
        node = helper.make_node(operator, call.inputs, names, **attributes)
        results = self.run([node], names)
        for value in results:
            parts = value if isinstance(value, list) else [value]
            if not all(isinstance(item, np.ndarray) and item.size <= _LARGEST for item in parts):
                raise Undrawable(f"{operator} gives no small tensor")
        self.nodes.append(node)
        self.values.update(zip(names, results, strict=True))
        self.results += names
        return names

    def run(self, nodes: list[onnx.NodeProto], outputs: Sequence[str]) -> list[Any]:
        """What nodes give on the values so far.

        Raises:
            Undrawable: the reference evaluator does not run them.
        """
        model = self.model(nodes, outputs, typed=False)
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                evaluator = reference_evaluator(model)
                results = evaluator.run(None, {name: self.values[name] for name in self._read(nodes)})
        except Exception as error:
            raise Undrawable(f"{nodes[-1].op_type}: {type(error).__name__}: {error}") from error
        return [_as_drawn(item) for item in results]

    def _read(self, nodes: Sequence[onnx.NodeProto]) -> list[str]:
        own = {name for node in nodes for name in node.output}
        names = [name for node in nodes for name in read_by(node) if name in self.values]
        return [name for name in dict.fromkeys(names) if name not in own]

    def model(self, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], *, typed: bool = True) -> onnx.ModelProto:
        """The model of some of the nodes; what they read is its inputs and, where drawn so, its initializers."""
        leaves = self._read(nodes)
        constants = [name for name in leaves if typed and self.given.get(name)]
        inputs = [self._info(name, self.values[name], typed) for name in leaves if name not in constants]
        results = [
            self._info(name, self.values[name], typed) if name in self.values else onnx.ValueInfoProto(name=name)
            for name in outputs
        ]
        weights = [numpy_helper.from_array(self.values[name], name) for name in constants]
        graph = helper.make_graph(list(nodes), "random", inputs, results, weights)
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=helper.find_min_ir_version_for(imports))

    def _info(self, name: str, value: Any, typed: bool) -> onnx.ValueInfoProto:
        if isinstance(value, list):
            kind = kind_of(value[0]) if value else TensorProto.FLOAT
            return helper.make_tensor_sequence_value_info(name, kind, None)
        sizes: list[Any] | None = list(value.shape)
        if typed and name not in self.given:
            sizes = None if sum(map(ord, name)) % 2 else sizes
        elif typed and self.dynamic:
            sizes = [f"{name}_{place}" for place in range(value.ndim)]
        return helper.make_tensor_value_info(name, kind_of(value), sizes)

    dynamic = False


def _as_drawn(value: Any) -> Any:
    """A result as other operators take it: arrays, strings as objects."""
    if isinstance(value, np.generic):
        value = np.asarray(value)
    return value.astype(object) if isinstance(value, np.ndarray) and value.dtype.kind in "US" else value


def read_by(node: onnx.NodeProto) -> list[str]:
    """What a node and its bodies read from around it."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            own = {item.name for item in attribute.g.input} | {n for inner in attribute.g.node for n in inner.output}
            own |= {item.name for item in attribute.g.initializer}
            names += [name for inner in attribute.g.node for name in read_by(inner) if name not in own]
            names += [item.name for item in attribute.g.output if item.name not in own]
    return names


def within(value: np.ndarray, allowed: Range) -> bool:
    """Whether all elements lie in a range."""
    if value.dtype.kind in "Obc" or not value.size:
        return not value.size
    numbers = value.astype(np.float64)
    inside = (numbers >= allowed.low) & (numbers <= allowed.high) & ((numbers != 0) | (not allowed.nonzero))
    return bool(inside.all())
