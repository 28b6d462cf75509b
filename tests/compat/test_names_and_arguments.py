"""Every name and argument of the peers is honoured or refused by name, however a program reaches for it."""

import sys

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxport.compat import onnx2torch_convert, stand_in
from onnxport.compat.skl2onnx import convert_sklearn, to_onnx, wrap_as_onnx_mixin
from onnxport.compat.skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType
from onnxport.compat.skl2onnx.sklapi import ReplaceTransformer

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

pytestmark = pytest.mark.sklearn
X = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)

# What a program imports, and the way out that it is shown.
IMPORTS = {
    "from onnxport.compat import tensorflow": "no tensorflow: it has onnx2torch, skl2onnx, tf2onnx, torch",
    "from onnxport.compat import from_kears": "no from_kears: did you mean from_keras?",
    "from onnxport.compat.tf2onnx import tfonnx": "no tf2onnx.tfonnx: tf2onnx.convert.from_graph_def(graph.as_graph_def()",
    "from onnxport.compat.tf2onnx.tfonnx import process_tf_graph": "no tf2onnx.tfonnx: tf2onnx.convert.from_graph_def",
    "import onnxport.compat.tf2onnx.utils": "no tf2onnx.utils: it has from_keras",
    "from onnxport.compat.tf2onnx.handler import tf_op": "onnxport.register_to_onnx('tensorflow', 'Op')",
    "from onnxport.compat.tf2onnx.convert import main": "no tf2onnx.convert.main: it has from_keras",
    "from onnxport.compat.tf2onnx.optimizer import optimize_graph": "onnxport slim does it for a file",
    "from onnxport.compat.skl2onnx.algebra.complex_functions import onnx_cdist": "write the distance of OnnxSub",
    "from onnxport.compat.skl2onnx.algebra.sklearn_ops import OnnxSklearnNothing": "no skl2onnx.algebra.sklearn_ops.OnnxSklearnN",
    "from onnxport.compat.skl2onnx.common.tree_ensemble import add_node": "OnnxSubEstimator of algebra.onnx_operator",
    "from onnxport.compat.skl2onnx.common.data_types import FloatTensorTyp": "did you mean FloatTensorType?",
    "from onnxport.compat.skl2onnx.common.utils import get_column_index": "no skl2onnx.common.utils.get_column_index",
    "from onnxport.compat.skl2onnx.helpers.onnx_rare_helper import upgrade_opset_number": "onnxport upgrade FILE",
    "from onnxport.compat.skl2onnx.sklapi import WOETransformer": "no skl2onnx.sklapi.WOETransformer: it has Cast",
    "from onnxport.compat.skl2onnx.tutorial import measure_time": "no skl2onnx.tutorial: timeit measures",
    "from onnxport.compat.onnx2torch.node_converters.base import OnnxToTorchModule": "no onnx2torch.node_converters.base",
    "from onnxport.compat.onnx2torch.onnx_node import OnnxNode": "onnxport.register_from_onnx('pytorch', 'domain', 'Op'",
    "from onnxport.compat.onnx2torch.utils.common import OperationConverterResult": "onnxport.register_from_onnx('pytorch'",
    "from onnxport.compat.onnx2torch import covert": "did you mean convert?",
    "from onnxport.compat.torch.onnx import symbolic_helper": "no torch.onnx.symbolic_helper: onnxport.register_to_onnx",
    "from onnxport.compat.torch.onnx.symbolic_helper import parse_args": "no torch.onnx.symbolic_helper",
    "import onnxport.compat.torch.onnx.verification": "no torch.onnx.verification: onnxport.validate(module, file)",
}


@pytest.mark.parametrize("line", IMPORTS)
def test_an_import_of_what_is_not_here_is_answered(line):
    if "torch" in line:
        pytest.importorskip("torch", reason="PyTorch is an extra")
    with pytest.raises(ImportError) as caught:
        exec(line, {})
    assert str(caught.value).startswith("onnxport.compat has no ")
    assert IMPORTS[line] in str(caught.value)


def test_a_name_that_is_not_here_is_absent_to_programs_that_ask():
    from onnxport.compat import skl2onnx, tf2onnx

    assert not hasattr(tf2onnx, "tfonnx")
    assert getattr(skl2onnx.common, "tree_ensemble", None) is None
    with pytest.raises(AttributeError, match=r"no tf2onnx\.optimizer: a graph is written without"):
        tf2onnx.optimizer  # noqa: B018


