"""ONNX to scikit-learn: an estimator that runs the model."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from onnxport.converters.from_onnx.sklearn_domains import agree, known_rows
from onnxport.converters.from_onnx.sklearn_estimators import KINDS, OnnxEstimator
from onnxport.converters.from_onnx.sklearn_roles import RUN, roles_of
from onnxport.converters.from_onnx.sklearn_rows import is_matrix, width_of
from onnxport.errors import InvalidInputError, UnsupportedOperator, first_line
from onnxport.graph.atomic import atomic_file, atomic_path
from onnxport.graph.fitted import ESTIMATOR
from onnxport.graph.outputs import PRODUCED, read, written
from onnxport.model import OnnxModel
from onnxport.opset_maps.from_onnx.sklearn import (  # noqa: F401  (they register themselves)
    encoders,
    ml_machines,
    ml_operators,
    ml_trees,
    networks,
    predictors,
    transformers,
)
from onnxport.opset_maps.from_onnx.sklearn.recognition import recognised
from onnxport.opset_maps.from_onnx.sklearn.record import recorded
from onnxport.tracing.trust.sklearn_sound import fault_of
from onnxport.validation.input_sets.base import specs_of
from onnxport.validation.parties import Party, Tolerance
from onnxport.validation.proof import compare
from onnxport.validation.report import Report
from onnxport.validation.runners.base import Binding
from onnxport.validation.runners.sklearn import bind


def build(model: ir.Model) -> BaseEstimator:
    """The model as the estimator that it was written from, where the file records that; else as one that runs the model.

    What is rebuilt is run against the graph, on drawn rows, before it is given.

    Raises:
        UnsupportedOperator: a graph without inputs or outputs.
    """
    runs = wrapped(model)
    outputs = runs.graph_outputs
    if not read(model.metadata_props) and all(item.method != RUN for item in outputs):
        # by which a proof asks what is rebuilt
        model.metadata_props[PRODUCED] = written(outputs, [item.name for item in outputs])
    try:
        rebuilt, reason = _rebuilt(model)
    except UnsupportedOperator as error:
        rebuilt, reason = None, str(error)
    if rebuilt is not None:
        return rebuilt
    runs.notes = (reason,) if reason else ()
    return runs


def _rebuilt(model: ir.Model) -> tuple[Any, str]:
    """The estimator that the file records, else that its operators tell of; None and why where there is none."""
    estimator = recorded(model)
    if estimator is not None:
        fault = _fault(estimator, model)
        return (None, fault) if fault else (estimator, "")
    return (None, "") if ESTIMATOR in model.metadata_props else _recognised(model)


def _recognised(model: ir.Model) -> tuple[Any, str]:
    """Of the estimators that a graph may be the first one that gives its results; None and what the first one lacks else."""
    guessed, reason = model.metadata_props.get(PRODUCED), ""
    try:
        for estimator, outputs in recognised(model):
            model.metadata_props[PRODUCED] = written(outputs, [item.name for item in outputs])
            fault = _fault(estimator, model)
            if not fault:
                return estimator, ""
            reason = reason or fault
    except Exception as error:  # attributes of a damaged file
        reason = f"the operators' attributes do not fit together: {error!r}"
    model.metadata_props.pop(PRODUCED, None)
    if guessed is not None:
        model.metadata_props[PRODUCED] = guessed
    return None, reason


def _fault(estimator: BaseEstimator, model: ir.Model) -> str:
    """Why a rebuilt estimator is not the graph's; empty where it is."""
    try:
        fault = fault_of(estimator)
    except Exception as error:  # a part that can't be looked at
        fault = repr(error)
    if fault is not None:
        return f"{type(estimator).__name__} is not rebuilt: {fault}"
    passed, refused = False, ""
    for rows, needed in _rows(estimator, model):
        if passed and not needed:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sides = Party(OnnxModel(model), "onnx"), Party(estimator, "sklearn")
                report = compare(*sides, Binding(rows), graph=model, tolerance=Tolerance())
        except Exception as error:  # of the estimator's own
            refused = refused or first_line(error)
            continue  # rows may be such as one side does not take; others have to agree
        failed = [item for item in report.sets if item.failed]
        if failed and all("ValueError" in item.error for item in failed):  # it does not take what the graph takes
            refused = refused or failed[0].error
        elif report.verdict == "failed" and (needed or not passed):
            return f"{type(estimator).__name__} is not rebuilt: {_difference(report)}"
        passed = passed or report.passed
    title, refused = type(estimator).__name__, refused or "it takes none of the rows that were drawn"
    return "" if passed or _agrees_alone(estimator, model) else f"{title} is not rebuilt: {refused}"


def _agrees_alone(estimator: BaseEstimator, model: ir.Model) -> bool:
    """Whether rows that an estimator knows, none of them moved, give the same: where either side refuses all others."""
    specs, rng = specs_of(model), np.random.default_rng(1)
    rows = known_rows(estimator, specs, rng, 64)
    if rows is None and len(specs) == 1 and is_matrix(specs[0]) and specs[0].dtype is not None:
        rows = {specs[0].name: rng.uniform(0.1, 4.0, (64, width_of(specs[0]) or 1)).astype(specs[0].dtype)}
    if rows is None:
        return False
    leaves = [rows[spec.name] for spec in specs]
    try:
        expected = OnnxModel(model)(*leaves)
        binding = Binding(specs=tuple(specs), produced=read(model.metadata_props))
        given = bind(estimator, binding).run(leaves)
    except Exception:  # of either side: it takes none of them
        return False
    results = expected if isinstance(expected, tuple) else (expected,)
    return all(agree(a, b) for a, (_, b) in zip(results, given, strict=True))


def _difference(report: Report) -> str:
    """Where a rebuilt estimator and the graph differ."""
    failed = next(item for item in report.sets if item.failed)
    return failed.error or f"on {failed.name} it gives other numbers than the graph"


def _rows(
    estimator: BaseEstimator, model: ir.Model
) -> Iterator[tuple[tuple[np.ndarray, ...] | dict[str, np.ndarray] | None, bool]]:
    """Rows to compare on, and whether they are needed also where earlier ones agreed: None for the proof's own.

    Some estimators take no negative numbers, few whole ones alone, or of each column its own categories alone; in some a missing
    value alone asks for what was fitted.
    """
    specs, rng = specs_of(model), np.random.default_rng(0)
    known = known_rows(estimator, specs, rng, 32)
    if known is not None:
        yield tuple(known.values()) if len(known) == 1 else known, True
    yield None, True
    if len(specs) != 1 or not is_matrix(specs[0]) or specs[0].dtype is None:
        return
    dtype = specs[0].dtype
    size = (32, width_of(specs[0]) or 1)
    if dtype.kind == "f" and get_tags(estimator).input_tags.allow_nan:
        normal = rng.normal(size=size)
        yield (np.where(rng.uniform(size=size) < 0.3, np.nan, normal).astype(dtype),), True
    yield (rng.uniform(0.0, 1.0, size).astype(dtype),), False
    yield (rng.integers(0, 2, size).astype(dtype),), False


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
