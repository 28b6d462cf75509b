"""category_encoders: what a fitted encoder gives for each category, tabulated, and looked up by the row's category.

Without a target an encoder's `transform` depends on nothing but a cell's own category, so that a table of its own results holds
all of it: a row for each fitted category, for each spelling of a missing value, and for an unknown one. ONNX has no missing
strings; None, NaN and NA among strings are the words that Python prints for them. Where the encoder would raise an error
(handle_unknown="error", handle_missing="error") the row is NaN: an ONNX graph can't raise.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import Case, built
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.functions import take
from onnxport.opset_maps.to_onnx.sklearn.entries import lower
from onnxport.opset_maps.to_onnx.sklearn.estimators.derived import lower_inner
from onnxport.opset_maps.to_onnx.sklearn.tables.categories import codes, text_of
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table, columns, count, matrix, select

Label = Hashable
Cells = Mapping[Label, Sequence[Any]]
Names = dict[Label, list[str]]


@dataclass(frozen=True)
class Probe:
    """A fitted encoder that is asked what it gives for cells.

    Attributes:
        model: the encoder.
        known: the categories of each column that it encodes.
        text: the columns that hold text.
        names: for each column, in the encoder's order, the names of the columns that stand in its place.
    """

    model: Any
    known: Cells
    text: frozenset[Label]
    names: Names

    def rows(self, cells: Cells, policy: str = "") -> dict[Label, np.ndarray | None]:
        """For each column the rows [cells, W] that its cells become, or None where the encoder raises an error.

        Args:
            cells: what stands in the columns; some category stands in the others.
            policy: the encoder's attribute that decides what becomes of such cells.
        """
        if not cells or getattr(self.model, policy, None) == "error":
            return dict.fromkeys(cells)
        try:
            return self._said(cells)
        except (ValueError, TypeError, KeyError):
            if len(cells) == 1:
                return dict.fromkeys(cells)
        return {label: self.rows({label: items})[label] for label, items in cells.items()}

    def _said(self, cells: Cells) -> dict[Label, np.ndarray | None]:
        import pandas as pd

        # text stands beside a missing value, as it does in rows: pandas takes a column of None alone for another type
        length = 1 + max(len(items) for items in cells.values())
        frame = {}
        for label in self.names:
            items = cells.get(label, ())
            others = itertools.cycle(self.known.get(label, [0.0]) or [np.nan])
            filled = [*items, *itertools.islice(others, length - len(items))]
            frame[label] = pd.Series(filled, dtype=object if label in self.text else None)
        asked = copy.copy(self.model)
        asked._sklearn_output_config = {"transform": "default"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = asked.transform(pd.DataFrame(frame), override_return_df=True)
        if list(map(str, result.columns)) != [name for names in self.names.values() for name in names]:
            given = ", ".join(map(str, result.columns))
            raise UnsupportedOperator(
                f"{type(self.model).__name__} gives the columns {given}, not those of its mapping"
            )
        parts: dict[Label, np.ndarray | None] = {}
        start = 0
        for label, names in self.names.items():
            part = result.iloc[: len(cells.get(label, ())), start : start + len(names)]
            start += len(names)
            if label in cells:
                whole = all(kind.kind in "iub" for kind in part.dtypes)
                parts[label] = part.to_numpy(np.int64) if whole else part.to_numpy(np.float64, na_value=np.nan)
        return parts


def _is_missing(item: object) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_scalar(item) and pd.isna(item))


def _categories(model: BaseEstimator) -> dict[Label, list[Any]]:
    """The categories that an encoder was fitted on, for each column that it encodes, without missing ones."""
    source = model.encoder_list[0] if hasattr(model, "encoder_list") else model
    encoder = getattr(source, "ordinal_encoder", None) or source
    if isinstance(encoder.mapping, dict):
        categories = {label: list(table.index) for label, table in encoder.mapping.items()}
    else:
        categories = {item["col"]: list(item["mapping"].index) for item in encoder.mapping}
    for lumped in (getattr(source, "min_group_lumping_", {}), getattr(source, "_min_group_categories", {})):
        for label, names in lumped.items():
            categories[label] += names
    return {
        label: [item for item in dict.fromkeys(items) if not _is_missing(item)] for label, items in categories.items()
    }


def _fitting(model: BaseEstimator, label: Label, items: Sequence[Any], column: ir.Value) -> list[Any]:
    """The categories that a column of this element type can hold.

    Raises:
        UnsupportedOperator: the categories are of another type, or of several.
    """
    words = [item for item in items if isinstance(item, str)]
    others = [item for item in items if not isinstance(item, str)]
    where = f"{type(model).__name__}: the column {str(label)!r}"
    if column.dtype == ir.DataType.STRING:
        if others:
            way_out = " too: make them all words before the fit (astype(str))" if words else ""
            raise UnsupportedOperator(
                f"{where} was fitted on {type(others[0]).__name__} values, the input holds strings{way_out}"
            )
        return words
    lumps = {**getattr(model, "min_group_lumping_", {}), **getattr(model, "_min_group_categories", {})}
    if set(words) - set(lumps.get(label, {}).values()):
        raise UnsupportedOperator(f"{where} was fitted on strings, the input holds numbers")
    strange = [item for item in others if not isinstance(item, (bool, int, float, np.bool_, np.number))]
    if strange:
        raise UnsupportedOperator(f"{where} was fitted on values of type {type(strange[0]).__name__}")
    if column.dtype == ir.DataType.BOOL:
        return [item for item in (False, True) if item in others]
    return [int(item) if isinstance(item, (bool, np.bool_)) else np.asarray(item).item() for item in others]


def _unknown(items: Sequence[Any], text: bool) -> Any:
    """A cell that is none of the categories; of two booleans there is no third."""
    taken = set(items)
    if text:
        return next("?" * length for length in itertools.count(1) if "?" * length not in taken)
    if items and isinstance(items[0], bool):
        return not items[0]
    number = next(number for number in itertools.count() if number not in taken)
    return float(number) if any(isinstance(item, float) for item in items) else number


# What an encoder makes of a column: the cells that have a row, categories and spellings of missing values, text or numbers; and
# their rows, at the end that of any other cell, int64 or float64 [cells + 1, W].
Block = tuple[list[Any], np.ndarray]


def _lookup(op: OpBuilder, block: Block, column: ir.Value) -> ir.Value:
    """The rows [N, W] of the cells of a column [N, 1]."""
    of_integers = Array(op, column).dtype.kind in "iub"
    kept = [place for place, key in enumerate(block[0]) if key == key or not of_integers]  # integers have no NaN
    keys = np.asarray([block[0][place] for place in kept], None if kept else np.int64)
    rows = block[1][[*kept, -1]]
    size = rows.shape[1]
    if size > 1 and rows.dtype.kind == "i" and np.isin(rows, (0, 1)).all():
        # a number for each category instead of a row: the rows of K categories are K x K numbers
        ones = rows.sum(axis=1)
        if ones.max() <= 1:
            place = np.where(ones == 1, np.argmax(rows, axis=1), -1)
            code = codes(op, column, keys, place[:-1], int(place[-1]))
            return (code == np.arange(size)[None]).astype(np.int64).value
        if (np.diff(rows, axis=1) <= 0).all():
            code = codes(op, column, keys, ones[:-1], int(ones[-1]))
            return (code > np.arange(size)[None]).astype(np.int64).value
    code = codes(op, column, keys, unknown=len(keys))
    return take(rows, code[:, 0], axis=0).value


def _blocks(probe: Probe) -> dict[Label, Block]:
    """The table of each encoded column."""
    import pandas as pd

    known = probe.rows({label: items for label, items in probe.known.items() if items})
    other = probe.rows(
        {label: [_unknown(items, label in probe.text)] for label, items in probe.known.items()}, "handle_unknown"
    )
    missing = []
    for item in (np.nan, None, pd.NA):
        cells = {label: [item] for label in probe.known if item is np.nan or label in probe.text}
        missing.append((item, probe.rows(cells, "handle_missing")))
    entries = {}
    for label, items in probe.known.items():
        size = len(probe.names[label])
        where = f"{type(probe.model).__name__}: the column {str(label)!r}"
        table = known.get(label, np.zeros((0, size), np.int64))
        if table is None:
            raise UnsupportedOperator(f"{where} has categories that transform itself raises an error for")
        keys, rows = list(items), list(table)
        for item, all_rows in missing:
            if label not in all_rows:
                continue
            key, row = text_of(item) if label in probe.text else item, _row(all_rows[label], size)
            if key not in keys:
                keys.append(key)
                rows.append(row)
            elif not np.array_equal(rows[keys.index(key)], row, equal_nan=True):
                raise UnsupportedOperator(f"{where} has the category {key!r}, which is how a missing value is spelled")
        entries[label] = keys, np.stack([*rows, _row(other[label], size)])
    return entries


def _row(rows: np.ndarray | None, size: int) -> np.ndarray:
    return np.full(size, np.nan) if rows is None else rows[0]


def _labels(model: BaseEstimator, x: Table) -> list[Label]:
    """The fitted column, or the name, of each column of a table: by name where it has the fitted names, else by position."""
    fitted = {str(label): label for label in model.feature_names_in_}
    if isinstance(x, Frame) and set(x.widths) == {1} and set(fitted) <= set(x.names):
        return [fitted.get(name, name) for name in x.names]
    if count(x) != len(fitted):
        raise UnsupportedOperator(
            f"{type(model).__name__} was fitted on the columns {', '.join(fitted)}, the input has {count(x)} columns"
        )
    return list(fitted.values())


def _encoded(op: OpBuilder, model: BaseEstimator, x: Table, blocks: Names) -> Table:
    """The table with a block in the place of each encoded column, the others as they are."""
    if getattr(model, "composite_members_", None):
        raise UnsupportedOperator(f"{type(model).__name__}: composite_cols={model.composite_cols!r} joins strings")
    labels = _labels(model, x)
    dropped = set(map(str, getattr(model, "invariant_cols", ()))) if model.drop_invariant else set()
    names = {
        label: [name for name in blocks.get(label, [str(label)]) if name not in dropped]
        for label in dict.fromkeys([*model.feature_names_in_, *labels])
    }
    cells = {label: columns(op, x, [labels.index(label)]) for label in blocks}
    known = {label: _fitting(model, label, items, cells[label]) for label, items in _categories(model).items()}
    text = frozenset(label for label, column in cells.items() if column.dtype == ir.DataType.STRING)
    result = _blocks(Probe(model, known, text, {label: names[label] for label in model.feature_names_in_}))
    if not isinstance(x, Frame):
        _require_no_categorical(model, result, known)
    kept = [place for place, label in enumerate(labels) if names[label]]
    parts: list[tuple[list[str], ir.Value]] = []
    for passed, run in itertools.groupby(kept, key=lambda place: labels[place] not in result):
        places = list(run)
        if passed and not isinstance(x, Frame):
            parts.append(([names[labels[place]][0] for place in places], columns(op, x, places)))
            continue
        for place in places:
            label = labels[place]
            value = columns(op, x, [place]) if passed else _lookup(op, result[label], cells[label])
            parts.append((names[label], value))
    return _side_by_side(op, parts)


def _require_no_categorical(model: BaseEstimator, blocks: Mapping[Label, Block], known: Cells) -> None:
    """Of an array a column that was fitted as pandas' category makes a missing value of each unknown one."""
    for label, dtype in zip(model.feature_names_in_, getattr(model, "feature_dtypes_in_", ()), strict=False):
        if label in blocks and dtype.name == "category":
            rows = blocks[label][1]
            if not np.array_equal(rows[-1], rows[len(known[label])], equal_nan=True):
                raise UnsupportedOperator(
                    f"{type(model).__name__}: the column {str(label)!r} was fitted with pandas' category type: pass a "
                    "DataFrame as inputs="
                )


