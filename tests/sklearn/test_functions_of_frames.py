"""FunctionTransformers whose function takes a pandas DataFrame: traced, exact, or refused by name."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler  # noqa: E402

import onnxport  # noqa: E402

rng = np.random.default_rng(0)
HOUSES = pd.DataFrame(
    {
        "rooms": rng.integers(1, 9, size=40),
        "area": np.where(rng.random(40) < 0.2, np.nan, rng.uniform(20, 200, size=40)),
        "people": rng.integers(1, 5, size=40),
        "town": pd.Series(rng.choice(np.array(["Oslo", "Lima", None], object), size=40), dtype=object),
    }
)
NUMBERS = ["rooms", "area", "people"]


def assigned(frame):
    frame = frame.copy()
    frame["each"] = frame["area"] / frame["rooms"]
    frame[["twice", "thrice"]] = frame[["rooms", "people"]] * 2
    frame["one"] = 1.0
    return frame.assign(large=frame["area"] > 90, sum=lambda x: x["twice"] + x.rooms).drop(columns=["people"])


def filled(frame):
    known = frame["area"].notna().astype(float)
    return frame.fillna({"area": -1.0}).assign(known=known, gap=frame["area"].isna()).rename(columns=str.upper)


def arrays(frame):
    ratio = frame["area"].to_numpy() / frame["people"].values
    return np.column_stack([ratio, np.log1p(frame["rooms"]), frame[["rooms", "people"]].to_numpy()])


def rows_summed(frame):
    return frame.assign(total=frame.sum(axis=1), mean=frame.mean(axis=1), clipped=frame["area"].clip(30, 90))


def chosen(frame):
    small = frame["rooms"].isin([1, 2, 3]) & ~frame["people"].between(2, 3)
    size = np.where(frame["area"] > 100, 2, np.where(frame["area"] > 50, 1, 0))
    return frame.drop("area", axis=1).assign(small=small, size=size, other=frame["area"].mask(small, 0.0))


def of_each(frame):
    return frame.apply(lambda column: np.sqrt(column.abs()) + 1)


def located(frame):
    places = frame.iloc[:, [2, 0]].mul(2).add(1)
    return places.assign(area=frame.loc[:, "area"].round(1), first=frame.iloc[:, 0]).assign(
        last=frame.loc[:, "area":].div(3).sub(0.5).round(2)["people"], two=frame.iloc[:, 1:].shape[1] + 0.0
    )


FUNCTIONS = [located, assigned, filled, arrays, rows_summed, chosen, of_each, lambda frame: np.log1p(frame**2), np.sqrt]


def numbers(table):
    return np.asarray(table, np.float64)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_numbers(function):
    model = FunctionTransformer(function).fit(HOUSES[NUMBERS])
    converted = onnxport.convert(model, inputs=HOUSES[NUMBERS][:9])
    expected = numbers(model.transform(HOUSES[NUMBERS]))
    np.testing.assert_allclose(numbers(converted(HOUSES[NUMBERS])), expected, rtol=1e-14)


def test_words_are_compared_looked_up_and_filled():
    def of_words(frame):
        seen = frame["town"].map({"Oslo": 1, "Lima": 5})
        return frame.assign(
            oslo=frame["town"] == "Oslo", seen=seen, town=frame["town"].fillna("none"), gone=frame.town.isna()
        )

    encoded = make_column_transformer(
        (OneHotEncoder(), ["town"]), ("passthrough", ["oslo", "seen", "gone"]), sparse_threshold=0
    )
    model = make_pipeline(FunctionTransformer(of_words), encoded).fit(HOUSES)
    converted = onnxport.convert(model, inputs=HOUSES[:9])
    np.testing.assert_array_equal(converted(HOUSES), numbers(model.transform(HOUSES)))


def test_names_that_a_step_before_gave():
    scale = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()).set_output(transform="pandas")
    ratio = FunctionTransformer(
        lambda x: x[["rooms", "missingindicator_area"]] / (x[["area", "people"]].values ** 2 + 1)
    )
    model = make_pipeline(scale, ratio).fit(HOUSES[NUMBERS])
    converted = onnxport.convert(model, inputs=HOUSES[NUMBERS][:9])
    np.testing.assert_allclose(converted(HOUSES[NUMBERS]), model.transform(HOUSES[NUMBERS]), rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (lambda frame: frame - frame.mean(), "sum over the rows"),
        (lambda frame: frame["rooms"].mean() + frame, "rows of a batch"),
        (lambda frame: frame[frame["rooms"] > 2], "rows of a table"),
        (lambda frame: frame.iloc[:3], "rows of a table"),
        (lambda frame: frame.loc[frame["rooms"] > 2, ["rooms"]], "rows of a table"),
        (lambda frame: frame.add(frame["rooms"]), "other than a number"),
        (lambda frame: frame.median(axis=1), "no 'median'"),
        (lambda frame: np.std(frame, axis=1), "take its values"),
        (lambda frame: pd.DataFrame({"a": frame["rooms"]}), "whole columns"),
    ],
)
def test_what_asks_for_other_rows_or_for_pandas_itself_is_refused(function, named):
    model = FunctionTransformer(function).fit(HOUSES[NUMBERS])
    with pytest.raises(onnxport.UnsupportedOperator, match=named):
        onnxport.convert(model, inputs=HOUSES[NUMBERS])


def test_whole_numbers_hold_nothing_to_replace():
    rows = np.arange(12).reshape(4, 3)
    model = FunctionTransformer(lambda x: np.column_stack([np.nan_to_num(x), x**2][: np.ndim(x)])).fit(rows)
    result = onnxport.convert(model, inputs=rows)(rows)
    np.testing.assert_array_equal(result, model.transform(rows))
    assert result.dtype == np.int64


def test_what_numpy_does_not_hand_on_is_refused_with_the_way_out():
    rows = np.ones((4, 3))
    with pytest.raises(onnxport.UnsupportedOperator, match="np.c_.*np.column_stack"):
        onnxport.convert(FunctionTransformer(lambda x: np.c_[x, x]).fit(rows), inputs=rows)


@pytest.mark.filterwarnings("ignore:Degrees of freedom|All-NaN")
@pytest.mark.parametrize(
    "function",
    [
        *(
            lambda frame, name=name: getattr(frame[NUMBERS], name)(axis=1).to_frame()
            for name in ("sum", "max", "min", "std")
        ),
        lambda frame: np.max(frame[NUMBERS].to_numpy(), axis=1, keepdims=True),
        lambda frame: np.sort(frame[NUMBERS].values, axis=1),
    ],
)
def test_missing_values_across_columns_go_pandas_way_and_those_of_arrays_numpys(function):
    model = FunctionTransformer(function).fit(HOUSES)
    result = onnxport.convert(model, inputs=HOUSES[NUMBERS + ["town"]])(HOUSES)
    np.testing.assert_allclose(result, np.asarray(model.transform(HOUSES), float), rtol=1e-12)


def test_a_column_of_dates_is_refused_by_name_where_it_is_read_and_left_out_elsewhere():
    rows = pd.DataFrame({"day": pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(8), "D"), "x": np.arange(8.0)})
    twice = FunctionTransformer(lambda frame: frame[["x"]] * 2).fit(rows)
    np.testing.assert_array_equal(onnxport.convert(twice, inputs=rows)(rows[["x"]]), 2 * rows[["x"]])
    months = FunctionTransformer(lambda frame: frame.assign(month=frame["day"].dt.month)[["x", "month"]]).fit(rows)
    with pytest.raises(onnxport.UnsupportedOperator, match="reads 'day': ONNX has no type for dates"):
        onnxport.convert(months, inputs=rows)
