"""A TensorFlow source in float64, or with moved weights: its traced graph with the variables as constants, those changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2, node_def_pb2, types_pb2
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from onnxport.frameworks.native_log import native_log_kept
from onnxport.validation import tolerance
from onnxport.validation.runners.tensorflow_inner import values_of_call, values_of_graph
from onnxport.validation.runners.tensorflow_noise import add_noise
from onnxport.validation.runners.tensorflow_resampling import in_float64

_REALS = (types_pb2.DT_FLOAT, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16)
_WIDER = {**dict.fromkeys(_REALS, types_pb2.DT_DOUBLE), types_pb2.DT_COMPLEX64: types_pb2.DT_COMPLEX128}
_MOVABLE = frozenset({types_pb2.DT_FLOAT, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16, types_pb2.DT_DOUBLE})
_LIMIT = 1 << 29  # a frozen graph is one message, which holds no more than 2 GB
_KEPT = 8 << 20  # graphs with moved weights are kept for the next set of inputs where they are no larger, each
# Inference with batch statistics has no kernel for double; it is three operators that have.
_BATCH_NORM = "FusedBatchNormV3"


class FrozenTwin:
    """A function of a list of tensors, traced on an example of them, as a graph of its own.

    Raises:
        ValueError: the variables are too large for a frozen graph.
    """

    def __init__(self, call: Callable[..., Any], tensors: Sequence[Any]) -> None:
        concrete, self._specs = _traced(call, tensors, [[None] * tensor.shape.rank for tensor in tensors])
        if sum(int(np.prod(v.shape)) * v.dtype.size for v in concrete.graph.variables) > _LIMIT:
            raise ValueError("the variables are too large for a frozen graph")
        self._structure = concrete.structured_outputs
        # TensorFlow warns of tables that it can't write into a collection, of which a frozen graph has none.
        concrete.graph.clear_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS)
        with native_log_kept():  # the inliner writes of a session that it starts
            frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
        if len(frozen.inputs) != len(tensors):
            raise ValueError("the graph holds resources")
        self._names = [tensor.name for tensor in frozen.inputs]
        self._results = [tensor.name for tensor in frozen.outputs]
        self._definition, self._weights = _parted(frozen.graph.as_graph_def())

    def fits(self, tensors: Sequence[Any]) -> bool:
        """Whether tensors have the shapes that it was traced for."""
        pairs = zip(self._specs, tensors, strict=True)
        return all(spec.shape.is_compatible_with(tensor.shape) for spec, tensor in pairs)

    @property
    def size(self) -> int:
        """Bytes of the graph with its weights."""
        return self._definition.ByteSize() + sum(array.nbytes for array in self._weights.values())

    @property
    def coarse(self) -> float | None:
        """Epsilon of the coarsest type that it computes in: a 16-bit one, or a narrower one that numbers are cast to."""
        kinds = [kind for kind in (types_pb2.DT_BFLOAT16, types_pb2.DT_HALF) if kind in self._held]
        casts = [node.attr for node in _nodes(self._definition) if node.op == "Cast"]
        if any(attr["SrcT"].type == types_pb2.DT_DOUBLE and attr["DstT"].type == types_pb2.DT_FLOAT for attr in casts):
            kinds.append(types_pb2.DT_FLOAT)
        return tolerance.epsilon(np.dtype(tf.as_dtype(kinds[0]).as_numpy_dtype)) if kinds else None

    @property
    def computes_complex(self) -> bool:
        """Whether a node of the graph has complex numbers."""
        return bool(self._held & {types_pb2.DT_COMPLEX64, types_pb2.DT_COMPLEX128})

    @property
    def _held(self) -> set[int]:
        """The element types that the nodes name."""
        return {attr.type for node in _nodes(self._definition) for attr in node.attr.values()}

    def widened(self) -> Callable[[Sequence[Any]], Any]:
        """The function in float64."""
        definition = copy.deepcopy(self._definition)
        for nodes in _lists(definition):
            kept = [piece for node in nodes for piece in _batch_norm(node)]
            del nodes[:]
            nodes.extend(kept)
            for node in nodes:
                for attr in node.attr.values():
                    _widen(attr)
        for function in definition.library.function:
            for argument in (*function.signature.input_arg, *function.signature.output_arg):
                argument.type = _WIDER.get(argument.type, argument.type)
        in_float64(definition)
        return self._runnable(definition, {name: tolerance.wide(array) for name, array in self._weights.items()})

    def moved(self, units: int, seed: int) -> Callable[[Sequence[Any]], Any]:
        """The function with its constants of several numbers off by `units` in the last place, up or down at random.

        What stands beside 1 in a sum moves by a unit of 1.
        """
        rng = np.random.default_rng(seed)
        weights = {name: tolerance.nudge(array, units, rng) for name, array in self._weights.items()}
        if self._fed is not None:
            return _bound(self._fed, weights)
        definition = copy.deepcopy(self._definition)
        for node in _nodes(definition):
            array = _weight(node)
            if array is not None:
                changed = tolerance.nudge(array, units, rng)
                node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(changed, node.attr["dtype"].type))
        add_noise(definition)
        return self._runnable(definition, weights)

    @cached_property
    def _fed(self) -> Callable[[Sequence[Any]], Any] | None:
        """The function of its inputs and weights; None where bodies of loops and branches hold some.

        A graph that is put together once runs with any weights.
        """
        if any(_weight(node) is not None for node in _nodes(self._definition)):
            return None
        definition = copy.deepcopy(self._definition)
        add_noise(definition)
        try:
            return self._called(definition, list(self._weights))
        except (ValueError, TypeError):  # a weight that an operator takes as a constant alone
            return None

    def each_inner(self, tensors: Sequence[Any], take: Callable[[str, Any], None]) -> None:
        """Hands over the results of the inner operators by name."""
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(self._definition, name="")
        feeds = {name: tensor.numpy() for name, tensor in zip(self._names, tensors, strict=True)}
        values_of_graph(graph, feeds | {f"{name}:0": array for name, array in self._weights.items()}, take)

    def _runnable(
        self, definition: graph_pb2.GraphDef, weights: Mapping[str, np.ndarray]
    ) -> Callable[[Sequence[Any]], Any]:
        """The function of a graph and its weights: fed, or constants where an operator takes them so alone."""
        try:
            return _bound(self._called(definition, list(weights)), weights)
        except (ValueError, TypeError):
            return self._called(_with_constants(definition, weights))

    def _called(self, definition: graph_pb2.GraphDef, weights: Sequence[str] = ()) -> Callable[[Sequence[Any]], Any]:
        """The function of a graph, of its inputs and what these placeholders stand for."""
        _rename_functions(definition)
        names = [*self._names, *(f"{name}:0" for name in weights)]
        nodes = {f"{node.name}:0": node for node in definition.node}
        # a function of a signature: one whose placeholders are named later describes all its arguments in text at each call
        called = tf.compat.v1.wrap_function(
            lambda *args: tf.import_graph_def(definition, dict(zip(names, args, strict=True)), self._results, name=""),
            [_spec(nodes[name]) for name in names],
        )

        ran = False

        def run(tensors: Sequence[Any]) -> Any:
            nonlocal ran
            # at the first run the graph is optimised, and what does so writes of types that it leaves alone
            with nullcontext() if ran else native_log_kept():
                flat = _as_list(called(*tensors))
            ran = True
            return tf.nest.pack_sequence_as(self._structure, flat[: len(tf.nest.flatten(self._structure))])

        return run


def _bound(run: Callable[[Sequence[Any]], Any], weights: Mapping[str, np.ndarray]) -> Callable[[Sequence[Any]], Any]:
    """A function of inputs and weights, of its inputs alone."""
    held = [tf.constant(array) for array in weights.values()]
    return lambda tensors: run([*tensors, *held])


def _parted(definition: graph_pb2.GraphDef) -> tuple[graph_pb2.GraphDef, dict[str, np.ndarray]]:
    """A graph with placeholders for its weights, and these by the names of their nodes."""
    parted = graph_pb2.GraphDef(library=definition.library, versions=definition.versions)
    weights: dict[str, np.ndarray] = {}
    for node in definition.node:
        array = _weight(node)
        if array is None:
            parted.node.append(node)
            continue
        weights[node.name] = array
        held = parted.node.add(op="Placeholder", name=node.name, input=node.input)
        held.attr["dtype"].CopyFrom(node.attr["dtype"])
        held.attr["shape"].shape.CopyFrom(tf.TensorShape(array.shape).as_proto())
    return parted, weights


def _with_constants(definition: graph_pb2.GraphDef, weights: Mapping[str, np.ndarray]) -> graph_pb2.GraphDef:
    """The same with constants in the places of the placeholders, of the types that these have now."""
    for node in definition.node:
        if node.name in weights:
            node.op = "Const"
            del node.attr["shape"]
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(weights[node.name], node.attr["dtype"].type))
    return definition


def _spec(placeholder: node_def_pb2.NodeDef) -> tf.TensorSpec:
    return tf.TensorSpec(placeholder.attr["shape"].shape, tf.as_dtype(placeholder.attr["dtype"].type))


def _traced(
    call: Callable[..., Any], tensors: Sequence[Any], shapes: Sequence[Sequence[int | None]]
) -> tuple[Any, list[tf.TensorSpec]]:
    """A function of a list of tensors traced for these shapes, or for those of the tensors where it needs them; what it takes."""
    specs = [tf.TensorSpec(shape, tensor.dtype) for shape, tensor in zip(shapes, tensors, strict=True)]
    traced = tf.function(lambda *args: call(list(args)), reduce_retracing=True)
    try:
        return traced.get_concrete_function(*specs), specs
    except Exception:  # it needs the sizes
        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
        return traced.get_concrete_function(*specs), specs


def _as_list(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


_numbers = count()


def _rename_functions(definition: graph_pb2.GraphDef) -> None:
    """New names for the functions of a changed graph: TensorFlow keeps the bodies of those that it has seen."""
    number = next(_numbers)
    names = {
        function.signature.name: f"{function.signature.name}_twin_{number}" for function in definition.library.function
    }
    for function in definition.library.function:
        function.signature.name = names[function.signature.name]
    for node in _nodes(definition):
        node.op = names.get(node.op, node.op)
        for attr in node.attr.values():
            kind = attr.WhichOneof("value")
            for called in [attr.func] if kind == "func" else attr.list.func if kind == "list" else ():
                called.name = names.get(called.name, called.name)
    for gradient in definition.library.gradient:
        gradient.function_name = names.get(gradient.function_name, gradient.function_name)
        gradient.gradient_func = names.get(gradient.gradient_func, gradient.gradient_func)


class Twins:
    """The frozen twin of a function of a list of tensors, built on first use; what can't be traced has none."""

    def __init__(self, call: Callable[[Sequence[Any]], Any], to_tensor: Callable[[object], Any]) -> None:
        self._call, self._to_tensor = call, to_tensor
        self._frozen: FrozenTwin | None = None
        self._wide: Callable[[Sequence[Any]], Any] | None = None
        self._moved: dict[tuple[int, int], Callable[[Sequence[Any]], Any]] = {}
        self._failed = False
        self._narrow_only = False

    def float64(self, leaves: Sequence[Any]) -> Any:
        """Results in float64; None where there are none."""
        twin, tensors = self.twin(leaves)
        if twin is None or self._narrow_only:
            return None
        try:
            self._wide = self._wide or twin.widened()
            return self._wide([widened_tensor(tensor) for tensor in tensors])
        except Exception:  # an operator without a kernel for double, or whose results are float32 by definition
            self._narrow_only = True
        return None

    def moved(self, leaves: Sequence[Any], units: int, seed: int) -> Any:
        """Results with moved weights; None where there are none."""
        twin, tensors = self.twin(leaves)
        if twin is None:
            return None
        try:
            moved = self._moved.get((units, seed)) or twin.moved(units, seed)
            if twin.size <= _KEPT:
                self._moved[units, seed] = moved
            return moved(tensors)
        except Exception:  # a graph that can't be put together again
            return None

    def each_inner(self, leaves: Sequence[Any], take: Callable[[str, Any], None]) -> None:
        """Hands over the results of the inner operators by name, where the function can be traced."""
        if self._frozen is None and self._each_inner_of_trace(leaves, take):
            return
        twin, tensors = self.twin(leaves)
        if twin is not None:
            twin.each_inner(tensors, take)

    def _each_inner_of_trace(self, leaves: Sequence[Any], take: Callable[[str, Any], None]) -> bool:
        """The same of a trace that is not frozen, which is most of the work; whether there is one without calls."""
        tensors = [self._to_tensor(leaf) for leaf in leaves]
        if self._failed or not all(isinstance(tensor, tf.Tensor) for tensor in tensors):
            return False
        shapes = [[None, *tensor.shape[1:]] if tensor.shape.rank else [] for tensor in tensors]
        try:
            concrete, _ = _traced(self._call, tensors, shapes)
        except Exception:  # of a user's code, or of TensorFlow while it traces
            return False
        return values_of_call(concrete, tensors, take)

    def twin(self, leaves: Sequence[Any]) -> tuple[FrozenTwin | None, list[Any]]:
        """The twin for leaves like these, and their tensors."""
        tensors = [self._to_tensor(leaf) for leaf in leaves]
        if self._failed or not all(isinstance(tensor, tf.Tensor) for tensor in tensors):
            return None, tensors
        if self._frozen is None or not self._frozen.fits(tensors):
            self._wide = None
            self._moved.clear()
            try:
                self._frozen = FrozenTwin(self._call, tensors)
            except Exception:  # of a user's code, or of TensorFlow while it traces
                self._failed, self._frozen = True, None
        return self._frozen, tensors


