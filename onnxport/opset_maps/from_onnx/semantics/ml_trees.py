"""Tree ensembles of ai.onnx.ml: three operators that describe a `Forest`, each in its own attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
import onnx_ir as ir

from onnxport.errors import InvalidModelError, UnsupportedOperator
from onnxport.opset_maps.cases import f32
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.semantics.ml_forest import LEAF, MEMBER, Forest, aggregate, aggregated, scored
from onnxport.opset_maps.from_onnx.semantics.ml_scores import add_second_class, as_rows, labels_of, ml_op, transformed
from onnxport.opset_maps.from_onnx.values import Array, HostValue, Ints, Reals, Strings, Tensor

_MODES = "BRANCH_LEQ BRANCH_LT BRANCH_GTE BRANCH_GT BRANCH_EQ BRANCH_NEQ BRANCH_MEMBER LEAF".split()
# Elements of the dense table of leaf weights beyond which it would not fit; far above what ensembles in use have.
_MAX_TABLE = 1 << 28


def _base(base_values: Reals, as_tensor: HostValue | None, dtype: np.dtype) -> Array | None:
    result = np.asarray(base_values, dtype) if as_tensor is None else as_tensor.array.astype(dtype)
    return result if result.size else None


def _numbers(values: Reals, as_tensor: HostValue | None) -> Array:
    return np.asarray(values, np.float32) if as_tensor is None else as_tensor.array


def _computed_in(xp: Namespace, x: Tensor, *tensors: HostValue | None) -> Tensor:
    """Rows in double where one of the ensemble's tensors or the input is, else in float (ai.onnx.ml, TreeEnsemble)."""
    double = any(item is not None and item.array.dtype == np.float64 for item in tensors)
    wide = double or xp.dtype(x) == ir.DataType.DOUBLE
    return xp.astype(as_rows(xp, x), ir.DataType.DOUBLE if wide else ir.DataType.FLOAT)


class NodeAttributes(TypedDict, total=False):
    """The nodes of an ensemble, one element a node."""

    nodes_falsenodeids: Ints
    nodes_featureids: Ints
    nodes_hitrates: Reals
    nodes_hitrates_as_tensor: HostValue | None
    nodes_missing_value_tracks_true: Ints
    nodes_modes: Strings
    nodes_nodeids: Ints
    nodes_treeids: Ints
    nodes_truenodeids: Ints
    nodes_values: Reals
    nodes_values_as_tensor: HostValue | None


def _forest_of_ids(
    nodes: NodeAttributes, leaves: Iterable[tuple[int, int, int, float]], targets: int, dtype: np.dtype
) -> Forest:
    """The forest whose nodes are named by pairs of tree and node number (TreeEnsembleClassifier, TreeEnsembleRegressor).

    What the leaves give are tree, node, target or class, and weight, the weights of type `dtype`.
    """
    tree_ids, node_ids = nodes.get("nodes_treeids", ()), nodes.get("nodes_nodeids", ())
    modes = nodes.get("nodes_modes", ())
    true_ids, false_ids = nodes.get("nodes_truenodeids", ()), nodes.get("nodes_falsenodeids", ())
    missing_true = nodes.get("nodes_missing_value_tracks_true", ())
    values = _numbers(nodes.get("nodes_values", ()), nodes.get("nodes_values_as_tensor"))
    count = len(node_ids)
    if count * max(targets, 1) > _MAX_TABLE:
        raise UnsupportedOperator(f"{count} nodes with {targets} targets each")
    place = {pair: index for index, pair in enumerate(zip(tree_ids, node_ids, strict=True))}
    unknown = sorted(set(modes) - set(_MODES))
    if unknown:
        raise InvalidModelError(f"nodes_modes holds {', '.join(unknown)}")
    kinds = np.array([_MODES.index(mode) for mode in modes], np.int64)
    own = np.arange(count)
    true, false = own.copy(), own.copy()
    for index in np.flatnonzero(kinds != LEAF).tolist():
        tree = tree_ids[index]
        try:
            true[index], false[index] = place[tree, true_ids[index]], place[tree, false_ids[index]]
        except KeyError as error:
            raise InvalidModelError(f"node {node_ids[index]} of tree {tree} has no child {error.args[0][1]}") from error
    trees = np.asarray(tree_ids)
    roots = own[np.r_[True, trees[1:] != trees[:-1]]] if count else own
    weights, given = np.zeros((count, targets), dtype), np.zeros((count, targets), bool)
    for tree, node, target, weight in leaves:
        leaf = place[tree, node]
        if kinds[leaf] == LEAF:  # onnxruntime ignores weights on inner nodes, which old converters wrote
            weights[leaf, target] += weight
            given[leaf, target] = True
    missing = np.zeros(count, bool)
    missing[: len(missing_true)] = np.asarray(missing_true, bool)
    columns = np.where(kinds == LEAF, 0, np.asarray(nodes.get("nodes_featureids", ()), np.int64))
    return Forest(columns, values, kinds, missing, true, false, roots, weights, given, {})


