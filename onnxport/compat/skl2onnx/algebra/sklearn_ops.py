"""``skl2onnx.algebra.sklearn_ops``: scikit-learn's classes with the method `to_onnx`, ``OnnxSklearnStandardScaler``."""

from __future__ import annotations

from typing import Any

from onnxport.compat.absent import absent
from onnxport.compat.skl2onnx.algebra.onnx_operator_mixin import OnnxOperatorMixin
from onnxport.frameworks.descriptor import Lazy

_PREFIX = "OnnxSklearn"
_CLASSES: dict[str, type] = {}


def find_class(skl_cl: type) -> Any:
    """A class of scikit-learn's with the method `to_onnx`."""
    if issubclass(skl_cl, OnnxOperatorMixin):
        return skl_cl
    name = f"{_PREFIX}{skl_cl.__name__}"
    if not issubclass(_CLASSES.get(name, object), skl_cl):
        members = {"__module__": __name__, "__doc__": f"{skl_cl.__name__} with the method `to_onnx`."}
        _CLASSES[name] = type(name, (OnnxOperatorMixin, skl_cl), members)
    return _CLASSES[name]


def __getattr__(name: str) -> Any:
    if name.startswith(_PREFIX):
        known = dict(Lazy("sklearn.utils:all_estimators").get()())
        known |= {kind: Lazy(f"sklearn.pipeline:{kind}").get() for kind in ("Pipeline", "FeatureUnion")}
        if name.removeprefix(_PREFIX) in known:
            return find_class(known[name.removeprefix(_PREFIX)])
    return absent(__name__, name)
