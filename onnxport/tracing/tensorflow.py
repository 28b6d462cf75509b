"""TensorFlow models as traced programs: a function graph, its inputs, outputs and what it captured.

Nothing is frozen or copied: the program refers to the graph that TensorFlow traced and to the variables themselves.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from onnxport.errors import InvalidInputError, InvalidModelError
from onnxport.frameworks.descriptor import Lazy
from onnxport.frameworks.tensorflow import META_GRAPH
from onnxport.graph.mapped import settled
from onnxport.tracing.tensorflow_functions import concrete, of_concrete
from onnxport.tracing.tensorflow_graph_def import loading, of_graph_def
from onnxport.tracing.tensorflow_program import Program, renamed
from onnxport.tracing.trust.faults import existing_file, reading

# Of files alone.
check_graph_def = Lazy("onnxport.tracing.trust.tensorflow:check_graph_def")
check_saved_model = Lazy("onnxport.tracing.trust.tensorflow:check_saved_model")
load_checkpoint = Lazy("onnxport.tracing.tensorflow_checkpoint:load_checkpoint")
lite_model = Lazy("onnxport.tracing.tensorflow_lite.model:LiteModel")
dequantised = Lazy("onnxport.tracing.tensorflow_lite.dequantised:dequantised")
is_quantised = Lazy("onnxport.tracing.tensorflow_lite.dequantised:is_quantised")
trace_lite = Lazy("onnxport.tracing.tensorflow_lite.model:trace")


def load(path: str | os.PathLike[str], *, allow_pickle: bool = False, allow_code: bool = False) -> Any:
    """The live model of a SavedModel directory, the `GraphDef` of a frozen ``.pb`` file or of a checkpoint's
    graph, or the model of a ``.tflite`` file.

    With `allow_code` operators may do more than compute: read and write files, call Python. `allow_pickle` means nothing here.

    Raises:
        UntrustedFileError: loading or running it would do more than compute, and `allow_code` is not set.
        InvalidModelError: it is neither, or corrupt.
    """
    place = Path(path)
    if place.suffix.lower() == ".tflite":
        return settled(place, lambda: lite_model(place))
    if place.suffix.lower() == META_GRAPH:
        return settled(place, lambda: load_checkpoint(place, allow_code=allow_code))
    if place.is_dir():
        return settled(place, lambda: _load_saved_model(place, allow_code))
    if place.name in ("saved_model.pb", "saved_model.pbtxt"):
        return settled(place.parent, lambda: _load_saved_model(place.parent, allow_code))
    graph = _parsed(place, tf.compat.v1.GraphDef(), "frozen GraphDef")
    if not graph.node:
        raise InvalidModelError(f"{str(path)!r} is no frozen GraphDef: it holds no node")
    if not allow_code:
        check_graph_def(place, graph)
    return graph


def load_part(
    path: str | os.PathLike[str],
    *,
    tag: str | None = None,
    concrete_function: int | None = None,
    allow_code: bool = False,
) -> Any:
    """The graph of a SavedModel that bears a tag, or a concrete function of its ``__call__`` by its number.

    Raises:
        InvalidInputError: there is no such graph or function.
        UntrustedFileError, InvalidModelError: as of `load`.
    """
    model = _load_saved_model(Path(path), allow_code, tag)
    if concrete_function is None:
        return model
    called = model.__call__ if callable(model) else None
    functions = list(getattr(called, "concrete_functions", ()))
    if not 0 <= concrete_function < len(functions):
        known = f"0 to {len(functions) - 1}" if functions else "none: its functions are signatures"
        raise InvalidInputError(f"concrete function {concrete_function}: __call__ of {str(path)!r} has {known}")
    function = functions[concrete_function]
    function.onnxport_model = model  # its variables live as long as the model does
    return function


def in_real_numbers(model: object) -> Any:
    """A TFLite file whose whole numbers that stand for real ones are these; nothing is rounded between its operators.

    Raises:
        InvalidInputError: it is none, or holds no such numbers.
    """
    if not isinstance(model, lite_model.get()) or not is_quantised(model):
        raise InvalidInputError(
            "dtype='float32': the weights are float32 already, or keep their types; a TFLite file's quantised ones become it"
        )
    return model.with_content(dequantised.get())


def load_libraries(paths: Sequence[str]) -> None:
    """Loads libraries of operators, whose code the caller names.

    Raises:
        InvalidModelError: one is no such library.
    """
    for path in paths:
        with reading(f"{path!r} is no library of operators"):
            tf.load_op_library(str(existing_file(path).resolve()))


def _load_saved_model(place: Path, allow_code: bool, tag: str | None = None) -> Any:
    binary, text = place / "saved_model.pb", place / "saved_model.pbtxt"
    if not binary.exists() and not text.exists():
        raise InvalidModelError(f"the directory {str(place)!r} is no SavedModel: it holds no saved_model.pb")
    saved = _parsed(binary if binary.exists() else text, SavedModel(), "SavedModel")
    known = [sorted(meta.meta_info_def.tags) for meta in saved.meta_graphs]
    if tag is not None and [tag] not in known:
        raise InvalidInputError(f"tag {tag!r}: the SavedModel {str(place)!r} has {', '.join(map(' and '.join, known))}")
    with loading(f"the SavedModel {str(place)!r} can't be loaded"):
        if not allow_code:
            check_saved_model(place, saved)
        return tf.saved_model.load(str(place), tags=None if tag is None else [tag])


def _parsed(place: Path, message: Any, kind: str) -> Any:
    with reading(f"{str(place)!r} is corrupt or no {kind}"):
        data = existing_file(place).read_bytes()
        if place.suffix == ".pbtxt":
            return text_format.Parse(data, message)
        message.ParseFromString(data)
    return message


def trace(
    model: object,
    *,
    inputs: object = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: object = None,
    signature: str | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Program:
    """The program of a SavedModel, `tf.function`, concrete function, `tf.Module`, frozen GraphDef, TFLite file or plain callable.

    Example inputs, a tuple or a dict by name, are not needed where the model has a signature; then `dynamic_shapes` names
    dimensions, by input name or position, else those that vary (by default dimension 0 of every input). Of a GraphDef the
    names are those of the tensors to feed and to fetch, else names to give the inputs and outputs.

    Raises:
        TracingError: TensorFlow can't trace it.
        InvalidInputError: inputs, signature or names do not fit.
        InvalidModelError: it is nothing that can be traced.
    """
    if isinstance(model, tf.compat.v1.GraphDef):
        return of_graph_def(model, dynamic_shapes, input_names, output_names)
    if not callable(model) and isinstance(model, lite_model.get()):
        program = trace_lite(model, dynamic_shapes=dynamic_shapes, signature=signature)
        return renamed(program, input_names, output_names)
    function = _function_of(model, signature)
    if not hasattr(function, "structured_input_signature"):
        function = concrete(function, inputs, kwargs, dynamic_shapes)
    program = of_concrete(function, dynamic_shapes=dynamic_shapes)
    return renamed(program, input_names, output_names)


def _function_of(model: object, signature: str | None) -> Any:
    """The callable to trace."""
    signatures = getattr(model, "signatures", None)
    if isinstance(signatures, Mapping) and signatures:
        if signature is None:
            signature = "serving_default" if "serving_default" in signatures else None
        if signature is None and len(signatures) == 1:
            signature = next(iter(signatures))
        if signature in signatures:
            return signatures[signature]
        raise InvalidInputError(
            f"signature={signature!r}: the SavedModel has {', '.join(sorted(signatures))}; choose one"
        )
    if signature is not None:
        chosen = getattr(model, signature, None)
        if not callable(chosen):
            raise InvalidInputError(
                f"signature={signature!r}: {type(model).__qualname__} has no such signature or method"
            )
        return chosen
    if hasattr(model, "structured_input_signature") or hasattr(model, "get_concrete_function"):
        return model
    if callable(model):
        return model.__call__ if isinstance(model, tf.Module) else model
    kind = type(model).__qualname__
    nothing = f"{kind} has neither __call__ nor a tf.function nor a signature: there is nothing to trace"
    if isinstance(model, tf.Graph):
        raise InvalidModelError(f"{nothing}; of a graph pass graph.as_graph_def()")
    if not isinstance(model, tf.__internal__.tracking.AutoTrackable):  # a tensor, a variable, a data set
        raise InvalidModelError(f"{nothing}; pass the function or module that computes with it")
    members = [name for name in dir(model) if not name.startswith("__")]
    functions = [name for name in members if hasattr(getattr(model, name, None), "get_concrete_function")]
    if len(functions) == 1:
        return getattr(model, functions[0])
    if functions:
        raise InvalidInputError(
            f"{kind} has several tf.functions ({', '.join(functions)}) and no __call__: pass signature='...'"
        )
    raise InvalidModelError(nothing)
