"""Random draws: a pipeline of scikit-learn's estimators and the data that it is fitted on and asked about."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  (importing enables it)
from sklearn.utils import all_estimators

from scripts.conformance.random_parts import (
    ANYWHERE,
    CLASSIFIERS,
    CLUSTERERS,
    COMPLETE,
    EXACT,
    FILLS,
    KEEPS_MISSING,
    LABELLED,
    OF_COUNTS,
    OUTLIERS,
    OVER_CLASSIFIERS,
    OVER_REGRESSORS,
    POSITIVE,
    REGRESSORS,
    SUPERVISED,
    TAKES_MISSING,
)

Pick = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class Part:
    """An estimator to be made.

    Attributes:
        kind: its class, or "passthrough".
        options: what it is constructed with.
        parts: the estimators that it is made of.
        columns: for a part of a ColumnTransformer the columns that it sees.
    """

    kind: str
    options: tuple[tuple[str, Any], ...] = ()
    parts: tuple[Part, ...] = ()
    columns: tuple[Any, ...] = ()

    def walk(self) -> Iterator[Part]:
        """The part and all those in it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def __str__(self) -> str:
        items = [*(f"{k}={getattr(v, '__name__', repr(v))}" for k, v in self.options), *map(str, self.parts)]
        return f"{self.kind}({', '.join(items)})" + (f"@{list(self.columns)}" if self.columns else "")


@dataclass(frozen=True)
class Drawn:
    """One draw.

    Attributes:
        model: what is fitted.
        task: "classes", "numbers" or "nothing" to be learnt.
        values: "normal", "counts" or "positive".
        dtype: element type of the rows.
        opset: target_opset.
        seed: of the data.
        features: number of columns.
        digits: decimals that values are rounded to.
        scale: factor of the columns; 0 for one that differs from column to column.
        offset: what is added to them.
        missing: a tenth of the values is NaN.
        constant: the first column is constant.
        repeated: half of the fitted rows stand there twice.
        classes: number of classes.
        labels: "int", "str", "float" or "bool".
        targets: number of columns to be predicted.
        frame: rows are a DataFrame, the last column of it words.
        fitted: element type of the fitted rows.
    """

    model: Part
    task: str
    values: str = "normal"
    dtype: str = "float64"
    opset: int = 21
    seed: int = 0
    features: int = 3
    digits: int | None = None
    scale: float = 1.0
    offset: float = 0.0
    missing: bool = False
    constant: bool = False
    repeated: bool = False
    classes: int = 2
    labels: str = "int"
    targets: int = 1
    frame: bool = False
    fitted: str = "same"

    @property
    def exact(self) -> bool:
        """Whether every bit of the result is decided."""
        return all(part.kind in EXACT for part in self.model.walk())

    def __str__(self) -> str:
        plain = Drawn(self.model, self.task)
        parts = [
            f"{name}={value!r}"
            for name, value in vars(self).items()
            if value != getattr(plain, name) and name != "model"
        ]
        return f"{self.model}; {', '.join([self.task, *parts])}"


@cache
def _kinds() -> dict[str, Any]:
    from sklearn.impute import IterativeImputer

    return {**dict(all_estimators()), "IterativeImputer": IterativeImputer}


def estimator_of(part: Part) -> Any:
    """The estimator, not fitted."""
    if part.kind == "passthrough":
        return "passthrough"
    kind = _kinds()[part.kind]
    known = inspect.signature(kind.__init__).parameters
    options = {**({"random_state": 0} if "random_state" in known else {}), **dict(part.options)}
    inner = [estimator_of(item) for item in part.parts]
    named = [(f"p{index}", item) for index, item in enumerate(inner)]
    if part.kind == "Pipeline":
        return kind(named)
    if part.kind == "FeatureUnion":
        return kind(named, **options)
    if part.kind == "ColumnTransformer":
        chosen = [(name, item, list(each.columns)) for (name, item), each in zip(named, part.parts, strict=True)]
        return kind(chosen, **options)
    if part.kind.startswith("Voting"):
        return kind(named, **options)
    if part.kind.startswith("Stacking"):
        return kind(named[:-1], final_estimator=inner[-1], **options)
    if part.kind == "TransformedTargetRegressor":
        cubed = options.get("func") is np.cbrt
        return kind(*inner, func=options["func"], inverse_func=_cube if cubed else None, check_inverse=False)
    return kind(*inner, **options)


