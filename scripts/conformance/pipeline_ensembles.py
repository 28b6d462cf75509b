"""Pipelines inside models: votes, stacks, calibration, many labels; and models without a target."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import Birch, KMeans, MiniBatchKMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_transformer
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    Ridge,
)
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.model_selection import (
    FixedThresholdClassifier,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    LocalOutlierFactor,
)
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

from scripts.conformance.pipeline_cases import cancer, case, counts, diabetes, digits, iris, sensors, wine

# -- ensembles of pipelines --------------------------------------------------------------------------------------------------


@case(iris, "word")
def soft_vote() -> Any:
    """VotingClassifier (soft, weighted) of three pipelines; words as labels."""
    parts = [
        ("linear", make_pipeline(StandardScaler(), LogisticRegression())),
        ("bayes", make_pipeline(PCA(2), GaussianNB())),
        ("trees", RandomForestClassifier(8, max_depth=3, random_state=0)),
    ]
    return VotingClassifier(parts, voting="soft", weights=[2, 1, 1])


@case(wine, "letter")
def hard_vote() -> Any:
    """VotingClassifier (hard) of pipelines, one dropped; letters as labels."""
    parts = [
        ("svm", make_pipeline(StandardScaler(), SVC())),
        ("near", make_pipeline(MinMaxScaler(), KNeighborsClassifier())),
        ("none", "drop"),
        ("tree", DecisionTreeClassifier(max_depth=3, random_state=0)),
    ]
    return VotingClassifier(parts)


@case(cancer, "word")
def stacked_classifiers() -> Any:
    """StackingClassifier of pipelines with passthrough; words as labels."""
    parts = [
        ("svm", make_pipeline(StandardScaler(), LinearSVC())),
        ("forest", RandomForestClassifier(6, max_depth=4, random_state=0)),
    ]
    final = make_pipeline(StandardScaler(), LogisticRegression())
    return StackingClassifier(parts, final, cv=2, passthrough=True)


@case(diabetes, "value")
def stacked_regressors() -> Any:
    """StackingRegressor of pipelines, GradientBoostingRegressor at the end."""
    parts = [
        ("ridge", make_pipeline(PolynomialFeatures(2), Ridge())),
        ("near", make_pipeline(StandardScaler(), KNeighborsRegressor())),
        ("forest", RandomForestRegressor(6, max_depth=4, random_state=0)),
    ]
    return StackingRegressor(parts, GradientBoostingRegressor(n_estimators=10, random_state=0), cv=2)


@case(cancer, "benign")
def calibrated_isotonic() -> Any:
    """CalibratedClassifierCV (isotonic) over a pipeline of LinearSVC; booleans as labels."""
    return CalibratedClassifierCV(make_pipeline(StandardScaler(), LinearSVC()), method="isotonic", cv=2)


@case(wine, "letter")
def calibrated_temperature() -> Any:
    """CalibratedClassifierCV (temperature) over a pipeline of three classes; letters as labels."""
    return CalibratedClassifierCV(make_pipeline(StandardScaler(), PCA(4), GaussianNB()), method="temperature", cv=2)


@case(cancer, "kind")
def bagged_pipelines() -> Any:
    """BaggingClassifier of pipelines on some of the features."""
    part = make_pipeline(StandardScaler(), LogisticRegression())
    return BaggingClassifier(part, 5, max_features=0.5, random_state=0)


@case(diabetes, "value")
def bagged_regression() -> Any:
    """BaggingRegressor of KNeighborsRegressor behind a scaler."""
    return BaggingRegressor(make_pipeline(StandardScaler(), KNeighborsRegressor(3)), 4, random_state=0)


@case(diabetes, "value")
def logarithm_of_target() -> Any:
    """TransformedTargetRegressor (log1p, expm1) of a pipeline."""
    return TransformedTargetRegressor(make_pipeline(StandardScaler(), Ridge()), func=np.log1p, inverse_func=np.expm1)


@case(diabetes, "value")
def quantiles_of_target() -> Any:
    """TransformedTargetRegressor with QuantileTransformer, inside a pipeline."""
    quantiles = QuantileTransformer(n_quantiles=40, output_distribution="normal")
    return make_pipeline(StandardScaler(), TransformedTargetRegressor(LinearRegression(), transformer=quantiles))


@case(cancer, "kind")
def tuned_threshold() -> Any:
    """TunedThresholdClassifierCV over a pipeline."""
    return TunedThresholdClassifierCV(make_pipeline(StandardScaler(), LogisticRegression()), cv=2, thresholds=15)


@case(cancer, "word")
def fixed_threshold() -> Any:
    """FixedThresholdClassifier over a pipeline; words as labels."""
    part = make_pipeline(StandardScaler(), GaussianNB())
    return FixedThresholdClassifier(part, threshold=0.3, pos_label="malignant")


# -- many classes, many labels -----------------------------------------------------------------------------------------------


@case(digits, "digit")
def one_against_rest() -> Any:
    """OneVsRestClassifier of pipelines of SVC."""
    return OneVsRestClassifier(make_pipeline(MinMaxScaler(), SVC(gamma=0.05)))


@case(wine, "letter")
def one_against_one() -> Any:
    """OneVsOneClassifier of LinearSVC behind a scaler; letters as labels."""
    return make_pipeline(StandardScaler(), OneVsOneClassifier(LinearSVC()))


@case(iris, "from_one")
def output_codes() -> Any:
    """OutputCodeClassifier of LogisticRegression; labels from 1 on."""
    return make_pipeline(StandardScaler(), OutputCodeClassifier(LogisticRegression(), code_size=2, random_state=0))


@case(sensors, "faults")
def labels_apart() -> Any:
    """MultiOutputClassifier of pipelines on float32 rows."""
    return MultiOutputClassifier(make_pipeline(StandardScaler(), LogisticRegression()))


@case(sensors, "faults")
def chained_labels() -> Any:
    """ClassifierChain behind a scaler on float32 rows."""
    return make_pipeline(StandardScaler(), ClassifierChain(LogisticRegression(), order=[1, 0]))


@case(sensors, "faults")
def forest_of_labels() -> Any:
    """RandomForestClassifier of two labels at once, on float32 rows."""
    return make_pipeline(MinMaxScaler(), RandomForestClassifier(6, max_depth=4, random_state=0))


# -- without a target --------------------------------------------------------------------------------------------------------


@case(wine)
def isolation_forest() -> Any:
    """RobustScaler, IsolationForest with some of the features."""
    forest = IsolationForest(n_estimators=12, max_samples=64, max_features=0.7, contamination=0.1, random_state=0)
    return make_pipeline(RobustScaler(), forest)


@case(iris)
def local_outliers() -> Any:
    """StandardScaler, LocalOutlierFactor for novelty."""
    return make_pipeline(StandardScaler(), LocalOutlierFactor(10, novelty=True))


@case(cancer)
def one_class() -> Any:
    """StandardScaler, PCA, OneClassSVM."""
    return make_pipeline(StandardScaler(), PCA(5), OneClassSVM(nu=0.1))


@case(iris)
def elliptic_envelope() -> Any:
    """StandardScaler, EllipticEnvelope."""
    return make_pipeline(StandardScaler(), EllipticEnvelope(contamination=0.1, random_state=0))


@case(wine, "kind")
def clusters_as_features() -> Any:
    """FeatureUnion of KMeans distances and weighted PCA, LogisticRegression."""
    parts = [("clusters", KMeans(5, n_init=1, random_state=0)), ("pca", PCA(3))]
    return make_pipeline(StandardScaler(), FeatureUnion(parts, transformer_weights={"pca": 0.5}), LogisticRegression())


@case(digits)
def clustered_digits() -> Any:
    """IncrementalPCA, Normalizer, MiniBatchKMeans."""
    clusters = MiniBatchKMeans(6, n_init=1, random_state=0)
    return make_pipeline(IncrementalPCA(8), Normalizer(), clusters)


@case(iris)
def birch() -> Any:
    """MinMaxScaler, Birch."""
    return make_pipeline(MinMaxScaler(), Birch(threshold=0.2, n_clusters=3))


@case(iris)
def gaussian_mixture() -> Any:
    """StandardScaler, GaussianMixture."""
    return make_pipeline(StandardScaler(), GaussianMixture(3, random_state=0))


@case(wine)
def bayesian_mixture() -> Any:
    """PCA, BayesianGaussianMixture."""
    mixture = BayesianGaussianMixture(n_components=4, covariance_type="diag", random_state=0, max_iter=50)
    return make_pipeline(StandardScaler(), PCA(3), mixture)


# -- columns of a matrix -----------------------------------------------------------------------------------------------------


@case(wine, "kind")
def columns_of_a_matrix() -> Any:
    """ColumnTransformer by positions, slices, masks and negative numbers over an array."""
    mask = [i in (5, 7) for i in range(13)]
    parts = [
        (StandardScaler(), [0, 1]),
        (KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf"), slice(2, 4)),
        (PowerTransformer(), mask),
        (FunctionTransformer(np.sqrt), [-1]),
    ]
    return make_pipeline(make_column_transformer(*parts, remainder=MinMaxScaler()), LogisticRegression(max_iter=300))


@case(counts, "value")
def codes_of_a_matrix() -> Any:
    """ColumnTransformer over integers: OneHotEncoder of codes, the rest dropped; LinearRegression."""
    parts = [
        ("codes", OneHotEncoder(handle_unknown="ignore", drop="if_binary"), slice(0, 3)),
        ("count", "passthrough", [4]),
    ]
    return make_pipeline(ColumnTransformer(parts), LinearRegression())
