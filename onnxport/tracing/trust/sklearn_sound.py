"""Whether the arrays of a loaded estimator fit together: scikit-learn's compiled code follows their numbers unchecked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from re._constants import ASSERT, ASSERT_NOT, BRANCH, MAX_REPEAT, MAXREPEAT, MIN_REPEAT, SUBPATTERN  # type: ignore[import-not-found]
from re._parser import parse  # type: ignore[import-not-found]
from typing import Any

import numpy as np
import scipy.sparse
from scipy.interpolate import BSpline
from sklearn.base import BaseEstimator
from sklearn.cluster import BisectingKMeans, KMeans, MiniBatchKMeans
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.neighbors import BallTree, KDTree
from sklearn.svm._base import BaseLibSVM
from sklearn.tree._tree import TREE_LEAF, Tree


def fault_of(estimator: BaseEstimator) -> str | None:
    """What is wrong with one of an estimator's parts; None where all fit.

    Raises:
        Exception: a part is so damaged that it can't be looked at.
    """
    for part in _parts(estimator):
        for kind, check in _CHECKS:
            if isinstance(part, kind) and _is_fitted(part):
                fault = check(part)
                if fault:
                    return fault
    return None


def _is_fitted(part: BaseEstimator) -> bool:
    return (
        not isinstance(part, BaseEstimator) or any(name.endswith("_") for name in vars(part)) or hasattr(part, "input")
    )


def _tree(tree: Tree) -> str | None:
    nodes, left, right = np.arange(tree.node_count), tree.children_left, tree.children_right
    leaf = left == TREE_LEAF
    # children stand behind their node, so that every path ends
    behind = (left > nodes) & (left < len(nodes)) & (right > nodes) & (right < len(nodes))
    if not len(nodes):
        return "a tree has no node"
    if not (leaf | behind).all():
        return "a tree has a child that is no later node of it"
    if not ((tree.feature >= 0) & (tree.feature < tree.n_features) | leaf).all():
        return "a tree asks for a column that its rows do not have"
    return None


def _hist_tree(tree: TreePredictor) -> str | None:
    nodes = tree.nodes
    names = {"is_leaf", "left", "right", "feature_idx", "is_categorical", "bitset_idx"}
    if not isinstance(nodes, np.ndarray) or nodes.ndim != 1 or not len(nodes) or names - {*(nodes.dtype.names or ())}:
        return "a tree of histograms has no nodes"
    place, inner = np.arange(len(nodes)), nodes[nodes["is_leaf"] == 0]
    here = place[nodes["is_leaf"] == 0]
    for side in ("left", "right"):
        child = inner[side].astype(np.int64)
        if not ((child > here) & (child < len(nodes))).all():
            return "a tree of histograms has a child that is no later node of it"
    if (inner["feature_idx"].astype(np.int64) < 0).any():
        return "a tree of histograms asks for a column that its rows do not have"
    for sets in (tree.raw_left_cat_bitsets, tree.binned_left_cat_bitsets):
        used = inner["bitset_idx"][inner["is_categorical"] != 0].astype(np.int64)
        if np.ndim(sets) != 2 or np.shape(sets)[1] != 8 or (used >= len(sets)).any():
            return "a tree of histograms asks for a set of categories that it does not have"
    return None


def _hist_model(model: BaseEstimator) -> str | None:
    """Histogram boosters ask only for columns that their rows have."""
    width = int(model.n_features_in_)
    for row in model._predictors:
        for tree in row:
            inner = tree.nodes[tree.nodes["is_leaf"] == 0]
            if (inner["feature_idx"].astype(np.int64) >= width).any():
                return "a tree of histograms asks for a column that its rows do not have"
    return None


def _ball(tree: Any) -> str | None:
    """A ball tree or k-d tree: ranges within its rows, children within its nodes."""
    state = tree.__getstate__()
    data, order, nodes, bounds = (np.asarray(item) for item in state[:4])
    rows = len(data)
    if data.ndim != 2 or order.shape != (rows,) or ((order < 0) | (order >= rows)).any():
        return "a search tree lists rows that it does not have"
    if nodes.ndim != 1 or bounds.ndim != 3 or bounds.shape[1:] != (len(nodes), data.shape[1]):
        return "the bounds of a search tree do not fit its nodes"
    start, stop = nodes["idx_start"], nodes["idx_end"]
    if ((start < 0) | (stop < start) | (stop > rows)).any():
        return "a node of a search tree lists rows that it does not have"
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    if len(inner) and 2 * inner.max() + 2 >= len(nodes):
        return "a search tree has a child that is no node of it"
    levels, count = (int(item) for item in (state[5], state[6])) if len(state) > 6 else (0, len(nodes))
    if count != len(nodes) or levels > 64:
        return "a search tree has another number of nodes than it declares"
    return None


def _svm(model: BaseEstimator) -> str | None:
    """A support vector machine: what libsvm is handed has the sizes that libsvm takes them for."""
    counts, support = np.asarray(model._n_support), np.asarray(model.support_)
    vectors, weights = model.support_vectors_, model._dual_coef_
    rows, classes = len(support), len(counts)
    if counts.dtype != np.int32 or (counts < 0).any() or support.ndim != 1:
        return "a support vector machine lists vectors that it does not have"
    if model.kernel == "precomputed" or callable(model.kernel):
        if ((support < 0) | (support >= int(model.shape_fit_[0]))).any():
            return "a support vector machine lists rows that it was not fitted on"
    elif vectors.ndim != 2 or vectors.shape != (rows, int(model.n_features_in_)):
        return "the vectors of a support vector machine are no rows of its columns"
    several = model._impl in ("c_svc", "nu_svc")
    if several and (int(counts.sum()) != rows or weights.shape != (classes - 1, rows)):
        return "the weights of a support vector machine do not fit its vectors"
    if not several and weights.shape != (1, rows):
        return "the weights of a support vector machine do not fit its vectors"
    if np.shape(model._intercept_) != ((classes * (classes - 1) // 2,) if several else (1,)):
        return "the intercepts of a support vector machine do not fit its classes"
    if model._sparse and not scipy.sparse.issparse(vectors):
        return "the vectors of a sparse support vector machine are not sparse"
    return None


def _sparse(matrix: object) -> str | None:
    if hasattr(matrix, "check_format"):
        try:
            matrix.check_format(full_check=True)
        except ValueError as error:
            return f"a sparse matrix has wrong indices: {error}"
    return None


def _spline(spline: Any) -> str | None:
    knots, weights = np.asarray(spline.t), np.asarray(spline.c)
    if knots.ndim != 1 or spline.k < 0 or len(knots) < 2 * spline.k + 2 or (np.diff(knots) < 0).any():
        return "a spline's knots do not rise"
    return "a spline has fewer coefficients than knots ask for" if len(weights) < len(knots) - spline.k - 1 else None


def _centers(model: BaseEstimator) -> str | None:
    """Clusters' centers have the columns that the rows have."""
    shape = np.shape(model.cluster_centers_)
    fits = len(shape) == 2 and shape[1] == int(model.n_features_in_)
    return None if fits else "the centers of clusters have other columns"


