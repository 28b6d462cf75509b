"""Options that a project sets once for all its runs: ``.onnxport.toml``, or ``[tool.onnxport]`` of ``pyproject.toml``.

The nearest folder upwards of the working directory that holds one of the two has it. Keys of the file are options without
their dashes, for every command that has them; those of a table named after a command are for that one, and those of
``[convert]`` for its aliases as well. What is typed comes first.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxport.errors import InvalidInputError

_FILE, _PROJECT = ".onnxport.toml", "pyproject.toml"
# What runs code, or names the files of one run: a file that comes with a repository does not decide on it.
_TYPED = frozenset("allow_pickle allow_code load_op_libraries inputs weights check output html help".split())
_CONVERT = "convert"


@dataclass(frozen=True)
class Option:
    """An option of a command, as far as a file can set it."""

    parameter: str
    names: tuple[str, ...]  # without dashes
    flag: bool
    several: bool


@dataclass(frozen=True)
class Settings:
    """The options that a file sets for one command, by parameter."""

    values: Mapping[str, Any]
    file: str = ""

    def origin(self, parameter: str) -> str:
        """What stands in an error behind an option that the file sets."""
        return f" (set by {self.file})" if parameter in self.values else ""


_NONE = Settings({})
used: ContextVar[Settings] = ContextVar("settings", default=_NONE)
"""What a file sets for the command that runs."""


def settings(command: str, commands: Mapping[str, Sequence[Option]]) -> Settings:
    """What the file of the working directory sets for a command, `commands` being the options of all.

    Raises:
        InvalidInputError: the file can't be read, or holds an option that no command has or a value that it can't have.
    """
    given = _given(Path.cwd())
    if given is None:
        return _NONE
    place, table = given
    own: dict[str, Any] = {}
    sections = {key: value for key, value in table.items() if isinstance(value, dict)}
    everywhere = {key: value for key, value in table.items() if key not in sections}
    unknown = [key for key in sections if key not in commands]
    if unknown:
        if unknown[0] == "tool" and place == _FILE:
            raise InvalidInputError(
                f"{place}: [tool.onnxport.convert] is pyproject.toml's; here it is written [convert]"
            )
        raise InvalidInputError(f"{place}: there is no command {unknown[0]!r}; there are {', '.join(commands)}")
    for section, values in [("", everywhere), *sections.items()]:
        owners = commands.values() if not section else [commands[section]]
        mine = section in ("", command) or (section == _CONVERT and "2" in command)
        for key, value in values.items():
            spelled = f"{place}: {section}.{key}" if section else f"{place}: {key}"
            options = [option for known in owners for option in _options(known, key)]
            if not options:
                raise InvalidInputError(
                    f"{spelled} is {f'no option of onnxport {section}' if section else 'an option of no command'}"
                )
            read = _checked(options[0], value, spelled)
            own |= {option.parameter: read for option in _options(commands[command], key) if mine}
    return Settings(own, place)


def _given(folder: Path) -> tuple[str, dict[str, Any]] | None:
    """The name and table of the nearest file."""
    for place in (folder, *folder.parents):
        own, project = place / _FILE, place / _PROJECT
        if own.is_file():
            return _FILE, _read(own)
        if project.is_file():
            table = _read(project).get("tool", {}).get("onnxport")
            return None if table is None else (_PROJECT, table)
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{str(path)!r} can't be read: {error}") from None


def _options(options: Sequence[Option], key: str) -> Iterator[Option]:
    spelled = key.replace("_", "-")
    yield from (option for option in options if spelled in option.names)


def _checked(option: Option, value: Any, place: str) -> Any:
    if option.parameter in _TYPED:
        raise InvalidInputError(f"{place} is typed on the command line, not set by a file")
    if option.flag:
        fits, needed = isinstance(value, bool), "true or false"
    elif option.several:
        fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
        needed = "a list of strings"
    else:
        fits, needed = isinstance(value, (str, int, float)) and not isinstance(value, bool), "a string or a number"
    if not fits:
        raise InvalidInputError(f"{place} = {value!r}: {needed}")
    return value if option.flag or option.several else str(value)  # read as if it were typed
