"""ONNX models as Keras models: layers, names, numbers, training, files."""

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

pytestmark = [pytest.mark.keras, pytest.mark.tensorflow]
keras = pytest.importorskip("keras", reason="Keras is an extra")
pytest.importorskip("tensorflow")

import onnx_ir as ir  # noqa: E402
import onnxruntime  # noqa: E402
import tensorflow as tf  # noqa: E402
from onnx import numpy_helper, parser  # noqa: E402

import onnxport  # noqa: E402
from onnxport.errors import UnsupportedOperator  # noqa: E402
from onnxport.opset_maps.from_onnx.keras.sizes import quotient  # noqa: E402

layers = keras.layers


def built(text, initializers=(), opset=21):
    proto = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]>\n{text}')
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in initializers)
    return onnxport.convert(proto, to="keras", validate=False), proto


def kinds(model):
    return [type(layer).__name__ for layer in model.layers if type(layer).__module__.startswith("keras")]


def convolutional():
    x = keras.Input((16, 16, 3))
    y = layers.Conv2D(8, 3, padding="same", strides=2, name="stem")(x)
    y = layers.BatchNormalization(name="norm")(y)
    y = layers.ReLU()(y)
    y = layers.DepthwiseConv2D(3, padding="same", name="depthwise")(y)
    y = layers.Conv2DTranspose(6, 2, strides=2, name="up")(y)
    y = layers.MaxPooling2D()(y)
    y = layers.GlobalAveragePooling2D()(y)
    return keras.Model(x, layers.Dense(4, activation="softmax", name="head")(y))


def recurrent():
    ids = keras.Input((7,), dtype="int32")
    y = layers.Embedding(11, 6, name="words")(ids)
    y = layers.Bidirectional(layers.LSTM(5, return_sequences=True))(y)
    y = layers.GRU(4, reset_after=True)(y)
    return keras.Model(ids, layers.Dense(2, name="head")(y))


def attending():
    x = keras.Input((6, 8))
    y = layers.MultiHeadAttention(2, 4)(x, x)
    y = layers.LayerNormalization(name="norm")(layers.Add()([x, y]))
    return keras.Model(x, [layers.Dense(8, activation="gelu", name="first")(y), y])


MODELS = [
    (
        convolutional,
        (16, 16, 3),
        {"Conv2D", "BatchNormalization", "DepthwiseConv2D", "Conv2DTranspose", "Dense", "Softmax"},
        {"stem", "norm", "depthwise", "up", "head"},
    ),
    (recurrent, (7,), {"Embedding", "Dense"}, {"words", "head"}),
    (attending, (6, 8), {"Dense", "Softmax"}, {"first"}),
]


def drawn(shape, count, seed=0):
    rng = np.random.default_rng(seed)
    if len(shape) == 1:
        return rng.integers(0, 11, (count, *shape)).astype(np.int32)
    return rng.normal(size=(count, *shape)).astype(np.float32)


