"""Every entry's cases: the method converted by its name, scikit-learn's own numbers, both precisions, zero rows."""

import numpy as np
import onnx
import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

import onnxport  # noqa: E402
from onnxport.converters.to_onnx.sklearn import export  # noqa: E402
from onnxport.converters.to_onnx.sklearn_outputs import VARIANTS  # noqa: E402
from onnxport.opset_maps.maps import sklearn as table  # noqa: E402
from onnxport.request import Request  # noqa: E402
from tests.evidence import require_equal  # noqa: E402
from tests.graph.written import moved_constants  # noqa: E402

OPSETS = (13, 17, 21, 26)
ROWS = [
    pytest.param(entry.name, entry.name.rpartition(".")[2], case, id=f"{entry.name}-{index}")
    for entry in {(entry.function, id(entry.cases)): entry for entry in table}.values()
    for index, case in enumerate(entry.cases)
]


def at_opsets():
    """An entry's first case always runs, at the default opset; of the others some, at one opset in turn; all with --every-row."""
    for position, row in enumerate(ROWS):
        for place, opset in enumerate(OPSETS):
            first = opset == 21 and row.id.endswith("-0")
            marks = [] if first else [pytest.mark.sampled(0.08 if place == position % len(OPSETS) else 0)]
            yield pytest.param(*row.values, opset, id=f"{row.id}-{opset}", marks=marks)


def test_every_entry_has_a_case():
    own = [entry for entry in table if entry.function.__module__.startswith("onnxport.opset_maps.")]
    assert [entry.name for entry in own if not entry.cases] == []


@pytest.mark.parametrize(("name", "method", "case", "opset"), list(at_opsets()))
def test_case(name, method, case, opset):
    model = case.call()
    if not hasattr(model, VARIANTS.get(method, method)):
        pytest.skip(f"this {type(model).__name__} has no {method}: its entry has another case that does")
    (rows,) = case.draw()
    if "Hist" in type(model).__name__ and opset < 21:
        rows = rows.astype(np.float32)
    request = Request(inputs=rows, methods=[method], target_opset=opset)
    if opset < case.min_opset:
        with pytest.raises(onnxport.UnsupportedOperator, match=r"ask for target_opset=21|needs opset 20"):
            export(model, request)
        return
    converted = export(model, request)
    onnx.checker.check_model(converted.proto, full_check=True)
    assert moved_constants(converted.model) == []
    more = [*rows, *rows[:1]] if isinstance(rows, list) else np.concatenate([rows, rows[:1]])
    for given in (rows, more):
        require_equal(model, converted, given, methods=[method])
    if isinstance(rows, list):
        return  # an empty list has no columns
    empty = converted(rows[:0])
    result = dict(zip(converted.output_names, empty if isinstance(empty, tuple) else [empty], strict=True))
    result.pop("decision_path_n_nodes_ptr", None)  # the same for any rows
    assert {len(item) for item in result.values()} == {0}


def test_labels_and_probabilities():
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier

    x, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(20, random_state=0).fit(x, y)
    converted = onnxport.convert(model, inputs=x)
    label, probabilities = converted(x)
    assert converted.output_names == ["label", "probabilities"]
    assert label.tolist() == model.predict(x).tolist()
    np.testing.assert_allclose(probabilities, model.predict_proba(x), rtol=1e-9)
    assert converted.report.passed


def test_all_that_is_unsupported_is_said_at_once():
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
    from sklearn.pipeline import make_pipeline

    class Mine(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            self.fitted_ = True
            return self

        def transform(self, X):
            return X[:, ::-1]

    class Yours(ClassifierMixin, Mine):
        classes_ = np.array([0, 1])

        def predict(self, X):
            return np.zeros(len(X), int)

    x = np.random.default_rng(0).normal(size=(30, 3))
    pipeline = make_pipeline(Mine(), Yours()).fit(x, x[:, 0] > 0)
    with pytest.raises(onnxport.UnsupportedOperator, match=r"(?s)Mine.*register_to_onnx") as error:
        onnxport.convert(pipeline, inputs=x)
    assert len(error.value.operators) >= 2


def test_an_entry_that_returns_nothing_is_named(monkeypatch):
    from sklearn.base import BaseEstimator, TransformerMixin

    from onnxport.errors import MapEntryError
    from onnxport.opset_maps.maps import sklearn as table

    class Silent(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            self.fitted_ = True
            return self

        def transform(self, X):
            return X

    assert table.find("Silent.transform") is None
    monkeypatch.setitem(table._entries, ("Silent.transform", False), None)  # taken away again afterwards
    onnxport.register_to_onnx("sklearn", "Silent.transform")(lambda op, model, x: None)
    with pytest.raises(MapEntryError, match=r"Silent\.transform returned None"):
        onnxport.convert(Silent().fit(np.ones((2, 2))), inputs=np.ones((2, 2)))


@pytest.mark.parametrize("columns", [None, ["a", "b"]])
def test_an_entry_of_ones_own_takes_a_table_as_it_takes_a_matrix(monkeypatch, columns):
    import pandas as pd
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.compose import make_column_transformer

    class Clipped(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            self.low_ = np.percentile(X, 10, axis=0)
            return self

        def transform(self, X):
            return np.maximum(np.asarray(X), self.low_)

    assert table.find("Clipped.transform") is None
    monkeypatch.setitem(table._entries, ("Clipped.transform", False), None)  # taken away again afterwards
    onnxport.register_to_onnx("sklearn", "Clipped.transform")(lambda op, model, x: op.Max(x, model.low_))
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=["a", "b", "c"]).assign(d=range(30))
    model = make_column_transformer((Clipped(), columns), remainder="drop") if columns else Clipped()
    converted = onnxport.convert(model.fit(frame), inputs=frame)
    np.testing.assert_array_equal(converted(frame), model.transform(frame))


def test_a_class_that_overrides_predict_alone_keeps_its_probabilities(monkeypatch):
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    class Careful(LogisticRegression):
        def predict(self, X):
            return (self.predict_proba(X)[:, 1] > 0.3).astype(int)

    rows, target = load_iris(return_X_y=True)
    model = Careful().fit(rows[50:], target[50:] - 1)
    with pytest.raises(onnxport.UnsupportedOperator, match=r"Careful\.predict: no mapping"):
        onnxport.convert(model, inputs=rows)
    monkeypatch.setitem(table._entries, ("Careful.predict", False), None)  # taken away again afterwards

    @onnxport.register_to_onnx("sklearn", "Careful.predict")
    def careful(op, model, x):
        shares = op.Gather(op.call(model, "predict_proba", x), np.int64(1), axis=1)
        return op.Cast(op.Greater(shares, 0.3), to=int(onnx.TensorProto.INT64))

    label, probabilities = onnxport.convert(model, inputs=rows)(rows)
    assert label.tolist() == model.predict(rows).tolist()
    np.testing.assert_allclose(probabilities, model.predict_proba(rows), rtol=1e-9)
