"""Programs in the shape of skl2onnx's gallery: options, names, steps, converters of one's own; one line has ours stand in."""

import sys

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxport.errors import InvalidInputError, ValidationError

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
pytestmark = pytest.mark.sklearn

START = """
import numpy
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from skl2onnx import convert_sklearn, to_onnx, update_registered_converter
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType

X, y = load_iris(return_X_y=True)
X = X.astype(numpy.float32)
"""
# Each leaves the message `onx`, its `feeds`, and `expected` outputs by name.
PROGRAMS = {
    "a Gaussian process on rows that are far from its own": START
    + """
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct, RBF

data, target = load_diabetes(return_X_y=True)
gpr = GaussianProcessRegressor(DotProduct() + RBF(), alpha=1.0, optimizer=None)
gpr.kernel = DotProduct(sigma_0=1e5) + RBF(length_scale=1e-5)
gpr.fit(data[:331], target[:331])
onx = convert_sklearn(gpr, initial_types=[("X", FloatTensorType([None, 10]))], target_opset=12)
rows = data[331:341].astype(numpy.float32)
feeds, expected, slack = {"X": rows}, {"variable": gpr.predict(rows)}, 0.1
""",
    "names of inner values by a function": START
    + """
def name(old, taken):
    new = f"pre_{old}"
    while new in taken:
        new += "_"
    return new

model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
onx = to_onnx(model, X[:1], naming=name, options={"zipmap": False})
ends = {"label", "probabilities"}
assert all(item.startswith("pre_") for node in onx.graph.node for item in node.output if item not in ends)
assert all(item.name.startswith("pre_") for item in onx.graph.initializer)
feeds, expected = {"X": X}, {"label": model.predict(X), "probabilities": model.predict_proba(X)}
""",
    "a text before the names of inner values": START
    + """
model = StandardScaler().fit(X)
onx = convert_sklearn(model, initial_types=[("rows", FloatTensorType([None, 4]))], naming="scale_")
assert onx.graph.initializer[0].name.startswith("scale_")
feeds, expected = {"rows": X}, {"variable": model.transform(X)}
""",
    "the classes as an output": START
    + """
words = numpy.array(["setosa", "versicolor", "virginica"])
model = LogisticRegression(max_iter=500).fit(X, words[y])
onx = to_onnx(model, X[:1], options={id(model): {"zipmap": "columns", "output_class_labels": True}})
scores = model.predict_proba(X)
feeds = {"X": X}
expected = {
    "output_label": model.predict(X), "ssetosa": scores[:, 0], "sversicolor": scores[:, 1], "svirginica": scores[:, 2],
    "class_labels": model.classes_,
}
""",
    "the way through the trees of a forest": START
    + """
from sklearn.ensemble import RandomForestClassifier

model = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y)
onx = to_onnx(model, X[:1], options={id(model): {"zipmap": False, "decision_path": True, "decision_leaf": True}})
marks, ends = model.decision_path(X)
marks = marks.toarray().astype(int).astype(str)
paths = [["".join(row[a:b]) for a, b in zip(ends, ends[1:])] for row in marks]
feeds, expected = {"X": X}, {
    "label": model.predict(X), "probabilities": model.predict_proba(X), "decision_path": numpy.array(paths, object),
    "decision_leaf": model.apply(X),
}
""",
    "the way through a tree": START
    + """
from sklearn.tree import DecisionTreeRegressor

model = DecisionTreeRegressor(max_depth=3).fit(X, y)
onx = to_onnx(model, X[:1], options={DecisionTreeRegressor: {"decision_path": True}})
paths = [["".join(row)] for row in model.decision_path(X).toarray().astype(int).astype(str)]
feeds, expected = {"X": X}, {"variable": model.predict(X), "decision_path": numpy.array(paths, object)}
""",
    "the steps of a pipeline, each beside its own results": START
    + """
from onnxruntime import InferenceSession
from sklearn.decomposition import PCA
from skl2onnx.helpers import collect_intermediate_steps, compare_objects

model = make_pipeline(StandardScaler(), PCA(2)).fit(X)
steps = collect_intermediate_steps(model, "pipeline", [("X", FloatTensorType([None, 4]))], target_opset=17)
result = model.transform(X)
assert [type(step["model"]).__name__ for step in steps] == ["StandardScaler", "PCA"]
for step in steps:
    session = InferenceSession(step["onnx_step"].SerializeToString(), providers=["CPUExecutionProvider"])
    compare_objects(step["model"]._debug.outputs["transform"], session.run(None, {"X": X})[0])
onx = steps[-1]["onnx_step"]
feeds, expected = {"X": X}, {"variable": result}
""",
    "casts between the steps": START
    + """
from sklearn.tree import DecisionTreeRegressor
from skl2onnx.sklapi import CastRegressor, CastTransformer

model = make_pipeline(
    CastTransformer(dtype=numpy.float64), StandardScaler(), CastTransformer(), CastRegressor(DecisionTreeRegressor(max_depth=4))
).fit(X, y.astype(numpy.float64))
assert clone(model[0]).dtype is numpy.float64
onx = to_onnx(model, X[:1], options={StandardScaler: {"div": "div_cast"}})
assert onx.graph.output[0].type.tensor_type.elem_type == 1
feeds, expected = {"X": X}, {"variable": model.predict(X)}
""",
    "words of several tokens": START
    + """
import skl2onnx.sklapi.register
from skl2onnx.sklapi import TraceableTfidfVectorizer

texts = ["a good film", "a bad film", "good plot", "bad plot"] * 4
model = make_pipeline(TraceableTfidfVectorizer(ngram_range=(1, 2)), LogisticRegression()).fit(texts, [1, 0] * 8)
onx = to_onnx(model, initial_types=[("input", StringTensorType([None]))], options={"zipmap": False})
feeds = {"input": numpy.array(texts[:4], object)}
expected = {"label": model.predict(texts[:4]), "probabilities": model.predict_proba(texts[:4])}
""",
    "a graph of operators": START
    + """
from skl2onnx.algebra.onnx_ops import OnnxDiv, OnnxScaler, OnnxSub, OnnxTopK

scaled = OnnxDiv(OnnxSub("X", X.mean(0), op_version=18), X.std(0), op_version=18)
again = OnnxScaler(scaled, offset=[0.0] * 4, scale=[2.0] * 4)
top = OnnxTopK(again, numpy.array([2], numpy.int64), axis=1, output_names=["best", "places"])
onx = top.to_onnx({"X": X}, target_opset=18)
assert {item.domain: item.version for item in onx.opset_import}[""] == 18
rows = (X - X.mean(0)) / X.std(0) * 2
order = numpy.argsort(-rows, axis=1, kind="stable")[:, :2]
feeds, expected = {"X": X}, {"best": numpy.take_along_axis(rows, order, 1), "places": order}
""",
    "an estimator among operators": START
    + """
from skl2onnx.algebra.onnx_operator import OnnxSubEstimator
from skl2onnx.algebra.onnx_ops import OnnxAbs

model = StandardScaler().fit(X)
onx = OnnxAbs(OnnxSubEstimator(model, "X"), output_names=["Y"]).to_onnx({"X": FloatTensorType([None, 4])})
feeds, expected = {"X": X}, {"Y": numpy.abs(model.transform(X))}
""",
    "a transformer of one's own by operators": START
    + """
from skl2onnx.algebra.onnx_ops import OnnxMatMul, OnnxSub
from skl2onnx.common.data_types import guess_numpy_type

class Turned(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.mean_, self.turn_ = X.mean(0), numpy.linalg.qr(numpy.cov(X.T))[0]
        return self

    def transform(self, X):
        return (X - self.mean_) @ self.turn_

def shapes(operator):
    rows = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type = operator.inputs[0].type.__class__([rows, operator.raw_operator.turn_.shape[1]])

def converter(scope, operator, container):
    model, opset, out = operator.raw_operator, container.target_opset, operator.outputs
    dtype = guess_numpy_type(operator.inputs[0].type)
    moved = OnnxSub(operator.inputs[0], model.mean_.astype(dtype), op_version=opset)
    OnnxMatMul(moved, model.turn_.astype(dtype), op_version=opset, output_names=out[:1]).add_to(scope, container)

update_registered_converter(Turned, "CustomTurned", shapes, converter)
model = make_pipeline(Turned(), LogisticRegression()).fit(X, y)
onx = to_onnx(model, X[:1], options={"zipmap": False}, target_opset={"": 15, "ai.onnx.ml": 3})
feeds, expected = {"X": X}, {"label": model.predict(X), "probabilities": model.predict_proba(X)}
""",
    "a transformer of one's own by nodes, with an option": START
    + """
from skl2onnx.common._apply_operation import apply_clip
from skl2onnx.common.utils import check_input_and_output_numbers, check_input_and_output_types
from skl2onnx.proto import onnx_proto

class Capped(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.top_ = X.max(0) / 2
        return self

    def transform(self, X):
        return numpy.minimum(X, self.top_)

def shapes(operator):
    check_input_and_output_numbers(operator, input_count_range=1, output_count_range=1)
    check_input_and_output_types(operator, good_input_types=[FloatTensorType, DoubleTensorType])

chosen = []

def converter(scope, operator, container):
    model = operator.raw_operator
    chosen.append(container.get_options(model, {"far": 1e6})["far"])
    top = scope.get_unique_variable_name("top")
    container.add_initializer(top, onnx_proto.TensorProto.FLOAT, [4], model.top_.tolist())
    capped = scope.get_unique_variable_name("capped")
    container.add_node("Min", [operator.inputs[0].full_name, top], capped, name=scope.get_unique_operator_name("Min"))
    apply_clip(scope, capped, operator.outputs[0].full_name, container, max=chosen[-1])

update_registered_converter(Capped, "CustomCapped", shapes, converter, options={"far": None})
model = Capped().fit(X)
onx = to_onnx(model, X[:1], options={Capped: {"far": 1e5}})
assert set(chosen) == {1e5}
feeds, expected = {"X": X}, {"variable": model.transform(X)}
""",
    "a classifier of one's own around another": START
    + """
from skl2onnx.algebra.onnx_operator import OnnxSubEstimator
from skl2onnx.algebra.onnx_ops import OnnxIdentity, OnnxMul
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

class Halved(ClassifierMixin, BaseEstimator):
    def __init__(self, estimator=None):
        self.estimator = estimator

    def fit(self, X, y):
        self.estimator_ = clone(self.estimator).fit(X, y)
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X):
        return self.estimator_.predict(X)

    def predict_proba(self, X):
        return self.estimator_.predict_proba(X) / 2

def converter(scope, operator, container):
    opset, out = container.target_opset, operator.outputs
    inner = OnnxSubEstimator(operator.raw_operator.estimator_, operator.inputs[0], op_version=opset)
    OnnxIdentity(inner[0], op_version=opset, output_names=[out[0].full_name]).add_to(scope, container)
    half = numpy.array([0.5], numpy.float32)
    OnnxMul(inner[1], half, op_version=opset, output_names=[out[1].full_name]).add_to(scope, container)

options = {"zipmap": [True, False, "columns"], "nocl": [True, False]}
update_registered_converter(Halved, "CustomHalved", lambda operator: None, converter, options=options)
model = Halved(LogisticRegression(max_iter=500)).fit(X, y)
onx = to_onnx(model, X[:1])
feeds, expected = {"X": X}, {"output_label": model.predict(X), "output_probability": model.predict_proba(X)}
""",
    "several targets": START
    + """
from sklearn.multioutput import MultiOutputClassifier

targets = numpy.stack([y, y > 0], axis=1).astype(numpy.int64)
model = MultiOutputClassifier(LogisticRegression(max_iter=500)).fit(X, targets)
onx = to_onnx(model, X[:1], options={id(model): {"zipmap": False}})
feeds, expected = {"X": X}, {"label": model.predict(X), "probabilities": model.predict_proba(X)}
""",
    "columns of words by their places": START
    + """
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

texts = numpy.array([["hello world", "good day"], ["bad world", "nice day"]] * 5, object)
columns = ColumnTransformer([("head", TfidfVectorizer(), 0), ("body", CountVectorizer(), 1)])
model = make_pipeline(columns, LogisticRegression()).fit(texts, [0, 1] * 5)
types = [("input", StringTensorType([None, 2]))]
onx = convert_sklearn(model, "texts", types, options={id(model): {"zipmap": False}})
feeds, expected = {"input": texts}, {"label": model.predict(texts), "probabilities": model.predict_proba(texts)}
""",
}


