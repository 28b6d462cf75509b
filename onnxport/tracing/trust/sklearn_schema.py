"""The schema of a skops file: which kind of node may name which class or function, looked at before anything of it is built.

skops calls what a node names: a list node its class with the items, a tuple node with each of them, a loss with its arguments.
So each kind of node has names of its own, and functions are those that only compute.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnxport.errors import UntrustedFileError
from onnxport.tracing.sklearn_boosters import check as check_booster
from onnxport.tracing.trust.archives import check_zip
from onnxport.tracing.trust.faults import ALLOW_CODE, hostile, reading
from onnxport.tracing.trust.sklearn import is_computing, is_trusted

_DEPTH = 400

_SCALARS = frozenset(f"numpy.{kind.__name__}" for kind in np.sctypeDict.values()) | {
    "numpy.bool",
    "numpy.str_",
    "numpy.bytes_",
}
_PLAIN = "int float complex bool str bytes list tuple dict set object"
_TYPES = _SCALARS | {f"builtins.{name}" for name in _PLAIN.split()}
_BIT_GENERATORS = frozenset("PCG64 PCG64DXSM MT19937 Philox SFC64".split())
# Names that a kind of node may have; kinds that are not here are looked at in `_fits`.
_NAMES: dict[str, frozenset[str]] = {
    "DictNode": frozenset(("builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch")),
    "DefaultDictNode": frozenset(("collections.defaultdict",)),
    "ListNode": frozenset(("builtins.list",)),
    "SetNode": frozenset(("builtins.set", "builtins.frozenset")),
    "SliceNode": frozenset(("builtins.slice",)),
    "BytesNode": frozenset(("builtins.bytes",)),
    "BytearrayNode": frozenset(("builtins.bytearray",)),
    "PartialNode": frozenset(("functools.partial",)),
    "TypeNode": _TYPES | {"numpy.ndarray", "collections.OrderedDict", "collections.defaultdict"},
    "NdArrayNode": _SCALARS | {"numpy.ndarray"},
    "MaskedArrayNode": frozenset(("numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray")),
    "TreeNode": frozenset(("sklearn.tree._tree.Tree",)),
}
_FREE = frozenset(("JsonNode", "CachedNode"))  # they name nothing that is called
_LOSSES = frozenset("sklearn._loss._loss _loss sklearn.linear_model._sgd_fast sklearn._loss.loss _sgd_fast".split())
_METHODS = frozenset(
    "transform inverse_transform predict predict_proba predict_log_proba decision_function score_samples".split()
)
_TEXT_METHODS = frozenset(
    "lower upper strip lstrip rstrip title capitalize casefold swapcase split replace astype".split()
)


def check_skops(place: Path) -> None:
    """Looks through a skops file before skops loads it.

    Raises:
        UntrustedFileError: it names a class or function that does more than compute.
        InvalidModelError: it is damaged.
    """
    title = repr(str(place))
    check_zip(title, place, packed=4)
    with reading(f"{title} is truncated or no skops file"), zipfile.ZipFile(place) as archive:
        schema = json.loads(archive.read("schema.json"))
        handles = [*_handles(schema, archive)]
    for node, where in _nodes(title, schema):
        loader, name = str(node["__loader__"]), f"{node.get('__module__')}.{node.get('__class__')}"
        fault = _fits(loader, name, node)
        if fault:
            raise UntrustedFileError(
                f"{title} holds functions or types that do more than compute, or from outside scikit-learn: {name} "
                f"({fault}, in {where}); {ALLOW_CODE}"
            )
    for library, data in handles:
        check_booster(library, data, title)


def _handles(schema: object, archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    """Library and data of the boosters inside."""
    for node, _ in _nodes("the file", schema):
        package = str(node.get("__module__")).partition(".")[0]
        if node.get("__class__") != "Booster" or package not in ("lightgbm", "xgboost"):
            continue
        content = node["content"]["content"]
        for name in ("handle", "_handle"):
            held = content.get(name)
            if isinstance(held, dict) and "file" in held:
                yield package, archive.read(held["file"])
            elif isinstance(held, dict) and isinstance(held.get("content"), str):
                text = json.loads(held["content"])
                if isinstance(text, str):
                    yield package, text.encode()


def _nodes(title: str, schema: object) -> Iterator[tuple[Mapping[str, Any], str]]:
    waiting: list[tuple[Any, str, int]] = [(schema, "the file", 0)]
    while waiting:
        item, where, depth = waiting.pop()
        if depth > _DEPTH:
            raise hostile(title, f"its objects are nested deeper than {_DEPTH}")
        if isinstance(item, dict):
            if "__loader__" in item:
                yield item, where
                if item["__loader__"] == "ObjectNode":
                    where = str(item.get("__class__"))
            waiting += [(child, where, depth + 1) for child in item.values()]
        elif isinstance(item, list):
            waiting += [(child, where, depth + 1) for child in item]


def _fits(loader: str, name: str, node: Mapping[str, Any]) -> str:
    """What is wrong with a node; nothing where all is well."""
    if loader in _FREE:
        return ""
    if loader in _NAMES:
        return "" if name in _NAMES[loader] else f"not what a {loader} holds"
    module, _, last = name.rpartition(".")
    content = node.get("content")
    match loader:
        case "FunctionNode":
            return "" if is_computing(name) else "a function"
        case "ObjectNode":
            return "" if is_trusted(name) and last not in _TYPES else "a type"
        case "TupleNode":
            kind = is_trusted(name) and last.lstrip("_")[:1].isupper() and module != "numpy"
            named = kind or name == "builtins.tuple"
            return "" if named else "a type"
        case "LossNode":
            return "" if module in _LOSSES and last[:1].isupper() else "a loss"
        case "SparseMatrixNode":
            return "" if module.startswith("scipy.sparse") else "a sparse matrix"
        case "DTypeNode":
            return "" if name.startswith("numpy.dtype") or name in _SCALARS else "a dtype"
        case "RandomStateNode":
            return "" if name.startswith("numpy.random.") and last == "RandomState" else "a random state"
        case "RandomGeneratorNode":
            return "" if _bit_generator(node) in _BIT_GENERATORS else "a random generator"
        case "MethodNode":
            called = content.get("func") if isinstance(content, dict) else None
            return "" if module.startswith("sklearn.") and called in _METHODS else f"the method {called!r}"
        case "OperatorFuncNode":
            return "" if _operator(last, node) else "a function"
    return f"a {loader}"


def _bit_generator(node: Mapping[str, Any]) -> Any:
    try:
        return json.loads(node["content"]["bit_generator"]["content"]["bit_generator"]["content"])
    except (KeyError, TypeError, ValueError):
        return None


def _operator(kind: str, node: Mapping[str, Any]) -> bool:
    """itemgetter of keys, or methodcaller of a method of text: others reach anything by its name."""
    if kind == "itemgetter":
        return True
    try:
        first = json.loads(node["attrs"]["content"][0]["content"])
    except (KeyError, TypeError, ValueError, IndexError):
        return False
    return kind == "methodcaller" and first in _TEXT_METHODS
