"""Which operators a SavedModel or a frozen graph from a file may hold: what computes, not what acts on the machine.

Loading a SavedModel runs the initialisers of its resources, and proving a conversion runs its functions. Both run only
operators without side effects, and those on variables, tables, lists and random states, which live in the process.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.protobuf.meta_graph_pb2 import AssetFileDef
from tensorflow.python.framework import op_def_registry  # no public form tells which operators have side effects

from onnxport.tracing.trust.faults import LARGEST, check_bytes, damaged, hostile, most_bytes, reading, untrusted

# Operators with a state of their own that stays in the process.
_STATEFUL = re.compile(
    r"_Arg|_Retval|_?If|_?While|Case|StatefulPartitionedCall|Assert|Print|CheckNumerics(V2)?|DeepCopy|Empty|GuaranteeConst"
    r"|Variable(V2)?|TemporaryVariable|VarHandleOp|ReadVariableOp|Assign(Add|Sub)?VariableOp|VarIsInitializedOp|VariableShape"
    r"|DestroyResourceOp|DisableCopyOnRead|IsResourceHandleRefCounting|MakeWeakResourceHandle"
    r"|Resource(Gather(Nd)?|Scatter\w+|StridedSliceAssign|CountUpTo|(Sparse)?Apply\w+)"
    r"|TensorArray\w*|Stack(Push|Pop|Close)?(V2)?"
    r"|(Anonymous)?(Mutable(Dense)?)?HashTable(OfTensors)?(V2)?|LookupTable(Find|Insert|Remove|Size|Export|Import)(V2)?"
    r"|InitializeTableV2|InitializeTableFromTextFileV2"
    r"|Random(Uniform(Int)?|StandardNormal|Gamma|Poisson(V2)?|Shuffle|Crop)|(Parameterized)?TruncatedNormal|Multinomial"
    r"|Stateful(Uniform\w*|StandardNormal\w*|TruncatedNormal|RandomBinomial)|StatelessRandomGetAlg|NonDeterministicInts"
    r"|Rng(Skip|ReadAndSkip)|\w*CandidateSampler|SampleDistortedBoundingBox(V2)?|Skipgram|CudnnRNN\w*|BoostedTrees\w+"
    r"|AddSparseToTensorsMap|AddManySparseToTensorsMap|TakeManySparseFromTensorsMap"
)
# Operators that TensorFlow calls stateless though they read, write, call or trace.
_ACTING = re.compile(
    r"ReadFile|MatchingFiles|\w*Reader\w*|InitializeTableFromTextFile|PyFuncStateless|Debug\w+|CopyHost|Copy|\w*Dataset\w*"
    r"|Xla(Launch|CustomCall|Host)\w*|TPU\w*|RegisterDataset\w*|ShardedFilespec|SparseCore\w*|\w*Summary(V2)?|Iterator\w*"
)
# Operators that make a tensor of a size that stands in the graph.
_GROWING = re.compile(
    r"Fill|Tile|Pad|PadV2|MirrorPad|BroadcastTo|Range|LinSpace|Empty|OneHot|ScatterNd|SparseToDense|(Dense)?Bincount"
    r"|(Stateless|Stateful)?(Random|Truncated|Uniform|StandardNormal)\w*|Resize\w+|MatrixDiag\w*|TensorListReserve"
)
_TEXT_FILE = re.compile(r"InitializeTableFromTextFile(V2)?")
_LOGGED = re.compile(r"stdout|stderr|log\((info|warning|error)\)")
_NODES = 1_000_000


def check_saved_model(folder: Path, saved: Any) -> None:
    """Looks through a parsed ``SavedModel`` before TensorFlow loads it from its folder.

    Raises:
        UntrustedFileError: loading or running it would do more than compute.
        InvalidModelError: it is damaged.
    """
    size = sum(item.stat().st_size for item in folder.rglob("*") if item.is_file())
    _check_variables(folder, size)
    objects = len(saved.meta_graphs) == 1 and saved.meta_graphs[0].HasField("object_graph_def")
    for meta in saved.meta_graphs:
        _check_assets(folder, meta)
        graph = _Library(repr(str(folder)), meta.graph_def, size)
        saver = _saver_nodes(meta, by_objects=objects)
        called = {name for node in meta.graph_def.node if node.name not in saver for name in graph.calls(node)}
        called |= set(meta.object_graph_def.concrete_functions)
        called |= {item for node in meta.object_graph_def.nodes for item in node.function.concrete_functions}
        called |= {node.bare_concrete_function.concrete_function_name for node in meta.object_graph_def.nodes}
        known = frozenset(name.partition(":")[0] for name, _ in _asset_files(meta) if name)
        # TensorFlow runs no node outside of functions of a model of objects: what their calls are given does not matter.
        outside = frozenset(node.name for node in meta.graph_def.node) if objects else known
        graph.check([node for node in meta.graph_def.node if node.name not in saver], "", outside)
        for name in graph.reached(called):
            graph.check(graph.functions[name].node_def, name, known)
        _check_captured(graph, meta)


def check_graph_def(path: Path, definition: tf.compat.v1.GraphDef) -> None:
    """Looks through a frozen ``GraphDef`` before TensorFlow imports it.

    Raises:
        UntrustedFileError: running it would do more than compute.
        InvalidModelError: it is damaged.
    """
    graph = _Library(repr(str(path)), definition, path.stat().st_size)
    graph.check(definition.node, "", frozenset())
    for name, function in graph.functions.items():
        graph.check(function.node_def, name, frozenset())


@dataclass
class _Library:
    """A graph's functions, and the checks of their nodes."""

    title: str
    definition: Any
    file_bytes: int

    def __post_init__(self) -> None:
        self.functions: dict[str, Any] = {item.signature.name: item for item in self.definition.library.function}
        self._constants = 0
        self._check_depth()

    def _check_depth(self) -> None:
        """No function reaches itself, and all calls written out are no more nodes than a model has."""
        called = {
            name: Counter(item for node in function.node_def for item in self.calls(node))
            for name, function in self.functions.items()
        }
        sizes: dict[str, int] = {}
        try:
            for name in TopologicalSorter(called).static_order():
                inner = sum(sizes[item] * count for item, count in called[name].items())
                sizes[name] = len(self.functions[name].node_def) + inner
                if sizes[name] > _NODES:
                    raise hostile(self.title, f"function {name!r} comes to {sizes[name]:,} nodes with all it calls")
        except CycleError as error:
            raise damaged(self.title, f"function {error.args[1][0]!r} calls itself") from None

    def calls(self, node: NodeDef) -> Iterator[str]:
        """Functions that a node may call."""
        if node.op in self.functions:
            yield node.op
        for attribute in node.attr.values():
            for item in (attribute.func, *attribute.list.func):
                if item.name in self.functions:
                    yield item.name

    def reached(self, names: Iterable[str]) -> set[str]:
        """`names` that are functions, and all that they call."""
        return _reached(
            (name for name in names if name in self.functions),
            lambda name: (item for node in self.functions[name].node_def for item in self.calls(node)),
        )

    def check(self, nodes: Iterable[Any], function: str, assets: frozenset[str]) -> None:
        """Refuses nodes that act, text files that are no assets, and constants larger than the file could hold."""
        nodes = list(nodes)
        sources = {node.name: node for node in nodes}
        for node in nodes:
            self._check_constant(node, function)
            self._check_size(node, function, sources)
            if node.op in self.functions or not _acts(node):
                if any(_TEXT_FILE.fullmatch(item.op) for name in self.calls(node) for item in self.body(name)):
                    self._check_path(node, node.input, function, sources, assets)
                continue
            if _TEXT_FILE.fullmatch(node.op):
                self._check_path(node, node.input[1:2], function, sources, assets)
                continue
            acts = "does more than compute, and loading or validating the model may run it"
            raise untrusted(self.title, f"operator {node.op} (node {_where(node, function)}) {acts}")

    def body(self, name: str) -> list[Any]:
        return [node for item in self.reached([name]) for node in self.functions[item].node_def]

    def _check_path(
        self, node: NodeDef, inputs: Iterable[str], function: str, sources: Mapping[str, Any], assets: frozenset[str]
    ) -> None:
        """What names a table's text file: an asset of the model, or the argument that stands for one."""
        for text in inputs:
            name = _node_name(text)
            origin = sources.get(name)
            while origin is not None and origin.op in ("Identity", "PlaceholderWithDefault") and origin.input:
                if origin.name in assets:
                    break
                name = _node_name(origin.input[0])
                origin = sources.get(name)
            if origin is None and function:  # an argument
                continue
            if name in assets or (origin is not None and not _gives_text(origin)):
                continue
            reads = "reads a file that is no asset of the model"
            raise untrusted(self.title, f"operator {node.op} (node {_where(node, function)}) {reads}")

    def _check_size(self, node: NodeDef, function: str, sources: Mapping[str, Any]) -> None:
        """Sizes that stand in the graph ask for no more memory than a machine has."""
        if _GROWING.fullmatch(node.op) is None:
            return
        count = 1
        for text in node.input:
            origin = sources.get(text.partition(":")[0])
            if origin is None or origin.op != "Const" or len(origin.attr["value"].tensor.tensor_shape.dim) > 2:
                continue
            tensor = origin.attr["value"].tensor
            if tf.dtypes.as_dtype(tensor.dtype).is_integer and _values_in(tensor) <= 64:
                numbers = tf.make_ndarray(tensor).ravel()[:64].tolist()
                count *= math.prod(max(abs(int(number)), 1) for number in numbers)
        if count > LARGEST:
            makes = f"makes a tensor of {count:,} elements from nothing"
            raise hostile(self.title, f"operator {node.op} (node {_where(node, function)}) {makes}")

    def _check_constant(self, node: NodeDef, function: str) -> None:
        # TensorFlow 2.21 ends the process where a shape function reads a constant of another type than the node's.
        named = {name: attribute for name, attribute in node.attr.items() if name in ("dtype", "value")}
        if len(named) == 2 and named["dtype"].type != named["value"].tensor.dtype:
            fault = "is not of the type that the node gives"
            raise damaged(self.title, f"the constant of node {_where(node, function)} {fault}")
        for attribute in node.attr.values():
            for tensor in (attribute.tensor, *attribute.list.tensor):
                if not tensor.dtype:
                    continue
                dims = [dim.size for dim in tensor.tensor_shape.dim]
                count, where = math.prod(dims), _where(node, function)
                if tensor.tensor_shape.unknown_rank or any(size < 0 for size in dims):
                    raise damaged(self.title, f"the constant of node {where} has shape {dims}")
                held = _values_in(tensor)
                if held > count or (tensor.tensor_content and held != count):
                    raise damaged(self.title, f"the constant of node {where} of shape {dims} holds {held} values")
                self._constants += count * _width(tensor.dtype)
                what = f"with the constant {dims} of node {where} its constants take"
                check_bytes(self.title, what, self._constants, self.file_bytes)


