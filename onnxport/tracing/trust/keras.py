"""What a Keras file may say: layers and functions of Keras that compute, weights of its own, no code and no other file.

A configuration names classes and functions, which Keras imports and calls; a layer may name a vocabulary or a model in another
file; an HDF5 file may link to others, and packed weights may unpack to any size.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import keras
from keras.src.backend.common import global_state  # where Keras keeps variables that wait for their first value
from keras.src.legacy.saving import saving_options, saving_utils
from keras.src.saving import serialization_lib

from onnxport.errors import InvalidModelError, UntrustedFileError, first_line
from onnxport.tracing.trust import faults
from onnxport.tracing.trust.archives import check_zip
from onnxport.tracing.trust.reader_process import hdf5_items
from onnxport.tracing.trust.readers import check_reader

# Parts of Keras whose classes and functions only compute.
_PARTS = frozenset(
    "activations applications constraints dtype_policies initializers layers legacy losses metrics models ops optimizers "
    "quantizers random regularizers".split()
)
_NOT_COMPUTING = frozenset(
    "get deserialize serialize load_model save_model clone_model model_from_json TFSMLayer TorchModuleWrapper JaxLayer "
    "FlaxLayer".split()
)
_MARKERS = frozenset(
    "__keras_tensor__ __tensor__ __numpy__ __bytes__ __ellipsis__ __slice__ __tuple__ TensorShape".split()
)
_FILES = frozenset(("vocabulary", "filepath", "file_path", "idf_weights"))


def check_file(path: Path, *, allow_pickle: bool) -> None:
    """Looks through a ``.keras`` or HDF5 file before Keras loads it; `allow_pickle` allows the code of Lambda layers.

    Raises:
        UntrustedFileError: loading or running it would do more than compute.
        InvalidModelError: it is damaged, or takes more memory than its size allows.
    """
    title = repr(str(path))
    if path.suffix.lower() != ".keras":
        check_reader("hdf5", path, title)
        with _opened(title, path) as store:
            config = store.attrs.get("model_config")
            _check_store(title, store, path.stat().st_size)
        if config is None:
            raise InvalidModelError(
                f"{title} holds no Keras model: it has no attribute model_config; a file of weights alone is loaded into the "
                "model that they belong to (model.load_weights), and that is converted"
            )
        _check_config(title, path, _parsed(title, config), allow_pickle, legacy=True)
        return
    if not zipfile.is_zipfile(path):
        raise InvalidModelError(f"{title} is truncated or no .keras file: it is no zip archive")
    check_zip(title, path, packed=4)
    check_reader("hdf5", path, title)
    with faults.reading(f"{title} is damaged"), zipfile.ZipFile(path) as archive:
        config = archive.read("config.json")
        weights = "model.weights.h5"
        if weights in archive.namelist():
            with archive.open(weights) as stream, _opened(f"{title} ({weights})", stream) as store:
                _check_store(f"{title} ({weights})", store, path.stat().st_size)
    _check_config(title, path, _parsed(title, config), allow_pickle, legacy=False)


def check_weights(path: Path) -> None:
    """Looks through an HDF5 file of weights.

    Raises:
        UntrustedFileError: it takes data from other files.
        InvalidModelError: it is damaged, or unpacks to more than its size allows.
    """
    title = repr(str(path))
    check_reader("hdf5", path, title)
    with _opened(title, path) as store:
        _check_store(title, store, path.stat().st_size)


def _opened(title: str, source: object) -> Any:
    with faults.reading(f"{title} is truncated or no HDF5 file"):
        return h5py.File(source, "r")


def _check_store(title: str, store: h5py.File, file_bytes: int) -> None:
    """Links stay inside of the file, and its arrays within what it can hold."""
    total = 0
    with faults.reading(f"{title} is damaged"):
        for group in hdf5_items(store):
            for name in group if isinstance(group, h5py.Group) else ():
                link = group.get(name, getlink=True)
                if isinstance(link, h5py.ExternalLink):
                    raise faults.untrusted(title, f"{group.name}/{name} is a link to another file, {link.filename!r}")
                if isinstance(link, h5py.SoftLink):
                    raise InvalidModelError(f"{title} is no file of Keras: {group.name}/{name} is a link")
                item = group[name]
                if isinstance(item, h5py.Dataset):
                    if item.external or item.is_virtual:
                        raise faults.untrusted(title, f"the data of {item.name!r} stands in another file")
                    total += math.prod(item.shape or ()) * item.dtype.itemsize
                    faults.check_bytes(title, f"with {item.name!r} its arrays take", total, file_bytes)


def _parsed(title: str, text: Any) -> Any:
    with faults.reading(f"{title} is damaged: its configuration is no JSON"):
        config = json.loads(text)
    if not isinstance(config, dict) or "class_name" not in config:
        raise faults.damaged(title, "its configuration names no class")
    return config


def _check_config(title: str, path: Path, config: Mapping[str, Any], allow_pickle: bool, *, legacy: bool) -> None:
    for where, item in _items(config):
        if "class_name" in item:
            _check_class(title, where, item, allow_pickle)
        for key in _FILES & item.keys():
            if isinstance(item[key], str) and item[key]:
                raise faults.untrusted(title, f"{key} of {where} is read from the file {item[key]!r}")
    limit = faults.most_bytes(path.stat().st_size)
    if 4 * _most_numbers(config) > limit:
        _check_size(title, config, limit, legacy, safe_mode=not allow_pickle)


def _items(config: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every dictionary of nested JSON, with the name of the layer that it stands in."""
    waiting: list[tuple[str, Any]] = [("the model", config)]
    while waiting:
        where, item = waiting.pop()
        if isinstance(item, dict):
            name = item.get("name")
            where = repr(name) if isinstance(name, str) else where
            yield where, item
            waiting += [(where, child) for child in item.values()]
        elif isinstance(item, list):
            waiting += [(where, child) for child in item]


