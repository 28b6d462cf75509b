"""If and Loop in Keras: each body is a model of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.keras.primitives import Branches, Loop, OnnxModel, results_of
from onnxport.opset_maps.from_onnx.keras.tensors import KerasTensorFamily, KerasValue, Parameter
from onnxport.opset_maps.from_onnx.primitives.control import Body, Iteration, unrolled
from onnxport.opset_maps.from_onnx.values import Int, known

_TRIPS_UNKNOWN = "a sequence is carried, and the number of iterations is known only when the model runs"


class KerasControlFamily(KerasTensorFamily):
    """Branches and loops."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Any] = []

    def cond(self, condition: KerasValue, then_branch: Body, else_branch: Body) -> tuple[KerasValue, ...]:
        models, captures = [], []
        for branch in (then_branch, else_branch):
            mark = len(self._made)
            outputs = [self._as_output(item) for item in branch()]
            captured = self._history(outputs, mark)[0] or [self.anchor]
            models.append(self._submodel(captured, outputs, mark))
            captures.append(captured)
        if any(len(a.shape) != len(b.shape) for a, b in zip(*(model.outputs for model in models), strict=True)):
            raise UnsupportedOperator("the branches give tensors of different ranks, which Keras does not know")
        together = {id(tensor): tensor for captured in captures for tensor in captured}
        order = {key: place for place, key in enumerate(together)}
        places = [[order[id(tensor)] for tensor in captured] for captured in captures]
        layer = Branches(models, places, name=self.layer_name("if"))
        return results_of(self.apply(layer, self.as_symbolic(condition), *together.values()))

    def loop(
        self, trip_count: Int | None, condition: KerasValue | None, carried: Sequence[KerasValue], body: Iteration
    ) -> tuple[KerasValue, ...]:
        if any(not self.is_tensor(item) for item in carried):
            return self._unrolled(trip_count, condition, carried, body)
        values = [self.as_symbolic(item) for item in carried]
        shapes = [tuple(value.shape) for value in values]
        while True:
            mark = len(self._made)
            inputs = [keras.Input(batch_shape=(), dtype=dtype) for dtype in ("int64", "bool")]
            inputs += [keras.Input(batch_shape=s, dtype=v.dtype) for s, v in zip(shapes, values, strict=True)]
            self._kept.extend(inputs)  # what is known of a tensor is known by its id
            outputs = [self._as_output(item) for item in body.step(*inputs)]
            relaxed = [_joint(s, tuple(o.shape)) for s, o in zip(shapes, outputs[1:], strict=False)]
            if relaxed == shapes:
                break
            shapes = relaxed
        captured = [tensor for tensor in self._history(outputs, mark)[0] if not _among(inputs, tensor)]
        model = self._submodel([*inputs, *captured], outputs, mark)
        lead = [] if trip_count is None or known(trip_count) else [self.as_symbolic(trip_count)]
        lead += [] if condition is None else [self.as_symbolic(condition)]
        layer = Loop(
            model,
            carried=len(values),
            scanned=body.scan_count,
            trips=int(trip_count) if trip_count is not None and known(trip_count) else None,
            has_trips=trip_count is not None and not known(trip_count),
            has_condition=condition is not None,
            name=self.layer_name("loop"),
        )
        return results_of(self.apply(layer, *lead, *values, *captured))

    def _unrolled(
        self, trip_count: Int | None, condition: KerasValue | None, carried: Sequence[Any], body: Iteration
    ) -> tuple[Any, ...]:
        """A loop that carries sequences, as its iterations one after the other."""
        going = condition is None or self._truth(condition)
        if trip_count is not None and not known(trip_count):
            raise UnsupportedOperator(_TRIPS_UNKNOWN)

        def step(i: int, *values: Any) -> tuple[Any, ...]:
            place = self.eager.constant(np.asarray(i, np.int64)), self.eager.constant(np.asarray(True))
            proceed, *results = body.step(*place, *values)
            return (self._truth(proceed), *results)

        finals, scanned = unrolled(step, going, trip_count, carried, body.scan_count)
        if body.scan_count and not scanned[0]:
            raise UnsupportedOperator("a loop that carries a sequence and scans has no iteration")
        return (*finals, *(self.stack(items, 0) for items in scanned))

    def _truth(self, x: object) -> bool:
        if self.is_symbolic(x) or isinstance(x, Parameter):
            raise UnsupportedOperator(_TRIPS_UNKNOWN)
        return bool(self._content(x).reshape(-1)[0])

    def _as_output(self, item: object) -> Any:
        if not self.is_tensor(item):
            raise UnsupportedOperator("a branch or loop body that gives a sequence or nothing has no form in Keras")
        return self.as_symbolic(item)

    def _history(self, outputs: Sequence[Any], mark: int) -> tuple[list[Any], list[Any]]:
        """What `outputs` are computed of: the tensors recorded before `mark`, and those recorded since, in their order."""
        before: dict[int, Any] = {}
        since: dict[int, Any] = {}
        stack = list(outputs)
        while stack:
            tensor = stack.pop()
            if id(tensor) in before or id(tensor) in since:
                continue
            if self._order.get(id(tensor), -1) < mark:
                before[id(tensor)] = tensor
                continue
            since[id(tensor)] = tensor
            operation, index, _ = tensor._keras_history
            stack.extend(operation._inbound_nodes[index].input_tensors)
        return list(before.values()), sorted(since.values(), key=lambda tensor: self._order[id(tensor)])

    def _submodel(self, inputs: Sequence[Any], outputs: Sequence[Any], mark: int) -> Any:
        """The model of what was recorded since `mark`, from `inputs` to `outputs`.

        Its layers are called once more, on inputs of its own: Keras loses nodes when it cuts a model out of a graph whose
        layers have several results.
        """
        own = [keras.Input(batch_shape=tensor.shape, dtype=tensor.dtype) for tensor in inputs]
        result = {id(tensor): mine for tensor, mine in zip(inputs, own, strict=True)}
        for tensor in self._history(outputs, mark)[1]:
            if id(tensor) in result:
                continue
            operation, index, _ = tensor._keras_history
            node = operation._inbound_nodes[index]
            arguments = node.arguments.args, node.arguments.kwargs
            args, kwargs = keras.tree.map_structure(lambda item: result.get(id(item), item), arguments)
            results = keras.tree.flatten(operation(*args, **kwargs))
            result.update((id(old), new) for old, new in zip(node.output_tensors, results, strict=True))
        finals = [result[id(tensor)] for tensor in outputs]
        finals = [self.record("identity", item) if _among(own, item) else item for item in finals]
        return OnnxModel(own, finals, name=self.layer_name("body"))


def _among(tensors: Sequence[Any], tensor: object) -> bool:
    return any(item is tensor for item in tensors)


def _joint(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(a) != len(b):
        raise UnsupportedOperator("the rank of a carried value changes from iteration to iteration")
    return tuple(m if m == n else None for m, n in zip(a, b, strict=True))
