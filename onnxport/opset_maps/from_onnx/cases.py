"""Cases of importer entries: graphs in ONNX's text form, judged by onnxruntime."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from onnxport.opset_maps.cases import Array, Case

if TYPE_CHECKING:
    import onnx


def graph(text: str, *inputs: Array | np.ndarray, opset: int = 17, ml: int = 3) -> Case:
    """A case whose model is a graph in ONNX's text form, ``(float[N, 3] x) => (float[N, 3] y) {y = Relu(x)}``.

    Args:
        text: signature and nodes; operators of ai.onnx.ml are written with their domain.
        inputs: one array for each input of the graph.
        opset: version of ai.onnx.
        ml: version of ai.onnx.ml.
    """
    return Case(partial(_parsed, text, opset, ml), inputs, factory=True)


def _parsed(text: str, opset: int, ml: int) -> onnx.ModelProto:
    from onnx import parser  # a case is built only in tests

    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "ai.onnx.ml": {ml}]> case {text}')
