"""scikit-learn and its neighbours: estimators, pipelines and boosters."""

from __future__ import annotations

from onnxport.frameworks.descriptor import TENSOR_OPTIONS, Files, Framework, Lazy, SourceKind, drivers


def _is_estimator(model: object) -> bool:
    """Whether an object has the protocol of estimators, as CatBoost's have."""
    return hasattr(model, "fit") and hasattr(model, "get_params")


FRAMEWORK = Framework(
    name="sklearn",
    title="scikit-learn",
    kinds=(
        SourceKind(
            "an estimator",
            TENSOR_OPTIONS - {"kwargs", "dynamic_shapes"} | {"methods", "options", "allow_pickle"},
            named_options=frozenset({"output_names"}),
            instead={
                "kwargs": "an estimator takes one table of samples: pass it as inputs",
                "dynamic_shapes": "the number of samples varies always, the columns never do",
                "dtype": "the graph has the types of the rows: convert the ONNX model with it in a second step",
                "keep_io_types": "only a conversion of the ONNX model with dtype= has types to keep",
            },
        ),
    ),
    aliases=("scikit-learn",),
    command="sklearn",
    package="sklearn",
    extra="sklearn",
    distributions=("scikit-learn",),
    owners=("sklearn", "lightgbm", "xgboost"),
    recognises=_is_estimator,
    files=Files(
        reads=(".skops", ".pkl", ".pickle", ".joblib", ".txt", ".ubj", ".json"),
        writes=(".joblib", ".pkl", ".pickle", ".skops"),
        load=Lazy("onnxport.tracing.sklearn:load"),
        save=Lazy("onnxport.converters.from_onnx.sklearn:save"),
    ),
    takes_table=True,
    adopt=Lazy("onnxport.tracing.sklearn_boosters:as_estimator"),
    **drivers("sklearn"),
    to_onnx_map=Lazy("onnxport.opset_maps.maps:sklearn").get,
)
