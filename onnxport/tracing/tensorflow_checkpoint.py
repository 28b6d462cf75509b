"""Checkpoints of TensorFlow 1, a graph beside its variables, read as a frozen graph: nothing of them runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

from onnxport.errors import InvalidModelError
from onnxport.tracing.trust.faults import existing_file, reading
from onnxport.tracing.trust.tensorflow import check_graph_def

_VARIABLES = frozenset(("Variable", "VariableV2", "VarHandleOp"))
_DEFAULT = "PlaceholderWithDefault"  # fed where something computes with it: the saver has one for the file's name
_SETTING = re.compile(r"Assign(VariableOp)?$")
_ACTING = re.compile(
    r"Assign\w*|Save\w*|Restore\w*|MergeV2\w*|ShardedFile\w+|(Resource|Sparse)*Apply\w+"
    r"|(Resource)?Scatter(Add|Sub|Mul|Div|Min|Max|Update|NdUpdate)|VarIsInitializedOp|IsVariableInitialized|CountUpTo"
    r"|\w*Summary(V2)?|\w*SummaryWriter|NoOp"
)


def load_checkpoint(path: Path, *, allow_code: bool) -> tf.compat.v1.GraphDef:
    """The graph of a checkpoint's file with the variables beside it as constants, without what sets and saves them.

    Raises:
        UntrustedFileError: running it would do more than compute, and `allow_code` is not set.
        InvalidModelError: it is damaged, or the variables are not there.
    """
    meta = MetaGraphDef()
    with reading(f"{str(path)!r} is corrupt or no graph of a checkpoint"):
        meta.ParseFromString(existing_file(path).read_bytes())
    graph = _inference(meta.graph_def)
    if not graph.node:
        raise InvalidModelError(f"{str(path)!r} is no graph of a checkpoint: nothing in it computes")
    if not allow_code:
        check_graph_def(path, graph)
    prefix = path.with_suffix("")
    if not prefix.with_name(f"{prefix.name}.index").exists():
        raise InvalidModelError(f"{str(path)!r}: no variables beside it: {prefix.name}.index is missing")
    with reading(f"the variables of {str(prefix)!r} can't be read"):
        values = tf.train.load_checkpoint(str(prefix))
        for node in graph.node:
            _freeze(node, values, prefix)
    return graph


def _inference(graph: Any) -> Any:
    """The nodes that compute: without those that act on variables and files, what depends on them, and initial values."""
    sources = {node.name: [name.lstrip("^").partition(":")[0] for name in node.input] for node in graph.node}
    acting: set[str] = set()
    for node in graph.node:  # in the order of their dependencies, but for loops
        if _ACTING.match(node.op) or (acting.intersection(sources[node.name]) and node.op != "Merge"):
            acting.add(node.name)
    readers: dict[str, set[str]] = {name: set() for name in sources}
    for name, read in sources.items():
        for item in read:
            readers.setdefault(item, set()).add(name)
    initial = {node.name for node in graph.node if _SETTING.match(node.op)}
    for node in reversed(graph.node):
        if node.op not in _VARIABLES and readers[node.name] and readers[node.name] <= initial:
            initial.add(node.name)
    left = [node for node in graph.node if node.name not in acting | initial]
    result = tf.compat.v1.GraphDef(versions=graph.versions, library=graph.library)
    wanted = _asked_for(left, sources)
    result.node.extend(node for node in left if node.name in wanted)
    return result


def _asked_for(nodes: Sequence[Any], sources: Mapping[str, Sequence[str]]) -> set[str]:
    """The nodes that compute from what is fed, and what they read: not what the saver alone reads; all where nothing is fed."""
    read = {name for node in nodes if node.op != _DEFAULT for name in sources[node.name]}
    fed = {node.name for node in nodes if node.op == "Placeholder" or (node.op == _DEFAULT and node.name in read)}
    for node in [*nodes, *nodes]:  # twice, for loops
        if fed.intersection(sources[node.name]):
            fed.add(node.name)
    stack, result = list(fed or sources), set[str]()
    while stack:
        name = stack.pop()
        if name not in result:
            result.add(name)
            stack.extend(sources.get(name, ()))
    return result


def _freeze(node: Any, values: Any, prefix: Path) -> None:
    """Makes a constant of a variable, in place; what reads a variable gives it on."""
    if node.op == "ReadVariableOp":
        dtype = node.attr["dtype"].type
        node.op = "Identity"
        node.attr.clear()
        node.attr["T"].type = dtype
    elif node.op in _VARIABLES:
        name = node.attr["shared_name"].s.decode() or node.name
        if not values.has_tensor(name):
            raise InvalidModelError(f"the checkpoint {str(prefix)!r} has no variable {name!r}")
        array = values.get_tensor(name)
        node.op = "Const"
        del node.input[:]
        node.attr.clear()
        node.attr["dtype"].type = tf.as_dtype(array.dtype).as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(array))
