"""imbalanced-learn: its classifiers and its pipeline, which resample while they are fitted and infer as scikit-learn's do."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import built, f32, f64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.estimators.ensemble import boosting, voting
from onnxport.opset_maps.to_onnx.sklearn.estimators.ensemble import forests as trees
from onnxport.opset_maps.to_onnx.sklearn.fitted import data, target, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, matrix

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

_ROWS = f64(7, 4)
Lowering = Callable[[OpBuilder, Any, Table], Any]


def _fitted(name: str, *, classes: int = 3, text: bool = False, **options: object) -> Any:
    """A classifier of imblearn.ensemble fitted on `data()` and `target()`."""
    model = getattr(import_module("imblearn.ensemble"), name)(random_state=0, **options)
    return model.fit(data(), target(classes, text=text))


def _pipeline(last: BaseEstimator) -> Any:
    """A pipeline of scalers and samplers around `last`."""
    steps = [
        ("under", import_module("imblearn.under_sampling").RandomUnderSampler(random_state=0)),
        ("scale", unfitted("preprocessing", "StandardScaler")),
        ("nothing", "passthrough"),
        ("over", import_module("imblearn.over_sampling").RandomOverSampler(random_state=0)),
        ("last", last),
    ]
    return import_module("imblearn.pipeline").Pipeline(steps).fit(data(), target())


# -- the pipeline ------------------------------------------------------------------------------------------------------------

_LAST = {
    "predict": ("linear_model", "LogisticRegression"),
    "predict_proba": ("linear_model", "LogisticRegression"),
    "predict_log_proba": ("linear_model", "LogisticRegression"),
    "decision_function": ("linear_model", "LogisticRegression"),
    "score_samples": ("mixture", "GaussianMixture"),
    "transform": ("decomposition", "PCA"),
}


def _last(method: str) -> Any:
    if method == "raw_scores":
        return lambda: _pipeline(import_module("xgboost").XGBClassifier(n_estimators=4, max_depth=2))
    return lambda: _pipeline(unfitted(*_LAST[method]))


def _lower_pipeline(method: str) -> None:
    @sklearn.lower(
        f"imblearn.Pipeline.{method}",
        cases=[
            built(_last(method), _ROWS, dynamic=True),
            built(_last(method), f32(7, 4)),
            *([built(lambda: _pipeline("passthrough"), _ROWS)] if method == "transform" else []),
        ],
    )
    def pipeline(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
        """The steps one after the other, without the samplers, which only fitting sees."""
        *steps, (last_name, last) = model.steps
        for name, step in steps:
            if step is not None and step != "passthrough" and not hasattr(step, "fit_resample"):
                x = op.call(step, "transform", x, step=name)
        if last is None or last == "passthrough":
            return matrix(op, x)
        return op.call(last, method, x, step=last_name)


for _method in (*_LAST, "raw_scores"):
    _lower_pipeline(_method)


# -- the ensembles -----------------------------------------------------------------------------------------------------------

_FOREST: dict[str, Any] = {
    "n_estimators": 8,
    "sampling_strategy": "all",
    "replacement": True,
    "bootstrap": False,
}
_FEW = {"n_estimators": 4}


def _as_its_base(name: str, method: str, lowering: Lowering, *variants: dict[str, Any]) -> None:
    """Registers a method that a class of imbalanced-learn inherits, with the lowering of scikit-learn's class."""
    cases = [built(_maker(name, options), _ROWS, dynamic=not place) for place, options in enumerate(variants)]

    @sklearn.lower(f"imblearn.{name}.{method}", cases=[*cases, built(_maker(name, variants[0]), f32(7, 4))])
    def inherited(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
        """The method of scikit-learn's class, which the resampling of the fit leaves as it is."""
        return lowering(op, model, x)


def _maker(name: str, options: dict[str, Any]) -> Callable[[], Any]:
    return lambda: _fitted(name, **options)


for _method, _lowering in {
    "predict": trees.tree_prediction,
    "predict_proba": trees.tree_probabilities,
    "predict_log_proba": trees.tree_log_probabilities,
    "apply": trees.reached_leaves,
}.items():
    # Shallow trees: every leaf holds a share of each class, so that no logarithm is of 0.
    _shallow = {"max_depth": 1} if _method == "predict_log_proba" else {}
    _as_its_base(
        "BalancedRandomForestClassifier", _method, _lowering, {**_FOREST, "text": True, **_shallow},
        {**_FOREST, "classes": 2, **_shallow},
    )  # fmt: skip

_BAGGED: dict[str, Lowering] = {
    "predict": voting.bagged_label,
    "predict_proba": voting.bagged_probabilities,
    "predict_log_proba": voting.bagged_log_probabilities,
}
for _method, _lowering in _BAGGED.items():
    _bayes = {"estimator": unfitted("naive_bayes", "GaussianNB")}
    _as_its_base(
        "BalancedBaggingClassifier", _method, _lowering, {**_FEW, **_bayes, "text": True},
        {**_FEW, **_bayes, "max_features": 2}, {**_FEW, **_bayes, "classes": 2},
    )  # fmt: skip
    _boosted = {"estimator": unfitted("ensemble", "AdaBoostClassifier", n_estimators=4)}
    _as_its_base(
        "EasyEnsembleClassifier", _method, _lowering, {**_FEW, **_boosted, "text": True}, {**_FEW, **_boosted, "classes": 2},
    )  # fmt: skip
for _name in ("BalancedBaggingClassifier", "EasyEnsembleClassifier"):
    _line = {"estimator": unfitted("linear_model", "LogisticRegression")}
    _as_its_base(_name, "decision_function", voting.bagged_scores, {**_FEW, **_line}, {**_FEW, **_line, "classes": 2})

for _method, _lowering in {
    "predict": boosting.boost_label,
    "predict_proba": boosting.boost_probabilities,
    "predict_log_proba": trees.tree_log_probabilities,
    "decision_function": boosting.boost_decision,
}.items():
    _as_its_base(
        "RUSBoostClassifier", _method, _lowering, {"n_estimators": 5, "text": True}, {"n_estimators": 5, "classes": 2}
    )