def _check_class(title: str, where: str, item: Mapping[str, Any], allow_pickle: bool) -> None:
    name, module = item["class_name"], item.get("module")
    inner = item.get("config")
    layer = name == "Lambda" and isinstance(inner, dict) and isinstance(inner.get("function"), list)
    if layer or name == "__lambda__":
        if allow_pickle:
            return
        raise UntrustedFileError(
            f"{title} holds the code of a Lambda layer ({where}), which loading would run; {faults.ALLOW_PICKLE}"
        )
    if name in _MARKERS:
        return
    if name == "function":
        name = inner
    if not isinstance(name, str) or not (module is None or isinstance(module, str)):
        raise faults.damaged(title, f"{where} names the class {name!r} of the module {module!r}")
    registered = item.get("registered_name") or name
    if any(keras.saving.get_registered_object(item) is not None for item in (str(registered), name)):
        return  # a class that is imported here already
    parts = (module or "").split(".")
    part = parts[2] if parts[:2] == ["keras", "src"] and len(parts) > 2 else parts[1] if len(parts) > 1 else ""
    known = parts == ["keras"] or (parts[0] == "keras" and part in _PARTS) or module in ("builtins", None)
    if known and name not in _NOT_COMPUTING:
        return
    if name in _NOT_COMPUTING or parts[0] == "keras":
        raise faults.untrusted(title, f"{module or 'keras'}.{name} (in {where}) does more than compute")
    raise UntrustedFileError(
        f"{title}: {where} is of the class {module}.{name}, which is not Keras's own: import what registers it with "
        f"keras.saving.register_keras_serializable, or {faults.ALLOW_CODE}"
    )


def _most_numbers(config: object) -> int:
    """No fewer than the numbers that the model's variables hold, from the whole numbers in its configuration."""
    largest, total = 1, 0
    for _, item in _items(config):
        sizes = [*_sizes(item)]
        largest = max([largest, *sizes])
        total += math.prod(size for size in sizes if size > 1) if len(sizes) < 100 else sum(sizes)
    return total * largest


def _sizes(item: Mapping[str, Any]) -> Iterator[int]:
    waiting = [value for value in item.values() if not isinstance(value, dict)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300:
            yield abs(int(value))
        elif isinstance(value, list):
            waiting += [child for child in value if not isinstance(child, dict)]


_UNKNOWN = re.compile(r"Could not locate (?P<kind>class|function) '(?P<name>[^']+)'")


def not_loaded(title: str, error: Exception) -> InvalidModelError:
    """The error for a file out of which Keras can't build a model: a class of the user's own, or the first line of its reason."""
    unknown = _UNKNOWN.search(str(error))
    if unknown is None:
        return InvalidModelError(f"{title} can't be loaded as a Keras model: {first_line(error)}")
    return InvalidModelError(
        f"{title} holds the {unknown['kind']} {unknown['name']!r}, which is not registered here: import the module that "
        "registers it first (keras.saving.register_keras_serializable), or convert package.module:factory"
    )


def _check_size(title: str, config: Any, limit: int, legacy: bool, *, safe_mode: bool) -> None:
    """Builds the model without values for its variables, and adds up their sizes."""
    waiting = global_state.get_global_attribute("uninitialized_variables", [], set_to_default=True)
    before = list(waiting)
    try:
        with (
            faults.raised_as(partial(not_loaded, title)),
            keras.StatelessScope(initialize_variables=False),
            saving_options.keras_option_scope(use_legacy_config=True) if legacy else nullcontext(),
            serialization_lib.SafeModeScope(safe_mode),
        ):
            if legacy:
                saving_utils.model_from_config(dict(config))
            else:
                serialization_lib.deserialize_keras_object({**config, "compile_config": None}, safe_mode=safe_mode)
            sizes = {item.path: math.prod(item.shape) * 4 for item in waiting[len(before) :]}
    finally:
        waiting[:] = before
    if sum(sizes.values()) > limit:
        name = max(sizes, key=sizes.__getitem__)
        raise faults.hostile(title, f"its variable {name!r} takes {sizes[name]:,} bytes, more than the file can hold")
