"""Text: scikit-learn's own tokens on documents of any ordinary characters; others end in an error, not in wrong tokens."""

import re

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

import onnx_ir as ir  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from sklearn.decomposition import TruncatedSVD  # noqa: E402
from sklearn.feature_extraction.text import (  # noqa: E402
    CountVectorizer,
    HashingVectorizer,
    TfidfVectorizer,
    strip_accents_ascii,
    strip_accents_unicode,
)
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier  # noqa: E402
from sklearn.naive_bayes import ComplementNB, MultinomialNB  # noqa: E402
from sklearn.pipeline import make_pipeline, make_union  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, Normalizer  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402

import onnxport  # noqa: E402
from onnxport.errors import InvalidInputError  # noqa: E402
from onnxport.graph.builder import OpBuilder  # noqa: E402
from onnxport.opset_maps.lowerings.cutting import apart  # noqa: E402
from onnxport.opset_maps.to_onnx.sklearn.text.letters import by_frequency, letters  # noqa: E402
from onnxport.opset_maps.to_onnx.sklearn.text.token_patterns import token_rule  # noqa: E402

LEARNED = [
    "Straße ΑΒΓ café naïve über ångström kilo",
    "the quick brown fox jumps over_the lazy dog 42 ²³",
    "don't re-read: it's a test (of course) of x2 and 3d",
]


@pytest.fixture(scope="module")
def counting():
    model = CountVectorizer(ngram_range=(1, 2)).fit(LEARNED)
    return model, onnxport.convert(model, inputs=LEARNED, validate=False)


WORDS = sorted(
    {word for text in LEARNED for word in text.split()} | {"CAFÉ", "STRASSE", "αβγ", "\u212bngström", "\u212ailo", "İt"}
)
# what is no part of a word, emoji and lone accents among it
BREAKS = st.text(st.characters(exclude_categories=("Cs", "L", "N", "Cn", "Co"), exclude_characters="_"), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(WORDS), BREAKS), max_size=8))
@settings(max_examples=150, deadline=None)
def test_the_tokens_are_scikit_learns(counting, parts):
    model, converted = counting
    text = "".join(word + gap for word, gap in parts)
    np.testing.assert_array_equal(
        converted(np.array([text, "the dog"], object)), model.transform([text, "the dog"]).toarray()
    )


def test_what_stands_between_words_may_be_anything(counting):
    model, converted = counting
    texts = ["the\U0001f600dog", "quick\u2192brown\U0001f44d\U0001f3fd fox", "e\u0301 dog", "\u4e16\u754c, lazy dog"]
    np.testing.assert_array_equal(converted(texts), model.transform(texts).toarray())


def test_words_of_unknown_letters_beside_other_signs_are_an_error(counting):
    _, converted = counting
    with pytest.raises(InvalidInputError, match="can_not_split_at"):
        converted(np.array(["the \u4e16\U0001f600 dog"], object))


def test_a_classifier_of_text_converts_whole():
    texts = [f"{word} {i}" for i in range(20) for word in ("good film", "Bad, bad film!")]
    labels = ["yes", "no"] * 20
    model = make_pipeline(TfidfVectorizer(sublinear_tf=True, stop_words="english"), LogisticRegression()).fit(
        texts, labels
    )
    converted = onnxport.convert(model, inputs=texts[:4])
    assert converted.report.passed
    label, probabilities = converted(np.array(texts, object))
    assert label.tolist() == model.predict(texts).tolist()
    np.testing.assert_allclose(probabilities, model.predict_proba(texts), rtol=1e-9)


@pytest.mark.parametrize("model", [CountVectorizer(), make_pipeline(CountVectorizer(), LogisticRegression())], ids=str)
def test_a_table_of_documents_is_refused_with_the_way_out(model):
    pd = pytest.importorskip("pandas", reason="pandas comes with the extra sklearn")
    frame = pd.DataFrame({"said": ["good film", "bad film"]})
    with pytest.raises(InvalidInputError, match=r"frame\['said'\].*documents.txt"):
        onnxport.convert(model.fit(frame["said"], [1, 0]), inputs=frame)
    assert onnxport.convert(model, inputs=frame["said"]).report.passed


