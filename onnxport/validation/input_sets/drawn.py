"""Inputs drawn from a graph's signature."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from onnxport.errors import InvalidInputError
from onnxport.graph.limits import MAX_DRAWN_ELEMENTS
from onnxport.graph.settled import settled_sizes
from onnxport.validation.input_sets import domains, edges
from onnxport.validation.input_sets.base import InputSet, Kind, dims_of, own_inputs, spec_of
from onnxport.validation.input_sets.image_sizes import image_sizes
from onnxport.validation.input_sets.operands.scene import SEQUENCE_LENGTH, Scene
from onnxport.validation.input_sets.operands.table import RULES
from onnxport.validation.input_sets.sizes import ARITHMETIC, dimension, labelled
from onnxport.validation.input_sets.trees import thresholds
from onnxport.validation.runners.base import InputSpec

# The sizes that free dimensions are drawn at: the first for the leading dimension, then one after the other.
_FIRST_BATCH, _FIRST_SIZE, _FIRST_IMAGE, _FIRST_SOUND = 2, 6, 64, 800
# Integers of unknown meaning: small enough for an index into nearly anything.
_SAFE_INTEGER = 3
ATTEMPTS = 10

# What these give are numbers of their first operand: lengths are sorted before a recurrent layer takes them.
_SAME_NUMBERS = frozenset(("Cast", "CastLike", "Identity", "TopK", "Gather", "GatherElements"))


@dataclass(frozen=True)
class Attempt:
    """How a set is drawn where earlier ones are such that the source can't run."""

    spread: bool = True  # free dimensions all differ, so that a confusion of two shows; else they are equal
    # Integers of unknown meaning are of any size, small indices, or sizes that occur in the graph.
    whole: Literal["any", "indices", "sizes"] = "any"
    positive: bool = False  # floating-point numbers are positive
    known: bool = False  # words and categories are such as the graph knows
    side: int = _FIRST_IMAGE  # of pictures
    sounds: bool = False  # rows of real numbers are samples of a sound, as many as layers of convolutions need
    seed: int = 0  # of the draw


def attempts(sides: Sequence[int] = (), *, sounds: bool = False) -> Iterator[Attempt]:
    """The boldest first; these `sides` of pictures, and the length of sounds, are worth a try."""
    yield Attempt()
    yield Attempt(whole="indices")
    yield Attempt(spread=False, whole="indices")
    if sounds:
        yield Attempt(whole="indices", sounds=True)
    for side in sides:
        yield Attempt(whole="indices", side=side)
    for seed in range(1, ATTEMPTS):
        odd = seed % 2 == 1
        yield Attempt(not odd, "sizes" if seed % 3 else "indices", positive=odd, known=odd, seed=seed)


class InputSignature:
    """What a graph declares of its inputs, and what it does with them."""

    def __init__(self, model: ir.Model) -> None:
        self.values = own_inputs(model)
        self.settled = settled_sizes(model.graph)
        self.specs = [_with_sizes(spec_of(value), self.settled) for value in self.values]
        self._model = model
        self._owners = domains.owners_of(model.graph)
        self._reach: dict[ir.Value, domains.Reach] = {}

    def reach(self, value: ir.Value) -> domains.Reach:
        """What depends on an input."""
        if value not in self._reach:
            self._reach[value] = domains.reach(value, self._owners)
        return self._reach[value]

    @cached_property
    def open_patterns(self) -> frozenset[str]:
        """Kinds of numbers on which ties leave open what the graph gives."""
        return edges.open_patterns({node.op_type for node in self._model.graph.all_nodes()})

    @cached_property
    def declared(self) -> list[tuple[int | str | None, ...]]:
        """Shapes that the graph declares of its inputs and outputs."""
        values = [*self.values, *self._model.graph.outputs]
        return [dims_of(value.shape) for value in values if value.shape is not None]

    def sizes(self, attempt: Attempt) -> dict[str, int]:
        """Sizes of the free dimensions: all different, or all but the leading one equal."""
        sizes: dict[str, int] = {}
        for spec in self.specs:
            image = _is_image(spec)
            first = _FIRST_SOUND if attempt.sounds and _may_be_sound(spec) else _FIRST_SIZE
            for axis, dim in enumerate(named_dims(spec)):
                if not isinstance(dim, str) or dim in sizes or re.search(ARITHMETIC, dim):
                    continue
                usual = attempt.side if image else first + attempt.spread * len(sizes)
                sizes[dim] = usual if axis else _FIRST_BATCH
        return sizes


def _is_image(spec: InputSpec) -> bool:
    return spec.dims is not None and len(spec.dims) >= 4 and spec.dtype is not None and spec.dtype.kind in "fu"


def _may_be_sound(spec: InputSpec) -> bool:
    free = any(isinstance(dim, str) for dim in named_dims(spec)[1:])
    return free and not _is_image(spec) and spec.dtype is not None and spec.dtype.kind == "f"


def _with_sizes(spec: InputSpec, settled: Mapping[str, int]) -> InputSpec:
    if spec.dims is None or not settled:
        return spec
    return replace(spec, dims=tuple(settled.get(dim, dim) if isinstance(dim, str) else dim for dim in spec.dims))


