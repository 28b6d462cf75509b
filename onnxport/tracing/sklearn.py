"""scikit-learn: reading estimator files, and what an estimator is given."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
from sklearn.utils import get_tags

from onnxport.errors import InvalidInputError, InvalidModelError, UntrustedFileError, first_line
from onnxport.graph import rows
from onnxport.graph.constants import element_type
from onnxport.tracing import sklearn_boosters
from onnxport.tracing.trust.faults import existing_file, hostile, reading
from onnxport.tracing.trust.sklearn_schema import check_skops
from onnxport.tracing.trust.sklearn_sound import fault_of

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def load(path: str | os.PathLike[str], *, allow_pickle: bool = False, allow_code: bool = False) -> Any:
    """The estimator in a ``.skops`` file, in one that XGBoost or LightGBM wrote, or in a pickle where that is allowed.

    Pickles are ``.pkl``, ``.pickle`` and ``.joblib``. With `allow_code` a skops file may name any type and function that skops
    can load.

    Raises:
        UntrustedFileError: a pickle without `allow_pickle`, or a skops file with types from outside scikit-learn, its
            neighbours, NumPy and SciPy, or with functions that do more than compute.
        InvalidModelError: the file is missing or corrupt, or its arrays do not fit together.
    """
    place = existing_file(path)
    if place.suffix.lower() == ".skops":
        return _load_skops(place, allow_code)
    if place.suffix.lower() in sklearn_boosters.SUFFIXES:
        return sklearn_boosters.load(place)
    if not allow_pickle:
        raise UntrustedFileError(
            f"{str(path)!r} is a pickle, and loading one runs code from it; pass allow_pickle=True (--allow-pickle) "
            "if you trust its origin, or save the estimator with skops.io.dump"
        )
    import joblib

    title = repr(str(path))
    with reading(f"{title} is truncated or no pickled estimator"):
        try:
            loaded = joblib.load(place)
        except (ModuleNotFoundError, AttributeError) as error:  # what pickles name a class by
            raise InvalidModelError(
                f"{title} needs what is not there: {first_line(error)}; install it, or convert in the program that has it"
            ) from error
        except EOFError:
            raise InvalidModelError(f"{title} is truncated or no pickled estimator: it ends too early") from None
    if type(loaded).__module__ in ("builtins", "numpy", "pandas"):
        raise InvalidModelError(
            f"{title} holds a {type(loaded).__qualname__}, not an estimator: save the estimator alone"
        )
    return loaded


def _load_skops(place: Path, allow_code: bool) -> Any:
    import skops.io

    with reading(f"{str(place)!r} is truncated or no skops file"):
        if not allow_code:
            check_skops(place)
        estimator = skops.io.load(place, trusted=skops.io.get_untrusted_types(file=place))
        fault = None if allow_code else fault_of(estimator)
    if fault:
        raise hostile(repr(str(place)), fault)
    if not hasattr(estimator, "get_params"):
        raise InvalidModelError(f"{str(place)!r} holds a {type(estimator).__qualname__}, not an estimator")
    return estimator


@dataclass(frozen=True)
class Column:
    """One graph input."""

    name: str
    dtype: ir.DataType
    # Its dimensions beyond the batch: none of a vector (documents, labels), named ones where they vary.
    dims: tuple[int | str, ...]


def columns_of(inputs: Any, estimator: Any) -> tuple[Column, ...]:
    """The graph inputs that example inputs ask for: one an array, one a column or feature by name, one a list of strings.

    Columns of dates, durations, lists or dictionaries have no element type in ONNX; they are left out, and only what uses
    them is refused.

    Without an example: one float32 matrix ``X`` of as many columns as the estimator was fitted on.

    Raises:
        InvalidInputError: the number of columns is not known.
    """
    if isinstance(inputs, tuple) and len(inputs) == 1:
        inputs = inputs[0]
    if isinstance(inputs, tuple) and all(hasattr(item, "shape") for item in inputs):
        raise InvalidInputError(
            f"inputs= holds {len(inputs)} arrays: an estimator takes one table, inputs=X, and its labels no longer"
        )
    if inputs is None:
        width = getattr(estimator, "n_features_in_", None)
        if width is None:
            raise InvalidInputError(
                "the estimator does not say how many features it takes: pass inputs=, some rows of data"
            )
        return (Column("X", ir.DataType.FLOAT, (int(width),)),)
    named = rows.columns_of(inputs)
    if rows.is_frame(inputs) and hasattr(_first_step(estimator), "build_analyzer"):
        raise InvalidInputError(
            "of a DataFrame scikit-learn takes the names of the columns for documents: give the documents alone, as "
            f"frame[{str(next(iter(inputs.columns), 'text'))!r}], or a file of them (--inputs documents.txt), one a line"
        )
    if named is not None:
        typed = {name: values for name, values in named.items() if not rows.has_no_type(values)}
        return tuple(Column(name, element_type(values), values.shape[1:]) for name, values in typed.items())
    if hasattr(inputs, "toarray"):
        return (Column("X", element_type(np.asarray(inputs.data)), (int(inputs.shape[1]),)),)
    if rows.is_lists(inputs) and len({len(row) for row in inputs}) > 1:
        return (Column("X", ir.DataType.STRING, ("items",)),)
    array = _plain(inputs)
    tags = get_tags(estimator).input_tags
    if array.ndim == 1 and (array.dtype.kind == "O" or tags.one_d_array or not tags.two_d_array):
        return (Column("X", element_type(array), ()),)
    if array.ndim != 2 and not (array.ndim > 2 and (tags.three_d_array or _takes_anything(estimator))):
        if array.ndim == 0 and array.dtype.kind in "OUS":
            raise InvalidInputError(f"inputs={inputs!r} is one text: give a list of documents, inputs=[text]")
        one = "; one row is X.reshape(1, -1)" if array.ndim == 1 else ""
        one = "; a column of a table is series.to_frame()" if hasattr(inputs, "to_frame") else one
        raise InvalidInputError(
            f"a table of rows and columns is needed, the inputs have the shape {list(array.shape)}{one}"
        )
    return (Column("X", element_type(array), array.shape[1:]),)


def _plain(inputs: object) -> np.ndarray:
    try:
        return rows.plain(inputs)
    except ValueError as error:
        raise InvalidInputError(
            "the rows are lists of different lengths: of such rows only lists of strings have a form in the graph; otherwise "
            f"give a table, or dictionaries ({error})"
        ) from error


def _first_step(estimator: BaseEstimator) -> Any:
    """What of a pipeline gets the rows."""
    while getattr(estimator, "steps", None):
        estimator = estimator.steps[0][1]
    return estimator


def _takes_anything(estimator: BaseEstimator) -> bool:
    """Whether the first thing that gets the rows does not check them, as a FunctionTransformer."""
    estimator = _first_step(estimator)
    return not isinstance(estimator, str) and bool(get_tags(estimator).no_validation)
