"""Programs in the shape of skl2onnx's documentation: its imports gain ``onnxport.compat.``, or one line has ours stand in."""

import sys

import numpy as np
import onnxruntime
import pytest

from onnxport.compat import stand_in
from onnxport.errors import InvalidInputError

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
pytestmark = pytest.mark.sklearn

START = """
import numpy
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

iris = load_iris()
X, y = iris.data.astype(numpy.float32), iris.target
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
"""
# Each leaves the message `onx`, its `feeds`, and `expected` outputs by name.
PROGRAMS = {
    "train, convert and predict": START
    + """
from sklearn.ensemble import RandomForestClassifier
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType

clr = RandomForestClassifier(n_estimators=5, random_state=0).fit(X_train, y_train)
initial_type = [("float_input", FloatTensorType([None, 4]))]
onx = convert_sklearn(clr, initial_types=initial_type, name="rf_iris", doc_string="a forest")
assert (onx.graph.name, onx.doc_string) == ("rf_iris", "a forest")
feeds = {"float_input": X_test}
expected = {"output_label": clr.predict(X_test), "output_probability": clr.predict_proba(X_test)}
""",
    "the types that rows have": START
    + """
from sklearn.linear_model import LogisticRegression
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import guess_data_type

clr = LogisticRegression(max_iter=500).fit(X_train, y_train)
onx = convert_sklearn(clr, initial_types=guess_data_type(X_train), options={"zipmap": False}, verbose=0)
feeds, expected = {"input": X_test}, {"label": clr.predict(X_test), "probabilities": clr.predict_proba(X_test)}
""",
    "options by the class": START
    + """
from sklearn.linear_model import LogisticRegression
from skl2onnx import to_onnx

clr = LogisticRegression(max_iter=500).fit(X_train, y_train)
onx = to_onnx(clr, X_train[:1], options={LogisticRegression: {"zipmap": False, "raw_scores": True}}, target_opset=15)
feeds, expected = {"X": X_test}, {"label": clr.predict(X_test), "probabilities": clr.decision_function(X_test)}
""",
    "options by the step's name": START
    + """
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from skl2onnx import to_onnx

pipe = Pipeline([("norm", StandardScaler()), ("classifier", LogisticRegression())]).fit(X_train, y_train)
onx = to_onnx(pipe, X_train[:1], options={"classifier__zipmap": False})
feeds, expected = {"X": X_test}, {"label": pipe.predict(X_test), "probabilities": pipe.predict_proba(X_test)}
""",
    "labels that are numbers of classes": START
    + """
from sklearn.tree import DecisionTreeClassifier
from skl2onnx import to_onnx

words = numpy.array(["setosa", "versicolor", "virginica"])
clr = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X_train, words[y_train])
onx = to_onnx(clr, X_train[:1], options={id(clr): {"nocl": True, "zipmap": False}})
numbers = numpy.searchsorted(words, clr.predict(X_test))
feeds, expected = {"X": X_test}, {"label": numbers, "probabilities": clr.predict_proba(X_test)}
""",
    "a wrapped estimator": START
    + """
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skl2onnx import wrap_as_onnx_mixin

tr = make_pipeline(StandardScaler(), KMeans(n_clusters=3, n_init=1, random_state=0)).fit(X_train)
tr_mixin = wrap_as_onnx_mixin(tr)
assert tr_mixin.predict(X_test).tolist() == tr.predict(X_test).tolist()
onx = tr_mixin.to_onnx(X_train[:1].astype(numpy.float32))
feeds, expected = {"X": X_test}, {"label": tr.predict(X_test), "scores": tr.transform(X_test)}
""",
    "the standard deviation of a Gaussian process": START
    + """
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from skl2onnx import to_onnx

X_test = X_test.astype(numpy.float64)
gpr = GaussianProcessRegressor(RBF(), alpha=0.1).fit(X_train[:40].astype(numpy.float64), y_train[:40])
options = {GaussianProcessRegressor: {"return_std": True, "optim": "cdist"}}
onx = to_onnx(gpr, X_train[:2].astype(numpy.float64), options=options)
mean, deviation = gpr.predict(X_test, return_std=True)
feeds, expected = {"X": X_test}, {"GPmean": mean, "GPcovstd": deviation}
""",
    "scores of samples": START
    + """
from sklearn.ensemble import IsolationForest
from skl2onnx import to_onnx

model = IsolationForest(n_estimators=5, random_state=0).fit(X_train)
onx = to_onnx(model, X_train[:3], options={"score_samples": True}, target_opset={"": 15, "ai.onnx.ml": 3})
assert {item.domain: item.version for item in onx.opset_import} == {"": 15, "ai.onnx.ml": 3}
feeds = {"X": X_test}
expected = {
    "label": model.predict(X_test), "scores": model.decision_function(X_test), "score_samples": model.score_samples(X_test)
}
""",
    "a value between steps": START
    + """
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skl2onnx import to_onnx
from skl2onnx.helpers.onnx_helper import enumerate_model_node_outputs, select_model_inputs_outputs, save_onnx_model

pipe = make_pipeline(StandardScaler(), LogisticRegression()).fit(X_train, y_train)
whole = to_onnx(pipe, X_train[:1])
names = list(enumerate_model_node_outputs(whole))
onx = select_model_inputs_outputs(whole, names[1])
assert len(save_onnx_model(onx, "part.onnx")) > 0
feeds, expected = {"X": X_test}, {names[1]: pipe[0].transform(X_test)}
""",
    "a table of mixed columns": """
import numpy
import pandas
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

data = pandas.DataFrame({
    "age": numpy.float32([22, 38, 26, 35] * 6), "siblings": [1, 0, 2, 1] * 6, "sex": ["word0", "word1", "word1", "word0"] * 6
})
numbers, words = ["age", "siblings"], ["sex"]
columns = ColumnTransformer([
    ("num", StandardScaler(), numbers), ("cat", OneHotEncoder(handle_unknown="ignore"), words)
])
clf = Pipeline([("preprocessor", columns), ("classifier", LogisticRegression())]).fit(data, [0, 1, 1, 0] * 6)
inputs = [
    ("age", FloatTensorType([None, 1])), ("siblings", Int64TensorType([None, 1])), ("sex", StringTensorType([None, 1]))
]
onx = convert_sklearn(clf, "pipeline_titanic", inputs, target_opset=18, options={id(clf): {"zipmap": False}})
feeds = {
    "age": data[["age"]].to_numpy(numpy.float32), "siblings": data[["siblings"]].to_numpy(),
    "sex": data[["sex"]].to_numpy(object),
}
expected = {"label": clf.predict(data), "probabilities": clf.predict_proba(data)}
""",
    "documents": """
import numpy
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from skl2onnx import to_onnx
from skl2onnx.common.data_types import StringTensorType

texts = ["word0 good film", "word1 bad film", "word0 fine plot", "word1 awful plot"] * 5
pipe = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, [1, 0, 1, 0] * 5)
onx = to_onnx(pipe, initial_types=[("input", StringTensorType([None]))], options={"zipmap": False}, target_opset=20)
feeds = {"input": numpy.array(texts[:4], object)}
expected = {"label": pipe.predict(texts[:4]), "probabilities": pipe.predict_proba(texts[:4])}
""",
    "documents in a column": """
import numpy
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import StringTensorType

texts = ["good film", "bad film", "fine plot", "awful plot"] * 5
pipe = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, [1, 0, 1, 0] * 5)
types = [("input", StringTensorType([None, 1]))]
onx = convert_sklearn(pipe, "texts", initial_types=types, options={id(pipe): {"zipmap": False}}, target_opset=20)
feeds = {"input": numpy.array(texts[:4], object).reshape((-1, 1))}
expected = {"label": pipe.predict(texts[:4]), "probabilities": pipe.predict_proba(texts[:4])}
""",
    "a class that is registered": START
    + """
from sklearn.ensemble import HistGradientBoostingRegressor
from skl2onnx import to_onnx, update_registered_converter

update_registered_converter(HistGradientBoostingRegressor, "Booster", None, None, options={"split": None})
model = HistGradientBoostingRegressor(max_iter=5).fit(X_train, y_train)
onx = to_onnx(model, X_train[:1], black_op={"Scaler"})
feeds, expected = {"X": X_test}, {"variable": model.predict(X_test)}
""",
}


