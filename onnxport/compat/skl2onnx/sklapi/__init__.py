"""``skl2onnx.sklapi``: estimators that stand beside scikit-learn's in pipelines."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxport.compat.sklearn_parts import CastRegressor as CastRegressor
    from onnxport.compat.sklearn_parts import CastTransformer as CastTransformer
    from onnxport.compat.sklearn_parts import TraceableCountVectorizer as TraceableCountVectorizer
    from onnxport.compat.sklearn_parts import TraceableTfidfVectorizer as TraceableTfidfVectorizer

__all__ = ["CastRegressor", "CastTransformer", "TraceableCountVectorizer", "TraceableTfidfVectorizer"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"onnxport.compat has no skl2onnx.sklapi.{name}: it has {', '.join(__all__)}")
    from onnxport.compat import sklearn_parts  # which imports scikit-learn

    return getattr(sklearn_parts, name)
