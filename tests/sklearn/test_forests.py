"""What a forest costs on one row follows from its operators: one for the trees, a few for what is said of them."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

from sklearn.ensemble import RandomForestClassifier  # noqa: E402

import onnxport  # noqa: E402

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(2000, 6)).astype(np.float32)
SCORE = ROWS[:, 0] * ROWS[:, 1] + ROWS[:, 2] + RNG.normal(size=2000)


@pytest.mark.parametrize(
    ("classes", "operators"),
    [
        (2, ["Cast", "TreeEnsemble", "Gemm", "ArgMax"]),
        (3, ["TreeEnsemble", "Transpose", "Cast", "Gather", "ReduceMean", "ArgMax"]),
    ],
)
def test_a_forest_is_few_operators_with_scikit_learns_own_digits(classes, operators):
    labels = np.digitize(SCORE, [0.0] if classes == 2 else [-1.0, 1.0])
    forest = RandomForestClassifier(60, random_state=0).fit(ROWS, labels)
    assert sum(tree.tree_.node_count for tree in forest.estimators_) > 30_000  # more than a first level of cache holds
    model = onnxport.convert(forest, inputs=ROWS[:5], validate=False)
    assert [node.op_type for node in model.model.graph] == operators
    label, shares = model(ROWS)
    np.testing.assert_array_equal(label, forest.predict(ROWS))
    np.testing.assert_allclose(shares, forest.predict_proba(ROWS), rtol=0, atol=1e-15)
