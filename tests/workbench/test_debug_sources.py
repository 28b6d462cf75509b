"""debug, view and a failing proof over sources of TensorFlow, Keras and scikit-learn: the wrong operator, and the user's line."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxport
from onnxport.converters.debugging import debug, with_verdicts

X = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
IMAGE = np.random.default_rng(0).normal(size=(2, 8, 8, 8)).astype(np.float32)  # sizes don't tell the channels


def function():
    import tensorflow as tf

    weight = tf.random.stateless_normal((4, 3), seed=[1, 2])

    class Net(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32, name="x")])
        def __call__(self, x):
            wide = tf.tanh(x @ weight)
            return tf.nn.softmax(wide)  # TensorFlow

    return Net(), X


def keras_images():
    import keras

    class Gate(keras.layers.Layer):
        def call(self, x):
            return x * keras.ops.sigmoid(x)  # Keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    image = keras.Input((8, 8, 8), name="x")
    h = layers.Conv2D(8, 3, padding="same", bias_initializer="glorot_normal")(image)
    h = layers.BatchNormalization()(layers.ReLU()(h))
    h = layers.Add()([h, layers.SeparableConv2D(8, 3, padding="same", bias_initializer="glorot_normal")(h)])
    h = Gate()(layers.Conv2DTranspose(8, 2, strides=2, bias_initializer="glorot_normal")(layers.MaxPooling2D()(h)))
    h = layers.DepthwiseConv2D(3, bias_initializer="glorot_normal")(layers.LayerNormalization()(h))
    return keras.Model(image, layers.Dense(3)(layers.Flatten()(h))), IMAGE


def steps():
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.decomposition import PCA
    from sklearn.ensemble import RandomForestClassifier, VotingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"]).assign(d=["u", "v", "w"] * 20)
    columns = make_column_transformer(
        (make_pipeline(StandardScaler(), PCA(2)), ["a", "b", "c"]), (OneHotEncoder(), ["d"])
    )
    parts = [("line", LogisticRegression()), ("forest", RandomForestClassifier(3, max_depth=3, random_state=0))]
    votes = VotingClassifier(parts, voting="soft")
    return make_pipeline(columns, votes).fit(table, rng.integers(0, 2, 60)), table[:5]


def line(text):
    lines = Path(__file__).read_text().splitlines()
    return f"{Path(__file__).name}:{next(i for i, line in enumerate(lines, 1) if line.endswith(text))}"


# A model, the operator that becomes another one, where its node says it comes from, and the least share of nodes compared.
MODELS = [
    pytest.param(function, ("Softmax", "LogSoftmax"), line("# TensorFlow"), 1.0, marks=pytest.mark.tensorflow),
    pytest.param(keras_images, ("Sigmoid", "Tanh"), line("# Keras"), 0.6, marks=pytest.mark.keras),
    pytest.param(steps, ("MatMul", "Sub"), "'columntransformer.pipeline.pca'", 0.25, marks=pytest.mark.sklearn),
]


def planted(model, operator):
    """The model's graph with another operator in the place of the last of its kind; that one's output."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    node = [node for node in proto.graph.node if node.op_type == operator[0]][-1]
    if operator[0] == "MatMul":  # an estimator's weights: another number
        weight = next(item for item in proto.graph.initializer if item.name == node.input[1])
        weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) + 0.5, weight.name))
    else:
        node.op_type = operator[1]
    return proto, node.output[0]


@pytest.mark.parametrize("build, operator, where, share", MODELS)
def test_every_operator_agrees_with_the_source_or_is_the_wrong_one(build, operator, where, share, tmp_path):
    source, x = build()
    model = onnxport.convert(source, inputs=x)
    right = debug(source, model, x)
    assert [item for item in right.operators if item.differs] == []
    assert len(right.operators) >= share * right.nodes
    assert all(item.propagated <= 1e-4 for item in right.operators)
    proto, _ = planted(model, operator)
    wrong = debug(source, proto, x)
    first = next(item for item in wrong.operators if item.differs)
    assert where in first.where
    assert wrong.failed
    assert wrong.worst is not None
    assert wrong.worst.node.name == first.node
    onnx.save(proto, tmp_path / "wrong.onnx")
    shown, counts = with_verdicts(wrong, tmp_path / "wrong.onnx")
    assert counts["differs"] >= 1
    assert where in onnx.load_model_from_string(shown).doc_string


@pytest.mark.parametrize("build, operator, where, share", MODELS)
def test_a_failing_proof_names_the_operator_and_its_place(build, operator, where, share):
    source, x = build()
    proto, _ = planted(onnxport.convert(source, inputs=x), operator)
    report = onnxport.validate(source, proto, inputs=x)
    assert report.verdict == "failed"
    assert report.divergence is not None
    assert where in report.divergence.where
    assert where in str(report)


def scored():
    """Estimators that go on from another's result: one that scales inside, one that overwrites the scores that it reads."""
    from sklearn.ensemble import BaggingClassifier, VotingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PowerTransformer

    rng = np.random.default_rng(0)
    rows, labels = rng.normal(3, 2, size=(60, 4)), rng.integers(0, 3, 60)
    yield make_pipeline(PowerTransformer(), LogisticRegression()).fit(rows, labels), rows[:10]
    yield VotingClassifier([("line", LogisticRegression())], voting="soft").fit(rows, labels), rows[:10]
    yield BaggingClassifier(LogisticRegression(), 2, random_state=0).fit(rows, labels), rows[:10]


@pytest.mark.sklearn
def test_no_estimator_of_a_right_model_is_called_wrong():
    for source, rows in scored():
        right = debug(source, onnxport.convert(source, inputs=rows), rows)
        assert right.operators
        assert [item for item in right.operators if item.differs] == []
