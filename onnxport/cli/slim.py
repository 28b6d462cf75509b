"""``onnxport slim``: an ONNX file with fewer nodes and the same numbers."""

from __future__ import annotations

from onnxport.cli import console
from onnxport.cli.editing import EditOptions, ModelArgument, opened
from onnxport.cli.options import with_options


@with_options
def slim(model: ModelArgument, *, given: EditOptions) -> None:
    """Leaves out what computes nothing new: constants, shape arithmetic, copies, reshapes of reshapes, unused parts."""
    from onnxport.converters.workbench import slimmed

    with given.outcome(f"simplifying {model}"), console.failure_page(given.html, str(model)):
        before = opened(model)
        result = slimmed(before, given.proof(model))
        result.save(given.output)
    if not (given.as_json or given.quiet):
        nodes = [sum(1 for _ in item.model.graph.all_nodes()) for item in (before, result)]
        console.say(f"{nodes[0]} nodes became {nodes[1]}")
    given.finish(result, model)
