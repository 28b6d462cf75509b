"""Pseudo-likelihoods of a seeded Boltzmann machine: NumPy's own draws in the graph, for any number of rows."""

import numpy as np
import onnx_ir as ir
import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

import onnxruntime  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from sklearn.neural_network import BernoulliRBM  # noqa: E402

import onnxport  # noqa: E402
from onnxport.converters.to_onnx.sklearn import export  # noqa: E402
from onnxport.graph.builder import OpBuilder  # noqa: E402
from onnxport.opset_maps.to_onnx.sklearn.arrays.mersenne_twister import integers_below  # noqa: E402
from onnxport.request import Request  # noqa: E402


@given(
    seed=st.integers(0, 2**32 - 1),
    bound=st.one_of(st.integers(1, 300), st.sampled_from([1023, 1024, 1025, 2**20 + 1, 2**31 - 1, 2**31])),
    counts=st.lists(st.integers(0, 3000), min_size=1, max_size=3),
    opset=st.sampled_from([13, 18, 21]),
)
@settings(max_examples=60, deadline=None)
def test_draws_are_numpys(seed, bound, counts, opset):
    op = OpBuilder(opset)
    result = integers_below(op, seed, bound, op.input("count", ir.DataType.INT64, [1]))
    graph = op.graph([result.value], name="draws", output_names=["draws"])
    proto = ir.to_proto(ir.Model(graph, ir_version=8))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for count in counts:
        (got,) = session.run(None, {"count": np.array([count])})
        np.testing.assert_array_equal(got, np.random.RandomState(seed).randint(0, bound, count))


def fitted(dtype=np.float64, **options):
    rows = (np.random.default_rng(0).random((60, 9)) < 0.4).astype(dtype)
    return BernoulliRBM(4, n_iter=3, **options).fit(rows), rows


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "bool"])
def test_many_rows(dtype):
    model, rows = fitted(random_state=5)
    converted = export(model, Request(inputs=rows.astype(dtype), methods=["score_samples"]))
    for count in (0, 1, 700, 12000):
        given = (np.random.default_rng(1).random((count, 9)) < 0.5).astype(dtype)
        expected = model.score_samples(given) if count else np.zeros(0)
        np.testing.assert_allclose(converted(given), expected, rtol=1e-9)


@pytest.mark.parametrize("state", [None, np.random.RandomState(0)])
def test_draws_without_a_seed_are_refused(state):
    model, rows = fitted(random_state=state)
    with pytest.raises(onnxport.UnsupportedOperator, match="fit with an int random_state"):
        export(model, Request(inputs=rows, methods=["score_samples"]))
