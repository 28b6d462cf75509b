"""Proofs of models that may be anybody's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from onnxport.errors import InvalidModelError
from onnxport.frameworks import Framework
from onnxport.frameworks.descriptor import Lazy
from onnxport.graph.bodies import every_node
from onnxport.graph.external_data import weight_bytes
from onnxport.graph.guard.bounds import guarded
from onnxport.model import OnnxModel

# Of models of files alone.
attributed = Lazy("onnxport.converters.from_onnx.blame:attributed")
inference_cost = Lazy("onnxport.converters.from_onnx.inference_cost:inference_cost")

# Bytes that all nodes of a file may take, and further ones for each byte of its weights.
_NODES_BYTES, _BYTES_PER_MODEL_BYTE = 240 << 20, 4
# An output of the graph is held by the rebuilt model, run and judged by itself: that takes as long as so many nodes.
_NODES_PER_OUTPUT = 4
_SECONDS_PER_NODE = 5e-5  # seconds that a node takes while a file is read and checked, which come off those of its runs


def check_length(model: OnnxModel, target: Framework) -> None:
    """Refuses a model of a file whose nodes and outputs take more memory or time in a framework than a file of its size may cost.

    Raises:
        InvalidModelError: they do.
    """
    if target.node_bytes is None:
        return
    outputs = len(model.model.graph.outputs)
    if model.model.functions:  # whose nodes count once for each call
        nodes = inference_cost(model.model).nodes
    else:
        nodes = sum(1 for _ in every_node(model.model.graph))
    most = (_NODES_BYTES + _BYTES_PER_MODEL_BYTE * weight_bytes(model.model)) // target.node_bytes
    if nodes + _NODES_PER_OUTPUT * outputs > most:
        raise InvalidModelError(
            f"the model comes to {nodes:,} nodes and {outputs:,} outputs, which count for {_NODES_PER_OUTPUT} nodes each; "
            f"of a file with as few weights {target.name} takes at most {most:,}: to convert it all the same, "
            "load it with onnx_ir.load and pass the model"
        )


@contextmanager
def watched_inference(model: OnnxModel | None) -> Iterator[None]:
    """Lets ONNX's inference look at a model that may be anybody's in the helper process, where its crash does no harm."""
    if model is None:
        yield
        return
    with guarded(weight_bytes(model.model), drawn=True):
        yield


@contextmanager
def watched(models: Sequence[OnnxModel], *, drawn: bool = False) -> Iterator[None]:
    """Runs ONNX models in a process of their own, with bounds on memory and time, and errors that say whose fault it is.

    `drawn`: nobody gave inputs.

    Raises:
        InvalidModelError: for an error of no type of onnxport's own, chained to it.
    """
    if not models:
        yield
        return
    size = sum(weight_bytes(model.model) for model in models)
    nodes = [sum(1 for _ in model.model.graph) for model in models]
    with attributed("running the model"), guarded(size, nodes=max(nodes), drawn=drawn) as guard:
        guard.spent = _SECONDS_PER_NODE * sum(nodes) if drawn else 0.0
        yield
    if guard.used:
        for model in models:  # the user's own runs are the user's own
            model.__dict__.pop("session", None)
