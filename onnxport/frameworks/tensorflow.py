"""TensorFlow: functions, modules, SavedModels, frozen graphs and TFLite files."""

from __future__ import annotations

import os
from pathlib import Path

from onnxport.frameworks.descriptor import TENSOR_OPTIONS, Files, Folder, Framework, Lazy, SourceKind, rooms

_ONNX_OPTIONS = frozenset({"dtype", "keep_io_types", "inputs_as_nchw", "outputs_as_nchw"})
META_GRAPH = ".meta"  # suffix of the graph beside a checkpoint of TensorFlow 1
SAVED_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")  # a folder is a SavedModel where it holds one of these


def _way_out(path: Path) -> str:
    """Of a file of a checkpoint: its graph is beside it, or stands in no file."""
    start = path.with_suffix("")
    graph = start.with_name(start.name + META_GRAPH)
    if graph.exists():
        return f"holds the weights of a checkpoint: its graph is {str(graph)!r}, pass that"
    return (
        "holds the weights of a checkpoint without a graph: restore it into its model, "
        f"tf.train.Checkpoint(model=model).restore({str(start)!r}), and pass the model"
    )


def _is_frozen_graph(model: object) -> bool:
    if isinstance(model, (str, os.PathLike)):
        suffix = Path(model).suffix.lower()
        return suffix == META_GRAPH or (suffix == ".pb" and Path(model).stem != "saved_model")
    return type(model).__name__ == "GraphDef"


def _is_lite(model: object) -> bool:
    if isinstance(model, (str, os.PathLike)):
        return Path(model).suffix.lower() == ".tflite"
    return type(model).__name__ == "LiteModel"


FRAMEWORK = Framework(
    name="tensorflow",
    title="TensorFlow",
    kinds=(
        SourceKind(
            "a frozen graph of TensorFlow",
            # It has no signatures; output_names choose the tensors to convert, whatever they are converted to.
            TENSOR_OPTIONS | {"output_names"},
            onnx_options=_ONNX_OPTIONS,
            recognises=_is_frozen_graph,
        ),
        SourceKind(
            "a TFLite file",
            frozenset({"dynamic_shapes", "target_opset", "runtime", "signature"}),
            onnx_options=_ONNX_OPTIONS,
            named_options=frozenset({"output_names"}),
            instead={"kwargs": "its inputs have names: pass inputs={name: array}"},
            recognises=_is_lite,
        ),
        SourceKind(
            "a TensorFlow model",
            TENSOR_OPTIONS | {"signature"},
            onnx_options=_ONNX_OPTIONS,
            named_options=frozenset({"output_names"}),
        ),
    ),
    aliases=("tf",),
    command="tf",
    package="tensorflow",
    extra="tensorflow",
    distributions=("tensorflow", "tensorflow-cpu"),
    owners=("tensorflow", "onnxport.tracing.tensorflow_lite.model"),
    tensor="tf.Tensor",
    files=Files(
        reads=(".pb", ".tflite", META_GRAPH),
        weights_alone=(".index", ".data-00000-of-00001"),
        way_out=_way_out,
        folder=Folder("SavedModel", SAVED_MODEL_FILES, "_saved_model"),
        load=Lazy("onnxport.tracing.tensorflow:load"),
        save=Lazy("onnxport.converters.from_onnx.tensorflow:save"),
    ),
    names_outputs=True,
    node_bytes=30 << 10,
    in_real_numbers=Lazy("onnxport.tracing.tensorflow:in_real_numbers"),
    start=Lazy("onnxport.tracing.tensorflow_state:start"),
    unchanged=Lazy("onnxport.tracing.tensorflow_state:unchanged"),
    **rooms("tensorflow"),
    to_numpy=Lazy("onnxport.validation.runners.tensorflow:to_numpy"),
    to_onnx_map=Lazy("onnxport.opset_maps.maps:tensorflow").get,
)
