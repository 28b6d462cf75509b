"""``skl2onnx.helpers``."""

from onnxport.compat.absent import refusing
from onnxport.compat.skl2onnx.helpers import onnx_helper as onnx_helper
from onnxport.compat.skl2onnx.helpers.integration import add_onnx_graph as add_onnx_graph
from onnxport.compat.skl2onnx.helpers.investigate import collect_intermediate_steps as collect_intermediate_steps
from onnxport.compat.skl2onnx.helpers.investigate import compare_objects as compare_objects
from onnxport.compat.skl2onnx.helpers.investigate import enumerate_pipeline_models as enumerate_pipeline_models

__getattr__ = refusing(__name__)
