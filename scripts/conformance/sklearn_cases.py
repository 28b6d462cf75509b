"""Every estimator of scikit-learn in the configurations that people use, with data that it can be fitted on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401  (importing enables them)
from sklearn.utils import all_estimators

from scripts.conformance.sklearn_data import (
    FEATURES,
    FITTED,
    above,
    classes,
    dense,
    images,
    labels,
    lists,
    missing,
    named,
    nothing,
    partly,
    positive,
    records,
    several_classes,
    several_labels,
    single,
    square,
    texts,
    two,
    value,
    values,
    whole,
    words,
)

METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "predict_joint_log_proba",
    "decision_function",
    "predict_std",
    "transform",
    "inverse_transform",
    "score_samples",
    "apply",
    "kneighbors",
    "mahalanobis",
)
Options = dict[str, Any]


@dataclass(frozen=True)
class Configured:
    """An estimator to be fitted.

    Attributes:
        name: its class.
        options: what it is constructed with, as text.
        make: constructs and fits it.
        rows: fresh rows for it: how many, from which generator.
    """

    name: str
    options: str
    make: Callable[[], Any]
    rows: Callable[[int, np.random.Generator], Any]


# -- the configurations --------------------------------------------------------------------------------------------------------

Row = tuple[Callable[..., Any], Callable[..., Any], Options]
_KERNELS = [{"kernel": kernel} for kernel in ("linear", "rbf", "poly", "sigmoid")]


def _part(name: str, **options: Any) -> Any:
    return dict(all_estimators())[name](**options)


def _each(data: Any, target: Any, *options: Options) -> list[Row]:
    return [(data, target, item) for item in options or ({},)]


def _tables() -> dict[str, list[Row]]:
    """What differs from the default: a classifier on `dense` with three, two and named classes, a regressor on `value`,
    anything else on `dense` alone.
    """
    from sklearn.gaussian_process import kernels
    from sklearn.linear_model import LogisticRegression, Ridge

    from scripts.conformance import sklearn_meta

    logistic, ridge = LogisticRegression, Ridge
    entries: dict[str, list[Row]] = {
        **sklearn_meta.tables(_part, _each),
        "LinearRegression": [
            *_each(dense, value),
            *_each(dense, values),
            *_each(dense, value, {"fit_intercept": False}),
        ],
        "Ridge": [*_each(dense, value), *_each(dense, values)],
        "Lasso": _each(dense, value, {"alpha": 0.1}, {"alpha": 0.1, "positive": True}),
        "MultiTaskElasticNet": _each(dense, values),
        "MultiTaskElasticNetCV": _each(dense, values),
        "MultiTaskLasso": _each(dense, values),
        "MultiTaskLassoCV": _each(dense, values),
        "GammaRegressor": _each(dense, above),
        "PoissonRegressor": _each(dense, above),
        "TweedieRegressor": _each(dense, above, {}, {"power": 1.5}, {"power": 0, "link": "log"}),
        "IsotonicRegression": _each(
            single, value, {"out_of_bounds": "clip"}, {"out_of_bounds": "nan"}, {"increasing": False}
        ),
        "LogisticRegression": [
            *_each(dense, classes, {}, {"C": 0.1, "fit_intercept": False}),
            *_each(dense, two),
            *_each(dense, named),
        ],
        "SGDClassifier": [
            *_each(dense, classes, {}, {"loss": "log_loss"}, {"loss": "modified_huber"}),
            *_each(dense, two, {}, {"loss": "log_loss"}, {"loss": "modified_huber"}),
        ],
        "RidgeClassifier": [*_each(dense, classes), *_each(dense, two), *_each(dense, several_labels)],
        "SVC": [
            *_each(dense, classes, *_KERNELS, {"decision_function_shape": "ovo"}, {"probability": True}),
            *_each(dense, two, *_KERNELS, {"probability": True}),
            *_each(dense, named, {"break_ties": True}, {"class_weight": "balanced"}),
            *_each(square, classes, {"kernel": "precomputed"}),
        ],
        "NuSVC": [*_each(dense, classes, {}, {"probability": True}), *_each(dense, two, {"probability": True})],
        "SVR": _each(dense, value, *_KERNELS),
        "NuSVR": _each(dense, value, *_KERNELS[:2]),
        "OneClassSVM": _each(dense, nothing, *_KERNELS),
        "KernelRidge": [*_each(dense, value, *_KERNELS, {"kernel": "laplacian"}), *_each(dense, values)],
        "KNeighborsClassifier": [
            *_each(
                dense, classes, {}, {"weights": "distance"}, {"metric": "manhattan"}, {"p": 3}, {"algorithm": "brute"}
            ),
            *_each(dense, two, {"n_neighbors": 1}, {"metric": "cosine"}, {"metric": "chebyshev"}),
            *_each(dense, several_classes, {}, {"weights": "distance"}),
            *_each(dense, named),
        ],
        "KNeighborsRegressor": [
            *_each(dense, value, {}, {"weights": "distance"}, {"metric": "canberra"}, {"n_neighbors": 1}),
            *_each(dense, values, {}, {"weights": "distance"}),
        ],
        "RadiusNeighborsClassifier": _each(dense, classes, {"radius": 20.0}, {"radius": 3.0, "outlier_label": 0}),
        "RadiusNeighborsRegressor": _each(dense, value, {"radius": 20.0}, {"radius": 20.0, "weights": "distance"}),
        "NearestNeighbors": _each(dense, nothing, {}, {"metric": "cosine"}, {"algorithm": "brute"}),
        "KNeighborsTransformer": _each(dense, nothing, {}, {"mode": "connectivity"}),
        "RadiusNeighborsTransformer": _each(dense, nothing, {"radius": 4.0}, {"radius": 4.0, "mode": "connectivity"}),
        "NearestCentroid": _each(dense, classes, {}, {"metric": "manhattan"}, {"shrink_threshold": 0.1}),
        "LocalOutlierFactor": _each(dense, nothing, {"novelty": True}, {"novelty": True, "metric": "manhattan"}),
        "KernelDensity": _each(
            dense, nothing, {}, {"kernel": "epanechnikov", "bandwidth": 9.0}, {"kernel": "exponential"}
        ),
        "NeighborhoodComponentsAnalysis": _each(dense, classes, {"n_components": 2, "max_iter": 20}),
        "GaussianProcessRegressor": _each(
            dense,
            value,
            {"alpha": 0.1},
            {"alpha": 0.1, "kernel": kernels.RBF(2.0) + kernels.WhiteKernel(), "normalize_y": True},
            {"alpha": 0.1, "kernel": kernels.Matern(nu=1.5) * kernels.ConstantKernel(2.0)},
            {"alpha": 0.1, "kernel": kernels.Matern(nu=2.5)},
            {"alpha": 0.1, "kernel": kernels.RationalQuadratic()},
            {"alpha": 0.1, "kernel": kernels.DotProduct() ** 2},
            {"alpha": 0.1, "kernel": kernels.ExpSineSquared()},
        ),
        "GaussianProcessClassifier": [
            *_each(dense, two, {}, {"kernel": kernels.RBF(2.0) * 3.0}),
            *_each(dense, classes, {}, {"multi_class": "one_vs_one"}),
        ],
        "LinearDiscriminantAnalysis": [
            *_each(dense, classes, {}, {"solver": "lsqr"}, {"solver": "eigen", "shrinkage": "auto"}),
            *_each(dense, two),
        ],
        "MLPClassifier": [
            *_each(dense, classes, {"max_iter": 40}, {"max_iter": 40, "activation": "tanh"}),
            *_each(dense, two, {"max_iter": 40, "activation": "logistic", "hidden_layer_sizes": (8, 4)}),
            *_each(dense, several_labels, {"max_iter": 40}),
        ],
        "MLPRegressor": [*_each(dense, value, {"max_iter": 40}), *_each(dense, values, {"max_iter": 40})],
        "BernoulliRBM": _each(whole, nothing, {"n_components": 4}),
        "MultinomialNB": [*_each(whole, classes), *_each(whole, two, {"fit_prior": False})],
        "ComplementNB": _each(whole, classes, {}, {"norm": True}),
        "BernoulliNB": _each(dense, classes, {}, {"binarize": 0.5}),
        "CategoricalNB": _each(whole, classes),
        "PCA": _each(dense, nothing, {}, {"n_components": 2}, {"n_components": 3, "whiten": True}),
        "IncrementalPCA": _each(dense, nothing, {"n_components": 2}, {"n_components": 2, "whiten": True}),
        "KernelPCA": _each(
            dense,
            nothing,
            {"n_components": 2},
            {"n_components": 2, "kernel": "rbf", "fit_inverse_transform": True},
            {"n_components": 2, "kernel": "poly"},
            {"n_components": 2, "kernel": "cosine"},
        ),
        "SparsePCA": _each(dense, nothing, {"n_components": 2}),
        "MiniBatchSparsePCA": _each(dense, nothing, {"n_components": 2}),
        "TruncatedSVD": _each(dense, nothing, {"n_components": 2}),
        "FastICA": _each(dense, nothing, {"n_components": 2}, {"whiten": "arbitrary-variance"}),
        "FactorAnalysis": _each(dense, nothing, {"n_components": 2}),
        "NMF": _each(positive, nothing, {"n_components": 2}, {"n_components": 2, "solver": "mu"}),
        "MiniBatchNMF": _each(positive, nothing, {"n_components": 2}),
        "LatentDirichletAllocation": _each(whole, nothing, {"n_components": 3}),
        "DictionaryLearning": _each(
            dense, nothing, {"n_components": 3, "max_iter": 20}, {"n_components": 3, "transform_algorithm": "threshold"}
        ),
        "MiniBatchDictionaryLearning": _each(dense, nothing, {"n_components": 3, "max_iter": 20}),
        "SparseCoder": _each(
            dense,
            nothing,
            {"dictionary": np.eye(FEATURES)[:4]},
            {"dictionary": np.eye(FEATURES)[:4], "transform_algorithm": "lasso_cd", "transform_alpha": 0.1},
        ),
        "GaussianRandomProjection": _each(dense, nothing, {"n_components": 3}),
        "SparseRandomProjection": _each(dense, nothing, {"n_components": 3}),
        "Nystroem": _each(dense, nothing, {"n_components": 10}, {"n_components": 10, "kernel": "poly"}),
        "SkewedChi2Sampler": _each(positive, nothing),
        "AdditiveChi2Sampler": _each(positive, nothing, {}, {"sample_steps": 3}),
        "PolynomialCountSketch": _each(dense, nothing, {"n_components": 8}),
        "PLSRegression": [*_each(dense, values), *_each(dense, value)],
        "PLSCanonical": _each(dense, values),
        "PLSSVD": _each(dense, values),
        "CCA": _each(dense, values),
        "Isomap": _each(dense, nothing, {"n_neighbors": 30}),
        "LocallyLinearEmbedding": _each(dense, nothing),
        "KMeans": _each(dense, nothing, {"n_clusters": 4, "n_init": 2}),
        "MiniBatchKMeans": _each(dense, nothing, {"n_clusters": 4, "n_init": 2}),
        "BisectingKMeans": _each(dense, nothing, {"n_clusters": 4}),
        "Birch": _each(dense, nothing, {}, {"n_clusters": None, "threshold": 2.0}),
        "AffinityPropagation": _each(dense, nothing),
        "FeatureAgglomeration": _each(dense, nothing, {"n_clusters": 2}, {"n_clusters": 2, "pooling_func": np.max}),
        "GaussianMixture": _each(
            dense,
            nothing,
            *({"n_components": 3, "covariance_type": item} for item in ("full", "tied", "diag", "spherical")),
        ),
        "BayesianGaussianMixture": _each(
            dense,
            nothing,
            *({"n_components": 3, "covariance_type": item} for item in ("full", "tied", "diag", "spherical")),
            {"n_components": 3, "weight_concentration_prior_type": "dirichlet_distribution"},
        ),
        "Binarizer": _each(dense, nothing, {}, {"threshold": 0.5}),
        "KernelCenterer": _each(square, nothing),
        "KBinsDiscretizer": _each(
            dense, nothing, *({"encode": e} for e in ("onehot", "onehot-dense", "ordinal")), {"strategy": "kmeans"}
        ),
        "MaxAbsScaler": _each(dense, nothing),
        "MinMaxScaler": _each(dense, nothing, {}, {"feature_range": (-1, 2), "clip": True}),
        "Normalizer": _each(dense, nothing, *({"norm": norm} for norm in ("l1", "l2", "max"))),
        "OneHotEncoder": [
            *_each(words, nothing, {}, {"sparse_output": False}, {"drop": "first"}, {"drop": "if_binary"}),
            *_each(words, nothing, {"handle_unknown": "ignore"}, {"max_categories": 3}, {"min_frequency": 40}),
            *_each(whole, nothing, {}, {"handle_unknown": "infrequent_if_exist", "min_frequency": 30}),
        ],
        "OrdinalEncoder": [
            *_each(
                words, nothing, {}, {"handle_unknown": "use_encoded_value", "unknown_value": -1}, {"max_categories": 3}
            ),
            *_each(whole, nothing, {}, {"dtype": np.float32}),
        ],
        "TargetEncoder": [*_each(words, value), *_each(words, classes), *_each(whole, two), *_each(words, two)],
        "LabelEncoder": [(labels, "itself", {})],
        "LabelBinarizer": [(labels, "itself", {}), (labels, "itself", {"neg_label": -1, "pos_label": 2})],
        "PolynomialFeatures": _each(
            dense, nothing, {}, {"degree": 3}, {"interaction_only": True}, {"include_bias": False, "order": "F"}
        ),
        "PowerTransformer": [
            *_each(dense, nothing, {}, {"standardize": False}),
            *_each(positive, nothing, {"method": "box-cox"}),
        ],
        "QuantileTransformer": _each(
            dense, nothing, {"n_quantiles": 50}, {"n_quantiles": 50, "output_distribution": "normal"}
        ),
        "RobustScaler": _each(dense, nothing, {}, {"with_centering": False}, {"unit_variance": True}),
        "SplineTransformer": _each(
            dense,
            nothing,
            {},
            {"degree": 2, "include_bias": False},
            *({"extrapolation": item} for item in ("linear", "continue", "periodic")),
        ),
        "StandardScaler": _each(dense, nothing, {}, {"with_mean": False}, {"with_std": False}),
        "FunctionTransformer": _each(
            dense, nothing, {}, {"func": np.tanh}, {"func": np.expm1, "inverse_func": np.log1p}
        ),
        "SimpleImputer": [
            *_each(missing, nothing, *({"strategy": item} for item in ("mean", "median", "most_frequent"))),
            *_each(missing, nothing, {"strategy": "constant", "fill_value": -1.0}, {"add_indicator": True}),
            *_each(words, nothing, {"strategy": "most_frequent", "missing_values": "grey"}),
        ],
        "MissingIndicator": _each(missing, nothing, {}, {"features": "all"}),
        "IterativeImputer": _each(
            missing, nothing, {}, {"add_indicator": True, "max_iter": 3, "initial_strategy": "median"}
        ),
        "KNNImputer": _each(missing, nothing, {}, {"weights": "distance"}, {"add_indicator": True}),
        "CountVectorizer": _each(
            texts,
            nothing,
            {},
            {"ngram_range": (1, 2)},
            {"binary": True, "lowercase": False},
            {"stop_words": "english"},
            {"strip_accents": "unicode"},
            {"analyzer": "char", "ngram_range": (1, 3)},
            {"analyzer": "char_wb", "ngram_range": (2, 3)},
            {"token_pattern": r"[a-zA-Z]+"},
            {"max_features": 10},
        ),
        "TfidfVectorizer": _each(
            texts,
            nothing,
            {},
            {"sublinear_tf": True, "norm": "l1"},
            {"ngram_range": (1, 2), "use_idf": False},
            {"smooth_idf": False, "norm": None},
        ),
        "HashingVectorizer": _each(texts, nothing, {"n_features": 32}, {"n_features": 32, "alternate_sign": False}),
        "TfidfTransformer": _each(whole, nothing, {}, {"sublinear_tf": True}, {"use_idf": False}),
        "DictVectorizer": _each(records, nothing, {}, {"sparse": False}),
        "FeatureHasher": _each(records, nothing, {"n_features": 8}),
        "PatchExtractor": _each(images, nothing, {"patch_size": (2, 2)}),
        "VarianceThreshold": _each(dense, nothing, {"threshold": 0.5}),
        "SelectKBest": _each(dense, classes, {"k": 2}),
        "SelectPercentile": _each(dense, classes, {"percentile": 40}),
        "GenericUnivariateSelect": _each(dense, classes, {"mode": "k_best", "param": 2}),
        "SpectralBiclustering": [],
        "SpectralCoclustering": [],
        "MultiLabelBinarizer": _each(lists, nothing),
        "LabelPropagation": _each(dense, partly, {}, {"kernel": "knn"}),
        "LabelSpreading": _each(dense, partly, {}, {"kernel": "knn"}),
        "EllipticEnvelope": _each(dense, nothing),
        "DummyClassifier": _each(dense, classes, *({"strategy": item} for item in ("most_frequent", "prior"))),
        "DummyRegressor": [*_each(dense, value, {}, {"strategy": "median"}), *_each(dense, values)],
    }
    entries["SelfTrainingClassifier"] = _each(dense, partly, {"estimator": logistic()})
    entries["TransformedTargetRegressor"] = [
        *_each(dense, above, {"regressor": ridge(), "func": np.log, "inverse_func": np.exp}),
        *_each(dense, value, {"regressor": ridge(), "transformer": _part("StandardScaler")}),
    ]
    return entries


def configured() -> Iterator[Configured]:
    """Every estimator in every configuration."""
    tables = _tables()
    for name, kind in all_estimators():
        for data, target, options in tables.get(name, _default(kind)):
            yield _configured(name, kind, data, target, options)


def _default(kind: type) -> list[Row]:
    from sklearn.base import ClassifierMixin, RegressorMixin

    if issubclass(kind, ClassifierMixin):
        return [(dense, target, {}) for target in (classes, two, named)]
    return [(dense, value if issubclass(kind, RegressorMixin) else nothing, {})]


def _configured(name: str, kind: type, data: Any, target: Any, options: Options) -> Configured:
    title = ", ".join(f"{key}={item!r}" for key, item in options.items()).replace("\n", " ")
    about = getattr(data, "__name__", "") + (
        "" if target in (nothing, "itself") else f", {getattr(target, '__name__', target)}"
    )

    def make() -> Any:
        # a seed makes the fit the same each time, and what BernoulliRBM.score_samples draws a function of the row's place
        seeded = {"random_state": 0} if "random_state" in _signature(kind) else {}
        model = kind(**{**seeded, **options})
        x = data(FITTED, np.random.default_rng(0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if target == "itself":
                return model.fit(x)
            y = target(x)
            return model.fit(x) if y is None else model.fit(x, y)

    return Configured(name, f"{title} ({about})".strip(), make, data)


def _signature(kind: type) -> set[str]:
    import inspect

    return set(inspect.signature(kind.__init__).parameters)
