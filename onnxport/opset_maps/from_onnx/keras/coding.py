"""Arguments of a primitive as JSON, so that a saved Keras model holds them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.from_onnx.values import TYPE_NAMES, Array, HostValue, object_array

OF_NAME = {name: dtype for dtype, name in TYPE_NAMES.items()}


@dataclass(frozen=True, eq=False)
class Slot:
    """The place of a tensor among a primitive's arguments.

    Attributes:
        index: which of the layer's inputs stands there.
    """

    index: int


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor among a primitive's arguments that is part of the model's description.

    Attributes:
        array: its content.
    """

    array: Array


def encode(item: object) -> Any:
    """An argument as JSON.

    >>> encode((1, None, [ir.DataType.FLOAT]))
    {'tuple': [1, None, {'list': [{'dtype': 'FLOAT'}]}]}
    """
    match item:
        case None | bool() | str():
            return item
        case Slot():
            return {"slot": item.index}
        case Constant():
            return {"constant": _array(item.array)}
        case HostValue():
            return {"host": [_array(item.array), item.dtype.name]}
        case ir.DataType():
            return {"dtype": item.name}
        case np.ndarray():
            return {"array": _array(item)}
        case np.generic():
            return encode(item.item())
        case float():
            return item if np.isfinite(item) else {"float": repr(item)}
        case int():
            return item
        case range():
            return {"tuple": list(item)}
        case tuple():
            return {"tuple": [encode(part) for part in item]}
        case list():
            return {"list": [encode(part) for part in item]}
        case dict():
            return {"dict": [[encode(key), encode(part)] for key, part in item.items()]}
    raise TypeError(f"an argument of type {type(item).__name__} can't be saved")


def decode(item: object) -> Any:
    """What `encode` was given."""
    if not isinstance(item, dict):
        return item
    ((kind, content),) = item.items()
    match kind:
        case "slot":
            return Slot(content)
        case "constant":
            return Constant(_array_of(content))
        case "dtype":
            return ir.DataType[content]
        case "array":
            return _array_of(content)
        case "host":
            return HostValue(_array_of(content[0]), ir.DataType[content[1]])
        case "float":
            return float(content)
        case "tuple":
            return tuple(decode(part) for part in content)
        case "list":
            return [decode(part) for part in content]
    return {decode(key): decode(part) for key, part in content}


def replaced(item: object, wanted: Callable[[Any], bool], replace: Callable[[Any], Any]) -> Any:
    """A nested argument in which what is `wanted` is replaced."""
    if wanted(item):
        return replace(item)
    if isinstance(item, (list, tuple)):
        return type(item)(replaced(part, wanted, replace) for part in item)
    if isinstance(item, dict):
        return {key: replaced(part, wanted, replace) for key, part in item.items()}
    if isinstance(item, np.ndarray) and item.dtype == object:
        return object_array([replaced(part, wanted, replace) for part in item.ravel()], item.shape)
    return item


def _array(array: Array) -> dict[str, Any]:
    if array.dtype == object:
        items = [item.decode() if isinstance(item, bytes) else item for item in array.ravel().tolist()]
        return {"dtype": "object", "shape": list(array.shape), "items": [encode(item) for item in items]}
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


def _array_of(content: dict[str, Any]) -> Array:
    shape = tuple(content["shape"])
    if content["dtype"] == "object":
        return object_array([decode(item) for item in content["items"]], shape)
    name = content["dtype"]
    dtype = np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)
    return np.frombuffer(base64.b64decode(content["data"]), dtype).reshape(shape)
