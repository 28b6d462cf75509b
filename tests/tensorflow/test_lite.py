"""TFLite files, proved against TensorFlow's own interpreter of them."""

import warnings

import flatbuffers
import numpy as np
import onnx_ir as ir
import pytest
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

import onnxport
from onnxport.errors import InvalidInputError, InvalidModelError, UnsupportedOperator
from onnxport.tracing.tensorflow import load
from tests.tensorflow.lite_files import function_of, written

pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(0)


def weights(*shape):
    """A weight of a model."""
    return tf.constant(RNG.normal(size=shape).astype(np.float32))


KERNEL, DEPTHWISE, DENSE = weights(3, 3, 3, 4), weights(3, 2, 4, 2), weights(8, 5)


def network(x):
    """What image classifiers consist of: convolutions, windows, a mean and a product."""
    x = tf.nn.relu6(tf.nn.conv2d(x, KERNEL, 2, "SAME") + tf.constant([0.1, -0.2, 0.3, 0.4]))
    x = tf.nn.relu(tf.nn.depthwise_conv2d(x, DEPTHWISE, [1, 1, 1, 1], "VALID"))
    x = tf.nn.max_pool2d(x, 2, 1, "SAME") + tf.nn.avg_pool2d(x, 3, 1, "SAME")
    return tf.nn.softmax(tf.reduce_mean(x, [1, 2]) @ DENSE)


def passed(model, **options):
    """The converted model; its proof, which runs the interpreter, passed without notes on numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = onnxport.convert(model, **options)
    assert result.report.passed, str(result.report)
    assert result.report.source.runtime == "tf.lite.Interpreter"
    return result


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return written(tmp_path_factory.mktemp("lite") / "c.tflite", function_of(network, [None, 9, 8, 3]))


def test_an_image_classifier(classifier):
    result = passed(classifier)
    nodes = [node.op_type for node in result.model.graph]
    assert nodes.count("Transpose") == 1  # of the images
    assert [str(dim) for dim in result.model.graph.inputs[0].shape] == ["batch", "9", "8", "3"]
    names = {name for name, value in result.model.graph.initializers.items() if value.const_value.size > 1}
    tensors = {tensor.name for tensor in load(classifier).graph(0).tensors}
    assert len(names & tensors) >= 4, names  # weights keep their names


def whole(converter, shape=(1, 9, 8, 3)):
    """Whole numbers inside, ranges from a few images."""
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    images = np.random.default_rng(1).normal(size=(4, *shape)).astype(np.float32)
    converter.representative_dataset = lambda: ([image] for image in images)


def whole_outside(kind):
    """Whole numbers inside and at the boundary."""

    def setup(converter):
        whole(converter)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = kind

    return setup


def hybrid(converter):
    """Weights alone of 8 bits; TensorFlow leaves small ones as they are."""
    converter.optimizations = [tf.lite.Optimize.DEFAULT]


def half(converter):
    """Weights of 16 bits."""
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = [tf.float16]


@pytest.mark.parametrize(
    "setup",
    [whole, whole_outside(tf.int8), whole_outside(tf.uint8), half],
    ids="int8 int8-outside uint8-outside half".split(),
)
def test_quantised_classifiers(tmp_path, setup):
    result = passed(written(tmp_path / "q.tflite", function_of(network, [None, 9, 8, 3]), setup=setup))
    if setup is not half:  # each convolution reads and gives whole numbers, by which runtimes know it as quantised
        for node in result.model.graph:
            if node.op_type == "Conv":
                makers = [value.producer().op_type for value in node.inputs if value.producer() is not None]
                assert makers.count("DequantizeLinear") in (0, 3)  # a mean of windows may be a convolution too


@pytest.mark.parametrize("setup", [whole_outside(tf.int8), half], ids="int8 half".split())
def test_quantised_files_in_real_numbers(run, tmp_path, setup):
    """As the alias of tf2onnx spells it; the interpreter runs the file without its steps, near to what it runs with them."""
    path = written(tmp_path / "q.tflite", function_of(network, [None, 9, 8, 3]), setup=setup)
    done = run("tf2onnx", "--tflite", "q.tflite", "--dequantize", "--output", "q.onnx")
    assert (done.code, done.err) == (0, "")
    assert "note: the file's quantised numbers stand as the real ones" in done.out
    model = onnxport.OnnxModel.load("q.onnx")
    assert {"QuantizeLinear", "DequantizeLinear", "Cast"}.isdisjoint(node.op_type for node in model.model.graph)
    image = np.random.default_rng(2).normal(size=(1, 9, 8, 3)).astype(np.float32)
    np.testing.assert_allclose(model(image), network(tf.constant(image)), atol=0.02)
    with pytest.raises(InvalidInputError, match="the weights are float32 already"):
        onnxport.convert(written(path, function_of(network, [1, 9, 8, 3])), dtype="float32")


def test_a_wrong_zero_point_fails(tmp_path):
    path = written(tmp_path / "q.tflite", function_of(network, [None, 9, 8, 3]), setup=whole_outside(tf.int8))
    result = onnxport.convert(path, validate=False)
    node = next(
        node for node in result.model.graph if node.op_type == "QuantizeLinear" and node.outputs[0].is_graph_output()
    )
    zero = node.inputs[2]
    zero.const_value = ir.tensor(zero.const_value.numpy() + np.int8(1))
    node.replace_input_with(2, zero)
    assert onnxport.validate(path, result).verdict == "failed"


@pytest.mark.parametrize(
    "body",
    [
        lambda x: tf.transpose(x, [0, 2, 1, 3]),
        lambda x: tf.nn.avg_pool2d(x, 2, 1, "SAME"),
        lambda x: tf.concat([x, tf.sigmoid(x) * 0.5], 3) - 0.25,
        lambda x: tf.pad(x, [[0, 0], [1, 1], [0, 2], [0, 0]]),
    ],
    ids="transposed mean-of-windows concatenated padded".split(),
)
def test_quantised_operators(tmp_path, body):
    passed(written(tmp_path / "q.tflite", function_of(body, [1, 9, 8, 3]), setup=whole_outside(tf.int8)))


def changed(source, path, change):
    """A file with a change of what it holds."""
    content = schema.ModelT.InitFromPackedBuf(source.read_bytes(), 0)
    change(content)
    builder = flatbuffers.Builder(1024)
    builder.Finish(content.Pack(builder), file_identifier=b"TFL3")
    path.write_bytes(builder.Output())
    return path


def test_the_greater_of_whole_numbers_is_exact_and_of_other_scales_refused(tmp_path):
    """TFLite's kernels take the greater whole number, whatever the scales are."""

    def scaled(model):
        graph = model.subgraphs[0]
        (node,) = graph.operators
        steps = graph.tensors[node.inputs[0]].quantization
        steps.scale = [steps.scale[0] * 1.01]

    bound = tf.constant(RNG.normal(size=(9, 8, 3)).astype(np.float32))
    body = function_of(lambda x: tf.maximum(x, bound), [1, 9, 8, 3])
    path = written(tmp_path / "q.tflite", body, setup=whole_outside(tf.int8))
    assert [node.op_type for node in passed(path).model.graph] == ["Max"]
    with pytest.raises(UnsupportedOperator, match="MAXIMUM .*: its quantised operands and results have other scales"):
        onnxport.convert(changed(path, tmp_path / "u.tflite", scaled))


