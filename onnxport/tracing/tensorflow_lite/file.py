"""Reading `.tflite` files: nothing of them runs; weights stay views of the mapped file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import tensorflow as tf
from flatbuffers import Builder
from tensorflow.lite.python import schema_py_generated as schema  # TensorFlow's own description of the format

from onnxport.errors import InvalidInputError
from onnxport.graph.mapped import MappedFile
from onnxport.tracing.trust.faults import LARGEST, damaged, existing_file, hostile, reading
from onnxport.tracing.trust.tensorflow_lite import check_calls, check_structure

_BUILTINS = {code: name for name, code in vars(schema.BuiltinOperator).items() if name.isupper()}
_TYPES: dict[int, tf.DType] = {
    code: getattr(tf, name.lower().replace("float64", "double"))
    for name, code in vars(schema.TensorType).items()
    if name.isupper() and hasattr(tf, name.lower().replace("float64", "double"))
}
_TYPE_NAMES = {code: name.lower() for name, code in vars(schema.TensorType).items() if name.isupper()}
FLOAT32: int = schema.TensorType.FLOAT32
_MOST_RANK = 32
_SOFTMAX_SCALE = 0.99 * 2**26  # less than the kernel's own 2**26: a proof moves scales by some units in the last place


@dataclass(frozen=True)
class Steps:
    """How whole numbers stand for real ones: real = scale * (number - zero point), one pair for all or one a channel."""

    scale: np.ndarray  # float32 [n]
    zero_point: np.ndarray  # int64 [n]
    axis: int  # the dimension that the channels lie along

    @property
    def per_channel(self) -> bool:
        """Whether channels have scales of their own."""
        return self.scale.size > 1


@dataclass(frozen=True)
class Tensor:
    """A tensor of a graph as the file declares it."""

    index: int
    name: str
    kind: int  # of schema.TensorType
    dims: tuple[int | None, ...]  # None where a size is decided when the model runs
    steps: Steps | None  # of a quantised one
    is_variable: bool
    data: np.ndarray | None  # the bytes of a constant

    @property
    def type_name(self) -> str:
        """The element type as the format calls it."""
        return _TYPE_NAMES.get(self.kind, f"type {self.kind}")

    @property
    def dtype(self) -> tf.DType:
        """The element type in TensorFlow.

        Raises:
            InvalidModelError: TensorFlow has none.
        """
        if self.kind not in _TYPES:
            raise damaged(f"tensor {self.name!r}", f"TensorFlow has no type {self.type_name}")
        return _TYPES[self.kind]


@dataclass(frozen=True)
class Operator:
    """An operator of a graph."""

    code: str  # as schema.BuiltinOperator names it; of a custom one its own name
    custom: bool
    inputs: tuple[int, ...]  # numbers of tensors, -1 for one that is left out
    outputs: tuple[int, ...]
    options: Any  # the fields of its table of options; None where it has none
    custom_options: bytes
    intermediates: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """A graph of the file."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Signature:
    """A function of the file: a graph, and names for its inputs and outputs."""

    key: str
    graph: int
    inputs: Mapping[str, int]  # tensor numbers
    outputs: Mapping[str, int]


