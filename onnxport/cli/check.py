"""``onnxport check``: would another engine take an ONNX file?"""

from __future__ import annotations

from typing import Annotated

import typer

from onnxport.cli import console
from onnxport.cli.console import Json, Quiet, Verbose, outcome
from onnxport.cli.editing import ModelArgument, opened
from onnxport.errors import InvalidInputError

_ENGINES = ("tensorrt", "coreml", "openvino", "litert", "web")
_SHOWN = 30  # nodes that are listed as text


def check(
    model: ModelArgument,
    engines: Annotated[
        list[str],
        typer.Option(
            "--for", help=f"{', '.join(_ENGINES[:-1])} or {_ENGINES[-1]}. Repeatable.", autocompletion=lambda: _ENGINES
        ),
    ],
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Names the nodes that an engine's documentation does not list, with their source lines; exit code 1 where there are any."""
    with outcome(as_json, f"checking {model}", verbose=verbose, quiet=quiet):
        from onnxport.converters.workbench import with_types
        from onnxport.graph.engines.profile import findings
        from onnxport.graph.engines.profiles import PROFILES

        chosen = console.words(engines) or []
        for name in chosen:
            if name not in PROFILES:
                raise InvalidInputError(f"--for: there is no profile of {name!r}; there are {', '.join(PROFILES)}")
        typed = with_types(opened(model))
        results = [(PROFILES[name], findings(typed, PROFILES[name])) for name in chosen]
    if as_json:
        console.print_json(
            {
                item.name: {"title": item.title, "source": item.source, "nodes": [vars(node) for node in nodes]}
                for item, nodes in results
            }
        )
    elif not quiet:
        for item, nodes in results:
            console.say(
                f"{item.title}: {'takes every node' if not nodes else f'{len(nodes)} nodes beyond what it documents'}"
            )
            for node in nodes[:_SHOWN]:
                place = f" (at {node.where})" if node.where else ""
                console.say(f"  {node.op} {node.node!r}: {node.reason}{place}")
            if len(nodes) > _SHOWN:
                console.say(f"  and {len(nodes) - _SHOWN} others: --json lists them")
            if nodes:
                console.say(f"  {item.otherwise}")
            console.say(f"  by {item.source}")
    if any(nodes for _, nodes in results):
        raise typer.Exit(console.MISMATCH)
