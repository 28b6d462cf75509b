"""The truth comes from the source alone: nothing that the converted model does widens what it may do."""

import numpy as np
import onnx_ir as ir
import pytest

import onnxport
from tests.validation.graphs import graph

FLOAT, HALF, INT64 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.INT64
rng = np.random.default_rng(0)
W1, B1 = rng.standard_normal((8, 6)).astype(np.float32), rng.standard_normal(6).astype(np.float32)
W2 = rng.standard_normal((6, 4)).astype(np.float32)
ROWS = rng.standard_normal((5, 8)).astype(np.float32)


X = ("x", FLOAT, ["N", 8])


def network(op, x):
    w1, b1, w2 = (op.initializer(name, ir.tensor(v)) for name, v in (("w1", W1), ("b1", B1), ("w2", W2)))
    return op.Softmax(op.MatMul(op.Relu(op.Add(op.MatMul(x, w1), b1)), w2), axis=1)


@pytest.mark.pytorch
@pytest.mark.parametrize("given", [True, False])
def test_an_imported_module_whose_parameters_are_multiplied_fails(given):
    import torch

    model = graph(lambda op, x: op.MatMul(op.Relu(op.MatMul(x, op.initializer("a", ir.tensor(W1)))), W2), X)
    module = onnxport.convert(model, to="pytorch")
    inputs = (ROWS,) if given else None
    assert onnxport.validate(model, module, inputs=inputs).passed
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3)
    assert onnxport.validate(model, module, inputs=inputs).verdict == "failed"


WRONG = {
    "softmax over the wrong axis": lambda op, x: op.Softmax(op.MatMul(op.Relu(op.Add(op.MatMul(x, W1), B1)), W2), axis=0),
    "one weight in a thousand": lambda op, x: op.Softmax(
        op.MatMul(op.Relu(op.Add(op.MatMul(x, W1 * np.where(np.arange(6) == 2, 1.001, 1).astype(np.float32)), B1)), W2), axis=1
    ),
    "through float16": lambda op, x: op.Softmax(
        op.MatMul(op.Cast(op.Cast(op.Relu(op.Add(op.MatMul(x, W1), B1)), to=HALF), to=FLOAT), W2), axis=1
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("source", ["onnx", pytest.param("pytorch", marks=pytest.mark.pytorch)])
def test_a_wrong_model_fails_whoever_the_source_is(source, how, given):
    model = right = graph(network, X)
    if source == "pytorch":
        import torch

        first, second = torch.nn.Linear(8, 6), torch.nn.Linear(6, 4, bias=False)
        with torch.no_grad():
            first.weight.copy_(torch.from_numpy(W1.T))
            first.bias.copy_(torch.from_numpy(B1))
            second.weight.copy_(torch.from_numpy(W2.T))
        model = torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.Softmax(1))

    inputs = (ROWS,) if given else None
    assert onnxport.validate(model, right, inputs=inputs).passed
    assert onnxport.validate(model, graph(WRONG[how], X), inputs=inputs).verdict == "failed"


@pytest.mark.pytorch
def test_a_wrong_import_fails():
    """Wrong axis and swapped outputs of a module, whose results have no names: the graph's order binds."""
    import torch

    class Swapped(torch.nn.Module):
        def forward(self, x):
            return torch.abs(x), -x

    pair = graph(lambda op, x: (op.Neg(x), op.Abs(x)), X, names=("a", "b"))
    assert onnxport.validate(pair, Swapped()).verdict == "failed"
    softmax = graph(lambda op, x: op.Softmax(x, axis=1), X)
    assert onnxport.validate(softmax, torch.nn.Softmax(1)).passed
    assert onnxport.validate(softmax, torch.nn.Softmax(0)).verdict == "failed"


def test_a_small_column_beside_a_large_one_has_its_own_budget():
    factors = np.asarray([1e9, 1.0, 1e-3], np.float32)
    wrong = factors * np.asarray([1, 1, 1.001], np.float32)
    x = ("x", FLOAT, ["N", 3])
    right = graph(lambda op, x: op.Mul(x, factors), x)
    assert onnxport.validate(right, graph(lambda op, x: op.Mul(factors, x), x)).passed
    assert onnxport.validate(right, graph(lambda op, x: op.Mul(x, wrong), x)).verdict == "failed"


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_a_small_slice_has_its_own_budget_along_any_axis(axis):
    scale = np.ones(4, np.float32)
    scale[2] = 1e-6
    shape = [1] * 4
    shape[axis] = 4
    scale = scale.reshape(shape)
    x = ("x", FLOAT, [4, 4, 4, 4])
    right = graph(lambda op, x: op.Mul(x, scale), x)
    wrong = graph(lambda op, x: op.Mul(x, np.where(scale < 1, scale * np.float32(1.01), scale)), x)
    assert onnxport.validate(right, wrong).verdict == "failed"


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        (lambda op, x: op.Round(x), lambda op, x: op.Floor(op.Add(x, np.float32(0.5)))),
        (lambda op, x: op.Floor(x), lambda op, x: op.Ceil(op.Sub(x, np.float32(1)))),
        (lambda op, x: op.Gather(W1.T, op.Cast(x, to=INT64)), lambda op, x: op.Gather(W1.T, op.Cast(x, to=INT64), axis=1)),
        (lambda op, x: op.Greater(x, np.float32(1)), lambda op, x: op.GreaterOrEqual(x, np.float32(1))),
    ],
)  # fmt: skip
def test_no_jump_excuses_what_is_exact(source, wrong):
    """Halves and whole numbers are exact: that a source jumps beside them excuses nothing."""
    x = ("x", FLOAT, [6])
    given = (np.asarray([0.5, 1.5, 2.5, 0.0, 1.0, 3.0], np.float32),)
    right = graph(source, x)
    assert onnxport.validate(right, right, inputs=given).passed
    assert onnxport.validate(right, graph(wrong, x), inputs=given).verdict == "failed"


