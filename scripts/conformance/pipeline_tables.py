"""Pipelines over tables of pandas and polars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  (importing enables it)
from sklearn.impute import IterativeImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from scripts.conformance.pipeline_cases import Data, case

NUMBERS, WORDS = ["age", "visits", "income"], ["city", "plan"]

# -- data --------------------------------------------------------------------------------------------------------------------


def columns_of_customers(fresh: bool) -> dict[str, Any]:
    """The columns of a table of customers."""
    rng = np.random.default_rng(1 if fresh else 0)
    count = 160 if fresh else 260
    cities = (
        ["Oslo", "Lima", "Quito", "Bern", "Tromsø", "Riga"] if fresh else ["Oslo", "Lima", "Quito", "Bern", "Tromsø"]
    )
    often = [0.4, 0.3, 0.2, 0.04, 0.03, 0.03] if fresh else [0.4, 0.3, 0.2, 0.06, 0.04]
    plan = rng.choice(np.array(["basic", "plus", "pro"], object), size=count, p=[0.5, 0.3, 0.2])
    return {
        "age": rng.integers(18, 90, size=count),
        "income": np.where(rng.random(count) < 0.1, np.nan, np.round(rng.lognormal(10, 0.6, count), 2)),
        "visits": rng.poisson(3, size=count),
        "city": rng.choice(np.array(cities, object), size=count, p=often),
        "plan": np.where(rng.random(count) < 0.08, None, plan),
        "member": rng.random(count) < 0.4,
    }


def targets_of_customers(columns: dict[str, Any], fresh: bool) -> dict[str, Any]:
    """What is to be predicted of them."""
    noise = np.random.default_rng(3 if fresh else 2).normal(size=len(columns["age"]))
    score = 0.04 * columns["age"] - 0.3 * columns["visits"] + 1.5 * (columns["city"] == "Lima") + noise
    score = score - 0.8 * (columns["plan"] == "pro") + np.nan_to_num(columns["income"]) / 40_000
    return {
        "leaves": np.where(score > 2, "leaves", "stays"),
        "flag": score > 2,
        "class": np.digitize(score, [1, 2.5]),
        "grade": np.array(["low", "middle", "high"])[np.digitize(score, [1, 2.5])],
        "spent": np.exp(score / 2) * 100,
    }


def customers(fresh: bool) -> Data:
    """Customers as a frame of pandas: integers, numbers with NaN, words with None, booleans; unknown cities later."""
    columns = columns_of_customers(fresh)
    objects = {name: pd.Series(columns[name], dtype=object) for name in WORDS}  # pandas would make strings of them
    return pd.DataFrame({**columns, **objects}), targets_of_customers(columns, fresh)


def of_strings(fresh: bool) -> Data:
    """The customers with pandas' own type of strings, whose missing value is NaN."""
    frame, targets = customers(fresh)
    return frame.astype({"city": "str", "plan": "str"}), targets


def complete(fresh: bool) -> Data:
    """The customers without missing values, of known cities."""
    columns = columns_of_customers(fresh)
    known = (
        ~np.isnan(columns["income"])
        & np.array([item is not None for item in columns["plan"]])
        & (columns["city"] != "Riga")
    )
    targets = {name: values[known] for name, values in targets_of_customers(columns, fresh).items()}
    return pd.DataFrame({name: values[known] for name, values in columns.items()}).astype({"city": object}), targets


def categorical(fresh: bool) -> Data:
    """The customers with columns of pandas' categories."""
    frame, targets = customers(fresh)
    cities = pd.CategoricalDtype(["Bern", "Lima", "Oslo", "Quito", "Riga", "Tromsø"])
    return frame.astype({"city": cities, "plan": pd.CategoricalDtype(["basic", "plus", "pro"])}), targets


def nullable(fresh: bool) -> Data:
    """The customers with pandas' nullable types."""
    columns = columns_of_customers(fresh)
    columns["visits"] = [None if i % 9 == 4 else int(visits) for i, visits in enumerate(columns["visits"])]
    types = {
        "age": "Int32",
        "visits": "Int64",
        "income": "Float64",
        "city": object,
        "plan": object,
        "member": "boolean",
    }
    return pd.DataFrame(columns).astype(types), targets_of_customers(columns_of_customers(fresh), fresh)


def dated(fresh: bool) -> Data:
    """The customers with columns that no model uses: a date and a name."""
    frame, targets = customers(fresh)
    since = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(frame)), unit="D")
    return frame.assign(since=since, name=[f"customer {i}" for i in range(len(frame))]), targets


