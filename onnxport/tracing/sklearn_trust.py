"""Which types and functions a skops file may hold: what computes, not what reads or writes files, downloads or runs code.

An estimator's own functions run when it is validated, and one step can hand any text to the next: a file may therefore not
name `numpy.load` either, which reads pickles.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.tree._tree import TREE_LEAF, Tree

_NUMERIC = frozenset(("numpy", "scipy", "sklearn"))
_ESTIMATORS = frozenset(("catboost", "category_encoders", "collections", "imblearn", "lightgbm", "xgboost"))
# Parts of these packages that act, and what acts in the rest. SciPy's distributions run text of their own when they are loaded.
_ACTING_MODULES = frozenset(
    "_build_utils _continuous_distns _core _datasource _discrete_distns _distn_infrastructure _lib _mocking _npyio_impl "
    "_pytesttester _testing conftest ctypeslib datasets distutils externals f2py io lib npyio show_versions testing "
    "tests".split()
)
_ACTING = frozenset(
    "DataSource NpzFile frombuffer fromfile fromregex genfromtxt info load load_npz loadtxt memmap open_memmap save save_npz "
    "savetxt savez savez_compressed show_config show_runtime source test".split()
)


def is_trusted(name: str) -> bool:
    """Whether what a name says may be loaded.

    >>> is_trusted("numpy.clip"), is_trusted("numpy.load"), is_trusted("numpy.testing._private.utils.measure")
    (True, False, False)
    """
    package, *modules, last = name.split(".")
    if package == "builtins":
        return not modules and isinstance(getattr(builtins, last, None), type)
    if package in _ESTIMATORS:  # of these classes alone
        return last.lstrip("_")[:1].isupper() or (package == "collections" and last in ("defaultdict", "deque"))
    if modules[:2] == ["_lib", "array_api_compat"]:  # which SciPy keeps among what is its own
        del modules[0]
    return package in _NUMERIC and _ACTING_MODULES.isdisjoint(modules) and last not in _ACTING


def unsound_tree(estimator: Any) -> str | None:
    """What is wrong with one of an estimator's trees; None of sound ones. scikit-learn follows their numbers unchecked."""
    for tree in _trees(estimator):
        nodes, left, right = np.arange(tree.node_count), tree.children_left, tree.children_right
        leaf = left == TREE_LEAF
        # children stand behind their node, so that every path ends
        behind = (left > nodes) & (left < len(nodes)) & (right > nodes) & (right < len(nodes))
        if not (leaf | behind).all():
            return "a tree has a child that is no later node of it"
        if not ((tree.feature >= 0) & (tree.feature < tree.n_features) | leaf).all():
            return "a tree asks for a column that its rows do not have"
    return None


def _trees(found: Any) -> Iterator[Tree]:
    waiting, seen = [found], set()
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, (str, bytes, int, float, type(None))):
            continue
        seen.add(id(item))
        if isinstance(item, Tree):
            yield item
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, (list, tuple, set)):
            waiting += item
        elif isinstance(item, np.ndarray):
            waiting += item.ravel().tolist() if item.dtype == object else ()
        else:
            waiting += getattr(item, "__dict__", {}).values()
