"""ONNX: the hub, as which and from which every model is converted."""

from __future__ import annotations

from onnxport.frameworks.descriptor import HUB, Files, Framework, Lazy, SourceKind

FRAMEWORK = Framework(
    name=HUB,
    title="ONNX",
    kinds=(
        SourceKind(
            "an ONNX model",
            options=frozenset({"kwargs", "dynamic_shapes", "cut_inputs", "cut_outputs"}),
            # The graph is read at its own opset, whatever it becomes.
            onnx_options=frozenset({"target_opset", "dtype", "keep_io_types", "inputs_as_nchw", "outputs_as_nchw"}),
            named_options=frozenset({"output_names"}),
        ),
    ),
    distributions=("onnx", "onnxruntime"),
    owners=("onnx", "onnx_ir", "onnxport.model", "onnxport.model_folder"),
    files=Files(
        reads=(".onnx",), writes=(".onnx",), load=Lazy("onnxport.model:mapped"), save=Lazy("onnxport.model:save")
    ),
    names_outputs=True,
    adopt=Lazy("onnxport.model:as_onnx_model"),
    bind=Lazy("onnxport.validation.runners.onnx:bind"),
)
