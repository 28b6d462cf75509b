"""The process that `readers` starts: it reads one file and ends. It imports no framework, so that it starts at once."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from typing import Any


def main() -> None:
    """Reads the file that standard input names; the exit code is not 0 where that fails."""
    order = json.load(sys.stdin)
    sys.path[:] = order["search"]
    _bound_memory(order["bytes"])
    _READERS[order["reader"]](order)


def _bound_memory(most: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    limit = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if limit == resource.RLIM_INFINITY or limit > most:
        resource.setrlimit(resource.RLIMIT_DATA, (most, limit))


def _hdf5(order: dict[str, Any]) -> None:
    import h5py

    if not zipfile.is_zipfile(order["path"]):
        _walk(h5py.File(order["path"], "r"), order["bytes"])
        return
    with zipfile.ZipFile(order["path"]) as archive:
        for name in archive.namelist():
            if name.endswith(".h5"):
                with archive.open(name) as stream:
                    _walk(h5py.File(stream, "r"), order["bytes"])


def _walk(store: Any, most: int) -> None:
    """Every name and attribute, and what is stored in chunks or as text: a plain block of numbers can't lead astray.

    An array of more than `most` bytes ends the process.
    """
    import h5py

    for item in hdf5_items(store):
        for name in item.attrs:
            item.attrs[name]
        if isinstance(item, h5py.Dataset):
            if item.size is not None and item.size * item.dtype.itemsize > most:
                raise SystemExit(f"{item.name!r} unpacks to {item.size * item.dtype.itemsize:,} bytes")
            if not item.external and not item.is_virtual and (item.chunks or item.dtype.kind == "O"):
                for part in item.iter_chunks() if item.chunks else [()]:
                    item[part]


def hdf5_items(store: Any) -> Iterator[Any]:
    """Every group and array that hard links lead to, each once; those of a group only after the caller is done with it."""
    import h5py

    waiting, seen = [store["/"]], set()
    while waiting:
        item = waiting.pop()
        address = h5py.h5o.get_info(item.id).addr
        if address in seen:
            continue
        seen.add(address)
        yield item
        if isinstance(item, h5py.Group):
            links = [name for name in item if isinstance(item.get(name, getlink=True), h5py.HardLink)]
            waiting += [item[name] for name in links]


def _lightgbm(order: dict[str, Any]) -> None:
    import ctypes

    library = ctypes.CDLL(order["library"])
    library.LGBM_GetLastError.restype = ctypes.c_char_p
    handle, rounds = ctypes.c_void_p(), ctypes.c_int()
    if library.LGBM_BoosterCreateFromModelfile(order["path"].encode(), ctypes.byref(rounds), ctypes.byref(handle)):
        raise SystemExit(library.LGBM_GetLastError().decode("utf-8", "replace"))


def _xgboost(order: dict[str, Any]) -> None:
    import ctypes

    library = ctypes.CDLL(order["library"])
    library.XGBGetLastError.restype = ctypes.c_char_p
    handle = ctypes.c_void_p()
    failed = library.XGBoosterCreate(None, ctypes.c_uint64(0), ctypes.byref(handle))
    if failed or library.XGBoosterLoadModel(handle, order["path"].encode()):
        raise SystemExit(library.XGBGetLastError().decode("utf-8", "replace").partition("\nStack trace")[0])


_READERS = {"hdf5": _hdf5, "lightgbm": _lightgbm, "xgboost": _xgboost}

if __name__ == "__main__":
    main()
