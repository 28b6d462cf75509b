"""What a functional model gives, one inside of another: lists, and maps whose keys are no names that JSON keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from onnxport.opset_maps.from_onnx.keras.coding import decode, encode

# A tensor, or a list or map of such; in a saved model the place of the tensor.
Outputs: TypeAlias = Any


def leaves_of(outputs: Outputs) -> list[Any]:
    """The tensors of nested outputs, those of a map in its own order, where Keras sorts them by their keys."""
    if isinstance(outputs, dict):
        return [leaf for item in outputs.values() for leaf in leaves_of(item)]
    if isinstance(outputs, (list, tuple)):
        return [leaf for item in outputs for leaf in leaves_of(item)]
    return [outputs]


def places_of(outputs: Outputs) -> list[Any]:
    """Likewise the places of tensors in a configuration of Keras: the name of a layer and two numbers.

    >>> places_of([["dense", 0, 0], {1: ["a", 0, 0], 0: ["b", 0, 1]}])
    [['dense', 0, 0], ['a', 0, 0], ['b', 0, 1]]
    """
    if isinstance(outputs, dict):
        return [place for item in outputs.values() for place in places_of(item)]
    if isinstance(outputs[0], str):
        return [outputs]
    return [place for item in outputs for place in places_of(item)]


def has_maps(outputs: Outputs) -> bool:
    """Whether a map is among them."""
    if isinstance(outputs, (list, tuple)):
        return any(map(has_maps, outputs))
    return isinstance(outputs, dict)


def has_only_names(outputs: Outputs) -> bool:
    """Whether every key of a map is text, which JSON gives back as it was."""
    if isinstance(outputs, dict):
        return all(isinstance(key, str) and has_only_names(item) for key, item in outputs.items())
    return not isinstance(outputs, (list, tuple)) or all(map(has_only_names, outputs))


def form_of(outputs: Outputs) -> Any:
    """Nested outputs without their tensors, as JSON.

    >>> form_of(["a tensor", {-1: "one", 7: "another"}])
    {'list': [None, {'dict': [[-1, None], [7, None]]}]}
    """
    return encode(_emptied(outputs))


def of_form(form: Any, leaves: list[Any]) -> Outputs:
    """What `form_of` was given, with these tensors.

    >>> of_form(form_of([None, {-1: None, 7: None}]), ["a", "b", "c"])
    ['a', {-1: 'b', 7: 'c'}]
    """
    return _filled(decode(form), iter(leaves))


def _emptied(outputs: Outputs) -> Any:
    if isinstance(outputs, dict):
        return {key: _emptied(item) for key, item in outputs.items()}
    return [_emptied(item) for item in outputs] if isinstance(outputs, (list, tuple)) else None


def _filled(form: Any, leaves: Iterator[Any]) -> Outputs:
    if isinstance(form, dict):
        return {key: _filled(item, leaves) for key, item in form.items()}
    return [_filled(item, leaves) for item in form] if isinstance(form, list) else next(leaves)
