"""Estimators from what a file records of them: names and parameters from the record, fitted numbers from the graph's constants.

Nothing of the record is run or evaluated: classes are those of `classes.py`, values are numbers, texts, lists and arrays.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import scipy.sparse
from sklearn.tree._tree import NODE_DTYPE, Tree

from onnxport.errors import UnsupportedOperator
from onnxport.graph.fitted import ESTIMATOR, LOST, NOT_IN_FILES, VIEWS, constants_of, lengthened
from onnxport.graph.forests import GrownTree, trees_of
from onnxport.graph.repeated import unfolded
from onnxport.opset_maps.from_onnx.sklearn.classes import class_of
from onnxport.opset_maps.from_onnx.sklearn.completion import completed

_ATTRIBUTE = re.compile(r"_?[A-Za-z][A-Za-z0-9_]*")
_DEEPEST = 24
_MOST_VALUES = 1 << 22  # values of lists whose items follow from a pattern
_MOST = 1 << 26  # elements of an array of one number, which the file itself does not hold
# Sizes of results that follow from a parameter alone.
_GREATEST = {"n_features": 1 << 20, "n_components": 1 << 20, "degree": 32, "n_bins": 1 << 16, "n_knots": 1 << 16}
_KINDS = frozenset("fiubOU")


def recorded(model: ir.Model) -> Any:
    """The estimator that a file records; None where it records none.

    Raises:
        UnsupportedOperator: the record does not fit the graph, or names what no file may name.
    """
    text = model.metadata_props.get(ESTIMATOR)
    if not text:
        return None
    try:
        return _Reader(model).estimator(json.loads(text))
    except UnsupportedOperator:
        raise
    except Exception as error:  # whatever a damaged or hostile record brings about
        raise UnsupportedOperator(f"the file's record of its estimator does not fit its graph: {error!r}") from error


class _Reader:
    def __init__(self, model: ir.Model) -> None:
        self._constants = constants_of(model)
        self._trees = trees_of(model)
        self._depth = 0
        self._count = 0  # of the items of lists

    def estimator(self, record: Mapping[str, Any]) -> Any:
        """The estimator of a record."""
        kind = class_of(record["class"])
        if record.get(LOST):
            raise _not_held(kind.__name__)
        known = set(kind._get_param_names()) if hasattr(kind, "_get_param_names") else set()
        params = {name: self.value(item) for name, item in record.get("params", {}).items()}
        if set(params) - known:
            raise UnsupportedOperator(f"{kind.__name__} has no parameters {sorted(set(params) - known)}")
        for name, item in params.items():
            if name in NOT_IN_FILES or (isinstance(item, int) and item > _GREATEST.get(name, np.inf)):
                raise UnsupportedOperator(f"{kind.__name__}: a file may not say {name}={item!r}")
        fitted = record.get("fitted", {})
        estimator = kind(**params) if known or not fitted else kind.__new__(kind)
        for name, item in fitted.items():
            if not _ATTRIBUTE.fullmatch(name) or "__" in name or callable(getattr(kind, name, None)):
                raise UnsupportedOperator(f"{kind.__name__} has no fitted attribute {name!r}")
            if isinstance(getattr(kind, name, None), property):
                continue
            setattr(estimator, name, self.value(lengthened(item)))
        if fitted:
            self._complete(estimator, record.get("held", {}))
        return estimator

    def _complete(self, estimator: Any, terms: Mapping[str, Any]) -> None:
        held = {name: self.value(lengthened(item)) for name, item in terms.items()}
        try:
            completed(estimator, held)
        except Exception as error:  # whatever is missing of a class's numbers
            raise _not_held(type(estimator).__name__) from error

    def value(self, item: Any) -> Any:
        """A value of a record."""
        self._depth += 1
        if self._depth > 4 * _DEEPEST:
            raise UnsupportedOperator("the file's record of its estimator is too deep")
        try:
            return self._value(item)
        finally:
            self._depth -= 1

    def _value(self, item: Any) -> Any:
        if item is None or isinstance(item, (bool, int, float, str)):
            return item
        ((key, given), *_) = item.items()
        match key:
            case "f":
                return float(given) if isinstance(given, str) else float(self._constant(given).reshape(()))
            case "n":
                return np.dtype(item["dtype"]).type(given)
            case "l":
                return [self.value(part) for part in self._items(given)]
            case "u":
                return tuple(self.value(part) for part in given)
            case "d":
                return {self.value(name): self.value(part) for name, part in given}
            case "s":
                return slice(*(self.value(part) for part in given))
            case "y":
                dtype = _dtype(given)
                return dtype.type if item["type"] else dtype
            case "a":
                return self._array(given)
            case "of" | "range" | "plain" | "steps" | "bits" | "fill":
                return self._array(item)
            case "m":
                parts = tuple(self._array(part) for part in given)
                form = scipy.sparse.csr_array if item["kind"].endswith("array") else scipy.sparse.csr_matrix
                matrix = form(parts, shape=tuple(item["shape"]))
                matrix.check_format(full_check=True)
                return matrix
            case "e":
                return self.estimator(given)
            case "tree":
                return self._tree(given)
        raise UnsupportedOperator(f"the file's record of its estimator holds {key!r}")

    def _items(self, given: Any) -> Iterator[Any]:
        for part in unfolded(given, _MOST_VALUES):
            self._count += 1
            if self._count > _MOST_VALUES:  # patterns in patterns: each is short, all together are not
                raise UnsupportedOperator("the file's record of its estimator holds too many values")
            yield part

    def _array(self, item: Mapping[str, Any]) -> np.ndarray:
        if "range" in item:
            numbers = np.arange(min(int(item["range"]), _MOST), dtype=_dtype(item.get("dtype", "<i8")))
            return numbers.reshape(item.get("shape", -1))
        if "of" in item:
            return self._placed(item)
        if "bits" in item:
            bits, size = np.frombuffer(bytes.fromhex(item["bits"]), np.uint8), math.prod(item["shape"])
            if size > 8 * len(bits):
                raise UnsupportedOperator("an array of more booleans than there are bits")
            return np.unpackbits(bits, count=size).astype(bool).reshape(item["shape"])
        dtype = _dtype(item.get("dtype", "<i8"))
        if dtype.kind not in _KINDS:
            raise UnsupportedOperator(f"an array of {dtype}")
        if "fill" in item:
            shape = tuple(int(size) for size in item["shape"])
            if np.prod(shape, dtype=np.float64) > _MOST:
                raise UnsupportedOperator("an array of more elements than a file may name")
            return np.full(shape, item["fill"], dtype)
        if "columns" in item:
            columns = [self._constant(column).reshape(-1) for column in item["columns"]]
            return np.stack(columns, axis=-1).reshape(item["shape"]).astype(dtype)
        if "steps" in item:
            return (
                np.cumsum(list(self._items(item["steps"])), dtype=np.int64).astype(dtype).reshape(item.get("shape", -1))
            )
        parts = [self.value(part) for part in self._items(item.get("items", item.get("plain")))]
        array = np.empty(len(parts), dtype)
        for place, part in enumerate(parts):
            array[place] = part
        return array.reshape(item.get("shape", -1))

    def _placed(self, item: Mapping[str, Any]) -> np.ndarray:
        """An array that a constant holds, in the constant's shape and type where none are given."""
        constant = self._constant(item)
        turned = item.get("order") == "F"
        shape = tuple(int(size) for size in item.get("shape", constant.shape[::-1] if turned else constant.shape))
        dtype = _dtype(item["dtype"]) if "dtype" in item else constant.dtype
        if dtype.kind not in _KINDS:
            raise UnsupportedOperator(f"an array of {dtype}")
        return np.array(constant.reshape(shape[::-1]).T if turned else constant.reshape(shape), dtype, order="C")

    def _constant(self, item: Mapping[str, Any]) -> np.ndarray:
        constant = self._constants[item["of"]]
        if item.get("first"):
            constant = constant.reshape(-1)[:1]
        if "half" in item:
            constant = constant.reshape(-1, 2)[:, 1 if item["half"] else 0]
        view = VIEWS[item.get("view", "")]
        return view(constant.astype(np.float64)) if item.get("view") else constant

    def _tree(self, item: Mapping[str, Any]) -> Tree:
        grown = self._trees[item["of"]][int(item["place"])]
        features, outputs, classes = (int(size) for size in item["shape"])
        leaf = grown.left < 0
        match item["how"]:
            case "table":
                held = self._constants[item["table"]][np.where(leaf, grown.weight, 0).astype(np.int64)]
            case "share":
                held = np.stack([1.0 - grown.weight, grown.weight], axis=1)
            case _:
                held = grown.weight[:, None]
        values = np.where(leaf[:, None], held, np.nan).reshape(len(leaf), outputs, classes)
        return grown_tree(grown, values, features)