@pytest.mark.parametrize(("make", "shape", "wanted", "names"), MODELS)
def test_a_model_comes_back_as_real_layers_with_its_numbers(make, shape, wanted, names, tmp_path):
    keras.utils.set_random_seed(0)
    model = make()
    hub = onnxport.convert(model, inputs=(drawn(shape, 2),), validate=False)
    back = onnxport.convert(hub, to="keras", inputs=(drawn(shape, 2),))
    assert isinstance(back, keras.Model)
    assert wanted <= set(kinds(back))
    assert names <= {layer.name for layer in back.layers}
    for count in (1, 5):
        given = drawn(shape, count, seed=count)
        expected, got = model(given), back(given)
        for one, other in zip(keras.tree.flatten(expected), keras.tree.flatten(got), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    back.save(tmp_path / "back.keras")
    again = keras.saving.load_model(tmp_path / "back.keras")
    given = drawn(shape, 3)
    for one, other in zip(keras.tree.flatten(back(given)), keras.tree.flatten(again(given)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_saved_models_load_in_a_fresh_process(tmp_path):
    """Without onnxport, where layers and operations of Keras say all."""
    head = "g (float[N,3] x, float[N,3] y) => (float[N,3] z) { a = Atan(x)\n"
    plain, _ = built(head + "z = Add(a, y) }")
    three = [("three", np.int64([3]))]
    more, _ = built(
        head + "c = Constant<value_float = 2.0>()\n d = Mul(y, c)\n b, p = TopK(d, three)\n z = Add(a, b) }", three
    )
    plain.save(tmp_path / "m.keras")
    more.save(tmp_path / "more.keras")
    code = (
        "import sys, numpy as np, keras\n"
        "x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)\n"
        "sys.modules['onnxport'] = None\n"
        "m = keras.saving.load_model(sys.argv[1])\n"
        "np.testing.assert_allclose(m([x, x]), np.arctan(x) + x, rtol=1e-5)\n"
        "del sys.modules['onnxport']\n"
        "import onnxport.opset_maps.from_onnx.keras.primitives\n"
        "m = keras.saving.load_model(sys.argv[1].replace('m.keras', 'more.keras'))\n"
        "np.testing.assert_allclose(m(x, x), np.arctan(x) + 2 * x[:, ::-1], rtol=1e-5, atol=1e-6)\n"
    )
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m.keras")], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr


def test_an_imported_model_trains():
    keras.utils.set_random_seed(0)
    model = convolutional()
    back = onnxport.convert(model, to="keras", inputs=(drawn((16, 16, 3), 2),), validate=False)
    before = [weight.numpy().copy() for weight in back.trainable_weights]
    assert len(before) == len(model.trainable_weights)
    back.compile("sgd", "sparse_categorical_crossentropy")
    back.fit(drawn((16, 16, 3), 8), np.arange(8) % 4, epochs=1, verbose=0)
    moved = [not np.array_equal(a, b.numpy()) for a, b in zip(before, back.trainable_weights, strict=True)]
    assert all(moved)


FLOAT64 = [
    "g (double[N,2,6] x) => (double[N,6,2] y) { y = Transpose<perm=[0,2,1]>(x) }",
    "g (double[N,2,6] x) => (double[N,12] y) { y = Flatten(x) }",
    "g (double[N,2,6] x) => (double[N,2,12] y) { y = Concat<axis=2>(x, x) }",
    "g (double[N,2,6] x) => (double[N,2,3] y) { y = AveragePool<kernel_shape=[2], strides=[2]>(x) }",
    "g (double[N,2,6] x) => (double[N,2,6] y) { y = Softmax(x) }",
    "g (double[N,2,6] x) => (double[N,2,6] y) { a = Reciprocal(x) y = Softmax(a) }",
]


@pytest.mark.parametrize("text", FLOAT64)
def test_float64_keeps_its_digits(text):
    model, proto = built(text)
    x = np.random.default_rng(0).normal(size=(3, 2, 6))
    expected = ReferenceEvaluator(proto).run(None, {"x": x})[0]  # onnxruntime has no AveragePool of float64
    got = np.asarray(model(x))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-14)


CONTROL = [
    (
        """g (float[N] x, bool c) => (float[N] y) {
             y = If (c) <then_branch = t () => (float[N] a) { a = Neg(x) }, else_branch = e () => (float[N] b) { b = Exp(x) }>
           }""",
        [(np.float32([1, 2]), np.array(True)), (np.float32([1, 2]), np.array(False))],
    ),
    (
        """g (float[N] x, int64 n) => (float[N] y, float[M,N] all) {
             going = Constant<value = bool {1}>()
             y, all = Loop (n, going, x) <body = b (int64 i, bool c, float[N] s) => (bool d, float[N] t, float[N] u) {
               d = Identity(c)
               t = Add(s, s)
               u = Identity(t)
             }>
           }""",
        [(np.float32([1, 2]), np.array(3)), (np.float32([5]), np.array(1))],
    ),
]


@pytest.mark.parametrize(("text", "inputs"), CONTROL)
def test_control_flow_stays_in_the_model(text, inputs, tmp_path):
    model, proto = built(text)
    model.save(tmp_path / "m.keras")
    model = keras.saving.load_model(tmp_path / "m.keras")
    source = onnxport.convert(proto)
    for given in inputs:
        for one, other in zip(keras.tree.flatten(source(*given)), keras.tree.flatten(model(*given)), strict=True):
            np.testing.assert_array_equal(other, one)


def test_a_weight_that_is_used_twice_is_one_weight():
    table = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    model, _ = built(
        "g (float[N,4] x) => (float[N,4] y) { a = MatMul(x, w)\n b = Tanh(a)\n y = MatMul(b, w) }", [("w", table)]
    )
    assert len(model.weights) == 1
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    np.testing.assert_allclose(model(x), np.tanh(x @ table) @ table, rtol=1e-5)


def test_a_layer_normalization_is_one_layer():
    rng = np.random.default_rng(0)
    weights = [(name, rng.normal(size=5).astype(np.float32)) for name in ("w", "b")]
    model, proto = built(
        "g (float[N,4,5] x) => (float[N,4,5] y) { y = LayerNormalization<epsilon = 0.01>(x, w, b) }", weights
    )
    assert kinds(model) == ["InputLayer", "LayerNormalization"]
    x = rng.normal(size=(3, 4, 5)).astype(np.float32)
    np.testing.assert_allclose(model(x), onnxport.convert(proto)(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 4, 4), (1, 4, 1)),
        ((3, 4, 1), (4,)),
        ((2, 4), (1, 1, 4)),
        ((1, 4, 1), (4, 4)),
        ((1, 4), (4, 1)),
        ((0, 2), (0, 2)),
    ],
)
def test_a_sum_broadcasts_as_in_onnx(shapes):
    """Keras' own takes what looks like a bias for one of another axis."""
    for batch in (False, True):
        a, b = (
            ", ".join("N" if batch and i == 0 and len(shape) == 3 else str(n) for i, n in enumerate(shape))
            for shape in shapes
        )
        model, _ = built(f"g (float[{a}] x, float[{b}] y) => (float[] z) {{ z = Add(x, y) }}")
        x, y = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in shapes)
        np.testing.assert_array_equal(model(x, y), x + y)


