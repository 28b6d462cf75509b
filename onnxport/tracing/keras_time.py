"""TimeDistributed layers over a time axis whose length is open.

Keras 3.15 maps the layer over as many steps as the batch has rows where a graph does not know the number of steps, and over all
steps where it does. While a model is traced, the former is put right.
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
