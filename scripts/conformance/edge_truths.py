"""Functions of which a framework's own float64 numbers are off on an edge, by mpmath in 60 digits, and other right answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np

Number = mpmath.mpf

_DIGITS = 60


def _lower_gamma(a: Number, x: Number) -> Number:
    """P(a, x), whose limit at a of 0 is 1."""
    if a <= 0 or x <= 0 or mpmath.isinf(a) or mpmath.isinf(x) or mpmath.isnan(a + x):
        return mpmath.nan
    return mpmath.gammainc(a, 0, x, regularized=True)


def _trigamma(x: Number) -> Number:
    """The derivative of digamma, infinite at its poles."""
    if mpmath.isint(x) and x <= 0:
        return mpmath.inf
    return mpmath.psi(1, x)


# By the sweep's name of an operator.
TRUTHS: dict[str, Callable[..., Number]] = {
    "torch.igamma": _lower_gamma,
    "torch.special.gammainc": _lower_gamma,
    "torch.polygamma(1)": _trigamma,
    "tf.math.erf": mpmath.erf,
    "keras.ops.erf": mpmath.erf,
    "tf.math.special.bessel_j1": lambda x: mpmath.besselj(1, x),
    "tf.math.special.bessel_y1": lambda x: mpmath.bessely(1, x),
}

# PyTorch multiplies and adds in one step where the processor can. Where it can't (ATEN_CPU_CAPABILITY=default), the product
# overflows on its own: inf + 2 * -3.4e38 is NaN there.
OTHERWISE: dict[str, Callable[..., Any]] = {
    "torch.add(alpha)": lambda x, y: x + y * 2,
    "torch.sub(alpha)": lambda x, y: x - y * 2,
}


def truth(name: str, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """What an operator's float64 numbers are; None where it has no row."""
    function = TRUTHS.get(name)
    if function is None:
        return None
    with mpmath.workdps(_DIGITS):
        return np.array([_number(function, row) for row in zip(*arrays, strict=True)], np.float64)


def _number(function: Callable[..., Number], row: Sequence[Any]) -> float:
    try:
        return float(function(*(mpmath.mpf(float(item)) for item in row)))
    except (ValueError, ZeroDivisionError, OverflowError, mpmath.NoConvergence):
        return float("nan")
