"""Whether example inputs fit the signature of a TensorFlow function, and inputs given as specifications."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from onnxport.errors import InvalidInputError


def check_fits(call: Any, args: Sequence[Any], kwargs: Mapping[str, Any], parameters: Sequence[str]) -> None:
    """Refuses inputs of other names, number, types or shapes than the function's signature has, where it has one of tensors.

    Raises:
        InvalidInputError: they do not fit.
    """
    positional, named = getattr(call, "structured_input_signature", None) or (
        getattr(call, "input_signature", None),
        {},
    )
    if positional is None or not all(isinstance(spec, tf.TensorSpec) for spec in (*positional, *named.values())):
        return
    names = list(parameters[: len(positional)])
    names += [spec.name or f"input {number}" for number, spec in enumerate(positional)][len(names) :]
    specs = {**dict(zip(names, positional, strict=True)), **named}
    given = {**dict(zip([*specs, *range(len(args))], args, strict=False)), **kwargs}
    if set(given) - set(specs) or set(named) - set(given):  # a positional one may have a default
        wanted = ", ".join(f"{name}: {_shown(spec)}" for name, spec in specs.items())
        others = ", ".join(str(name) for name in given if name in kwargs) or f"{len(args)} positional ones"
        raise InvalidInputError(f"the signature takes {wanted}; given were {others}")
    for name, value in given.items():
        _check(name, specs[name], value)


def _check(name: str, spec: Any, value: Any) -> None:
    if isinstance(value, (tf.TypeSpec, tf.RaggedTensor, tf.SparseTensor)):
        return
    try:
        fits = spec.is_compatible_with(tf.convert_to_tensor(value))
        tf.convert_to_tensor(value, spec.dtype)  # what the function itself does with arrays and numbers
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise InvalidInputError(
            f"{name!r} is {_shown(tf.convert_to_tensor(value))}, the signature takes {_shown(spec)}"
        )


def _shown(spec: Any) -> str:
    """Type and shape as reports write them."""
    shape = "[...]" if spec.shape.rank is None else str(spec.shape.as_list())
    return f"{spec.dtype.name}{shape}"


def of_specifications(call: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[..., Any] | None:
    """The concrete function of `tf.TensorSpec` inputs, nested or not; None where there is none among the inputs.

    Raises:
        InvalidInputError: there are arrays or names beside them.
    """
    leaves = tf.nest.flatten([list(args), dict(kwargs)])
    if not any(isinstance(leaf, tf.TypeSpec) for leaf in leaves):
        return None
    if kwargs or not all(isinstance(leaf, tf.TensorSpec) for leaf in leaves):
        raise InvalidInputError(
            "inputs= holds a tf.TensorSpec: give all inputs so, one for each parameter (inputs=(tf.TensorSpec([None, 4]),)), "
            "or arrays"
        )
    function = call if hasattr(call, "get_concrete_function") else tf.function(call)
    concrete: Callable[..., Any] = function.get_concrete_function(*args)
    return concrete


def is_nested(argument: object) -> bool:
    """Whether an argument consists of several tensors."""
    if isinstance(argument, list):  # of numbers it is one
        return any(is_nested(item) or isinstance(item, (np.ndarray, tf.Tensor)) for item in argument)
    return isinstance(argument, (Mapping, tuple, tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices))


def taken_apart(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors that ragged, sparse and nested arguments consist of, by a signature's names: those of `x` are x, x_1, x_2, ...

    Raises:
        InvalidInputError: they are more or fewer than the signature takes.
    """
    rest, result = list(names), {}
    for key, argument in (*(("", item) for item in args), *kwargs.items()):
        first = rest.index(key) if key in rest else 0
        for leaf in tf.nest.flatten(argument, expand_composites=True):
            if first >= len(rest):
                raise InvalidInputError(
                    f"the signature takes {len(names)} tensors ({', '.join(names)}), more were given"
                )
            result[rest.pop(first)] = leaf
    if rest:
        raise InvalidInputError(f"the signature takes {len(names)} tensors; {', '.join(rest)} were not given")
    return result
