"""``tf2onnx.convert``, on `onnxport.convert`: ``from onnxport.compat import tf2onnx`` stands for ``import tf2onnx``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import onnx

from onnxport.compat.arguments import refuse_others
from onnxport.converters.convert import convert as onnxport_convert
from onnxport.errors import InvalidInputError
from onnxport.model import OnnxModel

_REGISTER = "register the operator with onnxport.register_to_onnx('tensorflow', 'Op')"
_NEUTRAL: dict[str, tuple[tuple[object, ...], str]] = {
    "custom_ops": ((None,), _REGISTER),
    "custom_op_handlers": ((None,), _REGISTER),
    "custom_rewriter": ((None,), "rewrite the graph of the result with onnx-ir"),
    "extra_opset": ((None,), _REGISTER),
    "shape_override": ((None, {}), "give the sizes in input_signature=, or with model.set_shapes afterwards"),
    "target": (
        (None, [], ""),
        "the file is written for onnxruntime, or with onnxport.convert(runtime='reference') for none",
    ),
    "optimizers": ((None,), "a graph is written without what it does not need"),
    "large_model": ((True, False, None), ""),  # weights beyond 2 GB go to a data file by themselves
    "tensors_to_rename": ((None, {}), "pass input_names= and output_names= to onnxport.convert"),
    "name": ((None,), "the graph's name is not chosen"),
}

convert = sys.modules[__name__]  # tf2onnx.convert.from_keras


def from_keras(
    model: Any,
    input_signature: Sequence[Any] | None = None,
    opset: int | None = None,
    custom_ops: Any = None,
    custom_op_handlers: Any = None,
    custom_rewriter: Any = None,
    inputs_as_nchw: Any = None,
    outputs_as_nchw: Any = None,
    extra_opset: Any = None,
    shape_override: Any = None,
    target: Any = None,
    large_model: bool = False,
    output_path: str | os.PathLike[str] | None = None,
    optimizers: Any = None,
) -> tuple[onnx.ModelProto, None]:
    """A Keras model as a message of ONNX, and nothing beside it, as tf2onnx returns two things.

    Raises:
        InvalidInputError: an argument asks for what is not done here.
        OnnxportError: see `onnxport.convert`.
    """
    return _from(model, input_signature, opset, output_path, "from_keras", locals())


def from_function(
    function: Any,
    input_signature: Sequence[Any] | None = None,
    opset: int | None = None,
    custom_ops: Any = None,
    custom_op_handlers: Any = None,
    custom_rewriter: Any = None,
    inputs_as_nchw: Any = None,
    outputs_as_nchw: Any = None,
    extra_opset: Any = None,
    shape_override: Any = None,
    target: Any = None,
    large_model: bool = False,
    output_path: str | os.PathLike[str] | None = None,
    optimizers: Any = None,
) -> tuple[onnx.ModelProto, None]:
    """A ``tf.function`` as a message of ONNX, and nothing beside it.

    Raises:
        InvalidInputError: an argument asks for what is not done here.
        OnnxportError: see `onnxport.convert`.
    """
    if input_signature is None and not hasattr(function, "structured_input_signature"):
        input_signature = getattr(function, "input_signature", None)
    return _from(function, input_signature, opset, output_path, "from_function", locals())


def from_graph_def(
    graph_def: Any,
    name: str | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset: int | None = None,
    custom_ops: Any = None,
    custom_op_handlers: Any = None,
    custom_rewriter: Any = None,
    inputs_as_nchw: Any = None,
    outputs_as_nchw: Any = None,
    extra_opset: Any = None,
    shape_override: Any = None,
    target: Any = None,
    large_model: bool = False,
    tensors_to_rename: Any = None,
    output_path: str | os.PathLike[str] | None = None,
    optimizers: Any = None,
) -> tuple[onnx.ModelProto, None]:
    """A frozen graph as a message of ONNX, and nothing beside it; its inputs and outputs are its placeholders and ends.

    Raises:
        InvalidInputError: an argument asks for what is not done here, or the graph has other inputs and outputs than are named.
        OnnxportError: see `onnxport.convert`.
    """
    return _of_graph(graph_def, "from_graph_def", locals())


def from_tflite(
    tflite_path: str | os.PathLike[str],
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset: int | None = None,
    custom_ops: Any = None,
    custom_op_handlers: Any = None,
    custom_rewriter: Any = None,
    inputs_as_nchw: Any = None,
    outputs_as_nchw: Any = None,
    extra_opset: Any = None,
    shape_override: Any = None,
    target: Any = None,
    large_model: bool = False,
    output_path: str | os.PathLike[str] | None = None,
) -> tuple[onnx.ModelProto, None]:
    """A file of TFLite as a message of ONNX, and nothing beside it.

    Raises:
        InvalidInputError: an argument asks for what is not done here, or the model has other inputs and outputs than are named.
        OnnxportError: see `onnxport.convert`.
    """
    return _of_graph(os.fspath(tflite_path), "from_tflite", locals())


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"onnxport.compat has no tf2onnx.{name}: from_keras, from_function, from_graph_def, from_tflite; "
        "onnxport.convert does the rest"
    )


def _of_graph(model: Any, function: str, given: dict[str, Any]) -> tuple[onnx.ModelProto, None]:
    """What stands in a file or message as a whole, whose ends may be named."""
    name = f"tf2onnx.convert.{function}"
    refuse_others(name, _others(given), _NEUTRAL)
    layout: dict[str, Any] = {key: given[key] or None for key in ("inputs_as_nchw", "outputs_as_nchw")}
    result: OnnxModel = onnxport_convert(model, target_opset=given["opset"], output=given["output_path"], **layout)
    for kind, own in (("input", result.input_names), ("output", result.output_names)):
        asked = given[f"{kind}_names"]
        wanted = [item.partition(":")[0] for item in asked or own]
        if sorted(wanted) != sorted(item.partition(":")[0] for item in own):
            raise InvalidInputError(
                f"{name}: {kind}s {', '.join(wanted)} are asked for, the graph has "
                f"{', '.join(own)}: cut the result with model.cut(inputs, outputs)"
            )
    return result.proto, None


def _others(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in _NEUTRAL}


def _from(
    model: Any, signature: Sequence[Any] | None, opset: int | None, path: Any, function: str, given: dict[str, Any]
) -> tuple[onnx.ModelProto, None]:
    refuse_others(f"tf2onnx.convert.{function}", _others(given), _NEUTRAL)
    layout: dict[str, Any] = {name: given[name] or None for name in ("inputs_as_nchw", "outputs_as_nchw")}
    if signature is not None and not isinstance(signature, (tuple, list)):
        signature = (signature,)
    names = [getattr(spec, "name", None) for spec in signature or ()]
    if signature is not None and getattr(model, "inputs", None):  # a functional model, which knows its own inputs
        result: OnnxModel = onnxport_convert(
            model, target_opset=opset, input_names=[str(name) for name in names] if all(names) else None
        )
        result = _sized(result, signature)
        if any(layout.values()):
            result = onnxport_convert(result, **layout)
        if path is not None:
            result.save(path)
        return result.proto, None
    result = onnxport_convert(
        model,
        inputs=None if signature is None else tuple(signature),
        input_names=[str(name) for name in names] if names and all(names) else None,
        target_opset=opset,
        output=path,
        **layout,
    )
    return result.proto, None


def _sized(model: OnnxModel, signature: Sequence[Any]) -> OnnxModel:
    """The model with the sizes that a signature fixes."""
    sizes: dict[str, object] = {}
    for name, spec in zip(model.input_names, signature, strict=True):
        sizes |= {f"{name}:{axis}": int(size) for axis, size in enumerate(spec.shape) if size is not None}
    return model.set_shapes(sizes) if sizes else model