def _side_by_side(op: OpBuilder, parts: Sequence[tuple[list[str], ir.Value]]) -> Table:
    """Named matrices as one; as a frame of their columns where strings stand beside numbers."""
    if not parts:
        raise UnsupportedOperator("no column is left")
    whole = Frame(tuple(names[0] for names, _ in parts), tuple(value for _, value in parts))
    if len({value.dtype == ir.DataType.STRING for _, value in parts}) == 1:
        return matrix(op, whole)
    return Frame(tuple(name for names, _ in parts for name in names), select(op, whole, range(sum(whole.widths))).parts)


def _one_each(model: BaseEstimator) -> Names:
    """A column for each."""
    return {label: [str(label)] for label in _categories(model)}


def _fitted(name: str, *, classes: int = 0, numbers: bool = False, **options: object) -> Any:
    """An encoder fitted on two columns, of words or numbers, and a target of so many classes, or any numbers for 0."""
    rng = np.random.default_rng(0)
    words = np.stack([rng.choice(["red", "green", "blue", "grey"], 60), rng.choice(["s", "m", "l"], 60)], axis=1)
    table: np.ndarray = rng.integers(0, 5, (60, 2)).astype(np.float64) if numbers else words.astype(object)
    y = rng.integers(0, classes, 60) if classes else rng.normal(size=60)
    chosen = {"cols": [0]} if numbers else {}
    return getattr(import_module("category_encoders"), name)(**{**chosen, **options}).fit(table, y)