def _cube(x: Any) -> Any:
    return x * x * x


@dataclass
class _Sight:
    """What the next step sees."""

    positive: bool
    missing: bool
    counts: bool
    exact: bool = True


def _optioned(pick: Pick, kind: str, options: dict[str, list[Any]], **more: Any) -> Part:
    chosen = tuple((name, pick(values)) for name, values in options.items())
    return Part(kind, chosen, **more)


def _transformer(pick: Pick, sight: _Sight, task: str) -> Part:
    table = dict(ANYWHERE)
    if sight.missing:
        table = {kind: table[kind] for kind in sorted({*KEEPS_MISSING, *FILLS, "OrdinalEncoder"})}
    else:
        table |= COMPLETE
        if sight.positive:
            table |= POSITIVE
        if task == "classes":
            table |= LABELLED
        if pick(range(10)) == 9 and task != "nothing":
            inner = {
                "classes": ["LogisticRegression", "RandomForestClassifier", "LinearSVC"],
                "numbers": ["Lasso", "DecisionTreeRegressor"],
            }[task]
            kind = pick(inner)
            result = _optioned(pick, kind, (CLASSIFIERS | REGRESSORS)[kind])
            return Part("SelectFromModel", (("threshold", pick(["mean", 1e-5, "0.5*median"])),), (result,))
    if task == "nothing":
        table = {kind: options for kind, options in table.items() if kind not in ("TargetEncoder", *SUPERVISED)}
    if not sight.exact:  # of numbers that rounding decides no two are the same category
        table = {kind: options for kind, options in table.items() if not kind.endswith("Encoder")}
    kind = pick(sorted(table))
    return _optioned(pick, kind, table[kind])


def _after(part: Part, sight: _Sight) -> None:
    options = dict(part.options)
    if part.kind in FILLS:
        sight.missing = False
    if part.kind == "MinMaxScaler":
        sight.positive = options["clip"] and options["feature_range"][0] == 0
    elif part.kind not in (
        "MaxAbsScaler",
        "SimpleImputer",
        "VarianceThreshold",
        "SelectKBest",
        "Normalizer",
        "Binarizer",
    ):
        sight.positive = part.kind in ("OneHotEncoder", "KBinsDiscretizer", "RandomTreesEmbedding", "NMF")
    sight.exact = sight.exact and all(item.kind in EXACT for item in part.walk())
    sight.counts = sight.counts and part.kind in ("VarianceThreshold", "SelectKBest", "OrdinalEncoder")


def _estimator(pick: Pick, task: str, sight: _Sight, depth: int) -> Part:
    tables: dict[str, dict[str, dict[str, list[Any]]]] = {
        "classes": {"": CLASSIFIERS | (OF_COUNTS if sight.counts else {})},
        "numbers": {"": REGRESSORS},
        "nothing": {"": CLUSTERERS, "outliers": OUTLIERS},
    }
    table = tables[task][pick(sorted(tables[task]))]
    if sight.missing:
        table = {kind: options for kind, options in table.items() if kind.startswith(TAKES_MISSING)}
    over = {"classes": OVER_CLASSIFIERS, "numbers": OVER_REGRESSORS, "nothing": {}}[task]
    if depth > 0 and over and pick(range(10)) >= 6:
        kind = pick(sorted(over))
        options, count = over[kind]
        inner = tuple(_estimator(pick, task, sight, depth - 1) for _ in range(count))
        return _optioned(pick, kind, options, parts=inner)
    if depth > 0 and not sight.missing and pick(range(20)) == 19:
        return Part("Pipeline", (), (_transformer(pick, sight, task), _estimator(pick, task, sight, 0)))
    if not table:
        table = {"IsolationForest": OUTLIERS["IsolationForest"]}
    kind = pick(sorted(table))
    return _optioned(pick, kind, table[kind])


