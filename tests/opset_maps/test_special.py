"""Special functions: float32 results within a unit in the last place of SciPy's in double, poles and infinities included."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnxport.converters.to_onnx.finish import finish
from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtime import Session
from onnxport.opset_maps.lowerings import special
from onnxport.opset_maps.lowerings.trigonometry import COMPOSED, atan2

scipy_special = pytest.importorskip("scipy.special")

RNG = np.random.default_rng(0)
EDGES = [0.0, -0.0, 1.0, 2.0, -1.0, -2.0, 0.5, -0.5, np.inf, -np.inf, np.nan]
WIDE = np.concatenate([RNG.uniform(-30, 30, 2000), RNG.uniform(-3, 3, 2000), 10 ** RNG.uniform(-30, 30, 300), EDGES])
UNIT = np.concatenate([RNG.uniform(0, 1, 2000), 10 ** RNG.uniform(-37, 0, 300), [0.0, 1.0, 0.5, np.nan, 1.5, -0.1]])
SIGNED = np.concatenate([UNIT, -UNIT])


def run(function, *arrays: np.ndarray) -> np.ndarray:
    op = OpBuilder(21)
    inputs = [op.input(f"x{i}", ir.DataType.from_numpy(x.dtype), list(x.shape)) for i, x in enumerate(arrays)]
    op.names.reserve("y")
    session = Session(finish(op, [function(op, *inputs)], ["y"]))
    assert session.backend == "onnxruntime"
    return session.run({f"x{i}": x for i, x in enumerate(arrays)})[0]


def assert_last_place(found: np.ndarray, truth: np.ndarray, ulps: float) -> None:
    with np.errstate(all="ignore"):
        wanted = truth.astype(np.float32)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))
        off = np.abs(found.astype(np.float64) - truth) / np.spacing(np.abs(wanted)).astype(np.float64)
    assert np.max(off[np.isfinite(wanted)], initial=0.0) <= ulps


@pytest.mark.parametrize(
    ("name", "truth", "points", "ulps"),
    [
        ("lgamma", scipy_special.gammaln, WIDE, 1),
        ("digamma", scipy_special.digamma, WIDE, 1),
        ("trigamma", lambda x: scipy_special.polygamma(1, x), WIDE, 1),
        ("erf", scipy_special.erf, WIDE, 1),
        ("erfc", scipy_special.erfc, WIDE, 1),
        ("erfcx", scipy_special.erfcx, WIDE, 1),
        ("erfinv", scipy_special.erfinv, SIGNED, 1),
        ("ndtr", scipy_special.ndtr, WIDE, 1),
        ("log_ndtr", scipy_special.log_ndtr, WIDE, 1),
        ("ndtri", scipy_special.ndtri, UNIT, 1),
        ("i0e", scipy_special.i0e, WIDE, 1),
        ("i1e", scipy_special.i1e, WIDE, 1),
        ("i0", scipy_special.i0, WIDE, 1),
        ("i1", scipy_special.i1, WIDE, 1),
        ("entr", scipy_special.entr, WIDE, 4),  # in the operand's own type
    ],
)
def test_one_operand(name, truth, points, ulps):
    x = points.astype(np.float32)
    with np.errstate(all="ignore"):
        wanted = truth(x.astype(np.float64))
    assert_last_place(run(getattr(special, name), x), wanted, ulps)


def test_hurwitz_zeta():
    s, q = (RNG.uniform(low, high, 500).astype(np.float32) for low, high in ((1.01, 20), (0.01, 30)))
    assert_last_place(run(special.zeta, s, q), scipy_special.zeta(s.astype(np.float64), q.astype(np.float64)), 1)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
def test_polygamma(n):
    x = RNG.uniform(0.05, 20, 500).astype(np.float32)
    found = run(lambda op, value: special.polygamma(op, n, value), x)
    assert_last_place(found, scipy_special.polygamma(n, x.astype(np.float64)), 1)


def test_double_operands_keep_their_digits():
    x = RNG.uniform(0.1, 20, 500)
    np.testing.assert_allclose(run(special.digamma, x), scipy_special.digamma(x), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(run(special.erfcx, x), scipy_special.erfcx(x), rtol=1e-13)
    np.testing.assert_allclose(run(special.erfinv, x / 21), scipy_special.erfinv(x / 21), rtol=1e-13)


ENDS = [0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 5e-324, 1e308, -710.15, 710.15]
NEAR_ONE = np.concatenate([1 - 10 ** RNG.uniform(-16, 0, 500), 1 + 10 ** RNG.uniform(-16, 3, 500)])
DOUBLES = np.concatenate([RNG.normal(size=2000) * 10, 10 ** RNG.uniform(-320, 308, 1000), NEAR_ONE, -NEAR_ONE, ENDS])


@pytest.mark.parametrize(("operator", "points"), [(name, DOUBLES) for name in COMPOSED if name not in ("Erf", "Tan")])
def test_float64_of_functions_that_runtimes_have_in_float32(operator, points):
    """Within 5 units in the last place of NumPy's, infinities and all, and onnxruntime loads it."""
    name = operator.lower()
    name = f"arc{name[1:]}" if name.startswith("a") else name
    with np.errstate(all="ignore"):
        truth = getattr(np, name)(points)
        found = run(COMPOSED[operator], points)
        finite = np.isfinite(truth)
        np.testing.assert_array_equal(found[~finite], truth[~finite])
        assert np.max(np.abs(found - truth)[finite] / np.spacing(np.abs(truth[finite]))) <= 5


def test_float64_angles_of_points():
    y, x = np.meshgrid([-np.inf, -2.0, -0.0, 0.0, 1e-300, 0.5, np.inf], [-np.inf, -3.0, -0.0, 0.0, 1e-9, 4.0, np.inf])
    np.testing.assert_allclose(run(atan2, y.ravel(), x.ravel()), np.arctan2(y, x).ravel(), rtol=1e-15)
