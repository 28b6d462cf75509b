"""Made for a runtime: each row of the table of defects is written, loads, and gives the direct graph's numbers."""

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxport.converters.to_onnx.finish import finish
from onnxport.errors import FallbackWarning, InvalidInputError
from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtime import Session
from onnxport.graph.runtimes import RUNTIMES
from onnxport.graph.runtimes.fitting import DEFECTS
from onnxport.model import OnnxModel
from onnxport.request import Request
from onnxport.validation.runners.onnx import OnnxRunner
from tests.graph.runtime_rows import KERNEL, REALS, ROWS, D, F, weight


def written(build, inputs, opset, runtime, notes=None):
    op = OpBuilder(opset)
    shapes = [["n", *item.shape[1:]] if item.ndim else [] for item in inputs]
    values = [op.input(f"x{i}", ir.DataType.from_numpy(x.dtype), shapes[i]) for i, x in enumerate(inputs)]
    results = build(op, *values)
    results = results if isinstance(results, tuple) else (results,)
    names = [op.names.unique(f"y{i}") for i in range(len(results))]
    return finish(op, results, names, runtime=runtime, notes=notes)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    ("build", "inputs", "opset", "ulps"),
    [pytest.param(b, x, o, ulps, id=f"{name}-{o}") for name, b, x, opsets, ulps in ROWS for o in opsets],
)
def test_what_onnxruntime_lacks_is_written_otherwise(build, inputs, opset, ulps, tmp_path):
    import onnxruntime

    notes = []
    fitted = OnnxModel(written(build, inputs, opset, "onnxruntime", notes))
    onnx.checker.check_model(fitted.proto, full_check=True)
    fitted.save(tmp_path / "model.onnx")
    onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    direct = Session(written(build, inputs, opset, "reference"), runtime="reference")
    feeds = {f"x{i}": item for i, item in enumerate(inputs)}
    session = Session(fitted.model)
    assert (session.backend, session.fallback_reason) == ("onnxruntime", "")
    for got, want in zip(session.run(feeds), direct.run(feeds), strict=True):
        got, want = np.asarray(got), np.asarray(want)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if got.dtype.kind in "iub":
            assert got.tolist() == want.tolist()
            continue
        eps = float(ml_dtypes.finfo(got.dtype).eps)
        got, want = got.astype(D), want.astype(D)
        np.testing.assert_allclose(got, want, rtol=0, atol=ulps * eps * np.abs(want).max(initial=0))
    if fitted.model.graph.num_nodes() != len(list(written(build, inputs, opset, "reference").graph)):
        assert notes
        assert all(note.startswith("for onnxruntime: ") for note in notes)


def test_every_row_is_rewritten_at_some_opset():
    """Not only loaded by an onnxruntime that happens to have the kernel, as it has for this one."""
    direct = [
        name for name, build, inputs, opsets, _ in ROWS if not any(notes_of(build, inputs, opset) for opset in opsets)
    ]
    assert direct == ["Relu-int32"]


def notes_of(build, inputs, opset):
    notes = []
    written(build, inputs, opset, "onnxruntime", notes)
    return notes


@pytest.mark.parametrize("opset", [13, 21, 24])
def test_a_double_product_is_not_merged_with_a_transposition(opset):
    """onnxruntime from 1.20 to 1.24 loads no such graph; 1.25 and later, one of which runs this suite, do."""
    model = written(lambda op, x: op.MatMul(op.Transpose(x, perm=[0, 1, 3, 2]), KERNEL), [KERNEL], opset, "onnxruntime")
    assert [node.op_type for node in model.graph] == ["Transpose", "Sum", "MatMul"]


def test_a_source_of_quantised_weights_is_run_by_its_own_numbers():
    """With its optimisations onnxruntime from 1.25 on rounds x to 8 bits."""
    x = np.linspace(-1, 1, 320, dtype=F).reshape(5, 64)
    build = lambda op, x: op.MatMul(x, weight(op, ir.DataType.INT8, True, axis=1))  # noqa: E731
    model = written(build, [x], 21, "reference")
    runner = OnnxRunner(Session(model), "file", None, model)
    runner.by_the_specification()
    (exact,) = Session(model, runtime="reference").run({"x0": x})
    np.testing.assert_allclose(runner.session.run({"x0": x})[0], exact, rtol=0, atol=1e-5 * np.abs(exact).max())
    assert runner.session.backend == "onnxruntime"