def _not_held(title: str) -> UnsupportedOperator:
    return UnsupportedOperator(f"{title} is not rebuilt: the graph does not hold its fitted numbers")


def grown_tree(grown: GrownTree, values: np.ndarray, features: int) -> Tree:
    """A tree of scikit-learn; what only its fit knew (impurities, numbers of samples) is NaN and 0.

    Args:
        grown: its nodes.
        values: what each node holds, float64 [nodes, outputs, classes].
        features: number of columns of the rows.
    """
    nodes = np.zeros(len(grown.left), NODE_DTYPE)
    nodes["left_child"], nodes["right_child"] = grown.left, grown.right
    nodes["feature"], nodes["threshold"], nodes["missing_go_to_left"] = grown.feature, grown.threshold, grown.missing
    nodes["impurity"] = nodes["weighted_n_node_samples"] = np.nan
    depth = np.zeros(len(nodes), np.int64)
    for place in np.flatnonzero(grown.left >= 0):  # a parent comes before its children
        depth[[grown.left[place], grown.right[place]]] = depth[place] + 1
    outputs, classes = values.shape[1:]
    tree = Tree(features, np.full(outputs, classes, np.intp), outputs)
    state = {
        "max_depth": int(depth.max()),
        "node_count": len(nodes),
        "nodes": nodes,
        "values": np.ascontiguousarray(values),
    }
    tree.__setstate__(state)
    return tree


def _dtype(text: str) -> np.dtype:
    dtype = np.dtype(str(text))
    if dtype.names is not None or dtype.subdtype is not None or dtype.itemsize > 1 << 12:
        raise UnsupportedOperator(f"an element type {text!r}")
    return dtype
