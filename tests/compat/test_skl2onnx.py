"""Ten programs as skl2onnx's documentation has them, and what is refused."""

import numpy as np
import onnxruntime
import pytest

from tests.compat.programs import run

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
pytestmark = pytest.mark.sklearn

OLD, NEW = "import skl2onnx", "from onnxport.compat import skl2onnx"

START = """
import numpy as np
import skl2onnx
from sklearn.datasets import make_classification, make_regression

FloatTensorType = skl2onnx.common.data_types.FloatTensorType
X, y = make_classification(120, 4, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0)
X = X.astype(np.float32)
"""
# `expected` are outputs by their place; maps are compared by their values.
PROGRAMS = {
    "a forest by its types": START
    + """
from sklearn.ensemble import RandomForestClassifier
model = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X, y)
onx = skl2onnx.convert_sklearn(model, initial_types=[("float_input", FloatTensorType([None, 4]))])
feeds, expected = {"float_input": X}, [model.predict(X), model.predict_proba(X)]
names = ["output_label", "output_probability"]
""",
    "rows instead of types": START
    + """
from sklearn.linear_model import LogisticRegression
model = LogisticRegression().fit(X, y)
onx = skl2onnx.to_onnx(model, X[:1])
feeds, expected = {"X": X}, [model.predict(X), model.predict_proba(X)]
names = ["output_label", "output_probability"]
""",
    "probabilities as a matrix": START
    + """
from sklearn.linear_model import LogisticRegression
model = LogisticRegression().fit(X, y)
onx = skl2onnx.to_onnx(model, X[:1], options={id(model): {"zipmap": False}}, target_opset=15)
feeds, expected = {"X": X}, [model.predict(X), model.predict_proba(X)]
names = ["label", "probabilities"]
""",
    "an output a class": START
    + """
from sklearn.naive_bayes import GaussianNB
model = GaussianNB().fit(X, y)
onx = skl2onnx.to_onnx(model, X[:1], options={GaussianNB: {"zipmap": "columns"}})
scores = model.predict_proba(X)
feeds, expected, names = {"X": X}, [model.predict(X), scores[:, 0], scores[:, 1], scores[:, 2]], None
""",
    "decision functions": START
    + """
from sklearn.svm import SVC
model = SVC(random_state=0).fit(X, y)
onx = skl2onnx.to_onnx(model, X[:1], options={"raw_scores": True, "zipmap": False})
feeds, expected, names = {"X": X}, [model.predict(X), model.decision_function(X)], None
""",
    "a regressor with versions of both domains": START
    + """
from sklearn.ensemble import GradientBoostingRegressor
X, y = make_regression(80, 3, random_state=0)
model = GradientBoostingRegressor(n_estimators=8, random_state=0).fit(X, y)
onx = skl2onnx.to_onnx(model, X[:1].astype(np.float32), target_opset={"": 15, "ai.onnx.ml": 1})
X = X.astype(np.float32)
assert {item.domain: item.version for item in onx.opset_import} == {"": 15, "ai.onnx.ml": 1}
feeds, expected, names = {"X": X}, [model.predict(X)], ["variable"]
""",
    "a pipeline": START
    + """
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.linear_model import LogisticRegression
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
onx = skl2onnx.to_onnx(model, X, options={id(model): {"zipmap": False}})
last = skl2onnx.to_onnx(model, X, options={id(model.steps[-1][1]): {"zipmap": False}})
assert [item.name for item in last.graph.output] == ["label", "probabilities"]
feeds, expected = {"X": X}, [model.predict(X), model.predict_proba(X)]
names = ["label", "probabilities"]
""",
    "columns of two kinds": """
import numpy as np
import pandas as pd
import skl2onnx
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

types = skl2onnx.common.data_types
table = pd.DataFrame({"age": np.float32([20, 30, 45, 60] * 5), "town": ["word0", "word1", "word1", "word0"] * 5})
columns = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(sparse_output=False), ["town"]))
model = make_pipeline(columns, LogisticRegression()).fit(table, [0, 1, 1, 0] * 5)
onx = skl2onnx.convert_sklearn(
    model, initial_types=[("age", types.FloatTensorType([None, 1])), ("town", types.StringTensorType([None, 1]))]
)
feeds = {"age": table[["age"]].to_numpy(), "town": table[["town"]].to_numpy().astype(object)}
expected, names = [model.predict(table), model.predict_proba(table)], ["output_label", "output_probability"]
""",
    "names of the outputs": START
    + """
from sklearn.cluster import KMeans
model = KMeans(3, n_init=1, random_state=0).fit(X)
onx = skl2onnx.convert_sklearn(
    model, initial_types=[("rows", FloatTensorType([None, 4]))], final_types=[("cluster", None)]
)
feeds, expected, names = {"rows": X}, [model.predict(X)], ["cluster"]
""",
    "a transformer in double precision": START
    + """
from sklearn.decomposition import PCA
X = X.astype(np.float64)
model = PCA(2).fit(X)
double = skl2onnx.common.data_types.DoubleTensorType
onx = skl2onnx.convert_sklearn(model, initial_types=[("rows", double([None, 4]))])
feeds, expected, names = {"rows": X}, [model.transform(X)], ["variable"]
""",
}


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_with_one_line_changed(program):
    left = run(program, OLD, NEW)
    session = onnxruntime.InferenceSession(left["onx"].SerializeToString(), providers=["CPUExecutionProvider"])
    assert left["names"] is None or [item.name for item in session.get_outputs()] == left["names"]
    results = session.run(None, left["feeds"])
    assert len(results) == len(left["expected"])
    for result, expected in zip(results, left["expected"], strict=True):
        if isinstance(result, list):
            result = np.asarray([list(row.values()) for row in result])
        if np.asarray(expected).dtype.kind in "iuO":
            assert np.asarray(result).tolist() == np.asarray(expected).tolist()
        else:
            np.testing.assert_allclose(np.ravel(result), np.ravel(expected), rtol=1e-4, atol=1e-5)


