"""The elementwise operators of the frameworks, recognised by what they do, and those that take further arguments."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np

Function = Callable[..., Any]
# Operands of the trial: an elementwise operator of them gives the same for a part and for another order.
TRIAL = np.array([0.3, 0.6, 0.1, 0.9, 0.45, 0.7], np.float32)
OTHER = np.array([0.5, 0.2, 0.8, 0.4, 0.15, 0.65], np.float32)
ORDER = np.array([3, 0, 5, 1, 4, 2])
# What does not compute, draws at random, or asks for what the trial does not give.
LEFT_OUT = frozenset(
    (
        "alias_copy alpha_dropout approx_max_k approx_min_k as_tensor asanyarray asarray bernoulli binomial "
        "boolean_mask cartesian_prod cast clone constant convert_to_numpy convert_to_tensor custom_gradient dequantize "
        "detach detach_copy dropout dropout1d dropout2d dropout3d empty_like ensure_shape "
        "experimental_stateless_shuffle feature_alpha_dropout feature_dropout from_dlpack from_numpy full_like "
        "get_static_value grad_pass_through guarantee_const gumbel_softmax identity is_symbolic_tensor is_tensor isin "
        "map_fn masked_select no_op norm_except_dim normal ones_like poisson print rand_like randint_like randn_like "
        "random_seed_generator recompute_grad result_type rrelu saturate_cast scalar_tensor shuffle slice_inverse "
        "slice_scatter stop_gradient tensor unique_consecutive vectorized_map zeros_like "
    ).split()
)


def walk(
    rooms: Mapping[str, ModuleType], to: Callable[[np.ndarray], Any], back: Callable[[Any], Any]
) -> Iterator[tuple[str, int, Function]]:
    """Name, number of operands and function of each elementwise operator in `rooms`; `to` and `back` are NumPy's ways."""
    seen: set[int] = set()
    for room, module in rooms.items():
        for name in sorted(dir(module)):
            function = getattr(module, name, None)
            short = name.rpartition(".")[2]
            if name.startswith(("_", "set_")) or name.endswith("_") or short in LEFT_OUT or inspect.isclass(function):
                continue  # set_printoptions and its kin would take the rows for settings of the process
            if not callable(function) or inspect.ismodule(function) or id(function) in seen:
                continue
            for count in (1, 2):
                if _is_elementwise(function, count, to, back):
                    seen.add(id(function))
                    yield f"{room}.{name}", count, function
                    break


def _is_elementwise(
    function: Function, count: int, to: Callable[[np.ndarray], Any], back: Callable[[Any], Any]
) -> bool:
    for dtype in (np.float32, np.int32, np.bool_):
        given = (
            item > 0.5 if dtype == np.bool_ else item * (40 if dtype == np.int32 else 1) for item in (TRIAL, OTHER)
        )
        rows = [item.astype(dtype) for item in given][:count]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                whole, turned, part, again = (
                    np.asarray(back(function(*(to(np.ascontiguousarray(change(item))) for item in rows))))
                    for change in (lambda x: x, lambda x: x[ORDER], lambda x: x[:4], lambda x: x)
                )
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            continue
        if whole.shape != TRIAL.shape or whole.dtype.kind not in "fiub" or part.shape != (4,):
            continue
        same = (
            np.array_equal(whole, again)
            and np.allclose(whole[ORDER], turned, rtol=1e-6)
            and np.allclose(whole[:4], part, rtol=1e-6)
        )
        if same:
            return True
    return False