ANALYZERS = [
    {"analyzer": "char", "ngram_range": (1, 3)},
    {"analyzer": "char", "lowercase": False, "ngram_range": (2, 2)},
    {"analyzer": "char_wb", "ngram_range": (2, 4)},
    {"analyzer": "char_wb", "ngram_range": (5, 6), "strip_accents": "unicode"},
    {"strip_accents": "unicode", "ngram_range": (1, 2)},
    {"strip_accents": "ascii", "lowercase": False},
    {"token_pattern": r"\S+", "ngram_range": (1, 2)},
    {"token_pattern": r"[^\s,]+", "binary": True},
    {"token_pattern": r"(?u)\b\w{3,}\b", "stop_words": ["the", "cafe"], "ngram_range": (1, 2)},
    {"vocabulary": ["fox", "a", "the", "never fox"], "stop_words": ["the"]},
    # functions that say what other arguments say too
    {"tokenizer": str.split, "token_pattern": None, "ngram_range": (1, 2), "stop_words": ["the"]},
    {"analyzer": str.split},
    {"analyzer": "char_wb", "ngram_range": (2, 3), "preprocessor": str.lower},
    {"strip_accents": strip_accents_unicode, "ngram_range": (1, 2)},
    {"preprocessor": strip_accents_ascii},
]
# no letters here that these graphs ask for and do not know: those are the guard's, above
LETTERS = st.text(st.sampled_from("aAbeéÉxyz  \t\n\u00a0\u2003'-,.!_0129ßÅå…œàüñ(ﬁ™€“”—½e\u0301"), max_size=40)
ASCII = st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=40)


def title(options):
    return ", ".join(f"{key}={getattr(value, '__name__', value)}" for key, value in options.items())


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("options", ANALYZERS, ids=title)
def test_every_analyzer_gives_scikit_learns_terms(options):
    model = CountVectorizer(**options).fit([*LEARNED, "ab a x  yz", "Tab\tand\n\nbreaks"])
    converted = onnxport.convert(model, inputs=LEARNED, validate=False)
    accents = options.get("strip_accents") or options.get("analyzer") or (options.get("token_pattern") or "").count("s")

    @given(st.lists(LETTERS if accents else ASCII, min_size=1, max_size=5))
    @settings(max_examples=30, deadline=None)
    def check(texts):
        np.testing.assert_array_equal(converted(np.array(texts, object)), model.transform(texts).toarray())

    check()


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"[a-z]{2,}", r"\b[a-zA-Z]\w+\b", r"[^\W\d_]+", r"\b(\w+)\b", r"[\w'-]+", r"\b\w{2,5}\b"),
        *(r"(?:\w+)", r"(?u)(?:\b[a-z]\w+\b)", r"\b(?:\w{2,})\b"),
    ],
)
@given(text=ASCII)
@settings(max_examples=30, deadline=None)
def test_token_patterns_find_scikit_learns_tokens(pattern, text):
    rule = token_rule(pattern)
    runs = "".join(c if rule.is_inside(c) else " " for c in text).split(" ")
    assert [run for run in runs if re.fullmatch(rule.whole, run)] == re.findall(pattern, text)


@pytest.mark.parametrize(
    "options",
    [
        {"strip_accents": str.upper},
        {"preprocessor": str.upper},
        {"token_pattern": "[a-z]+[0-9]?"},
        {"token_pattern": r"\w+|[!?]"},
        {"tokenizer": str.splitlines, "token_pattern": None},
        {"analyzer": str.splitlines},
    ],
)
def test_what_onnx_can_not_say_is_refused_by_the_arguments_name(options):
    model = CountVectorizer(**options).fit(LEARNED)
    with pytest.raises(onnxport.UnsupportedOperator, match=next(iter(options))):
        onnxport.convert(model, inputs=LEARNED, validate=False)


@pytest.mark.parametrize(
    "model",
    [
        TfidfVectorizer(dtype=np.float32),
        TfidfVectorizer(dtype=np.float32, norm="l1", use_idf=False),
        make_pipeline(CountVectorizer(dtype=np.float32), Normalizer()),
        make_pipeline(CountVectorizer(dtype=np.float32), Normalizer("l1")),
    ],
    ids=str,
)
def test_terms_in_float32_are_normalized_as_scikit_learn_does(model):
    texts = [f"{text} {' fox' * i} {text}" for text in LEARNED for i in range(20)]
    converted = onnxport.convert(model.fit(texts), inputs=texts)
    np.testing.assert_array_equal(converted(texts), model.transform(texts).toarray())


