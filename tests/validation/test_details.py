"""What a page shows beyond the verdict: the numbers against NumPy's own, and that nothing of it is computed unless asked for."""

import json
import pickle
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest

import onnxport
from onnxport.validation import gathering, html_details
from onnxport.validation.details import Details, OperatorError, with_details
from onnxport.validation.html_plots import growth

HEAD = '<ir_version: 8, opset_import: ["": 17]> '
NET = """net (float[batch,2] x) => (float[batch,2] y, float[batch,2] z)
  <float[2,2] w = {1,2,3,4}, float[2,2] v = {%s}> { a = MatMul(x, w) b = Neg(a) y = MatMul(b, v) z = Abs(x) }"""
W, V, OTHER = np.array([[1, 2], [3, 4]]), np.array([[1, 0], [0, 1]]), np.array([[1, 0], [0, 3]])
X = np.array([[1, 2], [3, -4], [5, 6]], np.float32)


def net(weights):
    return onnx.parser.parse_model(HEAD + NET % ",".join(map(str, weights.flat)))


@pytest.fixture(scope="module")
def failed():
    report = onnxport.validate(net(V), net(OTHER), (X,), details=True)
    assert report.verdict == "failed"
    return report


def test_each_layer_has_its_own_error_and_that_in_the_whole(failed):
    """Whole numbers, so that NumPy's own are exact."""
    wrong = np.abs(-(X @ W) @ V - -(X @ W) @ OTHER).max()
    assert failed.details.inputs == "given"
    assert [(item.output, item.op, item.local, item.propagated, item.differs) for item in failed.details.layers] == [
        ("a", "MatMul", 0, 0, False),
        ("b", "Neg", 0, 0, False),
        ("y", "MatMul", wrong, wrong, True),
        ("z", "Abs", 0, 0, False),
    ]
    assert failed.details.nodes == 4
    assert failed.details.weights == 2 * 4 * 4


def test_an_error_is_carried_on_by_layers_that_are_right_themselves():
    text = "net (float[batch,2] x) => (float[batch,2] y) <float k = {%d}> { a = Mul(x, k) b = Neg(a) y = Add(b, b) }"
    pair = [onnx.parser.parse_model(HEAD + text % k) for k in (2, 3)]
    layers = onnxport.validate(*pair, (X,), details=True).details.layers
    assert [(item.local, item.propagated) for item in layers] == [(6, 6), (0, 6), (0, 12)]  # |x| is 6 at most


def test_samples_are_what_was_compared(failed):
    ours, theirs = -(X @ W) @ V, -(X @ W) @ OTHER
    sample = next(item for item in failed.details.samples if (item.inputs, item.output) == ("given", "y"))
    assert set(sample.points) == set(zip(ours.flat, theirs.flat, strict=True))
    gaps = np.abs(ours - theirs).flatten()
    edges = 10.0 ** (np.arange(-20, 21) / 2)
    counts, _ = np.histogram(gaps[gaps > 0], edges)
    assert dict(sample.counts) == {k - 20: n for k, n in enumerate(counts) if n}
    assert (sample.equal, sample.unlike) == (int((gaps == 0).sum()), 0)
    equal = next(item for item in failed.details.samples if (item.inputs, item.output) == ("given", "z"))
    assert (equal.equal, equal.counts) == (X.size, ())


def test_of_many_elements_the_one_that_differs_most_is_shown():
    x = np.zeros((1, 5000), np.float32)
    x[0, 4321] = 7
    text = "net (float[1,n] x) => (float[1,n] y) { y = %s(x) }"
    pair = [onnx.parser.parse_model(HEAD + text % op) for op in ("Abs", "Neg")]
    sample = onnxport.validate(*pair, (x,), details=True).details.samples[0]
    assert (7.0, -7.0) in sample.points
    assert len(sample.points) < 400
    assert sample.equal == 4999


def test_what_is_no_number_is_counted_apart():
    text = "net (float[batch,2] x) => (float[batch,2] y) { %s }"
    pair = [onnx.parser.parse_model(HEAD + text % body) for body in ("y = Log(x)", "a = Abs(x) y = Log(a)")]
    report = onnxport.validate(*pair, (X,), details=True)
    sample = report.details.samples[0]
    assert (sample.unlike, sample.equal) == (1, X.size - 1)  # of -4
    assert report.divergence.error == float("inf")


def test_the_neighbours_of_the_first_that_differs(failed):
    around = failed.details.around
    assert [item.op for item in (*around.before, around.node, *around.after)] == ["Neg", "MatMul", ""]
    assert [item.value for item in (*around.before, around.node, *around.after)] == ["b", "y", "y"]
    assert around.after[0].name == "output"
    whole = gathering.neighbourhood(onnxport.convert(net(V), validate=False).model, "a")
    assert [(item.name, item.value) for item in whole.before] == [("input", "x")]
    assert [item.op for item in whole.after] == ["Neg"]


