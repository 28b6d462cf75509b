"""Random pipelines on random data give scikit-learn's own numbers; `scripts.conformance.random_pipelines` draws thousands."""

import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

import numpy as np  # noqa: E402
from hypothesis import HealthCheck, given, reject, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from scripts.conformance.random_data import Impossible  # noqa: E402
from scripts.conformance.random_draws import Drawn, Part, drawn  # noqa: E402
from scripts.conformance.random_judgement import judged  # noqa: E402


def part(kind, *parts, columns=(), **options):
    return Part(kind, tuple(options.items()), parts, columns)


def steps(*parts):
    return Part("Pipeline", (), parts)


def apart(first, remainder="passthrough"):
    return Part("ColumnTransformer", (("remainder", remainder),), (first,))


# What random draws once found: each is the least draw that showed it.
FOUND = {
    "pairs of classes, some of them without a score": Drawn(
        part("OneVsOneClassifier", part("LabelSpreading", kernel="rbf", gamma=0.1)),
        "classes",
        seed=25707,
        features=2,
        scale=10000.0,
        offset=1000.0,
        classes=4,
    ),
    "polynomials of half precision": Drawn(
        steps(
            part("MissingIndicator", features="all"),
            part("FunctionTransformer", func=np.log1p),
            part("PolynomialFeatures"),
        ),
        "nothing",
    ),
    "sure members of a bag in float32": Drawn(
        part(
            "BaggingClassifier",
            part("MLPClassifier", hidden_layer_sizes=(4, 3), max_iter=20),
            n_estimators=3,
            max_samples=0.5,
        ),
        "classes",
        classes=4,
        dtype="float32",
        features=2,
        repeated=True,
        offset=1000.0,
        scale=10000.0,
    ),
    "stacked labels of several columns": Drawn(
        part(
            "StackingClassifier",
            part("ExtraTreeClassifier"),
            part("ExtraTreeClassifier"),
            part("ExtraTreeClassifier"),
            cv=2,
        ),
        "classes",
        targets=2,
    ),
    "a likelihood of sparse rows of float32": Drawn(
        steps(part("TfidfTransformer", norm="l1"), part("BernoulliRBM", n_components=4, n_iter=3)),
        "nothing",
        dtype="float32",
        values="positive",
    ),
    "labels of a process of several classes": Drawn(part("GaussianProcessClassifier"), "classes", classes=3),
    "infrequent categories beside missing values": Drawn(
        part("OrdinalEncoder", handle_unknown="use_encoded_value", unknown_value=-1, max_categories=3),
        "nothing",
        missing=True,
    ),
    "a kernel with sparse rows": Drawn(steps(part("TfidfTransformer"), part("Nystroem"), part("PCA")), "nothing"),
    "sparse centres": Drawn(
        steps(part("OneHotEncoder", handle_unknown="ignore"), part("AffinityPropagation")), "nothing", digits=0
    ),
    "splines of a constant column": Drawn(
        part("SplineTransformer", extrapolation="continue", n_knots=3, degree=2),
        "nothing",
        features=2,
        seed=1,
        constant=True,
    ),
    "periodic splines of a constant column": Drawn(
        part("SplineTransformer", extrapolation="periodic", n_knots=5), "nothing", constant=True
    ),
    "logarithms of splines at the greatest fitted row": Drawn(
        steps(
            apart(
                part(
                    "SplineTransformer",
                    n_knots=5,
                    degree=2,
                    knots="quantile",
                    extrapolation="linear",
                    columns=(0, 1, 2, 3, 4),
                )
            ),
            part("TfidfTransformer", sublinear_tf=True, norm=None),
            part("LogisticRegression", C=100.0, fit_intercept=False, max_iter=200),
        ),
        "classes",
        values="positive",
        opset=17,
        seed=1379,
        features=5,
        digits=2,
        scale=0.0,
        repeated=True,
        classes=4,
        labels="str",
    ),
    "a calibrated classifier of fewer classes": Drawn(
        part("CalibratedClassifierCV", part("LabelSpreading", kernel="knn"), ensemble=False), "classes", classes=3
    ),
    "a scale before a product of one column": Drawn(
        steps(apart(part("VarianceThreshold", columns=(0,)), remainder="drop"), part("SVC")),
        "classes",
        classes=4,
    ),
    "distances of float32 centres": Drawn(
        part("KMeans", n_clusters=5, n_init=1),
        "nothing",
        values="positive",
        dtype="float32",
        features=2,
        digits=0,
        scale=0.0,
        seed=1,
    ),
    "an imputed column without any value": Drawn(
        steps(part("FunctionTransformer", func=np.log1p), part("SimpleImputer", strategy="constant")),
        "nothing",
        offset=-9.0,
        missing=True,
    ),
    "no column chosen": Drawn(
        apart(part("SelectPercentile", percentile=50, columns=(0,))), "classes", classes=3, seed=43034
    ),
    "no category left": Drawn(
        apart(part("OneHotEncoder", drop="first", handle_unknown="ignore", columns=(0,))), "nothing", constant=True
    ),
    "a likelihood without volume": Drawn(
        part("PCA"), "nothing", seed=22, scale=0.0, offset=1000.0, constant=True, repeated=True
    ),
    "float32 rows after a float64 mean": Drawn(
        steps(part("PolynomialFeatures"), part("IncrementalPCA", n_components=2)),
        "nothing",
        dtype="float32",
        features=5,
    ),
    "distances of parallel rows": Drawn(
        part("KNeighborsClassifier", n_neighbors=3, weights="distance", metric="cosine"),
        "classes",
        values="positive",
        dtype="int64",
        features=5,
        classes=3,
        seed=37194,
    ),
    "a feature's number after an iteration": Drawn(
        steps(part("NMF", n_components=2), part("SelectKBest", k=1), part("GaussianNB")), "classes", values="positive"
    ),
    "pooled booleans": Drawn(
        steps(
            part("MissingIndicator", features="all"), part("FeatureAgglomeration", n_clusters=2, pooling_func=np.max)
        ),
        "nothing",
        opset=13,
        features=5,
        missing=True,
    ),
    "neighbours among sparse float32 rows": Drawn(
        steps(
            part("KBinsDiscretizer"),
            part("RadiusNeighborsTransformer"),
            part("LocalOutlierFactor", novelty=True),
        ),
        "nothing",
        dtype="float32",
    ),
    "a scale beside a scale before a product": Drawn(
        steps(part("MinMaxScaler"), part("Birch"), part("MaxAbsScaler"), part("PolynomialCountSketch"), part("SVR")),
        "numbers",
    ),
    "quantiles of a sparse matrix": Drawn(
        steps(
            part("OneHotEncoder", handle_unknown="ignore"), part("QuantileTransformer", output_distribution="normal")
        ),
        "nothing",
        digits=0,
    ),
    "distances in units of a deviation that is rounding": Drawn(
        steps(
            part("FeatureUnion", part("RadiusNeighborsTransformer", mode="connectivity"), part("passthrough")),
            part("NearestCentroid"),
        ),
        "classes",
        features=2,
        scale=1e-3,
    ),
    "float32 rows between bisected clusters": Drawn(
        part("BisectingKMeans"), "nothing", dtype="float32", seed=35138, offset=1000.0, constant=True
    ),
    "neighbours nearer than a product tells": Drawn(
        steps(
            apart(part("VarianceThreshold", columns=("c0", "c1", "c2", "c3")), remainder="drop"),
            part("BernoulliRBM", n_components=4, n_iter=3),
            part("LocalOutlierFactor", novelty=True, n_neighbors=5),
        ),
        "nothing",
        features=5,
        scale=0.0,
        frame=True,
    ),
    "columns of rounding errors": Drawn(
        steps(apart(part("PolynomialCountSketch", columns=("c0",)), remainder="drop"), part("PowerTransformer")),
        "nothing",
        frame=True,
    ),
    "weights that cancel": Drawn(
        steps(
            apart(part("OneHotEncoder", columns=(0, 1)), remainder="drop"),
            steps(part("SelectFromModel", part("LinearSVC")), part("NuSVC", nu=0.1, kernel="sigmoid")),
        ),
        "classes",
        seed=17268,
        features=5,
        digits=0,
    ),
    "logarithms of negative counts": Drawn(part("TfidfTransformer", sublinear_tf=True, norm=None), "nothing"),
    "missing values of a sparse matrix in isolation trees": Drawn(
        steps(part("TfidfTransformer", sublinear_tf=True, norm=None), part("IsolationForest")), "nothing"
    ),
    "rows nearly as near to one that lacks a number": Drawn(
        steps(
            part(
                "ColumnTransformer",
                part("VarianceThreshold", columns=("c0",)),
                part(
                    "OrdinalEncoder", handle_unknown="use_encoded_value", unknown_value=float("nan"), columns=("words",)
                ),
                remainder="drop",
            ),
            part("KNNImputer", n_neighbors=5),
            part("LogisticRegression"),
        ),
        "classes",
        classes=4,
        values="positive",
        seed=37040,
        features=2,
        scale=0.001,
        repeated=True,
        frame=True,
    ),
    "float32 logarithms of what no estimator allows": Drawn(
        part("BaggingClassifier", part("SGDClassifier", loss="modified_huber"), n_estimators=3, max_samples=0.5),
        "classes",
        dtype="float32",
        classes=4,
    ),
    "steep steps of an isotonic calibration": Drawn(
        part("CalibratedClassifierCV", part("LabelSpreading", gamma=0.1), method="isotonic"),
        "classes",
        scale=1e-3,
        classes=4,
    ),
}


@pytest.mark.sampled(0.6)
@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND)
def test_what_was_found(found):
    outcome = judged(found)
    assert outcome.verdict == "right", f"{outcome.method}: {outcome.reason}"


@given(st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_random_pipelines(random):
    draw = drawn(random.choice)
    try:
        outcome = judged(draw)
    except Impossible:
        reject()
    assert outcome.verdict in ("right", "refused"), f"{outcome.verdict} {outcome.method}: {outcome.reason}\n{draw}"