_WORDS = np.array([["red", "s"], ["green", "m"], ["black", "l"], ["blue", "xs"], [np.nan, "s"], ["grey", None]], object)
_NUMBERS = np.array([[1.0, 2.5], [4, np.nan], [9, 1], [np.nan, 0], [0, 7]])


def _names(encoders: str) -> str:
    return " ".join(f"category_encoders.{name}" for name in encoders.split()) + ".transform"


def _cases(*variants: tuple[str, dict[str, Any]]) -> list[Case]:
    parts = []
    for name, options in variants:
        rows = _NUMBERS if options.get("numbers") else _WORDS
        parts.append(built(partial(_fitted, name, **options), rows, name=f"{name} {options}"))
    return parts


@lower(
    _names(
        "CatBoostEncoder CountEncoder GLMMEncoder JamesSteinEncoder LeaveOneOutEncoder MEstimateEncoder OrdinalEncoder "
        "QuantileEncoder TargetEncoder WOEEncoder"
    ),
    _cases(
        ("OrdinalEncoder", {}), ("OrdinalEncoder", {"numbers": True, "handle_missing": "return_nan"}),
        ("CountEncoder", {"normalize": True, "min_group_size": 12}), ("TargetEncoder", {}),
        ("TargetEncoder", {"numbers": True, "handle_unknown": "return_nan"}), ("LeaveOneOutEncoder", {"classes": 2}),
        ("CatBoostEncoder", {"numbers": True}), ("MEstimateEncoder", {"min_group_size": 0.2}),
        ("JamesSteinEncoder", {}), ("WOEEncoder", {"classes": 2}), ("QuantileEncoder", {"handle_missing": "return_nan"}),
        ("GLMMEncoder", {"classes": 2}),
    ),
)  # fmt: skip
def column_by_column(op: OpBuilder, model: BaseEstimator, x: Table) -> Table:
    """A number for each category, in the place of each encoded column."""
    if type(model).__name__ == "OrdinalEncoder" and callable(model.handle_unknown):
        raise UnsupportedOperator("OrdinalEncoder: handle_unknown is a function of the unknown value")
    return _encoded(op, model, x, _one_each(model))


