"""What Keras computes otherwise on one backend than on another, put right in the process that stands in for the other one."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def stand_in(for_backend: str) -> None:
    """Has Keras on TensorFlow compute as on JAX; for the process of another backend alone, which it changes for good.

    Functions of `keras.ops` become those of `keras_tensorflow_as_jax`. Where images are resized bicubically, JAX weighs the
    pixels by Keys' kernel itself, as TensorFlow's ScaleAndTranslate does; TensorFlow's ResizeBicubic looks the kernel up in a
    table, and is off by 1e-3 of a value.
    """
    import keras

    if keras.backend.backend() != "tensorflow":
        return
    if for_backend == "torch":
        _take_along_axis_as_torch()
    if for_backend != "jax":
        return
    import tensorflow as tf

    from onnxport.tracing import keras_tensorflow_as_jax

    keras_tensorflow_as_jax.install()
    usual = tf.image.resize

    def resize(images: Any, size: Any, method: Any = "bilinear", antialias: bool = False, **options: Any) -> Any:
        if method != "bicubic" or options:
            return usual(images, size, method, antialias=antialias, **options)
        batched = images if images.shape.rank == 4 else images[None]
        before = tf.cast(tf.shape(batched)[1:3], tf.float32)
        result = tf.raw_ops.ScaleAndTranslate(
            images=batched,
            size=tf.cast(size, tf.int32),
            scale=tf.cast(size, tf.float32) / before,
            translation=tf.zeros(2),
            kernel_type="keyscubic",
            antialias=antialias,
        )
        return result if images.shape.rank == 4 else result[0]

    tf.image.resize = resize


def _take_along_axis_as_torch() -> None:
    """Has `take_along_axis` go around an axis where a place is outside of it, as `torch.take_along_dim` does."""
    import keras
    from keras.src.backend.tensorflow import numpy as functions

    usual = functions.take_along_axis

    def take_along_axis(x: Any, indices: Any, axis: int | None = None) -> Any:
        x, indices = keras.ops.convert_to_tensor(x), keras.ops.convert_to_tensor(indices, "int64")
        size = keras.ops.size(x) if axis is None else keras.ops.shape(x)[axis]
        return usual(x, indices % keras.ops.cast(size, "int64"), axis=axis)

    functions.take_along_axis = take_along_axis
