"""The process of another Keras backend, from inside: rebuilds models that their own backend can't trace, and converts them."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx_ir as ir

from onnxport.converters.to_onnx.keras import export
from onnxport.converters.to_onnx.keras_elsewhere import ANSWER, LAYERS, ORDER, RESULT
from onnxport.errors import OnnxportError
from onnxport.graph.external_data import save
from onnxport.request import Request
from onnxport.tracing.keras_layers import layer_results
from onnxport.tracing.keras_otherwise import stand_in
from onnxport.tracing.keras_rebuilding import read_model, read_values
from onnxport.tracing.keras_state import unchanged


def serve() -> None:
    """In the other process: carries out the orders in folders named on standard input; an empty line behind each."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a model prints is no answer
    model: keras.Layer | None = None
    for line in sys.stdin:
        folder = Path(json.loads(line))
        try:
            order = json.loads((folder / ORDER).read_text())
            if "layers" in order:
                reply = _with_layers(model, order["layers"], folder)
            else:
                stand_in(order.pop("own"))
                model = None
                model = read_model(folder)
                reply = _converted(model, order, folder)
        except Exception as error:  # user code runs
            operators = [asdict(item) for item in getattr(error, "operators", ())]
            kind, text = type(error).__name__, str(error)
            if not isinstance(error, OnnxportError):
                kind, text = "TracingError", f"{kind}: {text}"
            reply = {"error": kind, "message": text, "operators": operators}
        (folder / ANSWER).write_text(json.dumps(reply))
        answers.write(b"\n")


def _converted(model: keras.Layer, order: dict[str, Any], folder: Path) -> dict[str, Any]:
    given, narrow = read_values(order.pop("given"), folder), order.pop("narrow")
    with unchanged():
        result = export(model, Request(**order, **given))
    if narrow:
        _narrow(result.model)
    save(result.model, folder / RESULT)
    return {"notes": list(result.notes)}


def _with_layers(model: keras.Layer | None, leaves: Any, folder: Path) -> dict[str, Any]:
    """Writes what each layer gives."""
    results = layer_results(model, read_values(leaves, folder))
    np.savez(folder / LAYERS, *(array for _, array in results))
    return {}


_NARROWER = {
    ir.DataType.DOUBLE: ir.DataType.FLOAT,
    ir.DataType.INT64: ir.DataType.INT32,
    ir.DataType.UINT64: ir.DataType.UINT32,
}


def _narrow(model: ir.Model) -> None:
    """Gives inputs of 64 bits the values, and outputs the types, that they have on a backend without."""
    graph = model.graph
    names = {value.name for node in graph for value in node.outputs} | {value.name for value in graph.inputs}
    for value in graph.inputs:
        if value.dtype in _NARROWER:
            _wrap(graph, value, names)
    for place, value in enumerate(graph.outputs):
        if value.dtype not in _NARROWER:
            continue
        narrow, name = _NARROWER[value.dtype], value.name
        value.name = _free(f"{name}/wide", names)
        node = _cast(value, narrow, str(name))
        graph.append(node)
        graph.outputs[place] = node.outputs[0]


def _wrap(graph: ir.Graph, value: ir.Value, names: set[str | None]) -> None:
    """Has the graph read an input as that backend does, which keeps the lower half of its bits, or rounds it."""
    assert value.dtype is not None
    narrow = _NARROWER[value.dtype]
    uses = [item for item in value.uses() if not _casts_to(item.node, narrow)]
    if not uses:
        return
    first = _cast(value, narrow, _free(f"{value.name}/narrow", names))
    second = _cast(first.outputs[0], value.dtype, _free(f"{value.name}/wrapped", names))
    for node, place in uses:
        node.replace_input_with(place, second.outputs[0])
    graph.insert_before(graph[0], [first, second])


def _casts_to(node: ir.Node, kind: ir.DataType) -> bool:
    return node.op_type == "Cast" and node.attributes["to"].as_int() == kind


def _cast(value: ir.Value, kind: ir.DataType, name: str) -> ir.Node:
    node = ir.node("Cast", [value], {"to": kind}, name=f"{name}/Cast")
    node.outputs[0].name, node.outputs[0].dtype, node.outputs[0].shape = name, kind, value.shape
    return node


def _free(name: str, names: set[str | None]) -> str:
    """The name, with underscores behind it where it is taken."""
    while name in names:
        name += "_"
    names.add(name)
    return name
