"""Boosters that XGBoost's and LightGBM's own training functions give, and the files they write, as estimators."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from onnxport.errors import InvalidModelError, MissingDependencyError
from onnxport.tracing.trust.faults import hostile, reading
from onnxport.tracing.trust.readers import Reader, check_reader
from onnxport.tracing.trust.sklearn_booster_files import fault_of_lightgbm, fault_of_xgboost


class _Booster(RegressorMixin, BaseEstimator):
    """A booster as an estimator: its `predict` gives what the booster's own gives."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def fit(self, x: object, y: object) -> Self:
        """Boosters are fitted by their own libraries.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{type(self).__name__} is fitted already")

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class LightGBMBooster(_Booster):
    """A `lightgbm.Booster`."""

    @property
    def booster_(self) -> Any:
        """The booster, under the name that LightGBM's estimators have for it."""
        return self.booster

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return int(self.booster.num_feature())

    def predict(self, rows: Any) -> Any:
        """The prediction for rows [N, F], [N] or [N, K]: values, probabilities or scores, by the objective."""
        return self.booster.predict(rows)


class XGBoostBooster(_Booster):
    """An `xgboost.Booster`; as its own `predict` it uses all trees, also where training noted a best iteration."""

    missing = np.nan

    def get_booster(self) -> Any:
        """The booster, under the name that XGBoost's estimators have for it."""
        return self.booster

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return int(self.booster.num_features())

    def _get_iteration_range(self, _: Any) -> tuple[int, int]:
        return 0, self.booster.num_boosted_rounds()

    def predict(self, rows: Any) -> Any:
        """The prediction for rows [N, F], [N] or [N, K]: values, probabilities or scores, by the objective."""
        from xgboost import DMatrix

        own = {"feature_names": self.booster.feature_names, "feature_types": self.booster.feature_types}
        return self.booster.predict(DMatrix(rows, enable_categorical=True, **({} if hasattr(rows, "columns") else own)))


_KINDS = {("lightgbm", "Booster"): LightGBMBooster, ("xgboost", "Booster"): XGBoostBooster}
# Suffixes of the files that boosters write, and who reads them.
SUFFIXES: dict[str, Reader] = {".txt": "lightgbm", ".ubj": "xgboost", ".json": "xgboost"}


def as_estimator(model: object) -> Any:
    """A booster as an estimator; anything else as it is."""
    kind = type(model)
    wrapper = _KINDS.get((kind.__module__.partition(".")[0], kind.__name__))
    return wrapper(model) if wrapper is not None else model


def load(place: Path) -> Any:
    """The booster in a file of LightGBM (``.txt``) or XGBoost (``.ubj``, ``.json``).

    Raises:
        InvalidModelError: the file is corrupt or of another kind.
        MissingDependencyError: the library is not installed.
    """
    library = SUFFIXES[place.suffix.lower()]
    try:
        package = import_module(library)
    except ImportError as error:
        raise MissingDependencyError.for_extra(library, library) from error
    title = repr(str(place))
    check(library, place.read_bytes(), title)
    check_reader(library, place, title, library=_native(library))
    with reading(f"{title} is truncated or no file of {library}'s"):
        return package.Booster(model_file=str(place))


def _native(library: str) -> str:
    """The path of a package's shared library."""
    module = import_module("lightgbm.basic" if library == "lightgbm" else "xgboost.core")
    return str(getattr(module, "_LIB")._name)  # noqa: B009


def check(library: str, data: bytes, title: str) -> None:
    """Looks through a booster's own format before its library loads it.

    Raises:
        InvalidModelError: it is corrupt, or one of its trees leads nowhere.
    """
    try:
        fault = fault_of_lightgbm(data.decode()) if library == "lightgbm" else fault_of_xgboost(data)
    except Exception as error:  # whatever a damaged file makes of it
        reason = f"{type(error).__name__}: {error}"
        raise InvalidModelError(f"{title} is truncated or no file of {library}'s: {reason}") from error
    if fault:
        raise hostile(title, fault)
