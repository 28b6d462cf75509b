"""Importing it changes nothing: what `skl2onnx.sklapi` has converts as it is."""

from onnxport.compat.absent import refusing

__getattr__ = refusing(__name__)