def test_what_stands_in_answers_too(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "skl2onnx"]:
        monkeypatch.delitem(sys.modules, name)
    try:
        stand_in("skl2onnx")
        with pytest.raises(ImportError, match=r"no skl2onnx\.common\.tree_ensemble: OnnxSubEstimator"):
            exec("from skl2onnx.common.tree_ensemble import add_node", {})
        exec("from skl2onnx.algebra.onnx_operator import OnnxOperator", {})
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "skl2onnx"]:
            del sys.modules[name]


TYPES = [("X", FloatTensorType([None, 3]))]
# A call of skl2onnx or onnx2torch on a scaler, and what its answer holds.
CALLS = {
    "skl2onnx.convert_sklearn: opset=17 is not taken: target_opset=17": lambda m: convert_sklearn(
        m, initial_types=TYPES, opset=17
    ),
    "initial_type=1 is not taken: initial_types=[('X'": lambda m: convert_sklearn(m, initial_type=1),
    "verbos=1 is not taken: did you mean verbose=?": lambda m: to_onnx(m, X, verbos=1),
    "missing a required argument: 'model'": lambda m: to_onnx(),
    "final_types=['Z']: a list of names with types": lambda m: to_onnx(m, X, final_types=["Z"]),
    "2 are given, the model has 1": lambda m: to_onnx(m, X, final_types=[("Y", None), ("Z", None)]),
    "final_types: 'Y' is 3": lambda m: to_onnx(m, X, final_types=[("Y", 3)]),
    "naming=3: a text before names": lambda m: to_onnx(m, X, naming=3),
    "name=5: a text": lambda m: to_onnx(m, X, name=5),
    "'X' is the class FloatTensorType; it can be": lambda m: convert_sklearn(m, initial_types=[("X", FloatTensorType)]),
    "FloatTensorType('ab'): sizes, names or None": lambda m: FloatTensorType("ab"),
    "X is missing, a few rows": lambda m: wrap_as_onnx_mixin(m).to_onnx(),
    "to_onnx: foo=1 is not taken": lambda m: wrap_as_onnx_mixin(m).to_onnx(X, foo=1),
    "onnx2torch.convert: verbose=True is not taken: it takes": lambda m: onnx2torch_convert("m.onnx", verbose=True),
    "onnx2torch.convert: missing a required argument": lambda m: onnx2torch_convert(),
}


@pytest.mark.parametrize("message", CALLS)
def test_an_argument_that_does_not_fit_is_answered(message):
    with pytest.raises(ValueError) as caught:
        CALLS[message](StandardScaler().fit(X))
    assert message in str(caught.value)


def only(proto, feeds):
    """The one output."""
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, feeds)
    return result


@pytest.mark.parametrize("shape", [(), ([],), ([None, None],)], ids=str)
def test_a_type_may_leave_its_shape_open(shape):
    model = StandardScaler().fit(X)
    proto = convert_sklearn(model, initial_types=[("X", FloatTensorType(*shape))])
    np.testing.assert_allclose(only(proto, {"X": X}), model.transform(X), rtol=1e-4, atol=1e-6)


def test_the_types_of_outputs_are_those_that_are_asked_for():
    model = StandardScaler().fit(X)
    proto = to_onnx(model, [("X", FloatTensorType([None, 3]))], final_types=[("Z", DoubleTensorType())])
    assert proto.graph.output[0].name == "Z"
    result = only(proto, {"X": X})
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, model.transform(X), rtol=1e-4, atol=1e-6)
    classifier = LogisticRegression().fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="which maps are not"):
        to_onnx(classifier, X, final_types=[("a", Int64TensorType()), ("b", FloatTensorType())])


def test_a_class_of_scikit_learns_converts_by_itself():
    from onnxport.compat.skl2onnx.algebra.sklearn_ops import OnnxSklearnStandardScaler, find_class

    model = OnnxSklearnStandardScaler(with_mean=False).fit(X)
    assert find_class(StandardScaler) is OnnxSklearnStandardScaler
    proto = model.to_onnx(X, target_opset=15)
    assert proto.opset_import[0].version == 15
    expected = StandardScaler(with_mean=False).fit(X).transform(X)
    np.testing.assert_allclose(only(proto, {"X": X}), expected, rtol=1e-4, atol=1e-6)
    wrapped = wrap_as_onnx_mixin(StandardScaler().fit(X), target_opset=16)
    assert wrapped.to_onnx(X).opset_import[0].version == 16


