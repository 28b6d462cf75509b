"""A TensorFlow node's operands and attributes as its entry takes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import dtypes, tensor_util

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.registry import Entry
from onnxport.opset_maps.to_onnx.tensorflow.values import Function
from onnxport.tracing.tensorflow_program import dtype_of

# Attributes that say nothing about the result: hints to TensorFlow's kernels, debugging, and legacy spellings.
_HINTS = frozenset(
    "use_cudnn_on_gpu parallel_iterations validate_indices grad_a grad_b config config_proto executor_type shape_type "
    "incompatible_shape_error a_is_sparse b_is_sparse container shared_name stateful_parallelism use_inter_op_parallelism".split()
)


@dataclass(frozen=True)
class _Definition:
    """What the lowering needs of an operator's definition."""

    arguments: tuple[str | None, ...]  # per input argument the attribute that counts it, or None for a single tensor
    implied: frozenset[str]  # attributes that follow from the inputs and results
    defaults: dict[str, Any]  # default values


_definitions: dict[str, _Definition] = {}


def _definition(node: Any) -> _Definition:
    result = _definitions.get(node.type)
    if result is None:
        proto = node.op_def
        implied: set[str] = set()
        for item in (*proto.input_arg, *proto.output_arg):
            implied.update((item.type_attr, item.number_attr, item.type_list_attr))
        arguments = tuple(item.number_attr or item.type_list_attr or None for item in proto.input_arg)
        defaults = {item.name: decode(item.default_value) for item in proto.attr if item.HasField("default_value")}
        result = _definitions[node.type] = _Definition(arguments, frozenset(implied), defaults)
    return result


def call_entry(
    entry: Entry, op: OpBuilder, node: Any, operands: list[Any], function: Callable[[str], Function]
) -> Sequence[Any]:
    """The results of an entry on a node's operands; `function` gives a function attribute as entries take it.

    Raises:
        UnsupportedOperator: the node has an attribute that the entry does not take, with another value than its default.
    """
    definition = _definition(node)
    accepted, anything = _accepted(entry.function)
    attributes: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for name, proto in node.node_def.attr.items():
        if name in definition.arguments:
            counts[name] = len(proto.list.type) if proto.HasField("list") else proto.i
        if name in accepted or (anything and not name.startswith("_")):
            attributes[name] = decode(proto, function)
        elif name not in definition.implied and name not in _HINTS and not name.startswith("_"):
            value = decode(proto)
            if name not in definition.defaults or value != definition.defaults[name]:
                raise UnsupportedOperator(f"{node.type}: {name}={value!r} has no ONNX form")
    grouped: list[Any] = []
    rest = iter(operands)
    for count in definition.arguments:
        grouped.append(next(rest) if count is None else [next(rest) for _ in range(counts[count])])
    results = entry.function(op, *grouped, **attributes)
    return results if isinstance(results, (tuple, list)) else (results,)


@cache
def _accepted(function: Callable[..., Any]) -> tuple[frozenset[str], bool]:
    parameters = inspect.signature(function).parameters.values()
    names = frozenset(item.name for item in parameters if item.kind == item.KEYWORD_ONLY)
    rest = next((item for item in parameters if item.kind == item.VAR_KEYWORD), None)
    if rest is not None and str(rest.annotation).startswith("Unpack["):  # the attributes that several entries share
        (shared,) = get_args(get_type_hints(function)[rest.name])
        return names | frozenset(shared.__annotations__), False
    return names, rest is not None


def decode(proto: attr_value_pb2.AttrValue, function: Callable[[str], Any] = str) -> Any:
    """An attribute as a Python value: types as ONNX element types, shapes as tuples, functions as `function` of their names."""
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    if kind == "list":
        for field in ("s", "i", "f", "b", "type", "shape", "tensor", "func"):
            items = getattr(proto.list, field)
            if items:
                return tuple(_decode_one(field, item, function) for item in items)
        return ()
    return _decode_one(kind, getattr(proto, kind), function)


def _decode_one(kind: str, item: Any, function: Callable[[str], Any]) -> Any:
    match kind:
        case "s":
            try:
                return item.decode()
            except UnicodeDecodeError:
                return item
        case "type":
            dtype = dtypes.as_dtype(item)
            return None if dtype in (dtypes.resource, dtypes.variant) else dtype_of(dtype)
        case "shape":
            return None if item.unknown_rank else tuple(None if dim.size < 0 else dim.size for dim in item.dim)
        case "tensor":
            return tensor_util.MakeNdarray(item)
        case "func":
            return function(item.name)
    return item