def widened_tensor(tensor: object) -> Any:
    """A tensor of a narrower floating-point type in float64."""
    if not isinstance(tensor, tf.Tensor):
        return tensor
    wider = _WIDER.get(tensor.dtype.as_datatype_enum)
    return tensor if wider is None else tf.cast(tensor, tf.as_dtype(wider))


def _weight(node: node_def_pb2.NodeDef) -> np.ndarray | None:
    """The numbers of a constant of several floating-point ones; None for any other node."""
    if node.op != "Const" or node.attr["dtype"].type not in _MOVABLE:
        return None
    array = tf.make_ndarray(node.attr["value"].tensor)
    return array if array.size > 1 else None


def _lists(definition: graph_pb2.GraphDef) -> Iterator[Any]:
    yield definition.node
    for function in definition.library.function:
        yield function.node_def


def _nodes(definition: graph_pb2.GraphDef) -> Iterator[node_def_pb2.NodeDef]:
    for nodes in _lists(definition):
        yield from nodes


def _widen(attr: attr_value_pb2.AttrValue) -> None:
    kind = attr.WhichOneof("value")
    if kind == "type":
        attr.type = _WIDER.get(attr.type, attr.type)
    elif kind == "tensor" and attr.tensor.dtype in _WIDER:
        attr.tensor.CopyFrom(tf.make_tensor_proto(tolerance.wide(tf.make_ndarray(attr.tensor))))
    elif kind == "list":
        for index, item in enumerate(attr.list.type):
            attr.list.type[index] = _WIDER.get(item, item)