@ml_op(
    "TreeEnsembleRegressor",
    "float[N, 1] y",
    "nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [1, 0, 0], "
    'nodes_values = [0.5, 0.0, 0.0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], '
    "nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0], "
    "target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.5, -2.5], n_targets = 1",
    f32(7, 2),
    versions=(1, 3, 5),
)
def tree_ensemble_regressor(
    xp: Namespace,
    x: Tensor,
    *,
    aggregate_function: str = "SUM",
    base_values: Reals = (),
    base_values_as_tensor: HostValue | None = None,
    n_targets: int = 1,
    post_transform: str = "NONE",
    target_ids: Ints = (),
    target_nodeids: Ints = (),
    target_treeids: Ints = (),
    target_weights: Reals = (),
    target_weights_as_tensor: HostValue | None = None,
    **nodes: Unpack[NodeAttributes],
) -> Tensor:
    """Sum, average, least or greatest leaf weight of each target; the result is FLOAT."""
    weights = _numbers(target_weights, target_weights_as_tensor)
    leaves = zip(target_treeids, target_nodeids, target_ids, weights, strict=True)
    forest = _forest_of_ids(nodes, leaves, n_targets, weights.dtype)
    rows = _computed_in(xp, x, nodes.get("nodes_values_as_tensor"), target_weights_as_tensor, base_values_as_tensor)
    base = _base(base_values, base_values_as_tensor, weights.dtype)
    scores = aggregated(xp, forest, rows, aggregate_function, base)
    return xp.astype(_transformed(xp, scores, post_transform), ir.DataType.FLOAT)


def _transformed(xp: Namespace, scores: Tensor, name: str) -> Tensor:
    """The post-transform of a regression: of one target onnxruntime applies only PROBIT, as there is no second class."""
    if xp.shape(scores)[1] == 1 and name != "PROBIT":
        return scores
    return transformed(xp, scores, name)


@ml_op(
    "TreeEnsembleClassifier",
    "int64[N] label, float[N, 3] scores",
    "nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [1, 0, 0], "
    'nodes_values = [0.5, 0.0, 0.0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], '
    "nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], class_treeids = [0, 0], "
    "class_nodeids = [1, 2], class_ids = [0, 2], class_weights = [1.5, 2.5], classlabels_int64s = [3, 4, 5]",
    f32(7, 2),
    versions=(1, 3, 5),
)
def tree_ensemble_classifier(
    xp: Namespace,
    x: Tensor,
    *,
    base_values: Reals = (),
    base_values_as_tensor: HostValue | None = None,
    class_ids: Ints = (),
    class_nodeids: Ints = (),
    class_treeids: Ints = (),
    class_weights: Reals = (),
    class_weights_as_tensor: HostValue | None = None,
    classlabels_int64s: Ints = (),
    classlabels_strings: Strings = (),
    post_transform: str = "NONE",
    **nodes: Unpack[NodeAttributes],
) -> tuple[Tensor, Tensor]:
    """Label and scores of each class; FLOAT.

    Two classes with weights for one of them only are the binary case, in which the other's score is what is left to 1 of
    positive weights, and the negative of any others.
    """
    labels = classlabels_strings or classlabels_int64s
    weights = _numbers(class_weights, class_weights_as_tensor)
    leaves = zip(class_treeids, class_nodeids, class_ids, weights, strict=True)
    forest = _forest_of_ids(nodes, leaves, max(len(labels), 1), weights.dtype)
    rows = _computed_in(xp, x, nodes.get("nodes_values_as_tensor"), class_weights_as_tensor, base_values_as_tensor)
    base = _base(base_values, base_values_as_tensor, weights.dtype)
    at = forest.leaves(xp, rows)
    votes = aggregate(xp, forest, at, xp.dtype(rows), "SUM", None)
    voted = scored(xp, forest, at)
    if len(labels) == 2:
        binary, positive = len(set(class_ids)) == 1, bool((weights >= 0).all())
        label, scores = _two_classes(xp, votes, voted, base, binary, positive, labels, post_transform)
    elif len(labels) == 1:
        label, scores = _one_class(xp, votes, base, labels, post_transform)
    else:
        label, scores = _many_classes(xp, votes, voted, base, labels, post_transform)
    return label, xp.astype(scores, ir.DataType.FLOAT)


