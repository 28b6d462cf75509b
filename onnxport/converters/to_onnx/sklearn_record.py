"""The record of the estimator that a file was written from: class, parameters, and where the graph holds its fitted numbers.

The fitted numbers themselves stand in the graph alone; names (of classes, categories, columns) and whole numbers may stand in the
record too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.tree._tree import Tree

from onnxport.converters.to_onnx.sklearn_held import held_of
from onnxport.converters.to_onnx.sklearn_trees import Trees, leaves_of
from onnxport.graph.fitted import NOT_IN_FILES, Constants
from onnxport.graph.repeated import folded

_DEEPEST = 24
PARTS = frozenset(("_CalibratedClassifier",))  # classes that are no estimators, and hold some
_COLUMNS = 64  # columns of an array that are looked for one by one
_PLAIN_LIMIT = 1 << 12  # whole numbers and names that may stand in the record


class _NotHeldError(Exception):
    """The graph does not hold a value, and the record may not."""


def record_of(estimator: BaseEstimator, model: ir.Model) -> str:
    """The record of an estimator as JSON; empty where it is none of scikit-learn."""
    try:
        with np.errstate(all="ignore"):  # fitted numbers may be infinite or NaN
            return json.dumps(_Writer(model).estimator(estimator), separators=(",", ":"))
    except Exception:  # of parameters and attributes of any kind: the file is whole without a record
        return ""


class _Writer:
    def __init__(self, model: ir.Model) -> None:
        self._constants = Constants(model)
        self._trees = Trees(model)
        self._depth = 0
        self._usual: dict[type, dict[str, Any]] = {}  # by class its parameters' defaults
        self._names: dict[type, list[str]] = {}
        self._leaves: dict[int, np.ndarray] = {}  # by tree what the graph's leaves hold instead of its values

    def estimator(self, model: Any) -> dict[str, Any]:
        """The record of an estimator.

        Raises:
            _NotHeldError: it is none of scikit-learn's, or a parameter has no form as JSON.
        """
        kind = type(model)
        if kind.__module__.partition(".")[0] != "sklearn":
            raise _NotHeldError
        if kind not in self._usual:
            self._usual[kind] = _defaults(kind)
        usual = self._usual[kind]
        given = self._params(model, kind)
        self._leaves |= leaves_of(model)
        return self._record(model, kind.__name__, given, usual)

    def _params(self, model: Any, kind: type) -> dict[str, Any]:
        if getattr(kind, "get_params", None) is not BaseEstimator.get_params:
            return model.get_params(deep=False) if hasattr(model, "get_params") else {}
        if kind not in self._names:
            self._names[kind] = list(model.get_params(deep=False))  # reads a signature: a forest has many of one class
        return {name: getattr(model, name) for name in self._names[kind]}

    def _record(self, model: Any, name_of_class: str, given: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
        params, fitted = {}, {}
        for name, value in given.items():
            if name == "random_state" and not isinstance(value, (int, type(None))):
                continue
            if name in NOT_IN_FILES or (name in usual and _equal(usual[name], value)):
                continue
            params[name] = self.value(value, param=True)
        for name, value in vars(model).items():
            if name in given or name == "_sklearn_version":
                continue
            try:
                fitted[name] = self.value(value)
            except _NotHeldError:
                continue
        terms = {name: self._term(np.asarray(term)) for name, term in held_of(model).items()}
        held = {name: term for name, term in terms.items() if term is not None}
        return {"class": name_of_class, "params": params, "fitted": fitted, **({"held": held} if held else {})}

    def _term(self, term: np.ndarray) -> dict[str, Any] | None:
        place = self._constants.find(term) if np.isfinite(term).all() else None
        return {"a": {"shape": list(term.shape), "dtype": term.dtype.str, **place}} if place is not None else None

    def value(self, value: Any, *, param: bool = False) -> Any:
        """A value as JSON.

        Raises:
            _NotHeldError: it has no such form.
        """
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                raise _NotHeldError
            return self._value(value, param)
        finally:
            self._depth -= 1

    def _value(self, value: Any, param: bool) -> Any:
        if (
            value is None
            or isinstance(value, (bool, str))
            or (isinstance(value, int) and not isinstance(value, np.generic))
        ):
            return value
        if isinstance(value, (float, np.floating)):
            return self._number(value, param)
        if isinstance(value, np.generic):
            return {"n": value.item(), "dtype": value.dtype.name} if value.dtype.kind in "iub" else str(value)
        if isinstance(value, list):
            return {"l": folded([self.value(item, param=param) for item in value])}
        if isinstance(value, tuple) and type(value) is tuple:
            return {"u": [self.value(item, param=param) for item in value]}
        if isinstance(value, Mapping):
            return {"d": [[self.value(k, param=True), self.value(v, param=param)] for k, v in value.items()]}
        if isinstance(value, slice):
            return {"s": [self.value(item, param=True) for item in (value.start, value.stop, value.step)]}
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, (np.generic, int, float))):
            return {"y": np.dtype(value).str, "type": not isinstance(value, np.dtype)}
        if isinstance(value, Tree):
            return self._tree(value)
        if isinstance(value, np.ndarray):
            return {"a": self._array(value, param)}
        if scipy.sparse.issparse(value):
            rows = value.tocsr()
            parts = [self._array(part, param) for part in (rows.data, rows.indices, rows.indptr)]
            return {"m": parts, "shape": list(rows.shape), "kind": type(value).__name__}
        if isinstance(value, BaseEstimator) or type(value).__name__ in PARTS:
            return {"e": self.estimator(value)}
        raise _NotHeldError

    def _number(self, value: Any, param: bool) -> Any:
        number = float(value)
        if param or not math.isfinite(number) or number in (0.0, 1.0, -1.0):
            return {"f": repr(number)}
        held = self._constants.find(np.asarray(number))
        if held is None:
            raise _NotHeldError
        return {"f": held}

    def _array(self, array: np.ndarray, param: bool) -> dict[str, Any]:
        head = {"shape": list(array.shape), "dtype": array.dtype.str}
        if array.dtype.kind in "fiub" and array.size and (array == array.flat[0]).all() and array.flat[0] in (0, 1):
            return head | {"fill": int(array.flat[0])}
        if array.dtype.kind in "iu" and array.ndim == 1 and np.array_equal(array, np.arange(len(array))):
            return head | {"range": len(array)}
        if array.dtype.kind == "O" and any(isinstance(item, (np.ndarray, BaseEstimator)) for item in array.flat):
            return head | {"items": folded([self.value(item) for item in array.flat])}
        held = self._constants.find(array) if array.dtype.kind in "fiubOU" else None
        if held is not None and array.dtype.kind != "O":
            return head | held
        if (
            held is None
            and array.dtype.kind == "f"
            and 1 <= array.ndim <= 2
            and array.shape[-1] <= _COLUMNS
            and array.size
        ):
            columns = [self._constants.find(column) for column in array.T]
            if all(column is not None for column in columns):
                return head | {"columns": columns}
        plain = array.dtype.kind in "iubOU" and (array.size <= _PLAIN_LIMIT or array.dtype.kind in "OU")
        if plain or param:
            return head | {"plain": [self.value(item, param=True) for item in array.ravel().tolist()]}
        raise _NotHeldError

    def _tree(self, tree: Tree) -> Any:
        place = self._trees.find(tree, self._leaves.get(id(tree)))
        if place is None:
            raise _NotHeldError
        return {"tree": place}


def _defaults(kind: type) -> dict[str, Any]:
    import inspect

    parameters = inspect.signature(kind).parameters.values()
    return {item.name: item.default for item in parameters if item.default is not inspect.Parameter.empty}


def _equal(a: Any, b: Any) -> bool:
    try:
        return type(a) is type(b) and bool(a == b)
    except (TypeError, ValueError):
        return False
