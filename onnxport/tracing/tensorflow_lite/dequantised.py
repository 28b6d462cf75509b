"""A TFLite file without quantisation: whole numbers that stand for real ones are these."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema  # TensorFlow's own description of the format

from onnxport.tracing.tensorflow_lite.file import FLOAT32, LiteFile, Steps, Tensor, array_of

_HALF: int = schema.TensorType.FLOAT16
_CHANGES = ("QUANTIZE", "DEQUANTIZE")


def is_quantised(file: LiteFile) -> bool:
    """Whether numbers of the file stand for real ones, or are held in fewer bits."""
    tensors = (tensor for index in range(file.graphs) for tensor in file.graph(index).tensors)
    return any(tensor.steps is not None or tensor.kind == _HALF for tensor in tensors)


def dequantised(file: LiteFile, content: Any) -> Any:
    """The content of a file whose quantised tensors are float32, its operators between whole and real numbers left out."""
    result = copy(content)
    result.buffers, result.subgraphs = list(content.buffers or ()), [copy(graph) for graph in content.subgraphs]
    result.signatureDefs = [_copied(item) for item in content.signatureDefs or ()]
    for index, graph in enumerate(result.subgraphs):
        known = file.graph(index)
        graph.tensors = [
            _real(file, tensor, item, result) for tensor, item in zip(known.tensors, graph.tensors, strict=True)
        ]
        instead: dict[int, int] = {}
        kept = []
        for operator, item in zip(known.operators, graph.operators or (), strict=True):
            if operator.code in _CHANGES:
                instead[operator.outputs[0]] = instead.get(operator.inputs[0], operator.inputs[0])
                continue
            item = copy(item)
            item.inputs = np.array([instead.get(number, number) for number in operator.inputs], np.int32)
            kept.append(item)
        graph.operators = kept
        graph.outputs = np.array([instead.get(number, number) for number in known.outputs], np.int32)
        for signature in result.signatureDefs:
            if signature.subgraphIndex == index:
                for entry in signature.outputs or ():
                    entry.tensorIndex = instead.get(entry.tensorIndex, entry.tensorIndex)
    return result


def _copied(signature: Any) -> Any:
    result = copy(signature)
    result.outputs = [copy(entry) for entry in signature.outputs or ()]
    return result


def _real(file: LiteFile, tensor: Tensor, item: Any, content: Any) -> Any:
    """A tensor of the content as float32, its numbers in a buffer of their own."""
    if tensor.steps is None and tensor.kind != _HALF:
        return item
    result = copy(item)
    result.type, result.quantization = FLOAT32, None
    if tensor.data is not None:
        array = array_of(file.title, tensor)
        values = array.astype(np.float32) if tensor.steps is None else _values(array, tensor.steps)
        buffer = schema.BufferT()
        buffer.data = np.ascontiguousarray(values, np.float32).reshape(-1).view(np.uint8)
        result.buffer = len(content.buffers)
        content.buffers.append(buffer)
    return result


def _values(array: np.ndarray, steps: Steps) -> np.ndarray:
    shape = [-1 if axis == steps.axis else 1 for axis in range(array.ndim)] if steps.per_channel else []
    scale, zero = (item.reshape(shape) if shape else item[0] for item in (steps.scale, steps.zero_point))
    return ((array.astype(np.float64) - zero) * scale.astype(np.float64)).astype(np.float32)
