"""If and Loop in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf

from onnxport.errors import UnsupportedOperator, first_line
from onnxport.opset_maps.from_onnx.primitives.control import Body, Iteration, Step, unrolled
from onnxport.opset_maps.from_onnx.tensorflow.tensors import TensorFlowTensorFamily, size
from onnxport.opset_maps.from_onnx.values import Int, known

_NO_LIMIT = (1 << 63) - 1
# Iterations that are written into a graph one after the other.
_MOST_UNROLLED = 1 << 12


class TensorFlowControlFamily(TensorFlowTensorFamily):
    """Branches and loops; each body is traced into a graph of its own."""

    deferred: int

    def inner_graph(self) -> AbstractContextManager[None]:
        """What stands around the tracing of a body."""
        return nullcontext()

    def cond(self, condition: tf.Tensor, then_branch: Body, else_branch: Body) -> tuple[tf.Tensor, ...]:
        def traced(branch: Body) -> Callable[[], tuple[tf.Tensor, ...]]:
            def run() -> tuple[tf.Tensor, ...]:
                with self.inner_graph():
                    return tuple(branch())

            return run

        try:
            return tuple(tf.cond(tf.reshape(condition, []), traced(then_branch), traced(else_branch)))
        except (TypeError, ValueError) as error:
            if "structure" not in str(error) and "branch" not in str(error):
                raise
            reason = first_line(error)
            self.deferred += 1
            raise UnsupportedOperator(f"its branches give different kinds of results ({reason})") from error

    def loop(
        self, trip_count: Int | None, condition: tf.Tensor | None, carried: Sequence[tf.Tensor], body: Iteration
    ) -> tuple[tf.Tensor, ...]:
        carried = tuple(carried)
        if tf.executing_eagerly() or (any(isinstance(item, list) or item is None for item in carried)):
            return self._unrolled(trip_count, condition, carried, body)

        def step(
            i: tf.Tensor, going: tf.Tensor, values: tuple[Any, ...]
        ) -> tuple[tf.Tensor, tuple[Any, ...], tuple[Any, ...]]:
            with self.inner_graph():
                result = body.step(i, going, *values)
            count = len(carried)
            return tf.reshape(tf.cast(result[0], tf.bool), []), tuple(result[1 : 1 + count]), tuple(result[1 + count :])

        start = tf.constant(True) if condition is None else tf.reshape(condition, [])
        specs, elements = _settled(step, carried)
        limit = size(_NO_LIMIT if trip_count is None else trip_count)
        arrays = tuple(
            tf.TensorArray(spec.dtype, 0, dynamic_size=True, infer_shape=False, element_shape=spec.shape)
            for spec in elements
        )

        def iterate(
            i: tf.Tensor, going: tf.Tensor, values: tuple[Any, ...], stacks: tuple[tf.TensorArray, ...]
        ) -> tuple[Any, ...]:
            following, results, scanned = step(i, going, values)
            place = tf.cast(i, tf.int32)
            written = tuple(stack.write(place, item) for stack, item in zip(stacks, scanned, strict=True))
            return i + 1, following, results, written

        first = (tf.constant(0, tf.int64), start, carried, arrays)
        scalar = tf.TensorShape([])
        shapes = scalar, scalar, tuple(spec.shape for spec in specs), tuple(tf.TensorShape(None) for _ in arrays)
        _, _, finals, stacks = tf.while_loop(
            lambda i, going, *_: tf.logical_and(going, i < limit), iterate, first, shape_invariants=shapes
        )
        return (*finals, *(_stacked(stack, spec) for stack, spec in zip(stacks, elements, strict=True)))

    def _unrolled(
        self, trip_count: Int | None, condition: tf.Tensor | None, carried: tuple[Any, ...], body: Iteration
    ) -> tuple[tf.Tensor, ...]:
        """The loop as its iterations one after the other: where values are at hand, or sequences are carried."""

        def step(i: int, *values: Any) -> tuple[Any, ...]:
            if i == _MOST_UNROLLED and not tf.executing_eagerly():
                raise UnsupportedOperator(f"a sequence is carried through more than {_MOST_UNROLLED:,} iterations")
            proceed, *results = body.step(tf.constant(i, tf.int64), tf.constant(True), *values)
            return (_value(proceed), *results)

        going = condition is None or bool(_value(condition))
        limit = None if trip_count is None else int(_value(trip_count))
        finals, scanned = unrolled(step, going, limit, carried, body.scan_count)
        if body.scan_count and not scanned[0]:
            return (*finals, *_none_scanned(body, tuple(finals)))
        return (*finals, *(tf.stack(stack) for stack in scanned))


def _stacked(stack: tf.TensorArray, spec: tf.TensorSpec) -> tf.Tensor:
    """The elements along a new axis 0. TensorFlow does not stack none of a shape that is not known: the open sizes are 0 then."""
    if spec.shape.rank is None or spec.shape.is_fully_defined():
        return stack.stack()
    none = [0, *(n or 0 for n in spec.shape)]
    return tf.cond(stack.size() > 0, stack.stack, lambda: tf.zeros(none, spec.dtype))


def _none_scanned(body: Iteration, finals: tuple[Any, ...]) -> list[tf.Tensor]:
    """What a loop without an iteration scans: its body is traced, and run only where that does not tell the shapes."""

    def scanned(*values: Any) -> tuple[Any, ...]:
        return tuple(body.step(tf.constant(0, tf.int64), tf.constant(True), *values)[1 + len(finals) :])

    if all(isinstance(item, tf.Tensor) for item in finals):
        traced = tf.function(scanned, autograph=False).get_concrete_function(*finals).structured_outputs
        if all(item.shape.is_fully_defined() for item in traced):
            return [tf.zeros([0, *item.shape], item.dtype) for item in traced]
    return [tf.zeros([0, *item.shape], item.dtype) for item in scanned(*finals)]


def _value(x: object) -> Any:
    """A scalar's value, which must be known while the graph is traced."""
    if known(x) or isinstance(x, bool):
        return x
    static = tf.get_static_value(x)
    if static is None:
        raise UnsupportedOperator(
            "a sequence is carried, and the number of iterations is known only when the model runs"
        )
    return static.reshape(-1)[0] if static.ndim else static[()]


def _settled(step: Step, carried: tuple[tf.Tensor, ...]) -> tuple[list[tf.TensorSpec], list[tf.TensorSpec]]:
    """Types of the carried values that hold in every iteration, and of one iteration's scanned elements.

    The body is traced until the shapes that it gives agree with those it was given; a size that changes becomes unknown, and each
    round makes at least one so.
    """
    specs = [tf.TensorSpec(value.shape, value.dtype) for value in carried]
    while True:
        traced = tf.function(
            lambda i, going, *values: step(i, going, values)[1:], autograph=False
        ).get_concrete_function(tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.bool), *specs)
        results, scanned = traced.structured_outputs if specs or traced.structured_outputs else ((), ())
        relaxed = [
            tf.TensorSpec(spec.shape.most_specific_compatible_shape(result.shape), spec.dtype)
            for spec, result in zip(specs, results, strict=True)
        ]
        if all(_same(a.shape, b.shape) for a, b in zip(specs, relaxed, strict=True)):
            return specs, [tf.TensorSpec(item.shape, item.dtype) for item in scanned]
        specs = relaxed


def _same(a: tf.TensorShape, b: tf.TensorShape) -> bool:
    """Whether two shapes declare the same; equality of TensorShapes is undefined where a size is unknown."""
    return a.rank == b.rank and (a.rank is None or a.as_list() == b.as_list())
