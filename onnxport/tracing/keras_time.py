"""Layers over a time axis: what Keras 3.15 does with them while a model is traced, put right.

A TimeDistributed layer is mapped over as many steps as the batch has rows where a graph does not know the number of steps.
A recurrent layer on PyTorch walks through the rows of the batch as a list, which fixes their number in a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import keras


@contextmanager
def every_step(model: keras.Layer) -> Iterator[None]:
    """In the block a TimeDistributed layer of `model` maps over all steps, also where their number is open."""
    layers = [item for item in model._flatten_layers() if type(item) is keras.layers.TimeDistributed]
    for layer in layers:
        object.__setattr__(layer, "call", partial(_call, layer, layer.call))
    try:
        yield
    finally:
        for layer in layers:
            object.__delattr__(layer, "call")


def _call(layer: Any, usual: Callable[..., Any], inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
    if inputs.shape[1] is not None:
        return usual(inputs, training=training, mask=mask)

    def step(item: tuple[Any, ...]) -> Any:
        options = {"training": training} if layer.layer._call_has_training_arg else {}
        if len(item) > 1:
            options["mask"] = item[1]
        return layer.layer.call(item[0], **options)

    masked = mask is not None and layer.layer._call_has_mask_arg
    given = (_time_first(inputs), _time_first(mask)) if masked else (_time_first(inputs),)
    return _time_first(keras.ops.vectorized_map(step, given))


def _time_first(tensor: Any) -> Any:
    """The tensor with its first two axes in the other order."""
    return keras.ops.transpose(tensor, [1, 0, *range(2, len(tensor.shape))])


@contextmanager
def steps_unrolled(model: keras.Layer) -> Iterator[None]:
    """In the block the recurrent layers of `model` are written out step by step, as a trace of them on PyTorch is anyway."""
    layers = [item for item in model._flatten_layers() if isinstance(item, keras.layers.RNN) and not item.unroll]
    for layer in layers:
        object.__setattr__(layer, "unroll", True)
        object.__setattr__(layer, "inner_loop", partial(_in_order, layer, layer.inner_loop))
    try:
        yield
    finally:
        for layer in layers:
            object.__setattr__(layer, "unroll", False)
            object.__delattr__(layer, "inner_loop")


def _in_order(
    layer: Any, usual: Callable[..., Any], sequences: Any, initial_state: Any, mask: Any, **options: Any
) -> Any:
    """The steps of a layer; a masked one that goes backwards, which Keras can't unroll, goes forwards through reversed steps."""
    if mask is None or not layer.go_backwards:
        return usual(sequences, initial_state, mask, **options)
    object.__setattr__(layer, "go_backwards", False)
    try:
        return usual(keras.ops.flip(sequences, 1), initial_state, keras.ops.flip(mask, 1), **options)
    finally:
        object.__setattr__(layer, "go_backwards", True)
