"""The functions of other converters, under their own signatures, on `onnxport.convert`: a program changes its import alone.

``from onnxport.compat import tf2onnx`` stands for ``import tf2onnx``, likewise ``skl2onnx`` and ``onnx2torch``; ``torch`` is
PyTorch with an exporter that is ours. Nothing of those packages is imported or called. The functions stand here by name
too. Every argument is honoured or refused by name; what is converted is proved as always.
"""

import sys
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING

from onnxport.compat.absent import PEERS, absent, install
from onnxport.errors import InvalidInputError
from onnxport.frameworks.descriptor import Lazy

if TYPE_CHECKING:
    from onnxport.compat import torch as torch
    from onnxport.compat.onnx2torch import convert as onnx2torch_convert
    from onnxport.compat.skl2onnx import convert_sklearn, to_onnx
    from onnxport.compat.tf2onnx.convert import from_function, from_graph_def, from_keras, from_tflite
    from onnxport.compat.torch.onnx import export as torch_onnx_export

_HOME = {
    "torch_onnx_export": "torch.onnx:export",
    "from_keras": "tf2onnx.convert:from_keras",
    "from_function": "tf2onnx.convert:from_function",
    "from_graph_def": "tf2onnx.convert:from_graph_def",
    "from_tflite": "tf2onnx.convert:from_tflite",
    "convert_sklearn": "skl2onnx:convert_sklearn",
    "to_onnx": "skl2onnx:to_onnx",
    "onnx2torch_convert": "onnx2torch:convert",
}

__all__ = [
    "convert_sklearn",
    "from_function",
    "from_graph_def",
    "from_keras",
    "from_tflite",
    "onnx2torch_convert",
    "stand_in",
    "to_onnx",
    "torch",
    "torch_onnx_export",
]

install()


def stand_in(*names: str) -> None:
    """Has ``import skl2onnx`` and its like mean what is here, for the rest of the process: a program with many imports
    changes by one line.

    Args:
        names: ``"tf2onnx"``, ``"skl2onnx"``, ``"onnx2torch"``; all three by default.

    Raises:
        InvalidInputError: another is named, or the package itself is imported already.
    """
    for name in names or PEERS:
        if name not in PEERS:
            raise InvalidInputError(f"stand_in: {name!r} is none of {', '.join(PEERS)}")
        own = import_module(f"onnxport.compat.{name}")
        if sys.modules.get(name, own) is not own:
            raise InvalidInputError(f"stand_in: {name} is imported already: call it before")
        # Or an import by the other name would load it twice.
        for module in walk_packages(own.__path__, f"{own.__name__}."):
            import_module(module.name)
        known = {key: module for key, module in sys.modules.items() if key.startswith(f"{own.__name__}.")}
        inner = {key.removeprefix("onnxport.compat."): module for key, module in known.items()}
        sys.modules |= {name: own, **inner}


def __getattr__(name: str) -> object:
    if name == "torch":
        return import_module("onnxport.compat.torch")
    if name in _HOME:
        return Lazy(f"onnxport.compat.{_HOME[name]}").get()
    return absent(__name__, name)


def __dir__() -> list[str]:
    return __all__
