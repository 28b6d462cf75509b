"""The user's `dynamic_shapes`, free of any framework: which dimensions of which inputs are named, fixed or left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from onnxport.errors import InvalidInputError

_EXAMPLE = '{"x": {0: "batch"}}'


def by_path(given: object, roots: Sequence[str]) -> dict[str, Any]:
    """The description of each tensor by its path (``x``, ``past.0.key``), not looked into yet.

    It is given by name or in the order of `roots`, the inputs' names, and nested as the inputs are; of a tensor it is a dict from
    axis to dimension, or a list with one dimension an axis.

    Raises:
        InvalidInputError: it is neither, or describes more inputs than there are.
    """
    if isinstance(given, Mapping):
        items = [(str(name), item) for name, item in given.items()]
    elif isinstance(given, (list, tuple)):
        if len(given) > len(roots):
            raise InvalidInputError(
                f"dynamic_shapes has {len(given)} items for {len(roots)} inputs ({', '.join(roots)})"
            )
        items = list(zip(roots, given, strict=False))
    else:
        raise InvalidInputError(
            f"dynamic_shapes={given!r}: a dict by input name, such as {_EXAMPLE}, or a tuple in order"
        )
    return dict(pair for name, item in items for pair in _leaves(name, item))


def _leaves(path: str, item: object) -> Iterator[tuple[str, Any]]:
    if item is None:
        return
    if isinstance(item, Mapping) and not (item and all(isinstance(key, int) for key in item)):
        for key, child in item.items():
            yield from _leaves(f"{path}.{key}", child)
    elif isinstance(item, (list, tuple)) and any(isinstance(child, (Mapping, list, tuple)) for child in item):
        for index, child in enumerate(item):
            yield from _leaves(f"{path}.{index}", child)
    else:
        yield path, item


def axes(path: str, item: object, rank: int) -> dict[int, Any]:
    """A tensor's description, as `by_path` gives it, by axis from the front: a name, a size, or an object of the framework's.

    Raises:
        InvalidInputError: it has no such axis, or a list is too long or too short.
    """
    if isinstance(item, Mapping):
        pairs: Iterable[tuple[Any, Any]] = item.items()
    elif isinstance(item, (list, tuple)):
        if len(item) != rank:
            raise InvalidInputError(
                f"dynamic_shapes: {path!r} has {rank} dimensions, the list {item!r} names {len(item)}; to name "
                f"some of them write {_EXAMPLE}"
            )
        pairs = enumerate(item)
    else:
        raise InvalidInputError(f"dynamic_shapes: {path!r} is given {item!r}; write {_EXAMPLE}")
    by_axis: dict[int, Any] = {}
    for axis, dim in pairs:
        if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
            raise InvalidInputError(f"dynamic_shapes: {path!r} has no dimension {axis!r}, it has {rank} dimensions")
        if dim == "" or isinstance(dim, (bool, float)):
            raise InvalidInputError(f"dynamic_shapes: dimension {axis} of {path!r} is {dim!r}; write {_EXAMPLE}")
        if axis % rank in by_axis:
            raise InvalidInputError(f"dynamic_shapes: dimension {axis % rank} of {path!r} is given twice")
        by_axis[axis % rank] = dim
    return {axis: dim for axis, dim in by_axis.items() if dim is not None}


def name_of(path: str, axis: int, dim: object) -> str | None:
    """The name that a description gives a dimension: a string, or a `torch.export.Dim`'s; none of Dim.AUTO and its like.

    Raises:
        InvalidInputError: it is something else.
    """
    name = dim if isinstance(dim, str) else getattr(dim, "__name__", None)
    if isinstance(name, str) or type(dim).__name__ == "_DimHint":
        return name
    raise InvalidInputError(
        f"dynamic_shapes: dimension {axis} of {path!r} is {dim!r}: a name, the size as it is, or a torch.export.Dim"
    )


def unknown(path: str, known: Iterable[str]) -> InvalidInputError:
    """The error for a path that is no tensor's."""
    listed = list(known)
    below = [name for name in listed if name.startswith(f"{path}.")]
    if below:
        return InvalidInputError(f"dynamic_shapes: {path!r} is no tensor, its tensors are {', '.join(below)}")
    tensor = next((name for name in listed if path.startswith(f"{name}.")), None)
    axis = path.removeprefix(f"{tensor}.")
    if tensor is not None:
        return InvalidInputError(
            f"dynamic_shapes: the dimensions of {tensor!r} are keyed by whole numbers: {{0: ...}}, not {{{axis!r}: ...}}"
        )
    return InvalidInputError(f"dynamic_shapes: no input {path!r}; the inputs are {', '.join(listed)}")


def check_size(path: str, axis: int, dim: object, size: int | None) -> None:
    """Refuses a fixed size that the example or signature contradicts.

    Raises:
        InvalidInputError: it does.
    """
    if isinstance(dim, int) and dim != size:
        held = "varies in the signature" if size is None else f"is {size}"
        raise InvalidInputError(
            f"dynamic_shapes: dimension {axis} of {path!r} {held}, not {dim}; for one that varies write {_EXAMPLE}"
        )


def check_names(named: Iterable[tuple[str, int, str, int | None]]) -> None:
    """Refuses one name for dimensions of different sizes, each given as its path, axis, name and example size.

    Raises:
        InvalidInputError: the example inputs contradict a name.
    """
    seen: dict[str, tuple[str, int, int]] = {}
    for path, axis, name, size in named:
        if size is None:
            continue
        other = seen.setdefault(name, (path, axis, size))
        if other[2] != size:
            raise InvalidInputError(
                f"dynamic_shapes: {name!r} is dimension {other[1]} of {other[0]!r}, which is {other[2]}, and dimension {axis} of "
                f"{path!r}, which is {size}: dimensions of one name are of one size"
            )