def _around(pick: Pick, sight: _Sight, task: str, features: int, words: bool) -> Part:
    """A union of transformers, each of all columns or of its own."""
    names: list[Any] = [f"c{i}" for i in range(features)] if words else list(range(features))
    if not words and pick([False, True]):
        parts = tuple(_transformer(pick, sight, task) for _ in range(pick(range(1, 3))))
        more = (Part("passthrough"),) if pick([False, True]) else ()
        weights = pick([None, None, {"p0": 2.5}])
        return Part("FeatureUnion", (("transformer_weights", weights),), (*parts, *more))
    cut = pick(range(1, features + 1))
    first = _transformer(pick, sight, task)
    parts = (Part(first.kind, first.options, first.parts, tuple(names[:cut])),)
    if cut < features and pick([False, True]):
        second = _transformer(pick, sight, task)
        parts = (*parts, Part(second.kind, second.options, second.parts, tuple(names[cut:][::-1])))
    if words:
        encoder = pick(["OneHotEncoder", "OrdinalEncoder", "TargetEncoder"])
        encoder = "OneHotEncoder" if task == "nothing" else encoder
        parts = (*parts, _optioned(pick, encoder, ANYWHERE[encoder], columns=("words",)))
    remainder = "drop" if words or sight.missing else pick(["drop", "passthrough"])
    return Part("ColumnTransformer", (("remainder", remainder),), parts)


def drawn(pick: Pick) -> Drawn:
    """A pipeline and the data that it is fitted on and asked about, by who picks one of several values."""
    task = pick(["classes", "classes", "numbers", "nothing"])
    values = pick(["normal", "normal", "counts", "positive"])
    features = pick(range(2, 6))
    dtype = pick(["float64", "float32", "float64", "float32", "int64"])
    missing = dtype != "int64" and pick(range(5)) == 4
    words = pick(range(10)) == 9
    offset = pick([0.0, 0.0, -5.0, 1e3]) if values == "normal" else 0.0
    sight = _Sight(values != "normal", missing, values == "counts")
    classes = pick(range(2, 5))
    steps: list[Part] = []
    if words or pick(range(4)) == 3:
        steps.append(_around(pick, sight, task, features, words))
        _after(steps[0], sight)
        sight = _Sight(False, missing, False, sight.exact)
        if missing:
            steps.append(_optioned(pick, "SimpleImputer", ANYWHERE["SimpleImputer"]))
            sight.missing = False
    for _ in range(pick(range(4 - len(steps)))):
        steps.append(_transformer(pick, sight, task))
        _after(steps[-1], sight)
    final = None
    if task != "nothing" or not steps or pick(range(4)):
        final = _estimator(pick, task, sight, 2 if pick(range(5)) == 4 else 1)
    parts = (*steps, *([final] if final else []))
    return Drawn(
        parts[0] if len(parts) == 1 else Part("Pipeline", (), tuple(parts)),
        task,
        values,
        dtype,
        pick([21, 13, 17, 23]),
        pick(range(2**16)),
        features,
        pick([None, None, 2, 1, 0]) if values != "counts" else None,
        pick([1.0, 1.0, 1e-3, 1e4, 0.0]) if values != "counts" else 1.0,
        offset,
        missing,
        pick(range(6)) == 5,
        pick([False, True]),
        classes,
        pick(["int", "str", "float", "bool"] if classes == 2 else ["int", "str", "float"]),
        pick([1] * (4 if task == "numbers" else 9) + [2]) if task != "nothing" else 1,
        words,
        pick(["same", "same", "float64"]) if dtype != "int64" else "same",
    )


def numbered(start: int, number: int) -> Drawn:
    """The draw of that number in the sequence that a seed starts."""
    return drawn(random.Random(f"{start} {number}").choice)
