"""Lasso codes: scikit-learn's own numbers over any dictionary, also where it stops before it has converged."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
# scikit-learn warns of a penalty of 0, and of each row that has not converged.
pytestmark = [
    pytest.mark.sklearn,
    pytest.mark.filterwarnings("ignore::UserWarning:sklearn"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

from sklearn.decomposition import SparseCoder  # noqa: E402

import onnxport  # noqa: E402
from onnxport.converters.to_onnx.sklearn import export  # noqa: E402
from onnxport.request import Request  # noqa: E402

ATOMS, FEATURES = 8, 5


def correlated(rng):
    return rng.normal(size=(1, FEATURES)) + 0.01 * rng.normal(size=(ATOMS, FEATURES))


def repeated(rng):
    atoms = rng.normal(size=(ATOMS, FEATURES))[rng.integers(0, 3, ATOMS)]
    return atoms * rng.choice([-1.0, 1.0], ATOMS)[:, None]


def with_zeros(rng):
    return rng.normal(size=(ATOMS, FEATURES)) * (np.arange(ATOMS) % 3 > 0)[:, None]


def unequal(rng):
    return rng.normal(size=(ATOMS, FEATURES)) * 10.0 ** rng.uniform(-2, 2, (ATOMS, 1))


def whole(rng):
    return rng.integers(-2, 3, (ATOMS, FEATURES)).astype(float)


def unit(rng):
    return np.eye(FEATURES)[:4]


def coded(atoms, rows, **options):
    model = SparseCoder(atoms, transform_algorithm="lasso_cd", **options).fit(rows)
    return model, export(model, Request(inputs=rows, methods=["transform"]))


@pytest.mark.sampled(0.15)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("sweeps", [1, 2, 7, 200])
@pytest.mark.parametrize("kind", [correlated, repeated, with_zeros, unequal, whole, unit])
def test_codes_of_any_dictionary(kind, sweeps, alpha, positive):
    rng = np.random.default_rng(0)
    atoms, rows = kind(rng), rng.normal(size=(12, FEATURES)) * 3
    rows[:2], rows[2:5] = 0, np.round(rows[2:5])
    model, converted = coded(atoms, rows, transform_alpha=alpha, transform_max_iter=sweeps, positive_code=positive)
    expected = model.transform(rows)
    # rounding grows with a row's largest coefficient
    np.testing.assert_allclose(converted(rows), expected, rtol=1e-9, atol=1e-12 * max(1.0, np.abs(expected).max()))


def test_no_rows():
    rng = np.random.default_rng(0)
    _, converted = coded(repeated(rng), rng.normal(size=(3, FEATURES)))
    assert converted(np.zeros((0, FEATURES))).shape == (0, ATOMS)


@pytest.mark.parametrize(("atoms", "rows"), [("float64", "float32"), ("float32", "float32"), ("float32", "float64")])
def test_float32_is_refused(atoms, rows):
    rng = np.random.default_rng(0)
    with pytest.raises(onnxport.UnsupportedOperator, match="lasso_cd.*float64"):
        coded(whole(rng).astype(atoms), rng.normal(size=(3, FEATURES)).astype(rows))
