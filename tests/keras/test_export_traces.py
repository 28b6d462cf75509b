"""How Keras models are traced: in which order, how often, with which weights, and whose lines nodes have."""

import contextlib
import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from onnxport.converters.to_onnx.keras import export
from onnxport.errors import UnsupportedOperator
from onnxport.request import Request
from onnxport.tracing import tensorflow_functions
from onnxport.tracing.keras import trace
from onnxport.tracing.tensorflow_program import WEIGHTS
from tests.evidence import require_equal

pytestmark = pytest.mark.keras

RNG = np.random.default_rng(0)


def f(*shape):
    return RNG.normal(size=shape).astype(np.float32)


class Overwritten(keras.Model):
    """Reads what it has written, twice: the order tells."""

    def __init__(self):
        super().__init__()
        self.kept = self.add_weight(shape=(3,), initializer="ones", trainable=False)

    def call(self, x):
        self.kept.assign(keras.ops.sum(x, 0))
        before = x * self.kept
        self.kept.assign(x[0] * 5.0)
        return before + self.kept


def test_variables_are_written_and_read_in_order():
    require_equal(Overwritten(), export(Overwritten(), Request((f(2, 3),))), (f(2, 3),))


def test_only_a_call_that_acts_on_state_is_traced_in_order(monkeypatch):
    """That takes TensorFlow a tenth longer, and tracing twice as long again."""
    traced, trace = [], tensorflow_functions.traced
    monkeypatch.setattr(tensorflow_functions, "traced", lambda *args: traced.append(args) or trace(*args))
    recurrent = keras.Sequential(
        [keras.Input((4, 3)), layers.LSTM(4), layers.BatchNormalization(), layers.Dropout(0.5)]
    )
    export(recurrent, Request())
    assert len(traced) == 1
    export(Overwritten(), Request((f(2, 3),)))
    assert len(traced) == 3


def kinds_of(model, *inputs):
    """The kinds of operators in a trace."""
    return {node.type for node in trace(model, inputs=inputs or None).graph.get_operations()}


class Gradual(layers.Layer):
    """The derivative by a weight, which a tape sees read."""

    def build(self, shape):
        self.scale = self.add_weight(shape=shape[1:], initializer="ones")

    def call(self, x):
        with tf.GradientTape() as tape:
            result = x * self.scale.value
        by = tape.gradient(result, self.scale.value, unconnected_gradients="zero")
        return result + by


class Compiled(layers.Layer):
    """A function of TensorFlow's, which keeps its trace from call to call."""

    def build(self, shape):
        self.scale = self.add_weight(shape=shape[1:], initializer="ones")

    @tf.function
    def call(self, x):
        return x * self.scale


@pytest.mark.parametrize("layer", [Gradual, Compiled, Overwritten])
def test_what_needs_its_variables_has_them(layer):
    source, x = layer(), f(2, 3)
    source.build((None, 3))
    for weight in source.trainable_variables:
        weight.assign(f(3))
    assert WEIGHTS not in kinds_of(source, x)
    require_equal(source, export(source, Request((x,))), (x,))
    assert np.isfinite(source(x)).all()  # the model itself runs as before


def test_other_weights_are_results_of_one_operator():
    mixed = keras.Sequential([keras.Input((8,)), layers.Dense(4), layers.BatchNormalization(), Doubled()])
    assert WEIGHTS in kinds_of(keras.Sequential([keras.Input((8,)), layers.Dense(4), layers.LayerNormalization()]))
    assert WEIGHTS not in kinds_of(mixed)  # for the function in it


class Doubled(layers.Layer):
    """A layer of the user's, two lines of which call what autograph rewrites."""

    def call(self, x):
        twice = tf.function(lambda y: y * 2.0)(x)
        return twice + tf.autograph.to_graph(halved)(x)


def halved(x):
    return x * 0.5 if tf.reduce_sum(x) > 0 else x


def tripled(x):
    return x * 3.0


def test_nodes_have_the_users_lines_as_with_every_stack_recorded(monkeypatch):
    def lines():
        shared = keras.Sequential([keras.Input((4,)), layers.Dense(4, activation=tripled), Doubled()])
        shared.add(layers.Dense(2, activation="relu"))
        model = export(shared, Request()).model
        nodes = [*model.graph.all_nodes(), *(node for part in model.functions.values() for node in part)]
        return [(node.op_type, node.metadata_props.get("onnxport.source")) for node in nodes]

    some = lines()
    monkeypatch.setattr(tensorflow_functions, "users_stacks", lambda function: contextlib.nullcontext())
    # of a layer of the framework's one stack alone is read, where each node has its own
    called = f"{os.path.relpath(__file__)}:{tripled.__code__.co_firstlineno + 1}"
    assert [(kind, None if line == called else line) for kind, line in some] == lines()
    first = Doubled.call.__code__.co_firstlineno
    own = {f"{os.path.relpath(__file__)}:{first + place}" for place in (1, 2)}
    assert {line for _, line in some} == {None, called, *own}
    assert {line for kind, line in some if kind in ("MatMul", "Relu")} == {None}


class Eigenvectors(layers.Layer):
    """Gives what the library chooses the signs of, without an operator behind it."""

    def call(self, x):
        return keras.ops.eigh(x)[1]


def test_an_output_without_an_onnx_form_is_refused_by_name():
    inputs = keras.Input((3, 3))
    with pytest.raises(UnsupportedOperator, match="SelfAdjointEigV2: the signs of eigenvectors"):
        export(keras.Model(inputs, Eigenvectors()(inputs)), Request())
