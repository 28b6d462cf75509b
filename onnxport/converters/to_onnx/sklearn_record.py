"""The record of the estimator that a file was written from: class, parameters, and where the graph holds its fitted numbers.

The fitted numbers themselves stand in the graph alone; names (of classes, categories, columns) and whole numbers may stand in the
record too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.tree._tree import Tree
from sklearn.utils.metaestimators import _BaseComposition

from onnxport.converters.to_onnx.sklearn_held import holds_terms, keep_terms, left_out
from onnxport.converters.to_onnx.sklearn_trees import Trees, leaves_of
from onnxport.graph.fitted import LOST, NOT_IN_FILES, Constants, shortened
from onnxport.graph.outputs import COMPACT
from onnxport.graph.repeated import Fold, folded, is_folded
from onnxport.opset_maps.from_onnx.sklearn.classes import may_be_named

_DEEPEST = 24
PARTS = frozenset(("_CalibratedClassifier",))  # classes that are no estimators, and hold some
# Forms of arrays in a record, by their first keys: a constant of the graph; numbers that count up, as they are, or by their
# differences; booleans as hexadecimal bits; one number throughout.
ARRAYS = frozenset(("of", "range", "plain", "steps", "bits", "fill"))
_FEW = 16  # whole numbers and booleans that are written as they are
_COLUMNS = 64  # columns of an array that are looked for one by one
_PLAIN_LIMIT = 1 << 12  # whole numbers and names that may stand in the record


class _NotHeldError(Exception):
    """The graph does not hold a value, and the record may not."""


class _LostError(Exception):
    """An estimator that can't be rebuilt, so that its record, the argument, names its class alone."""


def record_of(estimator: BaseEstimator, model: ir.Model) -> str:
    """The record of an estimator as JSON; empty where it is none of scikit-learn.

    Of one that can't be rebuilt, or a part of it, the record tells which part that is, and nothing else.
    """
    try:
        with np.errstate(all="ignore"):  # fitted numbers may be infinite or NaN
            return COMPACT.encode(_Writer(model).estimator(estimator))
    except _LostError as error:
        return COMPACT.encode(error.args[0])
    except Exception:  # of parameters and attributes of any kind: the file is whole without a record
        return ""


