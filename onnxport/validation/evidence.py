"""What both sides say about rounding on one set of inputs, and the budget that follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.errors import OnnxportError
from onnxport.graph.bodies import bodies
from onnxport.graph.external_data import weight_bytes
from onnxport.graph.protos import to_proto
from onnxport.graph.runtime import Session
from onnxport.validation import tolerance
from onnxport.validation.comparison import is_floating
from onnxport.validation.input_sets.base import InputSet, own_inputs
from onnxport.validation.numerics import CARRIERS, epsilon_of
from onnxport.validation.parties import Comparison
from onnxport.validation.runners import Outputs
from onnxport.validation.tolerance import Budget

# Sizes of the nudges in units of the last place; the first ones measure noise, all of them show where the source jumps.
_NUDGES = (1, 1, 1, 2, 2, 4)
_NOISE_NUDGES = 3
# As large, in units of the last place: equal distances come to differ, and what is no jump moves by far less than one.
_PARTING = {np.dtype(np.float64): 1 << 20, np.dtype(np.float32): 1 << 6}
_TWINS = 60
_SMALL_MOVE = 1e-3
# Graphs with more weights are not run again with nudged ones.
_REWORK_LIMIT = 1 << 29
_REWORKS = 3
# Operators whose results are not rounded, or by no more than what they are made of.
_EXACT = CARRIERS | frozenset(
    "Abs Ceil Clip Compress Constant ConstantOfShape Div Floor GatherElements GatherND LabelEncoder Max Min Mul Neg OneHot "
    "Pad Reciprocal ReduceMax ReduceMin Relu Round ScatterElements ScatterND Sign Sqrt Tile TopK Where".split()
)
# Outputs whose columns mean different things; the classes of a probability table share one scale.
_TABLES = frozenset({"variable", "transform", "inverse_transform"})


@dataclass(frozen=True)
class Pair:
    """One output of both sides.

    Attributes:
        name: its name.
        expected: what the source gives.
        result: what the converted model gives.
        index: its place among the source's outputs.
        converted_index: its place among the converted model's.
    """

    name: str
    expected: Any
    result: Any
    index: int
    converted_index: int


@dataclass(frozen=True)
class Evidence:
    """Further runs of one side.

    Attributes:
        truth: results in float64, of the side that can; None where neither can.
        of_source: the further runs are the source's; else the converted model's.
        nudged: results on inputs that are off by a few units in the last place.
        twins: results of the source and of the converted model on the same inputs, off by enough to part what is tied.
        reworked: results of the ONNX graph with its weights and inner results off by one unit, after those of the graph itself.
    """

    truth: Outputs | None = None
    of_source: bool = True
    nudged: tuple[Outputs, ...] = ()
    twins: tuple[tuple[Outputs, Outputs], ...] = ()
    reworked: tuple[Outputs, ...] = ()


def first_evidence(parties: Comparison, item: InputSet, own: Sequence[Any]) -> Evidence:
    """The float64 run, of the source or else of the converted model.

    Trees are compared in the converted model's input type: in float64 the source may fall on another side of a threshold.
    """
    if parties.tolerance.given or parties.numerics.trees:
        return Evidence()
    found = parties.source.run_float64(own)
    if found is not None:
        return Evidence(found)
    found = parties.converted.run_float64(item.leaves)
    return Evidence(found, of_source=False) if found is not None else Evidence()


def further_evidence(parties: Comparison, item: InputSet, evidence: Evidence) -> Evidence:
    """With what an output that failed is judged again: how far results move when inputs, weights and inner results do.

    Each moves by one unit in the last place. Where trees read the inputs as they are, nothing is rounded before a threshold,
    and no such excuse holds for the inputs; what is computed from the trees' results is rounded all the same.
    """
    if parties.tolerance.given:
        return evidence
    smooth = not parties.numerics.direct_trees
    nudged = tuple(_nudged(parties, item, evidence.of_source)) if smooth else ()
    twins = tuple(_twins(parties, item)) if smooth and parties.source.own_dtypes and _chooses(parties.graph) else ()
    noisy = evidence.truth is None or parties.source.own_dtypes
    reworked = tuple(_reworked(parties, item)) if noisy else ()
    return replace(evidence, nudged=nudged, twins=twins, reworked=reworked)


def _nudged(parties: Comparison, item: InputSet, of_source: bool) -> Iterator[Outputs]:
    if not any(_is_float(leaf) for leaf in item.leaves):
        return
    start = list(item.leaves)
    if of_source and parties.source.own_dtypes and _gives_float64(parties, start):
        # what a source that computes in float64 makes of narrower inputs moves by units of float64
        start = [x.astype(np.float64) if _is_float(x) else x for x in start]
    for seed, size in enumerate(_NUDGES):
        rng = np.random.default_rng(seed)
        leaves = [tolerance.nudge(x, size * tolerance.epsilon(x.dtype), rng) if _is_float(x) else x for x in start]
        try:
            yield parties.source.run(parties.source_leaves(leaves)) if of_source else parties.converted.run(leaves)
        except Exception:  # an input check of the model's own, as for values above 1
            return


def _chooses(graph: ir.Model | None) -> bool:
    """Whether a graph takes the first few of rows in an order, as of neighbours."""
    return graph is not None and any(node.op_type == "TopK" for node in graph.graph.all_nodes())


def _twins(parties: Comparison, item: InputSet) -> Iterator[tuple[Outputs, Outputs]]:
    if not any(_is_float(leaf) for leaf in item.leaves):
        return
    for seed in range(_TWINS):
        rng = np.random.default_rng(seed)
        leaves = [_parted(x, rng) if _is_float(x) else x for x in item.leaves]
        try:
            yield parties.source.run(parties.source_leaves(leaves)), parties.converted.run(leaves)
        except Exception:  # an input check of the model's own
            return


def _parted(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers off by enough to part distances that are equal, zeros too."""
    size = _PARTING.get(x.dtype, 1) * tolerance.epsilon(x.dtype)
    scale = np.max(np.abs(x), where=np.isfinite(x) & (x != 0), initial=0.0) or 1.0
    beside = rng.choice(np.asarray([-size, size]), x.shape) * scale
    return np.where(x == 0, beside, tolerance.nudge(x, size, rng)).astype(x.dtype)


