"""What an engine is, and the engines by name."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from onnxport.errors import InvalidInputError, MissingDependencyError
from onnxport.validation.witnesses import engines

Shapes = Mapping[str, Sequence[int]]  # of the first set's inputs, by name


class OpenFile(Protocol):
    """A file that an engine has opened."""

    def __call__(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs in graph order, as arrays, for the inputs by name."""


@dataclass(frozen=True)
class Engine:
    """An engine that runs ONNX files.

    Attributes:
        name: what the user calls it.
        title: what messages call it.
        opener: ``"package.module:name"`` of a function of a path and `Shapes`, which gives an `OpenFile`; it is called in a
            process of the engine's own.
        packages: the packages that it imports.
        distribution: the one whose version is the engine's.
        extra: the extra of onnxport that brings them.
        settles_nan: whether its kernels keep NaN and infinities as ONNX has them; where not, inputs that hold some are left out.
    """

    name: str
    title: str
    opener: str
    packages: tuple[str, ...] = ()
    distribution: str = ""
    extra: str = ""
    settles_nan: bool = True

    @property
    def version(self) -> str:
        """The version that is installed; empty where that is unknown."""
        from importlib import metadata  # takes 25 ms, and only what was asked for needs it

        try:
            return metadata.version(self.distribution) if self.distribution else ""
        except metadata.PackageNotFoundError:
            return ""


_registered: dict[str, Engine] = {}


@cache
def _built_in() -> dict[str, Engine]:
    names = [item.name for item in pkgutil.iter_modules(engines.__path__, f"{engines.__name__}.")]
    known: list[Engine] = [import_module(name).ENGINE for name in names]
    return {engine.name: engine for engine in known}


def known_engines() -> dict[str, Engine]:
    """All engines by name."""
    return {**_built_in(), **_registered}


def register_engine(engine: Engine) -> None:
    """Makes an engine known to `onnxport.validate` and the command line.

    Raises:
        InvalidInputError: another one has its name, or it is no engine.
    """
    if not isinstance(engine, Engine):
        raise InvalidInputError(f"{engine!r} is no engine: give an onnxport.Engine(name, title, opener)")
    if engine.name in known_engines():
        raise InvalidInputError(f"there is an engine {engine.name!r} already")
    _registered[engine.name] = engine


def unregister_engine(name: str) -> None:
    """Forgets an engine that was registered."""
    _registered.pop(name, None)


def chosen_engines(names: Sequence[str]) -> tuple[Engine, ...]:
    """The engines of these names, each once.

    Raises:
        InvalidInputError: there is no such engine.
        MissingDependencyError: the package of one is not installed.
    """
    known = known_engines()
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidInputError(
            f"runtimes={names!r}: a list of names, such as runtimes=[{names if isinstance(names, str) else 'openvino'!r}]"
        )
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise InvalidInputError(f"runtimes: there is no engine {name!r}; there are {', '.join(sorted(known))}")
    chosen = tuple(known[name] for name in dict.fromkeys(names))
    for engine in chosen:
        if any(find_spec(package) is None for package in engine.packages):
            raise MissingDependencyError(
                f"{engine.title} is not installed: pip install 'onnxport[{engine.extra}]'"
                if engine.extra
                else f"{engine.title} needs {', '.join(engine.packages)}, which is not installed"
            )
    return chosen
