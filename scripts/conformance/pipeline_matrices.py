"""Pipelines over matrices of numbers that end in one model."""

from __future__ import annotations

from typing import Any

from sklearn.cluster import FeatureAgglomeration
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, FastICA, KernelPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomTreesEmbedding,
    VotingRegressor,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  (importing enables it)
from sklearn.feature_selection import (
    RFE,
    SelectFromModel,
    SelectKBest,
    SelectPercentile,
    SequentialFeatureSelector,
    VarianceThreshold,
    f_regression,
    mutual_info_classif,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.impute import IterativeImputer, KNNImputer, MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    HuberRegressor,
    LassoCV,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    RANSACRegressor,
    Ridge,
    RidgeCV,
    SGDClassifier,
    TweedieRegressor,
)
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
)
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    NeighborhoodComponentsAnalysis,
)
from sklearn.neural_network import BernoulliRBM, MLPClassifier, MLPRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC, NuSVR
from sklearn.tree import DecisionTreeClassifier

from scripts.conformance.pipeline_cases import (
    cancer,
    case,
    counts,
    diabetes,
    digits,
    fitness,
    gaps,
    iris,
    pictures,
    sensors,
    wine,
)

# -- scalers, components, linear models ----------------------------------------------------------------------------------------


@case(cancer, "kind")
def scaled_logistic() -> Any:
    """StandardScaler, LogisticRegression."""
    return make_pipeline(StandardScaler(), LogisticRegression())


@case(cancer, "word")
def grid_of_components() -> Any:
    """GridSearchCV over StandardScaler, PCA, LogisticRegression; words as labels."""
    steps = [("scale", StandardScaler()), ("pca", PCA()), ("clf", LogisticRegression())]
    return GridSearchCV(Pipeline(steps), {"pca__n_components": [3, 0.9], "clf__C": [0.1, 1.0]}, cv=2)


@case(digits, "digit")
def random_search_of_steps() -> Any:
    """RandomizedSearchCV whose steps may be "passthrough"; LinearSVC."""
    steps = [("scale", "passthrough"), ("reduce", PCA(12)), ("clf", LinearSVC(max_iter=200))]
    grid = {"scale": ["passthrough", MinMaxScaler()], "reduce": ["passthrough", PCA(16)], "clf__C": [0.1, 1.0]}
    return RandomizedSearchCV(Pipeline(steps), grid, n_iter=4, cv=2, random_state=0)


@case(diabetes, "value")
def polynomial_lasso() -> Any:
    """PolynomialFeatures, StandardScaler, LassoCV."""
    return make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler(), LassoCV(cv=2, eps=0.05))


@case(diabetes, "value")
def splines_ridge() -> Any:
    """SplineTransformer (linear beyond the ends), RidgeCV."""
    return make_pipeline(SplineTransformer(n_knots=4, extrapolation="linear"), RidgeCV())


@case(diabetes, "value")
def binned_elastic_net() -> Any:
    """KBinsDiscretizer by quantiles beside the numbers, ElasticNetCV."""
    bins = KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf")
    return make_pipeline(make_union(bins, StandardScaler()), ElasticNetCV(cv=2, eps=0.05))


@case(diabetes, "count")
def poisson() -> Any:
    """RobustScaler, PoissonRegressor."""
    return make_pipeline(RobustScaler(), PoissonRegressor(alpha=0.1))


@case(sensors, "positive")
def tweedie_float32() -> Any:
    """MinMaxScaler, TweedieRegressor on float32 rows."""
    return make_pipeline(MinMaxScaler(), TweedieRegressor(power=1.5, max_iter=200))


@case(diabetes, "value")
def robust_models_vote() -> Any:
    """VotingRegressor of HuberRegressor, RANSACRegressor and BayesianRidge."""
    ransac = RANSACRegressor(Ridge(), min_samples=0.3, random_state=0)
    parts = [("huber", HuberRegressor(max_iter=300)), ("ransac", ransac), ("bayes", BayesianRidge())]
    return VotingRegressor([(name, make_pipeline(RobustScaler(), part)) for name, part in parts], weights=[2, 1, 1])


@case(wine, "letter")
def discriminants() -> Any:
    """PowerTransformer, LinearDiscriminantAnalysis as a transformer, QuadraticDiscriminantAnalysis."""
    return make_pipeline(PowerTransformer(), LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis())


@case(wine, "kind")
def quantiles_neighbors() -> Any:
    """QuantileTransformer to normal, KNeighborsClassifier by distance."""
    quantiles = QuantileTransformer(n_quantiles=50, output_distribution="normal")
    return make_pipeline(quantiles, KNeighborsClassifier(7, weights="distance"))