def named_dims(spec: InputSpec) -> tuple[int | str, ...]:
    """The dimensions, unknown ones named: a leading one is taken for the batch."""
    dims = spec.dims or ()
    return tuple(
        ("batch" if axis == 0 else f"{spec.name}.{axis}") if dim is None else dim for axis, dim in enumerate(dims)
    )


class Drawing:
    """One draw of a graph's inputs: what the rules of its operators ask."""

    def __init__(
        self,
        signature: InputSignature,
        sizes: Mapping[str, int],
        attempt: Attempt,
        kind: Kind,
        rng: np.random.Generator,
    ) -> None:
        self.rng = rng
        self.from_end = attempt.whole == "any"
        self._signature = signature
        self._sizes = {**signature.settled, **sizes}
        self._attempt = attempt
        self._kind = kind
        self._drawn: dict[ir.Value, Any] = {}
        self._by_rule: dict[tuple[ir.Node, int], Any] = {}
        self._asked: set[ir.Node] = set()

    def leaves(self) -> tuple[Any, ...]:
        """A value for each input, in order."""
        for value, spec in zip(self._signature.values, self._signature.specs, strict=True):
            self._drawn[value] = self._draw(value, spec)
        return tuple(self._drawn.values())

    def shape(self, value: ir.Value | None) -> tuple[int, ...] | None:
        """The sizes of a value in this draw; None where they are not known."""
        if value is None or value.shape is None:
            return None
        if value in self._signature.values:
            return self._shape_of(self._signature.specs[self._signature.values.index(value)])
        sizes = [dimension(dim, self._sizes) for dim in dims_of(value.shape)]
        return tuple(size for size in sizes if size is not None) if None not in sizes else None

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """The numbers of a value that is a constant or drawn before; None else."""
        if value is None:
            return None
        if value in self._drawn:
            return np.asarray(self._drawn[value])
        constant = ir.convenience.get_const_tensor(value)
        return constant.numpy() if constant is not None else None

    def _shape_of(self, spec: InputSpec) -> tuple[int, ...]:
        sizes = [dimension(dim, self._sizes) for dim in named_dims(spec)]
        shape = tuple(1 if size is None else size for size in sizes)
        if prod(shape) > MAX_DRAWN_ELEMENTS:
            raise InvalidInputError(
                f"no inputs are drawn for {spec.name!r} of shape {list(shape)}, which is too large; give inputs="
            )
        return shape

    def _draw(self, value: ir.Value, spec: InputSpec) -> Any:
        shape = self._shape_of(spec)
        if _is_sequence(value.type):
            return [self._array(value, spec, shape) for _ in range(SEQUENCE_LENGTH)]
        ruled = self._ruled(value)
        if ruled is not None:
            array = np.asarray(ruled)
            dtype = spec.dtype or np.dtype(np.float32)
            if array.shape == shape or array.size == 1 or (spec.dims is None and array.ndim <= 1):
                return np.broadcast_to(array, array.shape if spec.dims is None else shape).astype(dtype)
            if array.size == int(np.prod(shape)):
                return array.reshape(shape).astype(dtype)
        return self._array(value, spec, shape)

    def _ruled(self, value: ir.Value) -> Any:
        """What the rule of an operator that reads the value itself, or the same numbers in another order, has for it."""
        readers = list(value.uses())
        for node, index in readers:
            if node.op_type in _SAME_NUMBERS and index == 0:
                readers.extend(node.outputs[0].uses())
                continue
            rule = RULES.get(node.op_type)
            if rule is not None and node not in self._asked:
                self._asked.add(node)
                with suppress(ArithmeticError, LookupError, ValueError):  # the declared sizes contradict the operator
                    self._by_rule.update({(node, place): item for place, item in rule(Scene(self, node)).items()})
            if (node, index) in self._by_rule:
                return self._by_rule[node, index]
        return None

    def _array(self, value: ir.Value, spec: InputSpec, shape: tuple[int, ...]) -> np.ndarray:
        dtype = spec.dtype if spec.dtype is not None else np.dtype(np.float32)
        if dtype.kind == "O":
            words = [
                word for word in domains.vocabulary(value) if word != domains.UNKNOWN or not self._attempt.known
            ] or [domains.UNKNOWN]
            return np.asarray(self.rng.choice(np.asarray(words, object), shape), object).reshape(shape)
        if dtype.kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        if is_whole(dtype):
            return self._whole(value, dtype, shape)
        allowed = domains.number_range(value, dtype)
        if dtype.kind == "c":
            return (self.rng.standard_normal(shape) + 1j * self.rng.standard_normal(shape)).astype(dtype)
        if self._kind == "edges":
            left_out, narrow = self._signature.open_patterns, domains.becomes_half(value)
            return edges.numbers(shape, dtype, self.rng, allowed, left_out=left_out, narrow=narrow)
        drawn = self._numbers(value, shape, allowed).astype(dtype)
        return edges.with_not_finite(drawn, self.rng) if self._kind == "not finite" and allowed is None else drawn

    def _numbers(self, value: ir.Value, shape: tuple[int, ...], allowed: domains.Range | None) -> np.ndarray:
        if allowed is not None:
            return self.rng.uniform(allowed.low, allowed.high, shape)
        noise = np.asarray(self.rng.standard_normal(shape))
        if self._attempt.positive:
            noise = np.abs(noise)
        levels = thresholds(value)
        if levels is not None and len(shape) == 2:
            for column, known in levels.items():
                if column < shape[1]:
                    move = np.std(known) * 0.1 + 1e-3
                    noise[:, column] = self.rng.choice(known, shape[0]) + noise[:, column] * move
        return noise

    def _whole(self, value: ir.Value, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        least, most = domains.limits(dtype)
        known = domains.known_numbers(value)
        if known:
            others = [] if self._attempt.known else [max(known) + 1]
            return self.rng.choice(np.asarray([*known, *others]), shape).astype(dtype)
        allowed = domains.number_range(value, dtype)
        if allowed is not None:
            low, high = max(int(allowed.low), least), min(int(allowed.high), most)
            drawn = self.rng.integers(low, high, shape, endpoint=True)
            return (np.where(drawn == 0, high, drawn) if allowed.nonzero else drawn).astype(dtype)
        limit = domains.index_limit(value)
        if limit is not None:
            low = -limit if self._kind == "edges" and self._attempt.whole == "any" else 0
            return self.rng.integers(low, limit, shape).astype(dtype)
        meaning = self._signature.reach(value)
        if self._attempt.whole == "sizes":
            return self.rng.choice(self._pool(), shape).astype(dtype)
        if meaning.sizes or meaning.divides or self._attempt.whole == "indices":
            # several at once are sizes, of which 0 leaves nothing to compare; one alone may be an axis
            low = int(meaning.sizes and int(np.prod(shape)) > 1 and self._attempt.whole == "any")
            return self.rng.integers(low, min(_SAFE_INTEGER + low, most + 1), shape).astype(dtype)
        if self._kind == "edges":
            bound = edges.COMPUTED if meaning.floats else edges.WIDE
            return edges.whole_numbers(shape, dtype, self.rng, -bound, bound)
        low, high = max(least, -100), min(most, 255 if least == 0 else 100)
        return self.rng.integers(low, high, shape, endpoint=True).astype(dtype)

    def _pool(self) -> np.ndarray:
        """Sizes that occur in the declared shapes, and on every second draw 1."""
        declared = {dimension(dim, self._sizes) for dims in self._signature.declared for dim in dims}
        sizes = {size for size in declared if size is not None and size > 1}
        return np.asarray(sorted(sizes | {1} if self._attempt.seed % 2 == 0 or not sizes else sizes))


def is_whole(dtype: np.dtype) -> bool:
    """Whether elements are integers, those of 4 and 2 bits included."""
    return dtype.kind in "iu" or (dtype.kind == "V" and "int" in dtype.name)


def _is_sequence(kind: object) -> bool:
    while kind is not None and not isinstance(kind, ir.TensorType):
        if isinstance(kind, ir.SequenceType):
            return True
        kind = getattr(kind, "elem_type", None)
    return False


class DrawnInputs:
    """Inputs drawn from a graph's signature, and further sets of them."""

    def __init__(self, model: ir.Model, seed: int = 0) -> None:
        self.signature = InputSignature(model)
        self._seed = seed
        specs = self.signature.specs
        sides = image_sizes(model.graph) if any(map(_is_image, specs)) else ()
        self._attempts = list(attempts(sides, sounds=any(map(_may_be_sound, specs))))
        self.sizes = self.signature.sizes(Attempt())
        self.batch = {dim for spec in self.signature.specs for dim in named_dims(spec)[:1] if isinstance(dim, str)}
        self.batch &= set(self.sizes)
        self.steps: tuple[int, ...] = ()

    def first(self) -> Iterator[InputSet]:
        """Candidates for the first set."""
        for place, attempt in enumerate(self._attempts):
            sizes = self.signature.sizes(attempt)
            try:
                leaves = self._draw(sizes, attempt, "ordinary", 0)
            except InvalidInputError:  # too large
                if not place:
                    raise
            else:
                yield InputSet(labelled("drawn", sizes), leaves, attempt=place)

    def settle(self, chosen: InputSet) -> None:
        """The way in which the first set was drawn comes first from now on."""
        worked = self._attempts.pop(chosen.attempt)
        self._attempts.insert(0, worked)
        self.sizes = self.signature.sizes(worked)

    def bytes_at(self, sizes: Mapping[str, int]) -> int:
        """0: how many they are shows when they are drawn."""
        return 0

    def at(self, words: str, sizes: Mapping[str, int], kind: Kind, seed: int) -> Iterator[InputSet]:
        """Candidates at other sizes or with other values."""
        for attempt in self._attempts:
            yield InputSet(words, self._draw(sizes, attempt, kind, seed + 1))

    def _draw(self, sizes: Mapping[str, int], attempt: Attempt, kind: Kind, step: int) -> tuple[Any, ...]:
        rng = np.random.default_rng([self._seed, step, attempt.seed])
        return Drawing(self.signature, sizes, attempt, kind, rng).leaves()
