"""NumPy's functions inside a FunctionTransformer: its numbers and types, of missing values, whole numbers and no rows too."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
pytestmark = [
    pytest.mark.sklearn,
    pytest.mark.filterwarnings("ignore:.*(empty slice|All-NaN|Degrees of freedom|NaN slice)"),
]

from sklearn.preprocessing import FunctionTransformer  # noqa: E402

import onnxport  # noqa: E402

FUNCTIONS = {
    "nansum": lambda x: np.nansum(x, axis=1),
    "nanmean": lambda x: np.nanmean(x, axis=1, keepdims=True),
    "nanvar": lambda x: np.nanvar(x, axis=1, ddof=1),
    "nanstd": lambda x: np.nanstd(x, axis=1),
    "nanmax": lambda x: np.nanmax(x, axis=1),
    "nanmin": lambda x: np.nanmin(x, axis=1, keepdims=True),
    "quantile": lambda x: np.quantile(x, 0.3, axis=1),
    "quantiles": lambda x: np.quantile(x, [0.0, 0.25, 0.9, 1.0], axis=1).T,
    "percentile": lambda x: np.percentile(x, 70, axis=1, keepdims=True),
    "median of four": lambda x: np.median(x, axis=1),
    "median of three": lambda x: np.median(x[:, :3], axis=1, keepdims=True),
    "ptp": lambda x: np.ptp(x, axis=1),
    "flip": lambda x: np.flip(x, axis=1),
    "fliplr": np.fliplr,
    "tile": lambda x: np.tile(x, (1, 2)),
    "repeat": lambda x: np.repeat(x, [1, 2, 0, 1], axis=1),
    "append": lambda x: np.append(x, x[:, :1], axis=1),
    "delete": lambda x: np.delete(x, [0, -1], axis=1),
    "roll": lambda x: np.roll(x, 1, axis=1),
    "split": lambda x: np.split(x, [1, 3], axis=1)[1],
    "hsplit": lambda x: np.hsplit(x, 2)[0],
    "moveaxis": lambda x: np.moveaxis(x, 0, -1).T,
    "count_nonzero": lambda x: np.count_nonzero(x > 0.5, axis=1),
    "trapezoid": lambda x: np.trapezoid(x, axis=1, dx=0.5),
    "polyval": lambda x: np.polyval([0.5, -2.0, 1.0], x),
    "interp": lambda x: np.interp(x, [-1.0, 0.0, 2.5], [3.0, -1.0, 4.0]),
    "interp beyond": lambda x: np.interp(x, [0.0, 1.0], [0.0, 2.0], left=-5.0, right=7.0),
    "sinc": np.sinc,
    "around": lambda x: np.around(x, 1),
    "fix": np.fix,
    "real": np.real,
    "signbit": np.signbit,
    "copysign": lambda x: np.copysign(x, x[:, ::-1]),
    "conjugate": np.conjugate,
    "max": lambda x: np.max(x, axis=1),
    "min": lambda x: x.min(axis=1, keepdims=True),
    "argmax": lambda x: np.argmax(x, axis=1),
    "argmin": lambda x: np.argmin(x, axis=1),
    "sort": lambda x: np.sort(x, axis=1),
    "argsort": lambda x: np.argsort(x, axis=1, kind="stable"),
    "maximum": lambda x: np.maximum(x, x[:, ::-1]),
    "minimum": lambda x: np.minimum(x, 0.25),
    "fmax": lambda x: np.fmax(x, x[:, ::-1]),
    "clip": lambda x: np.clip(x, -0.5, 1.5),
    "sign": np.sign,
    "any": lambda x: np.any(x, axis=1),
    "isin": lambda x: np.isin(x, [1.0, -1.0, np.nan]),
    "digitize": lambda x: np.digitize(x, [-1.0, 0.0, 1.0]),
    "norm": lambda x: np.linalg.norm(x, axis=1),
    "greatest norm": lambda x: np.linalg.norm(x, np.inf, axis=1),
    "cumsum": lambda x: np.cumsum(x, axis=1),
    "cumsum method": lambda x: x.cumsum(axis=1),
    "sum": lambda x: x.sum(axis=1),
    "prod": lambda x: np.prod(x % 9, axis=1),
    "prod method": lambda x: (x[:, :2] % 5).prod(axis=1, keepdims=True),
    "var": lambda x: x.var(axis=1),
    "where": lambda x: np.where(x > 0, x, -1.0),
    "select": lambda x: np.select([x < -1, x > 1], [x * 2, x / 2], default=0.0),
    "nan_to_num": np.nan_to_num,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "round": lambda x: np.round(x, 2),
    "round method": lambda x: x.round(1),
    "floor": np.floor,
    "mod": lambda x: x % 0.75,
    "floor_divide": lambda x: x // 0.75,
    "heaviside": lambda x: np.heaviside(x, 0.5),
    "power": lambda x: np.abs(x) ** 1.5,
    "log1p": lambda x: np.log1p(np.abs(x)),
    "logical": lambda x: np.logical_and(x, x > 0.5),
}
RNG = np.random.default_rng(0)
TABLES = {
    "float64": np.concatenate([RNG.normal(size=(20, 4)) * 2, [[0.0, 1.0, -1.0, 2.5], [0.5, 0.5, 0.5, 0.5]]]),
    "float32": (RNG.normal(size=(20, 4)) * 2).astype(np.float32),
    "int64": RNG.integers(-3, 4, (20, 4)),
    "large int64": RNG.integers(-(2**32), 2**32, (20, 4)),
    "missing": np.concatenate(
        [np.where(RNG.random((20, 4)) < 0.4, np.nan, RNG.normal(size=(20, 4))), np.full((1, 4), np.nan)]
    ),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_and_types_are_numpys(name, kind):
    function, rows = FUNCTIONS[name], TABLES[kind]
    model = FunctionTransformer(function).fit(rows)
    converted = onnxport.convert(model, inputs=rows[:5], validate=False)
    for given in (rows, rows[:1], rows[:0]):
        expected, result = function(given), converted(given)
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        scale = float(np.max(np.abs(given.astype(float)), initial=0.0, where=np.isfinite(given)))
        digits = 8 * np.finfo(expected.dtype).eps if expected.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(result, expected, rtol=digits, atol=digits * scale)


@pytest.mark.parametrize("dtype", [bool, np.int64, np.int32, np.uint8])
@pytest.mark.parametrize(
    "function", [np.absolute, np.trunc, np.invert, lambda x: x & 1, lambda x: x | (x > 1), lambda x: x ^ x[:, :1]]
)
def test_functions_of_bits_and_flags_are_numpys(function, dtype):
    rows = RNG.integers(0, 5, (20, 4)).astype(dtype)
    converted = onnxport.convert(FunctionTransformer(function).fit(rows), inputs=rows, validate=False)
    np.testing.assert_array_equal(converted(rows), function(rows), strict=True)


@pytest.mark.parametrize("function", [lambda x: np.roll(x, 1, axis=0), lambda x: np.median(x, axis=0)])
def test_what_hangs_on_the_number_of_rows_is_refused(function):
    rows = TABLES["float64"]
    with pytest.raises(onnxport.UnsupportedOperator, match="known only at run time"):
        onnxport.convert(FunctionTransformer(function).fit(rows), inputs=rows)
