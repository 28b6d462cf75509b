"""Prints the polynomial coefficients of onnxport/opset_maps/lowerings/special.py, from 60-digit arithmetic.

Each is the Chebyshev interpolant of a smooth function of u in [-1, 1], rewritten in powers of u, lowest power first.
Needs mpmath, which PyTorch brings.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 60


def interpolant(function: Callable[[mp.mpf], mp.mpf], count: int) -> list[mp.mpf]:
    """Coefficients in powers of u of the interpolant in `count` Chebyshev nodes."""
    nodes = [mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    values = [function(u) for u in nodes]
    series = [2 * sum(v * mp.cos(j * mp.acos(u)) for u, v in zip(nodes, values)) / count for j in range(count)]
    series[0] /= 2
    powers = [mp.mpf(0)] * count
    before, now = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for weight in series:
        for i, item in enumerate(before):
            powers[i] += weight * item
        following = [mp.mpf(0), *(2 * item for item in now)]
        for i, item in enumerate(before):
            following[i] -= item
        before, now = now, following
    return powers


def scaled_erfc(u: mp.mpf) -> mp.mpf:
    """exp(x^2) erfc(x) / t with t = 3 / (3 + x) = (u + 1) / 2."""
    t = (u + 1) / 2
    x = 3 * (1 - t) / t
    return mp.exp(x * x) * mp.erfc(x) / t


def scaled_bessel(order: int) -> Callable[[mp.mpf], mp.mpf]:
    """sqrt(x) exp(-x) I_order(x) with 8 / x = (u + 1) / 2."""

    def function(u: mp.mpf) -> mp.mpf:
        x = 16 / (u + 1)
        return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)

    return function


if __name__ == "__main__":
    for name, function, count in (
        ("_ERFCX", scaled_erfc, 26),
        ("_I0_TAIL", scaled_bessel(0), 24),
        ("_I1_TAIL", scaled_bessel(1), 24),
    ):
        values = [float(item) for item in interpolant(function, count)]
        lines = [", ".join(repr(item) for item in values[i : i + 4]) for i in range(0, count, 4)]
        print(f"{name} = (\n" + "".join(f"    {line},\n" for line in lines) + ")")
