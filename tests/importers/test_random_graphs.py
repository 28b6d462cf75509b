"""Random valid graphs (`scripts/conformance/random_graphs.py`): a sample of them, and the graphs that once differed."""

import numpy as np
import onnx
import pytest

from scripts.conformance.random_graph_drawing import DrawnGraph
from scripts.conformance.random_graph_judgement import judged_graph
from scripts.conformance.random_graph_operators import graph_of

F32 = np.random.default_rng(0).uniform(-1, 1, (2, 2, 3)).astype(np.float32)
FRAMEWORKS = [
    pytest.param("pytorch", marks=pytest.mark.pytorch),
    pytest.param("tensorflow", marks=pytest.mark.tensorflow),
    pytest.param("keras", marks=[pytest.mark.keras, pytest.mark.tensorflow]),
]
RECURRENT = 'LSTM <hidden_size = 1, activations = ["Sigmoid", "Softsign", "Tanh"]>'
DIFFERED = {
    "NonZero of a scalar": ("(float x) => (int64[N, M] y) {y = NonZero(x)}", [np.float32(5)]),
    "one output of a recurrent operator that waits for the run": (
        f"(float[2, 2, 3] x, float[1, 4, 3] w, float[1, 4, 1] r) => (float[2, 1, 2, 1] y) {{y = {RECURRENT} (x, w, r)}}",
        [F32, F32[:1, :1].repeat(4, 1), F32[:1, :1, :1].repeat(4, 1)],
    ),
    "Gelu of float64": (
        "(double[2, 2, 3] x) => (double[2, 2, 3] y) {y = Gelu(x)}",
        [F32.astype(np.float64)],
    ),
    "the sizes of LpNormalization": (
        "(float[2, 2, 3] x) => (float[2, 2, 3] y) {y = LpNormalization <p = 1> (x)}",
        [F32],
    ),
    "the ends of a window": (
        "() => (float[N] y) {n = Constant <value_int = 4> () y = BlackmanWindow(n)}",
        [],
    ),
}


def judged(drawn, framework):
    outcome = judged_graph(drawn, framework)
    assert not outcome.is_bad, f"{outcome.reason}\n{onnx.printer.to_text(drawn.model)}"
    return outcome.verdict


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", DIFFERED)
def test_a_graph_that_once_differed_is_right(name, framework):
    text, inputs = DIFFERED[name]
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> graph {text}')
    assert judged(DrawnGraph(model, tuple(map(np.asarray, inputs)), 0), framework) in (
        "right",
        "by onnxruntime",
        "refused",
    )


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("number", range(10))
def test_a_random_graph_is_right_or_refused(number, framework):
    judged(graph_of(16, number), framework)
