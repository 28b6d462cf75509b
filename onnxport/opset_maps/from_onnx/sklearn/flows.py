"""What becomes of a graph's inputs on the way to a value: transformers one behind the other, columns picked and put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

from onnxport.opset_maps.from_onnx.sklearn.chains import Step, transformer_of
from onnxport.opset_maps.from_onnx.sklearn.patterns import attribute, carried, constant_of


@dataclass(frozen=True)
class Pick:
    """Some columns of a table, in their order."""

    columns: tuple[int, ...]


@dataclass(frozen=True)
class Flow:
    """A table that steps make of all columns of a graph's inputs."""

    steps: tuple[Any, ...] = ()  # transformers and picks
    keys: tuple[ir.Value | Pick, ...] = ()  # what tells a step from others: the value that it gives
    width: int | None = None
    picked: tuple[int, ...] | None = None  # of its columns, those that the value has; None: all

    @property
    def whole(self) -> Flow:
        """The same with its pick as a step."""
        if self.picked is None:
            return self
        pick = Pick(self.picked)
        return Flow((*self.steps, pick), (*self.keys, pick), len(self.picked))

    @property
    def places(self) -> tuple[int, ...] | None:
        """The columns that the value has."""
        return self.picked if self.picked is not None or self.width is None else tuple(range(self.width))

    def narrowed(self, places: Sequence[int]) -> Flow:
        """Some columns of the value, all of them in order being the value itself."""
        picked = tuple(int(place) for place in places)
        return replace(self, picked=None if self.width is not None and picked == tuple(range(self.width)) else picked)

    def then(self, estimator: Any, key: ir.Value) -> Flow:
        """The flow behind one more transformer."""
        before = self.whole
        counts = not isinstance(estimator, (FeatureUnion, Pipeline))  # these count their parts' columns
        if counts and before.width is not None and not hasattr(estimator, "n_features_in_"):
            estimator.n_features_in_ = before.width
        return Flow((*before.steps, estimator), (*before.keys, key), width_behind(estimator, before.width))


class Table:
    """The columns of a graph's inputs beside each other."""

    def __init__(self, inputs: Sequence[ir.Value]) -> None:
        widths = [_width(value) for value in inputs]
        self._places: dict[ir.Value, tuple[int, ...]] = {}
        self.width = sum(width or 0 for width in widths) if all(widths) else None
        # columns have names where each input is one
        self.names = [value.name or "" for value in inputs] if len(inputs) > 1 and set(widths) == {1} else []
        start = 0
        for value, width in zip(inputs, widths, strict=True):
            self._places[value] = tuple(range(start, start + (width or 0)))
            start += width or 0
        self._known: dict[ir.Value, Flow | None] = {}

    def flow(self, value: ir.Value) -> Flow | None:
        """How a value comes from the inputs; None where a step isn't known."""
        value = carried(value)
        if value not in self._known:
            self._known[value] = None
            self._known[value] = self._flow(value)
        return self._known[value]

    def joined(self, values: Sequence[ir.Value | None], key: ir.Value) -> Flow | None:
        """The flow of values whose columns stand beside each other."""
        flows = [self.flow(value) for value in values if value is not None]
        known = [flow for flow in flows if flow is not None]
        if len(known) < len(values) or not known:
            return None
        return known[0] if len(known) == 1 else self._beside(known, key)

    def width_of(self, value: ir.Value) -> int | None:
        """How many columns a value has; None where that isn't known."""
        flow = self.flow(value)
        return None if flow is None else flow.whole.width

    def _flow(self, value: ir.Value) -> Flow | None:
        if value in self._places:
            start = Flow(width=self.width)
            return start.narrowed(self._places[value]) if len(self._places) > 1 else start
        step = transformer_of(value)
        if step is not None:
            return self._behind(step, value)
        node = value.producer()
        if node is None:
            return None
        if node.op_type == "FeatureVectorizer" or (node.op_type == "Concat" and attribute(node, "axis") in (1, -1)):
            return self.joined(node.inputs, value)
        places = _picks(node)
        before = self.flow(node.inputs[0]) if places is not None and node.inputs[0] is not None else None
        if before is None or places is None or before.places is None or max(places, default=0) >= len(before.places):
            return None
        return before.narrowed([before.places[place] for place in places])

    def _behind(self, step: Step, value: ir.Value) -> Flow | None:
        before = self.joined(step.sources, value)
        if before is None:
            return None
        if step.fills is not None and not (before.steps and isinstance(before.steps[-1], SimpleImputer)):
            before = before.then(step.fills, step.sources[0])
        return before.then(step.estimator, value)

    def _beside(self, flows: Sequence[Flow], key: ir.Value) -> Flow | None:
        if all(flow.keys == flows[0].keys for flow in flows) and all(flow.places is not None for flow in flows):
            return flows[0].narrowed([place for flow in flows for place in flow.places or ()])
        wholes = [flow.whole for flow in flows]
        shared = _shared(wholes)
        # a pick that only some share is no step of all
        while shared and isinstance(wholes[0].keys[shared - 1], Pick):
            shared -= 1
        names = [] if any(not isinstance(step, Pick) for step in wholes[0].steps[:shared]) else self.names
        start = wholes[0].steps[:shared]
        widths = [_width_at(flow, shared, self.width) for flow in wholes]
        if widths[0] is None or any(flow.width is None for flow in wholes):
            return None
        parts = [_part(flow.steps[shared:], widths[0]) for flow in wholes]
        together = _together(parts, [flow.width or 0 for flow in wholes], widths[0], names)
        width = sum(flow.width or 0 for flow in wholes)
        return Flow((*start, together), (*wholes[0].keys[:shared], key), width)