def test_quantised_operators_that_are_refused(tmp_path):
    path = written(tmp_path / "q.tflite", function_of(lambda x: x / (x * x + 1.0), [1, 9, 8, 3]), setup=whole)
    with pytest.raises(
        UnsupportedOperator, match="DIV .*: on quantised numbers it has no form whose numbers are proved"
    ):
        onnxport.convert(path)


def test_hybrid_products_round_their_input_as_the_interpreter_does(tmp_path):
    matrix, kernel = weights(48, 24), weights(3, 3, 8, 16)
    dense = written(tmp_path / "d.tflite", function_of(lambda x: x @ matrix, [None, 48]), setup=hybrid)
    windows = function_of(lambda x: tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME")), [None, 5, 6, 8])
    for path in (dense, written(tmp_path / "c.tflite", windows, setup=hybrid)):
        assert "INT8" in {value.dtype.name for value in passed(path).model.graph.initializers.values()}


def test_to_another_framework(classifier):
    net = onnxport.convert(classifier, to="tensorflow")
    assert net.onnxport_report.passed


@pytest.mark.parametrize(
    ("body", "shapes", "dtypes"),
    [
        (lambda x, y: tf.concat([x * 2.0, y], 1) / 3.0, ([None, 3], [None, 2]), ()),
        (lambda x: tf.strided_slice(x, [0, 5], [4, 0], [2, -2]), ([4, 6],), ()),
        (lambda x: tf.split(x, [1, 3, 2], 1), ([2, 6],), ()),
        (lambda x: tf.image.resize(x, [7, 5]), ([1, 3, 4, 2],), ()),
        (lambda x: tf.nn.conv2d_transpose(x, KERNEL, [1, 9, 8, 3], 2, "SAME"), ([1, 5, 4, 4],), ()),
        (lambda x, i: tf.gather(x, i, axis=1), ([3, 5], [4]), (tf.float32, tf.int32)),
        (lambda x: tf.nn.gelu(tf.nn.leaky_relu(x, 0.3)) + tf.nn.l2_normalize(x, -1), ([3, 5],), ()),
        (lambda x: tf.math.top_k(x, 2), ([3, 5],), ()),
        (lambda x: tf.cond(tf.reduce_sum(x) > 0.0, lambda: x + 1.0, lambda: x * 2.0), ([3],), ()),
        (lambda x: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 1.5 + 1.0), [0, x])[1], ([2, 3],), ()),
    ],
    ids="broadcast slice split resize transposed gather activations top_k branches loop".split(),
)
def test_operators(tmp_path, body, shapes, dtypes):
    passed(written(tmp_path / "m.tflite", function_of(body, *shapes, dtypes=dtypes)))


