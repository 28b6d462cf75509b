"""TFLite's operators in TensorFlow's, a file a family; each function takes its node and the operands.

Numbers are those of TFLite's own kernels (tensorflow/lite/kernels): where an operator has the name of one of TensorFlow's and
computes something else, the function says what.
"""

from onnxport.tracing.tensorflow_lite.node import TABLE as TABLE
from onnxport.tracing.tensorflow_lite.operators import control as _control  # noqa: F401 - registers
from onnxport.tracing.tensorflow_lite.operators import convolution as _convolution  # noqa: F401 - registers
from onnxport.tracing.tensorflow_lite.operators import elementwise as _elementwise  # noqa: F401 - registers
from onnxport.tracing.tensorflow_lite.operators import images as _images  # noqa: F401 - registers
from onnxport.tracing.tensorflow_lite.operators import indexing as _indexing  # noqa: F401 - registers
from onnxport.tracing.tensorflow_lite.operators import reductions as _reductions  # noqa: F401 - registers
from onnxport.tracing.tensorflow_lite.operators import shapes as _shapes  # noqa: F401 - registers
