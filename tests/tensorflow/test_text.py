"""Strings read by their characters: what hashes them, and where no runtime could."""

import numpy as np
import pytest
import tensorflow as tf

import onnxport
from onnxport.errors import UnsupportedOperator

pytestmark = pytest.mark.tensorflow

WORDS = tf.constant(["a", "\u00e9t\u00e9 \u6f22\U0001f600", ""])


def test_what_reads_characters_is_refused_for_the_reference_evaluator_and_noted_for_onnxruntime():
    with pytest.raises(UnsupportedOperator, match="Tokenizer of com.microsoft.*reference evaluator lacks it"):
        onnxport.convert(tf.strings.length, inputs=(WORDS,), runtime="reference")
    report = onnxport.convert(tf.strings.length, inputs=(WORDS,)).report
    assert report.verdict == "passed"
    assert any("Tokenizer of com.microsoft" in note for note in report.notes)


def test_every_character_of_unicode_is_read_and_written():
    points = np.array([point for point in range(1, 0x110000, 977) if not 0xD800 <= point < 0xE000], np.int32)
    words = tf.strings.unicode_encode(points[:, None], "UTF-8")
    read = onnxport.convert(lambda x: tf.strings.unicode_decode(x, "UTF-8").values, inputs=(words,), validate=False)
    assert np.array_equal(read(words.numpy()), points)
    written = onnxport.convert(
        lambda x: tf.strings.unicode_encode(x, "UTF-8"), inputs=(points[:, None],), validate=False
    )
    assert [word.encode() for word in written(points[:, None])] == list(words.numpy())


def test_integers_are_hashed_without_strings():
    model = onnxport.convert(lambda x: tf.strings.to_hash_bucket_fast(tf.as_string(x), 99), inputs=(np.array([4, -7]),))
    assert not any(node.domain for node in model.model.graph.all_nodes())
    extremes = np.array([-(2**63), 2**63 - 1, 0, -1, 10**18, 10**18 - 1])
    assert np.array_equal(model(extremes), tf.strings.to_hash_bucket_fast(tf.as_string(extremes), 99))