def _many_classes(
    xp: Namespace, votes: Tensor, scored: Tensor | None, base: Array | None, labels: Sequence[Any], transform: str
) -> tuple[Tensor, Tensor]:
    """The greatest score wins, among those classes that got a vote or a base value."""
    if base is not None:
        filled = np.zeros(len(labels), base.dtype)
        filled[: len(base)] = base[: len(labels)]
        votes = xp.add(votes, xp.astype(xp.constant(filled), xp.dtype(votes)))
    candidates = votes
    if scored is not None and (base is None or len(base) < len(labels)):
        given = np.arange(len(labels)) < (0 if base is None else len(base))
        candidates = xp.where(xp.logical_or(scored, xp.constant(given[None])), votes, float("-inf"))
    return labels_of(xp, xp.argmax(candidates, 1), labels), transformed(xp, votes, transform)


def _one_class(
    xp: Namespace, votes: Tensor, base: Array | None, labels: Sequence[Any], transform: str
) -> tuple[Tensor, Tensor]:
    """A single class: the sign of its score decides between the labels 1 and 0 (onnxruntime; the specification is silent)."""
    if isinstance(labels[0], str):
        raise UnsupportedOperator("a single class with a string label")
    scores = votes if base is None else xp.add(votes, xp.astype(xp.constant(base[-1:]), xp.dtype(votes)))
    label = xp.squeeze(xp.astype(xp.greater(scores, 0), ir.DataType.INT64), (1,))
    return label, transformed(xp, scores, transform) if transform == "PROBIT" else scores


def _two_classes(
    xp: Namespace,
    votes: Tensor,
    scored: Tensor | None,
    base: Array | None,
    binary: bool,
    positive_weights: bool,
    labels: Sequence[Any],
    transform: str,
) -> tuple[Tensor, Tensor]:
    """onnxruntime's reading of two classes, where the specification leaves all open.

    A score of class 1 decides, by being above 0, or above 0.5 where all weights are positive and for one class only. Where
    class 1 has no votes, class 0's score decides in its stead, and the scores are computed from it (`add_second_class`).
    """
    first, second = (xp.slice(votes, 1, i, i + 1) for i in (0, 1))
    threshold = 0.5 if binary and positive_weights else 0.0
    names = labels if binary or isinstance(labels[0], str) else (0, 1)
    voted = [None, None] if scored is None else [xp.slice(scored, 1, i, i + 1) for i in (0, 1)]

    def seen(score: Tensor, given: Tensor | None) -> Tensor:
        return score if given is None else xp.where(given, score, 0)

    two = base is not None and len(base) == 2
    if two and base is not None:
        both_second = xp.add(first, float(base[1]))
        both = xp.concat([seen(xp.negative(both_second), voted[0]), both_second], 1)
    else:
        both_second = second
        moved = first if base is None else xp.add(first, float(base[0]))
        both = xp.concat([seen(moved, voted[0]), second], 1)
    both = transformed(xp, both, transform)
    if voted[1] is None:
        decisive, scores = both_second, both
    else:
        alone = first if base is None else xp.add(first, float(base[0]))
        if two:
            lone = transformed(xp, xp.concat([seen(alone, voted[0]), xp.multiply(alone, 0.0)], 1), transform)
        else:
            lone = add_second_class(xp, alone, transform, complement=binary and positive_weights)
        decisive = xp.where(voted[1], both_second, alone)
        scores = xp.where(voted[1], both, lone)
    winner = xp.squeeze(xp.astype(xp.greater(decisive, threshold), ir.DataType.INT64), (1,))
    return labels_of(xp, winner, names), scores