def small_types(fresh: bool) -> Data:
    """The customers in narrow types: int8, float32, uint16."""
    frame, targets = customers(fresh)
    return frame.astype({"age": "int8", "income": "float32", "visits": "uint16"}), targets


def of_polars(fresh: bool) -> Data:
    """The customers as a frame of polars: nulls in numbers and words."""
    columns = columns_of_customers(fresh)
    income = [None if np.isnan(item) else float(item) for item in columns["income"]]
    text = {name: [item if item is None else str(item) for item in columns[name]] for name in WORDS}
    return pl.DataFrame({**columns, "income": income, **text}), targets_of_customers(columns, fresh)


def polars_categories(fresh: bool) -> Data:
    """The customers as a frame of polars with columns of Enum and Categorical."""
    frame, targets = of_polars(fresh)
    plans = pl.Enum(["basic", "plus", "pro"])
    return frame.with_columns(pl.col("city").cast(pl.Categorical), pl.col("plan").cast(plans)), targets


# -- mixed tables: how columns are chosen --------------------------------------------------------------------------------------


def _numbers(*, scale: Any = None) -> Any:
    return make_pipeline(SimpleImputer(strategy="median"), scale or StandardScaler())


def _words(**options: Any) -> Any:
    fill = SimpleImputer(missing_values=None, strategy="constant", fill_value="none")
    return make_pipeline(fill, OneHotEncoder(handle_unknown="ignore", **options))


@case(customers, "leaves")
def columns_by_name() -> Any:
    """ColumnTransformer by names: imputed and scaled numbers, one-hot words; LogisticRegression, words as labels."""
    parts = [("num", _numbers(), NUMBERS), ("cat", _words(), WORDS), ("flag", "passthrough", ["member"])]
    return Pipeline([("prep", ColumnTransformer(parts)), ("clf", LogisticRegression(max_iter=300))])


@case(of_strings, "flag")
def columns_by_selector() -> Any:
    """make_column_selector by types (pandas' strings), most frequent words; SVC, booleans as labels."""
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    parts = [
        (_numbers(), make_column_selector(dtype_include=np.number)),
        (words, make_column_selector(dtype_include=["object", "string"])),
    ]
    return make_pipeline(make_column_transformer(*parts), SVC())


@case(of_polars, "class")
def columns_by_position() -> Any:
    """polars: positions, negative ones and a slice, the rest passed through; RandomForestClassifier."""
    parts = [(_numbers(), [0, 1]), (_words(), slice(3, 5)), (OrdinalEncoder(), [-1])]
    transformer = make_column_transformer(*parts, remainder="passthrough")
    return make_pipeline(transformer, RandomForestClassifier(10, max_depth=5, random_state=0))


@case(customers, "grade")
def columns_by_mask() -> Any:
    """Masks of booleans, a remainder that is an estimator; LogisticRegression of three words."""
    parts = [(_words(), np.array([False, False, False, True, True, False]))]
    transformer = make_column_transformer(*parts, remainder=_numbers(scale=MinMaxScaler()))
    return make_pipeline(transformer, LogisticRegression(max_iter=300))


def of_numbers(frame: Any) -> list[str]:
    """Names of the columns of numbers."""
    return list(frame.select_dtypes("number").columns)


@case(customers, "leaves")
def columns_by_callable() -> Any:
    """A function that chooses columns and a slice of names; KNeighborsClassifier."""
    parts = [(_numbers(), of_numbers), (_words(), slice("city", "plan"))]
    return make_pipeline(make_column_transformer(*parts), KNeighborsClassifier(9))


@case(dated, "leaves")
def columns_left_out() -> Any:
    """A table with a date and a name that the model drops; LogisticRegression."""
    return make_pipeline(make_column_transformer((_numbers(), NUMBERS), (_words(), WORDS)), LogisticRegression())


@case(small_types, "flag")
def columns_of_small_types() -> Any:
    """int8, float32, uint16 and booleans side by side; GaussianNB."""
    parts = [(_numbers(), ["income"]), ("passthrough", ["age", "visits", "member"])]
    return make_pipeline(make_column_transformer(*parts), StandardScaler(), GaussianNB())


@case(nullable, "leaves")
def nullable_types() -> Any:
    """pandas' nullable integers, floats and booleans; SimpleImputer, LogisticRegression."""
    parts = [(_numbers(), [*NUMBERS, "member"]), (_words(min_frequency=5), ["city"])]
    return make_pipeline(make_column_transformer(*parts), LogisticRegression())