def test_a_source_that_may_round_an_operand_runs_without_that():
    """At `accuracy_level` 4, which files for CPUs have, onnxruntime rounds x to 8 bits; what a graph says it does not."""
    rng = np.random.default_rng(0)
    held = [("w", rng.integers(0, 256, (4, 2, 16), np.uint8)), ("s", rng.uniform(0.05, 0.1, 8).astype(F))]
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> blocks (float[N, 64] x) => (float[N, 4] y)
        {y = com.microsoft.MatMulNBits <K = 64, N = 4, bits = 4, block_size = 32, accuracy_level = 4> (x, w, s)}"""
    )
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in held)
    x = rng.standard_normal((3, 64)).astype(F)
    graph = ir.from_proto(model)
    runner = OnnxRunner(Session(graph), "file", None, graph)
    rounded = runner.session.run({"x": x})[0]
    runner.by_the_specification()
    nibbles = np.stack([held[0][1] & 15, held[0][1] >> 4], -1).reshape(4, 2, 32).astype(np.float64) - 8
    exact = x @ (nibbles * held[1][1].reshape(4, 2, 1)).reshape(4, 64).T
    assert np.abs(runner.session.run({"x": x})[0] - exact).max() < 1e-5 < np.abs(rounded - exact).max()
    assert "accuracy_level=1" in runner.setting


def test_reference_is_the_direct_graph_and_an_unknown_runtime_is_refused():
    build, inputs = (lambda op, x: op.Softplus(x)), [REALS]
    direct = OnnxModel(written(build, inputs, 21, "reference"), runtime="reference")
    assert [node.op_type for node in direct.model.graph] == ["Softplus"]
    assert (direct.session.backend, direct.session.fallback_reason) == ("onnx.reference", "")
    direct(REALS)  # without a warning
    with pytest.raises(InvalidInputError, match="runtime='tensorrt': one of 'onnxruntime', 'reference'"):
        Request(runtime="tensorrt")
    assert RUNTIMES == ("onnxruntime", "reference")


def test_a_model_that_onnxruntime_can_not_load_says_so_once():
    model = OnnxModel(written(lambda op, x: op.Softplus(x), [REALS], 21, "reference"))
    with pytest.warns(FallbackWarning, match="Could not find an implementation for Softplus"):
        model(REALS)
    model(REALS)
    assert model.session.fallback_reason


def test_an_opset_that_onnxruntime_does_not_load_is_written_directly_and_said():
    notes = []
    model = written(lambda op, x: op.Softplus(x), [REALS], 27, "onnxruntime", notes)
    assert [node.op_type for node in model.graph] == ["Softplus"]
    assert notes == ["opset 27 is beyond 26, the last that onnxruntime loads: ONNX's reference evaluator runs it"]


def test_names_types_and_provenance_stay():
    from onnxport.graph.provenance import Source

    op, notes = OpBuilder(21), []
    x = op.input("x", ir.DataType.DOUBLE, ["n", 3])
    with op.at(Source("aten::softplus", "act", "net.act", "model.py", 7)):
        y = op.Softplus(x)
    with op.at(Source("aten::conv", "other")):
        z = op.Softplus(op.Neg(y))
    names = [op.names.unique(name) for name in ("first", "second")]
    model = finish(op, [y, z], names, notes=notes)
    assert [value.name for value in model.graph.outputs] == names
    assert [list(map(str, value.shape)) for value in model.graph.outputs] == [["n", "3"]] * 2
    assert all(value.type is not None for node in model.graph for value in node.outputs)
    sources = {node.metadata_props["onnxport.op"] for node in model.graph}
    assert sources == {"aten::softplus", "aten::conv"}
    assert notes == [
        "for onnxruntime: Softplus x2 written as max(x, 0) + log1p(exp(-|x|)), since onnxruntime has no kernel"
    ]


def test_bodies_are_rewritten_too():
    def build(op, x, c):
        return op.If(c, then_branch=op.body(lambda b: [b.Softsign(x)]), else_branch=op.body(lambda b: [x]))

    model = OnnxModel(written(build, [REALS, np.asarray(True)], 21, "onnxruntime"))
    np.testing.assert_allclose(model(REALS, np.asarray(True)), REALS / (1 + np.abs(REALS)), rtol=1e-15)
    assert model.session.backend == "onnxruntime"


def test_every_row_says_what_and_why():
    for defect in DEFECTS:
        assert defect.operators
        assert defect.instead
        assert defect.reason


@pytest.mark.parametrize("opset", [21, 22, 26])
@pytest.mark.parametrize("like", [False, True])
def test_random_numbers_have_their_distribution(opset, like):
    def build(op, x):
        suffix, given = ("Like", (x,)) if like else ("", ())
        shape = {} if like else {"shape": [40, 50]}
        return (
            op.node(f"RandomUniform{suffix}", *given, low=-2.0, high=6.0, **shape),
            op.node(f"RandomNormal{suffix}", *given, mean=3.0, scale=2.0, **shape),
            op.node(f"RandomNormal{suffix}", *given, dtype=int(ir.DataType.FLOAT16), **shape),
        )

    model = OnnxModel(written(build, [np.zeros((40, 50), F)], opset, "onnxruntime"))
    uniform, normal, half = model(np.zeros((40, 50), F))
    assert model.session.backend == "onnxruntime"
    assert (uniform.shape, uniform.dtype, half.dtype) == ((40, 50), F, np.float16)
    assert uniform.min() >= -2
    assert uniform.max() < 6
    assert len(np.unique(uniform)) > 1900
    for values, mean, deviation in ((uniform, 2, 8 / 12**0.5), (normal, 3, 2), (half.astype(F), 0, 1)):
        np.testing.assert_allclose([values.mean(), values.std()], [mean, deviation], atol=6 * deviation / 2000**0.5)
    assert not np.allclose(uniform, model(np.zeros((40, 50), F))[0])


def test_a_constant_that_cleaning_took_away_comes_back():
    def build(op, x):
        op.Mul(x, 0.0)  # used by nobody
        return op.Elu(x)

    model = OnnxModel(written(build, [REALS], 21, "onnxruntime"))
    onnx.checker.check_model(model.proto, full_check=True)
    assert model.session.backend == "onnxruntime"
