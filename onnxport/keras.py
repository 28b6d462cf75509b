"""The classes of imported Keras models: ``import onnxport.keras`` registers them for ``keras.saving.load_model``."""

from onnxport.opset_maps.from_onnx.keras.primitives import OnnxModel, RunTimeModel

__all__ = ["OnnxModel", "RunTimeModel"]
