"""Which framework an object or a file belongs to, without importing any."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from onnxport.errors import InvalidInputError, InvalidModelError

Framework = Literal["onnx", "pytorch", "tensorflow", "keras", "sklearn"]

ALIASES: dict[str, Framework] = {
    "onnx": "onnx",
    "pytorch": "pytorch",
    "torch": "pytorch",
    "tensorflow": "tensorflow",
    "tf": "tensorflow",
    "keras": "keras",
    "sklearn": "sklearn",
    "scikit-learn": "sklearn",
}

# A directory is a SavedModel where it holds one of these.
SAVED_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")

_OF_PACKAGE: dict[str, Framework] = {
    "torch": "pytorch",
    "tensorflow": "tensorflow",
    "keras": "keras",
    "sklearn": "sklearn",
    "lightgbm": "sklearn",
    "xgboost": "sklearn",
    "onnx": "onnx",
    "onnx_ir": "onnx",
}

_OF_SUFFIX: dict[str, Framework] = {
    ".onnx": "onnx",
    ".pt2": "pytorch",
    ".keras": "keras",
    ".h5": "keras",
    ".hdf5": "keras",
    ".pb": "tensorflow",
    ".tflite": "tensorflow",
    ".skops": "sklearn",
    ".pkl": "sklearn",
    ".pickle": "sklearn",
    ".joblib": "sklearn",
    ".txt": "sklearn",
    ".ubj": "sklearn",
    ".json": "sklearn",
}
# Files of weights, or of a module as a pickle: what they compute stands in Python code.
_WEIGHTS_ALONE = frozenset({".pt", ".pth", ".bin", ".ckpt", ".safetensors"})


# Formats that results are written in, the usual one first; a SavedModel is a folder of any other name.
WRITTEN: dict[Framework, tuple[str, ...]] = {
    "onnx": (".onnx",),
    "pytorch": (".pt2", ".pt", ".pth", ".safetensors"),
    "tensorflow": (),
    "keras": (".keras",),
    "sklearn": (".skops",),
}


def canonical(name: str) -> Framework:
    """The framework that `name` or an alias of it means.

    Raises:
        InvalidInputError: no such framework.

    >>> canonical("tf")
    'tensorflow'
    """
    if not isinstance(name, str) or name not in ALIASES:
        raise InvalidInputError(f"unknown framework {name!r}: one of {', '.join(sorted(ALIASES))}")
    return ALIASES[name]


def check_place(path: str | os.PathLike[str], target: Framework) -> None:
    """Refuses a place that no result can be written to in the target's format, before any work is done.

    Raises:
        InvalidInputError: the suffix is another format's, the folder is missing, or a file and a folder would collide.
    """
    place = Path(path)
    suffix = place.suffix.lower()
    known = WRITTEN[target]
    if known and suffix not in known:
        raise InvalidInputError(f"{str(path)!r}: a result in {target} is written as {', '.join(known)}, not {suffix!r}")
    others = {item for suffixes in WRITTEN.values() for item in suffixes} | set(_OF_SUFFIX)
    if not known and suffix in others:
        raise InvalidInputError(f"{str(path)!r}: a SavedModel is a folder; its name does not end in {suffix!r}")
    if not place.parent.is_dir():
        raise InvalidInputError(f"there is no folder {str(place.parent)!r} to write {place.name!r} to")
    if known and place.is_dir():
        raise InvalidInputError(f"{str(path)!r} is a folder: name a file")
    if not known and place.exists() and not place.is_dir():
        raise InvalidInputError(f"{str(path)!r} is a file: a SavedModel is a folder")


def of_path(path: str | os.PathLike[str]) -> Framework:
    """The framework that wrote a file or directory, by its suffix or its content's layout.

    Raises:
        InvalidModelError: there is no such file, or nothing says what it is.
    """
    place = Path(path)
    if not place.exists():
        raise InvalidModelError(f"no file or directory {str(path)!r}")
    if place.is_dir():
        if any((place / name).exists() for name in SAVED_MODEL_FILES):
            return "tensorflow"
        raise InvalidModelError(f"the directory {str(path)!r} is no SavedModel: it holds no saved_model.pb")
    found = _OF_SUFFIX.get(place.suffix.lower())
    if place.suffix.lower() in _WEIGHTS_ALONE:
        raise InvalidModelError(
            f"{str(path)!r} holds weights or a pickled module, not a graph: pass the module itself to onnxport.convert, or "
            f"to the command line a function that makes it: onnxport convert my_package.nets:factory --weights {place.name}"
        )
    if found is None:
        raise InvalidModelError(
            f"{str(path)!r}: the suffix {place.suffix!r} is none of {', '.join(sorted(_OF_SUFFIX))}"
        )
    return found


def of_object(model: Any, examples: Iterable[Any] = ()) -> Framework:
    """The framework of a live model.

    A class counts as its bases do (a user's `torch.nn.Module` is PyTorch's); the most derived framework class decides, so
    that a Keras model is Keras though it is also a `tf.Module`. A plain callable belongs to the framework of `examples`,
    else to the only tensor framework that is imported.

    Raises:
        InvalidModelError: it is no model of a known framework.
    """
    if isinstance(model, (str, os.PathLike)):
        return of_path(model)
    for base in type(model).__mro__:
        if (base.__module__, base.__qualname__) == ("onnxport.model", "OnnxModel"):
            return "onnx"
        found = _OF_PACKAGE.get(base.__module__.partition(".")[0])
        if found is not None:
            return found
    if hasattr(model, "fit") and hasattr(model, "get_params"):
        return "sklearn"
    if callable(model):
        for example in examples:
            found = _OF_PACKAGE.get(type(example).__module__.partition(".")[0])
            if found in ("pytorch", "tensorflow"):
                return found
        imported = [
            name for package, name in (("torch", "pytorch"), ("tensorflow", "tensorflow")) if package in sys.modules
        ]
        if len(imported) == 1:
            return canonical(imported[0])
        raise InvalidModelError(
            f"{model!r} is a plain callable: pass inputs=(...) as torch.Tensor or tf.Tensor to say which framework traces it"
        )
    raise InvalidModelError(
        f"{type(model).__module__}.{type(model).__qualname__} is no model of a framework that onnxport knows"
    )
