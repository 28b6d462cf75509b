"""ONNX to scikit-learn: an estimator that runs the model."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import joblib
import onnx_ir as ir
from sklearn.base import BaseEstimator

from onnxport.converters.from_onnx.sklearn_estimators import KINDS, OnnxEstimator
from onnxport.converters.from_onnx.sklearn_roles import roles_of
from onnxport.errors import InvalidInputError, UnsupportedOperator
from onnxport.graph.atomic import atomic_file, atomic_path
from onnxport.model import OnnxModel


def build(model: ir.Model) -> BaseEstimator:
    """The model as an estimator: a classifier, regressor or transformer, as its outputs tell.

    Raises:
        UnsupportedOperator: a graph without inputs or outputs.
    """
    return wrapped(model)


def wrapped(model: ir.Model) -> OnnxEstimator:
    """An estimator that runs the model, of the class that its outputs tell.

    Raises:
        UnsupportedOperator: a graph without inputs or outputs.
    """
    result = OnnxModel(model)
    for what, names in (("inputs", result.input_names), ("outputs", result.output_names)):
        if not names:
            raise UnsupportedOperator(f"a graph without {what} makes no estimator")
    return KINDS[roles_of(model).kind](result)


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Writes an estimator: ``.joblib``, a pickle (``.pkl``, ``.pickle``), or ``.skops`` where it holds no ONNX model.

    Raises:
        InvalidInputError: the suffix is none of these, or skops can't write it.
        SavingError: it can't be written; what stood there is untouched.
    """
    match Path(path).suffix.lower():
        case ".joblib":
            with atomic_file(path) as file:
                joblib.dump(estimator, file)
        case ".pkl" | ".pickle":
            with atomic_file(path) as file:
                pickle.dump(estimator, file)
        case ".skops":
            if isinstance(estimator, OnnxEstimator):
                raise InvalidInputError(
                    "a .skops file holds scikit-learn's own estimators: write one that runs an ONNX model as .joblib or .pkl"
                )
            import skops.io

            with atomic_path(path) as place:
                skops.io.dump(estimator, place)
        case suffix:
            raise InvalidInputError(f"an estimator is saved as .joblib, .pkl, .pickle or .skops, not {suffix!r}")
