"""What counts as equal, output by output."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnxport.validation import comparison
from onnxport.validation.comparison import judge
from onnxport.validation.text import budget_used
from onnxport.validation.tolerance import EXACT, Budget, by_rounding, derived, epsilon, from_user, local_max, nudge

LOOSE = Budget(absolute=1e-3, origin="test")
F32 = np.asarray([1.0, -2.0, 3.0], np.float32)
NAN, INF = np.float32("nan"), np.float32("inf")


def f32(*values):
    return np.asarray(values, np.float32)


@pytest.mark.parametrize(
    ("source", "converted", "budget", "verdict", "words"),
    [
        (F32, F32, EXACT, "pass", ""),
        (F32, F32 + np.float32(5e-4), LOOSE, "pass", ""),
        (F32, F32 + np.float32(2e-3), LOOSE, "fail", "3 of 3 elements beyond the budget"),
        (F32, F32[:2], LOOSE, "fail", "shape [2] instead of [3]"),
        (F32, F32[:, None], LOOSE, "fail", "shape [3, 1] instead of [3]"),
        (F32, F32.astype(np.float64), LOOSE, "fail", "type float64 instead of float32"),
        (F32, F32.astype(np.int64), LOOSE, "fail", "type int64"),
        (f32(1, NAN), f32(1, NAN), LOOSE, "pass", ""),
        (f32(1, NAN), f32(1, 2), LOOSE, "fail", "differ in NaN or infinity: at [1] nan became 2.0"),
        (f32(1, 2), f32(1, NAN), LOOSE, "fail", "NaN or infinity"),
        (f32(INF, -INF), f32(INF, -INF), EXACT, "pass", ""),
        (f32(INF), f32(-INF), Budget(absolute=np.inf), "fail", "inf became -inf"),
        (f32(INF), f32(3e38), Budget(absolute=np.inf), "fail", "NaN or infinity"),
        (f32(NAN), f32(INF), Budget(absolute=np.inf), "fail", "NaN or infinity"),
        (np.asarray([1, 2]), np.asarray([1, 2]), LOOSE, "pass", ""),
        (np.asarray([1, 2]), np.asarray([1, 3]), Budget(absolute=5.0), "fail", "1 of 2 elements differ"),
        (np.asarray([1], np.int32), np.asarray([1], np.int64), EXACT, "fail", "type int64 instead of int32"),
        (np.asarray([0], np.uint64), np.asarray([2**64 - 1], np.uint64), EXACT, "fail", "1 of 1"),
        (np.asarray([True]), np.asarray([False]), Budget(absolute=5.0), "fail", "1 of 1"),
        (np.asarray(["a", "b"]), np.asarray(["a", "b"], object), EXACT, "pass", ""),
        (np.asarray([b"a"], object), np.asarray(["a"], object), EXACT, "pass", ""),
        (np.asarray(["a"], object), np.asarray(["b"], object), EXACT, "fail", "1 of 1"),
        (np.asarray(["1"], object), np.asarray([1]), EXACT, "fail", "type"),
        (F32.astype(ml_dtypes.bfloat16), F32.astype(ml_dtypes.bfloat16), EXACT, "pass", ""),
        (np.asarray([1 + 2j], np.complex64), f32([1, 2]), EXACT, "pass", ""),
        (np.asarray([1 + 2j], np.complex64), f32([2, 1]), LOOSE, "fail", "2 of 2"),
        (np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), EXACT, "unproved", "no elements"),
        (np.zeros((0, 3), np.int64), np.zeros((0, 3), np.int64), EXACT, "unproved", "no elements"),
        (f32(NAN, NAN), f32(NAN, NAN), LOOSE, "unproved", "NaN on both sides"),
        ([], [], EXACT, "unproved", "no elements"),
        (np.zeros((0, 3), np.float32), np.zeros((0, 4), np.float32), EXACT, "fail", "shape"),
        (np.float32(1).reshape(()), np.float32(1).reshape(()), EXACT, "pass", ""),
        ([F32, F32], [F32, F32], EXACT, "pass", ""),
        ([F32, F32], [F32], EXACT, "fail", "1 elements instead of 2"),
        ([F32, F32], [F32, F32 + 1], EXACT, "fail", "[1]: 3 of 3"),
        ({0: F32}, {0: F32}, EXACT, "pass", ""),
        ({0: F32}, {1: F32}, EXACT, "fail", "keys"),
        (None, None, EXACT, "pass", ""),
        (None, F32, EXACT, "fail", "nothing"),
        (F32, None, EXACT, "fail", "nothing"),
        (F32, [F32], EXACT, "fail", "a sequence"),
    ],
)
def test_verdicts(source, converted, budget, verdict, words):
    report = judge("y", source, converted, budget)
    assert report.verdict == verdict, report
    assert words in report.reason


def test_kinds_suffice_where_a_side_has_types_of_its_own():
    assert judge("y", F32.astype(np.float64), F32, EXACT, same_dtype=False).verdict == "pass"
    assert judge("y", np.asarray([1], np.int32), np.asarray([1]), EXACT, same_dtype=False).verdict == "pass"
    assert judge("y", np.asarray([1.0]), np.asarray([1]), EXACT, same_dtype=False).verdict == "fail"
    assert judge("y", np.asarray([True]), np.asarray([1]), EXACT, same_dtype=False).verdict == "fail"


def test_exempt_elements_may_differ_and_are_counted():
    source, converted = np.asarray([0, 1, 2]), np.asarray([1, 1, 2])
    assert judge("label", source, converted, EXACT).verdict == "fail"
    report = judge("label", source, converted, EXACT, exempt=np.asarray([True, False, False]))
    assert report.verdict == "pass"
    assert "1 elements" in report.reason
    assert judge("label", source, converted, EXACT, exempt=np.asarray([False, True, True])).verdict == "fail"


LOWEST = np.finfo(np.float32).min


@pytest.mark.parametrize(
    ("source", "converted", "truth", "verdict"),
    [
        (LOWEST, -INF, -np.inf, "pass"),
        (-LOWEST, INF, np.inf, "pass"),
        (LOWEST, INF, -np.inf, "fail"),
        (LOWEST, -INF, float(LOWEST), "fail"),
        (LOWEST / 2, -INF, -np.inf, "fail"),
        (-INF, LOWEST, -np.inf, "fail"),
        (NAN, -INF, -np.inf, "pass"),
        (NAN, INF, -np.inf, "fail"),
        (NAN, INF, np.nan, "fail"),
        (NAN, 2.0, 2.0, "fail"),
        (INF, NAN, np.nan, "fail"),
    ],
)
def test_the_greatest_number_or_nan_stands_for_an_infinity_only_where_the_truth_is_infinite(
    source, converted, truth, verdict
):
    budget = Budget(absolute=1e-3, truth=np.asarray([truth, 1.0]))
    report = judge("y", f32(source, 1), f32(converted, 1), budget)
    assert report.verdict == verdict
    assert ("1 elements are infinite" in report.reason) == (verdict == "pass")


def test_figures():
    source = f32([1, 2, 3], [4, 5, -6])
    converted = source.copy()
    converted[1, 2] = -6.5
    figures = judge("y", source, converted, LOOSE).figures
    assert (figures.max_abs, figures.where, figures.source, figures.converted) == (0.5, (1, 2), -6.0, -6.5)
    assert figures.mismatched == 1
    assert figures.total == 6
    assert figures.mean == pytest.approx(0.5 / 6)
    assert figures.ulp == 0.5 / (4 * 2.0**-23)
    cosine = np.vdot(source, converted) / np.linalg.norm(source) / np.linalg.norm(converted)
    assert figures.cosine == pytest.approx(float(cosine))
    assert judge("y", f32(0), f32(0), LOOSE).figures.cosine is None
    far = judge("n", np.asarray([2**62 + 1]), np.asarray([2**62]), EXACT).figures
    assert far.max_abs == 1.0


floats = hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=4), elements=st.floats(width=32))


@given(floats)
@settings(max_examples=50, deadline=None)
def test_anything_equals_itself_exactly(array):
    verdict = judge("y", array, array.copy(), EXACT).verdict
    assert verdict == ("unproved" if np.isnan(array).all() else "pass")


@given(floats, st.data())
@settings(max_examples=50, deadline=None)
def test_one_changed_element_is_found(array, data):
    place = tuple(data.draw(st.integers(0, size - 1)) for size in array.shape)
    other = array.copy()
    other[place] = 2.0 if array[place] == 1.0 else 1.0
    figures = judge("y", array, other, EXACT).figures
    assert figures.mismatched == 1


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float64", 2.0**-52),
        ("float32", 2.0**-23),
        ("float16", 2.0**-10),
        ("complex64", 2.0**-23),
        ("bfloat16", 2.0**-7),
    ],
)
def test_epsilon(dtype, expected):
    assert epsilon(np.dtype(getattr(ml_dtypes, dtype, dtype))) == expected


rng = np.random.default_rng(0)


@pytest.mark.parametrize("length", [1, 16, 256, 4096])
@pytest.mark.parametrize("order", ["blocked", "sequential"])
def test_any_float32_product_lies_within_the_derived_budgets(length, order):
    a, b = rng.standard_normal((8, length)).astype(np.float32), rng.standard_normal((length, 8)).astype(np.float32)
    source, truth = a @ b, a.astype(np.float64) @ b.astype(np.float64)
    other = np.zeros((8, 8), np.float32)
    step = 1 if order == "sequential" else 64
    for start in range(0, length, step):
        other += a[:, start : start + step] @ b[start : start + step]
    moved = [(nudge(a, 1, draw) @ nudge(b, 1, draw)) for draw in map(np.random.default_rng, range(6))]
    for budget in (
        derived(source, length=length, eps=2.0**-23, truth=truth, moved=moved),
        derived(source, length=length, eps=2.0**-23, moved=moved),
    ):
        assert judge("y", source, other, budget).verdict == "pass", budget.origin


@pytest.mark.parametrize("length", [16, 256, 2048])
def test_one_weight_off_by_a_hundredth_is_beyond_the_derived_budgets(length):
    a, b = rng.standard_normal((8, length)).astype(np.float32), rng.standard_normal((length, 8)).astype(np.float32)
    b[0, 0] = 0.5
    wrong = b.copy()
    wrong[0, 0] *= 1.01
    source, truth = a @ b, a.astype(np.float64) @ b.astype(np.float64)
    for budget in (derived(source, length=length, eps=2.0**-23, truth=truth), by_rounding(source, eps=2.0**-23)):
        report = judge("y", source, a @ wrong, budget)
        assert report.verdict == "fail", budget.origin
        assert report.figures.where[1] == 0


def test_each_slice_has_a_scale_of_its_own():
    source = np.stack([np.linspace(1e6, 2e6, 20), np.linspace(0.1, 0.2, 20)], axis=1).astype(np.float32)
    assert local_max(source).max(axis=0).tolist() == source.max(axis=0).tolist()
    assert local_max(source, (0,))[:, 1].tolist() == source[:, 0].tolist()
    wrong = source + np.asarray([0, 1e-3], np.float32)
    assert judge("y", source, wrong, by_rounding(source, eps=2.0**-23, axes=(0,))).verdict == "pass"
    assert judge("y", source, wrong, by_rounding(source, eps=2.0**-23)).verdict == "fail"
    noisy = source + np.asarray([1e3, 0], np.float32)  # what one column loses says nothing of the other
    assert judge("y", source, wrong, derived(source, eps=2.0**-23, truth=noisy.astype(np.float64))).verdict == "fail"


@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=4, max_side=4), elements=st.floats(0, 1e6)))
@settings(max_examples=50, deadline=None)
def test_no_element_has_a_scale_below_itself_or_above_all(array):
    scale = local_max(array)
    assert (scale >= array).all()
    assert scale.max() <= array.max()


def test_a_column_of_what_is_left_where_sums_cancel_has_the_budget_of_its_noise():
    rng = np.random.default_rng(0)
    noise = [rng.normal(size=20) * 1e-16 for _ in range(4)]
    source, *moved, converted = (np.stack([np.linspace(1, 9, 20), item], axis=1) for item in noise)
    budget = derived(source, eps=2.0**-52, moved=moved)
    assert judge("y", source, converted, budget).verdict == "pass"
    assert judge("y", source, source + [0.0, 1e-13], budget).verdict == "fail"


FLAT = np.full(10, 0.7, np.float32)


def test_beside_an_element_that_jumps_the_others_still_say_what_rounding_does():
    moved = FLAT + np.float32(1e-5)
    jumped = moved.copy()
    jumped[0] = 2
    budgets = [derived(FLAT, eps=2.0**-23, truth=FLAT.astype(np.float64), moved=[item]) for item in (jumped, moved)]
    assert 7e-5 < budgets[0].absolute.max() <= budgets[1].absolute.max() * (1 + 1e-6)


def test_a_jump_widens_nothing():
    jumped = FLAT.copy()
    jumped[0] = 2
    for truth in (None, FLAT.astype(np.float64)):
        none, jump, noise = (
            derived(FLAT, eps=2.0**-23, truth=truth, moved=[item]).absolute.max()
            for item in (FLAT, jumped, FLAT + np.float32(1e-5))
        )
        assert jump == none < noise
    # in float64 the source may lie on the other side, as in some of its own moved runs
    apart = derived(FLAT, eps=2.0**-23, truth=jumped.astype(np.float64), moved=[FLAT, FLAT, jumped])
    assert apart.absolute.max() < 1e-5
    assert apart.truth[0] == FLAT[0]


def test_what_loses_half_of_its_digits_in_every_run_has_the_budget_of_that():
    """Large terms that cancel move each run by another step; a jump moves some runs, or all by one step, and widens nothing."""
    source, rng = np.linspace(100.0, 200.0, 8), np.random.default_rng(0)
    cancelled = [source + rng.normal(size=8) * 1e-3 for _ in range(6)]
    for moved, verdict in (
        (cancelled, "pass"),
        ([source + 1e-3] * 6, "fail"),  # in each run by the same
        ([*cancelled[:5], source], "fail"),  # not in each
        (cancelled[:2], "fail"),  # too few to tell
    ):
        budget = derived(source, eps=2.0**-52, truth=source, moved=moved)
        assert judge("y", source, source + 2e-3, budget).verdict == verdict
        assert judge("y", source, source + 0.1, budget).verdict == "fail"


def test_users_tolerances():
    assert from_user(1e-2, 1e-3, F32).limit(np.asarray([2.0])) == pytest.approx([0.021])
    assert from_user(None, 1e-3, F32).limit(np.asarray([2.0])) == pytest.approx([1e-3])
    assert from_user(1e-2, None, F32).absolute == pytest.approx(4 * 2.0**-23 * 3)


def test_a_nudge_moves_floats_by_one_unit_and_nothing_else():
    values = np.linspace(1.01, 1.91, 7, dtype=np.float32)
    moved = nudge(values, 1, np.random.default_rng(0))
    assert moved.dtype == np.float32
    assert set(np.abs((moved - values) / 2.0**-23).round().tolist()) <= {1.0, 2.0}
    exact = np.asarray([0.0, 0.5, 3.0, -200.0, np.inf], np.float32)
    assert np.array_equal(nudge(exact, 1, np.random.default_rng(0)), exact)
    ids = np.asarray([1, 2])
    assert nudge(ids, 1, np.random.default_rng(0)) is ids


def test_a_budget_is_shown_beside_the_element_that_it_belongs_to():
    """The greatest difference lies within a budget of its own."""
    report = judge("y", f32(1, 1), f32(1.25, 1.0625), Budget(absolute=np.asarray([1.0, 1e-3])))
    assert report.verdict == "fail"
    assert "1 of 2 elements beyond the budget: difference 0.0625, allowed 0.001" in report.reason
    assert budget_used(report) == "62x of 1.0e-03"
    right = judge("y", f32(1, 1), f32(1.25, 1.0625), Budget(absolute=np.asarray([1.0, 0.125])))
    assert budget_used(right) == "50% of 1.2e-01"
    assert budget_used(judge("y", f32(1), f32(2), EXACT)) == "over"
    assert budget_used(judge("y", f32(1), f32(1), EXACT)) == "0%"


def test_the_work_of_a_comparison_grows_as_its_elements(monkeypatch):
    """The logits of a vocabulary are millions: what is read of all of them for each block grows as their square."""
    read, wide = [], comparison.wide
    monkeypatch.setattr(comparison, "wide", lambda array: read.append(array.size) or wide(array))
    times = []
    for size in (1 << 16, 1 << 20):
        read.clear()
        values = np.linspace(1, 2, size, dtype=np.float32)
        assert judge("y", values, values, LOOSE).verdict == "pass"
        times.append(sum(read) / size)
    assert times[0] == times[1]
