"""The scores of a classifier in the forms that skl2onnx gives probabilities: a matrix, maps by class, an output a class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxport.compat.skl2onnx.common.data_types import DataType, guess_proto_type
from onnxport.errors import InvalidInputError
from onnxport.model import OnnxModel

_ML = "ai.onnx.ml"
FLOAT = onnx.TensorProto.FLOAT
# A text before the names of inner values, or what gives a new name from the old one and those that are taken.
Naming = str | Callable[[str, set[str]], str] | None
_NUMBER = helper.make_tensor_type_proto(FLOAT, None)


def column_names(labels: Any) -> list[str]:
    """What skl2onnx calls the output of each class.

    >>> column_names(np.array([0, 2])), column_names(np.array(["no", "yes"]))
    (['i0', 'i2'], ['sno', 'syes'])
    """
    kind = "s" if np.asarray(labels).dtype.kind in "OUS" else "i"
    return [f"{kind}{label}" for label in np.asarray(labels).tolist()]


def output_names(form: object, labels: Any, given: Sequence[str]) -> list[str]:
    """The names of a classifier's outputs in a form: those that are given, then skl2onnx's own."""
    if form == "columns":
        names = ["output_label", *column_names(labels)]
    else:
        names = ["output_label", "output_probability"] if form else ["label", "probabilities"]
    return [*given, *names[len(given) :]]


def of_scores(
    proto: onnx.ModelProto, labels: Any, names: Sequence[str], *, form: object, both: bool
) -> onnx.ModelProto:
    """The message with its second output, the decision function, in a form of skl2onnx.

    Args:
        proto: a classifier whose outputs are the label and the scores.
        labels: the classes.
        names: of the outputs behind the label.
        form: False for a matrix, True for a map by class a row, "columns" for an output a class.
        both: whether a score that stands for two classes becomes one of each: its negative is the first's.
    """
    graph = proto.graph
    scores = graph.output[1]
    kind, dims = scores.type.tensor_type.elem_type, scores.type.tensor_type.shape.dim
    rows = dims[0].dim_param or dims[0].dim_value or None
    current, width = scores.name, len(labels) if len(dims) == 2 or both else 1
    del graph.output[1:]

    def node(operator: str, *inputs: str, to: str = "", domain: str = "", **attributes: Any) -> str:
        name = to or f"scores/{operator}"
        graph.node.append(
            helper.make_node(operator, inputs, [name], f"scores/{operator}/{name}", domain=domain, **attributes)
        )
        return name

    def constant(name: str, value: int | list[int]) -> str:
        graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), name))
        return name

    def output(name: str, *shape: Any) -> None:
        graph.output.append(helper.make_tensor_value_info(name, kind, [rows, *shape]))

    def cast(name: str) -> str:
        graph.node.append(helper.make_node("Cast", [name], ["scores/Cast"], "scores/Cast", to=FLOAT))
        return "scores/Cast"

    if len(dims) == 1:
        current = node("Unsqueeze", current, constant("scores/axes", [1]))
        if both:
            current = node("Concat", node("Neg", current), current, axis=1)
    if not form:
        output(node("Identity", current, to=names[0]), width)
    elif form == "columns":
        for place, name in enumerate(names):
            output(node("Gather", current, constant(f"scores/{place}", place), to=name, axis=1))
    else:
        wide = current if kind == FLOAT else cast(current)
        strings = np.asarray(labels).dtype.kind in "OUS"
        listed = {"classlabels_strings" if strings else "classlabels_int64s": np.asarray(labels).tolist()}
        node("ZipMap", wide, to=names[0], domain=_ML, **listed)
        row = helper.make_map_type_proto(onnx.TensorProto.STRING if strings else onnx.TensorProto.INT64, _NUMBER)
        graph.output.append(helper.make_value_info(names[0], helper.make_sequence_type_proto(row)))
        if _ML not in {item.domain for item in proto.opset_import}:
            proto.opset_import.append(helper.make_opsetid(_ML, 1))
    return proto


def of_types(proto: onnx.ModelProto, types: Sequence[tuple[str, Any]]) -> onnx.ModelProto:
    """The message, changed in place, with its outputs cast to types by name, where one is given.

    Raises:
        InvalidInputError: there are not as many, an output is no tensor, or what is given is no type.
    """
    graph = proto.graph
    if types and len(types) != len(graph.output):
        have = ", ".join(item.name for item in graph.output)
        raise InvalidInputError(
            f"skl2onnx: final_types= names {len(types)} outputs, there are {len(graph.output)}: {have}"
        )
    for value, (name, kind) in zip(graph.output, types, strict=False):
        if kind is None:
            continue
        if not isinstance(kind, DataType) or not value.type.HasField("tensor_type"):
            raise InvalidInputError(
                f"skl2onnx: final_types: {name!r} is {kind!r:.60}: None, or a type such as FloatTensorType() of an output "
                "that is a tensor, which maps are not: options={'zipmap': False}"
            )
        wanted = guess_proto_type(kind)
        if wanted != value.type.tensor_type.elem_type:
            for node in graph.node:
                node.output[:] = [f"{name}/before" if item == name else item for item in node.output]
                node.input[:] = [f"{name}/before" if item == name else item for item in node.input]
            graph.node.append(helper.make_node("Cast", [f"{name}/before"], [name], f"{name}/cast", to=wanted))
            value.type.tensor_type.elem_type = wanted
    return proto


def named(model: OnnxModel, naming: Naming) -> OnnxModel:
    """The model with other names for its inner values."""
    if naming is None:
        return model
    taken = {*model.input_names, *model.output_names}
    graph, names = model.model.graph, {}
    for value in [*graph.initializers.values(), *(value for node in graph for value in node.outputs)]:
        if value.name and value.name not in taken and value.name not in names:
            new = f"{naming}{value.name}" if isinstance(naming, str) else naming(value.name, taken)
            names[value.name] = new
            taken.add(new)
    return model.rename({old: new for old, new in names.items() if old != new})


def with_labels(proto: onnx.ModelProto, labels: Any) -> None:
    """Adds the classes as an output of their own, ``class_labels``, in place."""
    values = np.asarray(labels)
    values = values.astype(object if values.dtype.kind in "OUS" else np.int64)
    proto.graph.initializer.append(numpy_helper.from_array(values, "scores/labels"))
    proto.graph.node.append(helper.make_node("Identity", ["scores/labels"], ["class_labels"], "scores/class_labels"))
    kind = onnx.TensorProto.STRING if values.dtype == object else onnx.TensorProto.INT64
    proto.graph.output.append(helper.make_tensor_value_info("class_labels", kind, [len(values)]))


def as_sequence(proto: onnx.ModelProto, given: Sequence[str]) -> onnx.ModelProto:
    """A classifier of several targets with the probabilities of all of them as one output, a sequence; changed in place."""
    graph = proto.graph
    parts = [item.name for item in graph.output[1:]]
    if not parts:
        return proto
    label, name = given if len(given) == 2 else ("label", "probabilities")
    element = helper.make_tensor_type_proto(graph.output[1].type.tensor_type.elem_type, None)
    del graph.output[1:]
    graph.node.append(helper.make_node("SequenceConstruct", parts, [name], f"scores/{name}"))
    graph.output.append(helper.make_value_info(name, helper.make_sequence_type_proto(element)))
    if graph.output[0].name != label:
        graph.node.append(helper.make_node("Identity", [graph.output[0].name], [label], f"scores/{label}"))
        graph.output[0].name = label
    return proto