def assembled(flow: Flow, table: Table, final: Any = None) -> Any:
    """The estimator that a flow is, before a predictor or alone."""
    steps, width, names = [], table.width, table.names
    for step in flow.whole.steps:
        if isinstance(step, Pick):
            step = _together([(step.columns, ())], [len(step.columns)], width or 0, names)
        elif names and not hasattr(step, "feature_names_in_"):
            _name_columns(step, names)
        steps.append(step)
        width, names = width_behind(step, width), []
    if final is not None:
        if names:
            _name_columns(final, names)
        steps.append(final)
    return steps[0] if len(steps) == 1 else make_pipeline(*steps)


def width_behind(estimator: Any, before: int | None) -> int | None:
    """How many columns a transformer gives."""
    try:
        return len(estimator.get_feature_names_out())
    except (AttributeError, ValueError):
        matrix = (getattr(estimator, "kw_args", None) or {}).get("b")
        return before if matrix is None else int(matrix.shape[1])


def _width(value: ir.Value) -> int | None:
    shape = list(value.shape) if value.shape is not None else []
    if len(shape) == 1:
        return 1
    return shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None


def _picks(node: ir.Node) -> list[int] | None:
    """The columns that an operator picks of its first input; None where it does anything else."""
    by_column = node.op_type == "ArrayFeatureExtractor" or (node.op_type == "Gather" and attribute(node, "axis") == 1)
    places = constant_of(node.inputs[1]) if by_column else None
    return None if places is None or (places < 0).any() else places.reshape(-1).tolist()


def _shared(flows: Sequence[Flow]) -> int:
    count = 0
    while all(len(flow.keys) > count and flow.keys[count] == flows[0].keys[count] for flow in flows):
        count += 1
    return count


def _width_at(flow: Flow, count: int, width: int | None) -> int | None:
    for step in flow.steps[:count]:
        width = len(step.columns) if isinstance(step, Pick) else width_behind(step, width)
    return width


def _part(steps: Sequence[Any], width: int) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The columns that a part takes, and its transformers."""
    if steps and isinstance(steps[0], Pick):
        return steps[0].columns, tuple(steps[1:])
    return tuple(range(width)), tuple(steps)


class _Blank(TransformerMixin, BaseEstimator):
    """Stands for a transformer while a ColumnTransformer learns which columns there are."""

    def __init__(self, width: int = 1) -> None:
        self.width = width

    def fit(self, X: Any, y: Any = None) -> _Blank:
        return self

    def transform(self, X: Any) -> np.ndarray:
        return np.zeros((len(X), self.width))


def _together(
    parts: Sequence[tuple[tuple[int, ...], tuple[Any, ...]]], widths: Sequence[int], width: int, names: Sequence[str]
) -> Any:
    """Parts of a table beside each other: a FeatureUnion where each takes all columns, else a ColumnTransformer."""
    estimators = [_one(steps) for _, steps in parts]
    titles = _titles(estimators)
    if not names and len(parts) > 1 and all(columns == tuple(range(width)) for columns, _ in parts):
        return FeatureUnion(list(zip(titles, estimators, strict=True)))
    columns = [[names[place] for place in places] if names else list(places) for places, _ in parts]
    blanks = [item if isinstance(item, str) else _Blank(size) for item, size in zip(estimators, widths, strict=True)]
    model = ColumnTransformer(list(zip(titles, blanks, columns, strict=True)))
    model.fit(_table(width, names))
    for estimator, held in zip(estimators, columns if names else (), strict=bool(names)):
        _name_columns(estimator, held)
    known = dict(zip(titles, estimators, strict=True))
    model.transformers = [(title, known[title], held) for title, _, held in model.transformers]
    model.transformers_ = [
        (title, item if isinstance(known.get(title, ""), str) else known[title], held)
        for title, item, held in model.transformers_
    ]
    return model


def _name_columns(estimator: Any, names: Sequence[Any]) -> None:
    """Names the columns that an estimator takes, as fitting it on a frame does."""
    if isinstance(estimator, Pipeline):
        _name_columns(estimator.steps[0][1], names)
    elif isinstance(estimator, FeatureUnion):
        for _, part in estimator.transformer_list:
            _name_columns(part, names)
    elif not isinstance(estimator, str):
        estimator.feature_names_in_ = np.array(names, object)


def _one(steps: Sequence[Any]) -> Any:
    shaped = [_picking(step) if isinstance(step, Pick) else step for step in steps]
    return "passthrough" if not shaped else shaped[0] if len(shaped) == 1 else make_pipeline(*shaped)


def _picking(pick: Pick) -> Any:
    return _together([(pick.columns, ())], [len(pick.columns)], max(pick.columns) + 1, ())


def _titles(estimators: Sequence[Any]) -> list[str]:
    titles = [item if isinstance(item, str) else type(item).__name__.lower() for item in estimators]
    return [
        title if titles.count(title) == 1 else f"{title}-{titles[: place + 1].count(title)}"
        for place, title in enumerate(titles)
    ]


def _table(width: int, names: Sequence[str]) -> Any:
    rows = np.zeros((2, width))
    if not names:
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=list(names))
