"""``tf2onnx.convert``, on `onnxport.convert`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import numpy as np
import onnx

from onnxport.argument_types import check_mapping, check_path
from onnxport.compat.absent import refusing
from onnxport.compat.arguments import by_name, refuse_others
from onnxport.compat.opsets import convert_at
from onnxport.converters.convert import convert as onnxport_convert
from onnxport.errors import InvalidInputError
from onnxport.model import OnnxModel
from onnxport.request import check_names

_REGISTER = "register the operator with onnxport.register_to_onnx('tensorflow', 'Op')"
_NEUTRAL: dict[str, tuple[tuple[object, ...], str]] = {
    "custom_ops": ((None, {}), _REGISTER),
    "custom_op_handlers": ((None, {}), _REGISTER),
    "custom_rewriter": ((None, []), "rewrite the graph of the result with onnx-ir"),
    "target": (
        (None, [], ""),
        "the file is written for onnxruntime, or with onnxport.convert(runtime='reference') for none",
    ),
    "optimizers": ((None,), "a graph is written without what it does not need"),
    "large_model": ((True, False, None), ""),  # weights beyond 2 GB go to a data file by themselves
}
_ELSEWHERE = {  # options of its command line
    "dequantize": "from_tflite takes it, other models are not quantised",
    "signature_def": "onnxport.convert(folder, signature='serving_default') picks one of a SavedModel",
    "tag": "onnxport tf2onnx --tag picks a graph of a SavedModel, and tf.saved_model.load(folder, tags) in Python",
    "concrete_function": "pass the function itself, tf.saved_model.load(folder).__call__.concrete_functions[0]",
    "fold_const": "constants are folded, weights are not: leave it out",
    "continue_on_error": "an operator without a form is refused by name: onnxport convert --check lists all of them",
}
__getattr__ = refusing(__name__)


@by_name("tf2onnx.convert.from_keras", _ELSEWHERE)
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
    return _from(model, input_signature, "from_keras", locals())


@by_name("tf2onnx.convert.from_function", _ELSEWHERE)
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
    return _from(function, input_signature, "from_function", locals())


@by_name("tf2onnx.convert.from_graph_def", _ELSEWHERE)
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


@by_name("tf2onnx.convert.from_tflite", _ELSEWHERE)
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
    dequantize: bool = False,
) -> tuple[onnx.ModelProto, None]:
    """A file of TFLite as a message of ONNX, and nothing beside it; with `dequantize` in floats, as tf2onnx's command has it.

    Raises:
        InvalidInputError: an argument asks for what is not done here, or the model has other inputs and outputs than are named.
        OnnxportError: see `onnxport.convert`.
    """
    check_path(tflite_path, "tf2onnx.convert.from_tflite: tflite_path")
    return _of_graph(os.fspath(tflite_path), "from_tflite", locals())


def _of_graph(model: Any, function: str, given: dict[str, Any]) -> tuple[onnx.ModelProto, None]:
    """What stands in a file or message as a whole, whose ends may be named."""
    name = f"tf2onnx.convert.{function}"
    _check(name, given)
    layout: dict[str, Any] = {key: given[key] or None for key in ("inputs_as_nchw", "outputs_as_nchw")}
    asked = {key: list(given[key]) or None if given[key] else None for key in ("input_names", "output_names")}
    # A graph begins and ends at any of its tensors.
    feeds: dict[str, Any] = dict(asked) if function == "from_graph_def" else {}
    if given.get("dequantize"):
        feeds["dtype"] = "float32"
    result = convert_at(model, target_opset=_opsets(given), **feeds, **layout)
    for kind, values in (("input", result.model.graph.inputs), ("output", result.model.graph.outputs)):
        own = {_bare(value.name or ""): value for value in values}
        wanted = [_bare(item) for item in asked[f"{kind}_names"] or own]
        if sorted(wanted) != sorted(own):
            raise InvalidInputError(
                f"{name}: {kind}s {', '.join(wanted)} are asked for, the model has "
                f"{', '.join(own)}: cut the result with model.cut(inputs, outputs)"
            )
        values[:] = [own[item] for item in wanted]  # in the order in which they are asked for
    return _finished(result, given)


def _opsets(given: Mapping[str, Any]) -> int | dict[str, int] | None:
    """The versions that are asked for: that of ai.onnx, and those of other domains as messages of ONNX.

    Raises:
        InvalidInputError: `extra_opset` holds something else.
    """
    others = given["extra_opset"] or []
    if not all(isinstance(item, onnx.OperatorSetIdProto) for item in others):
        raise InvalidInputError(f"extra_opset={others!r}: a list such as [onnx.helper.make_opsetid('ai.onnx.ml', 3)]")
    versions = {item.domain: item.version for item in others}
    return {**({} if given["opset"] is None else {"": given["opset"]}), **versions} if versions else given["opset"]


def _check(function: str, given: Mapping[str, Any]) -> None:
    """Refuses arguments of another type than the function takes, and those that would change what is not done here.

    Raises:
        InvalidInputError: there are such.
    """
    refuse_others(function, {name: value for name, value in given.items() if name in _NEUTRAL}, _NEUTRAL)
    for option in ("input_names", "output_names", "inputs_as_nchw", "outputs_as_nchw"):
        check_names(f"{function}: {option}", given.get(option))
    if given["shape_override"] is not None:
        check_mapping(given["shape_override"], f"{function}: shape_override", "{'x': [1, 3]}")
    if given.get("tensors_to_rename") is not None:
        check_mapping(given["tensors_to_rename"], f"{function}: tensors_to_rename", "{'x:0': 'input'}")
    if given["output_path"] is not None:
        check_path(given["output_path"], f"{function}: output_path")


def _bare(name: str) -> str:
    """The name of a tensor of TensorFlow without its place among the results of an operation: ``x:0`` is ``x``."""
    return name.partition(":")[0]


def _from(model: Any, signature: Any, function: str, given: dict[str, Any]) -> tuple[onnx.ModelProto, None]:
    _check(f"tf2onnx.convert.{function}", given)
    opset = _opsets(given)
    if signature is not None and not isinstance(signature, (tuple, list)):
        signature = (signature,)
    specs = list(_specs(signature or (), ""))
    odd = [spec for _, spec in specs if not hasattr(spec, "shape") or not hasattr(spec, "dtype")]
    if odd:
        raise InvalidInputError(
            f"tf2onnx.convert.{function}: input_signature holds {odd[0]!r:.80}: a tf.TensorSpec((None, 3), tf.float32, name='x') "
            "or an array for each input"
        )
    names = [getattr(spec, "name", None) or key for key, spec in specs]
    asked: dict[str, Any] = {
        "target_opset": opset,
        "input_names": [str(name) for name in names] if names and all(names) else None,
    }
    result: OnnxModel
    if specs and getattr(model, "inputs", None):  # a functional model, which knows its own inputs
        keyed = all(key for key, _ in specs) and {key for key, _ in specs} == {item.name for item in model.inputs}
        result = _by_keys(convert_at(model, target_opset=opset), specs) if keyed else convert_at(model, **asked)
        result = _sized(result, names, specs)
    elif signature is not None and hasattr(model, "trainable_variables") and hasattr(model, "call"):
        # A Keras model of a user's own class takes examples.
        result = _sized(convert_at(model, inputs=_examples(signature), **asked), names, specs)
    else:
        result = convert_at(model, inputs=None if signature is None else tuple(signature), **asked)
    layout: dict[str, Any] = {
        f"{kind}s_as_nchw": _own(given[f"{kind}s_as_nchw"], own, result.output_names)
        for kind, own in (("input", result.input_names), ("output", result.output_names))
        if given[f"{kind}s_as_nchw"]
    }
    return _finished(onnxport_convert(result, **layout) if layout else result, given)


def _specs(signature: Any, key: str) -> Iterator[tuple[str, Any]]:
    """The specifications of a signature with the keys that they stand under, mappings by their keys as TensorFlow sorts them."""
    if isinstance(signature, Mapping):
        for name in sorted(signature):
            yield from _specs(signature[name], str(name))
    elif isinstance(signature, (tuple, list)):
        for item in signature:
            yield from _specs(item, "")
    else:
        yield key, signature


def _by_keys(model: OnnxModel, specs: Sequence[tuple[str, Any]]) -> OnnxModel:
    """The model with its inputs, which the keys of a signature name, called after the specifications."""
    renamed = {key: spec.name for key, spec in specs if getattr(spec, "name", None) not in (None, key)}
    return model.rename(renamed) if renamed else model


def _own(names: Sequence[str], own: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Names of inputs or outputs as ours has them, with a place behind or without one.

    The results of a function, which tf2onnx calls Identity, Identity_1 and so on, go by their places.
    """
    places = {f"Identity{f'_{place}' if place else ''}": name for place, name in enumerate(outputs)}
    places |= {_bare(name): name for name in own}
    return [name if name in own else places.get(_bare(name), name) for name in names]


