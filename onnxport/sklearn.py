"""ONNX models as scikit-learn's estimators: ``OnnxClassifier("model.onnx")``."""

from onnxport.converters.from_onnx.sklearn_estimators import (
    OnnxClassifier,
    OnnxClusterer,
    OnnxEstimator,
    OnnxOutlierDetector,
    OnnxRegressor,
    OnnxTransformer,
)

__all__ = [
    "OnnxClassifier",
    "OnnxClusterer",
    "OnnxEstimator",
    "OnnxOutlierDetector",
    "OnnxRegressor",
    "OnnxTransformer",
]
