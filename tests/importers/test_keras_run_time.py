"""Graphs that only their values resolve, as Keras models: numbers, training, files."""

import ml_dtypes
import numpy as np
import pytest

pytestmark = [pytest.mark.keras, pytest.mark.tensorflow]
keras = pytest.importorskip("keras", reason="Keras is an extra")
pytest.importorskip("tensorflow", reason="TensorFlow is an extra")

import onnxruntime  # noqa: E402
import tensorflow as tf  # noqa: E402
from onnx import TensorProto, numpy_helper, parser  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import onnxport  # noqa: E402

RNG = np.random.default_rng(3)
X = RNG.normal(size=(2, 3)).astype(np.float32)
WEIGHTS = RNG.normal(size=(30, 30)).astype(np.float32)


def whole(*numbers):
    return np.array(numbers, np.int64)


# A graph, its inputs, and the kind of model: where its declared ranks are enough for a functional one, only some operators wait.
ROWS = [
    ("axis", "(float[2,3] x, int64 a) => (float[2,3] y) { y = CumSum(x, a) }", (X, np.array(1)), "OnnxModel"),
    ("axes", "(float[2,3] x, int64[1] a) => (float[P] y) { y = ReduceMean<keepdims=0>(x, a) }", (X, whole(1)), "OnnxModel"),
    ("new axes", "(float[2,3] x, int64[2] a) => (float[P,Q,R,S] y) { y = Unsqueeze(x, a) }", (X, whole(0, 3)), "OnnxModel"),
    (
        "bounds",
        "(bfloat16 a, bfloat16 b, bfloat16 c) => (bfloat16[N] y) { y = Range(a, b, c) }",
        tuple(np.array(item, ml_dtypes.bfloat16) for item in (1, 5, 2)),
        "OnnxModel",
    ),
    (
        "pieces",
        "(float[2,3] x, int64[N] n) => (seq(float[2,M]) y) { y = SplitToSequence<axis=1>(x, n) }",
        (X, whole(1, 2)),
        "RunTimeModel",
    ),
    (
        "rank",
        "(float[2,3] x, int64[N] s) => (float y) { z = Expand(x, s) y = ReduceMax<keepdims=0>(z) }",
        (X, whole(2, 1, 1)),
        "RunTimeModel",
    ),
    ("sequence", "(seq(float[2,3]) x) => (float[2,6] y) { y = ConcatFromSequence<axis=1>(x) }", ([X, X + 1],), "RunTimeModel"),
    ("no input", "() => (float[2] y) { y = Constant<value = float[2] {1, 2}>() }", (), "RunTimeModel"),
]  # fmt: skip


def model_of(text, opset=21, **weights):
    proto = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]>\ng {text}')
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return onnxport.convert(proto, to="keras", validate=False), proto


def plain(result):
    if isinstance(result, (list, tuple)):
        return [np.asarray(item) for item in result]
    return [np.asarray(result)]


def given_by_a_runtime(proto, feeds):
    """What onnxruntime gives; it has no bfloat16 in NumPy, and no Range of it, for which the reference evaluator stands."""
    if any(item.type.tensor_type.elem_type == TensorProto.BFLOAT16 for item in proto.graph.input):
        return ReferenceEvaluator(proto).run(None, feeds)[0]
    return onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)[0]


@pytest.mark.parametrize(("text", "inputs", "kind"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_values_resolve_runs_and_is_saved(text, inputs, kind, tmp_path):
    model, proto = model_of(text, 27 if "bfloat16" in text else 21)  # Range of bfloat16 is new
    assert type(model).__name__ == kind
    names = [item.name for item in proto.graph.input]
    expected = plain(given_by_a_runtime(proto, dict(zip(names, inputs, strict=True))))
    model.save(tmp_path / "m.keras")
    for each in (model, keras.saving.load_model(tmp_path / "m.keras")):
        result = plain(each(*inputs))
        assert [item.shape for item in result] == [item.shape for item in expected]
        for ours, theirs in zip(result, expected, strict=True):
            np.testing.assert_array_almost_equal_nulp(ours.astype(np.float32), theirs.astype(np.float32), 2)


STEPS = {
    "OnnxModel": "w = MatMul(x, W) z = CumSum(w, c)",
    "RunTimeModel": "w = MatMul(x, W) u = Unsqueeze(w, c) z = Squeeze(u, c)",
}


@pytest.mark.parametrize("kind", STEPS)
def test_weights_train_and_are_saved(kind, tmp_path):
    axis = "int64 c" if kind == "OnnxModel" else "int64[M] c"
    end = "y = ReduceSum<keepdims=0>(z, b)"
    text = f"(float[2,30] x, {axis}) => (float[2] y) <float[30,30] W, int64[1] b = {{1}}> {{ {STEPS[kind]} {end} }}"
    model, _ = model_of(text, W=WEIGHTS)
    assert type(model).__name__ == kind
    assert [tuple(item.shape) for item in model.trainable_weights] == [(30, 30)]
    x = np.ones((2, 30), np.float32)
    inputs = (x, np.array(1) if kind == "OnnxModel" else whole(2))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(*inputs))
    (gradient,) = tape.gradient(loss, [model.trainable_weights[0].value])
    assert gradient is not None
    assert float(tf.reduce_max(tf.abs(gradient))) > 0
    model.trainable_weights[0].assign(model.trainable_weights[0] - 0.1 * gradient)
    model.save(tmp_path / "m.keras")
    assert (tmp_path / "m.keras").stat().st_size < 40_000  # the weights stand there once
    again = keras.saving.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(np.asarray(again(*inputs)), np.asarray(model(*inputs)))


def test_a_model_that_waits_predicts():
    model, proto = model_of(
        "(float[N,3] x, int64[N] a) => (float[N,3] y) { b = ReduceMin<keepdims=0>(a) y = CumSum(x, b) }"
    )
    inputs = {"x": X, "a": whole(1, 1)}
    expected = given_by_a_runtime(proto, inputs)
    np.testing.assert_array_almost_equal_nulp(model.predict(list(inputs.values()), verbose=0), expected, 2)
    model.compile(loss="mse")
    assert model.run_eagerly


@pytest.mark.parametrize("shape", [(3, -1), (-1, 2), (2, 3)])
def test_sizes_that_are_left_open_when_the_model_runs(shape):
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[6] x, int64[2] s) => (float[a, b] y, float z) {
        y = Reshape(x, s) e = Shape<start = 1>(x) m = ReduceSum<keepdims = 0>(x) z = Tile(m, e) }"""
    given = np.arange(1, 7, dtype=np.float32), np.int64(shape)
    model = onnxport.convert(parser.parse_model(text), to="keras", inputs=given)
    y, z = model(*given)
    np.testing.assert_array_equal(np.asarray(y), given[0].reshape(shape))
    assert float(z) == 21
