"""Spoiling a converted file, to see that it is noticed."""

import numpy as np
import onnx


def change_one_weight(path):
    """Moves one element of the largest floating-point weight, or the leaf weights of the first tree, by a tenth."""
    proto = onnx.load(path)
    floats = [item for item in proto.graph.initializer if onnx.numpy_helper.to_array(item).dtype.kind == "f"]
    if floats:
        tensor = max(floats, key=lambda item: int(np.prod(item.dims)))
        array = onnx.numpy_helper.to_array(tensor).copy()
        array.flat[np.argmax(np.abs(array))] *= 1.5
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    else:
        raise AssertionError(f"{path} holds no floating-point weight")
    onnx.save(proto, path)
