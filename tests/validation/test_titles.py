"""What a report calls a model: by its class or file, not by what a framework's tracer or loader calls its own objects."""

import numpy as np
import pytest

import onnxport

X = np.ones((3, 4), np.float32)


@pytest.mark.pytorch
def test_traced_modules_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()).eval()
    program = torch.export.export(net, (torch.ones(3, 4),))
    titles = {
        name: onnxport.convert(model, inputs=(X,)).report.source.title
        for name, model in {
            "module": net,
            "fx": torch.fx.symbolic_trace(net),
            "program": program,
            "its module": program.module(),
        }.items()
    }
    assert titles["module"] == "Sequential"
    assert [title for title in titles.values() if not title.isidentifier() or "Impl" in title] == [], titles


@pytest.mark.pytorch
def test_a_recurrent_layer_has_no_remark_on_its_own_list_of_weights(recwarn):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    model = onnxport.convert(torch.nn.LSTM(4, 3), inputs=(torch.ones(5, 2, 4),))
    assert model.report.passed
    assert not [note for note in model.report.notes if "flat_weights" in note or "strict=" in note]
    assert list(recwarn) == []


@pytest.mark.tensorflow
def test_what_a_saved_model_is_loaded_as(tmp_path):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")

    class Doubled(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def __call__(self, x):
            return 2.0 * x

    tf.saved_model.save(Doubled(), str(tmp_path / "doubled"))
    assert onnxport.convert(str(tmp_path / "doubled")).report.source.title == "doubled"
    title = onnxport.convert(tf.saved_model.load(str(tmp_path / "doubled"))).report.source.title
    assert title == "SavedModel"
