"""Encoders of categories and imputers of strings as skl2onnx writes them, a node a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import onnx_ir as ir
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from onnxport.opset_maps.from_onnx.sklearn.chains import Step, attributes_of, reads_step
from onnxport.opset_maps.from_onnx.sklearn.patterns import Constant, Rows, attribute, carried, constant_of, matched, op

T = TypeVar("T")

ROWS = Rows()
_INTEGERS = (ir.DataType.INT64, ir.DataType.INT32)


def _parts(value: ir.Value) -> list[ir.Value]:
    """The columns that stand beside each other in a value, or the one that it is."""
    node = value.producer()
    if node is not None and node.op_type == "Concat" and attribute(node, "axis") in (1, -1):
        return [carried(item) for item in node.inputs if item is not None]
    return [value]


def _all_columns(value: ir.Value, read: Callable[[ir.Value], T | None]) -> list[T] | None:
    """What `read` gives for each column of a value; None where it does not know one of them."""
    known = [column for part in _parts(value) if (column := read(part)) is not None]
    return known if len(known) == len(_parts(value)) else None


@reads_step
def one_hot_encoder(value: ir.Value) -> Step | None:
    """A column of zeros and ones for each category of each column, some of them left out."""
    known = _all_columns(value, _one_hot)
    if known is None:
        return None
    unknown = {ignores for _, _, _, ignores in known}
    if len(unknown) > 1:
        return None
    categories = [items for _, items, _, _ in known]
    dropped = [left_out for _, _, left_out, _ in known]
    model = OneHotEncoder(
        categories=categories,
        drop=_drop(categories, dropped),
        sparse_output=False,
        handle_unknown="ignore" if unknown == {True} else "error",
    )
    model.fit(_first_rows(categories))
    model.categories = "auto"
    return Step(model, tuple(source for source, _, _, _ in known))


def _one_hot(value: ir.Value) -> tuple[ir.Value, np.ndarray, int | None, bool] | None:
    """A column, its categories, which of them is left out, and whether others are ignored."""
    node, kept = value.producer(), None
    if node is not None and node.op_type == "Gather" and node.inputs[0] is not None:
        kept = constant_of(node.inputs[1])
        node = carried(node.inputs[0]).producer()
    if node is None or node.op_type != "OneHotEncoder" or node.inputs[0] is None:
        return None
    given = attributes_of(node)
    source, floats = _behind_integers(node.inputs[0])
    categories = _categories(given.get("cats_strings"), given.get("cats_int64s"), floats)
    if categories is None or len(categories) == 0:
        return None
    ignores = bool(given.get("zeros", 1))
    if kept is None:
        return source, categories, None, ignores
    left_out = np.setdiff1d(np.arange(len(categories)), kept)
    in_order = len(left_out) == 1 and np.array_equal(kept.reshape(-1), np.delete(np.arange(len(categories)), left_out))
    return (source, categories, int(left_out[0]), ignores) if in_order else None


def _behind_integers(value: ir.Value) -> tuple[ir.Value, bool]:
    """The column before it becomes one of integers, and whether it is of floating-point numbers."""
    value = carried(value)
    node = value.producer()
    if (
        node is not None
        and node.op_type == "Cast"
        and attribute(node, "to") in _INTEGERS
        and node.inputs[0] is not None
    ):
        return carried(node.inputs[0]), True
    return value, False


def _categories(texts: Any, numbers: Any, floats: bool) -> np.ndarray | None:
    """Categories in the type of their column; None where they do not rise, as those of scikit-learn do."""
    if texts is not None and len(texts):
        return np.array(texts, object)
    if numbers is None:
        return None
    values = np.asarray(numbers, np.float64 if floats else np.int64)
    return values if (np.diff(values) > 0).all() else None


def _drop(categories: Sequence[np.ndarray], dropped: Sequence[int | None]) -> Any:
    if all(place is None for place in dropped):
        return None
    if all(place == 0 for place in dropped):
        return "first"
    binary = [0 if len(items) == 2 else None for items in categories]
    if list(dropped) == binary:
        return "if_binary"
    if any(place is None for place in dropped):
        return None
    chosen = [items[place] for items, place in zip(categories, dropped, strict=True) if place is not None]
    return np.array(chosen, object)


def _first_rows(categories: Sequence[np.ndarray]) -> np.ndarray:
    """A row of each column's first category."""
    kinds = {items.dtype.kind for items in categories}
    row = [items[0] for items in categories]
    return np.array([row], object if len(kinds) > 1 or "O" in kinds else categories[0].dtype)


@reads_step
def ordinal_encoder(value: ir.Value) -> Step | None:
    """The number of each column's category."""
    known = _all_columns(value, _ordinal)
    if known is None:
        return None
    defaults = {unknown for _, _, unknown in known}
    if len(defaults) > 1:
        return None
    unknown = defaults.pop()
    categories = [items for _, items, _ in known]
    limited = unknown is not None and not any(0 <= unknown < len(items) for items in categories)
    model = OrdinalEncoder(categories=categories)
    if limited:
        model.set_params(handle_unknown="use_encoded_value", unknown_value=unknown)
    model.fit(_first_rows(categories))
    model.categories = "auto"
    return Step(model, tuple(source for source, _, _ in known))


def _ordinal(value: ir.Value) -> tuple[ir.Value, np.ndarray, int | None] | None:
    node = value.producer()
    if node is None or node.op_type != "LabelEncoder" or node.inputs[0] is None:
        return None
    given = attributes_of(node)
    numbers = given.get("values_int64s", given.get("values_floats"))
    keys = given.get("keys_int64s", given.get("keys_floats"))
    categories = _categories(given.get("keys_strings"), keys, "keys_floats" in given)
    if categories is None or numbers is None or not np.array_equal(numbers, np.arange(len(categories))):
        return None
    default = given.get("default_int64", given.get("default_float"))
    return carried(node.inputs[0]), categories, None if default is None else int(default)


@reads_step
def string_imputer(value: ir.Value) -> Step | None:
    """A text in place of one that stands for a missing one, a column by itself."""
    missing = op("Cast", op("LabelEncoder", ROWS, name="missing"))
    shape = op("Where", missing, Constant("filled"), ROWS)
    filled = op("Where", missing, op("LabelEncoder", Constant("number"), name="filled"), ROWS)
    columns = [matched(shape, part) or matched(filled, part) for part in _parts(value)]
    known = [column for column in columns if column is not None]
    if len(known) < len(columns) or not known:
        return None
    marks = {_mark(item["missing"]) for item in known}
    texts = [_text(item["filled"]) for item in known]
    if len(marks) > 1 or None in marks or None in texts:
        return None
    model = SimpleImputer(missing_values=marks.pop(), strategy="most_frequent")
    model.statistics_ = np.array(texts, object)
    model.n_features_in_, model.indicator_ = len(texts), None
    model._fit_dtype = model._fill_dtype = np.dtype(object)
    return Step(model, tuple(item["rows"] for item in known))


def _mark(value: ir.Value) -> str | None:
    """The one text that an encoder of missing texts knows."""
    node = value.producer()
    keys = attributes_of(node).get("keys_strings") if node is not None else None
    return keys[0] if keys is not None and len(keys) == 1 else None


def _text(filled: Any) -> str | None:
    if isinstance(filled, np.ndarray):
        item = filled.reshape(-1)[0] if filled.size == 1 else None
        return item.decode() if isinstance(item, bytes) else item
    values = attributes_of(filled.producer()).get("values_strings")
    return values[0] if values is not None and len(values) == 1 else None
