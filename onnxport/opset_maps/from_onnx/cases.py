"""Cases of importer entries: graphs in ONNX's text form, judged by onnxruntime."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxport.opset_maps.cases import Array, Case

if TYPE_CHECKING:
    import onnx


def graph(text: str, *inputs: Array | np.ndarray, opset: int = 17, ml: int = 3) -> Case:
    """A case whose model is a graph in ONNX's text form, ``(float[N, 3] x) => (float[N, 3] y) {y = Relu(x)}``.

    Args:
        text: signature and nodes; operators of ai.onnx.ml and com.microsoft are written with their domain.
        inputs: one array for each input of the graph.
        opset: version of ai.onnx.
        ml: version of ai.onnx.ml.
    """
    return Case(partial(_parsed, text, opset, ml), inputs, factory=True)


def ml_node(op_type: str, outputs: str, attributes: str, *arrays: Array | np.ndarray, ml: int = 3) -> Case:
    """A case of one node of ai.onnx.ml.

    Args:
        op_type: the operator.
        outputs: the graph's outputs with their types, ``float[N, 3] y``.
        attributes: those of the node, ``scale = [2.0]``.
        arrays: one for each input; their first axis is dynamic.
        ml: version of ai.onnx.ml.
    """
    types = [ir.DataType.from_numpy(np.dtype(array.dtype)).name.lower() for array in arrays]
    dims = [", ".join(["N", *map(str, array.shape[1:])]) for array in arrays]
    inputs = ", ".join(f"{kind}[{sizes}] x{i}" for i, (kind, sizes) in enumerate(zip(types, dims, strict=True)))
    operands, results = (", ".join(_NAME.findall(text)) for text in (inputs, outputs))
    text = f"({inputs}) => ({outputs}) {{{results} = ai.onnx.ml.{op_type} <{attributes}> ({operands})}}"
    return graph(text, *arrays, ml=ml)


# What follows a type, as the dimensions do not.
_NAME = re.compile(r"\] (\w+)")


def _parsed(text: str, opset: int, ml: int) -> onnx.ModelProto:
    from onnx import parser  # a case is built only in tests

    versions = f'"": {opset}, "ai.onnx.ml": {ml}, "com.microsoft": 1, "com.microsoft.nchwc": 1'
    return parser.parse_model(f"<ir_version: 8, opset_import: [{versions}]> case {text}")
