"""Whether the trees in a file of XGBoost or LightGBM lead anywhere: both libraries follow their numbers unchecked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from onnxport.tracing.trust.sklearn_ubjson import decoded

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LINE = re.compile(r"(tree|average_output|\w+=.*)?", re.ASCII)
_TAIL = re.compile(
    r"\s*(feature_importances?:\n([^\n]+=[-+.\deE]+\n)*)?\s*(parameters:\n(\[\w+:[^\n]*\]\n|\n)*end of parameters\n)?\s*"
    r"(pandas_categorical:[^\n]*)?\s*",
    re.ASCII,
)
_TREE = re.compile(r"^Tree=(\d+)$", re.MULTILINE)


def fault_of_xgboost(data: bytes) -> str | None:
    """What is wrong with a model in JSON or UBJSON; None where its trees lead from their roots to leaves.

    Raises:
        Exception: the data is so damaged that it can't be read.
    """
    content = json.loads(data) if re.match(rb"\s*\{\s*(\"|\})", data) else decoded(data)
    content = content.get("Model", content)  # beside the configuration, in a pickle
    learner = content["learner"]
    width = int(learner["learner_model_param"]["num_feature"])
    groups = max(int(learner["learner_model_param"].get(name, 1)) for name in ("num_class", "num_target"))
    booster = learner["gradient_booster"]
    booster = booster.get("gbtree", booster)
    model = booster["model"]
    if booster.get("name") == "gblinear" or "weights" in model:
        weights = np.asarray(model["weights"], float)
        return None if weights.shape == ((width + 1) * max(groups, 1),) else "its weights do not fit its columns"
    trees, kinds = model["trees"], [int(item) for item in model["tree_info"]]
    if int(model["gbtree_model_param"]["num_trees"]) != len(trees) or len(kinds) != len(trees):
        return "it has another number of trees than it declares"
    if any(not 0 <= kind < max(groups, 1) for kind in kinds):
        return "a tree belongs to a class that it does not have"
    bounds = [int(item) for item in model.get("iteration_indptr", [0, len(trees)])]
    if bounds != sorted(bounds) or bounds[:1] != [0] or bounds[-1] != len(trees):
        return "its iterations do not fit its trees"
    faults = (_fault_of_node_lists(tree, width) for tree in trees)
    return next((f"tree {index}: {fault}" for index, fault in enumerate(faults) if fault), None)


def _fault_of_node_lists(tree: Mapping[str, Any], width: int) -> str | None:
    param = tree["tree_param"]
    count, columns = int(param["num_nodes"]), int(param["num_feature"])
    vector = max(int(param.get("size_leaf_vector", 1)), 1)
    names = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
    lists = {name: tree[name] for name in names}
    if count < 1 or any(len(values) != count for values in lists.values()):
        return "its lists have another length than it has nodes"
    per_node = [tree.get(name, lists["default_left"]) for name in ("parents", "sum_hessian", "loss_changes")]
    if len(tree["base_weights"]) != count * vector or any(len(values) != count for values in per_node):
        return "its weights have another length than it has nodes"
    left, right, split = (np.asarray(lists[name], np.int64) for name in names[:3])
    inner = left != -1
    if vector > 1:  # a leaf has the number of its weights as its right child
        rows = len(tree["leaf_weights"]) // vector
        if len(tree["leaf_weights"]) % vector or ((right < 0) | (right >= rows))[~inner].any():
            return "its weights have another length than it has leaves"
        right = np.where(inner, right, -1)
    if ((left < -1) | (right < -1) | ((left == -1) != (right == -1))).any() or not _ends(left, right, 0):
        return "a child is no node of it, or leads back"
    if ((split < 0) | (split >= min(width, columns)))[inner].any():
        return "it asks for a column that its rows do not have"
    kinds = np.asarray(tree.get("split_type", np.zeros(count)), np.int64)
    if len(kinds) not in (0, count) or not np.isin(kinds, (0, 1)).all():
        return "a split is of no known kind"
    return _fault_of_categories(tree, count, kinds)


def _fault_of_categories(tree: Mapping[str, Any], count: int, kinds: np.ndarray) -> str | None:
    names = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    values, nodes, starts, sizes = (np.asarray(tree.get(name, ()), np.int64) for name in names)
    outside = ((nodes < 0) | (nodes >= count)).any()
    if not len(nodes) == len(starts) == len(sizes) or outside or (np.diff(nodes) <= 0).any():
        return "its lists of categories do not fit its nodes"
    if set(nodes.tolist()) != set(np.flatnonzero(kinds == 1).tolist()):
        return "its lists of categories do not fit its nodes"
    if ((starts < 0) | (sizes < 0) | (starts + sizes > len(values))).any() or ((values < 0) | (values > 1 << 24)).any():
        return "its lists of categories lead out of them"
    return None


def _ends(left: Sequence[int] | np.ndarray, right: Sequence[int] | np.ndarray, root: int) -> bool:
    """Whether all paths from the root end, and no two meet; children below 0 are leaves."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = int(waiting.pop())
        if node >= len(left) or node in seen:
            return False
        seen.add(node)
        waiting += [int(child) for child in (left[node], right[node]) if child >= 0]
    return True


