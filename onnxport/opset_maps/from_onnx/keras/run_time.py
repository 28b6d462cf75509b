"""One ONNX operator as a layer that is resolved when the model runs: only then its axes, counts or scales are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps import maps
from onnxport.opset_maps.from_onnx.keras.backend import PACKAGE, backend_namespace, backend_native, without_autocast
from onnxport.opset_maps.from_onnx.keras.coding import Constant, Slot, decode, encode, replaced
from onnxport.opset_maps.from_onnx.namespace import Call, Namespace, signature, to_tensor
from onnxport.opset_maps.from_onnx.primitives.tensors import Context
from onnxport.opset_maps.from_onnx.values import HostValue, OperandKind, UnknownUntilRun, carrier

Spec = tuple[tuple[int | None, ...], str]  # a result's shape and element type


@keras.saving.register_keras_serializable(package=PACKAGE)
class RunTimeOperator(keras.layers.Layer):
    """One ONNX operator, computed by its semantics on the values that the running model has.

    The layer runs eagerly: a model that holds one sets its ``run_eagerly``.

    Args:
        operator: its domain and name.
        form: its attributes and the `Context` of its node, as JSON (`coding.encode`).
        operands: its operands as JSON, the layer's inputs by their places.
        results: shape and element type of each result; a size that only the running model tells is None.
    """

    def __init__(
        self,
        operator: Sequence[str],
        form: object,
        operands: object,
        results: Sequence[Sequence[Any]],
        **kwargs: object,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        domain, op_type = operator
        self.operator, self.form, self.operands = (domain, op_type), form, operands
        self.results = tuple((tuple(shape), dtype) for shape, dtype in results)
        attributes, context = decode(form)
        self._call = _chain(domain, op_type, attributes, Context(**context))
        self._operands = decode(operands)
        self.built = True
        self.supports_masking = True

    def call(self, *tensors: keras.KerasTensor) -> Any:
        """The operator's results: those that the node names."""
        xp = backend_namespace()

        def content(item: Slot | Constant) -> Any:
            return tensors[item.index] if isinstance(item, Slot) else xp.constant(item.array)

        operands = replaced(self._operands, lambda item: isinstance(item, (Slot, Constant)), content)
        last = self._call
        while last.otherwise is not None:
            last = last.otherwise
        kinds = signature(last.entry.function)
        operands = [_at_hand(xp, item, kinds.kind(place)) for place, item in enumerate(operands)]
        try:
            result = self._call(xp, operands)
        except UnknownUntilRun as error:
            raise UnsupportedOperator(
                f"{self.operator[1]}: {error}, and a traced graph can't wait for that; run the model eagerly "
                "(compile(run_eagerly=True))"
            ) from error
        if result is NotImplemented:
            raise UnsupportedOperator(f"{self.operator[1]}: no mapping for what the model was run on")
        parts = result if isinstance(result, tuple) else (result,)
        named = [to_tensor(xp, item) for item, wanted in zip(parts, self._call.context.wanted, strict=False) if wanted]
        return tuple(named) if len(self.results) > 1 else named[0]

    def compute_output_spec(self, *tensors: keras.KerasTensor) -> Any:
        """What the model declares of the results."""
        specs = tuple(keras.KerasTensor(shape, dtype=dtype) for shape, dtype in self.results)
        return specs if len(specs) > 1 else specs[0]

    def get_config(self) -> dict[str, Any]:
        """What the constructor takes."""
        own = {"operator": self.operator, "form": self.form, "operands": self.operands, "results": self.results}
        return {**without_autocast(super().get_config()), **own}


def _at_hand(xp: Namespace, item: Any, kind: OperandKind | None) -> Any:
    """An operand that the semantics take as numbers with its content, where it is there."""
    if kind in (None, OperandKind.TENSOR) or not xp.is_tensor(item) or xp.ndim(item) > 1:
        return item
    dtype = xp.dtype(item)
    if keras.backend.backend() != "tensorflow":
        return HostValue(keras.ops.convert_to_numpy(item).astype(dtype.numpy()), dtype)
    # A traced graph's tensor has no content; Keras' own conversion fails on a scalar of bfloat16.
    return HostValue(np.asarray(item.numpy()), dtype) if hasattr(item, "numpy") else item


def _chain(domain: str, op_type: str, attributes: Mapping[str, Any], context: Context) -> Call:
    """The operator in the backend's own spelling, and behind it in the semantics that all frameworks share."""
    call: Call | None = None
    for table in (maps.onnx, backend_native()):
        entry = table.find(domain, op_type, context.version)
        if entry is not None:
            form = signature(entry.function)
            known = {name: item for name, item in attributes.items() if form.any_attribute or name in form.attributes}
            call = Call(entry, known, context, call)
    if call is None:
        raise UnsupportedOperator(f"{domain}::{op_type} has no entry here; it was registered where the model was saved")
    return call


def form_of(call: Call) -> tuple[tuple[str, str], Any]:
    """An operator's domain and name, and its attributes and context as JSON."""
    attributes: dict[str, Any] = {}
    last = call
    while True:
        attributes = {**last.attributes, **attributes}
        if last.otherwise is None:
            break
        last = last.otherwise
    return (last.entry.domain, last.entry.op_type), encode((attributes, vars(last.context)))


def results_of_call(call: Call, operands: Sequence[Any], outputs: Sequence[ir.Value], xp: Any) -> list[Spec] | None:
    """Shape and element type of each result that the node names; None where the model does not tell a rank or type."""
    results: list[Spec] = []
    for value, wanted in zip(outputs, call.context.wanted, strict=False):
        if not wanted:
            continue
        shape = _declared_shape(value)
        shape = _unnamed_sizes(call, operands, xp) if shape is None else shape
        if shape is None or not isinstance(value.type, ir.TensorType):
            return None
        results.append((shape, carrier(value.type.dtype)))
    return results


def _declared_shape(value: ir.Value) -> tuple[int | None, ...] | None:
    return None if value.shape is None else tuple(n if isinstance(n, int) else None for n in value.shape)


def _unnamed_sizes(call: Call, operands: Sequence[Any], xp: Any) -> tuple[None, ...] | None:
    """The shape, no size of which is known, of an operator whose operand of axes tells by its length how many there are."""
    step = {"Unsqueeze": 1, "Squeeze": -1}.get(call.entry.op_type, -1 if call.entry.op_type.startswith("Reduce") else 0)
    given = list(operands[:2])
    if not step or len(given) < 2 or not all(xp.is_tensor(item) for item in given):
        return None
    count = (xp.static_shape(given[1]) or (None,))[0]
    if count is None or (count == 0 and step == -1):
        return None
    kept = call.entry.op_type.startswith("Reduce") and call.attributes.get("keepdims", 1)
    return (None,) * (xp.ndim(given[0]) + (0 if kept else step * count))