@lower(
    _names(
        "BackwardDifferenceEncoder BaseNEncoder BinaryEncoder CountTargetEncoder GrayEncoder HelmertEncoder OneHotEncoder "
        "PolynomialEncoder RankHotEncoder SumEncoder"
    ),
    _cases(
        ("OneHotEncoder", {}), ("OneHotEncoder", {"handle_unknown": "indicator", "handle_missing": "indicator"}),
        ("OneHotEncoder", {"numbers": True, "handle_missing": "return_nan"}), ("BinaryEncoder", {}),
        ("BaseNEncoder", {"base": 3, "handle_unknown": "return_nan"}), ("GrayEncoder", {}), ("RankHotEncoder", {}),
        ("HelmertEncoder", {"handle_unknown": "indicator"}), ("SumEncoder", {"drop_invariant": True}),
        ("PolynomialEncoder", {"numbers": True}), ("BackwardDifferenceEncoder", {"handle_missing": "return_nan"}),
        ("CountTargetEncoder", {"classes": 3}), ("CountTargetEncoder", {"classes": 2}),
    ),
)  # fmt: skip
def column_by_block(op: OpBuilder, model: BaseEstimator, x: Table) -> Table:
    """Several numbers for each category, side by side in the place of each encoded column."""
    mapping = model.mapping
    tables = mapping if isinstance(mapping, dict) else {item["col"]: item["mapping"] for item in mapping}
    several = {label: list(map(str, table.columns)) for label, table in tables.items() if hasattr(table, "columns")}
    return _encoded(op, model, x, {**_one_each(model), **several})  # of a column without a table its ordinal number


def _nested() -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    wrapper = import_module("category_encoders.wrapper").NestedCVWrapper(_fitted("TargetEncoder", numbers=True), cv=3)
    rng = np.random.default_rng(0)
    return make_pipeline(wrapper, StandardScaler()).fit(rng.integers(0, 5, (60, 2)), rng.integers(0, 2, 60))


lower_inner("feature_encoder", "category_encoders.NestedCVWrapper", ["transform"], [built(_nested, _NUMBERS)])


@lower(
    "category_encoders.SummaryEncoder.transform",
    _cases(("SummaryEncoder", {}), ("SummaryEncoder", {"numbers": True, "quantiles": (0.1, 0.5, 0.9)})),
)
def quantiles(op: OpBuilder, model: BaseEstimator, x: Table) -> Table:
    """The quantiles of the target for each category, the columns in the order of the fit."""
    labels = _labels(model, x)
    places = [labels.index(label) for label in model.feature_names_in_]
    chosen: Table = select(op, x, places) if isinstance(x, Frame) else columns(op, x, places)
    blocks: Names = {label: [] for label in _categories(model)}
    for label, part in itertools.product(blocks, model.encoder_list):
        if not (part.drop_invariant and label in part.invariant_cols):
            blocks[label].append(model._get_col_name(label, part.quantile))
    return _encoded(op, model, chosen, blocks)
