"""Branches and loops: If, Case and While, whose functions are written into ONNX subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i32
from onnxport.opset_maps.lowerings.axes import size
from onnxport.opset_maps.lowerings.origins import behind, is_successor, number
from onnxport.opset_maps.lowerings.recurrence_matching import as_recurrence
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.tensor_list import blank, merged_shape, shape_behind, stacked, zero
from onnxport.opset_maps.to_onnx.tensorflow.values import Function, LoopVariable, NeedsState, TensorList


def _truth(op: OpBuilder, x: ir.Value) -> ir.Value:
    """A scalar as a condition: numbers other than 0 and strings other than the empty one are true."""
    if x.dtype == ir.DataType.BOOL:
        return x
    if x.dtype == ir.DataType.STRING:
        return op.Not(op.Equal(x, op.const(np.asarray("", object))))
    return op.cast(x, ir.DataType.BOOL)


Branch = Callable[[OpBuilder], Sequence[Any]]


def branched(op: OpBuilder, condition: ir.Value, then: Branch, other: Branch) -> list[Any]:
    """The results of one of two branches: in place where the condition is constant, else of an ONNX If."""
    known = op.constant(condition)
    if known is not None:
        return list(then(op) if known.reshape(()) else other(op))
    results: list[list[Any]] = []

    def write(branch: Branch) -> ir.Graph:
        def build(b: OpBuilder) -> list[ir.Value]:
            outcome = list(branch(b))
            results.append(outcome)
            return [_as_tensor(b, item) for item in outcome if isinstance(item, (ir.Value, TensorList))]

        return op.body(build)

    graphs = {"then_branch": write(then), "else_branch": write(other)}
    first, second = results
    count = sum(isinstance(item, (ir.Value, TensorList)) for item in first)
    if count != sum(isinstance(item, (ir.Value, TensorList)) for item in second):
        raise UnsupportedOperator("If: the branches give different kinds of results")
    result: Any = op.If(condition, outputs=count, **graphs) if count else ()
    tensors = iter(result if isinstance(result, tuple) else (result,))
    final: list[Any] = []
    for a, b in zip(first, second, strict=True):
        if isinstance(a, ir.Value):
            final.append(next(tensors))
        elif isinstance(a, TensorList):
            stack = next(tensors)
            final.append(replace(a, tensor=stack, size=size(op, stack, 0), blank=a.blank or b.blank))
        elif a is b:
            final.append(a)
        else:
            raise UnsupportedOperator("If: a branch chooses between variables, which has no ONNX form")
    return final


def _as_tensor(op: OpBuilder, item: Any) -> ir.Value:
    return stacked(op, item) if isinstance(item, TensorList) else item


def _complex_branches(x: tf.Tensor) -> Any:
    z = tf.complex(x, x + 1.0)
    return tf.abs(tf.cond(tf.reduce_sum(x) > 0, lambda: z * z, lambda: z * 2.0))


@tensorflow.lower("If StatelessIf", accepts_complex=True, cases=[case(_complex_branches, f32(2, 3))])
@tensorflow.lower(
    "If",
    "StatelessIf",
    cases=[
        case(lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2.0, lambda: x - 1.0), f32(2, 3)),
        case(lambda x: tf.cond(tf.reduce_sum(x) > 99, lambda: (x, x[0]), lambda: (x - 1.0, x[1])), f32(2, 3)),
    ],
)
def if_(
    op: OpBuilder, cond: ir.Value, input: list[Any], *, then_branch: Function, else_branch: Function, **_: Any
) -> list[Any]:
    """ONNX If."""
    return branched(op, _truth(op, cond), lambda b: b.call(then_branch, input), lambda b: b.call(else_branch, input))


@tensorflow.lower(
    "Case StatelessCase",
    accepts_complex=True,
    cases=[
        case(
            lambda x, i: tf.abs(tf.switch_case(i[0], [lambda: tf.complex(x, x), lambda: tf.complex(x, -x) * 2.0])),
            f32(2, 3),
            np.array([1], np.int32),
        )
    ],
)
@tensorflow.lower(
    "Case",
    "StatelessCase",
    cases=[
        case(
            lambda x, i: tf.switch_case(i[0], [lambda: x, lambda: x * 2.0, lambda: x - 1.0]),
            f32(2, 3),
            np.array([1], np.int32),
        ),
        case(lambda x, i: tf.switch_case(i[0], [lambda: x, lambda: x * 2.0]), f32(2, 3), np.array([-5], np.int32)),
    ],
)
def case_(
    op: OpBuilder, branch_index: ir.Value, input: list[Any], *, branches: Sequence[Function], **_: Any
) -> list[Any]:
    """A chain of ONNX Ifs; an index out of range means the last branch."""
    return _chain(op, branch_index, list(branches), input, 0)


def _chain(op: OpBuilder, index: ir.Value, branches: list[Function], arguments: list[Any], first: int) -> list[Any]:
    if first == len(branches) - 1:
        return list(op.call(branches[first], arguments))
    return branched(
        op,
        op.Equal(index, first),
        lambda b: b.call(branches[first], arguments),
        lambda b: _chain(b, index, branches, arguments, first + 1),
    )


@dataclass
class _Loop:
    """A While being written.

    Attributes:
        arguments: the loop's initial values.
        variables: the lists that need no state, by position; the rest of those that change are states.
        states: positions of the states.
    """

    arguments: list[Any]
    variables: dict[int, LoopVariable]
    states: list[int]


def _sum_to(x: tf.Tensor) -> Any:
    return tf.while_loop(
        lambda i, total: i < tf.shape(x)[0], lambda i, total: (i + 1, total + x[i]), (0, tf.zeros([3]))
    )


def _fibonacci(x: tf.Tensor) -> tf.Tensor:
    array = tf.TensorArray(tf.float32, size=6, element_shape=[2], clear_after_read=False).write(0, x).write(1, x)
    _, array = tf.while_loop(
        lambda i, a: i < 6, lambda i, a: (i + 1, a.write(i, a.read(i - 1) + a.read(i - 2))), (tf.constant(2), array)
    )
    return array.stack()


def _early(x: tf.Tensor) -> Any:
    array = tf.TensorArray(tf.float32, size=8, element_shape=[3])
    i, _, array = tf.while_loop(
        lambda i, total, a: tf.logical_and(i < 8, tf.reduce_sum(total) < 20.0),
        lambda i, total, a: (i + 1, total + tf.abs(x[0]), a.write(i, total)),
        (tf.constant(0), tf.zeros([3]), array),
    )
    return i, array.stack()


def _growing(x: tf.Tensor, n: tf.Tensor) -> Any:
    shapes = (tf.TensorShape([]), tf.TensorShape([None]))
    return tf.while_loop(
        lambda i, v: i < n[0], lambda i, v: (i + 1, tf.concat([v, v[-1:] + 1.0], 0)), (0, x), shape_invariants=shapes
    )[1]


def _complex_powers(x: tf.Tensor) -> Any:
    return tf.abs(tf.while_loop(lambda k, z: k < 3, lambda k, z: (k + 1, z * z), (0, tf.complex(x, x / 2)))[1])


@tensorflow.lower("While StatelessWhile", accepts_complex=True, cases=[case(_complex_powers, f32(2, 3))])
@tensorflow.lower(
    "While",
    "StatelessWhile",
    cases=[
        case(_sum_to, f32(4, 3), dynamic=True, name="states"),
        case(lambda x: tf.map_fn(lambda row: row * row[0], x), f32(4, 3), dynamic=True, name="map_fn"),
        case(lambda x: tf.scan(lambda a, b: a + b, x), f32(4, 3), dynamic=True, name="scan"),
        case(lambda x: tf.scan(lambda a, b: a + b, x, reverse=True), f32(4, 3), name="backwards"),
        case(_fibonacci, f32(2), name="read and written"),
        case(_early, f32(2, 3), name="ends early"),
        case(lambda x: tf.foldl(lambda a, b: a * 0.5 + b, x), f32(4, 3), name="foldl"),
        case(_growing, f32(2), i32(1, low=3, high=5), name="growing"),
    ],
)
def while_(op: OpBuilder, input: list[Any], *, cond: Function, body: Function, **_: Any) -> list[Any]:
    """ONNX Loop. Values that the body returns as they came are seen from outside; lists that are filled in order are scanned."""
    passed = body.describe()
    changing = [k for k, source in enumerate(passed) if source != k]
    for k in changing:
        if not isinstance(input[k], (ir.Value, TensorList)):
            raise UnsupportedOperator(f"While: the loop changes {type(input[k]).__name__} {k}, which has no ONNX form")
    scanned = {k: LoopVariable() for k in changing if isinstance(input[k], TensorList) and _is_unset(op, input[k])}
    while True:
        loop = _Loop(input, scanned, [k for k in changing if k not in scanned])
        try:
            return _written(op, loop, cond, body)
        except NeedsState as request:
            position = next((k for k, item in scanned.items() if item is request.variable), None)
            if position is None:
                raise  # a loop around this one has to keep the list
            if input[position].shape is None:
                input = [*input]  # noqa: A001
                input[position] = replace(input[position], shape=request.variable.element)
            scanned = {k: LoopVariable() for k in scanned if k != position}


def _is_unset(op: OpBuilder, items: TensorList) -> bool:
    return items.variable is None and items.write is None and items.tensor is None


def _written(op: OpBuilder, loop: _Loop, cond: Function, body: Function) -> list[Any]:
    arguments = list(loop.arguments)
    initial = {k: _initial(op, arguments[k]) for k in loop.states}
    finals: list[Any] = []
    scans: list[int] = []

    def build(b: OpBuilder) -> list[ir.Value]:
        b.input("iteration", ir.DataType.INT64, [])
        b.input("condition", ir.DataType.BOOL, [])
        inner = list(arguments)
        for k in loop.states:
            inner[k] = _state(b, op, k, arguments[k], initial[k])
        for k, variable in loop.variables.items():
            inner[k] = replace(arguments[k], variable=variable)
        finals[:] = b.call(body, inner)
        go = _truth(b, b.call(cond, finals)[0])
        scans[:] = list(loop.variables)
        items = [_scanned(b, finals[k], inner, finals, arguments) for k in scans]
        return [go, *(_as_tensor(b, finals[k]) for k in loop.states), *items]

    graph = op.body(build)
    first = _truth(op, op.call(cond, arguments)[0])
    trips = _trip_count(op, graph, loop, initial)
    result: Any = as_recurrence(op, graph, list(initial.values()), trips)
    if result is None:
        start = None if trips is not None else first  # with a trip count, whether there is a first turn is implied
        result = op.Loop(trips, start, *initial.values(), body=graph, outputs=max(len(initial) + len(scans), 1))
    outputs = dict(zip([*loop.states, *scans], result if isinstance(result, (tuple, list)) else (result,), strict=True))
    results: list[Any] = []
    for k, argument in enumerate(arguments):
        if k not in outputs:
            results.append(argument)
        elif k in loop.variables:
            results.append(_filled(op, argument, finals[k], outputs[k], trips))
        elif isinstance(argument, TensorList):
            stack = outputs[k]
            results.append(replace(finals[k], tensor=stack, size=size(op, stack, 0), blank=False))
        else:
            results.append(outputs[k])
    return results


def _initial(op: OpBuilder, argument: Any) -> ir.Value:
    if not isinstance(argument, TensorList):
        return argument
    if argument.stack is not None:
        return argument.stack
    if argument.shape is None:
        raise UnsupportedOperator("While: a list whose elements have no known rank is read and written in a loop")
    return blank(op, argument)


def _state(b: OpBuilder, op: OpBuilder, k: int, argument: Any, initial: ir.Value) -> Any:
    """A loop variable inside the body: its shape is the one that TensorFlow gives for all turns."""
    if not isinstance(argument, TensorList):
        expected = op.results[k]
        return b.input("state", argument.dtype or ir.DataType.FLOAT, expected.shape if expected is not None else None)
    shape = [None, *argument.shape] if argument.shape is not None else None
    tensor = b.input("list", argument.dtype, shape)
    unknown = argument.tensor is None and argument.shape is not None and None in argument.shape
    count = argument.size if number(op, argument.size) == 1 else size(b, tensor, 0)
    return replace(argument, tensor=tensor, blank=argument.blank or unknown, size=count)


def _scanned(b: OpBuilder, final: TensorList, inner: list[Any], finals: list[Any], arguments: list[Any]) -> ir.Value:
    """What the loop writes in this turn, provided that the turns write at 0, 1, 2, ..."""
    write = final.write
    if write is None:
        raise (
            NeedsState(final.variable)
            if final.variable is not None
            else UnsupportedOperator("While: a list is replaced in a loop")
        )
    if write.index is None:
        return write.item
    for k, value in enumerate(inner):
        if value is write.index and isinstance(arguments[k], ir.Value):
            counts = isinstance(finals[k], ir.Value) and is_successor(b, finals[k], value)
            if number(b, arguments[k]) == 0 and counts:
                return write.item
    raise NeedsState(write.variable)


def _trip_count(op: OpBuilder, graph: ir.Graph, loop: _Loop, initial: dict[int, ir.Value]) -> ir.Value | None:
    """How often the loop turns, where its condition is only that counters from 0 by 1 stay below values from outside."""
    limits: list[ir.Value] = []
    counters = {
        graph.inputs[2 + i]: graph.outputs[1 + i]
        for i, k in enumerate(loop.states)
        if (start := number(op, initial[k])) == 0 and isinstance(start, int)
    }
    pending = [graph.outputs[0]]
    while pending:
        producer = behind(pending.pop(), "Identity").producer()
        if producer is None:
            return None
        if producer.op_type == "And":
            pending.extend(item for item in producer.inputs if item is not None)
        elif producer.op_type == "Less":
            after, limit = producer.inputs
            if after is None or limit is None or _is_inside(limit, graph):
                return None
            if not any(after is final and is_successor(op, after, before) for before, final in counters.items()):
                return None
            if all(limit is not item for item in limits):
                limits.append(limit)
        else:
            return None
    if not limits:
        return None
    least = op.cast(limits[0], ir.DataType.INT64)
    for item in limits[1:]:
        least = op.Min(least, op.cast(item, ir.DataType.INT64))
    return op.Reshape(least, [])


def _is_inside(value: ir.Value, graph: ir.Graph) -> bool:
    producer = value.producer()
    return value in graph.inputs or (producer is not None and producer.graph is graph)


def _filled(
    op: OpBuilder, argument: TensorList, final: TensorList, scanned: ir.Value, trips: ir.Value | None
) -> TensorList:
    """The list after the loop: what was scanned, and zeros up to the size that was reserved."""
    items = replace(
        argument, shape=merged_shape(argument, final.write.item) if final.write is not None else argument.shape
    )
    count = op.dim(scanned, 0)
    if final.write is not None and final.write.index is None:
        return replace(items, tensor=scanned, size=op.Squeeze(count, [0]))
    if trips is not None and _root(op, trips) == _root(op, argument.size):
        return replace(items, tensor=scanned)
    rest = shape_behind(op, scanned)
    missing = op.Max(op.Sub(op.Reshape(argument.size, [1]), count), 0)
    padding = op.Expand(zero(op, argument.dtype), op.Concat(missing, rest, axis=0))
    return replace(items, tensor=op.Concat(scanned, padding, axis=0))


def _root(op: OpBuilder, x: ir.Value) -> object:
    """What a number is a cast or reshape of: two of the same root are equal."""
    x = behind(x, "Cast", "Reshape", "Squeeze", "Identity")
    known = number(op, x)
    return id(x) if known is None else ("constant", known)