@case(iris, "word")
def learned_metric() -> Any:
    """NeighborhoodComponentsAnalysis, KNeighborsClassifier; words as labels."""
    nca = NeighborhoodComponentsAnalysis(2, max_iter=20, random_state=0)
    return make_pipeline(StandardScaler(), nca, KNeighborsClassifier(3))


@case(cancer, "benign")
def independent_components() -> Any:
    """FastICA, LogisticRegressionCV; booleans as labels."""
    ica = FastICA(5, whiten="unit-variance", random_state=0)
    return make_pipeline(
        StandardScaler(), ica, LogisticRegressionCV(Cs=3, cv=2, l1_ratios=(0,), use_legacy_attributes=False)
    )


@case(fitness, "body")
def partial_least_squares() -> Any:
    """StandardScaler, PLSRegression of three targets."""
    return make_pipeline(StandardScaler(), PLSRegression(2))


@case(fitness, "body")
def boosting_per_target() -> Any:
    """MultiOutputRegressor of GradientBoostingRegressor behind a scaler."""
    return make_pipeline(StandardScaler(), MultiOutputRegressor(GradientBoostingRegressor(n_estimators=10)))


@case(fitness, "body")
def chained_regression() -> Any:
    """RegressorChain of Ridge over splines."""
    return RegressorChain(make_pipeline(SplineTransformer(n_knots=3), Ridge()), order=[2, 0, 1])


# -- kernels, neural networks, naive Bayes -----------------------------------------------------------------------------------


@case(iris, "from_one")
def kernel_components() -> Any:
    """KernelPCA (rbf), LogisticRegression; labels from 1 on."""
    return make_pipeline(StandardScaler(), KernelPCA(3, kernel="rbf", gamma=0.2), LogisticRegression())


@case(digits, "digit")
def nystroem_sgd() -> Any:
    """MinMaxScaler, Nystroem, SGDClassifier with probabilities."""
    kernel = Nystroem(gamma=0.05, n_components=40, random_state=0)
    return make_pipeline(MinMaxScaler(), kernel, SGDClassifier(loss="log_loss", max_iter=50, random_state=0))


@case(cancer, "word")
def fourier_features() -> Any:
    """RBFSampler, LinearSVC; words as labels."""
    return make_pipeline(StandardScaler(), RBFSampler(gamma=0.02, n_components=50, random_state=0), LinearSVC())


@case(iris, "word")
def support_vectors() -> Any:
    """StandardScaler, SVC one against one; words as labels."""
    return make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo"))


@case(sensors, "fault")
def support_vectors_float32() -> Any:
    """StandardScaler, SVC on float32 rows."""
    return make_pipeline(StandardScaler(), SVC(kernel="poly", degree=2))


@case(diabetes, "value")
def support_vector_regression() -> Any:
    """VotingRegressor of SVR and NuSVR behind scalers."""
    parts = [("svr", SVR(C=100.0)), ("nu", NuSVR(C=50.0, kernel="linear"))]
    return VotingRegressor([(name, make_pipeline(MinMaxScaler(), part)) for name, part in parts])


@case(digits, "digit")
def digits_network() -> Any:
    """MinMaxScaler, PCA, MLPClassifier."""
    return make_pipeline(MinMaxScaler(), PCA(20), MLPClassifier((16, 8), max_iter=30, random_state=0))


@case(sensors, "value")
def network_regression_float32() -> Any:
    """StandardScaler, MLPRegressor on float32 rows."""
    return make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=(12,), activation="tanh", max_iter=100, random_state=0)
    )


@case(digits, "digit")
def boltzmann_machine() -> Any:
    """BernoulliRBM features, LogisticRegression."""
    rbm = BernoulliRBM(20, learning_rate=0.06, n_iter=5, random_state=0)
    return make_pipeline(MinMaxScaler(), rbm, LogisticRegression(max_iter=50))


@case(pictures, "digit")
def pictures_flattened() -> Any:
    """FunctionTransformer that flattens pictures, BernoulliNB on binary points."""
    return make_pipeline(FunctionTransformer(flattened), BernoulliNB(binarize=8.0))


def flattened(x: Any) -> Any:
    """A picture as a row."""
    return x.reshape(x.shape[0], -1)


@case(diabetes, "value")
def gaussian_process() -> Any:
    """StandardScaler, GaussianProcessRegressor (RBF and white noise)."""
    kernel = ConstantKernel(1.0) * RBF(3.0) + WhiteKernel(0.5)
    return make_pipeline(StandardScaler(), PCA(4), GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True))


