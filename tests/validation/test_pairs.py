"""Every kind of source against every target, given and drawn inputs: the right conversion passes, planted changes are caught."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import onnxport
from onnxport.model import as_onnx_model
from onnxport.validation.parties import Party, Tolerance
from onnxport.validation.proof import compare
from onnxport.validation.runners import Binding

TEXT = """<ir_version: 9, opset_import: ["": 21]>
g (float[N, 6] x) => (float[N, 4] scores, float[N, 4] plain) {
  h = MatMul(x, w1) b = Add(h, b1) r = Tanh(b) plain = MatMul(r, w2) scores = Softmax<axis = 1>(plain)
}"""
draw = np.random.default_rng(3)
W1, B1, W2 = (draw.standard_normal(shape).astype(np.float32) for shape in ((6, 5), (5,), (5, 4)))
ROWS = draw.standard_normal((12, 6)).astype(np.float32)
TABLE, LABELS = ROWS.astype(np.float64), np.arange(12) % 3


@dataclass(frozen=True)
class Source:
    """A live model and the right graph of it."""

    framework: str
    model: object
    inputs: object
    graph: onnx.ModelProto


def onnx_source():
    model = onnx.parser.parse_model(TEXT)
    weights = {"w1": W1, "b1": B1, "w2": W2}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def pytorch_source():
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(6, 5), torch.nn.Linear(5, 4, bias=False)
            self.load_state_dict(
                {key: torch.tensor(w.T) for key, w in zip(self.state_dict(), (W1, B1, W2), strict=True)}
            )

        def forward(self, x):
            plain = self.second(torch.tanh(self.first(x)))
            return torch.softmax(plain, 1), plain

    return Net().eval()


def tensorflow_source():
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, name="x")])
    def net(x):
        plain = tf.tanh(x @ W1 + B1) @ W2
        return tf.nn.softmax(plain), plain

    return net


def keras_source():
    import keras

    x = keras.Input((6,))
    plain = keras.layers.Dense(4, use_bias=False)(keras.layers.Dense(5, "tanh")(x))
    model = keras.Model(x, [keras.layers.Softmax()(plain), plain])
    model.set_weights([W1, B1, W2])
    return model


def sklearn_source():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression()).fit(TABLE, LABELS)


def forest_source():
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(3, max_depth=3, random_state=0).fit(TABLE, LABELS)


SOURCES = {
    "onnx": onnx_source,
    "pytorch": pytorch_source,
    "tensorflow": tensorflow_source,
    "keras": keras_source,
    "sklearn": sklearn_source,
    "sklearn, trees": forest_source,
}


def weights_of(graph):
    for index, tensor in enumerate(graph.initializer):
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind == "f" and np.any(array):
            yield index, tensor.name, array


def weights_times_three(graph):
    for index, name, array in list(weights_of(graph)):
        graph.initializer[index].CopyFrom(numpy_helper.from_array(array * array.dtype.type(3), name))


def one_weight_off_by_a_hundredth(graph):
    index, name, array = max(weights_of(graph), key=lambda item: item[2].size)
    array = array.copy()
    array.flat[np.argmax(np.abs(array))] *= 1.01
    graph.initializer[index].CopyFrom(numpy_helper.from_array(array, name))


def another_axis(graph):
    node = next(node for node in graph.node if node.op_type == "Softmax")
    del node.attribute[:]
    node.attribute.append(onnx.helper.make_attribute("axis", 0))


def outputs_swapped(graph):
    a, b = (item.name for item in graph.output)
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [{a: b, b: a}.get(name, name) for name in names]


def through_float16(graph):
    place, node = next((i, n) for i, n in enumerate(graph.node) if n.op_type in ("Tanh", "Div", "Cast"))
    name, node.output[0] = node.output[0], "wide"
    for source, result, kind in (("narrow", name, TensorProto.FLOAT), ("wide", "narrow", TensorProto.FLOAT16)):
        graph.node.insert(place + 1, onnx.helper.make_node("Cast", [source], [result], to=kind))


def trees(graph):
    return next(node for node in graph.node if node.op_type.startswith("TreeEnsemble"))


def a_threshold_moved(graph):
    levels = next(item for item in trees(graph).attribute if item.name == "nodes_splits")
    numbers = numpy_helper.to_array(levels.t).copy()
    numbers[0] += np.ptp(ROWS) / 100
    levels.t.CopyFrom(numpy_helper.from_array(numbers))


LAYERS = (weights_times_three, one_weight_off_by_a_hundredth, another_axis, outputs_swapped, through_float16)
CHANGES = {
    **dict.fromkeys(SOURCES, LAYERS),
    "sklearn": (weights_times_three, one_weight_off_by_a_hundredth, another_axis),
    "sklearn, trees": (a_threshold_moved, one_weight_off_by_a_hundredth, through_float16),
}


@cache
def source_of(name):
    model = SOURCES[name]()
    framework = name.partition(",")[0]
    inputs = TABLE if framework == "sklearn" else (ROWS,)
    graph = model if framework == "onnx" else onnxport.convert(model, inputs=inputs, validate=False).proto
    return Source(framework, model, inputs, graph)


@cache
def planted(name, change, target):
    """The changed graph (None for the right one), and what a target makes of it."""
    graph = onnx.ModelProto.FromString(source_of(name).graph.SerializeToString())
    del graph.graph.value_info[:]
    if change is not None:
        change(graph.graph)
    rebuilt = as_onnx_model(graph) if target == "onnx" else onnxport.convert(graph, to=target, validate=False)
    return as_onnx_model(graph), rebuilt


def verdict(name, change, target, inputs):
    source = source_of(name)
    graph, rebuilt = planted(name, change, target)
    report = compare(
        Party(source.model if source.framework != "onnx" else as_onnx_model(source.model), source.framework),
        Party(rebuilt, target),
        Binding(inputs=inputs),
        graph=graph.model,
        tolerance=Tolerance(),
    )
    return report.verdict, report


def marked(name):
    framework = name.partition(",")[0]
    return pytest.param(name, marks=getattr(pytest.mark, framework)) if framework != "onnx" else name


TARGETS = ("onnx", "pytorch", "tensorflow", "keras")  # nothing becomes a scikit-learn estimator


@pytest.mark.parametrize("target", [marked(name) for name in TARGETS])
@pytest.mark.parametrize("source", [marked(name) for name in SOURCES])
def test_every_change_is_caught(source, target):
    place, changes = TARGETS.index(target), CHANGES[source]
    # A pair has one change on given inputs and one on drawn ones; every source has all of its changes.
    for turn, inputs in enumerate((source_of(source).inputs, None)):  # None: drawn from the graph's signature
        if (place + turn) % 2:
            found, report = verdict(source, None, target, inputs)
            assert found == "passed", report
        change = changes[(2 * place + turn) % len(changes)]
        found, report = verdict(source, change, target, inputs)
        assert found == "failed", f"{change.__name__}: {report}"
