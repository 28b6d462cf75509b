"""The registered frameworks: those of the package, those that others register, those of installed distributions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from onnxport.errors import InvalidInputError, MissingDependencyError
from onnxport.frameworks import huggingface, keras, onnx, pytorch, sklearn, tensorflow
from onnxport.frameworks.descriptor import Framework
from onnxport.frameworks.native_log import native_log_kept

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# A distribution brings a framework by an entry point of this group: its name is the framework's, its object the descriptor.
ENTRY_POINTS = "onnxport.frameworks"

BUILT_IN = (
    onnx.FRAMEWORK,
    pytorch.FRAMEWORK,
    tensorflow.FRAMEWORK,
    keras.FRAMEWORK,
    sklearn.FRAMEWORK,
    huggingface.FRAMEWORK,
)

_registered: dict[str, Framework] = {item.name: item for item in BUILT_IN}
_started: set[Framework] = set()  # those that `require` has brought up in this process


def registered() -> tuple[Framework, ...]:
    """All frameworks, those of the package first."""
    return tuple(_registered.values())


def register_framework(framework: Framework) -> None:
    """Makes a framework known to the whole package: `onnxport.convert`, `onnxport.validate` and the command line.

    Raises:
        InvalidInputError: another framework has its name, an alias, a suffix that it reads or a package that it owns; or it is
            no descriptor.
    """
    if not isinstance(framework, Framework):
        raise InvalidInputError(
            f"{framework!r} is no descriptor of a framework: give an onnxport.Framework(name, title, ...)"
        )
    for other in registered():
        for what, own, taken in (
            ("name", _names(framework), _names(other)),
            ("suffix", framework.files.reads, other.files.reads),
            ("package", framework.owners, other.owners),
        ):
            both = set(own) & set(taken)
            if both:
                raise InvalidInputError(f"framework {framework.name!r}: the {what} {min(both)!r} is {other.name}'s")
    _registered[framework.name] = framework


def unregister_framework(name: str) -> None:
    """Forgets a framework that was registered.

    Raises:
        InvalidInputError: there is no such framework, or it is one of the package.
    """
    if name not in _registered or _registered[name] in BUILT_IN:
        raise InvalidInputError(f"framework {name!r} was not registered")
    del _registered[name]


def get(name: str) -> Framework:
    """The framework that `name` or an alias of it means; one of an installed distribution is loaded and registered.

    >>> get("tf").name
    'tensorflow'

    Raises:
        InvalidInputError: no such framework.
    """
    framework = _find(name)
    if framework is None:
        for point in list(_entry_points()):
            if point.name == name:
                _load(point)
        framework = _find(name)
    if framework is None:
        names = {known for item in registered() for known in _names(item)} | {point.name for point in _entry_points()}
        near = get_close_matches(name, sorted(names), 1) if isinstance(name, str) else []
        meant = f"did you mean {near[0]!r}? There are" if near else "one of"
        raise InvalidInputError(f"unknown framework {name!r}: {meant} {', '.join(sorted(names))}")
    return framework


def discover() -> tuple[Framework, ...]:
    """All frameworks, those of installed distributions too.

    Raises:
        MissingDependencyError: the descriptor of one can't be loaded.
    """
    for point in list(_entry_points()):
        _load(point)
    return registered()


def require(framework: Framework) -> None:
    """Imports the package of a framework and starts it.

    Raises:
        MissingDependencyError: it is not installed.
    """
    if not framework.package:
        return
    if framework in _started and framework.package in sys.modules:
        return
    try:
        with nullcontext() if framework.package in sys.modules and framework.start is None else native_log_kept():
            import_module(framework.package)
            if framework.start is not None:
                framework.start()
        _started.add(framework)
    except ImportError as error:
        if framework.extra:
            raise MissingDependencyError.for_extra(framework.title, framework.extra) from error
        raise MissingDependencyError(f"this conversion needs {framework.package!r}, which is not installed") from error


def _names(framework: Framework) -> tuple[str, ...]:
    return (framework.name, *framework.aliases)


def _find(name: object) -> Framework | None:
    if not isinstance(name, str):
        return None
    return next((item for item in registered() if name in _names(item)), None)


def _entry_points() -> Iterator[EntryPoint]:
    """The entry points of installed distributions that are not registered yet."""
    from importlib.metadata import entry_points  # takes 25 ms to import, and only unknown names and models need it

    return (point for point in entry_points(group=ENTRY_POINTS) if point.name not in _registered)


def _load(point: EntryPoint) -> None:
    try:
        framework = point.load()
    except Exception as error:  # whatever another distribution's module raises when it is imported
        raise MissingDependencyError(
            f"the framework {point.name!r}, an entry point {point.value!r}, can't be loaded: {error}"
        ) from error
    if not isinstance(framework, Framework) or framework.name != point.name:
        raise InvalidInputError(f"the entry point {point.name!r} ({point.value}) gives no descriptor of that name")
    register_framework(framework)
