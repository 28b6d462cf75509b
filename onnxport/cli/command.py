"""What all commands share as commands: errors of a line, folders for what they write, options that a file sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from onnxport.cli import console
from onnxport.cli.foreign_options import answer, translated
from onnxport.cli.settings import Option, settings, used
from onnxport.errors import InvalidInputError
from onnxport.graph.symbolic import import_onnx_ir

# typer has no public names for these
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
# Options by which less is proved: one that comes with a folder must not do so unseen.
_OF_THE_PROOF = ("validate", "rtol", "atol", "allow_unproved")


class Command(TyperCommand):
    """A command that answers what was mistyped in a line: how that is written here, or the nearest that it has."""

    def make_context(self, info_name, args, parent=None, **extra):  # type: ignore[no-untyped-def]
        """The context of a run, in which options have the values that the project's file sets."""
        commands = {} if parent is None else getattr(parent.command, "commands", {})
        if commands and not extra.get("resilient_parsing"):
            try:
                given = settings(info_name, {name: _options(item) for name, item in commands.items()})
            except InvalidInputError as error:
                _refuse(str(error))
            used.set(given)
            extra["default_map"] = dict(given.values)
        return super().make_context(info_name, args, parent=parent, **extra)

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]
        """Parses the arguments.

        Raises:
            typer.Exit: they are none that the command takes.
        """
        with _answered(f"onnxport {ctx.info_name}", args):
            return super().parse_args(ctx, list(args))

    def invoke(self, ctx):  # type: ignore[no-untyped-def]
        """Runs the command; the folders of what it is to write are there, and what a file sets of its proof is named."""
        weaker = [name for name in _OF_THE_PROOF if _set_by_file(ctx, name)]
        if weaker and not (ctx.params.get("as_json") or ctx.params.get("quiet")):
            written = ", ".join(f"{name.replace('_', '-')} = {str(ctx.params[name]).lower()}" for name in weaker)
            console.say(f"{used.get().file} sets {written}")
        import_onnx_ir()
        with _folders_of([ctx.params.get(name) for name in ("output", "html")]):
            return super().invoke(ctx)


class ForeignOptions(Command):
    """A command that takes tf2onnx's spellings too."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]
        """Parses what `translated` gives."""
        with _answered(f"onnxport {ctx.info_name}"):
            arguments = translated(list(args))
        return super().parse_args(ctx, arguments)


class Commands(TyperGroup):
    """All commands: one that is not there is answered in a line."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]
        """Parses what stands before the command's name."""
        if not args:
            return super().parse_args(ctx, args)  # which prints the help
        with _answered("onnxport"):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx, args):  # type: ignore[no-untyped-def]
        """The command that is named."""
        with _answered("onnxport"):
            return super().resolve_command(ctx, args)


def _set_by_file(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT_MAP"


@contextmanager
def _answered(command: str, arguments: Sequence[str] = ()) -> Iterator[None]:
    """Arguments that the command does not take become an error of a line.

    Raises:
        typer.Exit: there are such.
    """
    try:
        yield
    except _UsageError as error:
        _refuse(_line(error, command, arguments))


def _refuse(reason: str) -> None:
    console.say(f"error: {reason}", to=console.err)
    raise typer.Exit(console.REFUSED) from None


def _line(error: Any, command: str, arguments: Sequence[str]) -> str:
    """What is wrong, and what to type."""
    unknown, parameter = getattr(error, "option_name", None), getattr(error, "param", None)
    if unknown is not None and hasattr(error, "possibilities"):
        return answer(unknown, command, error.possibilities or (), _commands_with(unknown, getattr(error, "ctx", None)))
    listed = f"{command} --help lists all"
    if parameter is None:  # "No such command 'x'. Did you mean 'y'?"
        text = error.message.rstrip(".")
        return f"{text[0].lower()}{text[1:]}" + ("" if text.endswith("?") or " " not in command else f"; {listed}")
    option = parameter.opts[0].startswith("-")
    name = max(parameter.opts, key=len) if option else parameter.name.upper()
    if not hasattr(error, "param_type"):
        typed = " ".join(arguments).replace("=", " ").split()
        value = next((f" {word!r}" for at, word in enumerate(typed) if at and typed[at - 1] in parameter.opts), "")
        origin = "" if value else used.get().origin(parameter.name)
        return f"{command} {name}{value}{origin}: {error.message.partition(',')[0].rstrip('.')}"
    return f"{command}: {name} is missing: {parameter.help.rstrip('.')}; {listed}"


def _commands_with(option: str, ctx: Any) -> list[str]:
    """The commands beside that of a context that have an option."""
    beside = {} if ctx is None or ctx.parent is None else getattr(ctx.parent.command, "commands", {})
    return [name for name, item in beside.items() if any(option in given.opts for given in item.params)]


def _options(command: Any) -> Sequence[Option]:
    return [
        Option(
            item.name,
            tuple(name.lstrip("-") for name in item.opts if name.startswith("--")),
            flag=bool(item.is_flag),
            several=bool(item.multiple),
        )
        for item in command.params
        if item.opts[0].startswith("-")
    ]


@contextmanager
def _folders_of(places: Sequence[object]) -> Iterator[None]:
    """The folders above `places` are there; of those that were not, the ones that stay empty go again."""
    created: list[Path] = []
    for place in places:
        missing = [folder for folder in Path(place).parents if not folder.exists()] if isinstance(place, Path) else []
        with suppress(OSError):  # what can't be written to is refused by the command, with the place
            for folder in reversed(missing):
                folder.mkdir()
                created.append(folder)
    try:
        yield
    finally:
        for folder in reversed(created):
            with suppress(OSError):
                folder.rmdir()
