"""What Keras computes otherwise on one backend than on another, put right in the process that stands in for the other one."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def stand_in(for_backend: str) -> None:
    """Has Keras on TensorFlow resize bicubically as on JAX; for the process of another backend alone, which it changes for good.

    JAX weighs the pixels by Keys' kernel itself, as TensorFlow's ScaleAndTranslate does; TensorFlow's ResizeBicubic looks the
    kernel up in a table, and is off by 1e-3 of a value.
    """
    import keras

    if for_backend != "jax" or keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

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
