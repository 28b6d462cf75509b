"""Labels equal scikit-learn's exactly on 10,000 fresh rows, for numeric classifiers, clusterers and outlier detectors."""

import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

from sklearn import (  # noqa: E402
    cluster,
    covariance,
    datasets,
    discriminant_analysis,
    gaussian_process,
    linear_model,
    mixture,
    neighbors,
    neural_network,
    semi_supervised,
    svm,
)

from onnxport.converters.to_onnx.sklearn import export  # noqa: E402
from onnxport.request import Request  # noqa: E402

PIXELS, DIGITS = datasets.load_digits(return_X_y=True)
PIXELS, DIGITS = PIXELS[:600] / 16, DIGITS[:600]
DRAWN = np.random.default_rng(0)
FRESH = PIXELS[DRAWN.integers(0, len(PIXELS), 10_000)] + 0.3 * DRAWN.normal(size=(10_000, PIXELS.shape[1]))
COUNTS = np.random.default_rng(1).integers(0, 30, size=(10_400, 3)).astype(float)

CLASSIFIERS = [
    svm.SVC(),
    svm.SVC(kernel="poly", decision_function_shape="ovo"),
    svm.SVC(kernel="sigmoid", break_ties=True),
    svm.NuSVC(nu=0.05, kernel="linear"),
    svm.LinearSVC(),
    linear_model.LogisticRegression(max_iter=500),
    linear_model.SGDClassifier(random_state=0),
    linear_model.RidgeClassifier(),
    discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
    discriminant_analysis.QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.1),
    neighbors.NearestCentroid(),
    neighbors.KNeighborsClassifier(),
    neighbors.KNeighborsClassifier(weights="distance", algorithm="kd_tree"),
    neighbors.RadiusNeighborsClassifier(radius=3.0, outlier_label=0),
    neural_network.MLPClassifier((16,), max_iter=60, tol=1e-2, random_state=0),
    semi_supervised.LabelSpreading(gamma=0.2),
]
OTHERS = [
    svm.OneClassSVM(nu=0.1),
    linear_model.SGDOneClassSVM(random_state=0),
    neighbors.LocalOutlierFactor(novelty=True),
    covariance.EllipticEnvelope(support_fraction=0.95, random_state=0),
    cluster.KMeans(8, n_init=1, random_state=0),
    cluster.BisectingKMeans(8, random_state=0),
    cluster.Birch(threshold=2.0, n_clusters=5),
    cluster.MeanShift(bandwidth=2.5),
    mixture.GaussianMixture(4, reg_covar=0.1, random_state=0),
    mixture.BayesianGaussianMixture(n_components=4, reg_covar=0.1, covariance_type="diag", tol=1.0, random_state=0),
]
# scikit-learn's k-means take float32 rows only after a fit on them
ONLY_DOUBLE = (cluster.KMeans, cluster.BisectingKMeans)


def fitted(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what scikit-learn says about the fit on this data is not at stake
        return model.fit(*data)


def differing(model, rows):
    converted = export(model, Request(inputs=rows[:9], methods=["predict"]))
    return int(np.sum(converted(rows) != model.predict(rows)))


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_classifiers(model, dtype):
    rows = FRESH.astype(dtype)
    assert differing(fitted(model, PIXELS, DIGITS), rows) == 0
    if not isinstance(model, (svm.NuSVC, neighbors.RadiusNeighborsClassifier)):
        assert differing(fitted(model, PIXELS, np.where(DIGITS > 4, "high", "low")), rows[:2000]) == 0


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", OTHERS, ids=str)
def test_clusters_and_outliers(model, dtype):
    if dtype == np.float32 and isinstance(model, ONLY_DOUBLE):
        pytest.skip("scikit-learn itself fails on these rows")
    assert differing(fitted(model, PIXELS), FRESH.astype(dtype)) == 0


def test_gaussian_process():
    model = gaussian_process.GaussianProcessClassifier(optimizer=None).fit(PIXELS[:100], DIGITS[:100])
    assert differing(model, FRESH[:2000]) == 0


@pytest.mark.parametrize("algorithm", ["kd_tree", "ball_tree"])
def test_of_repeated_rows_that_which_the_tree_meets_first_wins(algorithm):
    repeated, rows = np.repeat(FRESH[:10, 20:24], 3, axis=0), FRESH[:, 20:24]
    labels = np.random.default_rng(2).integers(0, 5, len(repeated))
    model = neighbors.KNeighborsClassifier(1, algorithm=algorithm).fit(repeated, labels)
    assert differing(model, rows) == 0


@pytest.mark.parametrize("columns", [2, 3])
def test_a_row_on_the_radius_counts(columns):
    rows = COUNTS[:, :columns] / 10
    model = neighbors.RadiusNeighborsClassifier(0.5, algorithm="kd_tree", outlier_label=0)
    assert differing(fitted(model, rows[:400], np.arange(400) % 3), rows[400:]) == 0


@pytest.mark.parametrize(("kernel", "size"), [("linear", 1e307), ("poly", 1e120)])
@pytest.mark.parametrize("words", [("no", "yes"), (0, 1)])
def test_two_classes_whose_score_overflows(kernel, size, words):
    rows = np.random.default_rng(2).normal(size=(200, 4))
    source = svm.SVC(kernel=kernel, coef0=1.0).fit(
        rows, np.array(words)[(rows[:, 0] + 0.3 * rows[:, 1] > 0).astype(int)]
    )
    with np.errstate(all="ignore"):
        assert not np.isfinite(source.decision_function(rows * size)).all()
    assert differing(source, rows) == differing(source, rows * size) == 0
