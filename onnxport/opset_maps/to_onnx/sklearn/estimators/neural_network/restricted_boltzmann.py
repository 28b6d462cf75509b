"""Restricted Boltzmann machines."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import expit

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import boolean, built, f32, f64, i64
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.mersenne_twister import integers_below
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, data, transformer, unfitted
from onnxport.opset_maps.to_onnx.sklearn.tables.sparse import is_sparse
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, floats, numbers

if TYPE_CHECKING:
    from sklearn.neural_network import BernoulliRBM


def _machine(features: int = 4, dtype: DTypeLike = np.float64, **options: object) -> Any:
    rows = (data(features) > 0).astype(dtype)
    return unfitted("neural_network", "BernoulliRBM", **{"n_components": 3, "n_iter": 2, **options}).fit(rows)


@sklearn.lower(
    "BernoulliRBM.transform",
    cases=cases(transformer, "neural_network", "BernoulliRBM", {"n_components": 3, "n_iter": 2}),
)
def hidden_units(op: OpBuilder, model: BernoulliRBM, x: Table) -> Array:
    """The hidden units' probabilities."""
    return expit(floats(op, x) @ model.components_.T + model.intercept_hidden_)


@sklearn.lower(
    "BernoulliRBM.score_samples",
    cases=[
        built(_machine, f64(7, 4), dynamic=True),
        built(lambda: _machine(random_state=7), f64(1500, 4)),
        built(lambda: _machine(5, random_state=np.int64(2**32 - 1)), f64(2000, 5)),
        built(lambda: _machine(5), f32(7, 5)),
        built(lambda: _machine(1), i64(7, 1)),
        built(lambda: _machine(70, random_state=3), boolean(7, 70)),
    ],
)
def pseudo_likelihood(op: OpBuilder, model: BernoulliRBM, x: Table) -> Array:
    """How much likelier a row is than with one bit flipped, as a logarithm; the seed draws a bit for each row's place."""
    seed = model.random_state
    if not isinstance(seed, Integral):
        seeding = "random_state=None" if seed is None else f"a {type(seed).__name__} as random_state"
        raise UnsupportedOperator(
            f"BernoulliRBM.score_samples draws random numbers, others at each call with {seeding}: fit with an int random_state"
        )
    rows = numbers(op, x)
    features = int(model.components_.shape[1])
    place = integers_below(op, int(seed), features, op.dim(rows.value, 0))
    drawn = place[:, None] == np.arange(features)
    if is_sparse(x):  # whose entries SciPy hands out in float64
        wide = rows.astype(np.float64)
        flipped = np.where(drawn, wide + (-2 * wide + 1), wide)
    else:
        flipped = np.where(drawn, (1 - rows).astype(rows.dtype), rows)
    gain = _free_energy(model, flipped) - _free_energy(model, rows)
    return -features * np.logaddexp(0, -gain)


def _free_energy(model: BernoulliRBM, rows: Array) -> Any:
    hidden = np.logaddexp(0, rows @ model.components_.T + model.intercept_hidden_)
    return -(rows @ model.intercept_visible_) - np.sum(hidden, axis=1)