# Numbers of the enumerations in ai.onnx.ml-5's TreeEnsemble.
_AGGREGATES_5 = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS_5 = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@ml_op("TreeEnsemble", versions=(5,))
def tree_ensemble(
    xp: Namespace,
    x: Tensor,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Ints = (),
    leaf_weights: HostValue,
    membership_values: HostValue | None = None,
    n_targets: int = 1,
    nodes_falseleafs: Ints = (),
    nodes_falsenodeids: Ints = (),
    nodes_featureids: Ints = (),
    nodes_hitrates: HostValue | None = None,
    nodes_missing_value_tracks_true: Ints = (),
    nodes_modes: HostValue,
    nodes_splits: HostValue,
    nodes_truenodeids: Ints = (),
    nodes_trueleafs: Ints = (),
    post_transform: int = 0,
    tree_roots: Ints = (),
) -> Tensor:
    """Sum, average, least or greatest leaf weight of each target, in the type of x.

    The post-transform is the specification's, which no runtime keeps to (docs/runtimes.md).
    """
    inner, leaves = len(nodes_featureids), len(leaf_targetids)
    modes = nodes_modes.array.astype(np.int64)
    if (modes > MEMBER).any():
        raise InvalidModelError(f"nodes_modes holds {modes.max()}")
    count = inner + leaves
    own = np.arange(count)
    true, false = own.copy(), own.copy()
    true[:inner] = np.asarray(nodes_truenodeids) + inner * np.asarray(nodes_trueleafs)
    false[:inner] = np.asarray(nodes_falsenodeids) + inner * np.asarray(nodes_falseleafs)
    weights = np.zeros((count, n_targets), leaf_weights.array.dtype)
    given = np.zeros((count, n_targets), bool)
    weights[inner + np.arange(leaves), leaf_targetids] = leaf_weights.array
    given[inner + np.arange(leaves), leaf_targetids] = True
    missing = np.zeros(count, bool)
    missing[: len(nodes_missing_value_tracks_true)] = np.asarray(nodes_missing_value_tracks_true, bool)
    forest = Forest(
        features=np.r_[np.asarray(nodes_featureids, np.int64), np.zeros(leaves, np.int64)],
        values=np.r_[nodes_splits.array, np.zeros(leaves, nodes_splits.array.dtype)],
        modes=np.r_[modes, np.full(leaves, LEAF)],
        missing_true=missing,
        true=true,
        false=false,
        roots=np.asarray(tree_roots, np.int64),
        weights=weights,
        given=given,
        members=_members(modes, membership_values),
    )
    scores = aggregated(xp, forest, as_rows(xp, x), _AGGREGATES_5[aggregate_function], None)
    return transformed(xp, scores, _TRANSFORMS_5[post_transform])


def _members(modes: Array, values: HostValue | None) -> dict[int, Array]:
    """The sets of the MEMBER nodes, in the order of the nodes: between them in `values` stands a NaN."""
    nodes = np.flatnonzero(modes == MEMBER)
    if not nodes.size:
        return {}
    if values is None:
        raise InvalidModelError("BRANCH_MEMBER without membership_values")
    array = values.array
    ends = np.flatnonzero(np.isnan(array.astype(np.float64)))
    ends = ends if ends.size and len(ends) >= len(nodes) else np.r_[ends, len(array)]
    starts = np.r_[0, ends[:-1] + 1]
    return {int(node): array[start:end] for node, start, end in zip(nodes, starts, ends, strict=False)}
