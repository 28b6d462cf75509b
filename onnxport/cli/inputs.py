"""Example inputs from the command line: files, shapes, Python objects."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from onnxport.errors import InvalidInputError, MissingDependencyError
from onnxport.tracing.trust.archives import check_zip

_SHAPE = re.compile(r"(?:(?P<name>[^=]+)=)?(?P<dims>\d+(?:x\d+)*|scalar)?(?::(?P<dtype>\w+))?")
_MAX_BYTES = 1 << 32
_SAFE_INTEGER = 3  # drawn integers stay below it, since they may be indices


def read_inputs(path: Path, *, table: bool) -> Any:
    """Example inputs from a file.

    ``.npz``: inputs by name, or in order where they are called arr_0, arr_1 ...; ``.npy``: one input; ``.csv`` and
    ``.parquet``: a DataFrame; ``.txt``: a list of strings, one a line. For a `table` of samples an array is not put into a tuple.

    Raises:
        InvalidInputError: the file is missing or can't be read.
    """
    if not path.is_file():
        raise InvalidInputError(f"no file {str(path)!r} with example inputs")
    suffix = path.suffix.lower()
    try:
        match suffix:
            case ".npz":
                check_zip(repr(str(path)), path, packed=4)
                with np.load(path, allow_pickle=False) as archive:
                    arrays = {name: archive[name] for name in archive.files}
                odd = next((name for name, array in arrays.items() if not isinstance(array, np.ndarray)), None)
                if odd is not None:
                    raise ValueError(f"its part {odd!r} is no array")
                in_order = all(re.fullmatch(r"arr_\d+", name) for name in arrays)
                return tuple(arrays.values()) if in_order else arrays
            case ".npy":
                array = np.load(path, allow_pickle=False)
                return array if table else (array,)
            case ".csv" | ".parquet":
                return _frame(path, suffix)
            case ".txt":
                return path.read_text(encoding="utf-8").splitlines()
    except MissingDependencyError:
        raise
    except Exception as error:  # NumPy lets through what zipfile, zlib and Python's tokenizer raise
        reason = str(error).strip() or type(error).__name__
        raise InvalidInputError(f"{str(path)!r} can't be read as example inputs: {reason}") from error
    raise InvalidInputError(f"{str(path)!r}: example inputs come as .npz, .npy, .csv, .parquet or .txt")


def _frame(path: Path, suffix: str) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise MissingDependencyError.for_extra("pandas", "sklearn") from error
    if suffix == ".csv":
        return pandas.read_csv(path)
    try:
        return pandas.read_parquet(path)
    except ImportError as error:
        raise MissingDependencyError(
            "a Parquet file needs pyarrow, which is not installed: pip install pyarrow"
        ) from error


def draw_inputs(shapes: Iterable[str]) -> Any:
    """Random inputs of given shapes, the same each time: ``x=1x3x224x224:float32``, ``2x16:int64``, ``scalar:float32``.

    With names a dict, without a tuple. Floating-point values are standard normal, integers 0 to 2 (they may be indices).

    >>> {name: array.shape for name, array in draw_inputs(["x=2x3", "ids=4:int64"]).items()}
    {'x': (2, 3), 'ids': (4,)}

    Raises:
        InvalidInputError: a shape can't be understood.
    """
    rng = np.random.default_rng(0)
    named: dict[str, np.ndarray] = {}
    ordered: list[np.ndarray] = []
    for text in shapes:
        parts = _SHAPE.fullmatch(text)
        if parts is None or parts["dims"] is None:
            raise InvalidInputError(f"input shape {text!r}: written as {_suggested(text)}, name and type optional")
        shape = () if parts["dims"] == "scalar" else tuple(int(size) for size in parts["dims"].split("x"))
        array = _draw(rng, shape, _dtype(parts["dtype"] or "float32", text))
        if parts["name"]:
            named[parts["name"].strip()] = array
        else:
            ordered.append(array)
    if named and ordered:
        raise InvalidInputError("input shapes: name all inputs or none")
    return named or tuple(ordered)


def _suggested(text: str) -> str:
    """The shape as it is probably meant, else an example."""
    parts = re.fullmatch(
        r"(?:([A-Za-z_][\w.]*)\s*[:=])?\s*[\[(]?\s*(\d+(?:\s*[,x*]\s*\d+)*),?\s*[\])]?(?::(\w+))?", text.strip()
    )
    if parts is None:
        return "NAME=1x3x224x224:float32"
    name, dims, dtype = parts.groups()
    return f"{f'{name}=' if name else ''}{'x'.join(re.findall(r'[0-9]+', dims))}{f':{dtype}' if dtype else ''}"


def _dtype(name: str, text: str) -> np.dtype:
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biufc":
        raise InvalidInputError(f"input shape {text!r}: {name!r} is no NumPy number type")
    return dtype


def _draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if int(np.prod(shape, dtype=object)) * dtype.itemsize > _MAX_BYTES:
        raise InvalidInputError(f"input shape {'x'.join(map(str, shape))}:{dtype} takes more than 4 GiB")
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0, _SAFE_INTEGER, shape).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)
