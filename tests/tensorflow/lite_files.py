"""TFLite files for the tests, as TensorFlow's own converter writes them."""

from contextlib import redirect_stdout
from io import StringIO

import tensorflow as tf

from onnxport.frameworks.native_log import native_log_kept


def written(path, *functions, setup=lambda converter: None):
    """The file of functions with an input signature, after `setup` of the converter."""
    concrete = [function.get_concrete_function() for function in functions]
    module = tf.Module()
    module.functions = functions
    with redirect_stdout(StringIO()), native_log_kept():
        converter = tf.lite.TFLiteConverter.from_concrete_functions(concrete, module)
        setup(converter)
        path.write_bytes(converter.convert())
    return path


def function_of(body, *shapes, dtypes=()):
    """A tf.function of float32 inputs of these shapes."""
    kinds = [*dtypes, *[tf.float32] * (len(shapes) - len(dtypes))]
    specs = [
        tf.TensorSpec(shape, dtype, name=f"x{i}") for i, (shape, dtype) in enumerate(zip(shapes, kinds, strict=True))
    ]
    return tf.function(body, input_signature=specs, autograph=False)
