"""``onnx2torch``, on `onnxport.convert`: ``from onnxport.compat import onnx2torch`` stands for ``import onnx2torch``."""

from onnxport.compat.absent import refusing
from onnxport.compat.onnx2torch import converter as converter
from onnxport.compat.onnx2torch import node_converters as node_converters
from onnxport.compat.onnx2torch import utils as utils
from onnxport.compat.onnx2torch.converter import convert as convert
from onnxport.version import __version__ as __version__

__getattr__ = refusing(__name__)
