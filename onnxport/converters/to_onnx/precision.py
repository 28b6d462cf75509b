"""A converted float32 model in a smaller precision, and the source that its proof takes for right: `dtype=` of a conversion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from onnxport.converters.from_onnx.inference import inferred
from onnxport.converters.to_onnx.finish import lowest_ir_version
from onnxport.errors import InvalidInputError, UnsupportedOperator
from onnxport.graph.bit_blocks import BitBlocks
from onnxport.graph.builder import OpBuilder
from onnxport.graph.passes.cleanup import clean
from onnxport.graph.passes.narrow import narrow
from onnxport.graph.passes.narrow_plan import narrow_plan
from onnxport.graph.passes.rename import every_value
from onnxport.graph.passes.rounding import rounded
from onnxport.graph.passes.weight_bits import WeightBits, with_rounded_weights
from onnxport.graph.runtime import Session
from onnxport.graph.runtimes import NEWEST_OPSET
from onnxport.graph.runtimes.fitting import fit
from onnxport.model import OnnxModel
from onnxport.request import BITS, Request

_WEIGHTS_ALONE = 4  # the IR version from which weights need not be inputs too
_BLOCKED = 21  # the opset from which DequantizeLinear knows blocks
_TYPES = {"float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16}


@dataclass(frozen=True)
class Lowered:
    """A model in a smaller precision."""

    wide: OnnxModel  # the float32 model, which agrees with the source
    source: OnnxModel  # the same with the rounding that the precision means, in float32
    result: OnnxModel
    rounded: Mapping[str, BitBlocks] = field(default_factory=dict)  # weights in few bits, by their names


class RoundedModel(OnnxModel):
    """A float32 model that rounds to a 16-bit type on its way; `beyond` has `watched`'s outputs that count too large numbers."""

    def __init__(self, model: ir.Model, watched: ir.Model, beyond: Mapping[str, str], dtype: str) -> None:
        super().__init__(model)
        self.watched, self.beyond, self.dtype = watched, beyond, dtype

    def new_session(self) -> Session:
        """A session of the graph that counts."""
        return Session(self.watched)


def lowered(hub: OnnxModel, request: Request, *, typed: bool) -> Lowered:
    """The model in `request.dtype`; with `typed` every value of it has a type.

    Raises:
        InvalidInputError: it computes nothing in float32.
        UnsupportedOperator: it has functions of its own.
    """
    if request.dtype in BITS:
        return _in_bits(hub, request, typed=typed)
    if request.dtype not in _TYPES:
        raise InvalidInputError(f"dtype={request.dtype!r}: the weights are float32 already, or keep their types")
    if hub.model.functions:
        raise UnsupportedOperator(
            f"dtype={request.dtype!r}: the model has functions of its own; convert what it came from"
        )
    model = hub.model.clone() if typed else inferred(hub.model)
    freed = _inputs_no_longer(model)
    plan = narrow_plan(model, _TYPES[request.dtype])
    if not plan.places:
        raise InvalidInputError(f"dtype={request.dtype!r}: the model computes nothing in float32 that could be smaller")
    plain, watched, beyond = rounded(model, plan, keep_io_types=bool(request.keep_io_types))
    source = RoundedModel(plain, watched, beyond, request.dtype)
    narrow(model, plan, keep_io_types=bool(request.keep_io_types))
    clean(model, merge=request.functions is None)
    notes = [plan.note(), *freed, *_fitted(model, request, typed=typed)]
    model.ir_version = max(lowest_ir_version(model), hub.model.ir_version or 0, _WEIGHTS_ALONE if freed else 0)
    return Lowered(hub, source, OnnxModel(model, notes=(*hub.notes, *notes), runtime=hub.runtime, scopes=hub.scopes))


def _in_bits(hub: OnnxModel, request: Request, *, typed: bool) -> Lowered:
    """The model with its weights of products in few bits, and the float32 one with these weights rounded alike."""
    direct, opset = hub.runtime == "reference", hub.opset
    if direct and opset < _BLOCKED:
        raise UnsupportedOperator(
            f"dtype={request.dtype!r}: ONNX has weights in blocks from opset {_BLOCKED} on, not at {opset}"
        )
    model = hub.model.clone() if typed else inferred(hub.model)
    freed = _inputs_no_longer(model)
    weights = WeightBits(model, BITS[request.dtype or ""], request.block_size, direct=direct)
    weights.run()
    if not weights.rounded:
        raise InvalidInputError(
            f"dtype={request.dtype!r}: the model has no MatMul or Gemm with a float32 weight of its own that is large enough. "
            "Other schemes (convolutions, activations, calibrated) are not written: quantise the float32 file with its own tools"
        )
    source = hub.model.clone()
    with_rounded_weights(source, weights.rounded)
    clean(model, merge=request.functions is None)
    model.ir_version = max(lowest_ir_version(model), hub.model.ir_version or 0)
    notes = [f"{len(weights.rounded)} weights are in {request.dtype}, a scale for {request.block_size} of them", *freed]
    if weights.left:
        notes.append(f"in float32 stay weights that are read in other ways too: {', '.join(weights.left[:3])}")
    scopes = replace(hub.scopes, parameters=hub.scopes.parameters.union(weights.written))
    result = OnnxModel(model, notes=(*hub.notes, *notes), runtime=hub.runtime, scopes=scopes)
    return Lowered(hub, OnnxModel(source), result, weights.rounded)


def _inputs_no_longer(model: ir.Model) -> tuple[str, ...]:
    """Takes weights from among the inputs, where files before IR version 4 have them and they keep their type; a note of it."""
    own = [value for value in model.graph.inputs if not value.is_initializer()]
    if len(own) == len(model.graph.inputs):
        return ()
    model.graph.inputs.clear()
    model.graph.inputs.extend(own)
    return ("the weights are inputs no longer",)


def _fitted(model: ir.Model, request: Request, *, typed: bool) -> tuple[str, ...]:
    """The graph once more without what onnxruntime lacks in the type: all of bfloat16's arithmetic."""
    opset = model.graph.opset_imports.get("", 0)
    if request.runtime != "onnxruntime" or opset > NEWEST_OPSET or not (typed or request.dtype == "bfloat16"):
        return ()
    op = OpBuilder(opset)
    for name in {value.name for value in every_value(model.graph) if value.name}:
        op.names.reserve(name)
    return fit(model, op, merge=request.functions is None)