def test_made_dense_zeros_are_no_missing_values():
    xgboost = pytest.importorskip("xgboost", reason="each of scikit-learn's neighbours is an extra")
    texts, labels = [f"{text} {i}" for i in range(10, 20) for text in LEARNED], [0, 1, 2] * 10
    dense = FunctionTransformer(lambda x: x.toarray(), accept_sparse=True)
    model = make_pipeline(CountVectorizer(), dense, xgboost.XGBClassifier(n_estimators=5)).fit(texts, labels)
    converted = onnxport.convert(model, inputs=texts)
    assert converted(texts)[0].tolist() == model.predict(texts).tolist()


@pytest.mark.parametrize("estimator", [MultinomialNB(), ComplementNB()], ids=str)
@pytest.mark.parametrize("vectorizer", [CountVectorizer, TfidfVectorizer])
def test_probabilities_of_long_documents_characters_pass(vectorizer, estimator):
    """Their logarithms are sums of a thousand terms: what rounding moves there is seen in the graph."""
    words, rng = " ".join(LEARNED).split(), np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, 60)) for _ in range(60)]
    model = make_pipeline(vectorizer(analyzer="char", ngram_range=(1, 3)), estimator).fit(texts, np.arange(60) % 3)
    assert onnxport.convert(model, inputs=texts, methods=["predict_proba", "predict_log_proba"]).report.passed


GROUPS = ["ab-", "\u00e9 ", "xyz"]


@pytest.fixture(scope="module")
def cutting():
    onnxruntime = pytest.importorskip("onnxruntime", reason="the graph is run by onnxruntime")
    op = OpBuilder(21)
    cells = apart(op, op.input("x", ir.DataType.STRING, ["n"]), GROUPS)
    graph = op.graph(
        [cells.strings, cells.rows, cells.in_rows(op, cells.strings, op.const(np.array("", object)))],
        name="g",
        output_names=["cells", "rows", "laid"],
    )
    file = ir.serde.serialize_model(ir.Model(graph, ir_version=10)).SerializeToString()
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])


@given(st.lists(st.text(st.sampled_from("ab-\u00e9 xyzqw\ufdef\U0001f600"), max_size=12), min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_strings_are_cut_at_every_character_in_their_order(cutting, texts):
    cells, rows, laid = cutting.run(None, {"x": np.array(texts, object)})
    expected = [[piece for piece in re.split(f"([{re.escape(''.join(GROUPS))}])", text) if piece] for text in texts]
    assert cells.tolist() == [piece for row in expected for piece in row]
    assert rows.tolist() == [i for i, row in enumerate(expected) for _ in row]
    assert [[piece for piece in row if piece] for row in laid.tolist()] == expected


# more than a block of numbers has: the last ones are cut apart
KNOWN = by_frequency("abcdefghijklmnopqrstuvwxyz 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_\u00e9\u0436-")


@pytest.fixture(scope="module")
def spelling():
    onnxruntime = pytest.importorskip("onnxruntime", reason="the graph is run by onnxruntime")
    op = OpBuilder(21)
    result = letters(op, op.input("x", ir.DataType.STRING, ["n"]), KNOWN)
    graph = op.graph([result], name="g", output_names=["found"])
    file = ir.serde.serialize_model(ir.Model(graph, ir_version=10)).SerializeToString()
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])


