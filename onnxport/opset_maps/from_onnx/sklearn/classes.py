"""The classes of scikit-learn that a file may name, by module; no other is ever imported for one."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from onnxport.errors import UnsupportedOperator

_BY_MODULE = {
    "calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration",
    "cluster": "AffinityPropagation Birch BisectingKMeans FeatureAgglomeration KMeans MeanShift MiniBatchKMeans",
    "compose": "ColumnTransformer TransformedTargetRegressor",
    "covariance": (
        "EllipticEnvelope EmpiricalCovariance GraphicalLasso GraphicalLassoCV LedoitWolf MinCovDet OAS ShrunkCovariance"
    ),
    "cross_decomposition": "CCA PLSCanonical PLSRegression PLSSVD",
    "decomposition": (
        "PCA IncrementalPCA TruncatedSVD FactorAnalysis FastICA KernelPCA NMF MiniBatchNMF SparsePCA MiniBatchSparsePCA "
        "DictionaryLearning MiniBatchDictionaryLearning SparseCoder LatentDirichletAllocation"
    ),
    "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "dummy": "DummyClassifier DummyRegressor",
    "ensemble": (
        "AdaBoostClassifier AdaBoostRegressor BaggingClassifier BaggingRegressor ExtraTreesClassifier ExtraTreesRegressor "
        "GradientBoostingClassifier GradientBoostingRegressor IsolationForest RandomForestClassifier RandomForestRegressor "
        "RandomTreesEmbedding StackingClassifier StackingRegressor VotingClassifier VotingRegressor"
    ),
    "feature_extraction": "DictVectorizer FeatureHasher",
    "feature_extraction.text": "CountVectorizer HashingVectorizer TfidfTransformer TfidfVectorizer",
    "feature_selection": (
        "GenericUnivariateSelect RFE RFECV SelectFdr SelectFpr SelectFromModel SelectFwe SelectKBest SelectPercentile "
        "SequentialFeatureSelector VarianceThreshold"
    ),
    "frozen": "FrozenEstimator",
    "impute": "KNNImputer MissingIndicator SimpleImputer",
    "isotonic": "IsotonicRegression",
    "kernel_approximation": "AdditiveChi2Sampler Nystroem PolynomialCountSketch RBFSampler SkewedChi2Sampler",
    "kernel_ridge": "KernelRidge",
    "linear_model": (
        "ARDRegression BayesianRidge ElasticNet ElasticNetCV GammaRegressor HuberRegressor Lars LarsCV Lasso LassoCV LassoLars "
        "LassoLarsCV LassoLarsIC LinearRegression LogisticRegression LogisticRegressionCV MultiTaskElasticNet "
        "MultiTaskElasticNetCV MultiTaskLasso MultiTaskLassoCV OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV "
        "PassiveAggressiveClassifier PassiveAggressiveRegressor Perceptron PoissonRegressor QuantileRegressor RANSACRegressor "
        "Ridge RidgeCV RidgeClassifier RidgeClassifierCV SGDClassifier SGDOneClassSVM SGDRegressor TheilSenRegressor "
        "TweedieRegressor"
    ),
    "mixture": "BayesianGaussianMixture GaussianMixture",
    "model_selection": ("FixedThresholdClassifier GridSearchCV RandomizedSearchCV TunedThresholdClassifierCV"),
    "multiclass": "_ConstantPredictor OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier",
    "multioutput": "ClassifierChain MultiOutputClassifier MultiOutputRegressor RegressorChain",
    "naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
    "neighbors": (
        "KNeighborsClassifier KNeighborsRegressor KNeighborsTransformer LocalOutlierFactor NearestCentroid NearestNeighbors "
        "NeighborhoodComponentsAnalysis RadiusNeighborsClassifier RadiusNeighborsRegressor RadiusNeighborsTransformer"
    ),
    "neural_network": "BernoulliRBM MLPClassifier MLPRegressor",
    "pipeline": "FeatureUnion Pipeline",
    "preprocessing": (
        "Binarizer FunctionTransformer KBinsDiscretizer KernelCenterer LabelBinarizer LabelEncoder MaxAbsScaler MinMaxScaler "
        "MultiLabelBinarizer Normalizer OneHotEncoder OrdinalEncoder PolynomialFeatures PowerTransformer QuantileTransformer "
        "RobustScaler StandardScaler TargetEncoder"
    ),
    "random_projection": "GaussianRandomProjection SparseRandomProjection",
    "semi_supervised": "LabelPropagation LabelSpreading SelfTrainingClassifier",
    "svm": "LinearSVC LinearSVR NuSVC NuSVR OneClassSVM SVC SVR",
    "tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor",
}
_MODULES = {name: module for module, names in _BY_MODULE.items() for name in names.split()}


def may_be_named(name: str) -> bool:
    """Whether a file may name a class."""
    return name in _MODULES


@cache
def class_of(name: str) -> Any:
    """The class of a name.

    Raises:
        UnsupportedOperator: the name is none of the list, or the installed scikit-learn has no such class.
    """
    module = _MODULES.get(name)
    kind = getattr(import_module(f"sklearn.{module}"), name, None) if module is not None else None
    if kind is None:
        raise UnsupportedOperator(f"{name!r} is none of the estimators that a file may name")
    return kind
