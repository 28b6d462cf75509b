"""ONNX and PyTorch sources against each target, given and drawn inputs: the right one passes, planted changes are caught."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import onnxport

TEXT = """<ir_version: 9, opset_import: ["": 21]>
g (float[N, 6] x) => (float[N, 4] scores, float[N, 4] plain, float[N, 6] norm, int64[N] best) {
  h = MatMul(x, w1) b = Add(h, b1) r = Tanh(b) plain = MatMul(r, w2) scores = Softmax<axis = 1>(plain)
  norm = LayerNormalization<axis = -1, epsilon = 0.00001>(x, gain) best = ArgMax<axis = 1, keepdims = 0>(plain)
}"""
draw = np.random.default_rng(3)
WEIGHTS = {"w1": (6, 5), "b1": (5,), "w2": (5, 4), "gain": (6,)}
WEIGHTS = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in WEIGHTS.items()}
ROWS = draw.standard_normal((3, 6)).astype(np.float32)


def graph(edit=lambda text: text, **changed):
    model = onnx.parser.parse_model(edit(TEXT))
    weights = {**WEIGHTS, **changed}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def channel(name, factor, place=1):
    array = WEIGHTS[name].copy()
    array[..., place] *= factor
    return graph(**{name: array})


def replaced(old, new):
    assert old in TEXT
    return graph(lambda text: text.replace(old, new))


CHANGES = {
    "all weights x 3": lambda: graph(**{name: array * 3 for name, array in WEIGHTS.items()}),
    "one channel x 1.01": lambda: channel("w1", 1.01),
    "one class x 1.001": lambda: channel("w2", 1.001),
    "softmax over rows": lambda: replaced("Softmax<axis = 1>", "Softmax<axis = 0>"),
    "outputs swapped": lambda: replaced(
        "plain = MatMul(r, w2) scores = Softmax<axis = 1>(plain)", "scores = MatMul(r, w2) plain = Softmax<axis = 1>(scores)"
    ),
    "no bias": lambda: replaced("b = Add(h, b1) r = Tanh(b)", "r = Tanh(h)"),
    "another activation": lambda: replaced("Tanh(b)", "Softsign(b)"),
    "another epsilon": lambda: replaced("0.00001", "0.01"),
    "through float16": lambda: replaced("r = Tanh(b)", "t = Tanh(b) c = Cast<to = 10>(t) r = Cast<to = 1>(c)"),
    "least instead of greatest": lambda: replaced("ArgMax", "ArgMin"),
    "columns turned": lambda: graph(w2=np.roll(WEIGHTS["w2"], 1, axis=1)),
}  # fmt: skip
FRAMEWORKS = [
    "onnx",
    *(pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("pytorch", "tensorflow", "keras")),
]


@pytest.fixture(scope="module")
def built():
    """A graph in a framework; each is made once."""
    made = {}

    def get(change, framework):
        if (change, framework) not in made:
            model = graph() if change is None else CHANGES[change]()
            made[change, framework] = (
                model if framework == "onnx" else onnxport.convert(model, to=framework, validate=False)
            )
        return made[change, framework]

    return get


@pytest.mark.parametrize("target", FRAMEWORKS)
@pytest.mark.parametrize("source", FRAMEWORKS[:2])
def test_every_change_is_caught(built, source, target):
    right = built(None, source)
    live = source != "onnx" and target != "onnx"  # such a pair has no signature to draw from
    for inputs in [(ROWS,)] if live else [(ROWS,), None]:
        report = onnxport.validate(right, built(None, target), inputs=inputs)
        assert report.passed, report
        # Each pair has a third of the changes, and each change all kinds of targets; the whole is scripts.conformance.mutants.
        names = ["onnx", "pytorch", "tensorflow", "keras"]
        first = names.index(source) + names.index(target)
        for change in list(CHANGES)[first % 3 :: 3]:
            report = onnxport.validate(right, built(change, target), inputs=inputs)
            assert report.verdict == "failed", f"{change}: {report}"