def refused():
    from sklearn.linear_model import LogisticRegression

    from onnxport.compat import skl2onnx

    x = np.random.default_rng(0).standard_normal((20, 2)).astype(np.float32)
    model = LogisticRegression().fit(x, x[:, 0] > 0)
    other, matrix = LogisticRegression(), skl2onnx.FloatTensorType([None, 2])
    return {
        "black_op= leaves out": lambda: skl2onnx.to_onnx(model, x, black_op={"MatMul", "Gemm", "LinearClassifier"}),
        "white_op= leaves out": lambda: skl2onnx.to_onnx(model, x, white_op={"Identity"}),
        "Clipper does not convert yet": lambda: skl2onnx.update_registered_converter(type("Clipper", (), {}), "C"),
        "update_registered_parser: Clipper": lambda: skl2onnx.update_registered_parser(type("Clipper", (), {})),
        "has no skl2onnx.supported": lambda: skl2onnx.supported,
        "initial_types= is missing": lambda: skl2onnx.convert_sklearn(model),
        "'com.mine' at 1: the model has no operator of it": lambda: skl2onnx.to_onnx(
            model, x, target_opset={"": 15, "com.mine": 1}
        ),
        "is no step of LogisticRegression": lambda: skl2onnx.to_onnx(model, x, options={id(other): {"zipmap": False}}),
        "option 'nothing' is not taken": lambda: skl2onnx.to_onnx(model, x, options={"nothing": True}),
        "'a' is object; it can be": lambda: skl2onnx.convert_sklearn(model, initial_types=[("a", object())]),
        "columns of a table": lambda: skl2onnx.convert_sklearn(model, initial_types=[("a", matrix), ("b", matrix)]),
    }


@pytest.mark.parametrize("message", list(refused()))
def test_what_means_nothing_here_is_refused_by_name(message):
    with pytest.raises((ValueError, AttributeError), match=r".") as error:
        refused()[message]()
    assert message in str(error.value)
