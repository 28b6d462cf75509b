"""PyTorch to ONNX: walks the exported graph once and lowers each node through the ATen map."""

from __future__ import annotations

from typing import Any

import torch
from torch.export.graph_signature import OutputKind

from onnxport.converters.to_onnx.finish import finish
from onnxport.converters.to_onnx.pytorch_aliases import Inexpressible
from onnxport.converters.to_onnx.pytorch_lowering import Lowering
from onnxport.converters.to_onnx.pytorch_refused import check_runs
from onnxport.converters.to_onnx.pytorch_rows import run_by_rows
from onnxport.converters.to_onnx.pytorch_scopes import scopes_of
from onnxport.errors import InvalidInputError, InvalidModelError, MapEntryError, TracingError, UnsupportedOperator
from onnxport.graph import decisions
from onnxport.graph.builder import OpBuilder
from onnxport.graph.module_state import STATE, read, written
from onnxport.graph.names import check_outputs_apart, chosen_names
from onnxport.graph.passes.gelu import RecogniseGeluPass
from onnxport.graph.passes.layer_norm import RecogniseRmsNormPass
from onnxport.graph.passes.pads import MergePadsPass
from onnxport.graph.passes.reshapes import MergeReshapesPass
from onnxport.graph.passes.rewriting import put_first
from onnxport.model import OnnxModel
from onnxport.progress import stage
from onnxport.request import Request
from onnxport.tracing.pytorch import trace, trace_static
from onnxport.tracing.pytorch_awareness import UNASKED, check_unaware
from onnxport.tracing.pytorch_programs import Traced


def export(model: Any, request: Request) -> OnnxModel:
    """`model` as ONNX, not validated.

    Inputs that the model writes to come out as further outputs, ``<input>.updated``, unless it returns them as ``present``;
    buffers that it writes to are refused by name, since an ONNX graph has no state.

    Raises:
        TracingError: torch.export can't trace the model.
        UnsupportedOperator: operators without an ONNX form, all of them.
        InvalidInputError: inputs, names or dynamic shapes do not fit, or the model itself does not run on them.
        InvalidModelError: the model gives no tensor.
    """
    result = _exported(model, request)
    if isinstance(model, torch.nn.Module):
        graph = result.model.graph
        put_first(graph, (name if name in graph.initializers else f"{name}_1" for name in _state_order(model)))
        state = read(result.model.metadata_props)
        if state.keys:  # a program may list its parameters before its buffers
            result.model.metadata_props[STATE] = written(state.in_order(list(model.state_dict())))
    return result


def _state_order(model: torch.nn.Module) -> list[str]:
    """Names of parameters and buffers as a state dict has them: those of a module together, which a program takes apart."""
    return [
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        for own in (module.named_parameters(recurse=False), module.named_buffers(recurse=False))
        for name, _ in own
    ]


def _exported(model: Any, request: Request) -> OnnxModel:
    stage("tracing")
    try:
        traced = trace(
            model,
            request.inputs,
            request.kwargs,
            examples=request.examples,
            dynamic_shapes=request.dynamic_shapes,
            input_names=request.input_names,
            frozen=request.strategy == "trace",
        )
    except TracingError:
        check_runs(model, request)
        raise
    if not (request.proved or traced.program.graph_module.meta.get(UNASKED, False)):
        check_unaware(model, request)
    try:
        return _lowered(traced, request)
    except MapEntryError:
        check_runs(model, request)
        raise
    except UnsupportedOperator as refusal:
        chosen = request.dynamic_shapes is not None or request.examples
        if chosen or not (traced.symbols or traced.rows) or isinstance(model, torch.export.ExportedProgram):
            raise
        reason = f"with a dynamic dimension 0 {refusal.operators[0].op} has no form"
        try:
            return _lowered(trace_static(model, request.inputs, request.kwargs, reason), request)
        except (TracingError, UnsupportedOperator):
            raise refusal from None


def _lowered(traced: Traced, request: Request) -> OnnxModel:
    try:
        return _write(traced, request)
    except Inexpressible as reason:
        return _write(traced.functional(str(reason)), request)


