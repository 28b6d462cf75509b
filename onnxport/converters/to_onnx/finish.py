"""From a builder with all nodes written to a finished model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import onnx
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.graph.bodies import every_node
from onnxport.graph.builder import OpBuilder
from onnxport.graph.passes.cleanup import clean
from onnxport.graph.passes.weight_moves import MergeWeightMovesPass
from onnxport.graph.runtimes import NEWEST_OPSET, Runtime
from onnxport.graph.runtimes.fitting import fit
from onnxport.opset_maps.lowerings.characters import MICROSOFT
from onnxport.version import __version__

# Runtimes lag behind ONNX's IR versions, and nothing beyond 10 is needed but for element types that came later.
_MAX_IR_VERSION = 10
_IR_OF_DTYPE = {ir.DataType.FLOAT4E2M1: 11, ir.DataType.FLOAT8E8M0: 12, ir.DataType.INT2: 13, ir.DataType.UINT2: 13}


def finish(
    op: OpBuilder,
    outputs: Sequence[ir.Value],
    output_names: Sequence[str],
    *,
    name: str = "main",
    rewrites: Sequence[Callable[[ir.Model], object]] = (),
    runtime: Runtime = "onnxruntime",
    notes: list[str] | None = None,
    merge: bool = True,
) -> ir.Model:
    """The model that `op`, the main graph's builder, has written, cleaned.

    The `output_names` are exact, reserved in the naming authority beforehand. `rewrites` are passes that the source needs before
    the graph is cleaned. What is written for the `runtime`, where that is not ``"reference"``, the most direct graph, is added to
    `notes`. Without `merge` equal nodes stay apart, as blocks need them that become functions.
    """
    graph = op.graph(outputs, name=name, output_names=output_names)
    model = ir.Model(graph, ir_version=_MAX_IR_VERSION, producer_name="onnxport", producer_version=__version__)
    for rewrite in rewrites:
        rewrite(model)
    model = clean(model, merge=merge)
    foreign = _foreign(model, runtime if op.opset <= NEWEST_OPSET else "reference")
    rewritten = _fitted(model, op, merge=merge) if runtime == "onnxruntime" else ()
    MergeWeightMovesPass()(model)
    if notes is not None:
        notes.extend((*rewritten, *foreign, *_without_rank(model)))
    model.ir_version = lowest_ir_version(model)
    return model


def _without_rank(model: ir.Model) -> list[str]:
    return [
        f"the number of axes of output {value.name!r} is known at run time only: runtimes take that, onnx.checker does not"
        for value in model.graph.outputs
        if isinstance(value.type, ir.TensorType) and value.shape is None
    ]


def _foreign(model: ir.Model, runtime: Runtime) -> list[str]:
    """What the file needs beside ONNX's own operators.

    Raises:
        UnsupportedOperator: the runtime has none of them.
    """
    foreign = sorted({node.op_type for node in every_node(model.graph) if node.domain == MICROSOFT})
    if foreign and runtime == "reference":
        raise UnsupportedOperator(
            f"{', '.join(foreign)} of {MICROSOFT}, which reads the characters of strings: ONNX's reference evaluator lacks it; "
            "runtime='onnxruntime' at an opset that it loads has it"
        )
    return [
        f"{item} of {MICROSOFT} reads the characters of strings: onnxruntime has it, ONNX itself not"
        for item in foreign
    ]


def _fitted(model: ir.Model, op: OpBuilder, *, merge: bool) -> tuple[str, ...]:
    if op.opset > NEWEST_OPSET:
        beyond = f"opset {op.opset} is beyond {NEWEST_OPSET}, the last that onnxruntime loads"
        return (f"{beyond}: ONNX's reference evaluator runs it",)
    return fit(model, op, merge=merge)


def lowest_ir_version(model: ir.Model) -> int:
    """The lowest IR version that the model's opsets and element types need.

    The version table is ONNX's own (`onnx.helper.VERSION_TABLE`); it is capped at 10, since what later IR versions added
    is element types, and those are looked for.
    """
    known = [item for item in model.graph.opset_imports.items() if item[0] in ("", "ai.onnx.ml")]
    version = min(_ir_version_for(tuple(known)), _MAX_IR_VERSION)
    dtypes = {value.dtype for value in (*model.graph.initializers.values(), *model.graph.inputs)}
    for node in every_node(model.graph):
        dtypes.update(value.dtype for value in node.outputs)
    return max([version, *(needed for dtype, needed in _IR_OF_DTYPE.items() if dtype in dtypes)])


@cache
def _ir_version_for(opsets: tuple[tuple[str, int], ...]) -> int:
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets]
    version: int = onnx.helper.find_min_ir_version_for(imports, ignore_unknown=True)
    return version
