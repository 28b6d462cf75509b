"""Functions of JAX as the primitives that they are traced to: what types they compute in, and runs that round otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

# What stands beside 1 in a sum of a runtime: 1 / (1 + exp(-x)), log(1 + x), exp(x) - 1.
_BESIDE_ONE = frozenset(("logistic", "log1p", "expm1"))
# Primitives that call another program once, under the parameter that holds it.
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "remat2": "jaxpr",
}


class JaxProgram:
    """A function of two lists of arrays, weights and inputs, traced on an example of them."""

    def __init__(
        self, call: Callable[[Sequence[Any], Sequence[Any]], Any], weights: Sequence[Any], inputs: Sequence[Any]
    ) -> None:
        self._program, shapes = jax.make_jaxpr(call, return_shape=True)(list(weights), list(inputs))
        self._structure = jax.tree.structure(shapes)
        self._moving = jax.jit(lambda key, flat: _run(self._program.jaxpr, self._program.consts, flat, _Signs(key)))

    @property
    def coarse(self) -> float | None:
        """Epsilon of the coarsest type that it computes in: a 16-bit one, or a narrower one that numbers are cast to."""
        found = [0.0]
        for equation in _equations(self._program.jaxpr):
            taken = [_epsilon(item.aval.dtype) for item in equation.invars if hasattr(item.aval, "dtype")]
            given = [_epsilon(item.aval.dtype) for item in equation.outvars if hasattr(item.aval, "dtype")]
            cast = equation.primitive.name == "convert_element_type" and 0.0 < taken[0] < given[0]
            found += [eps for eps in given if eps > 1e-4 or cast]
        return max(found) or None

    def moved(self, weights: Sequence[Any], inputs: Sequence[Any], seed: int) -> Any:
        """What the function gives where results beside 1 are off by a unit of 1, up or down at random."""
        return jax.tree.unflatten(self._structure, self._moving(jax.random.key(seed), [*weights, *inputs]))


class _Signs:
    """Draws of 1 and -1, each another one."""

    def __init__(self, key: Any) -> None:
        self._key, self._count = key, 0

    def like(self, x: Any) -> Any:
        """A sign for each element."""
        self._count += 1
        return jax.random.rademacher(jax.random.fold_in(self._key, self._count), x.shape, x.dtype)


def _epsilon(dtype: Any) -> float:
    return float(jnp.finfo(dtype).eps) if jnp.issubdtype(dtype, jnp.floating) else 0.0


def _equations(program: Any) -> Iterator[Any]:
    for equation in program.eqns:
        yield equation
        for value in equation.params.values():
            inner = value if isinstance(value, (list, tuple)) else [value]
            for item in inner:
                if hasattr(item, "eqns") or hasattr(item, "jaxpr"):
                    yield from _equations(getattr(item, "jaxpr", item))


def _run(program: Any, constants: Sequence[Any], arguments: Sequence[Any], signs: _Signs) -> list[Any]:
    """The results of a program, one primitive after the other."""
    values: dict[Any, Any] = dict(zip(program.constvars, constants, strict=True))
    values.update(zip(program.invars, arguments, strict=True))

    def value_of(item: Any) -> Any:
        return item.val if isinstance(item, core.Literal) else values[item]

    for equation in program.eqns:
        inputs, name = [value_of(item) for item in equation.invars], equation.primitive.name
        if name in _CALLS:
            inner = equation.params[_CALLS[name]]
            results = _run(inner.jaxpr, inner.consts, inputs, signs)
        else:
            bound = equation.primitive.get_bind_params(equation.params)
            functions, known = (
                bound if isinstance(bound, tuple) else ((), bound)
            )  # JAX before 0.10 gives functions apart
            options = dict(known)
            if name == "scan":
                options["jaxpr"] = _moving(options["jaxpr"], signs)
            results = equation.primitive.bind(*functions, *inputs, **options)
            results = list(results) if equation.primitive.multiple_results else [results]
        if name in _BESIDE_ONE:
            results = [_moved(item, signs) for item in results]
        values.update(zip(equation.outvars, results, strict=True))
    return [value_of(item) for item in program.outvars]


def _moving(body: Any, signs: _Signs) -> Any:
    """The body of a loop with the moves inside."""
    shapes = [jax.ShapeDtypeStruct(item.aval.shape, item.aval.dtype) for item in body.jaxpr.invars]
    return jax.make_jaxpr(lambda *values: _run(body.jaxpr, body.consts, values, _Signs(jax.random.key(0))))(*shapes)


def _moved(x: Any, signs: _Signs) -> Any:
    """Numbers off by a unit of 1; no probability below 0, whose root or logarithm is NaN, and no whole number."""
    unit = _epsilon(x.dtype)
    move = unit * signs.like(x)
    exact = (x == jnp.floor(x)) & (jnp.abs(x) < 1 / unit)
    turned = jnp.sign(x + move) != jnp.sign(x)
    return jnp.where(exact, x, jnp.where(turned, x - move, x + move))
