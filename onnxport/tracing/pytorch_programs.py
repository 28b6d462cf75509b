"""Programs of torch.export: read from files, and with names for what goes in and comes out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.export.pt2_archive._package import load_pt2  # torch.export.load falls back to pickles; this does not

from onnxport.errors import InvalidInputError, InvalidModelError
from onnxport.frameworks.descriptor import Lazy
from onnxport.graph.decisions import Condition
from onnxport.graph.names import positional
from onnxport.tracing import dimensions, pytorch_inputs
from onnxport.tracing.pytorch_nodes import is_dynamic, recorded_inputs
from onnxport.tracing.pytorch_rows import Rows
from onnxport.tracing.trust.faults import existing_file, reading


@dataclass(frozen=True)
class Traced:
    """A traced model."""

    program: ExportedProgram  # torch.export's program, not decomposed and not functional
    # Placeholder and name of each tensor input, in the order of the flattened arguments.
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]  # name of each leaf of the result
    symbols: dict[str, str]  # names of the symbolic dimensions by torch's symbol
    notes: tuple[str, ...]  # how it was traced
    other_sizes: tuple[dict[str, int], ...] = ()  # at which the model decides otherwise than it was traced
    conditions: tuple[Condition, ...] = ()  # of sizes, where it decides as it was traced
    # torch's expressions of sizes that follow from others, by symbol
    sums: Mapping[Any, Any] = field(default_factory=dict)
    rows: Rows | None = None  # how the graph takes a batch, where the program is of one row

    def functional(self, reason: str) -> Traced:
        """The same model after torch's functionalisation: no in-place operators, no views that are written to."""
        note = f"functionalised by torch ({reason})"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # torch's use of its own pytree
            program = self.program.run_decompositions({})
        return replace(self, program=program, notes=(*self.notes, note))


def load(path: str | os.PathLike[str], *, allow_pickle: bool = False, allow_code: bool = False) -> ExportedProgram:
    """The exported program in a ``.pt2`` file.

    With `allow_pickle` it may hold pickled parts beyond tensors, such as example inputs of the user's own classes; with
    `allow_code` all that torch.export.load takes: pickles, compiled code, functions by name.

    Raises:
        UntrustedFileError: loading or running it would run code of its own, and the consent is not given.
        InvalidModelError: the file is missing or corrupt, or holds no exported program.
    """
    place = str(existing_file(path))
    with reading(f"{place!r} is truncated or no torch.export program"):
        if allow_code:
            return torch.export.load(place)
        Lazy("onnxport.tracing.trust.pytorch_archive:check_archive")(place, allow_pickle=allow_pickle)
        program: ExportedProgram = load_pt2(place).exported_programs["model"]
        if program.call_spec.in_spec is None:  # asking raises where the modules that the file tells do not fit
            raise InvalidModelError(f"{place!r} does not tell how its program is called")
        return program


def of_program(program: ExportedProgram, dynamic_shapes: object) -> Traced:
    """An exported program as it is, with the user's names for its dimensions.

    Raises:
        InvalidInputError: `dynamic_shapes` does not fit the program.
    """
    names = program.module_call_graph[0].signature
    in_spec = program.call_spec.in_spec
    count = in_spec.children()[0].num_children
    roots = positional(list(getattr(names, "forward_arg_names", None) or ()), count)
    paths = pytorch_inputs.input_paths(in_spec, roots)
    dims = _program_dims(program, paths, roots, dynamic_shapes) if dynamic_shapes is not None else {}
    return with_names(program, paths, dims, ())


def _program_dims(
    program: ExportedProgram, paths: list[str], roots: list[str], dynamic_shapes: object
) -> dict[tuple[str, int], str]:
    """The user's names for dimensions that the program was exported with as varying ones."""
    tensors = {path: value for _, path, value in tensor_inputs(program, paths)}
    dims: dict[tuple[str, int], str] = {}
    for path, item in dimensions.by_path(dynamic_shapes, roots).items():
        if path not in tensors:
            raise dimensions.unknown(path, tensors)
        for axis, dim in dimensions.axes(path, item, tensors[path].dim()).items():
            size = tensors[path].shape[axis]
            dimensions.check_size(path, axis, dim, None if is_dynamic(size) else int(size))
            if not is_dynamic(size) and not isinstance(dim, int):
                raise InvalidInputError(
                    f"dynamic_shapes: the program was exported with dimension {axis} of {path!r} fixed at {size}: export it "
                    "anew, or convert the module"
                )
            if isinstance(dim, str):
                dims[path, axis] = dim
    pytorch_inputs.check_apart(list(tensors.items()), dims)
    return dims


def with_names(
    program: ExportedProgram, paths: list[str], dims: dict[tuple[str, int], str], notes: tuple[str, ...]
) -> Traced:
    """The program with names for its inputs, its outputs and the dimensions that vary; operands as in `symbol_names`."""
    inputs = tensor_inputs(program, paths)
    symbols = pytorch_inputs.symbol_names([(path, value) for _, path, value in inputs], dims)
    outputs = tuple(pytorch_inputs.output_paths(program.call_spec.out_spec, [path for _, path, _ in inputs]))
    return Traced(program, tuple((name, path) for name, path, _ in inputs), outputs, symbols, notes)


def tensor_inputs(program: ExportedProgram, paths: Sequence[str]) -> list[tuple[str, str, torch.Tensor]]:
    """Placeholder, path and traced tensor of each tensor among the inputs."""
    values = recorded_inputs(program)
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    named = ((spec.arg, path) for spec, path in zip(specs, paths, strict=True))
    traced = [(arg.name, path, values.get(arg.name)) for arg, path in named if not isinstance(arg, ConstantArgument)]
    return [(name, path, value) for name, path, value in traced if isinstance(value, torch.Tensor)]