@pytest.mark.keras
def test_a_recurrent_layer_that_writes_its_steps_into_one_tensor(tmp_path):
    """Its loop declares a shape that TensorFlow does not infer through slices of dynamic sizes."""
    import keras

    gru = keras.layers.Bidirectional(keras.layers.GRU(4, return_sequences=True))
    model = keras.Sequential([keras.Input((7, 5), batch_size=1), gru])
    (tmp_path / "m.tflite").write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    passed(str(tmp_path / "m.tflite"))


def test_damaged_files_are_refused(tmp_path, classifier):
    data = classifier.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for number in range(60):
        changed = bytearray(data[: len(data) - number * 7 if number % 3 == 0 else None])
        for place in rng.integers(0, len(changed), 4):
            changed[place] = rng.integers(256)
        path = tmp_path / "d.tflite"
        path.write_bytes(changed)
        try:
            onnxport.convert(path, validate=False)
        except (InvalidModelError, UnsupportedOperator):
            refused += 1
    assert refused > 20


def _vast(model):
    model.subgraphs[0].tensors[model.subgraphs[0].operators[0].outputs[0]].shape = [1, 40_000, 40_000]


def _without_results(model):
    model.subgraphs[0].operators[0].outputs = []


def _of_another_version(model):
    model.version = 7


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_vast, "more than 268,435,456 elements"),
        (_without_results, "CONV_2D"),
        (_of_another_version, "interpreter does not take the file: Model provided is schema version 7"),
    ],
)
def test_what_the_interpreter_can_not_bear_is_refused_by_name(tmp_path, classifier, change, says):
    with pytest.raises(InvalidModelError, match=says):
        onnxport.convert(changed(classifier, tmp_path / "h.tflite", change))


def test_a_signature_that_is_not_there(classifier):
    with pytest.raises(InvalidInputError, match="signature='other': the TFLite file has serving_default"):
        onnxport.convert(classifier, signature="other")


def test_several_signatures(tmp_path):
    module = tf.Module()
    module.one = function_of(lambda x: {"twice": x * 2.0}, [2])
    module.two = function_of(lambda x: {"less": x - 1.0, "more": x + 1.0}, [None, 3])
    signatures = {"one": module.one.get_concrete_function(), "two": module.two.get_concrete_function()}
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=signatures)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "saved"), signature_keys=["one", "two"])
    (tmp_path / "m.tflite").write_bytes(converter.convert())
    result = passed(tmp_path / "m.tflite", signature="two")
    assert [value.name for value in result.model.graph.outputs] == ["less", "more"]
    assert [value.name for value in result.model.graph.inputs] == ["x0"]


@pytest.mark.parametrize(
    "setup", [lambda converter: None, lambda converter: whole(converter, (2, 8, 8, 8))], ids=["real", "whole"]
)
def test_inner_values_where_channels_are_as_many_as_rows(tmp_path, setup):
    """The file has channels last, the graph second, of equal sizes; whole numbers between two steps go either way."""
    kernels = [1e-7 * weights(3, 3, 8, 8) for _ in range(2)]

    def body(x):
        for kernel in kernels:
            x = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME"))
        return tf.reduce_mean(x, [1, 2]) @ weights(8, 4) + 1.0

    report = onnxport.convert(written(tmp_path / "still.tflite", function_of(body, (2, 8, 8, 8)), setup=setup)).report
    assert report.verdict == "passed", report
    assert any("inner values were compared too, and agree" in note for note in report.notes), report


def test_inner_means_of_whole_numbers_lie_a_step_apart(tmp_path):
    """TFLite's own kernel of a mean rounds otherwise than XNNPACK's, by which the outputs are compared."""
    kernel, dense = weights(3, 3, 3, 64), 1e-7 * weights(64, 4)

    def body(x):
        x = tf.nn.relu6(tf.nn.conv2d(x, kernel, 1, "SAME") + 3.0)
        return tf.reshape(tf.reduce_mean(x, [1, 2], keepdims=True), [-1, 64]) @ dense + 1.0

    setup = whole_outside(tf.float32)
    report = onnxport.convert(written(tmp_path / "mean.tflite", function_of(body, [1, 9, 8, 3]), setup=setup)).report
    assert report.verdict == "passed", report
    assert any("inner values were compared too, and agree" in note for note in report.notes), report


def test_a_softmax_of_small_steps_does_not_end_the_process(tmp_path):
    """TFLite's reference kernel aborts there."""
    from onnxport.validation.runners.base import Example
    from onnxport.validation.runners.tensorflow_lite import LiteRunner

    small = 1e-9 * weights(216, 5)

    def scores(by, name):
        body = function_of(lambda x: tf.nn.softmax(tf.reshape(x, [1, 216]) @ by), [1, 9, 8, 3])
        return load(written(tmp_path / name, body, setup=whole_outside(tf.float32)))

    usual, odd = scores(1e9 * small, "usual.tflite"), scores(small, "odd.tflite")
    assert odd.ends_reference_kernels
    assert not usual.ends_reference_kernels
    image = np.ones((1, 9, 8, 3), np.float32)
    runner = LiteRunner(odd, None, Example(("x0",), (image,)))
    ((_, result),) = runner.run_moved((image,), 1, seed=1)
    np.testing.assert_allclose(result, np.full((1, 5), 0.2), atol=0.01)
