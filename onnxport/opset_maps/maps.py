"""The maps themselves, one a framework and direction; their families register in them."""

from __future__ import annotations

from onnxport.opset_maps.registry import OpsetMap, Semantics

_HOME = "onnxport.opset_maps"

# What the networks that most people have are of: their conversion imports no more. Then what recurrent ones and others add.
_USUAL_ATEN = (
    (
        *("activation", "attention", "convolution", "creation", "elementwise", "indexing", "linear", "normalization"),
        *("pooling", "reduction", "shape", "symbolic"),
    ),
    ("recurrent",),
    ("cumulative", "padding", "random", "resize", "scatter", "sorting"),
)

_USUAL_TENSORFLOW = (
    (
        *("convolution", "elementwise", "indexing", "linear", "pooling", "program", "reduction", "shape", "slicing"),
        "transposition",
    ),
    ("control_flow", "tensor_list"),
)

aten = OpsetMap("pytorch", f"{_HOME}.to_onnx.pytorch", _USUAL_ATEN)
tensorflow = OpsetMap("tensorflow", f"{_HOME}.to_onnx.tensorflow", _USUAL_TENSORFLOW)
sklearn = OpsetMap("sklearn", f"{_HOME}.to_onnx.sklearn")

onnx = Semantics(f"{_HOME}.from_onnx.semantics")
pytorch_native = Semantics(f"{_HOME}.from_onnx.pytorch")
tensorflow_native = Semantics(f"{_HOME}.from_onnx.tensorflow")
keras_native = Semantics(f"{_HOME}.from_onnx.keras")
