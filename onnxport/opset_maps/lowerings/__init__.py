"""What an operation is in ONNX, free of any framework: a file a family, used by the maps of all of them."""