def _gives_float64(parties: Comparison, leaves: Sequence[Any]) -> bool:
    try:
        found = [np.asarray(value) for _, value in parties.source.run(parties.source_leaves(leaves))]
    except (TypeError, ValueError):
        return False
    floating = [value.dtype for value in found if value.dtype.kind == "f"]
    return bool(floating) and all(dtype == np.float64 for dtype in floating)


def _reworked(parties: Comparison, item: InputSet) -> Iterator[Outputs]:
    """For a source that runs in one precision only: the noise that rounding brings into every layer of the graph."""
    graph = parties.graph
    if graph is None or weight_bytes(graph) > _REWORK_LIMIT:
        return
    feeds = {value.name or "": leaf for value, leaf in zip(own_inputs(graph), item.leaves, strict=True)}
    names = [value.name or "" for value in graph.graph.outputs]
    sessions = parties.sessions
    try:
        if not sessions:
            sessions.update(plain=Session(graph, optimize=False), noisy=Session(_with_noise(graph), optimize=False))
        yield list(zip(names, sessions["plain"].run(feeds), strict=True))
        for _ in range(_REWORKS):  # each run draws anew
            yield list(zip(names, sessions["noisy"].run(feeds), strict=True))
    except OnnxportError:  # without it the budget is the tighter one
        return


