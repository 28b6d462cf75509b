"""A Keras model handed to another process, which rebuilds it from its configuration and weights on another backend."""

from __future__ import annotations

import ast
import importlib
import json
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import ml_dtypes
import numpy as np
from keras.src.saving import saving_lib

from onnxport.errors import TracingError, first_line
from onnxport.frameworks.native_log import native_log_kept

_MODEL, _PATHS, _CLASSES, _ARRAYS = "model.keras", "paths.json", "classes.json", "arrays.npz"
# What Keras holds beside its own classes, and knows.
_OWN = frozenset(("keras", "numpy", "jax", "jaxlib", "torch", "tensorflow", "ml_dtypes", "None"))
_DEFINED = (type, types.FunctionType)


def write_model(model: keras.Layer, folder: Path) -> bool:
    """Writes what `read_model` needs: the configuration with the weights, and where the user's own classes are defined.

    Returns:
        Whether there are such classes.

    Raises:
        TracingError: the model can't be written, or holds a class that another process can't import.
    """
    try:
        with native_log_kept():  # Keras imports TensorFlow for it, whatever its backend is
            saving_lib.save_model(model, folder / _MODEL)
    except Exception as error:  # user code runs
        raise TracingError(
            f"{type(model).__name__} {model.name!r} can't be rebuilt on another backend, since Keras can't save it: "
            f"{type(error).__name__}: {first_line(error)}; give its classes get_config() and from_config()"
        ) from error
    classes = sorted(set(_classes(model)))
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main is None and any(module == "__main__" for module, _, _ in classes):
        names = ", ".join(name for module, name, _ in classes if module == "__main__")
        raise TracingError(f"{names} can't be rebuilt on another backend: define it in a module that can be imported")
    paths = [(item.path, list(item.shape)) for item in model.variables]
    (folder / _PATHS).write_text(json.dumps(paths))
    (folder / _CLASSES).write_text(json.dumps({"main": main, "classes": classes}))
    return bool(classes)


def read_model(folder: Path) -> keras.Layer:
    """The model, on this process' backend, its variables under their paths in the other process.

    Raises:
        TracingError: Keras can't rebuild it here.
    """
    spelled = json.loads((folder / _CLASSES).read_text())
    known: dict[str, Any] = {}
    for module, name, registered in spelled["classes"]:
        known[registered] = known[name] = _definition(module, name, spelled["main"])
    try:
        model = saving_lib.load_model(folder / _MODEL, custom_objects=known, compile=False, safe_mode=False)
    except Exception as error:  # user code runs
        raise TracingError(
            f"Keras can't rebuild the model on the {keras.backend.backend()} backend: {error}"
        ) from error
    paths = json.loads((folder / _PATHS).read_text())
    if [shape for _, shape in paths] == [list(item.shape) for item in model.variables]:
        for variable, (path, _) in zip(model.variables, paths, strict=True):
            variable._path = path
    return model


def _classes(model: keras.Layer) -> Iterator[tuple[str, str, str]]:
    """Module, name and registered name of each of the user's own classes and functions that the layers are or hold."""
    for layer in model._flatten_layers() if isinstance(model, keras.layers.Layer) else [model]:
        held = [item if isinstance(item, _DEFINED) else type(item) for item in vars(layer).values()]
        for item in [type(layer), *held]:
            owner = str(getattr(item, "__module__", None)).partition(".")[0]
            if owner in sys.stdlib_module_names - {"__main__"} or owner in _OWN or item.__name__ == "<lambda>":
                continue
            yield item.__module__, item.__qualname__, keras.saving.get_registered_name(item)


def _definition(module: str, name: str, main: str | None) -> Any:
    """A class or function of the user's.

    Raises:
        TracingError: there is none of this name, or what defines it does not run here.
    """
    reasons: dict[str, str] = {}
    item: Any = _definitions(main or "", reasons) if module == "__main__" else importlib.import_module(module)
    for part in name.split("."):
        item = getattr(item, part, None)
    if item is None:
        why = f": {reasons[name.partition('.')[0]]}" if name.partition(".")[0] in reasons else ""
        raise TracingError(
            f"{name} of {Path(main or '').name if module == '__main__' else module} can't be rebuilt on the "
            f"{keras.backend.backend()} backend{why}; define it at the top of a module that can be imported"
        )
    return item


