"""Importing it changes nothing: what `skl2onnx.sklapi` has converts as it is."""