def _write(traced: Traced, request: Request) -> OnnxModel:
    stage("lowering")
    op = OpBuilder(request.opset, ml_opset=request.ml_opset)
    lowering = Lowering(op, traced)
    notes = list(traced.notes)
    inputs = chosen_names("input_names", [path for _, path in traced.inputs], request.input_names)
    program = traced.program
    signature = program.graph_signature
    kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
    places = [i for i, spec in enumerate(signature.output_specs) if spec.kind in kinds]
    leaves = dict(zip(places, traced.outputs, strict=True))
    finals = list(program.graph.output_node().args[0])
    kept = [i for i in leaves if isinstance(finals[i], (torch.fx.Node, bool, int, float))]
    dropped = [leaves[i] for i in leaves if i not in kept]
    if dropped and not kept:
        raise InvalidModelError(
            f"the model gives no tensor ({', '.join(dropped)}): its outputs are None or Python objects"
        )
    if dropped:
        notes.append(f"outputs that are no tensors are left out: {', '.join(dropped)}")
    outputs = chosen_names("output_names", [leaves[i] for i in kept], request.output_names)
    check_outputs_apart(inputs, request.output_names)
    for name in inputs:
        if inputs.count(name) > 1:
            raise InvalidInputError(f"the input name {name!r} is given twice")
    notes += _idle(traced, inputs)
    rows = traced.rows
    batches = {name: rows.name for name, path in traced.inputs if path in rows.inputs} if rows is not None else {}
    lowering.boundary.bind_inputs(dict(zip([name for name, _ in traced.inputs], inputs, strict=True)), batches)
    outputs = _reserved(op, outputs, inputs, notes)
    lowering.boundary.bind_parameters()
    if rows is not None:
        results, values = [], run_by_rows(op, lowering, traced, rows, kept)
    else:
        results = lowering.run(op, program.graph_module, lowering.boundary.arguments)
        values = [lowering.value_of(op, results[i]) for i in kept]
    updated = [(name, ref.read()) for name, ref in lowering.written_inputs()]
    for index, spec in enumerate(signature.output_specs):
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            updated.append((lowering.boundary.input_names[spec.target], lowering.value_of(op, results[index])))
        elif spec.kind is OutputKind.BUFFER_MUTATION:
            lowering.refuse_buffer(str(spec.target))
    lowering.refused.raise_all()
    notes += dict.fromkeys(lowering.notes)
    repeated = {id(value) for value, i in zip(values, kept, strict=True) if leaves[i].startswith("present.")}
    for name, value in updated:
        if id(value) in repeated:  # a cache that is written to and returned
            continue
        values.append(value)
        outputs.append(op.names.unique(f"{name}.updated"))
        notes.append(f"the model writes to its input {name!r}: the new value is the output {outputs[-1]!r}")
    rewrites = (
        RecogniseGeluPass(op.names),
        RecogniseRmsNormPass(op.names),
        MergeReshapesPass(op.names),
        MergePadsPass(),
    )
    merge = request.functions is None
    model = finish(op, values, outputs, rewrites=rewrites, runtime=request.runtime, notes=notes, merge=merge)
    state = lowering.boundary.state(model.graph)
    if state.keys or state.unused:
        model.metadata_props[STATE] = written(state)
    if traced.other_sizes:
        model.metadata_props[decisions.OTHER_SIZES] = decisions.written(traced.other_sizes)
        model.metadata_props[decisions.CONDITIONS] = decisions.written_conditions(traced.conditions)
    scopes = None if merge else scopes_of(program)
    return OnnxModel(model, notes=tuple(notes), runtime=request.runs_in, scopes=scopes)


def _idle(traced: Traced, names: list[str]) -> list[str]:
    """A note on inputs that no operator takes: a misspelt keyword that ``**kwargs`` accepts is one."""
    used = {node.name for node in traced.program.graph.nodes if node.op == "placeholder" and node.users}
    idle = [repr(name) for (placeholder, _), name in zip(traced.inputs, names, strict=True) if placeholder not in used]
    return [f"the model makes no use of its input {', '.join(idle)}"] if idle else []


def _reserved(op: OpBuilder, outputs: list[str], inputs: list[str], notes: list[str]) -> list[str]:
    """The output names, taken in the naming authority; one that an input has already gets a number."""
    final: list[str] = []
    for name in outputs:
        free = op.names.unique(name)
        if free != name:
            owner = " by an input" if name in inputs else ""
            notes.append(f"the output {name!r} is called {free!r}: the name is taken{owner}")
        final.append(free)
    return final
