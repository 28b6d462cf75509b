"""The functions of other converters, under their own signatures, on `onnxport.convert`: a program changes its import alone.

``from onnxport.compat import tf2onnx`` stands for ``import tf2onnx``, likewise ``skl2onnx`` and ``onnx2torch``;
``torch_onnx`` for PyTorch's ``torch.onnx``. Nothing of those packages is imported or called. The functions stand here by name
too. Every argument is honoured or refused by name; what is converted is proved as always.
"""

from typing import TYPE_CHECKING

from onnxport.frameworks.descriptor import Lazy

if TYPE_CHECKING:
    from onnxport.compat.onnx2torch import convert as onnx2torch_convert
    from onnxport.compat.skl2onnx import convert_sklearn, to_onnx
    from onnxport.compat.tf2onnx import from_function, from_graph_def, from_keras
    from onnxport.compat.torch_onnx import export as torch_onnx_export

_HOME = {
    "torch_onnx_export": "torch_onnx:export",
    "from_keras": "tf2onnx:from_keras",
    "from_function": "tf2onnx:from_function",
    "from_graph_def": "tf2onnx:from_graph_def",
    "convert_sklearn": "skl2onnx:convert_sklearn",
    "to_onnx": "skl2onnx:to_onnx",
    "onnx2torch_convert": "onnx2torch:convert",
}

__all__ = [
    "convert_sklearn",
    "from_function",
    "from_graph_def",
    "from_keras",
    "onnx2torch_convert",
    "to_onnx",
    "torch_onnx_export",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return Lazy(f"onnxport.compat.{_HOME[name]}").get()
    raise AttributeError(f"module 'onnxport.compat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
