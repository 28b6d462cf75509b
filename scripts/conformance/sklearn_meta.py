"""Configurations of estimators that are made of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scripts.conformance.sklearn_data import (
    above,
    classes,
    dense,
    missing,
    named,
    nothing,
    positive,
    several_classes,
    several_labels,
    texts,
    two,
    value,
    values,
)

Row = tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]


def tables(part: Callable[..., Any], each: Callable[..., list[Row]]) -> dict[str, list[Row]]:
    """Trees, ensembles, chains, selections, compositions."""

    def logistic(**options: Any) -> Any:
        return part("LogisticRegression", **options)

    def tree(**options: Any) -> Any:
        return part("DecisionTreeClassifier", max_depth=3, random_state=0, **options)

    def stump(**options: Any) -> Any:
        return part("DecisionTreeRegressor", max_depth=3, random_state=0, **options)

    few = {"n_estimators": 10}
    named_classifiers = [("lr", logistic()), ("tree", tree()), ("nb", part("GaussianNB"))]
    named_regressors = [("ridge", part("Ridge")), ("tree", stump())]
    scaled = [("scale", part("StandardScaler")), ("model", logistic())]
    forest = {
        kind: [
            *each(dense, classes, {**few}, {**few, "max_depth": 4, "criterion": "entropy"}),
            *each(dense, two, few),
            *each(dense, named, few),
            *each(dense, several_classes, few),
            *each(missing, two, few),
        ]
        for kind in ("RandomForestClassifier", "ExtraTreesClassifier")
    }
    trees = {
        kind: [
            *each(dense, classes, {}, {"max_depth": 3}),
            *each(dense, named),
            *each(dense, several_classes),
            *each(missing, classes),
        ]
        for kind in ("DecisionTreeClassifier", "ExtraTreeClassifier")
    }
    regressors = {
        kind: [*each(dense, value, options), *each(dense, values, options), *each(missing, value, options)]
        for kind, options in (
            ("DecisionTreeRegressor", {}),
            ("ExtraTreeRegressor", {}),
            ("RandomForestRegressor", few),
            ("ExtraTreesRegressor", few),
        )
    }
    selections = {kind: each(dense, classes, {}) for kind in ("SelectFdr", "SelectFpr", "SelectFwe")}
    searches = {
        "HalvingRandomSearchCV": each(
            dense, two, {"estimator": logistic(), "param_distributions": {"C": [0.1, 1.0, 10.0]}, "cv": 2}
        ),
        "HalvingGridSearchCV": each(dense, two, {"estimator": logistic(), "param_grid": {"C": [0.1, 1.0]}, "cv": 2}),
        "GridSearchCV": [
            *each(dense, classes, {"estimator": logistic(), "param_grid": {"C": [0.1, 1.0]}, "cv": 2}),
            *each(dense, value, {"estimator": part("Ridge"), "param_grid": {"alpha": [0.1, 1.0]}, "cv": 2}),
        ],
        "RandomizedSearchCV": each(
            dense,
            two,
            {
                "estimator": part("Pipeline", steps=scaled),
                "param_distributions": {"model__C": [0.1, 1.0]},
                "n_iter": 2,
                "cv": 2,
            },
        ),
    }
    return {
        **forest,
        **trees,
        **regressors,
        **selections,
        **searches,
        "GradientBoostingClassifier": [
            *each(dense, classes, few),
            *each(dense, two, few, {**few, "loss": "exponential"}, {**few, "init": tree()}),
            *each(dense, named, {**few, "init": "zero"}),
        ],
        "GradientBoostingRegressor": each(
            dense,
            value,
            *({**few, "loss": loss} for loss in ("squared_error", "absolute_error", "huber", "quantile")),
            {**few, "init": part("Ridge")},
        ),
        "HistGradientBoostingClassifier": [
            *each(dense, classes, {"max_iter": 10}),
            *each(dense, two, {"max_iter": 10}),
            *each(missing, named, {"max_iter": 10, "max_leaf_nodes": 5}),
        ],
        "HistGradientBoostingRegressor": [
            *each(
                dense,
                value,
                {"max_iter": 10},
                {"max_iter": 10, "loss": "absolute_error"},
                {"max_iter": 10, "loss": "quantile", "quantile": 0.8},
            ),
            *each(dense, above, {"max_iter": 10, "loss": "poisson"}, {"max_iter": 10, "loss": "gamma"}),
            *each(missing, value, {"max_iter": 10}),
        ],
        "AdaBoostClassifier": [
            *each(dense, classes, few),
            *each(dense, two, few),
            *each(dense, named, {**few, "estimator": tree()}),
        ],
        "AdaBoostRegressor": each(dense, value, few, {**few, "estimator": stump()}),
        "BaggingClassifier": [
            *each(dense, classes, few, {"estimator": logistic(), "max_features": 0.6}),
            *each(dense, two, {"estimator": part("LinearSVC")}),
        ],
        "BaggingRegressor": each(dense, value, few, {"estimator": part("Ridge"), "max_features": 3}),
        "IsolationForest": each(dense, nothing, few, {**few, "max_samples": 50, "contamination": 0.1}),
        "RandomTreesEmbedding": each(dense, nothing, few),
        "VotingClassifier": [
            *each(
                dense,
                classes,
                {"estimators": named_classifiers},
                {"estimators": named_classifiers, "voting": "soft", "weights": [2, 1, 1]},
            ),
            *each(dense, named, {"estimators": named_classifiers, "voting": "soft", "flatten_transform": False}),
        ],
        "VotingRegressor": each(
            dense, value, {"estimators": named_regressors}, {"estimators": named_regressors, "weights": [1, 3]}
        ),
        "StackingClassifier": [
            *each(
                dense,
                classes,
                {"estimators": named_classifiers, "cv": 2},
                {"estimators": named_classifiers, "cv": 2, "passthrough": True},
            ),
            *each(dense, two, {"estimators": [*named_classifiers, ("svc", part("LinearSVC"))], "cv": 2}),
        ],
        "StackingRegressor": each(
            dense,
            value,
            {"estimators": named_regressors, "cv": 2},
            {"estimators": named_regressors, "cv": 2, "passthrough": True},
        ),
        "CalibratedClassifierCV": [
            *each(
                dense,
                classes,
                {"estimator": part("LinearSVC"), "cv": 2},
                {"estimator": tree(), "cv": 2, "method": "isotonic"},
            ),
            *each(
                dense,
                two,
                {"estimator": part("LinearSVC"), "cv": 2},
                {"estimator": part("GaussianNB"), "cv": 2, "ensemble": False},
            ),
            *each(dense, classes, {"estimator": logistic(), "cv": 2, "method": "temperature"}),
        ],
        "OneVsRestClassifier": [
            *each(dense, classes, {"estimator": logistic()}, {"estimator": part("LinearSVC")}),
            *each(dense, several_labels, {"estimator": logistic()}),
            *each(dense, named, {"estimator": tree()}),
        ],
        "OneVsOneClassifier": [
            *each(dense, classes, {"estimator": logistic()}, {"estimator": part("LinearSVC")}),
            *each(dense, two, {"estimator": logistic()}),
        ],
        "OutputCodeClassifier": each(dense, classes, {"estimator": logistic()}),
        "MultiOutputClassifier": each(dense, several_classes, {"estimator": logistic()}, {"estimator": tree()}),
        "MultiOutputRegressor": each(dense, values, {"estimator": part("Ridge")}, {"estimator": stump()}),
        "ClassifierChain": each(
            dense, several_labels, {"estimator": logistic()}, {"estimator": logistic(), "order": [1, 0]}
        ),
        "RegressorChain": each(dense, values, {"estimator": part("Ridge")}, {"estimator": stump(), "order": [1, 0]}),
        "TunedThresholdClassifierCV": each(dense, two, {"estimator": logistic(), "cv": 2}),
        "FixedThresholdClassifier": each(
            dense, two, {"estimator": logistic(), "threshold": 0.3}, {"estimator": part("LinearSVC"), "threshold": 0.1}
        ),
        "FrozenEstimator": each(dense, nothing, {"estimator": part("StandardScaler").fit(dense(150, _seeded()))}),
        "SelectFromModel": each(
            dense, classes, {"estimator": logistic(C=0.1)}, {"estimator": tree(), "threshold": "mean"}
        ),
        "RFE": each(dense, classes, {"estimator": logistic(), "n_features_to_select": 2}),
        "RFECV": each(dense, classes, {"estimator": logistic(), "cv": 2}),
        "SequentialFeatureSelector": each(
            dense, classes, {"estimator": logistic(), "n_features_to_select": 2, "cv": 2}
        ),
        "Pipeline": [
            *each(
                dense,
                classes,
                {"steps": scaled},
                {"steps": [("pca", part("PCA", n_components=2)), ("knn", part("KNeighborsClassifier"))]},
            ),
            *each(missing, two, {"steps": [("fill", part("SimpleImputer")), *scaled]}),
            *each(texts, two, {"steps": [("words", part("TfidfVectorizer")), ("model", logistic())]}),
            *each(positive, value, {"steps": [("power", part("PowerTransformer")), ("model", part("Ridge"))]}),
        ],
        "FeatureUnion": each(
            dense,
            nothing,
            {"transformer_list": [("pca", part("PCA", n_components=2)), ("scale", part("MinMaxScaler"))]},
            {
                "transformer_list": [("pca", part("PCA", n_components=2)), ("keep", "passthrough")],
                "transformer_weights": {"pca": 2.0},
            },
        ),
        "ColumnTransformer": each(
            dense,
            nothing,
            {
                "transformers": [("a", part("StandardScaler"), [0, 3]), ("b", part("MinMaxScaler"), slice(1, 3))],
                "remainder": "passthrough",
            },
            {
                "transformers": [("a", part("KBinsDiscretizer"), [1]), ("b", "drop", [0])],
                "remainder": part("RobustScaler"),
            },
        ),
    }


def _seeded() -> Any:
    import numpy as np

    return np.random.default_rng(0)
