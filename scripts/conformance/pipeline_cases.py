"""What a case of a pipeline is, and data of numbers for them: made here or shipped with scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.model_selection import (
    train_test_split,
)

Data = tuple[Any, dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A pipeline with its data.

    Attributes:
        name: what it is called.
        contents: what is in it.
        make: constructs it, not fitted.
        data: rows and targets by name, to fit on (False) or fresh ones (True).
        target: the name of its target; "" for none.
    """

    name: str
    contents: str
    make: Callable[[], Any]
    data: Callable[[bool], Data]
    target: str = ""

    def fitted(self) -> Any:
        """The pipeline, fitted."""
        rows, targets = self.data(False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # small models on small data need not converge
            return self.make().fit(rows, *([targets[self.target]] if self.target else []))

    def fresh(self) -> Any:
        """Rows that it was not fitted on."""
        return self.data(True)[0]


CASES: list[Case] = []


def case(data: Callable[[bool], Data], target: str = "") -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Adds the pipeline that a function makes to `CASES`, under the function's name."""

    def added(make: Callable[[], Any]) -> Callable[[], Any]:
        CASES.append(Case(make.__name__, (make.__doc__ or "").strip(), make, data, target))
        return make

    return added


# -- data --------------------------------------------------------------------------------------------------------------------


def _part(x: Any, targets: dict[str, Any], fresh: bool) -> Data:
    old, new = train_test_split(np.arange(len(x)), test_size=0.4, random_state=0)
    chosen = new if fresh else old
    return x[chosen], {name: values[chosen] for name, values in targets.items()}


def cancer(fresh: bool) -> Data:
    """569 tumours of 30 features: integer labels, booleans, words."""
    x, y = datasets.load_breast_cancer(return_X_y=True)
    return _part(x, {"kind": y, "benign": y == 1, "word": np.array(["malignant", "benign"])[y]}, fresh)


def iris(fresh: bool) -> Data:
    """150 flowers: numbers, words, and the number of the flower from 1 on."""
    x, y = datasets.load_iris(return_X_y=True)
    words = np.array(["setosa", "versicolor", "virginica"], object)
    return _part(x, {"kind": y, "word": words[y], "from_one": y + 1}, fresh)


def wine(fresh: bool) -> Data:
    """178 wines of three cultivars."""
    x, y = datasets.load_wine(return_X_y=True)
    return _part(x, {"kind": y, "letter": np.array(["A", "B", "C"])[y]}, fresh)


def diabetes(fresh: bool) -> Data:
    """442 patients and how their illness went on."""
    x, y = datasets.load_diabetes(return_X_y=True)
    return _part(x, {"value": y, "count": np.round(y), "grade": np.digitize(y, [100, 200])}, fresh)


def fitness(fresh: bool) -> Data:
    """20 men's exercises and three measures of their bodies."""
    x, y = datasets.load_linnerud(return_X_y=True)
    return _part(x, {"body": y}, fresh)


def digits(fresh: bool) -> Data:
    """500 handwritten digits of 8 x 8 points."""
    x, y = datasets.load_digits(return_X_y=True)
    return _part(x[:500], {"digit": y[:500]}, fresh)


def pictures(fresh: bool) -> Data:
    """The digits as matrices."""
    x, targets = digits(fresh)
    return x.reshape(-1, 8, 8), targets


def gaps(fresh: bool) -> Data:
    """The wines, a tenth of the values missing."""
    x, y = datasets.load_wine(return_X_y=True)
    holes = np.random.default_rng(0).random(x.shape) < 0.1
    return _part(np.where(holes, np.nan, x), {"kind": y, "alcohol": x[:, 0]}, fresh)


def sensors(fresh: bool) -> Data:
    """Float32 measurements: a value, and two faults that may come together."""
    rng = np.random.default_rng(1 if fresh else 0)
    x = (rng.normal(size=(200, 6)) * [1, 5, 0.1, 2, 1, 30] + [0, 20, 1, 0, -3, 100]).astype(np.float32)
    scaled = (x - [0, 20, 1, 0, -3, 100]) / [1, 5, 0.1, 2, 1, 30]
    noise = rng.normal(size=(200, 2))
    faults = np.stack([scaled[:, 0] + scaled[:, 1], scaled[:, 2] - scaled[:, 3]], 1) + 0.3 * noise > 0.5
    value = scaled[:, 0] * 3 + np.sin(scaled[:, 1]) + 0.1 * noise[:, 0]
    return x, {"value": value, "faults": faults.astype(int), "fault": faults[:, 0].astype(int), "positive": value**2}


def counts(fresh: bool) -> Data:
    """Integers: three codes of categories, two counts."""
    rng = np.random.default_rng(1 if fresh else 0)
    x = np.column_stack([rng.integers(0, 6, size=(220, 3)), rng.integers(0, 40, size=(220, 2))])
    signed = np.where(x[:, 0] * 5 + x[:, 3] + rng.normal(size=220) * 3 > 32, 1, -1)
    return x, {"signed": signed, "value": x[:, 1] * 2.0 + x[:, 4] + rng.normal(size=220)}