@case(iris, "kind")
def gaussian_process_classes() -> Any:
    """StandardScaler, GaussianProcessClassifier of three classes."""
    return make_pipeline(StandardScaler(), GaussianProcessClassifier(RBF(1.5), optimizer=None))


@case(wine, "kind")
def naive_bayes_on_agglomerated() -> Any:
    """FeatureAgglomeration, GaussianNB."""
    return make_pipeline(StandardScaler(), FeatureAgglomeration(5), GaussianNB())


# -- trees -------------------------------------------------------------------------------------------------------------------


@case(cancer, "benign")
def forest() -> Any:
    """RandomForestClassifier without scaling; booleans as labels."""
    return make_pipeline("passthrough", RandomForestClassifier(15, max_depth=6, random_state=0))


@case(gaps, "kind")
def trees_with_gaps() -> Any:
    """ExtraTreesClassifier on missing values."""
    return make_pipeline(ExtraTreesClassifier(15, max_depth=6, random_state=0))


@case(gaps, "kind")
def histograms_with_gaps() -> Any:
    """HistGradientBoostingClassifier on scaled rows with missing values."""
    return make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=5))


@case(counts, "value")
def histograms_with_categories() -> Any:
    """HistGradientBoostingRegressor, three columns of integers as categories."""
    return make_pipeline(HistGradientBoostingRegressor(max_iter=12, categorical_features=[0, 1, 2]))


@case(counts, "signed")
def boosting_signed() -> Any:
    """GradientBoostingClassifier on integers; labels -1 and 1."""
    return make_pipeline(GradientBoostingClassifier(n_estimators=12, max_depth=2))


@case(diabetes, "value")
def boosted_trees() -> Any:
    """AdaBoostRegressor (weighted median) behind a PCA."""
    return make_pipeline(PCA(5), AdaBoostRegressor(n_estimators=8, random_state=0))


@case(wine, "letter")
def boosted_stumps() -> Any:
    """AdaBoostClassifier; letters as labels."""
    return make_pipeline(RobustScaler(), AdaBoostClassifier(n_estimators=12, random_state=0))


@case(cancer, "kind")
def leaves_as_features() -> Any:
    """RandomTreesEmbedding, LogisticRegression."""
    return make_pipeline(RandomTreesEmbedding(8, max_depth=3, random_state=0), LogisticRegression())


# -- selection ---------------------------------------------------------------------------------------------------------------


@case(cancer, "kind")
def best_features() -> Any:
    """VarianceThreshold, SelectKBest by mutual information, RandomForestClassifier."""
    best = SelectKBest(mutual_info, k=6)
    return make_pipeline(VarianceThreshold(1e-3), best, RandomForestClassifier(8, max_depth=4, random_state=0))


def mutual_info(x: Any, y: Any) -> Any:
    """Mutual information with the target, the same on each run."""
    return mutual_info_classif(x, y, random_state=0)


@case(diabetes, "value")
def selected_by_models() -> Any:
    """SelectFromModel of ElasticNet, SelectPercentile, KNeighborsRegressor."""
    by_model = SelectFromModel(ElasticNet(alpha=0.01), threshold="0.5*mean")
    return make_pipeline(
        StandardScaler(), by_model, SelectPercentile(f_regression, percentile=80), KNeighborsRegressor()
    )


@case(cancer, "word")
def eliminated_features() -> Any:
    """RFE by a forest, SequentialFeatureSelector, LogisticRegression."""
    rfe = RFE(RandomForestClassifier(4, max_depth=3, random_state=0), n_features_to_select=6, step=8)
    forward = SequentialFeatureSelector(GaussianNB(), n_features_to_select=3, cv=2)
    return make_pipeline(rfe, forward, StandardScaler(), LogisticRegression())


# -- missing values ----------------------------------------------------------------------------------------------------------


@case(gaps, "kind")
def neighbors_impute() -> Any:
    """KNNImputer, StandardScaler, GradientBoostingClassifier."""
    return make_pipeline(KNNImputer(n_neighbors=3), StandardScaler(), GradientBoostingClassifier(n_estimators=5))


@case(gaps, "alcohol")
def iterations_impute() -> Any:
    """IterativeImputer (BayesianRidge) with indicators, Ridge."""
    return make_pipeline(IterativeImputer(max_iter=3, random_state=0, add_indicator=True), Ridge())


@case(gaps, "kind")
def union_of_imputers() -> Any:
    """FeatureUnion of SimpleImputer (median) and MissingIndicator, DecisionTreeClassifier."""
    union = FeatureUnion([("median", SimpleImputer(strategy="median")), ("missing", MissingIndicator(features="all"))])
    return make_pipeline(union, DecisionTreeClassifier(max_depth=5, random_state=0))
