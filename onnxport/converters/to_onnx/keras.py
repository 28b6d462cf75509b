"""Keras 3 -> ONNX, through the backend that the model runs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from onnxport.errors import (
    InvalidInputError,
    InvalidModelError,
    OnnxportError,
    TracingError,
    UnsupportedOperator,
    first_line,
)
from onnxport.frameworks.keras import check_values
from onnxport.model import OnnxModel
from onnxport.request import Request
from onnxport.tracing.keras import Sizes, backend, trace
from onnxport.tracing.keras_time import steps_unrolled

_FIXED = "dimensions beside the batch are fixed"
_UNNAMED = "dimensions that dynamic_shapes does not name are fixed"
_NARROWER: tuple[tuple[Sizes, str], ...] = (
    ("batch", f"{_FIXED} at an example's"),
    ("fixed", "all dimensions are fixed at an example's, the batch too"),
)


def export(model: Any, request: Request) -> OnnxModel:
    """The ONNX model of a Keras model or layer in inference mode.

    Raises:
        UnsupportedOperator: operators without an ONNX form, all of them at once.
        TracingError: the model can't be traced, or Keras runs on a backend that can't.
        InvalidInputError: inputs or names do not fit.
    """
    if not callable(model):
        raise InvalidModelError(f"{type(model).__qualname__} is no Keras model or layer: pass the model itself")
    for inputs in (request.inputs, *request.examples):
        check_values(model, inputs, request.kwargs)
    own = backend()
    if own == "tensorflow":
        return _on_tensorflow(model, request)
    # Rebuilding compares both models: all of the proof, which takes longer to import than most models to convert.
    from onnxport.converters.to_onnx.keras_elsewhere import export_elsewhere, other_backends

    others = other_backends(own)
    if own != "torch":
        if not others:
            raise TracingError(
                f"Keras runs on the {own} backend, which can't be traced; install TensorFlow or PyTorch beside it: the model "
                "is rebuilt there from its configuration and weights"
            )
        return export_elsewhere(model, request, others)
    return _torch_first(model, request, others) if others else _unrolled(model, request)


def _on_tensorflow(model: Any, request: Request) -> OnnxModel:
    """As TensorFlow traces it; where it can't with open sizes, in those of the example inputs, the batch open if that can be."""
    from onnxport.converters.to_onnx.tensorflow import export_traced

    try:
        return export_traced(model, request, trace)
    except TracingError as error:
        if request.inputs is None or request.examples:
            raise
        chosen = request.dynamic_shapes is not None
        for sizes, fixed in (("batch", f"{_UNNAMED} at an example's"),) if chosen else _NARROWER:
            try:
                result = export_traced(model, request, partial(trace, sizes=sizes))
            except (OnnxportError, ValueError):
                continue
            note = f"{fixed}: {first_line(error)}"
            return OnnxModel(result.model, notes=(*result.notes, note), runtime=request.runs_in)
        raise


def _torch_first(model: Any, request: Request, others: Sequence[str]) -> OnnxModel:
    """As torch.export traces it; rebuilt on another backend where that can't, or fixes all sizes."""
    failure: OnnxportError | None = None
    result: OnnxModel | None = None
    try:
        result = _on_torch(model, request)
    except (TracingError, UnsupportedOperator) as error:
        if isinstance(error, UnsupportedOperator) and error.final:
            raise
        failure = error
    if result is not None and not _is_fixed(result, request):
        return result
    from onnxport.converters.to_onnx.keras_elsewhere import export_elsewhere

    try:
        return export_elsewhere(model, request, others)
    except OnnxportError as error:
        if result is None:
            raise failure or error from None
        return _unrolled(model, request)


def _unrolled(model: Any, request: Request) -> OnnxModel:
    """As torch.export traces it, with recurrent layers step by step, so that the batch stays open where that can be."""
    try:
        with steps_unrolled(model):
            return _on_torch(model, request)
    except (TracingError, UnsupportedOperator) as error:
        if isinstance(error, UnsupportedOperator) and error.final:
            raise
        return _on_torch(model, request)


def _is_fixed(result: OnnxModel, request: Request) -> bool:
    """Whether a trace lost the sizes that may vary."""
    if any(_FIXED in note for note in result.notes):
        return True
    sizes = [size for value in result.model.graph.inputs for size in value.shape or ()]
    wanted = request.dynamic_shapes is None or bool(request.dynamic_shapes)
    return wanted and bool(sizes) and all(isinstance(size, int) for size in sizes)


def _on_torch(model: Any, request: Request) -> OnnxModel:
    from onnxport.converters.to_onnx import pytorch
    from onnxport.tracing.keras_pytorch import as_module, written_variables
    from onnxport.tracing.keras_pytorch_places import CallsRecorded

    traced = as_module(model)
    given = request.inputs is not None or request.kwargs
    if traced.example is None and not given:
        raise InvalidInputError(
            f"{type(model).__qualname__} {model.name!r} does not know its inputs: pass inputs=(...)"
        )
    kwargs = request.kwargs
    inputs = traced.flatten(request.inputs) if request.inputs is not None else None
    if traced.input_names is not None:  # a functional model takes its keywords as one of its inputs' structures
        inputs, kwargs = traced.flatten(kwargs) if inputs is None and kwargs else inputs, None
    own = replace(
        request,
        inputs=inputs if given else traced.example,
        kwargs=kwargs,
        examples=tuple(traced.flatten(item) for item in request.examples),
        input_names=request.input_names or traced.input_names,
        output_names=request.output_names or traced.output_names,
    )
    try:
        written = written_variables(model, traced.module, own.inputs, own.kwargs or {})
    except Exception:  # the model does not run on them: the trace says why
        written = []
    if written:
        raise UnsupportedOperator(
            f"{type(model).__qualname__} {model.name!r} writes {', '.join(map(repr, written))} when it is called, and an ONNX "
            "graph has no state: give the state as an input and an output (stateful=False, initial_state=, return_state=True)",
            final=True,
        )
    if traced.dynamic_shapes and request.dynamic_shapes is None and not request.examples:
        try:
            with CallsRecorded():
                return pytorch.export(traced.module, replace(own, dynamic_shapes=traced.dynamic_shapes))
        except (TracingError, UnsupportedOperator) as error:
            with CallsRecorded():
                result = pytorch.export(traced.module, own)  # with the batch alone left open
            note = f"{_FIXED} at an example's: {first_line(error)}"
            return OnnxModel(result.model, notes=(*result.notes, note), runtime=request.runs_in)
    with CallsRecorded():
        return pytorch.export(traced.module, own)
