"""Refusals of arguments that are of another type than a function takes, in the user's terms."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from onnxport.errors import InvalidInputError


def check_path(path: object, option: str = "path") -> None:
    """Refuses what is no path of a file.

    Raises:
        InvalidInputError: it is neither a string nor a `pathlib.Path`.
    """
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        raise InvalidInputError(f"{option}={path!r}: the path of a file, such as 'model.onnx'")


def check_batches(given: object) -> None:
    """Refuses what gives batches one after the other where one is needed: a loader, a data set, a generator.

    Raises:
        InvalidInputError: it is such.
    """
    kind = type(given).__name__
    if isinstance(given, Iterator) or kind.endswith("DataLoader") or hasattr(given, "element_spec"):
        first = "next(batches)" if isinstance(given, Iterator) else "next(iter(batches))"
        raise InvalidInputError(
            f"inputs= is a {kind.lstrip('_')}, which gives batches one after the other: pass one, inputs={first}, of it the "
            "inputs alone where it holds labels too"
        )


def check_is_mapping(given: object, option: str, example: str) -> None:
    """Refuses what is no dict.

    Raises:
        InvalidInputError: it is something else.
    """
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"{option} is a {type(given).__name__}: a dict, such as {example}")


def check_mapping(given: object, option: str, example: str) -> None:
    """Refuses what is no dict by strings.

    Raises:
        InvalidInputError: it is something else, or a key is no string.
    """
    check_is_mapping(given, option, example)
    assert isinstance(given, Mapping)
    for key in given:
        if not isinstance(key, str):
            raise InvalidInputError(f"{option}: {key!r} is no name; the keys are strings, as in {example}")


def check_switches(given: Mapping[str, object]) -> None:
    """Refuses options that are neither True nor False, nor None where they are left out.

    Raises:
        InvalidInputError: one is something else.
    """
    for name, value in given.items():
        if value is not None and not isinstance(value, bool):
            raise InvalidInputError(f"{name}={value!r}: True or False")
