"""Hugging Face: folders of transformers' models, with their configuration and weights."""

from __future__ import annotations

from onnxport.frameworks.descriptor import Files, Folder, Framework, Lazy, SourceKind

FRAMEWORK = Framework(
    name="huggingface",
    title="Hugging Face",
    kinds=(
        SourceKind(
            "a Hugging Face folder",
            frozenset({"target_opset", "runtime", "task", "dtype", "keep_io_types", "weights", "functions"}),
            instead={
                "kwargs": "its inputs follow from the configuration",
                "dynamic_shapes": "batch and lengths vary as they stand",
                "output_names": "its outputs are named as transformers names them",
                "allow_code": "no code of a folder runs, whatever is allowed: pass the model itself",
                "allow_pickle": "its files of weights are read without unpickling anything but tensors: leave it out",
            },
        ),
    ),
    aliases=("hf", "transformers"),
    package="transformers",
    extra="huggingface",
    distributions=("transformers", "torch"),
    owners=("onnxport.tracing.huggingface.folder",),
    files=Files(
        folder=Folder("Hugging Face folder", ("config.json",), "_huggingface"),
        load=Lazy("onnxport.tracing.huggingface.folder:load"),
    ),
    hub_folder=Folder("folder of ONNX models", ("onnxport_report.json",), "_onnx"),
    export=Lazy("onnxport.converters.to_onnx.huggingface:export"),
    prove=Lazy("onnxport.converters.to_onnx.huggingface_proof:prove_folder"),
)