def _vectorizer(model: BaseEstimator) -> str | None:
    """Documents are texts: with another setting they name files that are opened."""
    if model.input != "content":
        return f"a vectorizer reads its documents from files (input={model.input!r})"
    pattern = model.token_pattern
    endless = isinstance(pattern, str) and _backtracks(parse(pattern))
    return f"the pattern {pattern!r} may never end" if endless else None


def _backtracks(pattern: Any, *, inside: bool = False) -> bool:
    """Whether a repetition stands inside of another: on some texts such a pattern takes time that doubles with each letter."""
    for code, value in pattern:
        if code in (MAX_REPEAT, MIN_REPEAT):
            many = value[1] is MAXREPEAT or value[1] > 50
            if (many and inside) or _backtracks(value[2], inside=inside or many):
                return True
        elif (
            (code is BRANCH and (inside or any(_backtracks(item, inside=inside) for item in value[1])))
            or (code is SUBPATTERN and _backtracks(value[3], inside=inside))
            or (code in (ASSERT, ASSERT_NOT) and _backtracks(value[1], inside=inside))
        ):
            return True
    return False


_CHECKS: tuple[tuple[type | tuple[type, ...], Callable[[Any], str | None]], ...] = (
    (Tree, _tree),
    (TreePredictor, _hist_tree),
    (BaseHistGradientBoosting, _hist_model),
    ((KDTree, BallTree), _ball),
    (BaseLibSVM, _svm),
    ((scipy.sparse.spmatrix, scipy.sparse.sparray), _sparse),
    (BSpline, _spline),
    ((KMeans, MiniBatchKMeans, BisectingKMeans), _centers),
    ((CountVectorizer, HashingVectorizer), _vectorizer),
)


def _parts(pattern: object) -> Iterator[Any]:
    waiting, seen, kept = [pattern], set[int](), []
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, (str, bytes, int, float, type(None))):
            continue
        seen.add(id(item))
        kept.append(item)  # an id is an object's own only as long as it lives
        yield item
        if isinstance(item, Mapping):
            waiting += item.values()
        elif isinstance(item, (list, tuple, set)):
            waiting += item
        elif isinstance(item, np.ndarray):
            waiting += item.ravel().tolist() if item.dtype == object else ()
        else:
            waiting += getattr(item, "__dict__", {}).values()
