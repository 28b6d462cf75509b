"""``skl2onnx.algebra``: graphs of operators written in Python."""
