"""Random numbers, drawn when the graph runs: of the same distribution as PyTorch's, never the same numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import torch

from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, i64
from onnxport.opset_maps.lowerings import random
from onnxport.opset_maps.lowerings.complex_numbers import is_complex, part_type
from onnxport.opset_maps.lowerings.dtypes import Operand, Size, to_dtype
from onnxport.opset_maps.maps import aten
from onnxport.opset_maps.to_onnx.pytorch.complex import complex_case
from onnxport.opset_maps.to_onnx.pytorch.creation import Extent, extent

_FLOAT = ir.DataType.FLOAT
_SHAPE = np.zeros((2, 3), np.float32)


def _positive(op: OpBuilder, x: ir.Value) -> ir.Value:
    """Uniform numbers of the shape of `x`, never 0."""
    return random.uniform(op, op.shape(x), _FLOAT, low=random.LEAST)


@aten.lower(
    "aten::rand aten::rand_like aten::randn aten::randn_like",
    cases=[
        case(lambda x: torch.rand(2, 3).shape[0] + x, f32(1)),
        case(lambda x: torch.rand_like(x) * 0 + x, f32(2, 3), dynamic=True),
        case(lambda x: torch.randn(2, 3) * 0 + x, f32(3)),
        case(lambda x: torch.randn_like(x) * 0 + x, f32(2, 3), dynamic=True),
    ],
)
def rand(op: OpBuilder, size: Extent, **_: object) -> ir.Value:
    """RandomUniform, or RandomNormal."""
    draw = random.normal if op.name.startswith("aten::randn") else random.uniform
    return draw(op, extent(op, size), op.result.dtype)


@aten.lower(
    "aten::rand aten::rand_like aten::randn aten::randn_like aten::uniform",
    "aten::normal.default aten::normal_functional",
    accepts_complex=True,
    cases=[
        case(lambda x: torch.view_as_real(torch.randn(2, 3, dtype=torch.complex64)) * 0 + x, f32(2)),
        complex_case(lambda z: torch.rand_like(z) * 0 + z, (2, 3), dynamic=True),
        complex_case(lambda z: torch.randn_like(z, dtype=torch.float32) * 0 + z.real, (2, 3), dynamic=True),
        complex_case(lambda z: z.clone().normal_(2.0, 1.0) * 0 + z, (2, 3)),
    ],
)
def complex_random(op: OpBuilder, size: Extent, *numbers: float, **_: object) -> ir.Value:
    """Both parts drawn; normal numbers have half of the variance in each."""
    dtype = part_type(op.result.dtype)
    if op.result.dtype == dtype and isinstance(size, ir.Value):  # real numbers in the shape of complex ones
        draw = random.normal if op.name.startswith("aten::randn") else random.uniform
        return draw(op, op.Slice(op.Shape(size), [0], [-1], [0]), dtype)
    shape = op.shape(size) if isinstance(size, ir.Value) else op.shape_vector([*size, 2])
    if isinstance(size, ir.Value) and not is_complex(size):
        shape = op.Concat(shape, op.const([2]), axis=0)
    base = op.name.removeprefix("aten::").partition(".")[0]
    first, second = (float(item) for item in (*numbers, *(0.0, 1.0)[len(numbers) :]))
    if base in ("rand", "rand_like", "uniform"):
        return random.uniform(op, shape, dtype, low=first, high=second)
    return op.Add(op.Mul(random.normal(op, shape, dtype), second * math.sqrt(0.5)), first)


def _integers(op: OpBuilder, size: ir.Value, low: Operand, high: Operand) -> ir.Value:
    start, stop = to_dtype(op, low, ir.DataType.DOUBLE), to_dtype(op, high, ir.DataType.DOUBLE)
    return op.cast(random.integers(op, size, start, stop), op.result.dtype)


@aten.lower("aten::randint", cases=[case(lambda x: torch.randint(5, (2, 3)) * 0 + x, i64(3))])
def randint(op: OpBuilder, high: Operand, size: Sequence[Size], **_: object) -> ir.Value:
    """Uniform numbers, rounded down."""
    return _integers(op, op.shape_vector(size), 0, high)


@aten.lower(
    "aten::randint.low aten::randint.low_generator",
    cases=[
        case(lambda x: torch.randint(2, 5, (2, 3)) * 0 + x, i64(3)),
        case(lambda x: torch.ops.aten.randint.low_generator(2, 5, [2, 3], generator=None) * 0 + x, i64(3)),
    ],
)
def randint_low(op: OpBuilder, low: Operand, high: Operand, size: Sequence[Size], **_: object) -> ir.Value:
    """Uniform numbers, rounded down."""
    return _integers(op, op.shape_vector(size), low, high)


@aten.lower(
    "aten::randint_like",
    cases=[
        case(lambda x: torch.randint_like(x, 5) * 0 + x, f32(2, 3), dynamic=True),
        case(lambda x: torch.randint_like(x, 2, 5) * 0 + x, f32(2, 3)),
    ],
)
def randint_like(op: OpBuilder, x: ir.Value, *bounds: Operand, **_: object) -> ir.Value:
    """Uniform numbers of a tensor's shape below one bound, or between two, rounded down."""
    low, high = bounds if len(bounds) == 2 else (0, *bounds)
    return _integers(op, op.shape(x), low, high)


@aten.lower("aten::randperm", cases=[case(lambda x: torch.randperm(5).sort()[0] + x, i64(5))])
def randperm(op: OpBuilder, n: Size, **_: object) -> ir.Value:
    """The order of uniform numbers."""
    return op.cast(random.permutation(op, op.shape_vector([n])), op.result.dtype)


