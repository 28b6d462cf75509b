"""imbalanced-learn: its classifiers and its pipeline, which resample while they are fitted and infer as scikit-learn's do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sklearn.base import BaseEstimator

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import f32
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.entries import cases, given, lower
from onnxport.opset_maps.to_onnx.sklearn.estimators.compose import lower_pipeline
from onnxport.opset_maps.to_onnx.sklearn.estimators.derived import METHODS
from onnxport.opset_maps.to_onnx.sklearn.fitted import classifier, data, target, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table


def _pipeline(last: BaseEstimator) -> Any:
    """A pipeline of scalers and samplers around `last`."""
    steps = [
        ("under", unfitted("imblearn.under_sampling.RandomUnderSampler")),
        ("scale", unfitted("StandardScaler")),
        ("nothing", "passthrough"),
        ("over", unfitted("imblearn.over_sampling.RandomOverSampler")),
        ("last", last),
    ]
    return unfitted("imblearn.pipeline.Pipeline", steps=steps).fit(data(), target())


_LAST = {**dict.fromkeys(METHODS[:4], "LogisticRegression"), "score_samples": "GaussianMixture", "transform": "PCA"}


def _last(method: str) -> Callable[[], Any]:
    if method == "raw_scores":
        return lambda: _pipeline(unfitted("xgboost.XGBClassifier", n_estimators=4, max_depth=2))
    return lambda: _pipeline(unfitted(_LAST[method]))


for _method in (*_LAST, "raw_scores"):
    _cases = [*given(_last(_method)), *given(_last(_method), rows=f32(7, 4))]
    _passing = given(lambda: _pipeline("passthrough")) if _method == "transform" else []
    lower_pipeline("imblearn.Pipeline", _method, [*_cases, *_passing])


_FOREST: dict[str, Any] = {"n_estimators": 8, "sampling_strategy": "all", "replacement": True, "bootstrap": False}
# Shallow trees: every leaf holds a share of each class, so that no logarithm is of 0.
_SHALLOW = {**_FOREST, "max_depth": 1}


def _lower_inherited(name: str, methods: Sequence[str], *variants: dict[str, Any]) -> None:
    """Registers methods that a class of imbalanced-learn inherits, with the lowerings of scikit-learn's class."""
    examples = cases(classifier, f"imblearn.ensemble.{name}", *variants)

    def register(method: str) -> None:
        @lower(f"imblearn.{name}.{method}", examples)
        def inherited(op: OpBuilder, model: BaseEstimator, x: Table) -> Any:
            """The method of scikit-learn's class, which the resampling of the fit leaves as it is."""
            entries = (sklearn.find(f"{kind.__name__}.{method}") for kind in type(model).__mro__)
            return next(filter(None, entries)).function(op, model, x)

    for method in methods:
        register(method)


def _around(inner: str, **options: object) -> dict[str, Any]:
    return {"n_estimators": 4, "estimator": unfitted(inner, **options)}


_LABELS = ("predict", "predict_proba", "predict_log_proba")
_BAYES, _LINE = _around("GaussianNB"), _around("LogisticRegression")
_BOOSTED = _around("AdaBoostClassifier", n_estimators=4)

for _methods, _options in ((("predict", "predict_proba", "apply"), _FOREST), (("predict_log_proba",), _SHALLOW)):
    _lower_inherited("BalancedRandomForestClassifier", _methods, {**_options, "text": True}, {**_options, "classes": 2})
_BAGGED = ({**_BAYES, "text": True}, {**_BAYES, "max_features": 2}, {**_BAYES, "classes": 2})
_lower_inherited("BalancedBaggingClassifier", _LABELS, *_BAGGED)
_lower_inherited("EasyEnsembleClassifier", _LABELS, {**_BOOSTED, "text": True}, {**_BOOSTED, "classes": 2})
for _name in ("BalancedBaggingClassifier", "EasyEnsembleClassifier"):
    _lower_inherited(_name, ["decision_function"], _LINE, {**_LINE, "classes": 2})
_RUS = ({"n_estimators": 5, "text": True}, {"n_estimators": 5, "classes": 2})
_lower_inherited("RUSBoostClassifier", (*_LABELS, "decision_function"), *_RUS)
