"""Random graphs: which operators are drawn, and what the specification asks of attributes and operands beyond the schema.

A recipe draws one node of an operator. Operators without a recipe are drawn from their schema alone: operands that broadcast,
attributes by type. What the specification leaves open (an integer division by 0, a cast out of range) is not drawn.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper

from onnxport.validation.input_sets.domains import Range
from scripts.conformance.random_graph_drawing import (
    OPSETS,
    Call,
    Drawing,
    DrawnGraph,
    Undrawable,
    kind_of,
    schemas_at,
)

Recipe = Callable[[Drawing, defs.OpSchema], Call]
RECIPES: dict[str, Recipe] = {}
# Drawn at random, read files, or of no use in a graph.
LEFT_OUT = frozenset(
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli ImageDecoder".split()
)
# Operators whose schema says all.
BY_SCHEMA = frozenset(
    (
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Cos Cosh Div Elu "
        "Equal Erf Exp Floor Gelu GlobalAveragePool Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu "
        "Less LessOrEqual Log Max Mean Min Mish Mul Neg Not Or Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh "
        "Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor Size NonZero DynamicQuantizeLinear StringConcat"
    ).split()
)
_FLAGS = ("keepdims", "select_last_index", "exclusive", "reverse", "detect_negative", "detect_positive")
_STRINGS: dict[str, tuple[str, ...]] = {"approximate": ("none", "tanh")}


def recipe(*operators: str) -> Callable[[Recipe], Recipe]:
    """Registers how operators are drawn."""

    def register(function: Recipe) -> Recipe:
        RECIPES.update(dict.fromkeys(operators, function))
        return function

    return register


def by_schema(d: Drawing, s: defs.OpSchema) -> Call:
    """Operands that broadcast to one shape, of the types that the schema binds."""
    bound: dict[str, int] = {}
    inputs: list[str] = []
    shape: tuple[int, ...] | None = None
    formals = list(s.inputs)
    if formals and formals[-1].option == defs.OpSchema.FormalParameterOption.Variadic:
        formals += [formals[-1]] * d.rng.randint(0, 2)
    for place, formal in enumerate(formals):
        if formal.option == defs.OpSchema.FormalParameterOption.Optional and d.chance(0.5):
            inputs.append("")
            continue
        known = bound.get(formal.type_str) if formal.is_homogeneous else None
        kinds = [known] if known is not None else d.kinds(s, formal.type_str)
        allowed = d.range_of(s.name, place, kinds[0]) if len(kinds) == 1 else None
        if shape is None:
            kind = d.kind(kinds)
            name = d.operand([kind], allowed=d.range_of(s.name, place, kind))
            shape = d.values[name].shape
        else:
            kind = d.kind(kinds)
            name = d.like(inputs[0], d.beside(shape), allowed) if kind == kind_of(d.values[inputs[0]]) else ""
            name = name or d.new(d.numbers(kind, d.beside(shape), allowed or d.range_of(s.name, place, kind)))
        bound[formal.type_str] = kind_of(d.values[name])
        inputs.append(name)
    return Call(inputs, attributes(d, s), s.min_output)


def attributes(d: Drawing, s: defs.OpSchema, *but: str) -> dict[str, Any]:
    """Attributes by their type, half of those with a default left out."""
    drawn: dict[str, Any] = {}
    for name, attribute in s.attributes.items():
        if name in but or (not attribute.required and d.chance(0.5)):
            continue
        if name in _FLAGS:
            drawn[name] = d.rng.randint(0, 1)
        elif name in _STRINGS:
            drawn[name] = d.rng.choice(_STRINGS[name])
        elif attribute.type == defs.OpSchema.AttrType.FLOAT and name != "epsilon":
            drawn[name] = d.rng.choice([0.25, 0.5, 0.75, 1.0, 1.5])
        elif name == "epsilon":
            drawn[name] = d.rng.choice([1e-5, 1e-3, 0.5])
    return drawn


@recipe("Mod")
def _mod(d: Drawing, s: defs.OpSchema) -> Call:
    call = by_schema(d, s)
    floating = d.values[call.inputs[0]].dtype.kind not in "iu"
    call.attributes = {"fmod": 1} if floating or d.chance(0.3) else {}
    return call


@recipe("BitShift")
def _shift(d: Drawing, s: defs.OpSchema) -> Call:
    call = by_schema(d, s)
    call.attributes = {"direction": d.rng.choice(["LEFT", "RIGHT"])}
    return call


@recipe("Clip")
def _clip(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"))
    low, high = Range(-2, 0), Range(1, 3)
    if "min" in s.attributes:
        return Call([x], {"min": -1.5 if d.chance(0.6) else None, "max": 0.75 if d.chance(0.6) else None})
    bounds = [d.like(x, (), side) if d.chance(0.7) else "" for side in (low, high)]
    return Call([x, *bounds])


@recipe("Softmax", "LogSoftmax", "Hardmax")
def _softmax(d: Drawing, s: defs.OpSchema) -> Call:
    kinds = d.kinds(s, "T") if d.opset >= 13 else [onnx.TensorProto.FLOAT]  # which onnxruntime has
    x = d.operand(kinds, rank=(1, 4), least=1)
    rank = d.values[x].ndim
    free = d.opset >= 13 or rank > 1  # the default was the second axis, and runtimes do not agree where there is none
    return Call([x], {"axis": d.axis(rank) if d.chance(0.7) or not free else None})


@recipe("LpNormalization", "ArgMax", "ArgMin")
def _along(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(1, 4), least=1)
    drawn = attributes(d, s, "axis", "p")
    drawn["axis"] = d.axis(d.values[x].ndim) if d.chance(0.7) else None
    drawn["p"] = d.rng.choice([1, 2]) if "p" in s.attributes else None
    return Call([x], drawn)


@recipe("CumSum", "CumProd")
def _cumulative(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(1, 4))
    axis = d.new(np.asarray(d.axis(d.values[x].ndim), d.rng.choice([np.int32, np.int64])), constant=0.7)
    return Call([x, axis], attributes(d, s))


@recipe(*(f"Reduce{name}" for name in "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare".split()))
def _reduction(d: Drawing, s: defs.OpSchema) -> Call:
    kinds = d.kinds(s, s.inputs[0].type_str)
    allowed = d.range_of(s.name, 0, onnx.TensorProto.FLOAT)
    x = d.operand(kinds, least=0 if d.chance(0.2) else 1, allowed=allowed)
    if s.name == "ReduceMean" and not d.values[x].size:
        raise Undrawable("the mean of nothing is open")
    drawn = {"keepdims": d.rng.randint(0, 1) if d.chance(0.7) else None}
    axes = d.axes(d.values[x].ndim, low=1 if "axes" in s.attributes else 0)
    if "axes" in s.attributes:
        return Call([x], drawn | {"axes": axes if axes and d.chance(0.8) else None})
    drawn["noop_with_empty_axes"] = d.rng.randint(0, 1) if d.chance(0.5) else None
    return Call([x, d.host(axes) if d.chance(0.8) else ""], drawn)


@recipe("Reshape")
def _reshape(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"))
    shape = list(d.values[x].shape)
    sizes = _regrouped(d, shape)
    drawn = {"allowzero": 1} if "allowzero" in s.attributes and d.chance(0.2) else {}
    if not drawn:
        for place, size in enumerate(sizes):
            if place < len(shape) and shape[place] == size and (size == 0 or d.chance(0.3)):
                sizes[place] = 0
    if sizes and 0 not in shape and d.chance(0.5):
        sizes[d.rng.randrange(len(sizes))] = -1
    return Call([x, d.host(sizes)], drawn)


def _regrouped(d: Drawing, shape: Sequence[int]) -> list[int]:
    """The sizes with some neighbours merged, split or padded by 1."""
    sizes = list(shape)
    for _ in range(d.rng.randint(1, 3)):
        place = d.rng.randint(0, len(sizes))
        if len(sizes) >= 2 and place < len(sizes) - 1 and d.chance(0.5):
            sizes[place : place + 2] = [sizes[place] * sizes[place + 1]]
        elif place < len(sizes) and sizes[place] > 1 and sizes[place] % 2 == 0 and d.chance(0.5):
            sizes[place : place + 1] = [2, sizes[place] // 2]
        elif len(sizes) < 6:
            sizes.insert(place, 1)
    return sizes


@recipe("Flatten")
def _flatten(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(1, 4))
    rank = d.values[x].ndim
    return Call([x], {"axis": d.rng.randint(-rank if d.opset >= 11 else 0, rank) if d.chance(0.7) else None})


@recipe("Squeeze", "Unsqueeze")
def _squeeze(d: Drawing, s: defs.OpSchema) -> Call:
    if s.name == "Squeeze":
        x = d.operand(d.kinds(s, "T"), rank=(1, 4), fits=lambda value: 1 in value.shape)
        ones = [place for place, size in enumerate(d.values[x].shape) if size == 1]
        axes = sorted(d.rng.sample(ones, d.rng.randint(1, len(ones))))
        rank = d.values[x].ndim
    else:
        x = d.operand(d.kinds(s, "T"), rank=(0, 3))
        rank = d.values[x].ndim + d.rng.randint(1, 2)
        axes = sorted(d.rng.sample(range(rank), rank - d.values[x].ndim))
    axes = [axis - rank if d.opset >= 11 and d.chance(0.3) else axis for axis in axes]
    leave = s.name == "Squeeze" and d.chance(0.2)
    if "axes" in s.attributes:
        return Call([x], {"axes": None if leave else axes})
    return Call([x, "" if leave else d.host(axes)])


@recipe("Transpose")
def _transpose(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"))
    order = list(range(d.values[x].ndim))
    d.rng.shuffle(order)
    return Call([x], {"perm": order if order and d.chance(0.8) else None})


@recipe("Expand", "Tile")
def _expand(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"))
    shape = d.values[x].shape
    if s.name == "Tile":
        return Call([x, d.host([d.rng.choice([0, 1, 1, 2, 3]) for _ in shape])])
    target = [d.rng.choice([1, 2, 3]) if size == 1 else d.rng.choice([1, size]) for size in shape]
    return Call([x, d.host([*d.shape(0, 1, least=1), *target][d.rng.choice([0, 0, 1]) if d.chance(0.2) else 0 :])])


@recipe("Concat")
def _concat(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(1, 4))
    shape = d.values[x].shape
    axis = d.axis(len(shape))
    inputs = [x]
    for _ in range(d.rng.randint(0, 3)):
        sizes = list(shape)
        sizes[axis] = d.rng.choice([0, 1, 2, 3])
        inputs.append(d.like(x, sizes))
    d.rng.shuffle(inputs)
    return Call(inputs, {"axis": axis})


@recipe("Split")
def _split(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(1, 4))
    axis = d.axis(d.values[x].ndim)
    size = d.values[x].shape[axis]
    count = d.rng.randint(1, 3)
    drawn: dict[str, Any] = {"axis": axis if axis or d.chance(0.5) else None}
    cuts = sorted(d.rng.randint(0, size) for _ in range(count - 1))
    parts = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    if d.chance(0.3) and (size % count == 0 or d.opset >= 18):
        drawn["num_outputs"] = count if d.opset >= 18 else None
        return Call([x], drawn, count)
    if "split" in s.attributes:
        return Call([x], drawn | {"split": parts}, count)
    return Call([x, d.host(parts)], drawn, count)


@recipe("Slice")
def _slice(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(1, 4))
    rank = d.values[x].ndim
    axes = d.axes(rank)
    if "starts" in s.attributes:
        axes = sorted({axis % rank for axis in axes})
        starts, ends = [[d.rng.randint(-5, 5) for _ in axes] for _ in range(2)]
        keep = axes != list(range(len(axes))) or d.chance(0.5)
        return Call([x], {"starts": starts, "ends": ends, "axes": axes if keep else None})
    dtype = d.rng.choice([np.int32, np.int64])
    steps = [d.rng.choice([1, 1, 2, -1, -2]) for _ in axes]
    starts = [d.rng.choice([0, 1, -1, -2, 4, 100]) for _ in axes]
    ends = [d.rng.choice([0, 2, 3, -1, -100, np.iinfo(dtype).max, np.iinfo(dtype).min]) for _ in axes]
    inputs = [x, d.host(starts, dtype), d.host(ends, dtype), d.host(axes, dtype), d.host(steps, dtype)]
    return Call(inputs[: d.rng.choice([4, 5, 5])] if any(axes) or len(axes) > 1 else [*inputs[:3], "", inputs[4]])


@recipe("Pad")
def _pad(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"), rank=(1, 4), least=1)
    shape = d.values[x].shape
    mode = d.rng.choice(["constant", "constant", "reflect", "edge", *(["wrap"] if d.opset >= 19 else [])])
    axes = list(range(len(shape)))
    if d.opset >= 18 and d.chance(0.5):
        axes = d.axes(len(shape))
    low, most = (-1, 2) if mode == "constant" else (0, 2)
    pads = [d.rng.randint(low, min(most, shape[axis] - 1) if mode != "constant" else most) for axis in axes * 2]
    drawn = {"mode": mode if mode != "constant" or d.chance(0.5) else None}
    if "pads" in s.attributes:
        return Call([x], drawn | {"pads": pads, "value": 0.5 if d.chance(0.3) else None})
    value = d.like(x, ()) if mode == "constant" and d.chance(0.5) else ""
    dtype = d.rng.choice([np.int32, np.int64])
    return Call([x, d.host(pads), value, "" if axes == list(range(len(shape))) else d.host(axes, dtype)], drawn)


@recipe("Shape")
def _shape(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T"))
    drawn = {}
    if d.opset >= 15:
        drawn = {name: d.rng.randint(-5, 5) for name in ("start", "end") if d.chance(0.4)}
    return Call([x], drawn)


@recipe("Cast", "CastLike")
def _cast(d: Drawing, s: defs.OpSchema) -> Call:
    x = d.operand(d.kinds(s, "T1"))
    kinds = set(d.kinds(s, "T2")) - {onnx.TensorProto.STRING}
    value = d.values[x]
    if value.dtype.kind == "O":
        raise Undrawable("a string that is no number")
    target = d.kind(sorted(kinds))
    dtype = helper.tensor_dtype_to_np_dtype(target)
    if value.dtype.kind not in "iub" and not _within_integers(value, dtype):
        raise Undrawable("out of the type's range")
    return Call([x], {"to": target}) if s.name == "Cast" else Call([x, d.new(d.numbers(target, d.shape()))])


def _within_integers(value: np.ndarray, dtype: np.dtype) -> bool:
    """Whether floating-point numbers fit a type of whole numbers, should it be one."""
    if dtype.kind not in "iu" and "int" not in dtype.name:
        return True
    numbers = value.astype(np.float64)
    low = 0 if dtype.name.startswith("u") else -128 if "4" not in dtype.name[-2:-1] else -8
    return bool((np.isfinite(numbers) & (numbers > min(low, 0) - 0.9) & (numbers < 7)).all())


@cache
def _all_recipes() -> dict[str, Recipe]:
    """The recipes of all files."""
    from scripts.conformance import (  # noqa: F401
        random_graph_control,
        random_graph_indices,
        random_graph_more,
        random_graph_windows,
    )

    return {**dict.fromkeys(BY_SCHEMA, by_schema), **RECIPES}


def graph_of(seed: int, number: int, only: Sequence[str] = ()) -> DrawnGraph:
    """The graph of a number; one of the operators named is in it."""
    for attempt in range(1000):
        rng = random.Random(f"{seed} {number} {attempt}")
        opset = rng.choice(OPSETS) if rng.random() < 0.5 else rng.randint(13, OPSETS[-1])
        drawing = Drawing(rng, opset)
        drawing.dynamic = rng.random() < 0.3
        try:
            drawn = _drawn_graph(drawing, number, only)
        except Undrawable:
            continue
        if drawn is not None:
            return drawn
    raise Undrawable(f"nothing of {only}")


def add_node(d: Drawing, names: Sequence[str]) -> None:
    """Adds a node of one of the operators."""
    for _ in range(40):
        name = d.rng.choice(list(names))
        before = dict(d.values)
        try:
            d.add(name, _all_recipes()[name](d, schemas_at(d.opset)[name]))
        except (Undrawable, OverflowError):
            for key in set(d.values) - set(before):
                del d.values[key]
            continue
        return
    raise Undrawable(f"no node of {names[:3]}")


def _drawn_graph(d: Drawing, number: int, only: Sequence[str]) -> DrawnGraph | None:
    names = [name for name in schemas_at(d.opset) if name in _all_recipes() and name not in LEFT_OUT]
    wanted = [name for name in names if name in only]
    if only and not wanted:
        return None
    count = d.rng.choice([1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8])
    place = d.rng.randrange(count)
    for step in range(count):
        add_node(d, wanted if only and step == place else names)
    read = {name for node in d.nodes for name in node.input}
    outputs = [name for name in d.results if name not in read or d.chance(0.2)]
    model = d.model(d.nodes, outputs)
    if not model.graph.input and model.graph.initializer:  # of constants alone nothing is left to be imported
        d.given[d.rng.choice(model.graph.initializer).name] = False
        model = d.model(d.nodes, outputs)
    inputs = tuple(d.values[item.name] for item in model.graph.input)
    try:
        onnx.checker.check_model(model, full_check=True)
        d.run(d.nodes, outputs)
    except Exception:  # the checker has no error type of its own
        return None
    return DrawnGraph(model, inputs, number)