@case(categorical, "spent")
def categories_of_pandas() -> Any:
    """HistGradientBoostingRegressor straight on a table, categories from the columns' types."""
    return make_pipeline(
        ColumnTransformer(
            [("kept", "passthrough", ["age", "income", "visits", "city", "plan"])], verbose_feature_names_out=False
        ).set_output(transform="pandas"),
        HistGradientBoostingRegressor(max_iter=10, min_samples_leaf=8),
    )


@case(polars_categories, "class")
def categories_of_polars() -> Any:
    """polars' Enum and Categorical, one-hot with infrequent ones; LogisticRegression."""
    words = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=4)
    return make_pipeline(make_column_transformer((_numbers(), NUMBERS), (words, WORDS)), LogisticRegression())


@case(customers, "leaves")
def frames_inside() -> Any:
    """set_output("pandas"): a second ColumnTransformer chooses the first one's columns by name; LogisticRegression."""
    words = make_pipeline(SimpleImputer(strategy="constant", fill_value="none", missing_values=None), OrdinalEncoder())
    parts = [("num", SimpleImputer(add_indicator=True), NUMBERS), ("plan", words, ["plan"])]
    first = ColumnTransformer(parts, remainder="passthrough")
    chosen = [
        ("wide", PowerTransformer(), ["num__income", "num__age"]),
        ("city", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["remainder__city"]),
        ("flags", "passthrough", ["num__missingindicator_income", "plan__plan", "remainder__member"]),
    ]
    return make_pipeline(first, ColumnTransformer(chosen), LogisticRegression()).set_output(transform="pandas")


@case(customers, "spent")
def nested_columns() -> Any:
    """A ColumnTransformer in a pipeline in a ColumnTransformer, FeatureUnion within; Ridge."""
    inner = ColumnTransformer(
        [
            ("log", FunctionTransformer(np.log1p), ["visits"]),
            ("bins", KBinsDiscretizer(4, encode="onehot-dense", quantile_method="averaged_inverted_cdf"), ["age"]),
        ]
    )
    union = FeatureUnion([("splines", SplineTransformer(n_knots=3)), ("squares", PolynomialFeatures(2))])
    income = make_pipeline(SimpleImputer(), QuantileTransformer(n_quantiles=30), union)
    parts = [("in", make_pipeline(inner, MaxAbsScaler()), ["visits", "age"]), ("income", income, ["income"])]
    return make_pipeline(ColumnTransformer(parts, transformer_weights={"in": 0.5}), Ridge())


@case(complete)
def preparation_alone() -> Any:
    """A ColumnTransformer without a model: RobustScaler, one-hot words, the rest passed through."""
    parts = [(RobustScaler(), ["income"]), (OneHotEncoder(), WORDS)]
    return make_column_transformer(*parts, remainder="passthrough", sparse_threshold=0)


# -- functions of columns ----------------------------------------------------------------------------------------------------


def per_visit(x: Any) -> Any:
    """Income per visit, and its logarithm."""
    ratio = x[:, [0]] / (x[:, [1]] + 1)
    return np.hstack([ratio, np.log(ratio)])


@case(complete, "spent")
def functions_of_arrays() -> Any:
    """FunctionTransformer of a ratio, np.log1p, Binarizer; LinearRegression."""
    ratio = FunctionTransformer(per_visit, validate=True)
    parts = [
        (make_pipeline(ratio, MinMaxScaler()), ["income", "visits"]),
        (FunctionTransformer(np.log1p, feature_names_out="one-to-one"), ["age"]),
        (Binarizer(threshold=3), ["visits"]),
    ]
    return make_pipeline(make_column_transformer(*parts), StandardScaler(), LinearRegression())


def with_ratio(frame: Any) -> Any:
    """What a frame's own operators make of it."""
    frame = frame.copy()
    frame["per_visit"] = frame["income"] / (frame["visits"] + 1)
    return frame.assign(old=frame["age"] > 60, log_income=np.log(frame["income"])).drop(columns=["visits"])


@case(complete, "spent")
def functions_of_frames() -> Any:
    """FunctionTransformer of a frame's own operators, chosen from by name; Ridge."""
    parts = [
        ("numbers", RobustScaler(), ["age", "per_visit", "log_income"]),
        ("words", OneHotEncoder(), ["city", "old"]),
    ]
    return make_pipeline(FunctionTransformer(with_ratio), ColumnTransformer(parts), Ridge())


