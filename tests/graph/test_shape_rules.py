"""What the rules give for a node is what ONNX's own inference gives, wherever they give something."""

import itertools

import numpy as np
import onnx_ir as ir
import pytest

from onnxport.errors import OnnxportError
from onnxport.graph import inference, schema, shape_rules

F, D, I64, I32, B = (getattr(ir.DataType, name) for name in ("FLOAT", "DOUBLE", "INT64", "INT32", "BOOL"))
SHAPES = [
    (),
    (1,),
    (5,),
    (0,),
    (2, 5),
    (1, 5),
    (5, 2),
    ("n", 5),
    ("n", 1),
    (None, 5),
    ("m", 5),
    (2, 1, 5),
    ("n", 1, 5),
    (None, None),
]
OPSETS = (13, 18, 21, 23)


def lists(*items):
    return [np.array(item, np.int64) for item in items]


def value(name, shape, dtype=F):
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))


def first_operands(dtypes=(F,), shapes=SHAPES):
    return [[(shape, dtype)] for shape in shapes for dtype in dtypes]


def pairs(first=(F,), second=(F,), shapes=SHAPES):
    return [[(a, x), (b, y)] for a in shapes for b in shapes for x in first for y in second]


def with_lists(given, dtypes=(F,), shapes=SHAPES):
    """Operands and constant lists behind them."""
    return [[(shape, dtype), *items] for shape in shapes for dtype in dtypes for items in given]


AXES = [[item] for item in lists([0], [-1], [1], [0, 1], [0, 0], [7], [])]
SIZES = [[item] for item in lists([5, 2], [10], [-1], [1, 1, 5], [0], [2, -1], [])]
CUTS = [
    [*lists([start], [end], [axis]), *steps]
    for start, end, axis in itertools.product((0, 1, -2, 9), (2, -1, 99, -9), (0, -1))
    for steps in ([], lists([1]), lists([2]), lists([-1]))
]
THREE = [[(a, B), (b, F), (c, F)] for a, b, c in itertools.product(SHAPES[::2], SHAPES[1::2], SHAPES[::3])]
KEPT = [{}, {"keepdims": 0}, {"keepdims": 1}]
PLACES = [{}, {"axis": 0}, {"axis": 1}, {"axis": -1}, {"axis": 5}]
TURNS = [{}, {"transA": 1}, {"transB": 1}, {"transA": 1, "transB": 1}]
MIXED = [*pairs(), *pairs((F, I64), (F, I64), SHAPES[:3])]

ALL = {
    **{name: (first_operands((F, I64, B)), [{}]) for name in "Abs Exp Identity IsNaN IsInf Neg Not Sqrt".split()},
    "Softmax": (first_operands(), [{}, {"axis": 0}]),
    "Cast": (
        first_operands(),
        [{"to": kind.value} for kind in (F, D, I64, I32, B, ir.DataType.BFLOAT16, ir.DataType.STRING)],
    ),
    **{name: (MIXED, [{}]) for name in "Add Div Mul Sub Max Min Equal Less GreaterOrEqual LessOrEqual Greater".split()},
    **{name: (pairs((B,), (B, F)), [{}]) for name in ("And", "Or")},
    "Pow": ([*pairs((F, I64), (F, I64))], [{}]),
    "Where": ([*THREE, [((5,), B), ((5,), F), ((5,), D)], [((5,), B), ((5,), I64), ((1,), I64)]], [{}]),
    **{
        name: (
            [*first_operands((F, I64)), *with_lists(AXES)],
            [*KEPT, {"noop_with_empty_axes": 1}, {"axes": [0]}, {"axes": [-1, 0]}],
        )
        for name in "ReduceSum ReduceMax ReduceMin ReduceMean ReduceSumSquare ReduceL2 ReduceLogSumExp ReduceProd".split()
    },
    **{name: (first_operands((F, I64)), [{**a, **b} for a in PLACES for b in KEPT]) for name in ("ArgMax", "ArgMin")},
    "Clip": ([[(shape, F), ((), kind)] for shape in SHAPES for kind in (F, D)], [{}]),
    "Concat": ([*pairs(), *pairs((F,), (D,), SHAPES[4:6]), *first_operands()], PLACES),
    "Expand": (with_lists(SIZES), [{}]),
    "Reshape": (with_lists(SIZES), [{}]),
    "Gather": (pairs((F,), (I64, F)), PLACES),
    "GatherElements": (pairs((F,), (I64, I32, F)), PLACES),
    "Gemm": (
        [
            *pairs(),
            *pairs((F, D), (F, D), [(2, 5), (5, 2)]),
            [((2, 5), F), ((5, 2), F), ((2,), F)],
            [((2, 5), F), ((5, 2), F), ((2,), D)],
        ],
        TURNS,
    ),
    "MatMul": (MIXED, [{}]),
    "Shape": (first_operands(), [{}, {"start": 1}]),
    "Slice": (with_lists(CUTS), [{}]),
    "Split": (with_lists([[item] for item in lists([2, 3], [5, 0], [1, 1], [4, 4], [6, -1])]), PLACES),
    "Squeeze": ([*with_lists(AXES), *first_operands()], [{}]),
    "Unsqueeze": (with_lists(AXES), [{}]),
    "TopK": (with_lists([[item] for item in lists([1], [2], [0], [6], [9])]), PLACES),
    "Transpose": (first_operands(), [{}, {"perm": [1, 0]}, {"perm": [0, 2, 1]}]),
    "Compress": (pairs((F,), (B,)), [{}, {"axis": 0}, {"axis": -1}]),
}


def results(infer, kind, opset, operands, attributes):
    """What an inference sets on a node's outputs; None where it sets nothing or refuses the node."""
    known, inputs = {}, []
    for i, item in enumerate(operands):
        if isinstance(item, np.ndarray):
            known[f"x{i}"] = item
            inputs.append(value(f"x{i}", item.shape, I64))
        else:
            inputs.append(value(f"x{i}", *item))
    form = schema.require_schema("", kind, opset)
    if not form.min_input <= len(inputs) <= form.max_input or attributes.keys() - form.attributes.keys():
        return None
    count = 2 if kind in ("Split", "TopK") else 1
    node = ir.Node("", kind, inputs, [schema.attribute(form, *item) for item in attributes.items()], num_outputs=count)
    for i, output in enumerate(node.outputs):
        output.name = f"y{i}"
    if infer(form, node, opset, known) is False:
        return None
    return [
        (output.type, output.shape and [getattr(dim, "value", dim) for dim in output.shape]) for output in node.outputs
    ]


def by_rule(form, node, opset, known):
    return shape_rules.set_by_rule(form, node, known)


def by_onnx(form, node, opset, known):
    inference.infer_outputs(form, node, (("", opset), ("ai.onnx.ml", 3)), known)


@pytest.mark.parametrize("kind", ALL)
def test_rules_give_what_onnx_gives(kind, monkeypatch):
    monkeypatch.setattr(inference, "set_by_rule", lambda *args: False)
    forms, attributes = ALL[kind]
    told = 0
    for opset, operands, given in itertools.product(OPSETS, forms, attributes):
        ours = results(by_rule, kind, opset, operands, given)
        if ours is None:
            continue
        told += 1
        try:
            theirs = results(by_onnx, kind, opset, operands, given)
        except OnnxportError as error:
            theirs = str(error)
        assert ours == theirs, (opset, operands, given)
    assert told > 3, "the rule gives nothing for these"
