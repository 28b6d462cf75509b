"""A source that computes in a narrower type than its outputs have gives no more digits than that type."""

import numpy as np
import onnx_ir as ir
import pytest
from onnx import numpy_helper, parser

import onnxport
from onnxport.frameworks import of_object
from onnxport.validation.numerics import of_model
from onnxport.validation.runners import bind
from onnxport.validation.runners.base import Binding
from tests.validation.graphs import graph

X = np.random.default_rng(0).normal(size=(3, 4))
SINGLE, HALF = 2.0**-23, 2.0**-10


def pytorch(name):
    import torch

    class Narrow(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x.to(getattr(torch, name))).to(torch.float64)

    return Narrow()


def tensorflow(name):
    import tensorflow as tf

    return tf.function(lambda x: tf.cast(tf.sin(tf.cast(x, name)), tf.float64))


def onnx(name):
    kind = {"float64": ir.DataType.DOUBLE, "float32": ir.DataType.FLOAT, "float16": ir.DataType.FLOAT16}[name]
    call = lambda op, x: op.Cast(op.Sin(op.Cast(x, to=kind)), to=ir.DataType.DOUBLE)  # noqa: E731
    return graph(call, ("x", ir.DataType.DOUBLE, ["N", 4]))


SOURCES = [pytest.param(make, marks=getattr(pytest.mark, make.__name__)) for make in (pytorch, tensorflow)]


@pytest.mark.parametrize(("name", "coarse"), [("float64", None), ("float32", SINGLE), ("float16", HALF)])
@pytest.mark.parametrize("source", [*SOURCES, onnx])
def test_the_narrowest_type_that_a_source_casts_to_is_known(source, name, coarse):
    model = source(name)
    runner = bind(model, of_object(model, [X]), Binding((X,), None))
    assert runner.coarse([X]) == coarse


def untold(name, text):
    """A file that declares no types of what is within it, as torch.onnx's exporter through TorchScript writes it."""
    head = '<ir_version: 8, opset_import: ["" : 18]>'
    model = parser.parse_model(f"{head} g (float[N, 4] x) => (float[N, 4] y) {{ {text} }}")
    weight = numpy_helper.from_array(np.random.default_rng(0).random((4, 4)).astype(name), "w")
    model.graph.initializer.append(weight)
    return model


NARROW = "h = Cast<to: int = 10>(x) p = Gemm(h, w) t = Tanh(p) q = Gemm(t, w) y = Cast<to: int = 1>(q)"


@pytest.mark.parametrize(
    ("text", "coarse"), [(NARROW, HALF), ("v = Cast<to: int = 1>(w) p = MatMul(x, v) y = Tanh(p)", None)]
)
def test_narrow_types_that_a_file_does_not_declare_are_known(text, coarse):
    model = onnxport.OnnxModel(ir.from_proto(untold("float16", text)))
    assert of_model(model.model).coarse == coarse


@pytest.mark.pytorch
def test_a_file_of_half_precision_without_declared_types_is_proved():
    onnxport.convert(untold("float16", NARROW), to="pytorch")


@pytest.mark.parametrize("source", SOURCES)
def test_rounding_of_that_type_is_allowed_and_more_is_not(source):
    for off, verdict in ((SINGLE, "passed"), (1e3 * SINGLE, "failed")):
        call = lambda op, x, off=off: op.Mul(op.Sin(x), op.const(1.0 + off, ir.DataType.DOUBLE))  # noqa: E731
        made = graph(call, ("x", ir.DataType.DOUBLE, ["N", 4]))
        assert onnxport.validate(source("float32"), made, inputs=(X,)).verdict == verdict
        assert onnxport.validate(source("float64"), made, inputs=(X,)).verdict == "failed"
