"""TFLite's operators in TensorFlow's, a file a family; each function takes its node and the operands.

Numbers are those of TFLite's own kernels (tensorflow/lite/kernels): where an operator has the name of one of TensorFlow's and
computes something else, the docstring names the difference.
"""

from onnxport.tracing.tensorflow_lite.node import TABLE as TABLE
from onnxport.tracing.tensorflow_lite.operators import (
    control,
    convolution,
    elementwise,
    images,
    indexing,
    reductions,
    shapes,
)

FAMILIES = (control, convolution, elementwise, images, indexing, reductions, shapes)  # importing one fills the table
