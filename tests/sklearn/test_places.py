"""Places among many fitted numbers: thresholds, quantiles and categories, on them, beside them and without a number."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

from sklearn.isotonic import IsotonicRegression  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    TargetEncoder,
)

import onnxport  # noqa: E402
from onnxport.opset_maps.to_onnx.sklearn.trees.places import FEW  # noqa: E402

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(500, 2)) * [1.0, 1e-3]
TIES = np.round(RNG.normal(size=(500, 2)), 1) * 10
BINS = np.sort(np.round(RNG.normal(size=3 * FEW), 2))
MODELS = {
    "quantiles": QuantileTransformer(n_quantiles=300).fit(NUMBERS),
    "quantiles with ties": QuantileTransformer(n_quantiles=300, output_distribution="normal").fit(TIES),
    "ordinal": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(NUMBERS),
    "ordinal of missing values": OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
    ).fit(np.where(RNG.random(NUMBERS.shape) < 0.1, np.nan, NUMBERS)),
    "one-hot": OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(TIES),
    "means": TargetEncoder(random_state=0).fit(TIES, TIES[:, 0] + RNG.normal(size=500)),
    "right": FunctionTransformer(lambda x: np.digitize(x, BINS, right=True)),
    "left": FunctionTransformer(lambda x: np.searchsorted(BINS, x, side="right")),
}


def beside(fitted):
    """The fitted numbers, their neighbours, and numbers beyond them."""
    flat = np.concatenate([fitted.ravel(), [-1e30, 1e30, 0.0, -0.0]])
    result = np.concatenate([flat, np.nextafter(flat, np.inf), np.nextafter(flat, -np.inf)])
    return RNG.permutation(result)[: len(result) // 2 * 2].reshape(-1, 2)


@pytest.mark.parametrize("opset", [13, 15, 21])
@pytest.mark.parametrize("title", MODELS)
def test_many_places(title, opset):
    model = MODELS[title]
    rows = np.concatenate([beside(item) for item in (NUMBERS, TIES, BINS)])
    hub = onnxport.convert(model, inputs=rows, target_opset=opset, validate=False)
    np.testing.assert_allclose(hub(rows), model.transform(rows), rtol=1e-9, atol=1e-12)


def test_float32_rows_stand_where_scikit_learn_puts_them():
    model = IsotonicRegression(out_of_bounds="clip").fit(
        NUMBERS[:, 0], np.round(NUMBERS[:, 0] + RNG.normal(size=500), 1)
    )
    rows = beside(model.X_thresholds_).astype(np.float32)[:, 0]
    hub = onnxport.convert(model, inputs=rows, validate=False)
    np.testing.assert_allclose(hub(rows), model.predict(rows), rtol=1e-6)
