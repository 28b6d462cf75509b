"""What the estimators of the conformance run are fitted on: rows of many kinds, and targets of them."""

from __future__ import annotations

from typing import Any

import numpy as np

FITTED, FEATURES = 150, 5


# -- data: each is a function of a number of rows and a generator --------------------------------------------------------------


def dense(count: int, rng: np.random.Generator) -> np.ndarray:
    """Normal features of different scale."""
    return rng.normal(size=(count, FEATURES)) * [1.0, 3.0, 0.5, 1.0, 2.0] + [0.0, 1.0, 0.0, -1.0, 0.0]


def positive(count: int, rng: np.random.Generator) -> np.ndarray:
    """Features above 0."""
    return np.abs(dense(count, rng)) + 0.05


def whole(count: int, rng: np.random.Generator) -> np.ndarray:
    """Counts from 0 to 4."""
    return rng.integers(0, 5, size=(count, FEATURES)).astype(float)


def missing(count: int, rng: np.random.Generator) -> np.ndarray:
    """`dense` with a tenth of the values missing."""
    return np.where(rng.random((count, FEATURES)) < 0.1, np.nan, dense(count, rng))


def single(count: int, rng: np.random.Generator) -> np.ndarray:
    """One feature."""
    return dense(count, rng)[:, :1]


def words(count: int, rng: np.random.Generator) -> np.ndarray:
    """Columns of words."""
    return rng.choice(np.array(["red", "green", "blue", "grey"], object), size=(count, 2))


def texts(count: int, rng: np.random.Generator) -> list[str]:
    """Short documents: capitals, punctuation, digits, accents."""
    stock = (
        "The quick brown fox jumps over lazy dogs, isn't it? Café-crème costs 3.50 and NOT 42! a I we re-read".split()
    )
    return [" ".join(rng.choice(stock, size=rng.integers(0, 12))) for _ in range(count)]


def labels(count: int, rng: np.random.Generator) -> np.ndarray:
    """A vector of words."""
    return words(count, rng)[:, 0]


def square(count: int, rng: np.random.Generator) -> np.ndarray:
    """Kernels of fresh rows with the fitted ones."""
    x = dense(count, rng)
    return x @ dense(FITTED, np.random.default_rng(0)).T


def images(count: int, rng: np.random.Generator) -> np.ndarray:
    """Grey pictures of 8 x 8."""
    return rng.random((count, 8, 8))


def records(count: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Dictionaries of features."""
    return [{"colour": str(word), "size": float(size)} for word, size in zip(labels(count, rng), rng.random(count))]


def lists(count: int, rng: np.random.Generator) -> list[list[str]]:
    """Some labels each."""
    return [list(dict.fromkeys(map(str, rng.choice(labels(9, rng), rng.integers(0, 4))))) for _ in range(count)]


# -- targets: functions of the fitted rows -------------------------------------------------------------------------------------


def score(x: Any) -> np.ndarray:
    """A noisy function of the features (of the row numbers, where they are no numbers)."""
    noise = np.random.default_rng(2).normal(size=len(x))
    array = np.asarray(x)
    if array.dtype.kind != "f" or array.ndim != 2:
        return noise
    array = np.nan_to_num(array)
    return array @ np.linspace(1.0, -1.0, array.shape[1]) + np.sin(array[:, 0]) + 0.3 * noise


def classes(x: Any) -> np.ndarray:
    """Three classes."""
    return np.digitize(score(x), np.quantile(score(x), [0.3, 0.7]))


def two(x: Any) -> np.ndarray:
    """Two classes."""
    return (score(x) > np.median(score(x))).astype(int)


def named(x: Any) -> np.ndarray:
    """Three classes by name."""
    return np.array(["high", "low", "middle"])[classes(x)]


def several_labels(x: Any) -> np.ndarray:
    """Two columns of labels, yes or no."""
    return np.stack([two(x), np.asarray(score(x) > 0.5, int)], axis=1)


def several_classes(x: Any) -> np.ndarray:
    """Two columns of classes."""
    return np.stack([classes(x), two(x)], axis=1)


def value(x: Any) -> np.ndarray:
    """A quantity."""
    return score(x)


def above(x: Any) -> np.ndarray:
    """A quantity above 0."""
    return np.exp(score(x) / 4)


def values(x: Any) -> np.ndarray:
    """Two quantities."""
    return np.stack([score(x), -2 * score(x) + 1], axis=1)


def partly(x: Any) -> np.ndarray:
    """Three classes, a third of the rows without one (-1)."""
    result = classes(x)
    result[::3] = -1
    return result


def nothing(x: Any) -> None:
    """No target."""
