"""The estimators that random pipelines are made of, each with the options that it is drawn with."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels

FOREST = {"n_estimators": [3, 10], "max_depth": [3, None], "min_samples_leaf": [1, 3]}
KERNELS = ["rbf", "linear", "poly", "sigmoid"]
PROCESSES = [kernels.Matern(nu=1.5), kernels.RationalQuadratic() + kernels.WhiteKernel(0.1), 2.0 * kernels.DotProduct()]
LINE: dict[str, list[Any]] = {"alpha": [0.1, 1.0], "fit_intercept": [True, False]}

# The first value of an option is the plainest: what a difference is reduced to.
ANYWHERE: dict[str, dict[str, list[Any]]] = {
    "StandardScaler": {"with_mean": [True, False], "with_std": [True, False]},
    "MinMaxScaler": {"feature_range": [(0, 1), (-1, 2)], "clip": [False, True]},
    "MaxAbsScaler": {},
    "RobustScaler": {
        "with_centering": [True, False],
        "quantile_range": [(25.0, 75.0), (10.0, 90.0)],
        "unit_variance": [False, True],
    },
    "PowerTransformer": {"standardize": [True, False]},
    "QuantileTransformer": {"n_quantiles": [20, 50], "output_distribution": ["uniform", "normal"]},
    "SimpleImputer": {"strategy": ["mean", "median", "most_frequent", "constant"], "add_indicator": [False, True]},
    "KNNImputer": {"n_neighbors": [3, 5], "weights": ["uniform", "distance"], "add_indicator": [False, True]},
    "IterativeImputer": {"max_iter": [2], "initial_strategy": ["mean", "median"]},
    "MissingIndicator": {"features": ["all", "missing-only"]},
    "VarianceThreshold": {"threshold": [0.0, 0.1]},
    "FunctionTransformer": {"func": [None, np.tanh, np.abs, np.log1p]},
    "OneHotEncoder": {
        "handle_unknown": ["ignore", "infrequent_if_exist"],
        "drop": [None, "if_binary", "first"],
        "min_frequency": [None, 4],
        "sparse_output": [True, False],
    },
    "OrdinalEncoder": {
        "handle_unknown": ["use_encoded_value"],
        "unknown_value": [-1, np.nan],
        "max_categories": [None, 3],
    },
    "TargetEncoder": {"smooth": ["auto", 1.0], "cv": [2]},
}
COMPLETE: dict[str, dict[str, list[Any]]] = {
    "Normalizer": {"norm": ["l2", "l1", "max"]},
    "Binarizer": {"threshold": [0.0, 0.5]},
    "KBinsDiscretizer": {
        "n_bins": [3, 5],
        "encode": ["ordinal", "onehot", "onehot-dense"],
        "strategy": ["quantile", "uniform", "kmeans"],
    },
    "PolynomialFeatures": {"degree": [2, 3], "interaction_only": [False, True], "include_bias": [True, False]},
    "SplineTransformer": {
        "n_knots": [3, 5],
        "degree": [3, 2],
        "knots": ["uniform", "quantile"],
        "extrapolation": ["constant", "linear", "continue", "periodic", "error"],
    },
    "SelectKBest": {"k": [1, 2]},
    "SelectPercentile": {"percentile": [50]},
    "GenericUnivariateSelect": {"mode": ["k_best"], "param": [1, 2]},
    "SelectFpr": {"alpha": [0.5]},
    "PCA": {"n_components": [None, 2, 0.9], "whiten": [False, True]},
    "IncrementalPCA": {"n_components": [2], "whiten": [False, True]},
    "TruncatedSVD": {"n_components": [2]},
    "KernelPCA": {"n_components": [2], "kernel": [*KERNELS, "cosine"]},
    "FastICA": {"n_components": [2], "whiten": ["unit-variance", "arbitrary-variance"]},
    "FactorAnalysis": {"n_components": [2]},
    "SparsePCA": {"n_components": [2], "max_iter": [20]},
    "GaussianRandomProjection": {"n_components": [3]},
    "SparseRandomProjection": {"n_components": [3], "density": [0.5]},
    "Nystroem": {"n_components": [10], "kernel": ["rbf", "poly", "laplacian"]},
    "RBFSampler": {"n_components": [8], "gamma": [1.0, "scale"]},
    "PolynomialCountSketch": {"n_components": [8], "degree": [2, 3]},
    "RandomTreesEmbedding": {"n_estimators": [3], "max_depth": [2, 4], "sparse_output": [True, False]},
    "FeatureAgglomeration": {"n_clusters": [2], "pooling_func": [np.mean, np.max]},
    "KMeans": {"n_clusters": [3, 5], "n_init": [1]},
    "Birch": {"n_clusters": [3, None], "threshold": [0.5, 1.0]},
    "Isomap": {"n_neighbors": [15]},
    "LocallyLinearEmbedding": {"n_neighbors": [8]},
    "KNeighborsTransformer": {"n_neighbors": [3], "mode": ["distance", "connectivity"]},
    "DictionaryLearning": {"n_components": [3], "max_iter": [5], "transform_algorithm": ["omp", "threshold"]},
    "BernoulliRBM": {"n_components": [4], "n_iter": [3]},
    "RadiusNeighborsTransformer": {"radius": [1.0, 100.0], "mode": ["distance", "connectivity"]},
    "TfidfTransformer": {"use_idf": [True, False], "sublinear_tf": [False, True], "norm": ["l2", "l1", None]},
}
POSITIVE: dict[str, dict[str, list[Any]]] = {
    "AdditiveChi2Sampler": {"sample_steps": [2, 3]},
    "SkewedChi2Sampler": {"n_components": [8]},
    "NMF": {"n_components": [2], "init": ["nndsvda"]},
    "MiniBatchNMF": {"n_components": [2], "max_iter": [5]},
    "LatentDirichletAllocation": {"n_components": [3], "max_iter": [3]},
}
# Transformers that learn from labels.
LABELLED: dict[str, dict[str, list[Any]]] = {
    "LinearDiscriminantAnalysis": {"solver": ["svd", "eigen"]},
    "NeighborhoodComponentsAnalysis": {"n_components": [2], "max_iter": [5]},
    "PLSRegression": {"n_components": [1]},
}
CLASSIFIERS: dict[str, dict[str, list[Any]]] = {
    "LogisticRegression": {"C": [1.0, 100.0], "fit_intercept": [True, False], "max_iter": [200]},
    "SGDClassifier": {"loss": ["hinge", "log_loss", "modified_huber", "perceptron"]},
    "Perceptron": {},
    "RidgeClassifier": LINE,
    "LinearSVC": {"C": [1.0, 0.1], "dual": [True], "max_iter": [300]},  # the primal solver may never end
    "SVC": {
        "kernel": KERNELS,
        "decision_function_shape": ["ovr", "ovo"],
        "break_ties": [False, True],
        "probability": [False, True],
        "max_iter": [500],
    },
    "NuSVC": {"nu": [0.1], "kernel": KERNELS, "max_iter": [500]},
    "DecisionTreeClassifier": {"max_depth": [3, None], "criterion": ["gini", "entropy"]},
    "ExtraTreeClassifier": {"max_depth": [3, None]},
    "RandomForestClassifier": FOREST,
    "ExtraTreesClassifier": FOREST,
    "GradientBoostingClassifier": {"n_estimators": [4], "loss": ["log_loss", "exponential"], "init": [None, "zero"]},
    "HistGradientBoostingClassifier": {"max_iter": [4], "min_samples_leaf": [3, 20], "max_leaf_nodes": [31, 4]},
    "KNeighborsClassifier": {
        "n_neighbors": [3, 5, 1],
        "weights": ["uniform", "distance"],
        "algorithm": ["auto", "brute", "kd_tree", "ball_tree"],
        "metric": ["minkowski", "manhattan", "chebyshev", "cosine"],
    },
    "RadiusNeighborsClassifier": {"radius": [2.0, 10.0], "outlier_label": ["most_frequent"]},
    "NearestCentroid": {"metric": ["euclidean", "manhattan"], "shrink_threshold": [None, 0.1]},
    "GaussianNB": {},
    "BernoulliNB": {"binarize": [0.0, 0.5]},
    "LinearDiscriminantAnalysis": {"solver": ["svd", "lsqr", "eigen"], "shrinkage": [None, "auto"]},
    "QuadraticDiscriminantAnalysis": {"reg_param": [0.1, 0.5]},
    "GaussianProcessClassifier": {
        "optimizer": [None],
        "kernel": [None, *PROCESSES],
        "multi_class": ["one_vs_rest", "one_vs_one"],
    },
    "MLPClassifier": {"hidden_layer_sizes": [(5,), (4, 3)], "activation": ["relu", "tanh"], "max_iter": [20]},
    "LabelSpreading": {"kernel": ["rbf", "knn"], "gamma": [0.1]},
    "LabelPropagation": {"kernel": ["rbf", "knn"], "gamma": [0.1]},
    "DummyClassifier": {"strategy": ["prior", "most_frequent"]},
    "RidgeClassifierCV": {},
    "LogisticRegressionCV": {"Cs": [3], "cv": [2], "max_iter": [100]},
}
OF_COUNTS: dict[str, dict[str, list[Any]]] = {
    "MultinomialNB": {"alpha": [1.0, 0.1], "fit_prior": [True, False]},
    "ComplementNB": {"norm": [False, True]},
    "CategoricalNB": {"min_categories": [12]},
}
REGRESSORS: dict[str, dict[str, list[Any]]] = {
    "LinearRegression": {"fit_intercept": [True, False]},
    "Ridge": LINE,
    "Lasso": LINE,
    "ElasticNet": LINE,
    "BayesianRidge": {},
    "HuberRegressor": {"max_iter": [50]},
    "SGDRegressor": {},
    "PoissonRegressor": {"max_iter": [50]},
    "TweedieRegressor": {"power": [0, 1], "link": ["auto", "log"]},
    "LinearSVR": {"dual": [True], "max_iter": [300]},
    "SVR": {"kernel": KERNELS, "max_iter": [500]},
    "NuSVR": {"kernel": KERNELS, "max_iter": [500]},
    "KernelRidge": {"kernel": ["linear", "rbf", "poly", "laplacian"]},
    "DecisionTreeRegressor": {"max_depth": [3, None]},
    "ExtraTreeRegressor": {"max_depth": [3, None]},
    "RandomForestRegressor": FOREST,
    "ExtraTreesRegressor": FOREST,
    "GradientBoostingRegressor": {"n_estimators": [4], "loss": ["squared_error", "huber", "absolute_error"]},
    "HistGradientBoostingRegressor": {
        "max_iter": [4],
        "min_samples_leaf": [3, 20],
        "loss": ["squared_error", "poisson"],
    },
    "KNeighborsRegressor": {
        "n_neighbors": [3, 5, 1],
        "weights": ["uniform", "distance"],
        "algorithm": ["auto", "brute", "kd_tree", "ball_tree"],
        "metric": ["minkowski", "manhattan", "chebyshev", "cosine"],
    },
    "RadiusNeighborsRegressor": {"radius": [100.0], "weights": ["uniform", "distance"]},
    "GaussianProcessRegressor": {
        "optimizer": [None],
        "kernel": [None, *PROCESSES],
        "alpha": [0.1, 1.0],
        "normalize_y": [False, True],
    },
    "MLPRegressor": {"hidden_layer_sizes": [(5,), (4, 3)], "activation": ["relu", "logistic"], "max_iter": [20]},
    "PLSRegression": {"n_components": [1, 2], "scale": [True, False]},
    "PLSCanonical": {"n_components": [1]},
    "CCA": {"n_components": [1]},
    "DummyRegressor": {"strategy": ["mean", "median"]},
    "ARDRegression": {"max_iter": [20]},
    "OrthogonalMatchingPursuit": {},
    "LassoLars": {"alpha": [0.1]},
    "RidgeCV": {},
    "LassoCV": {"cv": [2], "alphas": [5]},
    "Lars": {},
    "GammaRegressor": {"max_iter": [50]},
    "QuantileRegressor": {"alpha": [0.1]},
    "TheilSenRegressor": {"max_subpopulation": [50]},
    "IsotonicRegression": {"out_of_bounds": ["clip", "nan"]},
}
CLUSTERERS: dict[str, dict[str, list[Any]]] = {
    "KMeans": {"n_clusters": [3, 5], "n_init": [1]},
    "MiniBatchKMeans": {"n_clusters": [3], "n_init": [1]},
    "BisectingKMeans": {"n_clusters": [3, 5]},
    "Birch": {"n_clusters": [3, None], "threshold": [0.5, 1.0]},
    "MeanShift": {"bandwidth": [None, 2.0]},
    "AffinityPropagation": {},
    "GaussianMixture": {"n_components": [2, 3], "covariance_type": ["full", "tied", "diag", "spherical"]},
    "BayesianGaussianMixture": {"n_components": [3], "covariance_type": ["full", "tied", "diag", "spherical"]},
    "NearestNeighbors": {"n_neighbors": [3], "algorithm": ["auto", "brute"], "metric": ["minkowski", "manhattan"]},
}
OUTLIERS: dict[str, dict[str, list[Any]]] = {
    "IsolationForest": {"n_estimators": [10], "max_samples": [20, "auto"], "contamination": ["auto", 0.1]},
    "OneClassSVM": {"nu": [0.2], "kernel": KERNELS, "max_iter": [500]},
    "SGDOneClassSVM": {"nu": [0.2]},
    "LocalOutlierFactor": {"novelty": [True], "n_neighbors": [5, 20], "metric": ["minkowski", "manhattan"]},
    "EllipticEnvelope": {"support_fraction": [0.9]},
    "KernelDensity": {"kernel": ["gaussian", "tophat", "exponential", "linear"], "bandwidth": [1.0, 0.3]},
    "PCA": {"n_components": [2]},
}
# Made over drawn estimators: options, and how many of them there are.
OVER_CLASSIFIERS: dict[str, tuple[dict[str, list[Any]], int]] = {
    "VotingClassifier": ({"voting": ["hard", "soft"], "weights": [None, [2, 1]]}, 2),
    "StackingClassifier": ({"cv": [2], "passthrough": [False, True], "stack_method": ["auto", "predict"]}, 3),
    "BaggingClassifier": ({"n_estimators": [3], "max_features": [1.0, 0.6], "max_samples": [1.0, 0.5]}, 1),
    "AdaBoostClassifier": ({"n_estimators": [3], "learning_rate": [1.0, 0.3]}, 1),
    "CalibratedClassifierCV": (
        {"cv": [2], "method": ["sigmoid", "isotonic", "temperature"], "ensemble": [True, False]},
        1,
    ),
    "OneVsRestClassifier": ({}, 1),
    "OneVsOneClassifier": ({}, 1),
    "OutputCodeClassifier": ({"code_size": [2]}, 1),
    "FixedThresholdClassifier": ({"threshold": ["auto", 0.3]}, 1),
    "TunedThresholdClassifierCV": ({"cv": [2]}, 1),
    "SelfTrainingClassifier": ({}, 1),
    "MultiOutputClassifier": ({}, 1),
    "ClassifierChain": ({}, 1),
    "GridSearchCV": ({"param_grid": [{}], "cv": [2]}, 1),
    "RFE": ({"n_features_to_select": [1, 2]}, 1),
}
OVER_REGRESSORS: dict[str, tuple[dict[str, list[Any]], int]] = {
    "VotingRegressor": ({"weights": [None, [2, 1]]}, 2),
    "StackingRegressor": ({"cv": [2], "passthrough": [False, True]}, 3),
    "BaggingRegressor": ({"n_estimators": [3], "max_features": [1.0, 0.6]}, 1),
    "AdaBoostRegressor": ({"n_estimators": [3], "loss": ["linear", "exponential"]}, 1),
    "TransformedTargetRegressor": ({"func": [None, np.cbrt], "inverse_func": [None]}, 1),
    "MultiOutputRegressor": ({}, 1),
    "RegressorChain": ({}, 1),
    "RANSACRegressor": ({"min_samples": [0.5]}, 1),
    "GridSearchCV": ({"param_grid": [{}], "cv": [2]}, 1),
    "RFE": ({"n_features_to_select": [1, 2]}, 1),
}
# What computes by comparisons, and by additions and multiplications element by element, gives the same bits everywhere: there
# a row on a threshold must go the same way. The rest (matrix products, exponentials, logarithms) rounds as its library does.
EXACT = frozenset(
    "Pipeline FeatureUnion ColumnTransformer passthrough StandardScaler MinMaxScaler MaxAbsScaler RobustScaler SimpleImputer "
    "MissingIndicator VarianceThreshold OneHotEncoder OrdinalEncoder Binarizer KBinsDiscretizer SelectKBest SelectPercentile "
    "RandomTreesEmbedding DecisionTreeClassifier ExtraTreeClassifier RandomForestClassifier ExtraTreesClassifier "
    "HistGradientBoostingClassifier HistGradientBoostingRegressor DecisionTreeRegressor ExtraTreeRegressor "
    "RandomForestRegressor ExtraTreesRegressor GradientBoostingClassifier GradientBoostingRegressor IsolationForest "
    "DummyClassifier DummyRegressor VotingClassifier VotingRegressor BaggingClassifier BaggingRegressor GridSearchCV RFE "
    "SelectFromModel OneVsRestClassifier OneVsOneClassifier FixedThresholdClassifier MultiOutputRegressor RegressorChain".split()
)
# A category is a value, not a measure: another one beside it is unknown.
OF_CATEGORIES = (
    "OneHotEncoder",
    "OrdinalEncoder",
    "TargetEncoder",
    "CategoricalNB",
    "SimpleImputer",
    "MissingIndicator",
)
KEEPS_MISSING = frozenset(
    "StandardScaler MinMaxScaler MaxAbsScaler RobustScaler PowerTransformer QuantileTransformer FunctionTransformer "
    "VarianceThreshold".split()
)
FILLS = ("SimpleImputer", "KNNImputer", "IterativeImputer", "MissingIndicator", "OneHotEncoder", "TargetEncoder")
TAKES_MISSING = ("DecisionTree", "ExtraTree", "RandomForest", "HistGradient", "IsolationForest")
SUPERVISED = ("SelectKBest", "SelectPercentile", "GenericUnivariateSelect", "SelectFpr")
