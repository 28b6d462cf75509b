"""Sizes at which a model decides otherwise than where it was traced: written into the file for who validates it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

OTHER_SIZES = "onnxport.other_sizes"  # the metadata key of the file
_MOST, _GREATEST = 8, 1 << 16  # sets of sizes, and the greatest size, that are read


def written(sizes: Sequence[Mapping[str, int]]) -> str:
    """Sets of sizes, by names of dimensions, as text."""
    return json.dumps([dict(item) for item in sizes[:_MOST]], sort_keys=True)


def read(metadata: Mapping[str, str]) -> tuple[dict[str, int], ...]:
    """The sets of sizes that a file's metadata tells of; none where it tells of none.

    >>> read({OTHER_SIZES: written([{"batch": 64}])})
    ({'batch': 64},)
    """
    try:
        given = json.loads(metadata.get(OTHER_SIZES, "[]"))
    except ValueError:  # written by someone else
        return ()
    sets = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    return tuple(item for item in sets[:_MOST] if all(_is_size(size) for size in item.values()))


def _is_size(value: object) -> bool:
    return isinstance(value, int) and 0 < value <= _GREATEST
