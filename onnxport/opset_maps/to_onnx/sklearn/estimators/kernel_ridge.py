"""Kernel ridge regression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.maps import sklearn
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.arrays.distances import kernel
from onnxport.opset_maps.to_onnx.sklearn.fitted import cases, regressor
from onnxport.opset_maps.to_onnx.sklearn.tables.table import Table, numbers

if TYPE_CHECKING:
    from sklearn.kernel_ridge import KernelRidge


@sklearn.lower(
    "KernelRidge.predict",
    cases=cases(
        regressor,
        "kernel_ridge",
        "KernelRidge",
        {},
        {"kernel": "rbf", "gamma": 0.1, "outputs": 2},
        {"kernel": "laplacian"},
    ),
)
def kernel_ridge(op: OpBuilder, model: KernelRidge, x: Table) -> Array:
    """The kernel with the fitted rows times the dual coefficients."""
    rows = numbers(op, x)
    parameters = {"gamma": model.gamma, "degree": model.degree, "coef0": model.coef0}
    result = rows if model.kernel == "precomputed" else kernel(rows, model.X_fit_, model.kernel, parameters)
    return result @ model.dual_coef_
