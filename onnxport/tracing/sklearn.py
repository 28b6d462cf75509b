"""scikit-learn: reading estimator files, and what an estimator is given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.utils import get_tags

from onnxport.errors import InvalidInputError, InvalidModelError, UntrustedFileError

_TRUSTED = ("sklearn.", "numpy.", "scipy.", "builtins.", "collections.")


def load(path: str | os.PathLike[str], *, allow_pickle: bool = False) -> Any:
    """The estimator in a ``.skops`` file, or in a pickle (``.pkl``, ``.pickle``, ``.joblib``) where that is allowed.

    Raises:
        UntrustedFileError: a pickle without `allow_pickle`, or a skops file with types outside scikit-learn, NumPy and SciPy.
        InvalidModelError: the file is missing or corrupt.
    """
    place = Path(path)
    if not place.is_file():
        raise InvalidModelError(f"no file {str(path)!r}")
    if place.suffix.lower() == ".skops":
        return _load_skops(place)
    if not allow_pickle:
        raise UntrustedFileError(
            f"{str(path)!r} is a pickle, and loading one runs code from it; pass allow_pickle=True (--allow-pickle) "
            "if you trust its origin, or save the estimator with skops.io.dump"
        )
    import joblib

    try:
        return joblib.load(place)
    except Exception as error:  # unpickling raises whatever the file makes it raise
        raise InvalidModelError(f"{str(path)!r} is truncated or no pickled estimator: {error}") from error


def _load_skops(place: Path) -> Any:
    import skops.io

    try:
        unknown = skops.io.get_untrusted_types(file=place)
        foreign = [name for name in unknown if not name.startswith(_TRUSTED)]
        if foreign:
            raise UntrustedFileError(
                f"{str(place)!r} holds types from outside scikit-learn: {', '.join(sorted(foreign))}"
            )
        return skops.io.load(place, trusted=unknown)
    except UntrustedFileError:
        raise
    except Exception as error:  # zip and schema errors of a file that is no skops archive
        raise InvalidModelError(f"{str(place)!r} is truncated or no skops file: {error}") from error


@dataclass(frozen=True)
class Column:
    """One graph input.

    Attributes:
        name: its name.
        dtype: its element type.
        width: its number of columns; None for a vector (documents, labels).
    """

    name: str
    dtype: ir.DataType
    width: int | None


def columns_of(inputs: Any, estimator: Any) -> tuple[Column, ...]:
    """The graph inputs that example inputs ask for: one an array, one a DataFrame column, one a list of strings.

    Without an example: one float32 matrix ``X`` of as many columns as the estimator was fitted on.

    Raises:
        InvalidInputError: nothing says how many columns there are.
    """
    if isinstance(inputs, tuple) and len(inputs) == 1:
        inputs = inputs[0]
    if inputs is None:
        width = getattr(estimator, "n_features_in_", None)
        if width is None:
            raise InvalidInputError(
                "the estimator does not say how many features it takes: pass inputs=, some rows of data"
            )
        return (Column("X", ir.DataType.FLOAT, int(width)),)
    if isinstance(inputs, Mapping):
        return tuple(Column(str(name), _dtype(np.asarray(values)), 1) for name, values in inputs.items())
    if hasattr(inputs, "columns") and hasattr(inputs, "to_numpy"):
        return tuple(Column(str(name), _dtype(inputs[name].to_numpy()), 1) for name in inputs.columns)
    if hasattr(inputs, "toarray"):
        return (Column("X", _dtype(np.asarray(inputs.data)), int(inputs.shape[1])),)
    array = np.asarray(inputs.to_numpy() if hasattr(inputs, "to_numpy") else inputs)
    tags = get_tags(estimator).input_tags
    if array.ndim == 1 and (array.dtype.kind in "OUS" or tags.one_d_array or not tags.two_d_array):
        return (Column("X", _dtype(array), None),)
    if array.ndim != 2:
        raise InvalidInputError(f"a table of rows and columns is needed, the inputs have {array.ndim} dimensions")
    return (Column("X", _dtype(array), array.shape[1]),)


def _dtype(array: np.ndarray) -> ir.DataType:
    if array.dtype.kind in "OUS":
        flat: Sequence[Any] = [item for item in array.ravel() if item is not None and item == item]
        if flat and all(isinstance(item, (bool, np.bool_)) for item in flat):
            return ir.DataType.BOOL
        if flat and not any(isinstance(item, str) for item in flat):
            return ir.DataType.DOUBLE
        return ir.DataType.STRING
    return ir.DataType.from_numpy(array.dtype)
