"""Modules that round their activations to steps (PyTorch's dynamically quantised ones, whose weights are packed); transforms.

Where an activation lies within its rounding of the middle between two steps, it comes to one or the other, and what is computed
from it to numbers that lie a step apart. Moves of the weights' last place show where.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from onnxport.validation import tolerance

_PACKAGES = ("torch.ao.nn.quantized.dynamic", "torch.ao.nn.intrinsic.quantized.dynamic")
# Kernels compute sigmoid and tanh to a few units of 1, however small what they get is.
_UNITS = 4
# Operators that compute a whole cell or layer of gates.
GATED = frozenset(
    "quantized_gru quantized_gru_cell_dynamic quantized_lstm quantized_lstm_cell_dynamic quantized_rnn_tanh_cell_dynamic".split()
)
# Fourier transforms, whose rounding is that of all of their results (Higham, section 24.1).
TRANSFORMS = frozenset("_fft_r2c _fft_c2r _fft_c2c".split())


def gates_moved(result: Any, draw: torch.Generator) -> Any:
    """What such an operator gives, off by some units of 1, up or down at random; what is 0 stays."""
    if isinstance(result, (tuple, list)):
        return type(result)(gates_moved(item, draw) for item in result)
    signs = 2.0 * torch.rand(result.shape, generator=draw, dtype=result.dtype) - 1.0
    moved = result + signs * _UNITS * torch.finfo(result.dtype).eps
    return torch.where(result == 0, result, moved)


def transform_moved(result: torch.Tensor, dims: Sequence[int], draw: torch.Generator) -> torch.Tensor:
    """What a Fourier transform gives, off by a unit in the last place of its root mean square, up or down at random."""
    size = torch.sqrt(torch.mean(torch.abs(result) ** 2, list(dims), keepdim=True))
    parts = torch.view_as_real(result) if result.is_complex() else result
    signs = 2.0 * torch.randint(0, 2, parts.shape, generator=draw).to(parts.dtype) - 1.0
    signs = torch.view_as_complex(signs) if result.is_complex() else signs
    return result + signs * size * torch.finfo(parts.dtype).eps


def rounds_to_steps(root: torch.nn.Module) -> bool:
    """Whether a module within `root` is dynamically quantised."""
    return any(_is_dynamic(module) for module in root.modules())


def _is_dynamic(module: torch.nn.Module) -> bool:
    return type(module).__module__.startswith(_PACKAGES) and hasattr(module, "set_weight_bias")


def move_packed(root: torch.nn.Module, units: int, rng: np.random.Generator) -> None:
    """Moves scales and biases of the dynamically quantised modules within `root` by some units in the last place."""
    for module in root.modules():
        kind: Any = module
        if not _is_dynamic(module):
            continue
        if hasattr(module, "get_weight"):
            weights = {name: _scaled(value, units, rng) for name, value in kind.get_weight().items()}
            biases = {name: _moved(value, units, rng) for name, value in kind.get_bias().items()}
            recurrent = hasattr(module, "num_layers")
            kind.set_weight_bias({**weights, **biases} if recurrent else {"weight": weights, "bias": biases})
        else:
            kind.set_weight_bias(_scaled(kind.weight(), units, rng), _moved(kind.bias(), units, rng))


def _scaled(weight: torch.Tensor, units: int, rng: np.random.Generator) -> torch.Tensor:
    """A weight whose scale has moved; one in float16, and one with a scale a channel, stays as it is."""
    if not weight.is_quantized or weight.qscheme() != torch.per_tensor_affine:
        return weight
    scale = tolerance.nudge(np.asarray(weight.q_scale(), np.float32), units, rng)
    return torch._make_per_tensor_quantized_tensor(weight.int_repr(), float(scale), weight.q_zero_point())


def _moved(bias: torch.Tensor | None, units: int, rng: np.random.Generator) -> torch.Tensor | None:
    if bias is None:
        return None
    signs = torch.from_numpy(rng.choice(np.asarray([-1.0, 1.0], np.float32), tuple(bias.shape)))
    return bias.detach() + signs * units * _UNITS * torch.finfo(bias.dtype).eps * bias.detach().abs().clamp(min=1.0)