BIG = np.float32(1e6)


def cancelling(op, x):
    big = op.Add(x, np.float32(1e6))
    return op.Sub(op.Mul(big, np.float32(1 / 3)), np.float32(1e6 / 3))


RIGHT = {
    "a sum that cancels in steps": (
        lambda op, x: op.Sub(op.ReduceSum(op.Add(x, BIG), [1], keepdims=1), np.float32(8e6)),
        lambda op, x: op.Add(op.MatMul(op.Add(x, BIG), np.ones((8, 1), np.float32)), np.float32(-8e6)),
    ),
    "a difference of large numbers": (
        cancelling,
        lambda op, x: op.Mul(op.Sub(op.Add(x, BIG), BIG), np.float32(1 / 3)),
    ),
    "another order of a long sum": (
        lambda op, x: op.ReduceSum(op.MatMul(x, np.tile(W1, (1, 300))), [1], keepdims=1),
        lambda op, x: op.MatMul(op.MatMul(x, np.tile(W1, (1, 300))), np.ones((1800, 1), np.float32)),
    ),
    "softmax of large logits": (
        lambda op, x: op.Softmax(op.MatMul(op.Mul(x, np.float32(50)), W1), axis=1),
        lambda op, x: op.Exp(op.LogSoftmax(op.MatMul(op.Mul(np.float32(50), x), W1), axis=1)),
    ),
    "half precision inside": (
        lambda op, x: op.Cast(op.MatMul(op.Cast(x, to=HALF), W1.astype(np.float16)), to=FLOAT),
        lambda op, x: op.Cast(op.Gemm(op.Cast(x, to=HALF), W1.astype(np.float16), np.zeros(6, np.float16)), to=FLOAT),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("given", [True, False])
def test_another_right_way_passes(name, given):
    source, other = (graph(write, X) for write in RIGHT[name])
    report = onnxport.validate(source, other, inputs=(ROWS,) if given else None)
    assert report.passed, report


def tiny(op, x):
    return op.Mul(op.Mul(x, np.float32(1e-20)), np.float32(1e-20))


SMALLEST_NORMAL = np.float32(1.1754944e-38)
FLUSHED = {
    "subnormal numbers": (lambda op, y: op.Where(op.Less(op.Abs(y), SMALLEST_NORMAL), np.float32(0), y), "passed"),
    "numbers above them": (lambda op, y: op.Mul(y, np.float32(0)), "failed"),
}


@pytest.mark.parametrize("what", FLUSHED)
def test_processors_may_take_subnormal_numbers_for_zero(what):
    """As x86 does with FTZ, which libraries set or not: softmax of large logits ends there."""
    flush, verdict = FLUSHED[what]
    x = ("x", FLOAT, ["N", 4])
    given = (np.asarray([[1.0, 3.0, -1.0, 100.0]], np.float32),)
    source = graph(lambda op, x: tiny(op, x) if verdict == "passed" else op.Mul(tiny(op, x), np.float32(1000)), x)
    other = graph(lambda op, x: flush(op, tiny(op, x)), x)
    assert onnxport.validate(source, other, inputs=given).verdict == verdict


@pytest.mark.pytorch
@pytest.mark.parametrize(("factor", "verdict"), [(1, "passed"), (1.002, "unproved"), (1.05, "unproved"), (3, "failed")])
def test_a_float64_run_that_computes_something_else_widens_no_budget(factor, verdict):
    """A difference as large as that of the float64 run can't be told from rounding: it is not decided, and never passed."""
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Typed(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x) * (1.1 if x.dtype == torch.float64 else 1.0)

    class Wrong(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x) * factor

    x = torch.linspace(-2, 2, 24).reshape(4, 6)
    wrong = onnxport.convert(Wrong().eval(), inputs=(x,), validate=False)
    report = onnxport.validate(Typed().eval(), wrong, inputs=(x,))
    assert report.verdict == verdict


@pytest.mark.pytorch
@pytest.mark.parametrize(("factor", "verdict"), [(1, "passed"), (1.01, "failed")])
def test_a_float64_run_of_nan_shows_nothing(factor, verdict):
    """As where masks of float64's least number add up to infinity: the budget is that of the source's other runs."""
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Nan(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x * 101) + (float("nan") if x.dtype == torch.float64 else 0.0)

    class Other(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x * 7 * (101 / 7)) * factor

    x = torch.linspace(-2, 2, 24).reshape(4, 6)
    other = onnxport.convert(Other().eval(), inputs=(x,), validate=False)
    assert onnxport.validate(Nan().eval(), other, inputs=(x,)).verdict == verdict


@pytest.mark.pytorch
@pytest.mark.parametrize(("sign", "verdict"), [(1.0, "passed"), (-1.0, "failed")])
def test_infinity_as_in_the_float64_run_where_the_source_gives_nan(sign, verdict):
    """As torch's Gelu of infinity, which is NaN on some processors in float32 alone."""
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Source(torch.nn.Module):
        def forward(self, x):
            return torch.where(torch.isinf(x), float("inf") if x.dtype == torch.float64 else float("nan"), x)

    class Other(torch.nn.Module):
        def forward(self, x):
            return torch.where(torch.isinf(x), sign * float("inf"), x)

    x = torch.linspace(-2, 2, 24).reshape(4, 6)
    other = onnxport.convert(Other().eval(), inputs=(x,), validate=False)
    assert onnxport.validate(Source().eval(), other, inputs=(x,)).verdict == verdict