@pytest.fixture
def stands_in():
    """Ours stands for skl2onnx while a test runs."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "skl2onnx"}
    for name in before:
        del sys.modules[name]
    yield "from onnxport.compat import stand_in; stand_in('skl2onnx')\n"
    for name in [name for name in sys.modules if name.partition(".")[0] == "skl2onnx"]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.mark.sampled(0.5)
@pytest.mark.filterwarnings("ignore")  # of scikit-learn's fits
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_where_ours_stands_in(program, stands_in):
    left = {"__name__": "program"}
    exec(compile(stands_in + program, "program.py", "exec"), left)
    onnx.checker.check_model(left["onx"], full_check=True)
    session = onnxruntime.InferenceSession(left["onx"].SerializeToString(), providers=["CPUExecutionProvider"])
    assert [item.name for item in session.get_outputs()] == list(left["expected"])
    slack = left.get("slack", 1e-5)
    for result, expected in zip(session.run(None, left["feeds"]), left["expected"].values(), strict=True):
        if isinstance(result, list) and isinstance(result[0], dict):
            result = np.asarray([list(row.values()) for row in result])
        if isinstance(expected, list):
            for one, other in zip(result, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        elif np.asarray(expected).dtype.kind in "iuOUS":
            assert np.asarray(result).tolist() == np.asarray(expected).tolist()
        else:
            np.testing.assert_allclose(np.ravel(result), np.ravel(expected), rtol=1e-4, atol=slack)


REFUSED = {
    "'Z', which no node gives": "OnnxAdd('X', 'Z', output_names=['Y']).to_onnx({'X': X})",
    "MatMul-13 on": "OnnxMatMul('X', numpy.ones((3, 3), numpy.float32)).to_onnx({'X': X}, target_opset=13)",
    "are arrays or types by name": "OnnxAdd('X', X).to_onnx([X])",
    "'X' is str: an array": "OnnxAdd('X', X).to_onnx({'X': 'float'})",
    "the nodes give Y": "OnnxAdd('X', X, output_names=['Y']).to_onnx({'X': X}, outputs=[('Z', FloatTensorType())])",
    "ONNX has no such operator": "import skl2onnx.algebra.onnx_ops as ops; ops.OnnxNothing",
    "gives no leaves": "m = LogisticRegression().fit(X, y); to_onnx(m, X, options={id(m): {'decision_leaf': True}})",
    "no convert_fct is given": "update_registered_converter(type('Mine', (BaseEstimator,), {}), 'M')",
    "parsers of skl2onnx are not called": "update_registered_converter(type('M', (), {}), 'M', None, print, parser=print)",
}


@pytest.mark.parametrize("message", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_what_is_wrong_is_refused_by_name(message, stands_in):
    imports = "from skl2onnx.algebra.onnx_ops import OnnxAdd, OnnxMatMul\n"
    with pytest.raises((ValueError, AttributeError), match=r".") as caught:
        exec(stands_in + START + imports + REFUSED[message], {"__name__": "program"})
    assert message in str(caught.value)


WRONG = """
from skl2onnx.algebra.onnx_ops import OnnxAdd

