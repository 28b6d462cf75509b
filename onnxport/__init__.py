"""onnxport converts models between PyTorch, TensorFlow, Keras, scikit-learn and ONNX, and proves each conversion.

Everything is imported on first use: importing onnxport imports no framework.
"""

from typing import TYPE_CHECKING

from onnxport.version import __version__ as __version__

if TYPE_CHECKING:
    from onnxport.converters.convert import convert
    from onnxport.converters.validate import validate
    from onnxport.errors import OnnxportError, UnprovedWarning, UnsupportedOperator, ValidationError
    from onnxport.frameworks import Framework, register_framework
    from onnxport.frameworks.native_log import native_log_kept
    from onnxport.model import OnnxModel
    from onnxport.opset_maps.extending import register_from_onnx, register_to_onnx
    from onnxport.validation.report import Report
    from onnxport.validation.witnesses.engine import Engine, register_engine

_HOME = {
    "convert": "onnxport.converters.convert",
    "validate": "onnxport.converters.validate",
    "OnnxModel": "onnxport.model",
    "Report": "onnxport.validation.report",
    "Engine": "onnxport.validation.witnesses.engine",
    "register_engine": "onnxport.validation.witnesses.engine",
    "Framework": "onnxport.frameworks",
    "register_framework": "onnxport.frameworks",
    "register_to_onnx": "onnxport.opset_maps.extending",
    "register_from_onnx": "onnxport.opset_maps.extending",
    "native_log_kept": "onnxport.frameworks.native_log",
    "OnnxportError": "onnxport.errors",
    "UnprovedWarning": "onnxport.errors",
    "UnsupportedOperator": "onnxport.errors",
    "ValidationError": "onnxport.errors",
}

# What other packages call so.
_INSTEAD = {
    "load": "onnxport.OnnxModel.load(path)",
    "load_model": "onnxport.OnnxModel.load(path)",
    "save": "model.save(path), of what onnxport.convert gives",
    "export": "onnxport.convert(model, inputs=(x,))",
    "to_onnx": "onnxport.convert(model, inputs=(x,))",
    "check": "onnxport.validate(source, model)",
}
_WITH_GRAPHS = frozenset({"convert", "validate", "OnnxModel", "register_to_onnx", "register_from_onnx"})

__all__ = [
    "Engine",
    "Framework",
    "OnnxModel",
    "OnnxportError",
    "Report",
    "UnprovedWarning",
    "UnsupportedOperator",
    "ValidationError",
    "convert",
    "native_log_kept",
    "register_engine",
    "register_framework",
    "register_from_onnx",
    "register_to_onnx",
    "validate",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        instead = _INSTEAD.get(name, "")
        raise AttributeError(f"module 'onnxport' has no attribute {name!r}{f': it is {instead}' if instead else ''}")
    from onnxport.frameworks.descriptor import Lazy
    from onnxport.graph.symbolic import import_onnx_ir

    if name in _WITH_GRAPHS:
        import_onnx_ir()
    value = Lazy(f"{_HOME[name]}:{name}").get()
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
