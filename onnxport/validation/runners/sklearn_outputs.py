"""The results of an estimator for the outputs of its graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxport.errors import InvalidInputError
from onnxport.graph.outputs import Output, raw_scores
from onnxport.graph.rows import padded
from onnxport.validation.runners.base import Outputs

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def produced(estimator: BaseEstimator, outputs: Sequence[Output], table: object) -> Outputs:
    """Each output in its form.

    Raises:
        InvalidInputError: the estimator has no such method or step: the graph is another's.
    """
    results: dict[tuple[str, str], Any] = {}
    wanted = dict.fromkeys((item.step, item.method) for item in outputs)
    with ExitStack() as stack:
        for step, method in wanted:
            if step:
                stack.enter_context(_recorded(_step(estimator, step), method, results, (step, method)))
        for step, method in wanted:
            if not step:
                results[step, method] = call(estimator, method, table)

    def result(item: Output) -> Any:
        whole: Any = results.get((item.step, item.method))
        return whole if item.index is None else whole[item.index]

    return [(item.name, _formed(estimator, item, result(item))) for item in outputs]


def provider(estimator: BaseEstimator, method: str) -> Any:
    """The estimator, or of a pipeline that does not hand the method on its last step."""
    if not hasattr(estimator, method) and hasattr(estimator, "steps"):
        return estimator.steps[-1][1]
    return estimator


def call(estimator: BaseEstimator, method: str, table: object, **options: object) -> Any:
    """What a method gives; `predict_std` is the second result of `predict(X, return_std=True)`, `raw_scores` the margins.

    Raises:
        InvalidInputError: the estimator has no such method.
    """
    if method == "predict_std":
        return estimator.predict(table, return_std=True)[1]
    raw = raw_scores(estimator) if method == "raw_scores" else None
    if raw is not None:
        return raw[0].predict(table, **raw[1])
    owner = provider(estimator, method)
    if not hasattr(owner, method):
        raise InvalidInputError(
            f"{type(estimator).__name__} has no method {method!r}, of which the graph has the result"
        )
    if owner is not estimator and len(estimator.steps) > 1:
        table = estimator[:-1].transform(table)
    return getattr(owner, method)(table, **options)


def _step(estimator: BaseEstimator, path: str) -> Any:
    for name in path.split("."):
        parts: dict[str, Any] = {}
        for attribute in ("steps", "transformer_list", "transformers_"):
            parts |= {part[0]: part[1] for part in getattr(estimator, attribute, ())}
        if name not in parts:
            raise InvalidInputError(
                f"{type(estimator).__name__} has no step {name!r}, of which the graph has the result"
            )
        estimator = parts[name]
    return estimator


@contextmanager
def _recorded(step: BaseEstimator, method: str, results: dict[Any, Any], key: tuple[str, str]) -> Iterator[None]:
    """Keeps what a method of a step gives while the whole estimator runs."""
    original = getattr(step, method)

    def recording(*args: object, **kwargs: object) -> Any:
        results[key] = original(*args, **kwargs)
        return results[key]

    setattr(step, method, recording)
    try:
        yield
    finally:
        delattr(step, method)


def _formed(estimator: BaseEstimator, output: Output, result: object) -> Any:
    if output.method == "inverse_transform" and isinstance(result, list) and all(isinstance(x, tuple) for x in result):
        return padded(result)  # labels of a sample each, as MultiLabelBinarizer gives them
    array = dense(result)
    if output.method == "transform" and hasattr(estimator, "components_") and np.ndim(array) == 1:
        array = array[None]  # SparsePCA's ridge_regression drops the axis of a table of one row
    if output.form == "ints":
        return np.searchsorted(estimator.classes_, array).astype(np.int64)
    if output.form == "strings":
        return np.array([str(item) for item in array.tolist()], object)
    if output.form == "column":
        return array[:, output.column]
    if output.form == "row":
        return array[None]
    if "pair" in output.form:
        array = np.stack([array, -array] if "turned" in output.form else [-array, array], axis=-1)
    if output.form.endswith("zipmap"):
        return [dict(zip(estimator.classes_.tolist(), map(np.float32, row), strict=True)) for row in array]
    return array


def dense(result: Any) -> Any:
    """A method's result as an array; sparse matrices as dense ones, ragged and nested ones as lists."""
    if hasattr(result, "toarray"):
        return result.toarray()
    if hasattr(result, "to_numpy"):
        kinds = [np.dtype(kind) for kind in getattr(result, "dtypes", ()) if isinstance(kind, np.dtype)]
        if kinds and len(kinds) == len(result.columns) and all(kind.kind in "biuf" for kind in kinds):
            return result.to_numpy(np.result_type(*kinds))  # pandas makes booleans beside numbers objects
        return _plain(result.to_numpy())
    if isinstance(result, (list, tuple)):
        return [dense(item) for item in result]
    return _plain(np.asarray(result))


def _plain(array: np.ndarray) -> np.ndarray:
    """Objects that are all numbers as numbers: ColumnTransformer makes such of booleans beside others."""
    if array.dtype != object or not array.size or not all(isinstance(item, Number) for item in array.flat):
        return array
    return np.array(array.ravel().tolist()).reshape(array.shape)