def _with_noise(graph: ir.Model) -> onnx.ModelProto:
    """The graph with its weights off by one unit in the last place, and the results of its nodes off by one, at random.

    After Monte Carlo arithmetic (Parker, Pierce and Eggert, "Monte Carlo arithmetic: how to gamble with floating point and
    win", 2000): what a large intermediate value loses in a difference shows, which the inputs' last place need not move.
    What trees read, and their own sums of leaves, stay as they are: across a threshold there is a jump, not noise.
    """
    rng = np.random.default_rng(0)
    kept = {value.name for value in _read_by_trees(graph)}
    proto = to_proto(graph)
    for tensor in proto.graph.initializer:
        value = graph.graph.initializers[tensor.name].const_value
        if (
            tensor.name in kept
            or value is None
            or value.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)
        ):
            continue
        array = value.numpy()
        moved = tolerance.nudge(array, tolerance.epsilon(array.dtype), rng)
        moved = np.where(array == np.floor(array), array, moved)  # as `_noise` leaves them: codes of terms, say
        tensor.CopyFrom(ir.serde.serialize_tensor(ir.tensor(moved, name=tensor.name)))
    types = {value.name: value.dtype for node in graph.graph for value in node.outputs}
    numbers = {ir.DataType.FLOAT: "float", ir.DataType.DOUBLE: "double"}
    for dtype, word in numbers.items():
        for number, what in ((epsilon_of(dtype), "unit"), (1.0, "one")):
            constant = ir.tensor(np.asarray(number, dtype.numpy()), name=f"noise/{word}/{what}")
            proto.graph.initializer.append(ir.serde.serialize_tensor(constant))
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    for node in nodes:
        proto.graph.node.append(node)
        written = proto.graph.node[-1]
        if (
            node.op_type in _EXACT
            or kept.intersection(node.output)
            or (node.op_type.startswith("Random") and not node.domain)
        ):
            continue
        for place, name in enumerate(node.output):
            inexact = types.get(name)
            if name and inexact in numbers:
                written.output[place] = f"{name}/exact"
                proto.graph.node.extend(_noise(name, f"noise/{numbers[inexact]}", float(rng.integers(1 << 20))))
    return proto


def _read_by_trees(graph: ir.Model) -> set[ir.Value]:
    """Every value that a tree ensemble depends on, and those that the ensembles give."""
    found: set[ir.Value] = set()
    for node in reversed(graph.graph):
        inside = [inner for body in bodies(node) for inner in body.all_nodes()]
        trees = any(item.op_type.startswith("TreeEnsemble") for item in (node, *inside))
        if trees or found.intersection(node.outputs):
            found.update(node.outputs)
            found.update(value for item in (node, *inside) for value in item.inputs if value is not None)
    return found


def _noise(name: str, numbers: str, seed: float) -> Iterator[onnx.NodeProto]:
    """Nodes that multiply each element by 1 or by one unit in the last place more or less, as 1 plus the draw is rounded.

    Whole numbers stay: they count, or stand for something, and their arithmetic is exact.
    """
    make, exact = onnx.helper.make_node, f"{name}/exact"
    yield make("RandomUniformLike", [exact], [f"{name}/drawn"], low=-1.5, high=1.5, seed=seed)
    yield make("Mul", [f"{name}/drawn", f"{numbers}/unit"], [f"{name}/move"])
    yield make("Add", [f"{name}/move", f"{numbers}/one"], [f"{name}/factor"])
    yield make("Mul", [exact, f"{name}/factor"], [f"{name}/moved"])
    yield make("Floor", [exact], [f"{name}/floor"])
    yield make("Equal", [exact, f"{name}/floor"], [f"{name}/whole"])
    yield make("Where", [f"{name}/whole", exact, f"{name}/moved"], [name])


def budget(parties: Comparison, pair: Pair, evidence: Evidence) -> Budget:
    """How far the elements of a floating-point output may lie apart."""
    expected, result = pair.expected, pair.result
    allowed = parties.tolerance
    if allowed.given:
        return tolerance.from_user(allowed.rtol, allowed.atol, expected)
    types = (result,) if parties.source.own_dtypes else (expected, result)
    eps = max([*(tolerance.epsilon(x.dtype) for x in types if is_floating(x.dtype)), parties.numerics.coarse or 0.0])
    length = parties.numerics.length
    noise = results(evidence.nudged[:_NOISE_NUDGES], _place(pair, evidence.of_source), expected)
    truth = _truth(pair, evidence)
    if truth is not None and not parties.source.own_dtypes:
        noisy = expected if evidence.of_source else result
        if noisy.shape == truth.shape:
            return tolerance.from_float64(noisy, truth, length, eps=eps, nudged=noise)
    if evidence.reworked:
        moved = results(evidence.reworked, pair.converted_index, expected)
        wide = [item.astype(np.float64) for item in moved if is_floating(item.dtype) and item.shape == expected.shape]
        noise += [expected.astype(np.float64) + (item - wide[0]) for item in wide[1:]]
    columns = (parties.source.tabular or parties.converted.tabular) and pair.name in _TABLES
    return tolerance.from_length(expected, length, eps=eps, columns=columns, nudged=noise, truth=truth)