def left_by(program):
    """The names that a program leaves."""
    names = {"__name__": "program"}
    exec(compile(program, "program.py", "exec"), names)
    return names


def check(left):
    session = onnxruntime.InferenceSession(left["onx"].SerializeToString(), providers=["CPUExecutionProvider"])
    assert [item.name for item in session.get_outputs()] == list(left["expected"])
    for result, expected in zip(session.run(None, left["feeds"]), left["expected"].values(), strict=True):
        if isinstance(result, list):
            result = np.asarray([list(row.values()) for row in result])
        if expected.dtype.kind in "iuO":
            assert np.asarray(result).tolist() == expected.tolist()
        else:
            np.testing.assert_allclose(np.ravel(result), np.ravel(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_with_its_imports_changed(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changed = program.replace("from skl2onnx", "from onnxport.compat.skl2onnx")
    assert changed.count("onnxport") == program.count("from skl2onnx")
    check(left_by(changed))


def test_ours_stands_in_for_the_rest_of_the_process(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "skl2onnx"]:
        monkeypatch.delitem(sys.modules, name)
    before = set(sys.modules)
    program = PROGRAMS["train, convert and predict"]
    try:
        check(left_by(f"from onnxport.compat import stand_in; stand_in('skl2onnx')\n{program}"))
        stand_in("skl2onnx")  # a second time changes nothing
    finally:
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == "skl2onnx":
                del sys.modules[name]


def test_what_can_not_stand_in_is_refused(monkeypatch):
    with pytest.raises(InvalidInputError, match="'onnxmltools' is none of onnx2torch, skl2onnx, tf2onnx"):
        stand_in("onnxmltools")
    monkeypatch.setitem(sys.modules, "tf2onnx", sys)
    with pytest.raises(InvalidInputError, match="tf2onnx is imported already"):
        stand_in("tf2onnx")
