"""ONNX to PyTorch: a torch.fx GraphModule with real layers and named parameters."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import onnx_ir as ir
import torch
from torch import fx, nn
from torch.fx.graph_module import _USER_PRESERVED_ATTRIBUTES_KEY

from onnxport.converters.from_onnx.walk import Walk
from onnxport.errors import InvalidInputError, OnnxportError, TracingError, UnsupportedOperator, first_line
from onnxport.frameworks.pytorch_log import quiet
from onnxport.graph.atomic import atomic_file
from onnxport.graph.bodies import all_initializers
from onnxport.graph.module_state import read
from onnxport.opset_maps import maps
from onnxport.opset_maps.from_onnx.pytorch import layers, recurrent_layers
from onnxport.opset_maps.from_onnx.pytorch.dtypes import BOUNDARY, TORCH
from onnxport.opset_maps.from_onnx.pytorch.functions import items_to
from onnxport.opset_maps.from_onnx.pytorch.namespace import TorchNamespace
from onnxport.opset_maps.from_onnx.pytorch.traced import mark_tensor
from onnxport.opset_maps.from_onnx.pytorch.tracing import RootRecorder, graph_module
from onnxport.opset_maps.from_onnx.pytorch.worlds import Sizes, dims_of, example
from onnxport.opset_maps.from_onnx.values import UnknownUntilRun


def build(model: ir.Model) -> nn.Module:
    """The model as a module in eval mode.

    It takes the graph's inputs (without those that have an initializer) positionally in graph order and gives one value or
    a tuple in graph output order. Floating-point initializers are its parameters, under their own names; layers that
    torch has are those modules. Names that a module can't hold are mapped one to one (see `Paths`); `input_names` and
    `output_names` are the graph's own.

    Raises:
        UnsupportedOperator: operators without a form in torch, all of them at once.
    """
    recorder = RootRecorder(Sizes())
    xp = TorchNamespace(recorder)
    walk = Walk(model, xp, maps.pytorch_native)
    state = read(model.metadata_props)
    recorder.reserve(all_initializers(walk.model), state)
    inputs = [_input(xp, value) for value in walk.inputs]
    outputs = [_output(xp, item, value) for item, value in zip(walk.run(inputs), walk.outputs, strict=True)]
    recorder.finish(outputs[0] if len(outputs) == 1 else tuple(outputs))
    recurrent_layers.recognise(recorder)
    layers.recognise(recorder)
    module = complete(recorder, model.graph.name or "Model").eval()
    kept = {
        "input_names": [value.name or "" for value in walk.inputs],
        "output_names": [value.name or "" for value in walk.outputs],
        "onnxport_inputs": [(_boundary_dtype(value), dims_of(value)) for value in walk.inputs],
        "onnxport_unused": tuple(key for key in state.unused if key not in module.state_dict()),
        "onnxport_fixed": recorder.fixed,
        "onnxport_cached": state.cached,
    }
    module.meta[_USER_PRESERVED_ATTRIBUTES_KEY] = kept  # a copy of the module has them too
    for name, content in kept.items():
        setattr(module, name, content)
    return module


def complete(recorder: RootRecorder, name: str) -> fx.GraphModule:
    """The module of a finished main graph."""
    title = "".join(part[:1].upper() + part[1:] for part in "".join(c if c.isalnum() else " " for c in name).split())
    return graph_module(recorder, title if title[:1].isalpha() else f"Model{title}")


def _input(xp: TorchNamespace, value: ir.Value) -> Any:
    recorder = xp.recorder
    assert recorder is not None
    name = value.name or "input"
    dtype = value.dtype if isinstance(value.type, ir.TensorType) else None
    held = TORCH.get(dtype) if dtype is not None else None
    if held is None or dtype is None:
        return recorder.placeholder(name, None, opaque=True)
    dims = dims_of(value)
    worlds = example(held, dims, recorder.sizes) if dims is not None else None
    result = recorder.placeholder(name, worlds)
    mark_tensor(result.node)
    return xp.call(torch.Tensor.to, result, held) if dtype in BOUNDARY else result


def _output(xp: TorchNamespace, item: object, value: ir.Value) -> Any:
    kind = value.type.elem_type if isinstance(value.type, ir.SequenceType) else value.type
    dtype = kind.dtype if isinstance(kind, ir.TensorType) else None
    if dtype not in BOUNDARY:
        return item
    if isinstance(value.type, ir.SequenceType):
        try:
            return xp.call(items_to, item, BOUNDARY[dtype])
        except UnknownUntilRun as error:
            reason = (
                f"output {value.name!r}: what the sequence of {BOUNDARY[dtype]} holds is known only when the model runs"
            )
            raise UnsupportedOperator(reason) from error
    return xp.call(torch.Tensor.to, item, BOUNDARY[dtype]) if xp.is_tensor(item) else item


def save(module: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Writes a module: ``.pt2`` as an exported program, ``.pt`` or ``.pth`` as its state dict, ``.safetensors`` as weights.

    ``.py`` is a plain PyTorch file with its weights beside it, which needs no onnxport.

    Raises:
        InvalidInputError: the suffix is none of these, or the module has no example inputs to export with.
        TracingError: ``.pt2`` is asked for, and torch.export can't trace the module.
    """
    place = Path(path)
    match place.suffix.lower():
        case ".pt2":
            program = _exported(module)
            with _archive(place) as file:
                torch.export.save(program, file)
        case ".pt" | ".pth":
            with _archive(place) as file:
                torch.save(module.state_dict(), file)
        case ".safetensors":
            from safetensors.torch import save as serialized

            # A tensor that stands under two names is written under both.
            tensors = {name: item.contiguous().clone() for name, item in module.state_dict().items()}
            with atomic_file(place) as file:
                file.write(serialized(tensors))
        case ".py":
            from onnxport.converters.from_onnx.pytorch_source import write

            if not isinstance(module, fx.GraphModule):
                raise InvalidInputError("only a module that onnxport imported is written as a Python file")
            write(module, place)
        case suffix:
            raise InvalidInputError(
                "a PyTorch model is saved as .pt2 (exported program), .pt or .pth (state dict), .safetensors or .py (source), "
                f"not {suffix!r}"
            )


