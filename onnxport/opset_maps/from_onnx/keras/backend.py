"""The backend that Keras runs on: its array namespace and operators, and the names that it and Keras accept."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import keras

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps import maps
from onnxport.opset_maps.from_onnx.layout import LAST, to_last
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.registry import Semantics

PACKAGE = "onnxport"
_ARRAYS: dict[str, Namespace] = {}


def backend_arrays() -> Namespace:
    """The namespace of the framework that Keras runs on, executing on its tensors.

    Raises:
        UnsupportedOperator: Keras runs on a backend that has none.
    """
    name = keras.backend.backend()
    if name not in _ARRAYS:
        if name == "tensorflow":
            from onnxport.opset_maps.from_onnx.tensorflow.namespace import TensorFlowArrays

            _ARRAYS[name] = TensorFlowArrays()
        elif name == "torch":
            from onnxport.opset_maps.from_onnx.pytorch.namespace import TorchNamespace

            _ARRAYS[name] = TorchNamespace()
        else:
            raise UnsupportedOperator(f"imported Keras models run on the backends tensorflow and torch, not {name}")
    return _ARRAYS[name]


def backend_primitive(xp: Namespace, name: str) -> Callable[..., Any]:
    """A primitive of the backend; one on channels-last images by that on channels-first ones where it has no other."""
    if hasattr(xp, name) or name not in LAST:
        function: Callable[..., Any] = getattr(xp, name)
        return function
    first_form = getattr(xp, name.removesuffix("_last"))

    def on_last(x: Any, *args: Any, **how: Any) -> Any:
        rank = xp.ndim(x)
        image = xp.permute_dims(x, (0, rank - 1, *range(1, rank - 1)))
        return xp.permute_dims(first_form(image, *args, **how), to_last(rank))

    return on_last


def backend_namespace() -> Namespace:
    """A namespace of that framework in which whole operators are computed once, on its tensors."""
    backend_arrays()
    if keras.backend.backend() == "tensorflow":
        from onnxport.opset_maps.from_onnx.tensorflow.namespace import TensorFlowNamespace

        return TensorFlowNamespace()
    from onnxport.opset_maps.from_onnx.pytorch.namespace import TorchNamespace

    return TorchNamespace()


def backend_native() -> Semantics:
    """The operators that the framework that Keras runs on has natively."""
    return maps.tensorflow_native if keras.backend.backend() == "tensorflow" else maps.pytorch_native


def plain_name(name: str) -> str:
    """A name of an ONNX model as one that Keras accepts and its files hold: printable, without "/" or quotes."""
    text = "".join(c if c.isprintable() and c not in "\"'\\" else "_" for c in name)
    return text.replace("/", ".").strip(".")


def scope_name(name: str) -> str:
    """A name that TensorFlow takes as a scope too, where a served model's operators stand.

    >>> scope_name("/encoder/onnx::MatMul_7")
    'encoder.onnx__MatMul_7'
    """
    text = re.sub(r"[^A-Za-z0-9_.>-]", "_", plain_name(name))
    if keras.backend.backend() == "torch":  # whose parameters' names have no dots
        text = text.replace(".", "_")
    return re.sub(r"^[^A-Za-z0-9]+", "", text)


def without_autocast(config: dict[str, Any]) -> dict[str, Any]:
    """A layer's configuration without what the layers of an imported model never do."""
    return {key: item for key, item in config.items() if key != "autocast"}
