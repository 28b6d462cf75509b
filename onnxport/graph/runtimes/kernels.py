"""Limits of onnxruntime's kernels that no rewriting of a node mends: proofs and lowerings keep to them."""

from __future__ import annotations

import numpy as np

# Operators whose kernels run on tensors without rows. Those of others fail there, or end the process with a division by zero
# (CumSum and Einsum of 1.31).
RUN_WITHOUT_ROWS = frozenset(
    "Abs Add And AveragePool BatchNormalization Cast Ceil Celu Clip Concat Constant Conv Cos Div Elu Equal Erf Exp "
    "Expand Flatten Floor Gather Gelu Gemm GlobalAveragePool Greater GreaterOrEqual HardSigmoid HardSwish Identity "
    "IsNaN LayerNormalization LeakyRelu Less LessOrEqual Log MatMul Max MaxPool Min Mish Mul Neg Not Or Pow "
    "Reciprocal ReduceSum Relu Reshape Round Selu Shape Sigmoid Sign Sin Slice Softplus Softsign Split Sqrt Squeeze "
    "Sub Tanh Tile Transpose Unsqueeze Where Xor".split()
)
# Reductions of a tensor without elements leave axes that are computed and count from the last as they are (1.31).
REDUCES_EMPTY_FROM_THE_LAST = False
# The operands of recurrent layers on which no gate saturates: there the kernels' approximations of Sigmoid and Tanh give
# exact zeros in place of small numbers.
GATE_LIMIT = 1.0
# From this opset on there is no kernel for RoiAlign and MaxRoiPool (1.31).
REGIONS_BELOW = 22


def exact_transform(size: int) -> bool:
    """Whether a Fourier transform of so many numbers is exact up to rounding.

    Of sizes that are no power of 2 DFT is off by 5e-6 of the largest result at size 31 and 2e-4 at 1000 in float32, and its
    inverse by 3e-8 in double (1.31). Of 2 and 4 numbers it multiplies by rounded roots where 1, -1 and 0 are.
    """
    return size & (size - 1) == 0 and size not in (2, 4)


def lowest_for_infinity(x: np.ndarray, y: np.ndarray, dtype: np.dtype, truth: np.ndarray | None) -> np.ndarray:
    """Where the source gives its type's greatest number for an infinity of its own float64 run, and the other side gives that.

    1.31 masks the scores of Attention with the lowest number; by the operator's function body they are -inf.
    """
    if truth is None or dtype.kind != "f":
        return np.zeros(x.shape, bool)
    return np.isinf(truth) & (y == truth) & (x == np.copysign(float(np.finfo(dtype).max), np.nan_to_num(truth)))
