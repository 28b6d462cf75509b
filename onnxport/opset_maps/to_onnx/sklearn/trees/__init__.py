"""Decision trees as arrays: their ONNX form, and the search and interpolation among sorted numbers by them."""
