"""Which tables scikit-learn hands on as sparse matrices.

The graph's tables are dense, and most estimators compute the same from either form. Some do not: what a sparse matrix leaves
out is a missing value for XGBoost, and no value to QuantileTransformer; distances of sparse rows are measured otherwise. So a
table is marked where scikit-learn makes it sparse.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import onnx_ir as ir
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator

from onnxport.graph.facts import Fact
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Frame, Table

_ALWAYS = frozenset("CountVectorizer TfidfVectorizer HashingVectorizer TfidfTransformer".split())
_GRAPHS = frozenset("KNeighborsTransformer RadiusNeighborsTransformer".split())
# Transformers that give a sparse matrix for a sparse one (those that choose columns besides).
_KEEPING = frozenset(
    "AdditiveChi2Sampler Binarizer FunctionTransformer MaxAbsScaler MissingIndicator Normalizer PolynomialFeatures "
    "QuantileTransformer RobustScaler SimpleImputer StandardScaler".split()
)
# Nodes that hand rows on as they are.
_PASSING = frozenset(("Cast", "Gather", "Identity", "Slice"))


class Held(IntEnum):
    """How scikit-learn holds a table.

    A graph of neighbours is a sparse matrix whose entries stand in the order of their distances (``UNORDERED``), and of distances
    it stores zeros beside those that it leaves out (``WITH_ZEROS``).
    """

    DENSE = 0
    SPARSE = 1
    UNORDERED = 2
    WITH_ZEROS = 3


_HELD: Fact[Held] = Fact("sparse")


def held(x: Table) -> Held:
    """How scikit-learn holds the table."""
    if isinstance(x, Frame):
        return Held.DENSE
    while (form := _HELD.of(x)) is None:
        node = x.producer()
        if node is None or node.op_type not in _PASSING or node.inputs[0] is None:
            return Held.DENSE
        x = node.inputs[0]
    return form


def is_sparse(x: Table) -> bool:
    """Whether scikit-learn holds the table as a sparse matrix."""
    return held(x) != Held.DENSE


def handed_on(step: BaseEstimator | str | None, given: Table, result: Table) -> Any:
    """The result of a pipeline's step, marked where that is a sparse matrix, or no longer one."""
    if not isinstance(result, Frame) and result is not given:
        form = _form_given_by(step, held(given))
        if form or held(result):
            _HELD.set(result, form)
    return result


def mark_sparse(x: ir.Value) -> None:
    """Records that scikit-learn holds the table as a sparse matrix."""
    _HELD.set(x, Held.SPARSE)


def _form_given_by(step: BaseEstimator | str | None, given: Held) -> Held:
    """How a fitted transformer's result is held, for a table that is held as `given`."""
    if step is None or step == "passthrough":
        return given
    if isinstance(step, str):
        return Held.DENSE  # "drop"
    if hasattr(step, "steps"):
        for _, inner in step.steps:
            given = _form_given_by(inner, given)
        return given
    parts = [item for _, item in getattr(step, "transformer_list", ())]
    parts += [item for _, item, _ in getattr(step, "transformers_", ())]
    result = max((_form_given_by(item, given) for item in parts), default=Held.DENSE)
    if hasattr(step, "transformer_list"):
        return result
    for option in ("sparse_output_", "sparse_output", "sparse"):  # fitted ones first
        if hasattr(step, option):
            chosen = given if getattr(step, option) == "auto" else getattr(step, option)
            return max(result, Held.SPARSE) if chosen else Held.DENSE
    if hasattr(step, "dense_output"):
        return Held.DENSE if step.dense_output else given
    if hasattr(step, "encode"):
        return Held.SPARSE if step.encode == "onehot" else Held.DENSE
    name = type(step).__name__
    if name == "FunctionTransformer" and given != Held.DENSE and _makes_dense(step):
        return Held.DENSE
    if name in _GRAPHS:
        return Held.WITH_ZEROS if step.mode == "distance" else Held.UNORDERED
    if name in _ALWAYS:
        return max(given, Held.SPARSE)
    return given if name in _KEEPING or hasattr(step, "get_support") else Held.DENSE


def _makes_dense(step: BaseEstimator) -> bool:
    """Whether a FunctionTransformer's function gives an array for a sparse matrix, as ``lambda x: x.toarray()`` does."""
    if step.func is None:
        return False
    row = csr_matrix((1, int(step.n_features_in_)))
    try:
        return not issparse(step.func(row, **(step.kw_args or {})))
    except Exception:  # a user's function may raise anything on what is not its data
        return False