def of_torch() -> dict[str, tuple[int, Function]]:
    """PyTorch's, and calls with further arguments."""
    import torch
    import torch.nn.functional as F

    rooms = {"torch": torch, "torch.special": torch.special, "F": F}
    every = {name: (count, item) for name, count, item in walk(rooms, torch.from_numpy, lambda x: x.numpy())}
    ones: dict[str, Function] = {
        "F.gelu(tanh)": lambda x: F.gelu(x, approximate="tanh"),
        "F.elu(0.5)": lambda x: F.elu(x, 0.5),
        "F.celu(0.7)": lambda x: F.celu(x, 0.7),
        "F.hardtanh(-2, 3)": lambda x: F.hardtanh(x, -2.0, 3.0),
        "F.threshold": lambda x: F.threshold(x, 0.5, -7.0),
        "F.leaky_relu(0.2)": lambda x: F.leaky_relu(x, 0.2),
        "F.softplus(2, 1)": lambda x: F.softplus(x, 2.0, 1.0),
        "F.softplus(0.5)": lambda x: F.softplus(x, 0.5),
        "F.hardshrink(1)": lambda x: F.hardshrink(x, 1.0),
        "F.softshrink(1)": lambda x: F.softshrink(x, 1.0),
        "torch.clamp(-1, 1)": lambda x: torch.clamp(x, -1, 1),
        "torch.clamp(min=2)": lambda x: torch.clamp(x, min=2),
        "torch.clamp(max=2)": lambda x: torch.clamp(x, max=2),
        "torch.logit(0.1)": lambda x: torch.logit(x, 0.1),
        "torch.nan_to_num(1, 2, 3)": lambda x: torch.nan_to_num(x, 1, 2, 3),
        "torch.round(decimals=2)": lambda x: torch.round(x, decimals=2),
        "torch.round(decimals=-2)": lambda x: torch.round(x, decimals=-2),
        "torch.polygamma(1)": lambda x: torch.polygamma(1, x),
        "torch.polygamma(2)": lambda x: torch.polygamma(2, x),
        "torch.mvlgamma(2)": lambda x: torch.mvlgamma(x, 2),
        "x.bool()": lambda x: x.bool(),
        "x.double()": lambda x: x.double(),
        "x.float()": lambda x: x.float(),
        "x.half()": lambda x: x.half(),
        "x.bfloat16()": lambda x: x.bfloat16(),
        "x % 3": lambda x: x % 3,
        "x // 3": lambda x: x // 3,
        "x % -0.7": lambda x: x % -0.7,
        "x // 0.1": lambda x: x // 0.1,
        "x / 3": lambda x: x / 3,
        "x * 3": lambda x: x * 3,
        "x + 1": lambda x: x + 1,
        "1 / x": lambda x: 1 / x,
        "x == 1": lambda x: x == 1,
        "x > 0.5": lambda x: x > 0.5,
        "torch.heaviside(x, 1)": lambda x: torch.heaviside(x, torch.ones_like(x)),
        "torch.where(x > 0)": lambda x: torch.where(x > 0, x, -x),
        "torch.lerp(0.3)": lambda x: torch.lerp(x, torch.ones_like(x), 0.3),
    }
    for exponent in (0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1 / 3, 2.5):
        ones[f"x ** {exponent:.3g}"] = lambda x, e=exponent: x**e
        if exponent in (2, 0.5, -1):
            ones[f"{exponent:.3g} ** x"] = lambda x, e=exponent: e**x
    twos: dict[str, Function] = {
        "torch.div(trunc)": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        "torch.div(floor)": lambda x, y: torch.div(x, y, rounding_mode="floor"),
        "torch.add(alpha)": lambda x, y: torch.add(x, y, alpha=2),
        "torch.sub(alpha)": lambda x, y: torch.sub(x, y, alpha=2),
        "torch.lerp(0.7)": lambda x, y: torch.lerp(x, y, 0.7),
        "torch.addcmul": lambda x, y: torch.addcmul(x, x, y, value=2),
        "torch.addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=2),
        "F.smooth_l1_loss": lambda x, y: F.smooth_l1_loss(x, y, reduction="none"),
        "F.huber_loss": lambda x, y: F.huber_loss(x, y, reduction="none", delta=0.5),
        "F.mse_loss": lambda x, y: F.mse_loss(x, y, reduction="none"),
        "F.l1_loss": lambda x, y: F.l1_loss(x, y, reduction="none"),
        "F.soft_margin_loss": lambda x, y: F.soft_margin_loss(x, y, reduction="none"),
        "F.poisson_nll_loss": lambda x, y: F.poisson_nll_loss(x, y, reduction="none"),
        "F.binary_cross_entropy_with_logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
        "F.kl_div": lambda x, y: F.kl_div(x, y, reduction="none"),
        "torch.where(x > y)": lambda x, y: torch.where(x > y, x, y),
        "torch.clamp(max=y)": lambda x, y: torch.clamp(x, max=y),
        "torch.clamp(min=y)": lambda x, y: torch.clamp(x, min=y),
    }
    return every | _counted(1, ones) | _counted(2, twos)