def test_a_model_is_served_whatever_its_names_are(tmp_path):
    weight = ("onnx::MatMul_7", np.float32([[2.0, 1.0], [0.0, 3.0]]))
    model, _ = built('g (float[N,2] x) => (float[N,2] z) { y = Sin(x)\n z = MatMul(y, "onnx::MatMul_7") }', [weight])
    other, _ = built(
        'g (float[N,2] "lambda", float[N,2] "a:b") => (float[N,2] z) { y = Add("lambda", "a:b")\n z = CumSum(y, i) }',
        [("i", np.int64(1))],
    )
    x = np.float32([[0.5, 1.0]])
    for served, given, wanted in ((model, x, np.sin(x) @ weight[1]), (other, [x, x], np.cumsum(2 * x, 1))):
        served.export(tmp_path / "served", verbose=False)
        loaded = tf.saved_model.load(tmp_path / "served")
        np.testing.assert_allclose(loaded.serve(keras.tree.map_structure(tf.constant, given)), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("g (uint8[N] x) => (uint8[H, W, 3] y) { y = ImageDecoder(x) }", "ImageDecoder: no mapping"),
        ("g (seq(uint8[N]) x, uint8[N] z) => (uint8[H, W, 3] y) { y = ImageDecoder(z) }", "is no tensor"),
        # Raised inside of a layer: Keras puts its own words and the arguments around each error.
        (
            "g (float[1,2,5,5,5,5] x, float[3,2,2,2,2,2] w) => (float[1,3,4,4,4,4] y) { y = Conv(x, w) }",
            r"^1 unsupported operator:\n  Conv: \w+ has no convolution over 4 axes \(at y\)$",
        ),
    ],
)
def test_what_has_no_form_in_keras_is_refused(text, message):
    with pytest.raises(UnsupportedOperator, match=message):
        built(text)


def test_trees_and_scalers_of_scikit_learn_become_keras_models():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    assert sklearn
    x = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    model = make_pipeline(StandardScaler(), RandomForestClassifier(8, max_depth=4, random_state=0))
    model.fit(x, (x[:, 0] * x[:, 1] > 0).astype(int))
    back = onnxport.convert(model, to="keras", inputs=x)
    label, probabilities = back(x[:9])
    assert np.asarray(label).tolist() == model.predict(x[:9]).tolist()
    np.testing.assert_allclose(probabilities, model.predict_proba(x[:9]), rtol=1e-6)


def test_the_walk_leaves_the_model_alone():
    _, proto = built("g (float[N,2] x) => (float[N,2] y) { y = Relu(x) }")
    before = proto.SerializeToString()
    onnxport.convert(ir.from_proto(proto), to="keras", validate=False)
    assert proto.SerializeToString() == before


