"""Two models as one: outputs of the first feed inputs of the second."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnxport.errors import InvalidInputError
from onnxport.graph.names import numbered
from onnxport.graph.passes.dimensions import fix, relax
from onnxport.graph.passes.opset import convert_opset
from onnxport.graph.passes.rename import every_value


def join(first: ir.Model, second: ir.Model, ends: Mapping[str, str], *, keep: bool = False) -> ir.Model:
    """`first` with `second` behind it, in place of both; `ends` are names of inputs of the second by outputs of the first.

    Outputs of the first that feed nothing stay outputs, with `keep` all of them do. Inner names of the second that the first has
    too get a number; its inputs and outputs never do. The model with the older opset is brought to the newer one.

    Raises:
        InvalidInputError: names, types or sizes do not fit, or both have an input or output of one name.
        UnsupportedOperator: operators without a form at the newer opset.
    """
    _same_versions(first, second)
    outputs = {value.name or "": value for value in first.graph.outputs}
    inputs = {value.name or "": value for value in second.graph.inputs if value.name not in second.graph.initializers}
    if len(set(ends.values())) < len(ends):
        raise InvalidInputError("an input of the second model is fed twice")
    for out, into in ends.items():
        if out not in outputs or into not in inputs:
            raise InvalidInputError(
                f"{out}={into}: an output of the first model ({', '.join(outputs)}) and an input of the second "
                f"({', '.join(inputs)}) are wanted"
            )
    for out, into in ends.items():
        _fit(second, outputs[out], inputs[into])
    _tell_apart(first, second, [inputs[into] for into in ends.values()])
    fed = {outputs[out] for out in ends}
    for out, into in ends.items():
        inputs[into].replace_all_uses_with(outputs[out], replace_graph_outputs=True)
    kept = [value for value in first.graph.outputs if keep or value not in fed]
    behind = [value for value in second.graph.outputs if value not in kept]
    before = [value for value in second.graph.inputs if value.name not in set(ends.values())]
    _move(first, second)
    first.graph.inputs.extend(before)
    first.graph.outputs.clear()
    first.graph.outputs.extend([*kept, *behind])
    for key, text in second.metadata_props.items():
        first.metadata_props.setdefault(key, text)
    return first


def by_equal_names(first: ir.Model, second: ir.Model) -> dict[str, str]:
    """Outputs of the first that are called as inputs of the second.

    Raises:
        InvalidInputError: there are none.
    """
    wanted = {value.name for value in second.graph.inputs}
    ends = {value.name or "": value.name or "" for value in first.graph.outputs if value.name in wanted}
    if not ends:
        raise InvalidInputError(
            f"no output of the first model ({', '.join(str(value.name) for value in first.graph.outputs)}) is called as an "
            f"input of the second ({', '.join(map(str, wanted))}): say which feeds which, OUTPUT=INPUT"
        )
    return ends


def _same_versions(first: ir.Model, second: ir.Model) -> None:
    opset = max(first.graph.opset_imports.get("", 0), second.graph.opset_imports.get("", 0))
    for model in (first, second):
        if model.graph.opset_imports.get("", opset) != opset:
            convert_opset(model, opset)
    for domain, version in second.graph.opset_imports.items():
        if first.graph.opset_imports.setdefault(domain, version) != version:
            own = first.graph.opset_imports[domain]
            raise InvalidInputError(f"the models import versions {own} and {version} of {domain}")
    first.ir_version = max(first.ir_version, second.ir_version)
    for name, function in second.functions.items():
        if name in first.functions:
            raise InvalidInputError(f"both models have a function {name[1]!r}: inline the functions of one")
        first.functions[name] = function


def _fit(second: ir.Model, output: ir.Value, value: ir.Value) -> None:
    """Gives an input of the second model the sizes of what feeds it."""
    ends = f"{output.name}={value.name}"
    if output.type is not None and value.type is not None and output.type != value.type:
        raise InvalidInputError(f"{ends}: the output is {output.type}, the input {value.type}")
    if output.shape is None or value.shape is None:
        return
    if output.shape.rank() != value.shape.rank():
        raise InvalidInputError(f"{ends}: the output has shape {output.shape}, the input {value.shape}")
    for axis, (size, wanted) in enumerate(zip(output.shape, list(value.shape), strict=True)):
        if isinstance(size, int) and isinstance(wanted, int) and size != wanted:
            raise InvalidInputError(f"{ends}: the output has shape {output.shape}, the input {value.shape}")
        if isinstance(wanted, int):
            continue
        if isinstance(size, int):
            fix(second, {(value.name or "", axis): size})
        elif size.value:
            relax(second, {(value.name or "", axis): size.value})


def _tell_apart(first: ir.Model, second: ir.Model, fed: list[ir.Value]) -> None:
    taken = {value.name for value in every_value(first.graph)}
    ends = [value for value in (*second.graph.inputs, *second.graph.outputs) if value not in fed]
    for value in ends:
        if value.name in taken:
            raise InvalidInputError(
                f"both models have a value {value.name!r}, an input or output of the second: rename it first "
                f"(onnxport rename SECOND {value.name}=OTHER -o RENAMED)"
            )
    own = list(every_value(second.graph))
    names = taken | {value.name for value in own}
    for value in own:
        if value.name and value.name in taken and value not in fed:
            ir.convenience.rename_values(value, numbered(value.name, names))
    nodes = {node.name for node in first.graph.all_nodes()}
    every = nodes | {node.name for node in second.graph.all_nodes()}
    for node in second.graph.all_nodes():
        if node.name and node.name in nodes:
            node.name = numbered(node.name, every)


def _move(first: ir.Model, second: ir.Model) -> None:
    weights = list(second.graph.initializers.values())
    second.graph.initializers.clear()
    nodes = list(second.graph)
    second.graph.outputs.clear()
    second.graph.inputs.clear()
    second.graph.remove(nodes)
    for value in weights:
        first.graph.register_initializer(value)
    first.graph.extend(nodes)
