"""Every estimator of scikit-learn, as its own tests configure it first, with the proof that a user gets."""

import warnings

import numpy as np
import pytest
from sklearn.utils import all_estimators

import onnxport
from onnxport.errors import InvalidInputError, UnsupportedOperator

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from sklearn.utils._test_common.instance_generator import _construct_instances

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5))
LABELS = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int) + (X[:, 1] > 0.8)
QUANTITY = X @ [1, 2, -1, 0.5, 0] + 0.1 * RNG.normal(size=60)
# What they are fitted on, the first that they take.
DATA = [(X, LABELS), (X, QUANTITY), (abs(X), LABELS), (abs(X),), (X, np.stack([QUANTITY, QUANTITY**2], 1)), (X,)]
# Of rows of numbers nothing follows: they take words, pictures or kernels, draw labels, or solve what has no finite form.
REFUSED = {
    "DictionaryLearning", "DummyClassifier", "FeatureHasher", "HashingVectorizer", "MultiLabelBinarizer", "PatchExtractor"
}  # fmt: skip
METHODS = ("predict", "transform", "score_samples", "mahalanobis", "kneighbors")
NOTHING_NEW = {name for name, kind in all_estimators() if not any(hasattr(kind, method) for method in METHODS)}
UNPROVED = {"MissingIndicator"}  # nothing is missing: no column


def fitted(estimator, dtype):
    """The estimator, and the rows that it was fitted on; None where it takes none of the data."""
    for rows, *target in DATA:
        try:
            return estimator.fit(rows.astype(dtype), *target), rows.astype(dtype)
        except (TypeError, ValueError, IndexError, AttributeError):
            continue
    return None


def outcome(model, rows):
    try:
        return onnxport.convert(model, inputs=rows).report.verdict
    except UnsupportedOperator:
        return "refused"
    except InvalidInputError as error:
        return "nothing for new rows" if "infers nothing about new rows" in str(error) else str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.sampled(0.25)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "kind"), all_estimators())
def test_converts_and_passes(name, kind, dtype):
    made = next(iter(_construct_instances(kind)), None)
    model = None if made is None else fitted(made, dtype)
    if name == "SkewedChi2Sampler":  # it fits what it does not transform
        return
    if model is not None:
        expected = dict.fromkeys(REFUSED, "refused") | dict.fromkeys(UNPROVED, "unproved")
        expected |= dict.fromkeys(NOTHING_NEW, "nothing for new rows")
        assert outcome(*model) == expected.get(name, "passed")