REARRANGED = {
    "rows put together again": ("p = Reshape(r, pair) y = Reshape(p, back)", 0),
    "through layers": ("e = Exp(r) m = MatMul(e, w) t = Tanh(m) p = Reshape(t, pair) y = Reshape(p, back)", 0),
    "each image by itself": (
        "l = Reshape(x, apart) e = Exp(l) m = MatMul(e, w) p = Reshape(m, pair) y = Reshape(p, back)",
        2,
    ),
}


@pytest.mark.parametrize("name", REARRANGED)
def test_a_reshape_to_the_batch_of_what_has_other_rows(name):
    """As where the pixels of a patch are rows of their own: axis 0 is no batch, though the batch is where a reshape leads."""
    text, layers = REARRANGED[name]
    sizes = "s = Shape <start = 0, end = 1> (x) rows = Mul(s, two) cut = Concat <axis = 0> (rows, end, six)"
    ends = "pair = Concat <axis = 0> (s, two, end) back = Concat <axis = 0> (s, end, six) apart = Concat <axis = 0> (s, end, six)"
    proto = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]> g (float[n,4,k] x) => (float[n,a,b] y)
      <int64[1] two = {{2}}, int64[1] end = {{-1}}, int64[1] six = {{6}}> {{ {sizes} {ends} r = Reshape(x, cut) {text} }}""")
    proto.graph.initializer.append(numpy_helper.from_array(np.eye(6, dtype=np.float32), "w"))
    net = onnxport.convert(proto, to="keras", validate=False)
    assert sum(isinstance(layer, keras.layers.Reshape) for layer in net.layers) >= layers
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for n in (1, 3):
        x = np.random.default_rng(n).standard_normal((n, 4, 6)).astype(np.float32)
        np.testing.assert_allclose(net(x), session.run(None, {"x": x})[0], rtol=1e-5)


def test_sizes_times_a_batch_are_no_batch():
    """The flat indices of MaxPool count over all images: their first axis is longer than the batch."""
    model, _ = built(
        """g (float[N, 3, 8] x) => (float[N, 3, 4] y, int64[N, 3, 4] i)
        {y, i = MaxPool <kernel_shape = [2], strides = [2]> (x)}"""
    )
    x = np.random.default_rng(0).standard_normal((2, 3, 8)).astype(np.float32)
    y, i = model(x)
    np.testing.assert_array_equal(x.ravel()[np.asarray(i)], np.asarray(y))
    np.testing.assert_array_equal(np.asarray(y), x.reshape(2, 3, 4, 2).max(-1))


@pytest.mark.parametrize("shape", [(1, 6, 1, 1), (6, 1, 1)])
def test_a_bias_that_stands_apart_and_an_old_batch_norm_are_of_the_layers_and_keras_alone_loads_them(shape, tmp_path):
    rng = np.random.default_rng(0)
    sizes = {"w": (6, 1, 3, 3), "b": shape, "v": (4, 6, 1, 1), "c": (1, 4, 1, 1), "s": 4, "t": 4, "m": 4}
    weights = [(name, rng.normal(size=size).astype(np.float32)) for name, size in sizes.items()]
    weights.append(("q", rng.uniform(0.5, 2, 4).astype(np.float32)))
    text = """g (float[N,6,8,8] x) => (float[N,4,8,8] y) {
        a = Conv<group = 6, pads = [1, 1, 1, 1]>(x, w)
        d = Add(a, b)
        e = Conv(d, v)
        f = Add(c, e)
        y = BatchNormalization(f, s, t, m, q) }"""
    model, proto = built(text, weights, opset=8)
    assert [kind for kind in kinds(model) if kind not in ("Permute", "InputLayer")] == [
        "DepthwiseConv2D",
        "Conv2D",
        "BatchNormalization",
    ]
    assert all(type(item).__module__.startswith("keras") for item in model.operations)
    x = rng.normal(size=(3, 6, 8, 8)).astype(np.float32)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    np.testing.assert_allclose(model(x), session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    assert type(again) is not type(model)  # a model of Keras' own
    np.testing.assert_array_equal(again(x), model(x))


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_the_place_of_an_extreme_is_of_kerass_operations_and_a_zero_is_one_with_either_sign(op):
    model, proto = built(
        f"g (float[N,4] x) => (int64[N] y, int64[N,1] z) {{ y = {op}<axis = 1, keepdims = 0>(x)\n z = {op}<axis = -1>(x) }}"
    )
    assert all(type(item).__module__.startswith("keras") for item in model.operations)
    x = np.float32([[-0.0, 0.0, -0.0, 0.0], [0.0, -0.0, 0.0, 1.0], [-1.0, 3.0, 3.0, -1.0], [-2.0, -0.0, 0.0, -2.0]])
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for one, other in zip(model(x), session.run(None, {"x": x}), strict=True):
        assert one.dtype == "int64"
        np.testing.assert_array_equal(one, other)


def test_no_layer_turns_an_image_between_a_convolution_and_its_bounds():
    rng = np.random.default_rng(0)
    weights = [(name, rng.normal(size=(3, 3, 1, 1)).astype(np.float32)) for name in ("v", "w")]
    weights += [("low", np.float32(0)), ("high", np.float32(1.5))]
    text = "g (float[N,3,4,4] x) => (float[N,3,4,4] y) { a = Conv(x, v)\n b = Clip(a, low, high)\n y = Conv(b, w) }"
    model, proto = built(text, weights)
    assert kinds(model).count("Permute") == 2  # of the input and the output
    x = rng.normal(size=(2, 3, 4, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    np.testing.assert_allclose(model(x), session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "shape", "options"),
    [
        ("Dense", (None, 5), {"units": 3}),
        ("Dense", (None, 5), {"units": 3, "use_bias": False}),
        ("Conv2D", (None, 8, 8, 4), {"filters": 6, "kernel_size": 3, "groups": 2}),
        ("DepthwiseConv2D", (None, 8, 8, 4), {"kernel_size": 3, "depth_multiplier": 2}),
        ("Conv2DTranspose", (None, 8, 8, 4), {"filters": 6, "kernel_size": 3}),
        ("BatchNormalization", (None, 8, 8, 4), {}),
        ("LayerNormalization", (None, 4), {}),
        ("Embedding", (None,), {"input_dim": 7, "output_dim": 3}),
        ("LSTM", (None, 6, 4), {"units": 3}),
    ],
)
def test_layers_are_built_with_their_weights(kind, shape, options):
    import keras

    from onnxport.opset_maps.from_onnx.keras.recognised import build_with

    plain = getattr(keras.layers, kind)(**options, name="layer")
    plain.build(shape)
    rng = np.random.default_rng(0)
    arrays = [rng.random(item.shape).astype(item.dtype) for item in plain.weights]
    layer = getattr(keras.layers, kind)(**options, name="layer")
    build_with(layer, shape, arrays)
    assert all(np.array_equal(a, b) for a, b in zip(layer.get_weights(), arrays, strict=True))
    assert [(item.path, item.trainable) for item in layer.weights] == [
        (item.path, item.trainable) for item in plain.weights
    ]
    assert layer.get_config() == plain.get_config()


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_quotients_of_the_least_integers(dtype):
    """Toward zero; the least integer, whose magnitude the type does not hold, among both operands."""
    info = np.iinfo(dtype)
    few = np.array(sorted({info.min, info.min + 1, 0, 1, 2, 3, 7, 21, info.max - 1, info.max}), dtype)
    a, b = (item.ravel() for item in np.meshgrid(few, few))
    some = b != 0
    a, b = a[some], b[some]
    expected = np.array([int(Fraction(int(x), int(y))) for x, y in zip(a, b, strict=True)], dtype)
    x, y = keras.Input((), dtype=dtype), keras.Input((), dtype=dtype)
    np.testing.assert_array_equal(keras.Model([x, y], quotient(x, y, dtype))([a, b]), expected)
    for least in (few[0], few[-1]):
        np.testing.assert_array_equal(keras.Model(x, quotient(x, least, dtype))(a[b == least]), expected[b == least])
        np.testing.assert_array_equal(keras.Model(y, quotient(least, y, dtype))(b[a == least]), expected[a == least])


def test_a_scalar_without_axes_is_permuted():
    model, _ = built(
        "turned (float[2] x) => (double y, float[2] z) {t = Transpose (c) y = Floor (t) z = Neg (x)}",
        [("c", np.array(-0.37))],
    )
    assert [np.asarray(item).tolist() for item in model(np.float32([1, 2]))] == [-1.0, [-1.0, -2.0]]