@contextmanager
def _archive(place: Path) -> Iterator[BinaryIO]:
    """A file for torch's archives, which appears under `place` when all of it is written."""
    with atomic_file(place) as file:
        patient = _Patient(file)
        yield cast(BinaryIO, patient)
        if patient.error is not None:
            raise patient.error


class _Patient(io.RawIOBase):
    """Keeps the first error of a file until its writer is done: torch's archive writer ends the process on one."""

    def __init__(self, file: BinaryIO) -> None:
        self.error: OSError | None = None
        self._file = file

    def writable(self) -> bool:
        """It is written to, and no more."""
        return True

    def seekable(self) -> bool:
        """Its position can be set, as torch does at the start."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Sets the position."""
        return self._file.seek(offset, whence)

    def write(self, data: Any, /) -> int:
        """Writes, unless that has failed before."""
        try:
            if self.error is None:
                self._file.write(data)
        except OSError as error:
            self.error = error
        return memoryview(data).nbytes


def _exported(module: nn.Module) -> torch.export.ExportedProgram:
    inputs, dynamic = _example_call(module)
    try:
        with quiet():
            return torch.export.export(module, inputs, dynamic_shapes=dynamic)
    except Exception as error:  # torch raises many types, and adds its own lines to those that a module raises
        kind = "" if isinstance(error, OnnxportError) else f"{type(error).__name__}: "
        raise TracingError(
            f"a .pt2 file is traced by torch.export, which can't trace this module: {kind}{first_line(error)}\n"
            "Save it as .pt, .safetensors or .py: none of them is traced."
        ) from error


def _example_call(module: nn.Module) -> tuple[tuple[Any, ...], Any]:
    """Example inputs of an imported module, and which of their dimensions are dynamic."""
    signature = getattr(module, "onnxport_inputs", None)
    if signature is None:
        raise InvalidInputError("only a module that onnxport imported can be saved as .pt2; use torch.export.export")
    tensors, dynamic = [], []
    named: dict[Any, int] = {}  # sizes that need not be equal differ, else the export would take them for one
    for index, (dtype, dims) in enumerate(signature):
        if dtype is None or dims is None:
            raise InvalidInputError("an input is no tensor of known rank; save as .pt or .safetensors")
        sizes = [
            dim if isinstance(dim, int) else named.setdefault(dim or (index, axis), 2 + len(named))
            for axis, dim in enumerate(dims)
        ]
        tensors.append(torch.zeros(sizes, dtype=dtype))
        free = [axis for axis, dim in enumerate(dims) if not isinstance(dim, int)]
        dynamic.append(dict.fromkeys(free, torch.export.Dim.AUTO))
    return tuple(tensors), tuple(dynamic)


def _boundary_dtype(value: ir.Value) -> torch.dtype | None:
    if not isinstance(value.type, ir.TensorType):
        return None
    return BOUNDARY.get(value.type.dtype, TORCH.get(value.type.dtype))