@given(st.lists(st.text(st.sampled_from(KNOWN + "?\U0001f600"), max_size=40), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_words_are_spelled_as_the_numbers_of_their_characters(spelling, words):
    (result,) = spelling.run(None, {"x": np.array(words, object)})
    for word, row in zip(words, result.tolist(), strict=True):
        runs = re.findall(f"[{re.escape(KNOWN)}]|[^{re.escape(KNOWN)}]+", word)
        expected = [KNOWN.find(run) + 1 if run in KNOWN else len(KNOWN) + 1 for run in runs]
        assert row == expected + [0] * (len(row) - len(expected))


HASHED = [
    {"token_pattern": "[a-z]+", "strip_accents": "ascii"},
    {"ngram_range": (1, 2), "binary": True, "stop_words": ["the"]},
    {"analyzer": "char", "ngram_range": (2, 3), "norm": "l1"},
    {"analyzer": "char_wb", "ngram_range": (4, 5), "alternate_sign": False, "norm": None},
]


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("options", HASHED, ids=str)
def test_hashed_terms_fall_in_scikit_learns_columns(options):
    model = HashingVectorizer(n_features=100, **options)
    texts = [
        *LEARNED[1:],
        "caf\u00e9 caf\u00e9!",
        "\u201c12 \u20ac\u201d \u2013 it\u2019s\u2026",
        "",
        "a",
        "Donaudampfschifffahrtsgesellschaft's 12-34",
    ]
    result = onnxport.convert(model, inputs=texts, validate=False)(np.array(texts, object))
    np.testing.assert_allclose(result, model.transform(texts).toarray(), rtol=1e-12)


def test_a_model_of_a_million_hashed_columns_makes_no_matrix_of_them():
    texts = ["good film, really", "a bad bad film", "so good!", "bad; boring"] * 5
    model = make_pipeline(HashingVectorizer(), LogisticRegression()).fit(texts, [1, 0, 1, 0] * 5)
    converted = onnxport.convert(model, inputs=texts, methods=["predict_proba"], validate=False)
    np.testing.assert_allclose(converted(np.array(texts, object)), model.predict_proba(texts), rtol=1e-9)
    assert "ConstantOfShape" not in {node.op_type for node in converted.model.graph.all_nodes()}


RNG = np.random.default_rng(0)
MANY = ["".join(RNG.choice(list("abcdefghijklmn\u00e9"), size=RNG.integers(1, 8))) for _ in range(9000)]
CORPUS = [" ".join(RNG.choice(MANY, size=60)) for _ in range(300)]
# repeated words, words apart by other signs, none at all, unknown ones
NEW = [CORPUS[0], f"{MANY[0]} {MANY[1]}, {MANY[0]}-{MANY[1]} {MANY[0]}!", "", "?!", "unknown words", CORPUS[7].upper()]
WIDE = [
    CountVectorizer(),
    CountVectorizer(binary=True, dtype=np.float32),
    CountVectorizer(dtype=np.int32),
    CountVectorizer(ngram_range=(1, 2), stop_words=MANY[:50]),
    CountVectorizer(ngram_range=(2, 2), strip_accents="unicode"),
    TfidfVectorizer(),
    TfidfVectorizer(norm="l1", sublinear_tf=True),
    TfidfVectorizer(norm=None, use_idf=False, binary=True, ngram_range=(1, 3)),
    TfidfVectorizer(dtype=np.float32, lowercase=False),
    make_union(TfidfVectorizer(), CountVectorizer()),
]


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("model", WIDE, ids=str)
def test_a_wide_vocabulary_gives_scikit_learns_matrix(model):
    model.fit(CORPUS)
    converted = onnxport.convert(model, inputs=NEW, validate=False)
    expected = model.transform(NEW).toarray()
    result = converted(np.array(NEW, object))
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-9 if expected.dtype != np.float32 else 1e-6)
    assert converted(np.array([], object)).shape == (0, expected.shape[1])


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (make_pipeline(TfidfVectorizer(), LogisticRegression()), "predict_proba"),
        (make_pipeline(TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)), LinearSVC()), "decision_function"),
        (make_pipeline(CountVectorizer(), MultinomialNB()), "predict_proba"),
        (make_pipeline(CountVectorizer(binary=True), ComplementNB()), "predict_proba"),
        (make_pipeline(TfidfVectorizer(), SGDClassifier(random_state=0)), "decision_function"),
        (make_pipeline(TfidfVectorizer(), Ridge()), "predict"),
        (make_pipeline(TfidfVectorizer(dtype=np.float32), Ridge()), "predict"),
        (make_pipeline(TfidfVectorizer(), MaxAbsScaler(), LogisticRegression()), "predict_proba"),
        (make_pipeline(TfidfVectorizer(), TruncatedSVD(5, random_state=0)), "transform"),
    ],
    ids=str,
)
def test_a_model_of_a_wide_vocabulary_gives_scikit_learns_numbers(model, method):
    model.fit(CORPUS, RNG.integers(0, 3, len(CORPUS)))
    converted = onnxport.convert(model, inputs=NEW, methods=[method], validate=False)
    result, expected = converted(np.array(NEW, object)), getattr(model, method)(NEW)
    np.testing.assert_allclose(result, expected, rtol=1e-9 if result.dtype == np.float64 else 1e-5, atol=1e-13)
    # a matrix of zeros is written only where something but a product reads it
    nodes = {node.op_type for node in converted.model.graph.all_nodes()}
    assert ("ConstantOfShape" in nodes) == any(isinstance(step, MaxAbsScaler) for _, step in model.steps)
