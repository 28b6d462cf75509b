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
)
# By default it computes in half precision where the processor has it, and merges kernels for speed alone.
_PRECISE = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}


def open_file(path: Path, shapes: Shapes) -> OpenFile:
    """The file, compiled for the sizes that it declares."""
    import numpy as np
    import openvino

    core = openvino.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", _PRECISE)
    places = {name: place for place, port in enumerate(compiled.inputs) for name in port.names}

    def run(feeds: Mapping[str, Any]) -> list[Any]:
        request = compiled.create_infer_request()
        given = {places[name]: value for name, value in feeds.items() if name in places}
        results = request.infer(given, share_inputs=False, share_outputs=False)
        return [np.array(results[port]) for port in compiled.outputs]

    return run
