"""Recipes of operators with bodies: branches and loops of a node or two that see the values around them."""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, TensorProto, ValueInfoProto, defs, helper

from scripts.conformance.random_graph_drawing import Call, Drawing, kind_of
from scripts.conformance.random_graph_operators import add_node, recipe

_STEPS = ("Add", "Mul", "Sub")
_NUMBERS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.INT32)


def _info(name: str, kind: int, rank: int | None = None) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, None if rank is None else [None] * rank)


def _branch(d: Drawing, kind: int, place: str) -> GraphProto:
    """A body without inputs that gives a tensor of a type."""
    inner = Drawing(d.rng, d.opset, d)
    try:
        if d.chance(0.6):
            add_node(inner, ["Add", "Mul", "Neg", "Abs", "Transpose", "Reshape", "Gather", "Concat", "Identity"])
    finally:
        results = {name: d.values.pop(name) for name in inner.results}
    fitting = [name for name, value in results.items() if isinstance(value, np.ndarray) and kind_of(value) == kind]
    source = fitting[-1] if fitting else d.new(d.numbers(kind, d.shape()))
    final = helper.make_node("Identity", [source], [place])
    return helper.make_graph([*inner.nodes, final], place, [], [_info(place, kind)])


@recipe("If")
def _if(d: Drawing, s: defs.OpSchema) -> Call:
    condition = d.new(np.asarray(d.chance(0.5)), constant=0.2)
    kind = d.kind(_NUMBERS)
    mark = d.fresh()
    bodies = [_branch(d, kind, f"{side}{mark}") for side in ("then", "else")]
    return Call([condition], {"then_branch": bodies[0], "else_branch": bodies[1]})


@recipe("Loop")
def _loop(d: Drawing, s: defs.OpSchema) -> Call:
    state = d.operand(_NUMBERS)
    kind, rank = kind_of(d.values[state]), d.values[state].ndim
    outer = d.like(state, () if d.opset >= 7 and d.chance(0.5) else d.values[state].shape)
    mark = f"l{d.fresh()}_"
    step, go, x, y = (mark + name for name in ("step", "go", "x", "y"))
    nodes = [helper.make_node(d.rng.choice(_STEPS), [x, outer], [y])]
    if d.chance(0.4):  # ends by its own condition
        limit = d.new(np.asarray(d.rng.randint(0, 2), np.int64), constant=0.8)
        nodes.append(helper.make_node("Less", [step, limit], [mark + "goes"]))
    else:
        nodes.append(helper.make_node("Identity", [go], [mark + "goes"]))
    outputs = [_info(mark + "goes", TensorProto.BOOL), _info(y, kind)]
    scanned = d.chance(0.5)
    if scanned:
        nodes.append(helper.make_node("Add", [y, x], [mark + "row"]))
        outputs.append(_info(mark + "row", kind))
    inputs = [_info(step, TensorProto.INT64, 0), _info(go, TensorProto.BOOL), _info(x, kind, rank)]
    body = helper.make_graph(nodes, mark + "body", inputs, outputs)
    count = d.new(np.asarray(d.rng.randint(1, 4), np.int64), constant=0.5)
    condition = d.new(np.asarray(True), constant=0.8) if d.chance(0.5) else ""
    return Call([count, condition, state], {"body": body}, 1 + scanned)


@recipe("Scan")
def _scan(d: Drawing, s: defs.OpSchema) -> Call:
    rows = d.operand(_NUMBERS, rank=(1, 3), least=1)
    shape = d.values[rows].shape
    axis = d.axis(len(shape)) if d.opset >= 11 else d.rng.randrange(len(shape))
    inner = [size for place, size in enumerate(shape) if place != axis % len(shape)]
    state = d.like(rows, inner)
    kind, mark = kind_of(d.values[rows]), f"s{d.fresh()}_"
    x, row, y, given = (mark + name for name in ("x", "row", "y", "given"))
    nodes = [helper.make_node(d.rng.choice(_STEPS), [x, row], [y]), helper.make_node("Mul", [y, row], [given])]
    inputs = [_info(x, kind, len(inner)), _info(row, kind, len(inner))]
    body = helper.make_graph(nodes, mark + "body", inputs, [_info(y, kind, len(inner)), _info(given, kind, len(inner))])
    drawn = {"body": body, "num_scan_inputs": 1, "scan_input_axes": [axis] if axis or d.chance(0.5) else None}
    drawn["scan_input_directions"] = [1] if d.chance(0.3) else None
    drawn["scan_output_directions"] = [1] if d.chance(0.3) else None
    return Call([state, rows], drawn, 2)