def _definitions(path: str, reasons: dict[str, str]) -> types.ModuleType:
    """The imports, classes, functions and constants of a script, which is not run.

    `reasons` gets what is not defined, and why.
    """
    module = sys.modules.get("__onnxport_main__")
    if module is None:
        module = sys.modules["__onnxport_main__"] = types.ModuleType("__onnxport_main__")
        for node in _kept(ast.parse(Path(path).read_text()).body):
            try:
                exec(compile(ast.Module([node], []), path, "exec"), module.__dict__)
            except Exception as error:  # it needs what is not kept
                reasons[getattr(node, "name", "")] = f"{type(error).__name__}: {first_line(error)}"
    return module


_WHOLE = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)


def _kept(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """What defines something and does nothing else, also within ``with`` and ``try`` around imports."""
    for node in body:
        if isinstance(node, _WHOLE) or _is_constant(node):
            yield node
        elif isinstance(node, (ast.With, ast.Try)) and all(isinstance(item, _WHOLE[:2]) for item in node.body):
            yield from [node] if isinstance(node, ast.Try) and _only_defines(node) else node.body


def _only_defines(node: ast.Try) -> bool:
    handled = [item for handler in node.handlers for item in handler.body]
    rest = [*handled, *node.orelse, *node.finalbody]
    return all(isinstance(item, (*_WHOLE, ast.Pass)) or _is_constant(item) for item in rest)


def _is_constant(node: ast.stmt) -> bool:
    """Whether it gives a literal a name, or another name to something: ``UNITS = [4, 8]``, ``layers = keras.layers``."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return False
    value: ast.expr = node.value
    while isinstance(value, ast.Attribute):
        value = value.value
    if isinstance(value, ast.Name):
        return True
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True


def write_values(value: object, folder: Path) -> Any:
    """Nested arguments as JSON; their arrays go into a file of `folder`."""
    arrays: list[np.ndarray] = []
    spelled = _spelled(value, arrays)
    np.savez(folder / _ARRAYS, *arrays)
    return spelled


def read_values(spelled: Any, folder: Path) -> Any:
    """The arguments that `write_values` wrote."""
    with np.load(folder / _ARRAYS) as file:
        return _value(spelled, [file[name] for name in file.files])


def _spelled(value: object, arrays: list[np.ndarray]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {"mapping": [[_spelled(key, arrays), _spelled(item, arrays)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"tuple" if isinstance(value, tuple) else "list": [_spelled(item, arrays) for item in value]}
    array = np.asarray(keras.ops.convert_to_numpy(value) if keras.ops.is_tensor(value) else value)
    if array.dtype.kind in "OUS":
        texts = [item.decode() if isinstance(item, bytes) else str(item) for item in array.ravel()]
        return {"strings": texts, "shape": list(array.shape)}
    arrays.append(array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array)
    return {"array": len(arrays) - 1, "dtype": str(array.dtype)}


def _value(spelled: Any, arrays: Sequence[np.ndarray]) -> Any:
    if not isinstance(spelled, dict):
        return spelled
    if "mapping" in spelled:
        return {_value(key, arrays): _value(item, arrays) for key, item in spelled["mapping"]}
    if "strings" in spelled:
        return np.array(spelled["strings"], dtype=object).reshape(spelled["shape"])
    if "array" in spelled:
        array = arrays[spelled["array"]]
        return array.view(ml_dtypes.bfloat16) if spelled["dtype"] == "bfloat16" else array
    items = [_value(item, arrays) for item in (spelled["tuple"] if "tuple" in spelled else spelled["list"])]
    return tuple(items) if "tuple" in spelled else items