# -- unknown, infrequent and missing categories --------------------------------------------------------------------------------


@case(customers, "leaves")
def infrequent_one_hot() -> Any:
    """OneHotEncoder(min_frequency, handle_unknown="infrequent_if_exist"), missing words as a category; DecisionTree."""
    words = OneHotEncoder(min_frequency=0.1, handle_unknown="infrequent_if_exist")
    return make_pipeline(
        make_column_transformer((words, WORDS), ("passthrough", ["age", "member"])), DecisionTreeClassifier(max_depth=5)
    )


@case(customers, "leaves")
def unknown_warned() -> Any:
    """OneHotEncoder(handle_unknown="warn", drop="first"), BernoulliNB."""
    return make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="warn", drop="first"), WORDS)), BernoulliNB()
    )


@case(customers, "grade")
def unknown_as_number() -> Any:
    """OrdinalEncoder(unknown_value=-1, encoded_missing_value=-2), RandomForestClassifier."""
    words = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    return make_pipeline(
        make_column_transformer((words, WORDS), remainder=SimpleImputer()),
        RandomForestClassifier(8, max_depth=5, random_state=0),
    )


@case(customers, "flag")
def unknown_as_nan() -> Any:
    """OrdinalEncoder(unknown_value=nan) into categories of HistGradientBoostingClassifier; booleans as labels."""
    words = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    return make_pipeline(
        make_column_transformer((words, WORDS), remainder="passthrough"),
        HistGradientBoostingClassifier(max_iter=10, categorical_features=[0, 1], min_samples_leaf=8),
    )


@case(customers, "class")
def infrequent_ordinal() -> Any:
    """OrdinalEncoder(max_categories) with integers as output, CategoricalNB."""
    words = OrdinalEncoder(
        max_categories=3, handle_unknown="use_encoded_value", unknown_value=7, encoded_missing_value=8, dtype=np.int64
    )
    return make_pipeline(
        make_column_transformer((words, ["city"]), ("passthrough", ["member"])), CategoricalNB(min_categories=9)
    )


@case(customers, "spent")
def target_means() -> Any:
    """TargetEncoder of words, unknown and missing ones; DecisionTreeRegressor."""
    parts = [(TargetEncoder(cv=2, random_state=0, shuffle=True), WORDS)]
    return make_pipeline(make_column_transformer(*parts, remainder="passthrough"), DecisionTreeRegressor(max_depth=5))


@case(of_strings, "grade")
def target_means_of_classes() -> Any:
    """TargetEncoder of three classes, IterativeImputer of numbers; LogisticRegression."""
    numbers = make_pipeline(IterativeImputer(max_iter=3, random_state=0), StandardScaler())
    encoder = TargetEncoder(cv=2, smooth=5.0, random_state=0, target_type="multiclass")
    return make_pipeline(
        make_column_transformer((encoder, WORDS), (numbers, NUMBERS)), LogisticRegression(max_iter=300)
    )


@case(of_polars, "leaves")
def missing_words_flagged() -> Any:
    """polars: most frequent words, indicators of missing ones, FeatureUnion; LogisticRegression."""
    words = make_pipeline(
        SimpleImputer(missing_values=None, strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    union = make_union(_numbers(), MissingIndicator(features="all"))
    return make_pipeline(make_column_transformer((words, WORDS), (union, NUMBERS)), LogisticRegression())


@case(customers, "leaves")
def searched_table() -> Any:
    """GridSearchCV over the preparation's and the model's options, votes of pipelines within."""
    parts = ColumnTransformer([("num", _numbers(), NUMBERS), ("cat", _words(), WORDS)])
    votes = VotingClassifier([("lr", LogisticRegression()), ("knn", KNeighborsClassifier())], voting="soft")
    grid = {"prep__num__simpleimputer__strategy": ["mean", "median"], "clf__lr__C": [0.1, 1.0]}
    return GridSearchCV(Pipeline([("prep", parts), ("clf", votes)]), grid, cv=2)


@case(customers, "grade")
def stacked_tables() -> Any:
    """StackingClassifier of pipelines that each choose their columns, calibrated; words as labels."""
    parts = [
        ("words", make_pipeline(make_column_transformer((_words(), WORDS)), MultinomialNB())),
        ("numbers", make_pipeline(make_column_transformer((_numbers(), NUMBERS)), LinearSVC())),
    ]
    return CalibratedClassifierCV(StackingClassifier(parts, LogisticRegression(), cv=2), cv=2)
