"""ONNX to ONNX: a copy, cut, with the user's names, dimensions and opset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import onnx_ir as ir

from onnxport.converters.domains import declare
from onnxport.converters.from_onnx.inference import inferred
from onnxport.converters.to_onnx.finish import lowest_ir_version
from onnxport.errors import InvalidInputError
from onnxport.graph.passes.cut import cut
from onnxport.graph.passes.dimensions import fix, relax
from onnxport.graph.passes.opset import convert_opset
from onnxport.graph.passes.rename import rename
from onnxport.model import OnnxModel
from onnxport.request import Request
from onnxport.tracing.dimensions import axes, by_path, unknown

_IR_OF_FUNCTIONS = 8  # functions of a model, which stay functions, came with this IR version


@dataclass(frozen=True)
class Edited:
    """An ONNX model that was converted to ONNX."""

    # What the result has to agree with: the part of the model that was asked for, under the names that were asked for
    # and with the dimensions that are to vary, its nodes as they are.
    source: OnnxModel
    result: OnnxModel  # the same with sizes fixed, at the opset that was asked for
    request: Request  # the request with the inputs under their new names
    whole: OnnxModel  # the model as it was
    part: OnnxModel | None = None  # what was cut out of it, under its own names; None where nothing was cut


def edit(model: OnnxModel, request: Request, *, itself: bool = False) -> Edited:
    """The model as the request wants it; `model` itself stays as it is, its weights are shared.

    Args:
        model: the model.
        request: what is asked of it.
        itself: whether the result may be `model` where nothing is asked: nobody alters either of them.

    Raises:
        UnsupportedOperator: operators without a form at the opset, all of them at once.
        InvalidInputError: names, values or dimensions do not fit the model.
    """
    changes = (request.cut_inputs, request.cut_outputs, request.dynamic_shapes, request.target_opset)
    declare(model, request.domains, written=True)
    asked = any(item is not None for item in changes)
    if not asked and request.input_names is None and request.output_names is None:
        result = model.model if itself else model.model.clone()
        return Edited(OnnxModel(model.model), OnnxModel(result, notes=model.notes), request, model)
    part = inferred(model.model) if asked else model.model.clone()
    parts = None
    if request.cut_inputs or request.cut_outputs:
        cut(part, request.cut_inputs or (), request.cut_outputs or ())
        parts = OnnxModel(part.clone())
    before = OnnxModel(part).input_names
    if request.input_names is not None or request.output_names is not None:
        rename(part, request.input_names, request.output_names)
    names = dict(zip(before, OnnxModel(part).input_names, strict=True))
    dimensions = _dimensions(part, request.dynamic_shapes, names)
    relax(part, dimensions)
    result = part.clone()
    fix(result, dimensions)
    if dimensions:
        result = inferred(result)
    if request.target_opset is not None:
        convert_opset(result, request.target_opset)
        result.ir_version = max(lowest_ir_version(result), _IR_OF_FUNCTIONS if result.functions else 0)
    return Edited(OnnxModel(part), OnnxModel(result, notes=model.notes), _renamed(request, names), model, parts)


def _dimensions(model: ir.Model, given: Any, names: Mapping[str, str]) -> dict[tuple[str, int], str | int]:
    """What the user asks for dimensions, by input and axis; inputs by their old or new names."""
    if given is None:
        return {}
    inputs = {value.name or "": value for value in model.graph.inputs}
    wanted: dict[tuple[str, int], str | int] = {}
    for path, item in by_path(given, list(names)).items():
        name = path if path in names.values() else names.get(path)
        if name is None:
            raise unknown(path, names.values())
        shape = inputs[name].shape
        if shape is None:
            raise InvalidInputError(f"dynamic_shapes: the model does not say how many dimensions {name!r} has")
        for axis, dim in axes(name, item, shape.rank()).items():
            if not isinstance(dim, (str, int)) or (isinstance(dim, int) and dim < 0):
                raise InvalidInputError(
                    f"dynamic_shapes: dimension {axis} of {name!r} is {dim!r}: of an ONNX model dimensions are names or sizes"
                )
            wanted[name, axis] = dim
    return wanted


def _renamed(request: Request, names: Mapping[str, str]) -> Request:
    """The request with inputs by their new names."""

    def apply(given: Mapping[str, Any]) -> dict[str, Any]:
        return {names.get(name, name): item for name, item in given.items()}

    inputs = apply(request.inputs) if isinstance(request.inputs, Mapping) else request.inputs
    return replace(request, inputs=inputs, kwargs=apply(request.kwargs) if request.kwargs else request.kwargs)
