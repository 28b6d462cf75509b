"""Writes onnxport/opset_maps/lowerings/coefficients.py, the polynomials of the special functions, from 60-digit arithmetic.

Each is the Chebyshev interpolant of a smooth function of u in [-1, 1], rewritten in powers of u, lowest power first.
Needs mpmath, which PyTorch brings.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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


def near(function: Callable[[mp.mpf], mp.mpf], top: float, power: int = 2) -> Callable[[mp.mpf], mp.mpf]:
    """A function of x from 0 to `top`, where (x / top)^power is (u + 1) / 2."""
    return lambda u: function(top * mp.root((u + 1) / 2, power) if u > -1 else mp.mpf("1e-20"))


def beyond(function: Callable[[mp.mpf], mp.mpf], start: float, power: int = 1) -> Callable[[mp.mpf], mp.mpf]:
    """A function of x from `start` on, where (start / x)^power is (u + 1) / 2."""
    return lambda u: function(start / mp.root((u + 1) / 2, power))


def bessel_waves(order: int) -> tuple[Callable[[mp.mpf], mp.mpf], Callable[[mp.mpf], mp.mpf]]:
    """P and Q x / 8 of J = sqrt(2 / pi x) (P cos t - Q sin t), Y = sqrt(2 / pi x) (P sin t + Q cos t) (DLMF 10.17)."""

    def parts(x: mp.mpf) -> tuple[mp.mpf, ...]:
        angle, scale = x - mp.pi / 4 * (1 + 2 * order), mp.sqrt(mp.pi * x / 2)
        return scale * mp.besselj(order, x), scale * mp.bessely(order, x), mp.cos(angle), mp.sin(angle)

    def p(x: mp.mpf) -> mp.mpf:
        j, y, cosine, sine = parts(x)
        return j * cosine + y * sine

    def q(x: mp.mpf) -> mp.mpf:
        j, y, cosine, sine = parts(x)
        return (y * cosine - j * sine) * x / 8

    return p, q


def airy_waves(x: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """P and Q z of Ai(-x) = (P cos t + Q sin t) / (sqrt(pi) x^(1/4)) with t = z - pi / 4, z = 2 x^(3/2) / 3 (DLMF 9.7)."""
    z = 2 * x ** mp.mpf(1.5) / 3
    angle, scale = z - mp.pi / 4, mp.sqrt(mp.pi) * mp.root(x, 4)
    a, b = scale * mp.airyai(-x), scale * mp.airybi(-x)
    cosine, sine = mp.cos(angle), mp.sin(angle)
    return a * cosine - b * sine, (a * sine + b * cosine) * z


def airy_decay(z: mp.mpf) -> mp.mpf:
    """2 sqrt(pi) x^(1/4) exp(z) Ai(x) with z = 2 x^(3/2) / 3."""
    x = (z * 3 / 2) ** (mp.mpf(2) / 3)
    return 2 * mp.sqrt(mp.pi) * mp.root(x, 4) * mp.exp(z) * mp.airyai(x)


def fresnel_waves(x: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """pi x f and pi^2 x^3 g of the auxiliary functions (DLMF 7.2)."""
    c, s, angle = mp.mpf(0.5) - mp.fresnelc(x), mp.mpf(0.5) - mp.fresnels(x), mp.pi * x * x / 2
    cosine, sine = mp.cos(angle), mp.sin(angle)
    return (s * cosine - c * sine) * mp.pi * x, (c * cosine + s * sine) * mp.pi**2 * x**3


def dawson(x: mp.mpf) -> mp.mpf:
    """exp(-x^2) times the integral of exp(t^2) from 0 to x."""
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def scaled_ei(x: mp.mpf) -> mp.mpf:
    """x exp(-x) Ei(x)."""
    return x * mp.exp(-x) * mp.ei(x)


def airy_zeta(x: float) -> mp.mpf:
    """2 x^(3/2) / 3."""
    return 2 * mp.mpf(x) ** mp.mpf(1.5) / 3


def tables() -> dict[str, tuple[Callable[[mp.mpf], mp.mpf], int]]:
    """Each function of u and how many coefficients it gets, by the name of its table."""
    waves = {order: bessel_waves(order) for order in (0, 1)}
    two = 2 / mp.pi
    return {
        "ERFCX": (scaled_erfc, 26),
        "I0_TAIL": (scaled_bessel(0), 24),
        "I1_TAIL": (scaled_bessel(1), 24),
        "J0_NEAR": (near(lambda x: mp.besselj(0, x), 8), 19),
        "J1_NEAR": (near(lambda x: mp.besselj(1, x) / x, 8), 19),
        "Y0_NEAR": (near(lambda x: mp.bessely(0, x) - two * mp.log(x) * mp.besselj(0, x), 8), 19),
        "Y1_NEAR": (near(lambda x: (mp.bessely(1, x) - two * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x, 8), 19),
        "P0": (beyond(waves[0][0], 8, 2), 16),
        "Q0": (beyond(waves[0][1], 8, 2), 16),
        "P1": (beyond(waves[1][0], 8, 2), 16),
        "Q1": (beyond(waves[1][1], 8, 2), 16),
        "K0_NEAR": (near(lambda x: mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x), 2), 12),
        "K1_NEAR": (near(lambda x: (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x) - 1 / x) / x, 2), 12),
        "K0_TAIL": (beyond(lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(0, x), 2), 26),
        "K1_TAIL": (beyond(lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(1, x), 2), 26),
        "AIRY_MIDDLE": (lambda u: mp.airyai(3 * u - 1), 32),
        "AIRY_DECAY": (beyond(airy_decay, airy_zeta(2)), 26),
        "AIRY_P": (beyond(lambda z: airy_waves((z * 3 / 2) ** (mp.mpf(2) / 3))[0], airy_zeta(4), 2), 18),
        "AIRY_Q": (beyond(lambda z: airy_waves((z * 3 / 2) ** (mp.mpf(2) / 3))[1], airy_zeta(4), 2), 18),
        "DAWSON_NEAR": (near(lambda x: dawson(x) / x, 4), 34),
        "DAWSON_TAIL": (beyond(lambda x: 2 * x * dawson(x), 4, 2), 30),
        "EI_NEAR": (near(lambda x: (mp.ei(x) - mp.log(x) - mp.euler) / x, 6, 1), 28),
        "EI_MIDDLE": (lambda u: scaled_ei(48 / (5 + 3 * u)), 30),
        "EI_TAIL": (beyond(scaled_ei, 24), 30),
        "DILOGARITHM": (near(lambda x: mp.polylog(2, x) / x, 0.5, 1), 26),
        "FRESNEL_C": (near(lambda x: mp.fresnelc(x) / x, 2, 4), 18),
        "FRESNEL_S": (near(lambda x: mp.fresnels(x) / x**3, 2, 4), 18),
        "FRESNEL_F": (beyond(lambda x: fresnel_waves(x)[0], 2, 4), 30),
        "FRESNEL_G": (beyond(lambda x: fresnel_waves(x)[1], 2, 4), 30),
    }


HEADER = '''"""Coefficients of the special functions' polynomials in u from -1 to 1, lowest power first.

Written by scripts/special_coefficients.py, which says what each is.
"""

# fmt: off
'''

if __name__ == "__main__":
    text = HEADER
    for name, (function, count) in tables().items():
        values = [float(item) for item in interpolant(function, count)]
        lines = [", ".join(repr(item) for item in values[i : i + 5]) for i in range(0, count, 5)]
        text += f"{name} = (\n" + "".join(f"    {line},\n" for line in lines) + ")\n"
    (Path(__file__).parent.parent / "onnxport/opset_maps/lowerings/coefficients.py").write_text(text)
