"""``tf2onnx``, on `onnxport.convert`: ``from onnxport.compat import tf2onnx`` stands for ``import tf2onnx``."""

from typing import Any

from onnxport.compat.tf2onnx import convert as convert
from onnxport.version import __version__ as __version__


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"onnxport.compat has no tf2onnx.{name}: from_keras, from_function, from_graph_def, from_tflite; "
        "onnxport.convert does the rest"
    )