def fault_of_lightgbm(text: str) -> str | None:
    """What is wrong with a model as text; None where its trees lead from their roots to leaves.

    Raises:
        Exception: the text is so damaged that it can't be read.
    """
    if _CONTROL.search(text):
        return "it holds a control character"
    if not text.startswith("tree"):
        return "of text files the models of LightGBM are read, which begin with the word tree"
    body, mark, tail = text.replace("\r\n", "\n").partition("\nend of trees")
    if not mark or _TAIL.fullmatch(tail) is None:
        return "what follows its trees is of no known form"  # LightGBM reads beyond the end where that is missing
    odd = next((line for line in body.split("\n") if _LINE.fullmatch(line) is None), None)
    if odd is not None:
        return f"it holds the line {odd[:80]!r}"
    starts = [match.start() for match in _TREE.finditer(text)]
    header = _fields(text[: starts[0]] if starts else text)
    width = int(header["max_feature_idx"]) + 1
    if width < 1 or len(header["feature_names"].split()) != width or len(header["feature_infos"].split()) != width:
        return "it has another number of columns than names"
    groups, classes = int(header["num_tree_per_iteration"]), int(header["num_class"])
    if not 1 <= groups <= 1 << 20 or not 1 <= classes <= 1 << 20 or len(starts) % groups:
        return "its trees do not fit its classes"
    sizes = [int(size) for size in header["tree_sizes"].split()] if header.get("tree_sizes") else []
    places = np.cumsum([0, *sizes])[:-1].tolist()
    offsets = [len(text[starts[0] : start].encode()) for start in starts] if starts else []
    if sizes and places != offsets:
        return "its trees do not stand where it declares them"
    end = text.find("\nend of trees")
    for index, start in enumerate(starts):
        stop = starts[index + 1] if index + 1 < len(starts) else end if end >= 0 else len(text)
        fault = _fault_of_fields(_fields(text[start:stop]), width)
        if fault:
            return f"tree {index}: {fault}"
    return None


def _fields(text: str) -> dict[str, str]:
    pairs = [line.partition("=") for line in text.split("\n")]
    entries = {name: value.rstrip("\r") for name, sign, value in pairs if sign}
    if len(entries) != sum(bool(sign) for _, sign, _ in pairs):
        raise ValueError("a field stands there twice")
    return entries


def _fault_of_fields(tree: Mapping[str, str], width: int) -> str | None:
    leaves, sets = int(tree["num_leaves"]), int(tree["num_cat"])
    if leaves < 1 or sets < 0:
        return "it has no leaf"
    values = _numbers(tree["leaf_value"], float)
    if len(values) != leaves:
        return "its lists have another length than it has nodes"
    if leaves == 1:
        return None
    names = ("split_feature", "left_child", "right_child", "decision_type")
    split, left, right, kinds = (_numbers(tree[name], int) for name in names)
    bounds = _numbers(tree["threshold"], float)
    if any(len(values) != leaves - 1 for values in (split, left, right, kinds, bounds)):
        return "its lists have another length than it has nodes"
    for name in ("split_gain", "internal_value", "internal_weight", "internal_count", "leaf_weight", "leaf_count"):
        if name in tree and len(_numbers(tree[name], float)) != leaves - (not name.startswith("leaf")):
            return "its lists have another length than it has nodes"
    children = [*left, *right]
    ends = sorted(~child for child in children if child < 0)
    if not _ends(left, right, 0) or ends != list(range(leaves)):
        return "a child is no node of it, or leads back"
    if any(not 0 <= column < width for column in split):
        return "it asks for a column that its rows do not have"
    used = [bound for bound, kind in zip(bounds, kinds, strict=True) if kind & 1]
    return _fault_of_sets(tree, sets, used) or _fault_of_lines(tree, leaves, width)


def _fault_of_sets(tree: Mapping[str, str], sets: int, used: Sequence[float]) -> str | None:
    if not sets:
        return "it asks for categories that it does not have" if used else None
    bounds, values = _numbers(tree["cat_boundaries"], int), _numbers(tree["cat_threshold"], int)
    if len(bounds) != sets + 1 or bounds != sorted(bounds) or bounds[0] != 0 or bounds[-1] != len(values):
        return "its lists of categories lead out of them"
    fits = all(bound == int(bound) and 0 <= bound < sets for bound in used)
    return None if fits else "it asks for categories that it does not have"


def _fault_of_lines(tree: Mapping[str, str], leaves: int, width: int) -> str | None:
    """Trees with a linear model in each leaf."""
    if int(tree.get("is_linear", "0")) == 0:
        return None
    counts, columns = _numbers(tree["num_features"], int), _numbers(tree["leaf_features"], int)
    weights = _numbers(tree["leaf_coeff"], float)
    fits = len(counts) == leaves == len(_numbers(tree["leaf_const"], float)) and all(count >= 0 for count in counts)
    fits = fits and sum(counts) == len(columns) == len(weights) and all(0 <= column < width for column in columns)
    return None if fits else "its linear leaves do not fit its columns"


def _numbers(text: str, kind: type[int] | type[float]) -> list[Any]:
    words: Iterable[str] = text.split()
    if "_" in text or not text.isascii():  # which Python takes and C++ does not
        raise ValueError(f"{text[:80]!r} are no numbers")
    return [kind(item) for item in words]
