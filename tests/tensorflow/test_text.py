"""Strings read by their characters: what hashes them, and where no runtime could."""

import numpy as np
import pytest
import tensorflow as tf
from onnx import TensorProto, helper

import onnxport
from onnxport.errors import InvalidModelError, UnsupportedOperator

pytestmark = pytest.mark.tensorflow

WORDS = tf.constant(["a", "\u00e9t\u00e9 \u6f22\U0001f600", ""])


def test_what_reads_characters_is_refused_for_the_reference_evaluator_and_noted_for_onnxruntime():
    with pytest.raises(UnsupportedOperator, match="Tokenizer of com.microsoft.*reference evaluator lacks it"):
        onnxport.convert(tf.strings.length, inputs=(WORDS,), runtime="reference")
    report = onnxport.convert(tf.strings.length, inputs=(WORDS,)).report
    assert report.verdict == "passed"
    assert any("Tokenizer of com.microsoft" in note for note in report.notes)


def test_a_file_that_builds_characters_of_bytes_is_read_again(run, tmp_path):
    """Its tables hold single bytes, which are no text: onnxruntime takes them, an importer refuses them by name."""
    model = onnxport.convert(tf.strings.length, inputs=(WORDS,), output=tmp_path / "m.onnx", validate=False)
    assert onnxport.validate(tf.strings.length, tmp_path / "m.onnx", inputs=(WORDS,)).passed
    assert run("diff", "m.onnx", "m.onnx", "--no-numbers").code == 0
    text = next(item for item in model.proto.graph.initializer if b"\x80" in item.string_data)
    node = helper.make_node("StringConcat", ["x", text.name], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.STRING, [None]) for name in "xy"]
    graph = helper.make_graph([node], "joined", ends[:1], ends[1:], [text])
    with pytest.raises(InvalidModelError, match=r"the string b'.x80' is not UTF-8"):
        onnxport.convert(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), to="tensorflow")


def test_every_character_of_unicode_is_read_and_written():
    points = np.array([point for point in range(1, 0x110000, 977) if not 0xD800 <= point < 0xE000], np.int32)
    words = tf.strings.unicode_encode(points[:, None], "UTF-8")
    read = onnxport.convert(lambda x: tf.strings.unicode_decode(x, "UTF-8").values, inputs=(words,), validate=False)
    assert np.array_equal(read(words.numpy()), points)
    column = tf.constant(points[:, None])
    written = onnxport.convert(lambda x: tf.strings.unicode_encode(x, "UTF-8"), inputs=(column,), validate=False)
    assert [word.encode() for word in written(points[:, None])] == list(words.numpy())


def test_integers_are_hashed_without_strings():
    few = tf.constant([4, -7], tf.int64)
    model = onnxport.convert(lambda x: tf.strings.to_hash_bucket_fast(tf.as_string(x), 99), inputs=(few,))
    assert not any(node.domain for node in model.model.graph.all_nodes())
    extremes = np.array([-(2**63), 2**63 - 1, 0, -1, 10**18, 10**18 - 1])
    assert np.array_equal(model(extremes), tf.strings.to_hash_bucket_fast(tf.as_string(extremes), 99))


def test_what_stands_before_the_model_is_refused_with_the_way_out():
    def served(x):
        parsed = tf.io.parse_example(x, {"a": tf.io.FixedLenFeature([2], tf.float32)})["a"]
        return parsed, tf.io.decode_png(x[0]), tf.py_function(lambda text: text, [x], tf.string)

    with pytest.raises(UnsupportedOperator) as refused:
        onnxport.convert(served, inputs=(WORDS,), validate=False)
    reasons = {item.op: item.reason for item in refused.value.operators}
    assert "convert a function of the parsed features" in reasons["ParseExampleV2"]
    assert "convert a function of the decoded picture" in reasons["DecodePng"]
    assert "write it in TensorFlow's operators" in reasons["EagerPyFunc"]
    assert "register_to_onnx" not in str(refused.value)  # there is nothing that a mapping would help


def test_a_pruned_graph_of_tensorflow_1_converts_from_the_parsed_features_on(tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        records = v1.placeholder(tf.string, [None], name="records")
        parsed = tf.io.parse_example(records, {"a": tf.io.FixedLenFeature([2], tf.float32)})["a"]
        y = tf.multiply(parsed, 3.0, name="y")
        v1.saved_model.simple_save(session, str(tmp_path / "m"), {"records": records}, {"y": y})
    part = tf.saved_model.load(str(tmp_path / "m")).prune(parsed.name, y.name)
    assert onnxport.convert(part, inputs=(np.ones((3, 2), np.float32),)).report.verdict == "passed"


def test_sparse_and_nested_inputs_of_a_signature_are_given_as_they_are(tmp_path):
    module = tf.Module()
    specs = [tf.SparseTensorSpec([None, 3], tf.float32), {"w": tf.TensorSpec([3, 2])}]
    module.f = tf.function(lambda s, d: tf.sparse.sparse_dense_matmul(s, d["w"]), input_signature=specs)
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.f)
    rows = tf.sparse.from_dense([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    model = onnxport.convert(str(tmp_path / "m"), inputs={"s": rows, "d": {"w": np.ones((3, 2), np.float32)}})
    assert sorted(model.input_names) == ["d", "s", "s_1", "s_2"]
    assert model.report.verdict == "passed"
