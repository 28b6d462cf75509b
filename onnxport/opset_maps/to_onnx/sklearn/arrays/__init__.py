"""NumPy arrays of the graph: values that compute as NumPy does, its functions, and algorithms written with them."""

from onnxport.opset_maps.to_onnx.sklearn.arrays import column_functions, functions

__all__ = ["column_functions", "functions"]  # imported here: they register what NumPy's functions do to an `Array`
