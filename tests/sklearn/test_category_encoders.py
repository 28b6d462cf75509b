"""category_encoders: tables, pipelines and what is refused, against the library's own transform on fresh rows."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
ce = pytest.importorskip("category_encoders")
pd = pytest.importorskip("pandas")
pytestmark = [
    pytest.mark.sklearn,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:category_encoders"),  # it asks pandas for an old option
]

from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import OneHotEncoder, StandardScaler  # noqa: E402

import onnxport  # noqa: E402
from onnxport.converters.to_onnx.sklearn import export  # noqa: E402
from onnxport.request import Request  # noqa: E402
from tests.evidence import require_equal  # noqa: E402

Y = np.random.default_rng(5).integers(0, 2, 80)
ENCODED = ["colour", "count", "flag", "step"]


def table(seed=0, *, fresh=False, missing=False, text=object):
    """Text, integers, booleans and floats, numbers before and behind them; in fresh rows unknown and missing ones as well."""
    rng = np.random.default_rng(seed)
    size = 40 if fresh else 80
    frame = pd.DataFrame(
        {
            "before": rng.normal(size=size),
            "colour": rng.choice(["red", "green", "blue", "grey", *(["black", "?"] * fresh)], size),
            "count": rng.integers(0, 5 + 3 * fresh, size),
            "flag": rng.random(size) < 0.5,
            "step": rng.choice([0.5, 1.5, -2.25, *([7.0] * fresh)], size),
            "behind": rng.integers(0, 100, size),
        }
    )
    if fresh or missing:
        frame.loc[frame.index[1::7], "colour"] = np.nan
        frame.loc[frame.index[2::9], "step"] = np.nan
    return frame.astype({"colour": text})


def without(rows, *what):
    """The rows without missing cells or unknown ones: the library raises an error for them."""
    known = table()
    for name in ENCODED:
        unknown = ~rows[name].isin(known[name].unique()) & ~rows[name].isna()
        rows = rows[~((unknown & ("unknown" in what)) | (rows[name].isna() & ("missing" in what)))]
    return rows


def converted(model, rows, method="transform", opset=21):
    return export(model, Request(inputs=rows, methods=[method], target_opset=opset))


def compare(model, rows, method="transform"):
    require_equal(model, converted(model, rows, method), rows, methods=[method])


POLICIES = [("value", "value"), ("return_nan", "return_nan"), ("value", "return_nan"), ("error", "error")]
TABLES = "BackwardDifference BaseN Binary Gray Helmert OneHot Polynomial Sum".split()
OTHERS = "CatBoost Count CountTarget GLMM JamesStein LeaveOneOut MEstimate Ordinal Quantile RankHot Summary Target WOE".split()
POLICY_ROWS = [
    *((name, *pair) for name in [*TABLES, *OTHERS] for pair in POLICIES),
    *((name, *pair) for name in TABLES for pair in (("indicator", "indicator"), ("return_nan", "indicator"))),
    ("OneHot", "indicator", "ignore"),
    ("RankHot", "value", "ignore"),
]


@pytest.mark.sampled(0.1)
@pytest.mark.parametrize(
    ("name", "unknown", "absent", "missing"),
    [(*row, missing) for row in POLICY_ROWS for missing in (False, True) if not (missing and row[2] == "error")],
)
def test_policies(name, unknown, absent, missing):
    rows = table(1, fresh=True)
    if unknown == "error":
        rows = without(rows, "unknown")
    if absent == "error":
        rows = without(rows, "missing")
    # these two call booleans of the fit unknown
    chosen = [
        item for item in ENCODED if item != "flag" or unknown != "error" or name not in ("CatBoost", "LeaveOneOut")
    ]
    encoder = getattr(ce, f"{name}Encoder")(cols=chosen, handle_unknown=unknown, handle_missing=absent)
    compare(encoder.fit(table(missing=missing), Y), rows)


@pytest.mark.parametrize("text", ["str", object, "category"])
@pytest.mark.parametrize("name", ["CatBoost", "Count", "LeaveOneOut", "OneHot", "Target"])
def test_types_of_text(name, text):
    encoder = getattr(ce, f"{name}Encoder")().fit(table(missing=True, text=text), Y)
    assert encoder.cols == ["colour"]
    compare(encoder, table(1, fresh=True, text=text))


LEVELS = {"colour": {"warm": ("red",), "cold": ("green", "blue", "grey")}}
SETTINGS = [
    ("Ordinal", {"min_group_size": 20}),
    ("Target", {"min_group_size": 0.3, "min_group_name": "rest"}),
    ("LeaveOneOut", {"min_group_size": 20}),
    ("OneHot", {"min_group_size": 20, "use_cat_names": True}),
    ("Count", {"min_group_size": 20, "combine_min_nan_groups": "force"}),
    ("Count", {"normalize": True, "handle_unknown": {"colour": 7, "count": "value"}}),
    ("Ordinal", {"cols": ["colour"], "mapping": [{"col": "colour", "mapping": {"red": 10, "green": 20, None: -5}}]}),
    ("Ordinal", {"handle_unknown": 99, "handle_missing": 55}),
    ("Target", {"handle_unknown": 0.25, "handle_missing": lambda value, mapping: 7.5}),
    ("Target", {"cols": ["colour"], "hierarchy": LEVELS}),
    ("BaseN", {"base": 3, "drop_invariant": True}),
    ("BaseN", {"base": 1}),
    ("Sum", {"drop_invariant": True, "return_df": False}),
    ("Summary", {"quantiles": (0.1, 0.5, 0.9), "return_df": False}),
    ("Target", {"cols": "all"}),
    ("Target", {"cols": []}),
    ("JamesStein", {"model": "binary"}),
    ("JamesStein", {"model": "pooled"}),
]


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_settings(name, options):
    train, rows = table(), table(1, fresh=True)
    if options.get("cols") == []:
        train, rows = (frame.drop(columns="colour") for frame in (train, rows))
    compare(getattr(ce, f"{name}Encoder")(**{"cols": ["colour", "count"], **options}).fit(train, Y), rows)


@pytest.mark.parametrize("name", ["Binary", "Target", "Summary"])
@pytest.mark.parametrize(
    "given",
    [
        lambda rows: rows[rows.columns[::-1]],
        lambda rows: rows.assign(more=1.0),
        lambda rows: rows.astype({"before": np.float32, "count": np.int32}),
        lambda rows: rows.iloc[:1],
    ],
    ids=["reordered", "more", "narrow", "one"],
)
def test_given_tables(name, given):
    encoder = getattr(ce, f"{name}Encoder")(cols=["colour", "count"]).fit(table(), Y)
    compare(encoder, given(table(1, fresh=True)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_arrays(dtype):
    kept = ["before", "count", "step"]
    encoder = ce.WOEEncoder(cols=["count", "step"]).fit(table()[kept], Y)
    compare(
        encoder,
        np.nan_to_num(table(1, fresh=True)[kept].to_numpy(), nan=3 if dtype is np.int64 else np.nan).astype(dtype),
    )


def test_columns_named_by_numbers():
    train, rows = (frame.set_axis(range(6), axis=1) for frame in (table(), table(1, fresh=True)))
    compare(ce.HelmertEncoder(cols=[1, 4]).fit(train), rows)


@pytest.mark.parametrize("cell", [None, np.nan, pd.NA], ids=str)
@pytest.mark.parametrize("name", ["CatBoost", "LeaveOneOut", "Ordinal", "Target"])
def test_every_spelling_of_a_missing_string(name, cell):
    encoder = getattr(ce, f"{name}Encoder")(cols=["colour"]).fit(table(missing=True), Y)
    rows = table(1, fresh=True)
    rows["colour"] = pd.Series([cell if item != item else item for item in rows["colour"]], dtype=object)
    assert any(item is cell for item in rows["colour"])
    compare(encoder, rows)


def test_what_the_library_raises_for_is_nan():
    encoder = ce.OneHotEncoder(cols=["colour"], handle_unknown="error", handle_missing="error").fit(table()[["colour"]])
    got = converted(encoder, table()[["colour"]])(np.array([["red"], ["black"], [None]], object))
    assert np.isnan(got).tolist() == [[False] * 4, [True] * 4, [True] * 4]


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (make_pipeline(ce.OneHotEncoder(), StandardScaler(), LogisticRegression()), "predict_proba"),
        (make_pipeline(ce.TargetEncoder(cols=["colour", "count"]), RandomForestClassifier(5, random_state=0)), "predict"),
        (make_pipeline(ce.CountEncoder(cols=ENCODED[:3]), HistGradientBoostingClassifier(max_iter=5)), "predict_proba"),
        (make_pipeline(ce.BinaryEncoder(cols=["count"]), ce.WOEEncoder(cols=["colour"])), "transform"),
        (
            make_column_transformer(
                (ce.JamesSteinEncoder(), ["colour"]), (StandardScaler(), ["before", "behind"]),
                (ce.SumEncoder(cols=["count"]), ["count", "flag"]), remainder="passthrough",
            ),
            "transform",
        ),
        (
            make_pipeline(
                ce.HelmertEncoder(cols=["count"]),
                make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["colour"]), remainder="passthrough"),
            ),
            "transform",
        ),
    ],
    ids=["linear", "forest", "boosting", "two encoders", "columns", "text passes through"],
)  # fmt: skip
def test_among_other_steps(model, method):
    compare(model.fit(table(missing=True).drop(columns="step"), Y), table(1, fresh=True).drop(columns="step"), method)


def test_convert_proves_it():
    rows = table(1, fresh=True).drop(columns=["step", "flag"])
    model = make_pipeline(ce.TargetEncoder(), LogisticRegression()).fit(table().drop(columns=["step", "flag"]), Y)
    result = onnxport.convert(model, inputs=rows)
    assert result.output_names == ["label", "probabilities"]
    assert result.report.passed


@pytest.mark.parametrize("options", [{}, {"handle_unknown": "return_nan"}, {"handle_missing": "return_nan"}], ids=str)
@pytest.mark.parametrize("name", ["OrdinalEncoder", "CountEncoder", "RankHotEncoder", "OneHotEncoder"])
def test_convert_proves_numbers_that_are_whole_until_a_cell_is_unknown(name, options):
    rows = table()[["colour", "behind"]]
    for model in (getattr(ce, name)(**options), make_pipeline(getattr(ce, name)(**options))):
        assert onnxport.convert(model.fit(rows, Y), inputs=rows).report.passed


@pytest.mark.parametrize("name", ["Count", "OneHot", "Ordinal"])
@pytest.mark.parametrize("fresh", [False, True])
def test_pandas_gives_integers_where_no_row_is_unknown(name, fresh):
    rows = table(1, fresh=fresh)[["colour", "count"]]
    encoder = getattr(ce, f"{name}Encoder")(cols=["colour", "count"]).fit(table()[["colour", "count"]])
    assert onnxport.convert(encoder, inputs=rows).report.passed
    model = make_pipeline(make_column_transformer((encoder, ["colour", "count"]))).fit(table()[["colour", "count"]])
    assert onnxport.convert(model, inputs=rows).report.passed


def test_no_table_of_squares():
    rows = pd.DataFrame({"id": [f"id {i}" for i in range(3000)]})
    for name in ("OneHotEncoder", "RankHotEncoder"):
        size = len(converted(getattr(ce, name)().fit(rows.head(600)), rows).proto.SerializeToString())
        assert size < 100_000


def called(value, mapping):
    return len(value)


@pytest.mark.parametrize(
    ("encoder", "change", "reason"),
    [
        (ce.HashingEncoder(cols=["colour"]), {}, "HashingEncoder"),
        (ce.MultiHotEncoder(cols=["colour"]), {}, "MultiHotEncoder"),
        (ce.OrdinalEncoder(cols=["colour"], handle_unknown=called), {}, "handle_unknown is a function"),
        (ce.TargetEncoder(composite_cols=[("colour", "flag")]), {}, "composite_cols="),
        (ce.TargetEncoder(cols=["colour"]), {"colour": "None"}, "'colour' has the category 'None'"),
        (ce.TargetEncoder(cols=["colour"]), {"colour": [1, "red"] * 40}, "'colour' was fitted on int values.*astype"),
        (ce.TargetEncoder(cols=["colour"]), {"colour": [1, 2] * 40}, "'colour' was fitted on float values"),
        (ce.TargetEncoder(cols=["step"]), {"step": ["a", "b"] * 40}, "'step' was fitted on strings"),
        (ce.CountEncoder(cols=["count"]), {}, "strings and of numbers stand in one matrix"),
    ],
    ids=lambda item: item if isinstance(item, str) else type(item).__name__,
)
def test_refused(encoder, change, reason):
    train = table().assign(**{name: np.array(items, object) if isinstance(items, list) else np.where(Y, items, "red")
                              for name, items in change.items()})  # fmt: skip
    with pytest.raises(onnxport.UnsupportedOperator, match=reason):
        converted(encoder.fit(train, Y), table(1, fresh=True))


def test_arrays_of_pandas_categories_are_refused_where_unknown_and_missing_differ():
    encoder = ce.TargetEncoder().fit(table(missing=True, text="category")[["colour"]], Y)
    with pytest.raises(onnxport.UnsupportedOperator, match="category type"):
        converted(encoder, table()[["colour"]].to_numpy(object))
    encoder = ce.TargetEncoder().fit(table(text="category")[["colour"]], Y)
    compare(encoder, table(1, fresh=True)[["colour"]].to_numpy(object))


def test_the_encoder_stays_as_it_was():
    encoder = ce.OneHotEncoder(cols=["colour", "count"]).set_output(transform="pandas").fit(table(), Y)
    before = dict(vars(encoder))
    compare(encoder, table(1, fresh=True))
    assert vars(encoder).keys() == before.keys()
    assert all(vars(encoder)[name] is item for name, item in before.items())
