"""FunctionTransformer: a user's function of arrays or tables, traced."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.special
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.traced import TracedArray
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, lower, lower_fitted
from onnxport.opset_maps.to_onnx.sklearn.fitted import transformer
from onnxport.opset_maps.to_onnx.sklearn.tables.data_frames import DataFrame
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table, matrix, numbers


@lower(
    "FunctionTransformer.transform",
    cases(transformer, "FunctionTransformer"),
    cases(transformer, "FunctionTransformer", {"func": np.tanh}),
    cases(
        transformer,
        "FunctionTransformer",
        {"func": lambda x: np.cbrt(x) + np.heaviside(x, 0.5) * scipy.special.exp10(x)},
        {"func": lambda x: scipy.special.log_ndtr(x) + scipy.special.erfcx(x) + scipy.special.entr(np.abs(x))},
        {"func": lambda x: scipy.special.erfinv(np.tanh(x)) + scipy.special.xlog1py(x, x * x)},
        {"func": lambda x: np.float_power(np.abs(x), 0.3) + np.arctan(x) + np.arcsinh(x)},
        {"func": lambda x: np.arcsin(np.tanh(x)) + np.arccosh(np.cosh(x)) + np.sinh(20 * x)},
        {"func": lambda x: np.hstack([x[:, :2], np.sqrt(np.abs(x)).sum(axis=1)[:, None]])},
    ),
)
def function_transformer(op: OpBuilder, model: BaseEstimator, x: Table) -> Table | Array:
    """The function traced with NumPy's protocols; the table as it is where there is none."""
    return _apply(op, model, model.func, model.kw_args, x)


@lower_fitted("FunctionTransformer.inverse_transform", transformer, {"func": np.negative, "inverse_func": np.negative})
def function_untransformer(op: OpBuilder, model: BaseEstimator, x: Table) -> Table | Array:
    """The inverse function traced with NumPy's protocols."""
    return _apply(op, model, model.inverse_func, model.inv_kw_args, x)


def _apply(
    op: OpBuilder, model: BaseEstimator, function: Callable[..., object] | None, options: object, x: Table
) -> Table | Array:
    if function is None:
        return x
    # in histogram gradient boosting, beside the categories
    if isinstance(function, partial) and function.func is check_array:
        return numbers(op, x, *np.atleast_1d(function.keywords["dtype"]))
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", str(function))
    framed = not model.validate and not isinstance(function, np.ufunc) and hasattr(model, "feature_names_in_")
    dates: set[str] = set()  # columns that the graph does not take
    try:
        if framed:  # scikit-learn hands a DataFrame to the function
            names = tuple(str(name) for name in model.feature_names_in_)
            # those of the inputs, or what a step before has called them
            dates = set(names) - set(x.names) if isinstance(x, Frame) and set(x.names) < set(names) else set()
            named = x.names if isinstance(x, Frame) and (dates or set(names) <= set(x.names)) else names
            result = function(DataFrame.of(op, x, named), **(options or {}))
        else:
            result = function(TracedArray(op, matrix(op, x)), **(options or {}))
    except Exception as error:  # a user's function may raise anything on what is no array
        if any(name in str(error) for name in dates):
            raise UnsupportedOperator(
                f"the function {name!r} reads {', '.join(map(repr, sorted(dates)))}: ONNX has no type for dates, durations and "
                "lists; make numbers of them before the model",
                final=True,
            ) from error
        raise UnsupportedOperator(
            f"the function {name!r} is not built of {'whole columns' if framed else 'NumPy functions of whole arrays'} "
            f"({type(error).__name__}: {error}); write it so, or put it into an estimator of your own and register that"
        ) from error
    if isinstance(result, DataFrame):
        return result.table()
    if not isinstance(result, Array):
        raise UnsupportedOperator(f"the function {name!r} gives no array that depends on its input")
    return result
