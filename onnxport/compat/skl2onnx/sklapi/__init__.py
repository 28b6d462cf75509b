"""``skl2onnx.sklapi``: estimators that stand beside scikit-learn's in pipelines."""

from typing import TYPE_CHECKING, Any

from onnxport.compat.absent import absent

if TYPE_CHECKING:
    from onnxport.compat.sklearn_parts import CastRegressor as CastRegressor
    from onnxport.compat.sklearn_parts import CastTransformer as CastTransformer
    from onnxport.compat.sklearn_parts import ReplaceTransformer as ReplaceTransformer
    from onnxport.compat.sklearn_parts import TraceableCountVectorizer as TraceableCountVectorizer
    from onnxport.compat.sklearn_parts import TraceableTfidfVectorizer as TraceableTfidfVectorizer


def __getattr__(name: str) -> Any:
    if name not in __all__:
        absent(__name__, name)
    from onnxport.compat import sklearn_parts  # which imports scikit-learn

    return getattr(sklearn_parts, name)


__all__ = [
    "CastRegressor",
    "CastTransformer",
    "ReplaceTransformer",
    "TraceableCountVectorizer",
    "TraceableTfidfVectorizer",
]
