"""Names for a graph's inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from onnxport.errors import InvalidInputError
from onnxport.graph.bodies import bodies
from onnxport.graph.names import chosen_names, numbered


def rename(model: ir.Model, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> None:
    """Gives the graph's inputs (without those that have an initializer) and outputs the user's names, in order; in place.

    An inner value that has such a name already gets a number; an output that is an input too, or one value given twice, gets
    an Identity of its own.

    Raises:
        InvalidInputError: their number differs, or an input and an output would have one name.
    """
    graph = model.graph
    own = [value for value in graph.inputs if value.name not in graph.initializers]
    chosen_names("input_names", [value.name or "" for value in own], inputs)
    chosen_names("output_names", [value.name or "" for value in graph.outputs], outputs)
    if outputs is not None:
        _set_apart(graph, outputs)
    asked = dict(zip(own, inputs or (), strict=False))
    asked.update(zip(graph.outputs, outputs or (), strict=False))
    fixed = {value.name for value in (*own, *graph.outputs) if value not in asked}
    for name in asked.values():
        if name in fixed:
            raise InvalidInputError(
                f"input_names, output_names: {name!r} is the name of another input or output already"
            )
    wanted = set(asked.values())
    taken = {value.name for value in every_value(graph)} | wanted
    for value in list(every_value(graph)):
        if value.name in wanted and value not in asked:
            ir.convenience.rename_values(value, numbered(value.name or "", taken))
    ir.convenience.rename_values(list(asked), list(asked.values()))


def _set_apart(graph: ir.Graph, names: Sequence[str]) -> None:
    """Each output as a value of its own, where the user's names tell apart what the graph does not."""
    seen: set[ir.Value] = set()
    for index, (value, name) in enumerate(zip(list(graph.outputs), names, strict=True)):
        is_input = value in graph.inputs and value.name != name
        if is_input or value in seen or (value.is_initializer() and value.name != name):
            node = ir.node("Identity", [value])
            graph.append(node)
            node.outputs[0].name = f"{value.name}_output_{index}"
            node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
            graph.outputs[index] = node.outputs[0]
        seen.add(graph.outputs[index])


def every_value(graph: ir.Graph) -> Iterator[ir.Value]:
    """The values of a graph and of the bodies that its nodes hold."""
    yield from graph.inputs
    yield from (value for value in graph.initializers.values() if value not in graph.inputs)
    for node in graph:
        yield from node.outputs
        for body in bodies(node):
            yield from every_value(body)