def of_tensorflow() -> dict[str, tuple[int, Function]]:
    """TensorFlow's, and calls with further arguments."""
    import tensorflow as tf

    rooms = {"tf.math": tf.math, "tf.nn": tf.nn, "tf.math.special": tf.math.special, "tf.bitwise": tf.bitwise, "tf": tf}
    every = {name: (count, item) for name, count, item in walk(rooms, tf.constant, lambda x: x.numpy())}
    ones: dict[str, Function] = {
        "tf.nn.gelu(tanh)": lambda x: tf.nn.gelu(x, approximate=True),
        "tf.nn.leaky_relu(0.3)": lambda x: tf.nn.leaky_relu(x, 0.3),
        "tf.nn.silu(2)": lambda x: tf.nn.silu(x, 2.0),
        "tf.clip_by_value": lambda x: tf.clip_by_value(x, tf.cast(-1, x.dtype), tf.cast(1, x.dtype)),
        "x ** 2": lambda x: x**2,
        "x ** 3": lambda x: x**3,
        "x ** 0.5": lambda x: x**0.5,
        "x / 3": lambda x: x / 3,
        "x // 3": lambda x: x // 3,
        "x % 3": lambda x: x % 3,
        "1 / x": lambda x: 1 / x,
        "tf.where(x > 0)": lambda x: tf.where(x > 0, x, -x),
    }
    for kind in ("bool", "float16", "bfloat16", "float32", "float64"):
        ones[f"tf.cast({kind})"] = lambda x, kind=kind: tf.cast(x, kind)
    twos: dict[str, Function] = {
        name: getattr(tf.raw_ops, name)
        for name in ("TruncateDiv", "TruncateMod", "RealDiv", "Div", "FloorDiv", "FloorMod", "Igamma", "Igammac")
    }
    named = {name: lambda x, y, of=item: of(x=x, y=y) for name, item in twos.items() if not name.startswith("Igam")}
    return every | _counted(1, ones) | _counted(2, {f"tf.raw_ops.{name}": item for name, item in named.items()})


def of_keras() -> dict[str, tuple[int, Function]]:
    """The functions of `keras.ops`, and calls with further arguments."""
    import keras

    every = {
        name: (count, item)
        for name, count, item in walk({"keras.ops": keras.ops}, keras.ops.convert_to_tensor, keras.ops.convert_to_numpy)
    }
    ops = keras.ops
    ones: dict[str, Function] = {
        "keras.ops.gelu(exact)": lambda x: ops.gelu(x, approximate=False),
        "keras.ops.elu(0.5)": lambda x: ops.elu(x, 0.5),
        "keras.ops.celu(0.7)": lambda x: ops.celu(x, 0.7),
        "keras.ops.leaky_relu(0.1)": lambda x: ops.leaky_relu(x, 0.1),
        "keras.ops.clip": lambda x: ops.clip(x, -1, 1),
        "keras.ops.nan_to_num(1, 2, 3)": lambda x: ops.nan_to_num(x, 1, 2, 3),
        "keras.ops.round(2)": lambda x: ops.round(x, 2),
        "keras.ops.threshold": lambda x: ops.threshold(x, 0.5, -7.0),
    }
    return every | _counted(1, ones)


def _counted(count: int, functions: Mapping[str, Function]) -> dict[str, tuple[int, Function]]:
    return {name: (count, item) for name, item in functions.items()}


OF: dict[str, Callable[[], dict[str, tuple[int, Function]]]] = {
    "torch": of_torch,
    "tensorflow": of_tensorflow,
    "keras": of_keras,
}
