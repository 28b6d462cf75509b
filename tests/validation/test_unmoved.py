"""A proof says where the outputs that it compared do not depend on the inputs that it tried."""

import numpy as np
import onnx
import pytest

import onnxport
from onnxport.validation.unmoved import Movement


def scaled(factor, *, shown=True):
    """A module whose body is multiplied by the factor, beside a bias; the body's own result is an output where it is shown."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.body, self.last = torch.nn.Linear(6, 5), torch.nn.Linear(5, 3)

        def forward(self, x):
            inner = self.body(x)
            result = self.last(factor * inner)
            return (result, inner) if shown else result

    return Net()


def notes_of(report):
    return [note for note in report.notes if "hardly changed" in note]


@pytest.mark.pytorch
@pytest.mark.parametrize(("factor", "output"), [(1.0, ""), (1e-12, "output 'output_0'"), (0.0, "output 'output_0'")])
def test_an_output_that_its_inputs_hardly_reach(factor, output):
    import torch

    report = onnxport.convert(scaled(factor), inputs=(torch.randn(3, 6),)).report
    assert report.passed
    assert [note.split(" hardly")[0] for note in notes_of(report)] == ([output] if output else [])


@pytest.mark.pytorch
def test_labels_that_stay_are_named_where_nothing_else_is_given():
    import torch

    class Labels(torch.nn.Module):
        def __init__(self, bias, scores):
            super().__init__()
            torch.manual_seed(0)
            self.last, self.scores = torch.nn.Linear(6, 3), scores
            self.last.bias.data[0] = bias

        def forward(self, x):
            scores = self.last(x)
            return (scores.argmax(1), scores) if self.scores else scores.argmax(1)

    def note(*how):
        return notes_of(onnxport.convert(Labels(*how), inputs=(torch.randn(64, 6),)).report)

    assert note(1e6, False)
    assert not note(0.0, False)
    assert not note(1e6, True)


@pytest.mark.keras
@pytest.mark.parametrize("weight", ["body/kernel", ""])
def test_an_operator_that_is_wrong_where_no_output_shows_it(weight):
    import keras
    import onnx

    keras.utils.set_random_seed(0)
    x = keras.Input((6,))
    tiny = keras.layers.Rescaling(1e-12)(keras.layers.Dense(5, name="body")(x))
    model = keras.Model(x, keras.layers.Dense(3, bias_initializer="ones")(tiny))
    proto = onnxport.convert(model).proto
    for tensor in proto.graph.initializer:
        if tensor.name == weight:
            tensor.CopyFrom(onnx.numpy_helper.from_array(1.5 * onnx.numpy_helper.to_array(tensor), weight))
    report = onnxport.validate(model, proto)
    assert report.verdict == ("unproved" if weight else "passed")
    assert not report.sets[0].failed
    if weight:
        assert "body" in report.divergence.where
        assert "is wrong by itself" in report.unproved[0][1]
    else:
        assert "inner values were compared too, and agree" in notes_of(report)[0]


@pytest.mark.keras
def test_a_network_of_random_weights_that_answers_with_its_bias():
    import keras

    keras.utils.set_random_seed(0)
    model = keras.applications.MobileNetV2(weights=None, input_shape=(32, 32, 3), classes=3, alpha=0.35)
    assert "output 'predictions'" in notes_of(onnxport.convert(model).report)[0]


def test_results_without_axes_are_compared():
    def moved(first, second):
        movement = Movement()
        movement.add([("y", np.array(first, object))])
        movement.add([("y", np.array(second, object))])
        return movement.moved

    assert (moved("red", "green"), moved("red", "red")) == ([True], [False])


@pytest.mark.keras
def test_layers_are_compared_as_the_model_runs_without_a_trace_of_its_own(monkeypatch):
    import keras

    from onnxport.validation.runners import keras as runners

    keras.utils.set_random_seed(0)
    model = keras.applications.MobileNetV2(weights=None, input_shape=(32, 32, 3), classes=3, alpha=0.35)
    traced = []
    monkeypatch.setattr(runners.KerasRunner, "each_intermediate", lambda *given: traced.append(given))
    note = notes_of(onnxport.convert(model).report)[0]
    assert "inner values were compared too, and agree" in note, note
    assert not traced


@pytest.mark.keras
@pytest.mark.parametrize("place", ["layer", "call"])
def test_what_no_layer_shows_is_looked_at_more_closely(place, monkeypatch):
    """The wrong node has no weights; it is a layer of its own, or an operator between layers."""
    import keras

    keras.utils.set_random_seed(0)
    x = keras.Input((6,))
    hidden = keras.layers.Dense(5)(x)
    hidden = keras.layers.Activation("tanh")(hidden) if place == "layer" else keras.ops.tanh(hidden)
    tiny = keras.layers.Rescaling(1e-12)(hidden)
    model = keras.Model(x, keras.layers.Dense(3, bias_initializer="ones")(tiny))
    proto = onnxport.convert(model).proto
    (node,) = (node for node in proto.graph.node if node.op_type == "Tanh")
    node.op_type = "Sigmoid"
    report = onnxport.validate(model, proto)
    assert report.verdict == "unproved"
    assert "is wrong by itself" in report.unproved[0][1]


@pytest.mark.keras
def test_a_model_that_takes_no_single_row_is_looked_at_more_closely(monkeypatch):
    import keras

    from onnxport.validation.runners import keras as runners

    def failing(self, leaves, take):
        raise RuntimeError(f"needs two rows, not {len(leaves[0])}")

    keras.utils.set_random_seed(0)
    monkeypatch.setattr(runners.KerasRunner, "each_layer", failing)
    model = keras.applications.MobileNetV2(weights=None, input_shape=(32, 32, 3), classes=3, alpha=0.35)
    assert "inner values were compared too, and agree" in notes_of(onnxport.convert(model).report)[0]


@pytest.mark.keras
def test_a_layer_that_is_called_twice_is_looked_at_more_closely():
    import keras

    keras.utils.set_random_seed(0)
    x, shared = keras.Input((6,)), keras.layers.Dense(6)
    tiny = keras.layers.Rescaling(1e-12)(shared(keras.layers.Activation("tanh")(shared(x))))
    model = keras.Model(x, keras.layers.Dense(3, bias_initializer="ones")(tiny))
    report = onnxport.convert(model).report
    assert "inner values were compared too, and agree" in notes_of(report)[0]
    proto = onnxport.convert(model).proto
    for node in proto.graph.node:
        if node.op_type == "Tanh":
            node.op_type = "Sigmoid"
    assert onnxport.validate(model, proto).verdict == "unproved"


@pytest.mark.keras
def test_a_wrong_weight_behind_outputs_that_stay_is_seen_though_zeros_hide_it():
    """Inner values are compared on inputs as usual: of a row of zeros, as among the edges, every weight makes the same."""
    import keras

    keras.utils.set_random_seed(0)
    x = keras.Input((6,))
    tiny = keras.layers.Rescaling(1e-12)(keras.layers.Dense(5, name="first")(x))
    model = keras.Model(x, keras.layers.Dense(3, bias_initializer="ones")(tiny))
    proto = onnxport.convert(model).proto
    (weight,) = (item for item in proto.graph.initializer if list(item.dims) == [6, 5])
    wrong = onnx.numpy_helper.to_array(weight) * np.float32(1.5)
    weight.CopyFrom(onnx.numpy_helper.from_array(wrong, weight.name))
    assert onnxport.validate(model, proto).verdict == "unproved"