class LiteFile:
    """A TFLite file: its graphs, and the file again as TensorFlow's interpreter takes it.

    Raises:
        InvalidModelError: there is no such file, or it is damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.title = repr(str(path))
        mapped = MappedFile(str(existing_file(path)))
        self._data = mapped.read(0, mapped.size)
        check_structure(self.title, self._data.data)
        with reading(f"{self.title} is damaged"):
            self._content: Any = schema.ModelT.InitFromPackedBuf(self._data.data, 0)
        self._graphs: dict[int, Graph] = {}

    @cached_property
    def rewritten(self) -> bytes:
        """The model written anew: what a reader without checks can follow."""
        return _packed(self._content)

    def moved(self, change: Callable[[np.ndarray], np.ndarray]) -> bytes:
        """The model written anew with `change` of its floating-point constants of several numbers, and of the scales of steps."""
        content = copy(self._content)
        content.buffers, content.subgraphs = list(content.buffers or ()), [copy(item) for item in content.subgraphs]
        for graph in content.subgraphs:
            graph.tensors = [copy(item) for item in graph.tensors or ()]
            for tensor in graph.tensors:
                if tensor.quantization is not None and tensor.quantization.scale is not None:
                    tensor.quantization = copy(tensor.quantization)
                    tensor.quantization.scale = change(np.asarray(tensor.quantization.scale, np.float32))
                data = self._bytes(tensor.buffer)
                if data is not None and tensor.type == FLOAT32 and data.nbytes > 4:
                    buffer = content.buffers[tensor.buffer] = copy(content.buffers[tensor.buffer])
                    buffer.data = change(np.array(data).view(np.float32)).view(np.uint8)
                    buffer.offset = buffer.size = 0
        return _packed(content)

    def with_content(self, change: Callable[[LiteFile, Any], Any]) -> Self:
        """The file as `change` gives its content."""
        result = copy(self)
        for name in ("rewritten", "has_steps", "ends_reference_kernels", "signatures"):  # of the old content
            result.__dict__.pop(name, None)
        result._content, result._graphs = change(self, self._content), {}
        return result

    @cached_property
    def has_steps(self) -> bool:
        """Whether a tensor is quantised."""
        graphs = range(self.graphs)
        return any(item.steps is not None for index in graphs for item in self.graph(index).tensors)

    @cached_property
    def ends_reference_kernels(self) -> bool:
        """Whether a softmax reads numbers of steps so small that TFLite's reference kernel ends the process.

        It asks for scale * beta * 2**26 > 1 (``PreprocessSoftmaxScaling``); the logits of an untrained model can be smaller.
        """
        graphs = (self.graph(index) for index in range(self.graphs))
        return any(
            op.code in ("SOFTMAX", "LOG_SOFTMAX") and _least_scale(graph, op) * _SOFTMAX_SCALE <= 1.0
            for graph in graphs
            for op in graph.operators
        )

    @property
    def longest_sum(self) -> int:
        """The most numbers that belong to one result of a constant: its size by its first dimension."""
        shapes = [
            _numbers(item.shape) for graph in self._content.subgraphs for item in graph.tensors or () if item.buffer
        ]
        return max((math.prod(shape[1:]) for shape in shapes if len(shape) > 1), default=1)

    @property
    def graphs(self) -> int:
        """How many graphs the file has."""
        return len(self._content.subgraphs)

    def graph(self, index: int) -> Graph:
        """A graph of the file."""
        if index not in self._graphs:
            if not 0 <= index < len(self._content.subgraphs):
                raise damaged(self.title, f"an operator names graph {index} of {len(self._content.subgraphs)}")
            with reading(f"{self.title} is damaged"):
                self._graphs[index] = self._read_graph(self._content.subgraphs[index])
        return self._graphs[index]

    @cached_property
    def signatures(self) -> dict[str, Signature]:
        """The signatures that the file gives, by key; empty where it has none."""
        result: dict[str, Signature] = {}
        with reading(f"{self.title} is damaged: a name of a signature is no text"):
            for item in self._content.signatureDefs or ():
                for text in (
                    item.signatureKey,
                    *(entry.name for side in (item.inputs, item.outputs) for entry in side or ()),
                ):
                    (text or b"").decode()
        for item in self._content.signatureDefs or ():
            sides = [
                {_text(entry.name): entry.tensorIndex for entry in side or ()} for side in (item.inputs, item.outputs)
            ]
            result[_text(item.signatureKey)] = Signature(_text(item.signatureKey), item.subgraphIndex, *sides)
        return result

    def signature(self, key: str | None) -> Signature:
        """The signature `key`; by default serving_default, the only one, or the first graph with its tensors' names.

        Raises:
            InvalidInputError: there is no such one.
        """
        known = self.signatures
        if key is not None and key not in known:
            there = ", ".join(sorted(known)) or "none"
            raise InvalidInputError(f"signature={key!r}: the TFLite file has {there}; choose one")
        if key is None:
            key = "serving_default" if "serving_default" in known else next(iter(known), None)
        if key is None:
            graph = self.graph(0)
            named = [_apart(graph, numbers) for numbers in (graph.inputs, graph.outputs)]
            return self._checked(Signature("", 0, *named))
        return self._checked(known[key])

    def _checked(self, signature: Signature) -> Signature:
        check_calls(
            self.title,
            lambda index: [item for op in self.graph(index).operators for item in called(op)],
            signature.graph,
        )
        return signature

    def _read_graph(self, source: Any) -> Graph:
        codes = [_code(item) for item in self._content.operatorCodes or ()]
        tensors = tuple(self._read_tensor(index, item) for index, item in enumerate(source.tensors or ()))
        operators = []
        for item in source.operators or ():
            code, custom = codes[item.opcodeIndex]
            options = item.builtinOptions if item.builtinOptions is not None else item.builtinOptions2
            held = np.asarray(item.customOptions if item.customOptions is not None else [], np.uint8).tobytes()
            inner = _numbers(item.intermediates)
            operators.append(
                Operator(code, custom, _numbers(item.inputs), _numbers(item.outputs), options, held, inner)
            )
        return Graph(tensors, tuple(operators), _numbers(source.inputs), _numbers(source.outputs))

    def _read_tensor(self, index: int, item: Any) -> Tensor:
        name = _text(item.name) or f"tensor_{index}"
        shape = _numbers(item.shape)
        signature = _numbers(item.shapeSignature)
        sizes = signature if len(signature) == len(shape) else shape
        if len(shape) > _MOST_RANK or any(size < -1 for size in (*sizes, *shape)):
            raise damaged(self.title, f"tensor {name!r} has shape {list(shape)}")
        if math.prod(max(size, 1) for size in shape) > LARGEST:
            raise hostile(self.title, f"tensor {name!r} has shape {list(shape)}, more than {LARGEST:,} elements")
        data = self._bytes(item.buffer)
        dims = tuple(None if size < 0 else size for size in (sizes if data is None else shape))
        steps = self._steps(name, item.quantization, shape)
        return Tensor(index, name, item.type, dims, steps, bool(item.isVariable), data)

    def _bytes(self, index: int) -> np.ndarray | None:
        buffers = self._content.buffers or ()
        if not 0 < index < len(buffers):  # the first one is empty by the format
            return None
        buffer = buffers[index]
        if buffer.offset > 1:
            return self._data[buffer.offset : buffer.offset + buffer.size]
        if buffer.data is None or len(buffer.data) == 0:
            return None
        return np.asarray(buffer.data, np.uint8)

    def _steps(self, name: str, item: Any, shape: tuple[int, ...]) -> Steps | None:
        if item is None or item.scale is None or len(item.scale) == 0:
            return None
        if item.detailsType:
            raise damaged(self.title, f"tensor {name!r} is quantised in a way that is not supported")
        scale = np.asarray(item.scale, np.float32)
        points = item.zeroPoint if item.zeroPoint is not None and len(item.zeroPoint) else [0] * scale.size
        zero_point = np.asarray(points, np.int64)
        axis = item.quantizedDimension
        if zero_point.size == 1 and scale.size > 1:
            zero_point = np.repeat(zero_point, scale.size)
        fits = scale.size == 1 or (0 <= axis < len(shape) and shape[axis] == scale.size)
        if zero_point.size != scale.size or not fits or not np.all(np.isfinite(scale)) or np.any(scale < 0):
            raise damaged(self.title, f"tensor {name!r} has {scale.size} scales and {zero_point.size} zero points")
        return Steps(scale, zero_point, axis)


def _least_scale(graph: Graph, op: Operator) -> float:
    """The smallest step of what an operator reads, times beta where it has one; infinite where nothing is in steps."""
    steps = [graph.tensors[number].steps for number in op.inputs if 0 <= number < len(graph.tensors)]
    scales = [float(item.scale.min()) for item in steps if item is not None]
    return min(scales, default=math.inf) * float(getattr(op.options, "beta", 1.0) or 1.0)


def array_of(title: str, tensor: Tensor) -> np.ndarray:
    """A constant's numbers, as a view of the file.

    Raises:
        InvalidModelError: its bytes do not fill its shape.
    """
    dims = [size or 0 for size in tensor.dims]
    count = math.prod(dims)
    data = tensor.data if tensor.data is not None else np.empty(0, np.uint8)
    if tensor.dtype == tf.string:
        return _strings(title, tensor, data, count).reshape(dims)
    dtype = np.dtype(tensor.dtype.as_numpy_dtype)
    if data.size != count * dtype.itemsize:
        raise damaged(
            title, f"tensor {tensor.name!r} of shape {dims} and type {tensor.type_name} has {data.size:,} bytes"
        )
    return np.ascontiguousarray(data).view(dtype.newbyteorder("<") if dtype.kind not in "V" else dtype).reshape(dims)


def _strings(title: str, tensor: Tensor, data: np.ndarray, count: int) -> np.ndarray:
    """Strings: their number, where each begins and the last ends (int32), then their bytes."""
    raw = data.tobytes()
    result = np.empty(count, object)
    if len(raw) < 4 * (count + 2):
        raise damaged(title, f"tensor {tensor.name!r} is too short for {count} strings")
    head = np.frombuffer(raw, "<i4", count + 2)
    ends = head[1:]
    if head[0] != count or np.any(np.diff(ends) < 0) or ends[0] < 0 or ends[-1] > len(raw):
        raise damaged(title, f"the strings of tensor {tensor.name!r} lie outside of it")
    result[:] = [raw[start:end] for start, end in pairwise(ends)]
    return result


def called(operator: Operator) -> list[int]:
    """The graphs that an operator runs."""
    fields = vars(operator.options) if operator.options is not None else {}
    return [int(value) for name, value in fields.items() if name.endswith("SubgraphIndex")]


def _code(item: Any) -> tuple[str, bool]:
    code = max(item.builtinCode, item.deprecatedBuiltinCode)  # the format's way to go beyond 127
    name = _BUILTINS.get(code, f"operator {code}")
    return (_text(item.customCode), True) if name == "CUSTOM" else (name, False)


def _packed(content: Any) -> bytes:
    builder = Builder(4096)
    builder.Finish(content.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _text(value: bytes | str | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def _numbers(values: Any) -> tuple[int, ...]:
    return () if values is None else tuple(int(item) for item in values)


def _apart(graph: Graph, numbers: tuple[int, ...]) -> dict[str, int]:
    """Tensor numbers by the tensors' names, ``:0`` of TensorFlow left out, repeated ones numbered."""
    result: dict[str, int] = {}
    for number in numbers:
        base = graph.tensors[number].name.removesuffix(":0")
        name = base
        while name in result:
            name = f"{base}_{len(result)}"
        result[name] = number
    return result