def _examples(signature: Any) -> Any:
    """Arrays that a signature takes, nested as it is, of two rows where the batch varies."""
    rng = np.random.default_rng(0)

    def example(item: Any) -> Any:
        if isinstance(item, Mapping):
            return {name: example(child) for name, child in item.items()}
        if isinstance(item, (tuple, list)):
            return tuple(map(example, item))
        sizes = [2 if size is None else size for size in item.shape]
        return rng.uniform(0, 2, sizes).astype(item.dtype.as_numpy_dtype)

    return example(signature)


def _sized(model: OnnxModel, names: Sequence[str | None], specs: Sequence[tuple[str, Any]]) -> OnnxModel:
    """The model with the sizes that a signature fixes: by the names of its specifications, else by their places."""
    own = names if set(names) == set(model.input_names) else model.input_names
    return _with_sizes(model, {str(name): spec.shape for name, (_, spec) in zip(own, specs, strict=True)})


def _with_sizes(model: OnnxModel, shapes: Mapping[str, Sequence[int | None]]) -> OnnxModel:
    """The model with the sizes of its inputs that are given; what is None or -1 stays."""
    sizes: dict[str, object] = {}
    own = {_bare(name): name for name in model.input_names}
    for given, shape in shapes.items():
        name = given if given in model.input_names else own.get(_bare(given), given)
        sizes |= {f"{name}:{axis}": int(size) for axis, size in enumerate(shape) if size not in (None, -1)}
    return model.set_shapes(sizes) if sizes else model


def _finished(result: OnnxModel, given: dict[str, Any]) -> tuple[onnx.ModelProto, None]:
    """The message with the sizes and names that are asked for, written where a path is given."""
    result = _with_sizes(result, given["shape_override"] or {})
    renamed = {_bare(old): new for old, new in (given.get("tensors_to_rename") or {}).items()}
    result = result.rename(renamed) if renamed else result
    if given.get("name"):
        result.model.graph.name = given["name"]
    if given["output_path"] is not None:
        path = Path(given["output_path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        if given.get("large_model") and path.suffix == ".zip":
            _zip(result, path)
        else:
            result.save(path)
    return result.proto, None


def _zip(model: OnnxModel, path: Path) -> None:
    """Writes the model and its weights as files of an archive, as tf2onnx does for large ones."""
    with TemporaryDirectory() as folder, ZipFile(path, "w") as archive:
        model.save(Path(folder, "__MODEL_PROTO.onnx"), external_data=True)
        for file in sorted(Path(folder).iterdir()):
            archive.write(file, file.name)
