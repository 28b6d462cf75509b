"""debug of a deep chain: what is in memory does not grow with the depth."""

import weakref

import numpy as np
import onnx
import pytest

from onnxport.converters.debugging import debug
from onnxport.graph import slices
from onnxport.graph.slices import values_in_slices
from onnxport.model import as_onnx_model


def chain(operators):
    """A chain of nodes v0 -> v1 -> ..., whose first value is read once more at the end."""
    nodes = [onnx.helper.make_node(op, [f"v{i}"], [f"v{i + 1}"], f"n{i}") for i, op in enumerate(operators)]
    nodes.append(onnx.helper.make_node("Add", ["v1", f"v{len(operators)}"], ["y"], "last"))
    infos = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in ("v0", "y")]
    graph = onnx.helper.make_graph(nodes, "chain", infos[:1], infos[1:])
    return as_onnx_model(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8))


@pytest.fixture
def most(monkeypatch):
    """The greatest number of values that were in memory at once, in a list of one, of slices that may take 16 of 400 bytes."""
    live, greatest, run = [0], [0], slices._run

    def counted(*arguments):
        results = run(*arguments)
        for value in results.values():
            live[0] += 1
            weakref.finalize(value, lambda: live.__setitem__(0, live[0] - 1))
        greatest[0] = max(greatest[0], live[0])
        return results

    monkeypatch.setattr(slices, "_run", counted)
    monkeypatch.setattr(slices, "_VALUE_BYTES", 16 * 400)
    return greatest


X = np.linspace(-1, 1, 100, dtype=np.float32)


def test_a_slice_is_in_memory(most):
    names = [name for name, _ in values_in_slices(chain(["Neg"] * 200).model, {"v0": X})]
    assert len(names) == 201
    assert most[0] <= 20, f"{most[0]} of 201 at once"  # a slice, what it reads, and what is read at the end


def test_debug_holds_few_values_at_once(most):
    right = ["Neg"] * 100
    inquiry = debug(chain(right), chain([*right[:70], "Abs", *right[71:]]), (X,))
    assert [item.output for item in inquiry.operators if item.differs] == ["v71"]
    assert len(inquiry.operators) == 101
    assert inquiry.operators[-1].propagated > 0.0
    assert most[0] <= 40, f"{most[0]} of 202 at once"


@pytest.mark.parametrize("value", [0.0, 2.5])
def test_slices_hold_bodies_weights_and_sequences(value):
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[n] x) => (float[n] y) <float[1] w = {3}> {
      c0 = Mul(x, w) c1 = Neg(c0) c2 = Neg(c1) c3 = Neg(c2) c4 = Neg(c3) s = SequenceConstruct(c4, c0) c5 = Neg(c4) c6 = Neg(c5)
      c7 = Neg(c6) c8 = Neg(c7) i = Constant<value = int64 {1}>() a = SequenceAt(s, i)
      total = ReduceSum<keepdims = 0>(x) zero = Constant<value = float {0}>() positive = Greater(total, zero)
      b = If(positive) <then_branch = left () => (float[n] l) { l = Add(c0, a) },
                        else_branch = right () => (float[n] r) { r = Sub(c4, w) }>
      y = Add(b, c8) }"""
    model = as_onnx_model(onnx.parser.parse_model(text))
    x = np.array([value, -1.0], np.float32)
    values = dict(values_in_slices(model.model, {"x": x}))
    np.testing.assert_array_equal(values["y"], model(x))
    assert "s" not in values
    assert {"a", "b", "c8", "positive"} <= set(values)