OWN = """
import numpy
from sklearn.base import BaseEstimator, TransformerMixin
from onnxport.compat.skl2onnx.algebra.onnx_ops import (
    OnnxMul, OnnxReduceSumApi11, OnnxReduceMeanApi18, OnnxSplitApi18, OnnxSqueezeApi11, OnnxSub, OnnxUnsqueezeApi11
)
from onnxport.compat.skl2onnx.algebra.onnx_operator_mixin import OnnxOperatorMixin

class Centred(TransformerMixin, BaseEstimator, OnnxOperatorMixin):
    def fit(self, X, y=None):
        self.weight_ = X.std(axis=0)
        return self

    def transform(self, X):
        one, two, three = numpy.split((X - X.mean(axis=1, keepdims=True)) * self.weight_, 3, axis=1)
        return one - two * three.squeeze(1)[:, None] + X.sum(axis=1, keepdims=True)

    def to_onnx_operator(self, inputs=None, outputs=("Y",), target_opset=None, options=None):
        (x,) = inputs
        v = dict(op_version=target_opset)
        centred = OnnxMul(OnnxSub(x, OnnxReduceMeanApi18(x, axes=[1], **v), **v), self.weight_.astype(numpy.float32), **v)
        parts = OnnxSplitApi18(centred, axis=1, num_outputs=3, **v)
        third = OnnxUnsqueezeApi11(OnnxSqueezeApi11(parts[2], axes=[1], **v), axes=[1], **v)
        total = OnnxReduceSumApi11(x, axes=[1], keepdims=1, **v)
        left = OnnxSub(parts[0], OnnxMul(parts[1], third, **v), **v)
        from onnxport.compat.skl2onnx.algebra.onnx_ops import OnnxAdd
        return OnnxAdd(left, total, output_names=outputs, **v)
"""


@pytest.mark.parametrize("opset", [13, 17, 18])
def test_a_class_with_operators_of_its_own_converts_by_them(opset):
    from sklearn.pipeline import make_pipeline

    names = {"__name__": "program"}
    exec(OWN, names)
    model = make_pipeline(StandardScaler(), names["Centred"]()).fit(X)
    proto = to_onnx(model, X, target_opset=opset)
    np.testing.assert_allclose(only(proto, {"X": X}), model.transform(X), rtol=1e-3, atol=1e-4)


def test_a_graph_is_written_within_a_converter():
    from sklearn.base import BaseEstimator, TransformerMixin

    from onnxport.compat.skl2onnx import update_registered_converter
    from onnxport.compat.skl2onnx.helpers import add_onnx_graph

    text = """<ir_version: 8, opset_import: ["": 17]>
g (float[n, 3] a) => (float[n, 3] b) <float[1] two = {2.0}> {t = Mul(a, two) b = Tanh(t)}"""
    graph = onnx.parser.parse_model(text)

    class Curved(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            self.fitted_ = True
            return self

        def transform(self, X):
            return np.tanh(X * 2)

    update_registered_converter(Curved, "Curved", None, lambda s, o, c: add_onnx_graph(s, o, c, graph))
    np.testing.assert_allclose(only(to_onnx(Curved().fit(X), X), {"X": X}), np.tanh(X * 2), rtol=1e-4, atol=1e-6)


def test_constants_of_a_message_are_read_added_and_changed():
    from onnxport.compat.skl2onnx.helpers import onnx_helper

    proto = to_onnx(StandardScaler().fit(X), X)
    constants = onnx_helper.get_initializers(proto)
    assert list(onnx_helper.enumerate_model_initializers(proto)) == list(constants)
    more = onnx_helper.add_output_initializer(proto, ["rows", "words"], [X, np.array(["a", "b"])])
    session = onnxruntime.InferenceSession(more.SerializeToString(), providers=["CPUExecutionProvider"])
    _, rows, words = session.run(None, {"X": X})
    np.testing.assert_array_equal(rows, X)
    assert words.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="'rows' is taken"):
        onnx_helper.add_output_initializer(more, "rows", X)
    zeros = {name: np.zeros_like(array) for name, array in constants.items() if not array.any() or array.ndim}
    assert onnx_helper.update_onnx_initializers(proto, zeros) == list(zeros)
    assert not any(array.any() for name, array in onnx_helper.get_initializers(proto).items() if name in zeros)
    assert onnx_helper.change_onnx_domain(proto, {"Sub": ("Mine", "acme")}).opset_import[-1].domain == "acme"


def test_a_value_is_replaced():
    rows = np.float32([[0, 1], [2, 0]])
    model = ReplaceTransformer(from_value=0, to_value=np.nan).fit(rows)
    np.testing.assert_array_equal(only(to_onnx(model, rows), {"X": rows}), model.transform(rows))
    with pytest.raises(Exception, match="is no int64, as the rows are"):
        to_onnx(model, rows.astype(np.int64))