def budget_for_parts(parties: Comparison, expected: Any) -> Budget:
    """A budget for the tensors inside a sequence or map, from their common scale."""
    arrays = [item for item in _arrays(expected) if is_floating(item.dtype)]
    if not arrays:
        return tolerance.EXACT
    flat = np.concatenate([item.astype(np.float64).ravel() for item in arrays])
    if parties.tolerance.given:
        return tolerance.from_user(parties.tolerance.rtol, parties.tolerance.atol, flat.astype(arrays[0].dtype))
    eps = max([*(tolerance.epsilon(item.dtype) for item in arrays), parties.numerics.coarse or 0.0])
    return tolerance.from_length(flat, parties.numerics.length, eps=eps)


def jumps(pair: Pair, evidence: Evidence) -> list[np.ndarray]:
    """What else the source gives when its inputs move by a few units in the last place.

    Where several choices are as good, as among equally near neighbours, no such move need show the one that the converted model
    made: its own result counts too where both sides agree on moved inputs, on another result than the source's here, and it lies
    among what the source gives for these.
    """
    found = results(evidence.nudged, pair.index, pair.expected) if evidence.of_source else []
    if not evidence.twins or np.shape(pair.result) != pair.expected.shape:
        return found
    ours = results([twin for twin, _ in evidence.twins], pair.index, pair.expected)
    theirs = results([twin for _, twin in evidence.twins], pair.converted_index, pair.expected)
    if any(item.shape != pair.expected.shape for item in (*ours, *theirs)):
        return found
    tied = np.any([_agree(x, y) & ~_agree(x, pair.expected) for x, y in zip(ours, theirs, strict=True)], axis=0)
    among = _among(pair.result, [pair.expected, *ours])
    return [*found, np.where(tied & among, pair.result, pair.expected)]


def _agree(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise, as far as a small move of the inputs goes; a jump is more."""
    if a.dtype.kind in "OUSb" or b.dtype.kind in "OUSb":
        return np.asarray(a.astype(str) == b.astype(str))
    return np.isclose(a, b, rtol=0.0, atol=_SMALL_MOVE * _size(b), equal_nan=True)


def _among(value: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """Where an element is one of the others, or of floating-point numbers no further from them than they lie apart."""
    if value.dtype.kind != "f":
        return np.asarray(np.any([value.astype(str) == item.astype(str) for item in others], axis=0))
    low, high = np.min(others, axis=0), np.max(others, axis=0)  # a few of the choices there are
    return (value >= low - (high - low)) & (value <= high + (high - low))


def _size(values: np.ndarray) -> float:
    return float(np.max(np.abs(values[np.isfinite(values)]), initial=0.0))


def results(runs: Sequence[Outputs], place: int, like: np.ndarray) -> list[np.ndarray]:
    """One output's values in each of several runs."""
    return [column_like(np.asarray(run[place][1]), like) for run in runs if place < len(run)]


def column_like(value: np.ndarray, like: np.ndarray) -> np.ndarray:
    """A vector as the one column that a graph gives it as, or the other way round."""
    if (*value.shape, 1) == like.shape or value.shape == (*like.shape, 1):
        return value.reshape(like.shape)
    return value


def _place(pair: Pair, of_source: bool) -> int:
    return pair.index if of_source else pair.converted_index


def _truth(pair: Pair, evidence: Evidence) -> np.ndarray | None:
    """The float64 result for an output; None where the model fell back to a narrower type by itself."""
    place = _place(pair, evidence.of_source)
    if evidence.truth is None or place >= len(evidence.truth):
        return None
    value = evidence.truth[place][1]
    if not isinstance(value, np.ndarray) or value.dtype not in (np.dtype(np.float64), np.dtype(np.complex128)):
        return None
    value = column_like(value, pair.expected)
    return value if value.shape == pair.expected.shape else None


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f"


def _arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (float, np.floating)):
        yield np.asarray(value, np.float32)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _arrays(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _arrays(item)
