"""Numbers that are quantised by their own range: of nothing but zeros, whose range has no size, and in a recurrent layer."""

import numpy as np
import onnx
import pytest

import onnxport

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
agraph (float[N, 4] x) => (uint8[N, 4] q, float scale, uint8 zero) { q, scale, zero = DynamicQuantizeLinear (x) }"""


@pytest.mark.parametrize("to", ["pytorch", "tensorflow"])
def test_zeros_have_the_runtimes_scale(to):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the expected values are onnxruntime's")
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


@pytest.mark.pytorch
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_recurrent_layer_is_compared_with_one_thread_and_the_report_names_it(tmp_path, per_channel):
    quantization = pytest.importorskip("onnxruntime.quantization", reason="onnxruntime's quantiser writes the file")
    import torch

    class Scores(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = torch.nn.LSTM(8, 6, batch_first=True, bidirectional=True), torch.nn.Linear(12, 3)

        def forward(self, x):
            return self.head(self.rnn(x)[0][:, -1])

    torch.manual_seed(0)
    places = [str(tmp_path / name) for name in ("float.onnx", "int8.onnx")]
    onnxport.convert(Scores(), inputs=(torch.randn(3, 5, 8),), output=places[0], optimize="inference")
    quantization.quantize_dynamic(*places, per_channel=per_channel)
    assert "DynamicQuantizeLSTM" in {node.op_type for node in onnx.load(places[1]).graph.node}
    module = onnxport.convert(places[1], to="pytorch")
    report = onnxport.validate(places[1], module)
    assert report.passed
    assert max(inputs[2][0] for item in report.sets for inputs in item.inputs) > 1  # rows
    assert any("on one thread" in note for note in report.notes)