class _Writer:
    def __init__(self, model: ir.Model) -> None:
        self._constants = Constants(model)
        self._trees = Trees(model, self._constants)
        self._depth = 0
        self._leaves: dict[int, np.ndarray] = {}  # by tree what the graph's leaves hold instead of its values

    def estimator(self, model: Any) -> dict[str, Any]:
        """The record of an estimator.

        Raises:
            _NotHeldError: it is none of scikit-learn's, or a parameter has no form as JSON.
        """
        kind = type(model)
        if kind.__module__.partition(".")[0] != "sklearn":
            raise _NotHeldError
        if not may_be_named(kind.__name__):
            raise _LostError({"class": kind.__name__})
        given = self._params(model, kind)
        self._leaves |= leaves_of(model)
        return self._record(model, kind.__name__, given, _signature(kind)[1])

    def _params(self, model: Any, kind: type) -> dict[str, Any]:
        if getattr(kind, "get_params", None) is not BaseEstimator.get_params and not issubclass(kind, _BaseComposition):
            return model.get_params(deep=False) if hasattr(model, "get_params") else {}
        return {name: getattr(model, name) for name in _signature(kind)[0]}

    def _record(self, model: Any, name_of_class: str, given: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
        params, fitted = {}, {}
        for name, value in given.items():
            if name == "random_state" and not isinstance(value, (int, type(None))):
                continue
            if name in NOT_IN_FILES or (name in usual and _equal(usual[name], value)):
                continue
            params[name] = self.value(value, param=True)
        without = left_out(type(model))
        for name, value in vars(model).items():
            if name in given or name == "_sklearn_version" or name in without:
                continue
            try:
                fitted[name] = shortened(self.value(value))
            except _NotHeldError:
                continue
        held: dict[str, Any] = {}

        def keep(name: str, term: np.ndarray) -> bool:
            place = self._term(term)
            if place is not None:
                held[name] = shortened(place)
            return place is not None

        if not keep_terms(model, keep):
            raise _LostError({"class": name_of_class, LOST: True})
        parts = {"params": params, "fitted": fitted, "held": held}
        return {"class": name_of_class, **{name: part for name, part in parts.items() if part}}

    def _items(self, values: Sequence[Any], *, param: bool = False) -> Any:
        together = self._together(values)
        return together or folded([self.value(item, param=param) for item in values])

    def _together(self, models: Sequence[Any]) -> dict[str, Any] | None:
        """Estimators of one class as a pattern, attribute by attribute: what most share is compared, and written once.

        None where they have no such form, or attributes of which the graph does not hold every one.
        """
        if len(models) < 2 or not isinstance(models[0], BaseEstimator):
            return None
        kind = type(models[0])
        if kind.get_params is not BaseEstimator.get_params or holds_terms(kind):
            return None
        fitted = [vars(item) for item in models if type(item) is kind]
        names = list(fitted[0])
        if (
            len(fitted) < len(models)
            or not kind.__module__.startswith("sklearn.")
            or any(list(item) != names for item in fitted)
        ):
            return None
        for item in models:
            self._leaves |= leaves_of(item)
        fold, (given, usual) = Fold(len(models)), _signature(kind)
        parts: dict[str, dict[str, Any]] = {"params": {}, "fitted": {}}
        for name in dict.fromkeys((*given, *names)):
            column = [getattr(item, name) for item in models]
            param = name in given
            if param and (
                name in NOT_IN_FILES
                or (name == "random_state" and not any(isinstance(item, (int, type(None))) for item in column))
                or (name in usual and _all_alike(column) and _equal(usual[name], column[0]))
            ):
                continue
            if name == "_sklearn_version":
                continue
            try:
                value = self._column(fold, column, param)
            except _NotHeldError:
                if param or not _all_alike(column):
                    return None
                continue
            if is_folded(value):
                return None
            parts["params" if param else "fitted"][name] = value
        shown = {name: part for name, part in parts.items() if part}
        return fold.record({"e": {"class": kind.__name__, **shown}})

    def _column(self, fold: Fold, column: Sequence[Any], param: bool) -> Any:
        if _all_alike(column):
            return self.value(column[0], param=param)
        if all(isinstance(item, Tree) for item in column):
            places = self._trees.all_of(column, self._leaves)
            if places is not None:
                return {"tree": fold.common(places)}
        return fold.common([self.value(item, param=param) for item in column])

    def _term(self, term: np.ndarray) -> dict[str, Any] | None:
        place = self._constants.find(term) if np.isfinite(term).all() else None
        return self._placed(place, term) if place is not None else None

    def _placed(self, place: Mapping[str, Any], array: np.ndarray) -> dict[str, Any]:
        """Where an array stands, with its shape and type where they are not those of what stands there."""
        constant = self._constants.named(place["of"])
        usual = constant.shape[::-1] if "order" in place else constant.shape
        if "half" in place or "first" in place:
            usual = (constant.size // 2 if "half" in place else 1,)
        given = np.dtype(np.float64) if "view" in place else constant.dtype  # what a view of a constant is
        shape = {"shape": list(array.shape)} if array.shape != usual else {}
        return {**place, **shape, **({"dtype": array.dtype.str} if array.dtype != given else {})}

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
            return self._number(float(value), param)
        if isinstance(value, np.generic):
            return {"n": value.item(), "dtype": value.dtype.name} if value.dtype.kind in "iub" else str(value)
        if isinstance(value, list):
            return {"l": self._items(value, param=param)}
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
            array = self._array(value, param)
            return array if next(iter(array)) in ARRAYS else {"a": array}
        if scipy.sparse.issparse(value):
            rows = value.tocsr()
            parts = [self._array(part, param) for part in (rows.data, rows.indices, rows.indptr)]
            return {"m": parts, "shape": list(rows.shape), "kind": type(value).__name__}
        if isinstance(value, BaseEstimator) or type(value).__name__ in PARTS:
            return {"e": self.estimator(value)}
        raise _NotHeldError

    def _number(self, number: float, param: bool) -> Any:
        if not math.isfinite(number):
            return {"f": repr(number)}
        if param or number in (0.0, 1.0, -1.0):
            return number
        held = self._constants.find(np.asarray(number))
        if held is None:
            raise _NotHeldError
        return {"f": held}

    def _array(self, array: np.ndarray, param: bool) -> dict[str, Any]:
        head = {"shape": list(array.shape), "dtype": array.dtype.str}
        typed = {"dtype": array.dtype.str} if array.dtype != np.int64 else {}
        first = array.flat[0] if array.dtype.kind in "fiub" and array.size else None
        if first in (0, 1) and (array == first).all():
            return {"fill": int(first), **head}
        if array.dtype.kind in "iu" and array.ndim == 1 and not first and np.array_equal(array, np.arange(len(array))):
            return {"range": len(array), **typed}
        if array.dtype.kind == "O" and any(isinstance(item, (np.ndarray, BaseEstimator)) for item in array.flat):
            return head | {"items": self._items(list(array.flat))}
        held = self._constants.find(array) if array.dtype.kind in "fiubOU" else None
        if held is not None and array.dtype.kind != "O":
            return self._placed(held, array)
        if (
            held is None
            and array.dtype.kind == "f"
            and 1 <= array.ndim <= 2
            and array.shape[-1] <= _COLUMNS
            and array.size
        ):
            columns = []
            for column in array.T:
                place = self._constants.find(column)
                if place is None:
                    break
                columns.append(place)
            if len(columns) == array.shape[-1]:
                return head | {"columns": columns}
        plain = array.dtype.kind in "iubOU" and (array.size <= _PLAIN_LIMIT or array.dtype.kind in "OU")
        shaped = ({"shape": head["shape"]} if array.ndim != 1 else {}) | typed
        if plain and array.dtype == bool and array.size >= _FEW:
            return {"bits": np.packbits(array).tobytes().hex(), "shape": head["shape"]}
        if plain and array.dtype.kind in "iubU":
            steps = _steps(array)
            numbers = {"plain": array.ravel().tolist()} if steps is None else {"steps": steps.tolist()}
            return {**numbers, **shaped}
        if plain or param:
            return {"plain": [self.value(item, param=True) for item in array.ravel().tolist()], **shaped}
        raise _NotHeldError

    def _tree(self, tree: Tree) -> Any:
        place = self._trees.find(tree, self._leaves.get(id(tree)))
        if place is None:
            raise _NotHeldError
        return {"tree": place}


def _steps(array: np.ndarray) -> np.ndarray | None:
    """The first of whole numbers, and what each is more than the one before; None where that takes no fewer digits."""
    if array.dtype.kind not in "iu" or array.size < _FEW:
        return None
    numbers = array.ravel().astype(np.int64)
    steps = numbers.copy()
    steps[1:] -= numbers[:-1]
    return steps if 10 * np.abs(steps).sum() < np.abs(numbers).sum() else None


def _all_alike(column: Sequence[Any]) -> bool:
    """Whether values are the same; of values that take long to compare, no."""
    first = column[0]
    if isinstance(first, np.ndarray) and first.dtype.kind in "fiub":
        form, held = (first.dtype, first.shape), first.tobytes()
        return all(type(x) is np.ndarray and (x.dtype, x.shape) == form and x.tobytes() == held for x in column)
    if isinstance(first, (bool, int, str, np.integer)):
        return all(type(item) is type(first) and item == first for item in column)
    if isinstance(first, float):  # 0.0 and -0.0 are equal
        return all(type(item) is type(first) and repr(item) == repr(first) for item in column)
    return all(item is first for item in column)


_KNOWN: dict[type, tuple[tuple[str, ...], dict[str, Any]]] = {}  # by class what reading its signature gives


def _signature(kind: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The parameters of a class of scikit-learn, and the defaults of those that have one."""
    if kind not in _KNOWN:
        import inspect

        names = tuple(kind._get_param_names()) if issubclass(kind, BaseEstimator) else ()
        parameters = inspect.signature(kind).parameters.values()
        _KNOWN[kind] = (
            names,
            {item.name: item.default for item in parameters if item.default is not inspect.Parameter.empty},
        )
    return _KNOWN[kind]


def _equal(a: Any, b: Any) -> bool:
    try:
        return type(a) is type(b) and bool(a == b)
    except (TypeError, ValueError):
        return False
