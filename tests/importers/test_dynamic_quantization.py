"""DynamicQuantizeLinear of nothing but zeros, whose range has no size."""

import numpy as np
import onnx
import pytest

import onnxport

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
agraph (float[N, 4] x) => (uint8[N, 4] q, float scale, uint8 zero) { q, scale, zero = DynamicQuantizeLinear (x) }"""


@pytest.mark.parametrize("to", ["pytorch", "tensorflow"])
def test_zeros_have_the_runtimes_scale(to):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime judges")
    model = onnx.parser.parse_model(TEXT)
    converted = onnxport.convert(model, to=to)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for x in (np.zeros((2, 4), np.float32), np.float32([[1, -2, 0, 3]])):
        given = x
        if to == "pytorch":
            import torch

            given = torch.from_numpy(x)
        for got, want in zip(converted(given), session.run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(np.asarray(got), want)
