"""Concrete functions: traced from a callable, and read as programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry  # no public form tells which operators are stateful

from onnxport.errors import InvalidInputError, TracingError
from onnxport.graph.names import positional, unique_names
from onnxport.tracing.tensorflow_inputs import Dynamic, example_arguments, parameters_of
from onnxport.tracing.tensorflow_names import output_name, tensors_of
from onnxport.tracing.tensorflow_program import WEIGHTS, Parameter, Port, Program, Variable, dtype_of, named_ports
from onnxport.tracing.tensorflow_reasons import reason
from onnxport.tracing.tensorflow_stacks import users_stacks

# Stateful operators that call functions, which tell what they do, and those that read state.
_CALLS = frozenset({"StatefulPartitionedCall", "If", "Case", "While"})
_READS = frozenset(
    {
        WEIGHTS,
        "ReadVariableOp",
        "VariableShape",
        "ResourceGather",
        "ResourceGatherNd",
        "LookupTableFindV2",
        "LookupTableSizeV2",
    }
)
_LISTED = "A list is one argument of the function: pass a tuple with an item for each, inputs=(x,)."


def concrete(
    function: Callable[..., Any], inputs: object, kwargs: Mapping[str, Any] | None, dynamic_shapes: object
) -> Any:
    """The concrete function of a callable on example inputs, its dynamic dimensions None.

    Raises:
        InvalidInputError: there are no example inputs and the function has no signature.
        TracingError: TensorFlow can't trace it.
    """
    traceable = function if hasattr(function, "get_concrete_function") else tf.function(function)
    if getattr(traceable, "input_signature", None) is not None:
        return traced(traceable, (), {})
    if inputs is None and not kwargs:
        listed: Callable[[], list[Any]] = getattr(traceable, "_list_all_concrete_functions_for_serialization", list)
        known = listed() if hasattr(function, "get_concrete_function") else []
        if len(known) == 1:
            return known[0]
        return traced(traceable, (), {}, hint="pass inputs=(...), or give the tf.function an input_signature")
    args, named = example_arguments(inputs, kwargs)
    parameters = parameters_of(function)
    dynamic = Dynamic(dynamic_shapes, [*positional(parameters, len(args)), *named])
    listed_inputs = isinstance(inputs, list)
    return traced(traceable, *dynamic.specs(args, named, parameters), otherwise=_LISTED if listed_inputs else "")


def traced(
    function: tf.types.experimental.PolymorphicFunction,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    hint: str = "",
    *,
    otherwise: str = "",
) -> Any:
    """The concrete function of a `tf.function` on specs; `otherwise` is the way out of an error that does not tell it.

    Raises:
        TracingError: the user's code or TensorFlow fails while tracing.
        InvalidInputError: there are no arguments and it needs some; `hint` is the way out.
    """
    try:
        return function.get_concrete_function(*args, **kwargs)
    except Exception as error:  # user code runs while tracing
        if hint and isinstance(error, (TypeError, ValueError)):
            raise InvalidInputError(f"the function can't be traced without example inputs: {hint}") from error
        raise TracingError(reason(error, otherwise)) from error


def traced_call(call: Callable[..., Any], specs: tuple[Any, ...]) -> Any:
    """The concrete function of a model's call on specs, in which reads of variables have no order if nothing but reads has one.

    TensorFlow takes a tenth of the trace to order what acts on state; a call that does act on it is traced again, in order.
    Operators have the stacks that the user's code is part of.

    Raises:
        TracingError: the user's code or TensorFlow fails while tracing.
    """
    function = traced_unordered(call, specs)
    return traced_in_order(call, specs) if acts(function.graph) else function


def traced_unordered(call: Callable[..., Any], specs: tuple[Any, ...], *, autograph: bool = True) -> Any:
    """The concrete function of a model's call on specs, in which nothing that acts on state has an order.

    Raises:
        TracingError: the user's code or TensorFlow fails while tracing.
    """
    with users_stacks(call.__name__):
        plain = tf.function(call, autograph=autograph, experimental_attributes={"_disable_acd": True})
        return traced(plain, specs, {})


def traced_in_order(call: Callable[..., Any], specs: tuple[Any, ...]) -> Any:
    """The concrete function of a model's call on specs, in which what acts on state is in order.

    Raises:
        TracingError: the user's code or TensorFlow fails while tracing.
    """
    with users_stacks(call.__name__):
        return traced(tf.function(call), specs, {})


def acts(graph: Any) -> bool:
    """Whether a graph, or a function that it calls, holds an operator that may do more than read state."""
    kinds = {node.type for node in graph.get_operations()}
    if kinds & _CALLS:
        kinds.update(node.op for function in graph.as_graph_def().library.function for node in function.node_def)
    definitions = [op_def_registry.get(kind) for kind in kinds - _CALLS - _READS]
    return any(definition is None or definition.is_stateful for definition in definitions)


def of_concrete(
    function: tf.types.experimental.ConcreteFunction,
    *,
    dynamic_shapes: object = None,
    names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    variable_names: Mapping[int, str] | None = None,
    weights: Mapping[str, Parameter] | None = None,
    shared_batch: bool = False,
) -> Program:
    """The program of a concrete function, its None dimensions named after `dynamic_shapes`.

    Names are those given, in the order of the function's inputs and of its flattened outputs; a variable's by the id of its
    handle, before its own. `weights` are those that tensors of the graph stand for, by the tensor's name. With `shared_batch`
    dimension 0 of all inputs is the same size.
    """
    graph = function.graph
    count = len(function.inputs) - len(function.captured_inputs)
    tensors = list(function.inputs)[:count]
    names = list(names) if names is not None else _input_names(function, tensors)
    dynamic = Dynamic(dynamic_shapes, [name.partition(".")[0] for name in names])
    inputs = named_ports(names, tensors, dynamic, shared_batch=shared_batch or count == 1)
    outputs = _outputs(function, output_names)
    captured = _captured(function, variable_names or {}) | dict(weights or {})
    return Program(graph, inputs, outputs, captured)


def _input_names(function: tf.types.experimental.ConcreteFunction, tensors: Sequence[Any]) -> list[str]:
    if function.structured_input_signature is None:  # a part of a graph, as `prune` gives one
        return unique_names([_placeholder_name(tensor) for tensor in tensors])
    args, kwargs = function.structured_input_signature
    parameters = list(function.function_type.parameters)
    roots = list(zip(positional(parameters, len(args)), args, strict=True))
    order = {name: i for i, name in enumerate(parameters)}
    roots += sorted(kwargs.items(), key=lambda pair: order.get(pair[0], len(order)))
    named = [pair for root, item in roots for pair in tensors_of(item, (root,))]
    leaves = [(path, leaf) for path, leaf in named if isinstance(leaf, tf.TensorSpec)]
    pairs = [(leaf, tensor) for (_, leaf), tensor in zip(leaves, tensors)]
    same = all(leaf.dtype == tensor.dtype and leaf.shape.is_compatible_with(tensor.shape) for leaf, tensor in pairs)
    fits = len(leaves) == len(tensors) and same
    if fits:
        return unique_names([".".join(path) for path, _ in leaves])
    return unique_names([_placeholder_name(tensor) for tensor in tensors])


def _placeholder_name(tensor: tf.Tensor) -> str:
    try:
        return str(tensor.op.get_attr("_user_specified_name").decode())
    except ValueError:
        return str(tensor.op.name)


def _outputs(function: tf.types.experimental.ConcreteFunction, names: Sequence[str] | None) -> tuple[Port, ...]:
    tensors = list(function.outputs)
    structured = function.structured_outputs
    if names is None:
        leaves = [(path, leaf) for path, leaf in tensors_of(structured) if leaf is not None]
        for path, leaf in leaves:
            if not isinstance(leaf, (tf.Tensor, tf.TensorSpec)):
                kind = type(leaf).__name__.removesuffix("Spec")
                raise TracingError(
                    f"the output {output_name(path)!r} is a {kind}; ONNX outputs are tensors: return a dense one"
                )
        if len(leaves) > len(tensors):
            raise TracingError(f"the function has {len(tensors)} results but its structure shows {len(leaves)}")
        # A function that was differentiated also hands out, after its own results, what the gradient needs.
        tensors = tensors[: len(leaves)]
        names = unique_names([output_name(path) for path, _ in leaves])
    if not tensors:
        raise TracingError("the function returns no tensor: there is nothing to convert")
    return tuple(Port.result(name, tensor) for name, tensor in zip(names, tensors, strict=True))


def _captured(function: tf.types.experimental.ConcreteFunction, variable_names: Mapping[int, str]) -> dict[str, Any]:
    """What each capture's placeholder stands for."""
    own: dict[int, Any] = {}
    for variable in (*getattr(function, "variables", ()), *getattr(function.graph, "variables", ())):
        own.setdefault(id(variable.handle), variable)
    captured: dict[str, Any] = {}
    read = reader(list(own.values()))
    tensors = list(function.inputs)[len(function.inputs) - len(function.captured_inputs) :]
    names = {key: variable_names.get(key) or item.name.removesuffix(":0") for key, item in own.items()}
    # What a write gives is known by the variable's name, and TensorFlow calls every variable without one "Variable".
    names = dict(zip(names, unique_names(list(names.values())), strict=True))
    for external, internal in zip(function.captured_inputs, tensors, strict=True):
        if external.dtype == tf.resource and id(external) in own:
            variable = own[id(external)]
            shape = tuple(variable.shape.as_list())
            parts = names[id(external)], partial(read, variable), dtype_of(variable.dtype), shape
            captured[internal.name] = Variable(*parts)
        else:
            captured[internal.name] = external
    return captured


def reader(variables: Sequence[tf.Variable]) -> Callable[[tf.Variable], Any]:
    """A function that gives the present value of one of `variables`; its first call reads all of them.

    TensorFlow makes a kernel for each shape of a variable, which takes it a third of the time where nothing else runs between.
    """
    unread, values = list(variables), dict[int, Any]()

    def now(variable: tf.Variable) -> Any:
        return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)

    def read(variable: tf.Variable) -> Any:
        while unread:
            item = unread.pop()
            with suppress(tf.errors.OpError):  # raised again where its value is needed
                values[id(item)] = now(item)
        value = values.pop(id(variable), None)
        return now(variable) if value is None else value

    return read
