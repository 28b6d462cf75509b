"""PyTorch: modules, functions of tensors, and exported programs."""

from __future__ import annotations

import os
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from onnxport.frameworks.descriptor import TENSOR_OPTIONS, Files, Framework, Lazy, SourceKind, rooms

_OPTIONS = TENSOR_OPTIONS | {"allow_pickle"}
_ONNX_OPTIONS = frozenset({"functions", "dtype", "keep_io_types", "inputs_as_nchw", "outputs_as_nchw"})
_NAMED_OPTIONS = frozenset({"output_names"})


def _is_program(model: object) -> bool:
    """Whether the model is traced already: an exported program or a file, each of which holds one."""
    return isinstance(model, (str, os.PathLike)) or type(model).__name__ == "ExportedProgram"


def _to_inference(model: object) -> str:
    evaluate, children = getattr(model, "eval", None), getattr(model, "children", None)
    trained = getattr(model, "training", False) is True and callable(children) and any(True for _ in children())
    if callable(evaluate):
        evaluate()
    return "its factory gave the model in training mode; the command called model.eval()" if trained else ""


def _way_out(place: Path) -> str:
    """How a TorchScript archive converts, which keeps its code in a folder of its own."""
    try:
        with ZipFile(place) as archive:
            scripted = any(name.split("/")[1:2] == ["code"] for name in archive.namelist())
    except (BadZipFile, OSError):
        return ""
    example = f"onnxport.convert(torch.jit.load({place.name!r}), inputs=(x,))"
    given = "return torch.jit.load(...), (x,) from a function: onnxport convert my_package.nets:factory"
    return (
        f"is a TorchScript program, which runs code of its own: {example}, or for the command line {given}"
        if scripted
        else ""
    )


FRAMEWORK = Framework(
    name="pytorch",
    title="PyTorch",
    kinds=(
        SourceKind(
            "an exported program of PyTorch",
            _OPTIONS,
            onnx_options=_ONNX_OPTIONS,
            named_options=_NAMED_OPTIONS,
            recognises=_is_program,
        ),
        SourceKind(
            "a PyTorch module or function",
            _OPTIONS | {"strategy", "states"},
            onnx_options=_ONNX_OPTIONS,
            named_options=_NAMED_OPTIONS,
            several_examples=True,
            carries_signature=False,
        ),
    ),
    aliases=("torch",),
    command="torch",
    package="torch",
    extra="pytorch",
    distributions=("torch",),
    owners=("torch",),
    tensor="torch.Tensor",
    files=Files(
        reads=(".pt2",),
        writes=(".pt2", ".pt", ".pth", ".safetensors", ".py"),
        # What these compute stands in Python code.
        weights_alone=(".pt", ".pth", ".bin", ".ckpt", ".safetensors"),
        way_out=_way_out,
        load=Lazy("onnxport.tracing.pytorch_programs:load"),
        save=Lazy("onnxport.converters.from_onnx.pytorch:save"),
        load_weights=Lazy("onnxport.tracing.pytorch_weights:load_weights"),
    ),
    node_bytes=20 << 10,
    to_inference=_to_inference,
    register_inputs=Lazy("onnxport.tracing.pytorch_classes:register"),
    unchanged=Lazy("onnxport.tracing.pytorch_state:unchanged"),
    with_states=Lazy("onnxport.tracing.pytorch_io_states:with_states"),
    adopt=Lazy("onnxport.frameworks.pytorch_devices:on_processor"),
    notes_of=Lazy("onnxport.frameworks.pytorch_devices:notes_of"),
    **rooms("pytorch"),
    to_numpy=Lazy("onnxport.validation.runners.pytorch:to_numpy"),
    to_onnx_map=Lazy("onnxport.opset_maps.maps:aten").get,
)
