"""OpenVINO, by its own ONNX frontend, on the CPU in the file's own precision."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxport.validation.witnesses.engine import Engine, OpenFile, Shapes

ENGINE = Engine(
    "openvino",
    "OpenVINO",
    "onnxport.validation.witnesses.engines.openvino:open_file",
    packages=("openvino",),
    distribution="openvino",
    extra="openvino",
    settles_nan=False,  # its Relu makes 0 of NaN
)
# By default it computes in half precision where the processor has it, and merges kernels for speed alone.
_PRECISE = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}


def open_file(path: Path, shapes: Shapes) -> OpenFile:
    """The file, compiled for the sizes that it declares.

    Raises:
        ValueError: OpenVINO has no rule for some of its operators.
    """
    import numpy as np
    import openvino

    core = openvino.Core()
    try:
        compiled = core.compile_model(core.read_model(path), "CPU", _PRECISE)
    except RuntimeError as error:
        _, _, summary = str(error).partition("Summary:")  # of the operators that its frontend does not take
        reasons = [line.removeprefix("-- ").strip() for line in summary.splitlines() if line.strip()]
        raise ValueError("; ".join(reasons) or str(error)) from error
    names = [port.names for port in compiled.inputs]

    def run(feeds: Mapping[str, Any]) -> list[Any]:
        if len(feeds) != len(names):
            raise ValueError(f"it takes {len(names)} inputs, the file has {len(feeds)}")
        # An input that is an output too has the output's name alone: the graph's order tells then.
        named = all(any(name in own for own in names) for name in feeds)
        places = {name: next(i for i, own in enumerate(names) if name in own) for name in feeds} if named else {}
        given = {places.get(name, place): value for place, (name, value) in enumerate(feeds.items())}
        request = compiled.create_infer_request()
        results = request.infer(given, share_inputs=False, share_outputs=False)
        return [np.array(results[port]) for port in compiled.outputs]

    return run
