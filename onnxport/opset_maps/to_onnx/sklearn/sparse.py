"""Which tables scikit-learn hands on as sparse matrices.

The graph's tables are dense, and nearly every estimator computes the same from either form. XGBoost does not: what a sparse
matrix leaves out is a missing value for it, not a zero. So a table is marked where scikit-learn makes it sparse.
"""

from __future__ import annotations

from typing import Any

from onnxport.opset_maps.to_onnx.sklearn.table import Frame, Table

_MARK = "onnxport.sparse"
_ALWAYS = frozenset("CountVectorizer TfidfVectorizer HashingVectorizer TfidfTransformer".split())
# Transformers that give a sparse matrix for a sparse one (those that choose columns besides).
_KEEPING = frozenset(
    "AdditiveChi2Sampler Binarizer FunctionTransformer MaxAbsScaler MissingIndicator Normalizer PolynomialFeatures "
    "QuantileTransformer RobustScaler SimpleImputer StandardScaler".split()
)
# Nodes that hand rows on as they are.
_PASSING = frozenset(("Cast", "Gather", "Identity", "Slice"))


def is_sparse(x: Table) -> bool:
    """Whether scikit-learn holds the table as a sparse matrix."""
    if isinstance(x, Frame):
        return False
    while not x.meta.get(_MARK):
        node = x.producer()
        if node is None or node.op_type not in _PASSING or node.inputs[0] is None:
            return False
        x = node.inputs[0]
    return True


def handed_on(step: Any, given: Table, result: Any) -> Any:
    """What a step of a pipeline made of a table, marked where that is a sparse matrix."""
    if not isinstance(result, Frame) and gives_sparse(step, given=is_sparse(given)):
        mark_sparse(result)
    return result


def mark_sparse(x: Any) -> None:
    """Says that scikit-learn holds the table as a sparse matrix."""
    x.meta[_MARK] = True


def gives_sparse(step: Any, *, given: bool) -> bool:
    """Whether a fitted transformer gives a sparse matrix; `given` says whether it is given one."""
    if hasattr(step, "transformer_list"):
        parts = [item for _, item in step.transformer_list if item != "drop"]
        return any(gives_sparse(item, given=given) for item in parts)
    if hasattr(step, "steps"):
        for _, inner in step.steps:
            given = gives_sparse(inner, given=given)
        return given
    if step is None or step == "passthrough":
        return given
    for option in ("sparse_output_", "sparse_output", "sparse"):  # fitted ones first
        if hasattr(step, option):
            return bool(getattr(step, option))
    if hasattr(step, "encode"):
        return bool(step.encode == "onehot")
    name = type(step).__name__
    return name in _ALWAYS or (given and (name in _KEEPING or hasattr(step, "get_support")))
