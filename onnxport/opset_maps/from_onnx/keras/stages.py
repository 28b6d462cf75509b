"""A functional model of Keras' own that is deeper than Keras can load, as a chain of models that are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras


@contextmanager
def in_stages(model: Any, depth: int) -> Iterator[keras.Model | None]:
    """The layers of a model in models of so many layers one behind the other; they leave its layers when the block ends.

    None where a layer is called in more than one of them, which would become several layers.
    """
    levels = sorted(model._nodes_by_depth, reverse=True)
    nodes = [node for level in levels for node in model._nodes_by_depth[level] if not node.is_input]
    stage_of = {id(node): place // depth for place, level in enumerate(levels) for node in model._nodes_by_depth[level]}
    stages: dict[int, list[Any]] = {}
    homes: dict[int, set[int]] = {}
    for node in nodes:
        stages.setdefault(stage_of[id(node)], []).append(node)
        homes.setdefault(id(node.operation), set()).add(stage_of[id(node)])
    if any(len(places) > 1 for places in homes.values()):
        yield None
        return
    before = [(part, len(part)) for item in model.operations for part in (item._inbound_nodes, item._outbound_nodes)]
    try:
        yield _chained(model, [stages[number] for number in sorted(stages)])
    finally:
        for calls, count in before:
            del calls[count:]


def _chained(model: Any, stages: Sequence[Sequence[Any]]) -> keras.Model:
    outputs = keras.tree.flatten(model._outputs_struct)
    known: dict[int, Any] = {id(item): item for item in model.inputs}
    readers = [{id(item) for node in stage for item in node.input_tensors} for stage in stages]
    for number, stage in enumerate(stages):
        later = {id(item) for item in outputs}.union(*readers[number + 1 :])
        results = [item for node in stage for item in node.output_tensors if id(item) in later]
        given = [key for key in known if key in readers[number]]
        inputs = [
            keras.Input(batch_shape=known[key].shape, dtype=known[key].dtype, name=f"stage_{number}_input_{place}")
            for place, key in enumerate(given)
        ]
        inner = dict(zip(given, inputs, strict=True))
        for node in stage:
            _call_again(node, inner)
        part = keras.Model(inputs, [inner[id(item)] for item in results], name=f"stage_{number}")
        values = part([known[key] for key in given])
        values = values if isinstance(values, list) else [values]
        known.update((id(item), value) for item, value in zip(results, values, strict=True))
    finals = keras.tree.map_structure(lambda item: known[id(item)], model._outputs_struct)
    return keras.Model(model._inputs_struct, finals, name=model.name)


def _call_again(node: Any, inner: dict[int, Any]) -> None:
    """Calls a node's operation on the tensors that stand for its operands."""
    arguments = node.arguments.args, node.arguments.kwargs
    args, kwargs = keras.tree.map_structure(lambda item: inner.get(id(item), item), arguments)
    results = keras.tree.flatten(node.operation(*args, **kwargs))
    inner.update((id(old), new) for old, new in zip(node.output_tensors, results, strict=True))