@aten.lower(
    "aten::normal.Tensor_float aten::normal.float_Tensor aten::normal.Tensor_Tensor",
    cases=[case(lambda m, s: torch.normal(m, s), np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32))],
)
def normal(op: OpBuilder, mean: Operand, std: Operand = 1.0, **_: object) -> ir.Value:
    """RandomNormal, scaled and shifted."""
    dtype = op.result.dtype
    centre, spread = to_dtype(op, mean, dtype), to_dtype(op, std, dtype)
    noise = random.normal(op, op.Shape(op.Add(centre, spread)), dtype)
    return op.Add(op.Mul(noise, spread), centre)


@aten.lower("aten::normal.float_float", cases=[case(lambda x: torch.normal(1.0, 1e-9, (2, 3)) * 0 + x, f32(3))])
def normal_numbers(op: OpBuilder, mean: float, std: float, size: Sequence[Size], **_: object) -> ir.Value:
    """RandomNormal, scaled and shifted."""
    return op.Add(op.Mul(random.normal(op, op.shape_vector(size), op.result.dtype), float(std)), float(mean))


@aten.lower(
    "aten::normal_functional",
    "aten::normal.default",
    cases=[case(lambda x: x.clone().normal_(2.0, 1.0) * 0 + x, f32(2, 3))],
)
def normal_functional(op: OpBuilder, x: ir.Value, mean: float = 0.0, std: float = 1.0, **_: object) -> ir.Value:
    """RandomNormal of a tensor's shape."""
    return op.Add(op.Mul(random.normal(op, op.shape(x), op.result.dtype), float(std)), float(mean))


@aten.lower(
    "aten::bernoulli",
    cases=[
        case(torch.bernoulli, _SHAPE),
        case(lambda x: torch.bernoulli(x, 1.0), f32(2, 3)),
        case(torch.ops.aten.bernoulli.Tensor, f32(2, 3), _SHAPE),
    ],
)
def bernoulli(op: OpBuilder, x: ir.Value, p: Operand | None = None, **_: object) -> ir.Value:
    """Uniform numbers below the probability."""
    chance = op.cast(x, _FLOAT) if p is None else to_dtype(op, p, _FLOAT)
    return op.cast(op.Less(random.uniform(op, op.shape(x)), chance), op.result.dtype)


@aten.lower("aten::uniform", cases=[case(lambda x: x.clone().uniform_(2, 3).floor() + x * 0, f32(2, 3))])
def uniform(op: OpBuilder, x: ir.Value, from_: float = 0.0, to: float = 1.0, **_: object) -> ir.Value:
    """RandomUniform of a tensor's shape."""
    return random.uniform(op, op.shape(x), op.result.dtype, low=float(from_), high=float(to))


@aten.lower("aten::exponential", cases=[case(lambda x: x.clone().exponential_().sign() + x * 0, f32(2, 3))])
def exponential(op: OpBuilder, x: ir.Value, lambd: float = 1.0, **_: object) -> ir.Value:
    """-log(u) / lambda of uniform u."""
    return op.cast(op.Div(op.Neg(op.Log(_positive(op, x))), float(lambd)), op.result.dtype)


@aten.lower("aten::cauchy", cases=[case(lambda x: x.clone().cauchy_(1.0) * 0 + x, f32(2, 3))])
def cauchy(op: OpBuilder, x: ir.Value, median: float = 0.0, sigma: float = 1.0, **_: object) -> ir.Value:
    """median + sigma tan(pi (u - 1/2)) of uniform u."""
    angle = op.Mul(op.Sub(_positive(op, x), 0.5), math.pi)
    return op.cast(op.Add(op.Mul(op.Tan(angle), float(sigma)), float(median)), op.result.dtype)


@aten.lower("aten::geometric", cases=[case(lambda x: x.clone().geometric_(0.5).sign() + x * 0, f32(2, 3))])
def geometric(op: OpBuilder, x: ir.Value, p: float, **_: object) -> ir.Value:
    """ceil(log(u) / log(1 - p)) of uniform u."""
    return op.cast(op.Ceil(op.Div(op.Log(_positive(op, x)), math.log1p(-p))), op.result.dtype)


@aten.lower("aten::log_normal", cases=[case(lambda x: x.clone().log_normal_().sign() + x * 0, f32(2, 3))])
def log_normal(op: OpBuilder, x: ir.Value, mean: float = 1.0, std: float = 2.0, **_: object) -> ir.Value:
    """exp of normal numbers."""
    return op.cast(op.Exp(op.Add(op.Mul(random.normal(op, op.shape(x)), float(std)), float(mean))), op.result.dtype)


@aten.lower(
    "aten::multinomial",
    cases=[
        case(lambda x: torch.multinomial(x, 1), np.eye(4, dtype=np.float32)[:3]),
        case(lambda x: torch.multinomial(x, 2).sort()[0], np.array([0, 1, 0, 2], np.float32)),
        case(lambda x: torch.multinomial(x, 5, True), np.eye(4, dtype=np.float32)[:3]),
    ],
)
def multinomial(op: OpBuilder, x: ir.Value, num_samples: Size, replacement: bool = False, **_: object) -> ir.Value:
    """The places of the largest of log(p) plus Gumbel noise; with replacement that of one, again and again."""
    weights = op.cast(x, _FLOAT)
    possible = op.Greater(weights, 0.0)
    scores = op.Where(possible, op.Log(op.Where(possible, weights, op.const(1.0, _FLOAT))), op.const(-math.inf, _FLOAT))
    count = op.shape_vector([num_samples])
    if replacement:
        return random.categorical(op, scores, count)
    return op.TopK(op.Add(scores, random.gumbel(op, op.shape(scores))), count, axis=-1)[1]