def _batch_norm(node: node_def_pb2.NodeDef) -> list[node_def_pb2.NodeDef]:
    if node.op != _BATCH_NORM:
        return [node]
    if node.attr["is_training"].b or node.attr["data_format"].s not in (b"", b"NHWC", b"NDHWC") or ":" in node.input[0]:
        raise ValueError("batch statistics have no kernel for double")
    x, scale, offset, mean, variance = list(node.input)[:5]
    nodes: list[node_def_pb2.NodeDef] = []

    def add(op: str, name: str, *inputs: str) -> str:
        piece = node_def_pb2.NodeDef(op=op, name=name, input=inputs)
        piece.attr["T"].type = types_pb2.DT_DOUBLE
        nodes.append(piece)
        return name

    constant = node_def_pb2.NodeDef(op="Const", name=f"{node.name}/wide/epsilon")
    constant.attr["dtype"].type = types_pb2.DT_DOUBLE
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.float64(node.attr["epsilon"].f)))
    nodes.append(constant)
    width = add("Rsqrt", f"{node.name}/wide/rsqrt", add("AddV2", f"{node.name}/wide/var", variance, constant.name))
    factor = add("Mul", f"{node.name}/wide/factor", width, scale)
    centred = add("Sub", f"{node.name}/wide/centred", x, mean)
    add("AddV2", node.name, add("Mul", f"{node.name}/wide/scaled", centred, factor), offset)
    return nodes
