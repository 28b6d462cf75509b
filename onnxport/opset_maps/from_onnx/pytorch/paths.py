"""Where a module holds a model's initializers: names of a file as dotted paths that torch can hold, one to one.

torch.fx writes the paths into the source of a module's ``forward``. What would not be a plain string or attribute there, or
would take the place of something that belongs to a module itself, gets another name; every other name stays exactly as it is.
"""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import count
from typing import Any

import onnx_ir as ir
import torch
from torch import fx

from onnxport.graph.names import is_written_constant

# Attributes that an imported module has beside torch's own, and the receiver in the generated source.
_OWN = ("input_names", "output_names", "self")
_PRIVATE = ("_constant_", "onnxport_", "__")


def is_constant(target: str) -> bool:
    """Whether an attribute is a constant of the program, which is no part of the state dict."""
    return target.startswith("_constant_")


class Paths:
    """Paths of initializers in one module.

    Args:
        values: the initializers.
        keys: keys of the state dict that the file tells of, with the names of the initializers that hold their content.

    >>> first, second, third = (ir.val(name) for name in ("fc.weight", 'a"b', "a_b"))
    >>> paths = Paths([first, second, third])
    >>> paths.of(first), paths.of(second), paths.of(third)
    ('fc.weight', 'a_b_1', 'a_b')
    """

    def __init__(self, values: Iterable[ir.Value] = (), keys: Sequence[tuple[str, str]] = ()) -> None:
        self._paths: dict[ir.Value, str] = {}
        self._leaves: set[str] = set()
        self._containers: set[str] = set()
        self._next: dict[str, int] = {}
        weights = [value for value in values if not is_written_constant(value.name or "")]
        self._order = weights
        # Names that can stay are taken first, so that no cleaned name is before them.
        kept = [value for value in weights if value.name and cleaned(value.name) == value.name]
        self._containers.update(container for value in kept for container in _containers(value.name or ""))
        for value in kept:
            self.of(value)
        for value in weights:
            self.of(value)
        by_name = {value.name or "": path for value, path in self._paths.items()}
        self.of_key = {key: by_name[key] if key in by_name else self.take(cleaned(key)) for key, _ in keys}
        by_name = {**self.of_key, **by_name}
        self._keys = {self.of_key[key]: by_name.get(holder, self.of_key[key]) for key, holder in keys}
        self._of_holder: dict[str, list[str]] = {}
        for key, holder in self._keys.items():
            self._of_holder.setdefault(holder, []).append(key)

    def tied(self, path: str) -> list[str]:
        """Other paths of the initializer at a path."""
        return [other for other in self._of_holder.get(path, ()) if other != path]

    def state(self) -> list[tuple[str, str]]:
        """The paths of the state dict that the file tells of, each with the path whose content it has."""
        return list(self._keys.items())

    def of(self, value: ir.Value) -> str:
        """The path of an initializer."""
        if value not in self._paths:
            self._paths[value] = self.take(cleaned(value.name or ""))
        return self._paths[value]

    def order(self) -> list[str]:
        """The paths of the state dict in its order, or of the initializers in their order in the file."""
        return [*self._keys, *(self._paths[value] for value in self._order if value in self._paths)]

    def take(self, base: str) -> str:
        """`base`, numbered where something has that path, lies below it or stands in its way."""
        path = base
        if not self._free(path):
            numbers = count(self._next.get(base, 1))
            path = next(
                path
                for number in numbers
                for path in (f"{base}_{number}", f"{base.replace('.', '_')}_{number}")
                if self._free(path)
            )
            self._next[base] = next(numbers)
        self._leaves.add(path)
        self._containers.update(_containers(path))
        return path

    def _free(self, path: str) -> bool:
        if path in self._leaves or path in self._containers:
            return False
        return self._leaves.isdisjoint(_containers(path))


class Attributes(dict[str, Any]):
    """What a module is to hold, by path; what lies inside of a path is known without a look at every other."""

    def __init__(self) -> None:
        super().__init__()
        self._inside: dict[str, list[str]] = {}

    def __setitem__(self, path: str, value: object) -> None:
        if path not in self:
            for container in _containers(path):
                self._inside.setdefault(container, []).append(path)
        super().__setitem__(path, value)

    def inside(self, path: str) -> Sequence[str]:
        """The paths that lie inside of a path."""
        return self._inside.get(path, ())


def cleaned(name: str) -> str:
    """A name as a path of parts that torch and Python's source can hold.

    >>> cleaned("layer1.0.conv1.weight"), cleaned("onnx::MatMul_3"), cleaned("a..b"), cleaned("block.class.training")
    ('layer1.0.conv1.weight', 'onnx::MatMul_3', 'a__b', 'block.class_.training_')
    >>> cleaned("attention.self.query.weight"), cleaned("self.query"), cleaned("graph")
    ('attention.self.query.weight', 'self_.query', 'graph_')
    """
    parts = name.split(".")
    if not all(parts):
        parts = ["_".join(parts)]
    return ".".join(_part(part, _attributes() if i == 0 else _inner_attributes()) for i, part in enumerate(parts))


@lru_cache(1 << 12)  # models repeat theirs
def _part(part: str, taken: frozenset[str]) -> str:
    # Python reads identifiers in normal form KC (PEP 3131): other spellings would be another attribute.
    text = "".join(c if c.isprintable() and c not in "\"'\\" else "_" for c in unicodedata.normalize("NFKC", part))
    text = text.replace(".", "_") or "unnamed"
    reserved = keyword.iskeyword(text) or text in taken or text.startswith(_PRIVATE)
    return f"{text.lstrip('_') or 'unnamed'}_" if reserved else text


@cache
def _attributes() -> frozenset[str]:
    """What the whole module has that no parameter may replace."""
    return frozenset({*dir(torch.nn.Module()), *dir(fx.GraphModule(torch.nn.Module(), fx.Graph())), *_OWN})


@cache
def _inner_attributes() -> frozenset[str]:
    """What a module inside has that no parameter may replace."""
    return frozenset(dir(torch.nn.Module()))


def _containers(path: str) -> list[str]:
    return [path[:end] for end, c in enumerate(path) if c == "."]
