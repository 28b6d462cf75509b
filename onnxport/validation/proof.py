"""Running both sides on sets of inputs and judging what they give."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import InvalidInputError, OnnxportError
from onnxport.frameworks import Framework
from onnxport.graph.external_data import weight_bytes
from onnxport.validation import inputs as sets_of_inputs
from onnxport.validation import tolerance
from onnxport.validation.comparison import OutputReport, is_floating, judge
from onnxport.validation.divergence import by_source_node, first_divergence, values_of
from onnxport.validation.inputs import InputSet
from onnxport.validation.numerics import Numerics, of_model
from onnxport.validation.report import Divergence, Report, SetReport, Side
from onnxport.validation.runners import Binding, Outputs, Runner, bind
from onnxport.validation.runners.base import InputSpec, graph_order
from onnxport.validation.runners.onnx import OnnxRunner
from onnxport.validation.tolerance import Budget

# Sizes of the nudges in units of the last place; the first ones measure noise, all of them show where the source jumps.
_NUDGES = (1, 1, 1, 2, 2, 4)
_NOISE_NUDGES = 3
# Beyond this size of the weights the search for the divergent node takes more memory than it is worth.
_SEARCH_LIMIT = 1 << 30
# Outputs whose columns mean different things; the classes of a probability table share one scale.
_TABLES = frozenset({"variable", "transform", "inverse_transform"})
_PACKAGES = {
    "onnx": ("onnx", "onnxruntime"),
    "pytorch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "keras": ("keras", "tensorflow", "tensorflow-cpu", "torch", "jax"),
    "sklearn": ("scikit-learn",),
}
# Element types that frameworks lack, and the type that stands for them there (DESIGN: types at the boundary).
_TRAVELS_AS = {
    "int4": "int8",
    "int2": "int8",
    "uint4": "uint8",
    "uint2": "uint8",
    "float4_e2m1fn": "float32",
    "float6_e2m3fn": "float32",
    "float6_e3m2fn": "float32",
}


@dataclass(frozen=True)
class Party:
    """One side of a comparison: a live model, its framework, and what to call it in the report (a file's name)."""

    model: Any
    framework: Framework
    title: str = ""


@dataclass(frozen=True)
class Tolerance:
    """What the user allows; None leaves it to the derived budget."""

    rtol: float | None = None
    atol: float | None = None

    @property
    def given(self) -> bool:
        """Whether the user said anything."""
        return self.rtol is not None or self.atol is not None


@dataclass(frozen=True)
class Comparison:
    """Both sides bound to their inputs, ready to run.

    Attributes:
        source: the side that counts as right.
        converted: the side under test.
        order: for each graph input the source's leaf that feeds it; None where the source takes leaves in graph order.
        numerics: facts about the graph between them.
        tolerance: what the user allows.
    """

    source: Runner
    converted: Runner
    order: tuple[int, ...] | None
    numerics: Numerics
    tolerance: Tolerance

    def source_leaves(self, leaves: Sequence[Any]) -> list[Any]:
        """Leaves in graph order put into the source's order; leaves that the graph does not take stay as given."""
        if self.order is None or self.source.example is None:
            return list(leaves)
        own = list(self.source.example.leaves)
        for leaf, index in zip(leaves, self.order, strict=True):
            own[index] = leaf
        return own


def compare(
    source: Party,
    converted: Party,
    binding: Binding,
    *,
    graph: ir.Model | None,
    tolerance: Tolerance,
    seed: int = 0,
    notes: Sequence[str] = (),
) -> Report:
    """Runs both sides on every set of inputs.

    Args:
        source: the side that counts as right.
        converted: the side under test.
        binding: the user's inputs, for the source.
        graph: the ONNX graph that is one of the sides or lies between them; None where there is none.
        tolerance: the user's tolerances.
        seed: for inputs that are drawn.
        notes: what the conversion had to say.

    Raises:
        InvalidInputError: the source itself can't run on the inputs.
    """
    if graph is not None:
        binding = _with_graph(binding, graph)
    left = bind(source.model, source.framework, binding)
    right = bind(converted.model, converted.framework, replace(binding, inputs=None, kwargs=None))
    specs = binding.specs
    order = tuple(graph_order(left.example, specs)) if left.example is not None and specs is not None else None
    parties = Comparison(left, right, order, of_model(graph) if graph is not None else Numerics(64), tolerance)
    remarks = list(notes)
    reports = [
        found
        for item in _sets(parties, specs, graph, seed)
        if (found := _run_set(parties, item, specs, remarks)) is not None
    ]
    if not reports:
        raise InvalidInputError(
            f"the source model can't run on drawn inputs; pass inputs=(...). {' '.join(remarks[-1:])}"
        )
    divergence = None
    if any(not item.passed for item in reports):
        remarks += _blame_runtime(parties, reports, specs, graph, seed)
        divergence = _diverging(parties, source, converted, reports, specs, graph, seed)
    return Report(
        _side(left, source.title),
        _side(right, converted.title),
        tuple(reports),
        tuple(dict.fromkeys(remarks)),
        versions(source.framework, converted.framework),
        divergence,
    )


def versions(*frameworks: Framework) -> dict[str, str]:
    """Versions of onnxport, NumPy, ONNX's packages and the frameworks', as installed."""
    names = ["onnxport", "numpy", *_PACKAGES["onnx"], *(name for item in frameworks for name in _PACKAGES[item])]
    found = {}
    for name in dict.fromkeys(names):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _side(runner: Runner, title: str) -> Side:
    return Side(runner.framework, title or runner.title, runner.runtime)


def _with_graph(binding: Binding, graph: ir.Model) -> Binding:
    tensors = all(value.type is None or isinstance(value.type, ir.TensorType) for value in graph.graph.outputs)
    return replace(
        binding,
        specs=sets_of_inputs.specs_of(graph),
        output_names=tuple(value.name or "" for value in graph.graph.outputs),
        structured=not tensors,
    )


# -- input sets ------------------------------------------------------------------------------------------------------------


def _sets(
    parties: Comparison, specs: Sequence[InputSpec] | None, graph: ir.Model | None, seed: int
) -> Iterator[InputSet]:
    example = parties.source.example
    if example is None:
        if graph is None:
            raise InvalidInputError("pass inputs=...: neither side has a signature to draw them from")
        for candidates in sets_of_inputs.drawn(graph, seed):
            yield next((item for item in candidates if _runs(parties, item)), candidates[0])
        return
    leaves = example.leaves if parties.order is None else tuple(example.leaves[i] for i in parties.order)
    if specs is not None:
        leaves = tuple(_as_declared(leaf, spec, parties.source) for leaf, spec in zip(leaves, specs, strict=True))
    yield InputSet("given", leaves, optional=False)
    if parties.source.tabular or parties.converted.tabular:
        yield from sets_of_inputs.table_sets(leaves, graph, missing=parties.source.allows_missing, seed=seed)
        return
    yield sets_of_inputs.varied(leaves, seed)
    if specs is not None and parties.order is not None and len(parties.order) == len(example.leaves):
        for item in sets_of_inputs.other_sizes(leaves, specs):
            if _runs(parties, item):
                yield item
                return


def _runs(parties: Comparison, item: InputSet) -> bool:
    try:
        parties.source.run(parties.source_leaves(item.leaves))
    except Exception:  # whatever the source makes of a size it does not know
        return False
    return True


def _as_declared(leaf: Any, spec: InputSpec, source: Runner) -> Any:
    """A table's values in the element type that the graph takes them in: both sides get the rounded values."""
    if not source.own_dtypes or not isinstance(leaf, np.ndarray) or spec.dtype is None or leaf.dtype == spec.dtype:
        return leaf
    if spec.dtype.kind == "O" or leaf.dtype.kind == "O":
        return leaf
    return leaf.astype(spec.dtype)


# -- one set ---------------------------------------------------------------------------------------------------------------


def _run_set(
    parties: Comparison, item: InputSet, specs: Sequence[InputSpec] | None, notes: list[str]
) -> SetReport | None:
    own = parties.source_leaves(item.leaves)
    started = time.perf_counter()
    try:
        expected = parties.source.run(own)
    except Exception as error:  # the source is the user's: any error at all
        if item.optional:
            notes.append(f"{item.name}: left out, the source can't run on it: {_first_line(error)}")
            return None
        raise InvalidInputError(f"the source model can't run on the inputs: {_first_line(error)}") from error
    between = time.perf_counter()
    described = _described(item, specs)
    try:
        results = parties.converted.run(item.leaves)
    except Exception as error:
        reason = f"the converted model can't run: {_first_line(error)}"
        return SetReport(item.name, described, (), between - started, time.perf_counter() - between, reason)
    done = time.perf_counter()
    pairs = _paired(expected, results, notes)
    if pairs is None:
        reason = f"{len(results)} outputs ({_names(results)}) instead of {len(expected)} ({_names(expected)})"
        return SetReport(item.name, described, (), between - started, done - between, reason)
    outputs = _judged(parties, item, own, pairs)
    return SetReport(item.name, described, tuple(outputs), between - started, done - between)


@dataclass(frozen=True)
class _Pair:
    name: str
    expected: Any
    result: Any
    index: int


def _paired(expected: Outputs, results: Outputs, notes: list[str]) -> list[_Pair] | None:
    """Outputs that belong together: by name where the names are the same, else by position."""
    if len(expected) != len(results):
        tensors = [item for item in expected if isinstance(item[1], (np.ndarray, list, dict))]
        if len(tensors) == len(results):
            return _paired(tensors, results, notes)
    names, found = [name for name, _ in expected], dict(results)
    if len(found) == len(results) and len(set(names)) == len(names) and set(names) <= set(found):
        extra = [name for name in found if name not in names]
        if extra:
            notes.append(f"outputs that the source does not return were not compared: {', '.join(extra)}")
        return [_Pair(name, value, found[name], i) for i, (name, value) in enumerate(expected)]
    if len(expected) != len(results):
        return None
    return [
        _Pair(name or own or f"output_{i}", value, result, i)
        for i, ((own, value), (name, result)) in enumerate(zip(expected, results, strict=True))
    ]


def _judged(parties: Comparison, item: InputSet, own: Sequence[Any], pairs: Sequence[_Pair]) -> list[OutputReport]:
    # Trees are compared in the converted model's input type: in float64 the source may fall on another side of a threshold.
    twin = None if parties.tolerance.given or parties.numerics.trees else _twin(parties, item, own)
    first = [_judge_one(parties, item, own, pair, pairs, twin, ()) for pair in pairs]
    if all(output.verdict != "fail" for output in first) or parties.tolerance.given or parties.numerics.direct_trees:
        return first
    nudged = _nudged_runs(parties, item, twin)
    if not nudged:
        return first
    return [
        output if output.verdict != "fail" else _judge_one(parties, item, own, pair, pairs, twin, nudged)
        for output, pair in zip(first, pairs, strict=True)
    ]


@dataclass(frozen=True)
class _Twin:
    """Results in float64, and whose they are."""

    outputs: Outputs
    of_source: bool


def _twin(parties: Comparison, item: InputSet, own: Sequence[Any]) -> _Twin | None:
    found = parties.source.run_float64(own)
    if found is not None:
        return _Twin(found, True)
    found = parties.converted.run_float64(item.leaves)
    return _Twin(found, False) if found is not None else None


def _nudged_runs(parties: Comparison, item: InputSet, twin: _Twin | None) -> list[Outputs]:
    """The twin's owner (else the source) run again on inputs that are off by one unit in the last place."""
    if not any(isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" for leaf in item.leaves):
        return []
    runs = []
    for seed, size in enumerate(_NUDGES):
        rng = np.random.default_rng(seed)
        leaves = [
            tolerance.nudge(leaf, size * tolerance.epsilon(leaf.dtype), rng)
            if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f"
            else leaf
            for leaf in item.leaves
        ]
        try:
            if twin is not None and not twin.of_source:
                runs.append(parties.converted.run(leaves))
            else:
                runs.append(parties.source.run(parties.source_leaves(leaves)))
        except Exception:  # an input check of the model's own, as for values above 1
            return runs
    return runs


def _judge_one(
    parties: Comparison,
    item: InputSet,
    own: Sequence[Any],
    pair: _Pair,
    pairs: Sequence[_Pair],
    twin: _Twin | None,
    nudged: Sequence[Outputs],
) -> OutputReport:
    same = not (parties.source.own_dtypes or parties.converted.own_dtypes)
    expected, result = pair.expected, pair.result
    if parties.converted.framework != "onnx" and parties.source.framework == "onnx":
        expected = _travelled(expected)
    if isinstance(result, np.ndarray) and not isinstance(expected, (np.ndarray, list, dict)) and expected is not None:
        expected = np.asarray(expected, result.dtype if isinstance(expected, (int, float)) else None)
    if isinstance(expected, np.ndarray) and isinstance(result, np.ndarray) and not same:
        expected = _column_like(expected, result)
    if pair.name in parties.numerics.random:
        return _judge_random(pair.name, expected, result, same)
    if not isinstance(expected, np.ndarray) or not isinstance(result, np.ndarray):
        return judge(pair.name, expected, result, _budget_for_parts(parties, expected), same_dtype=same)
    others = _results(nudged, pair, expected) if twin is None or twin.of_source else []
    if not is_floating(expected.dtype):
        values = {other.name: other.expected for other in pairs}
        exempt = None
        if not np.array_equal(expected, result):
            slack = (
                2 * (tolerance.LENGTH_FACTOR * np.sqrt(parties.numerics.length) + tolerance.ULPS) * _input_epsilon(item)
            )
            exempt = parties.source.undecided(own, pair.name, values, slack)
        return judge(pair.name, expected, result, tolerance.EXACT, same_dtype=same, exempt=exempt, others=others)
    budget = _budget(parties, pair, expected, result, twin, nudged)
    return judge(pair.name, expected, result, budget, same_dtype=same, others=others)


def _results(runs: Sequence[Outputs], pair: _Pair, like: np.ndarray) -> list[np.ndarray]:
    """The output's values in each of the nudged runs."""
    return [_column_like(np.asarray(run[pair.index][1]), like) for run in runs if pair.index < len(run)]


def _budget(
    parties: Comparison,
    pair: _Pair,
    expected: np.ndarray,
    result: np.ndarray,
    twin: _Twin | None,
    nudged: Sequence[Outputs],
) -> Budget:
    allowed = parties.tolerance
    if allowed.given:
        return tolerance.from_user(allowed.rtol, allowed.atol, expected)
    types = [tolerance.epsilon(array.dtype) for array in (expected, result) if is_floating(array.dtype)]
    eps = max([*types, parties.numerics.half or 0.0])
    if parties.source.own_dtypes and is_floating(result.dtype):
        eps = max(tolerance.epsilon(result.dtype), parties.numerics.half or 0.0)
    own = _results(nudged[:_NOISE_NUDGES], pair, expected)
    truth = _truth(twin, pair, expected)
    length = parties.numerics.length
    if truth is not None and twin is not None and not parties.source.own_dtypes:
        noisy = expected if twin.of_source else result
        if noisy.shape == truth.shape:
            return tolerance.from_float64(noisy, truth, length, eps=eps, nudged=own)
    columns = (parties.source.tabular or parties.converted.tabular) and pair.name in _TABLES
    return tolerance.from_length(expected, length, eps=eps, columns=columns, nudged=own, truth=truth)


def _truth(twin: _Twin | None, pair: _Pair, expected: np.ndarray) -> np.ndarray | None:
    """The float64 result for an output; None where the model fell back to a narrower type by itself."""
    if twin is None or pair.index >= len(twin.outputs):
        return None
    value = twin.outputs[pair.index][1]
    if not isinstance(value, np.ndarray) or value.dtype not in (np.dtype(np.float64), np.dtype(np.complex128)):
        return None
    value = _column_like(value, expected)
    return value if value.shape == expected.shape else None


def _budget_for_parts(parties: Comparison, expected: Any) -> Budget:
    """A budget for the tensors inside a sequence or map, from their common scale."""
    arrays = [item for item in _arrays(expected) if is_floating(item.dtype)]
    if not arrays:
        return tolerance.EXACT
    flat = np.concatenate([item.astype(np.float64).ravel() for item in arrays])
    if parties.tolerance.given:
        return tolerance.from_user(parties.tolerance.rtol, parties.tolerance.atol, flat.astype(arrays[0].dtype))
    eps = max([*(tolerance.epsilon(item.dtype) for item in arrays), parties.numerics.half or 0.0])
    return tolerance.from_length(flat, parties.numerics.length, eps=eps)


def _arrays(value: Any) -> Iterable[np.ndarray]:
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


def _judge_random(name: str, expected: Any, result: Any, same: bool) -> OutputReport:
    """Type and shape must agree; the values are drawn anew on each run."""
    if isinstance(expected, np.ndarray) and isinstance(result, np.ndarray):
        blank = judge(
            name,
            np.zeros(expected.shape, expected.dtype),
            np.zeros(result.shape, result.dtype),
            tolerance.EXACT,
            same_dtype=same,
        )
        if blank.verdict == "fail":
            return blank
        return OutputReport(
            name, "skipped", "random: only type and shape were compared", str(expected.dtype), expected.shape
        )
    return OutputReport(name, "skipped", "random")


def _column_like(value: np.ndarray, like: np.ndarray) -> np.ndarray:
    """A vector as the one column that a graph gives it as, or the other way round."""
    if (*value.shape, 1) == like.shape or value.shape == (*like.shape, 1):
        return value.reshape(like.shape)
    return value


def _travelled(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.name in _TRAVELS_AS:
        return value.astype(_TRAVELS_AS[value.dtype.name])
    if isinstance(value, list):
        return [_travelled(item) for item in value]
    return value


def _input_epsilon(item: InputSet) -> float:
    found = [
        tolerance.epsilon(leaf.dtype)
        for leaf in item.leaves
        if isinstance(leaf, np.ndarray) and is_floating(leaf.dtype)
    ]
    return max(found, default=2.0**-23)


def _described(item: InputSet, specs: Sequence[InputSpec] | None) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    names = [spec.name for spec in specs] if specs is not None else [f"input_{i}" for i in range(len(item.leaves))]
    return tuple(
        (name, str(getattr(leaf, "dtype", type(leaf).__name__)), tuple(getattr(leaf, "shape", ())))
        for name, leaf in zip(names, item.leaves, strict=True)
    )


def _names(outputs: Outputs) -> str:
    return ", ".join(name or f"output_{i}" for i, (name, _) in enumerate(outputs))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


# -- who is to blame -------------------------------------------------------------------------------------------------------


def _blame_runtime(
    parties: Comparison,
    reports: Sequence[SetReport],
    specs: Sequence[InputSpec] | None,
    graph: ir.Model | None,
    seed: int,
) -> list[str]:
    """Whether the graph as written agrees where the one that onnxruntime optimised does not."""
    right = parties.converted
    if not isinstance(right, OnnxRunner) or right.session.backend != "onnxruntime" or graph is None:
        return []
    from onnxport.graph.runtime import Session

    plain = replace(parties, converted=OnnxRunner(Session(graph, optimize=False), right.title, right.example))
    failed = {item.name for item in reports if not item.passed}
    again = [_run_set(plain, item, specs, []) for item in _sets(plain, specs, graph, seed) if item.name in failed]
    if again and all(item is not None and item.passed for item in again):
        return ["the graph as written agrees with the source: onnxruntime's own optimisation of it changes the result"]
    return []


def _diverging(
    parties: Comparison,
    source: Party,
    converted: Party,
    reports: Sequence[SetReport],
    specs: Sequence[InputSpec] | None,
    graph: ir.Model | None,
    seed: int,
) -> Divergence | None:
    """The first divergent node of a converted ONNX model, on the first set of inputs that failed."""
    if converted.framework != "onnx" or graph is None or specs is None or weight_bytes(graph) > _SEARCH_LIMIT:
        return None
    failed = next(item.name for item in reports if not item.passed)
    leaves = next((item.leaves for item in _sets(parties, specs, graph, seed) if item.name == failed), None)
    if leaves is None:
        return None
    feeds = {spec.name: leaf for spec, leaf in zip(specs, leaves, strict=True)}
    try:
        if source.framework == "onnx":
            own = {node_value for node in graph.graph for value in node.outputs if (node_value := value.name)}
            reference = {name: value for name, value in values_of(source.model.model, feeds).items() if name in own}
        else:
            reference = by_source_node(graph, parties.source.intermediates(parties.source_leaves(leaves)))
        return first_divergence(graph, feeds, reference) if reference else None
    except OnnxportError:  # the search is a service; its failure must not hide the verdict
        return None