class Added(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.one_ = 1.0
        return self

    def transform(self, X):
        return X + self.one_

def converter(scope, operator, container):
    number = numpy.array([1.01], numpy.float32)
    OnnxAdd(operator.inputs[0], number, output_names=operator.outputs[:1]).add_to(scope, container)

update_registered_converter(Added, "Added", None, converter)
to_onnx(Added().fit(X), X)
"""


def test_a_converter_that_writes_other_numbers_fails(stands_in):
    with pytest.raises(ValidationError, match="differs from its source"):
        exec(stands_in + START + WRONG, {"__name__": "program"})


def test_lost_digits_are_no_excuse_for_a_wrong_number():
    """Where the source itself loses half of its digits, what is off by more than it shows fails all the same."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import DotProduct

    import onnxport

    rng = np.random.default_rng(0)
    rows, target = rng.normal(size=(120, 3)), rng.normal(size=120)
    model = GaussianProcessRegressor(DotProduct(sigma_0=1e5), alpha=1.0, optimizer=None).fit(rows, target)
    converted = onnxport.convert(model, inputs=rows[:8].astype(np.float32))
    assert converted.report.passed
    other = GaussianProcessRegressor(DotProduct(sigma_0=1e5), alpha=1.0, optimizer=None).fit(rows, target + 1)
    assert onnxport.validate(other, converted, inputs=rows[:8].astype(np.float32)).verdict == "failed"
    with pytest.raises(InvalidInputError):
        onnxport.convert(model, inputs=rows[:8, :2])
