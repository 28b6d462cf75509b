"""Rows of float16: scalers and imputers keep the type and round where scikit-learn rounds; what widens them does so here too."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
pytestmark = pytest.mark.sklearn

from sklearn import cluster, decomposition, impute, linear_model, preprocessing  # noqa: E402

import onnxport  # noqa: E402

ROWS = np.abs(np.random.default_rng(0).normal(size=(60, 4))) + 0.1
TRANSFORMERS = [
    preprocessing.StandardScaler(),
    preprocessing.MinMaxScaler(),
    preprocessing.MaxAbsScaler(),
    preprocessing.RobustScaler(),
    preprocessing.Normalizer(),
    preprocessing.PolynomialFeatures(3),
    preprocessing.PowerTransformer(),
    preprocessing.QuantileTransformer(n_quantiles=20),
    preprocessing.SplineTransformer(),
    preprocessing.KBinsDiscretizer(encode="ordinal", quantile_method="averaged_inverted_cdf"),
    impute.SimpleImputer(add_indicator=True),
    impute.KNNImputer(),
    decomposition.PCA(2),
    cluster.KMeans(2, random_state=0),
    linear_model.Ridge(),
]


@pytest.mark.parametrize("model", TRANSFORMERS, ids=lambda model: type(model).__name__)
def test_rows_of_half_precision(model):
    model.fit(ROWS, ROWS[:, 0] - ROWS[:, 1])
    given = ROWS[:20].astype(np.float16)
    methods = [name for name in ("transform", "inverse_transform", "predict") if hasattr(model, name)]
    for name in methods:
        if name == "inverse_transform" and isinstance(
            model, (decomposition.PCA, preprocessing.KBinsDiscretizer, impute.SimpleImputer)
        ):
            continue  # of other columns than the rows'
        expected = np.asarray(getattr(model, name)(given))
        result = onnxport.convert(model, inputs=given, methods=[name], validate=False)(given)
        assert result.dtype == expected.dtype
        # a power, standardized, is rounded three times
        unit = 2 * np.finfo(np.float16).eps if expected.dtype == np.float16 else 1e-9
        np.testing.assert_allclose(
            result.astype(float), expected.astype(float), rtol=0, atol=unit * np.max(np.abs(expected))
        )