def test_nothing_is_gathered_unless_a_page_is_asked_for(monkeypatch, tmp_path):
    def refuse(*given, **named):
        raise AssertionError("a plain proof pays for no page")

    monkeypatch.setattr(gathering, "gathered", refuse)
    monkeypatch.setattr(gathering, "samples_of", refuse)
    report = onnxport.validate(net(V), net(V), (X,))
    assert report.passed
    assert report.details is None
    report.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<svg" not in page
    assert "<script" not in page
    with pytest.raises(AssertionError, match="pays for no page"):
        onnxport.validate(net(V), net(V), (X,), details=True)


def test_a_plain_proof_loads_nothing_of_a_page():
    code = (
        "import sys, numpy as np, onnx, onnxport; "
        f"m = onnx.parser.parse_model({HEAD + NET % '1,0,0,1'!r}); "
        "assert onnxport.validate(m, m).passed; "
        "print([name for name in sys.modules if name.startswith('onnxport.validation.') and "
        "name.rpartition('.')[2] in ('gathering', 'operators', 'html', 'html_plots', 'html_style')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_details_travel_with_the_report_but_not_into_json(failed):
    again = pickle.loads(pickle.dumps(failed))
    assert again.details == failed.details
    assert "details" not in json.loads(failed.to_json())


def test_a_conversion_has_them_where_its_page_is_asked_for():
    with with_details():
        report = onnxport.convert(net(V), target_opset=18).report
    assert len(report.details.layers) == 4
    assert all(seconds > 0 for seconds in report.details.latency)
    assert onnxport.convert(net(V), target_opset=18).report.details is None


@pytest.mark.pytorch
def test_layers_of_a_pytorch_model_and_of_what_is_rebuilt_from_it():
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3)).eval()
    x = torch.rand(3, 2)
    hub = onnxport.convert(model, inputs=(x,))
    layers = onnxport.validate(model, hub, (x,), details=True).details.layers
    assert [item.source_op for item in layers] == ["aten::linear.default", "aten::tanh.default", "aten::linear.default"]
    assert not any(item.differs for item in layers)
    with torch.no_grad():
        reference = torch.tanh(model[0](x)).numpy()
    middle = next(item for item in layers if item.source_op == "aten::tanh.default")
    assert middle.propagated <= 4 * np.finfo(np.float32).eps * np.abs(reference).max()
    back = onnxport.convert(hub, "pytorch")
    details = onnxport.validate(hub, back, (x.numpy(),), details=True).details
    assert details.layers == ()
    assert "converted ONNX model" in details.no_layers


def page_of(report, tmp_path):
    report.to_html(tmp_path / "page.html", command="onnxport validate a b", files=[__file__])
    return (tmp_path / "page.html").read_text()


def test_the_page_draws_them_in_order(failed, tmp_path):
    page = page_of(failed, tmp_path)
    parts = [
        "<h1>",
        "First divergent node",
        'class="around"',
        ">Outputs<",
        "Error along the depth",
        ">Differences<",
        ">Values<",
        "Table of layers",
        "Inputs and timings",
        "a run of the converted model",
        "To repeat it",
        "SHA-256",
    ]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert len(re.findall(r'<svg [^>]*role="img" aria-label="[^"]{30,}"', page)) == page.count("<svg") == 3
    assert 'aria-label="Errors of 4 layers: 1 beyond what is allowed;' in page
    assert page.count('data-label="own error"') == 4
    assert "its one element" not in page
    assert "all 6 elements are equal" in page  # z, which is not drawn
    assert "http" not in page


def test_names_of_a_file_are_no_part_of_the_page(tmp_path):
    evil = "</script><script>alert(1)</script><h1>x</h1>"
    models = [net(V), net(OTHER)]
    for model in models:
        for node in model.graph.node:
            node.name = evil + node.name
            node.output[:] = [item + evil if item in "ab" else item for item in node.output]
            node.input[:] = [item + evil if item in "ab" else item for item in node.input]
    page = page_of(onnxport.validate(*models, (X,), details=True), tmp_path)
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert page.count("<h1>") == 1
    assert page.count("<script>") == page.count("</script>") == 1


def layer(place, local, allowed=1e-6, *, differs=False):
    return OperatorError(f"n{place}", "Add", f"v{place}", local, allowed, local, differs)


@pytest.mark.parametrize("errors", [[0.0], [0.0, 0.0], [float("inf"), 1e-300, float("nan")], [1e-7] * 3000])
def test_any_errors_are_drawn(errors):
    drawing = growth([layer(i, error) for i, error in enumerate(errors)])
    numbers = [float(x) for x in re.findall(r"[ML](-?[\d.]+) ", drawing)]
    assert numbers
    assert all(0 <= x <= 100 for x in numbers)
    assert "nan" not in re.sub(r"aria-label=\"[^\"]*\"", "", drawing)
    assert len(drawing) < 100_000


def test_of_very_many_layers_the_table_keeps_those_to_look_at():
    layers = [layer(i, i * 1e-9, differs=i == 3) for i in range(2000)]
    text = "".join(html_details.layers(Details(layers=tuple(layers), nodes=2000)))
    assert text.count("<tr>") == 1 + 500
    assert ">n3<" in text
    assert ">n1999<" in text
    assert ">n4<" not in text
    assert "and 1500 others" in text
