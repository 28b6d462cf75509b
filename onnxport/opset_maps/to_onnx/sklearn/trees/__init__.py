"""Decision trees: their ONNX form, forests of them, and the search among sorted numbers."""