def _values_in(tensor: TensorProto) -> int:
    """How many values a constant lists; fewer than its shape takes stand for repetitions of the last."""
    if tensor.tensor_content:
        return len(tensor.tensor_content) // _width(tensor.dtype)
    lists = [value for field, value in tensor.ListFields() if field.name.endswith("_val")]
    parts = 2 if tensor.dtype in (tf.complex64.as_datatype_enum, tf.complex128.as_datatype_enum) else 1
    return max((len(value) // parts for value in lists), default=0)


def _where(node: NodeDef, function: str) -> str:
    return f"{node.name!r} of function {function!r}" if function else repr(node.name)


def _acts(node: NodeDef) -> bool:
    """Whether a node's operator does more than compute; one that TensorFlow does not know can't run at all."""
    definition = op_def_registry.get(node.op)
    if definition is None:
        return False
    if node.op == "PrintV2":
        stream = node.attr["output_stream"].s.decode(errors="replace")
        return bool(stream) and _LOGGED.fullmatch(stream) is None
    if _TEXT_FILE.fullmatch(node.op):
        return True
    return _STATEFUL.fullmatch(node.op) is None if definition.is_stateful else _ACTING.fullmatch(node.op) is not None


def _gives_text(node: NodeDef) -> bool:
    """Whether a node's first result may be a string."""
    definition = op_def_registry.get(node.op)
    if definition is None or not definition.output_arg:
        return True
    result = definition.output_arg[0]
    kind = result.type or node.attr[result.type_attr].type if not result.type_list_attr else tf.string.as_datatype_enum
    return kind in (0, tf.string.as_datatype_enum)


def _width(dtype: int) -> int:
    try:
        return max(tf.dtypes.as_dtype(dtype).size or 1, 1)
    except TypeError:
        return 1


def _saver_nodes(meta: tf.compat.v1.MetaGraphDef, *, by_objects: bool) -> set[str]:
    """Nodes that only save or restore variables: TensorFlow does not run them when it loads a model of objects.

    A model of TensorFlow 1 is restored by its own nodes: there only what saves is left out, and RestoreV2 with the name that
    TensorFlow feeds.
    """
    nodes = {node.name: node for node in meta.graph_def.node}
    saver = meta.saver_def
    saving = _ancestors(nodes, [saver.save_tensor_name])
    restoring = _ancestors(nodes, [saver.restore_op_name])
    roots = [name for name in nodes if name not in saving | restoring]
    for signature in meta.signature_def.values():
        roots += [info.name for info in (*signature.outputs.values(), *signature.inputs.values())]
    for collection in meta.collection_def.values():
        roots += [*collection.node_list.value]
    shared = _ancestors(nodes, roots)
    if by_objects:
        return (saving | restoring) - shared
    fed = saver.filename_tensor_name.partition(":")[0]
    readers = {name for name in restoring - shared if nodes[name].op == "RestoreV2" and nodes[name].input}
    restores = {name for name in readers if nodes[name].input[0].partition(":")[0] == fed}
    return (saving - restoring - shared) | restores


def _ancestors(nodes: Mapping[str, Any], names: Iterable[str]) -> set[str]:
    def present(texts: Iterable[str]) -> Iterator[str]:
        return (name for text in texts if (name := _node_name(text)) in nodes)

    return _reached(present(names), lambda name: present(nodes[name].input))


def _reached(names: Iterable[str], following: Callable[[str], Iterable[str]]) -> set[str]:
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += following(name)
    return seen


def _node_name(text: str) -> str:
    """The node of an operand, as a graph writes it: ``node:1``, ``^node``."""
    return text.lstrip("^").partition(":")[0]


def _asset_files(meta: tf.compat.v1.MetaGraphDef) -> list[tuple[str, str]]:
    """Tensor and file name of each asset."""
    files = [(item.tensor_info.name, item.filename) for item in meta.asset_file_def]
    if "saved_model_assets" in meta.collection_def:  # where TensorFlow 1 lists them
        for item in meta.collection_def["saved_model_assets"].any_list.value:
            asset = AssetFileDef()
            item.Unpack(asset)
            files.append((asset.tensor_info.name, asset.filename))
    return files


def _check_assets(folder: Path, meta: tf.compat.v1.MetaGraphDef) -> None:
    for _, name in _asset_files(meta):
        inside = PurePosixPath(name)
        place = folder / "assets" / name
        if inside.is_absolute() or ".." in inside.parts or not place.resolve().is_relative_to(folder.resolve()):
            raise untrusted(repr(str(folder)), f"the asset {name!r} stands outside of the model's folder")


def _check_captured(graph: _Library, meta: tf.compat.v1.MetaGraphDef) -> None:
    """Functions that read a table's text file get its name from an asset, not from a constant."""
    objects = meta.object_graph_def.nodes
    constants = {node.name: node for node in meta.graph_def.node if node.op == "Const"}
    for name, function in meta.object_graph_def.concrete_functions.items():
        if not any(_TEXT_FILE.fullmatch(node.op) for node in graph.body(name)):
            continue
        for index in function.bound_inputs:
            held = objects[index] if 0 <= index < len(objects) else None
            kind = held.WhichOneof("kind") if held is not None else None
            origin = constants.get(held.constant.operation) if held is not None and kind == "constant" else None
            if kind in ("asset", "resource", "variable") or (origin is not None and not _gives_text(origin)):
                continue
            raise untrusted(graph.title, f"function {name!r} reads a file that is no asset of the model")


def _check_variables(folder: Path, file_bytes: int) -> None:
    """The variables take no more memory than the folder's files can fill."""
    prefix = folder / "variables" / "variables"
    if not prefix.with_suffix(".index").exists():
        return
    with reading(f"{str(prefix)!r} is damaged"):
        reader = tf.train.load_checkpoint(str(prefix))
        kinds, shapes = reader.get_variable_to_dtype_map(), reader.get_variable_to_shape_map()
        sizes = {name: math.prod(dims) * (kinds[name].size or 1) for name, dims in shapes.items()}
    if sum(sizes.values()) > most_bytes(file_bytes):
        name = max(sizes, key=sizes.__getitem__)
        fault = f"its variable {name!r} takes {sizes[name]:,} bytes, all files hold {file_bytes:,}"
        raise damaged(repr(str(folder)), fault)
