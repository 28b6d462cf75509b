"""Dynamically quantised modules while tracing: torch.export can't read the packed weights that they hold.

Modules of `torch.ao.nn.quantized.dynamic` are replaced by others that hold the same weights as buffers, under the names that the
float module has, and call operators of our own. Those compute by PyTorch's kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.nn.intrinsic.quantized.dynamic import LinearReLU
from torch.ao.nn.quantized import Embedding, dynamic

from onnxport.tracing.pytorch_recurrent import gru_step, lstm_step
from onnxport.tracing.pytorch_shells import shell_of

REDUCED, FULL = 127, 255  # steps that an activation is rounded to: 7 bits where PyTorch reduces the range
_LINEAR = "(Tensor x, Tensor weight, Tensor scale, Tensor? zero, Tensor? bias, int steps) -> Tensor"
_RECURRENT = (
    "(Tensor x, Tensor[] states, Tensor[] params, int num_layers, bool bidirectional, bool batch_first, int steps) -> "
    "Tensor[]"
)


def readable(model: nn.Module) -> nn.Module:
    """`model`, or a shell of it in which stand-ins are for the dynamically quantised modules."""
    paired = ((item, _stand_in(item)) for item in model.modules() if is_dynamic(item))
    stand_ins = {id(item): other for item, other in paired if other is not None}
    if id(model) in stand_ins:
        return stand_ins[id(model)]
    return (shell_of(model, stand_ins) or model) if stand_ins else model


def is_dynamic(module: nn.Module) -> bool:
    """Whether the module is a dynamically quantised one."""
    named = type(module).__module__.startswith("torch.ao.nn.quantized.dynamic")
    return named or isinstance(module, (LinearReLU, Embedding))


def is_readable(module: nn.Module) -> bool:
    """Whether a stand-in can be had for a dynamically quantised module."""
    return is_dynamic(module) and _stand_in(module) is not None


def _stand_in(module: nn.Module) -> nn.Module | None:
    """A module to trace in the place of a quantised one; None where its weights are in no form that is known."""
    make = _STAND_INS.get(type(module))
    other = make(module) if make is not None else None
    return other.train(module.training) if other is not None else None


def _steps(reduce_range: bool) -> int:
    """How many steps the engine rounds an activation to; QNNPACK does not reduce the range."""
    return REDUCED if reduce_range and torch.backends.quantized.engine != "qnnpack" else FULL


class _Product(nn.Module):
    """``x W' + b`` of a weight in 8 bits, and of x rounded to `steps` steps between its least and greatest element.

    Attributes:
        weight: [outputs, inputs], int8.
        weight_scale: [] or [outputs].
        weight_zero_point: like the scale, int8; None for zeros.
        bias: [outputs]; None for zeros.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, steps: int) -> None:
        super().__init__()
        channels = weight.qscheme() not in (torch.per_tensor_affine, torch.per_tensor_symmetric)
        scale = weight.q_per_channel_scales().float() if channels else torch.tensor(weight.q_scale())
        zero = weight.q_per_channel_zero_points() if channels else torch.tensor(weight.q_zero_point())
        self.register_buffer("weight", weight.int_repr())
        self.register_buffer("weight_scale", scale)
        self.register_buffer("weight_zero_point", zero.to(torch.int8) if zero.any() else None)
        self.register_buffer("bias", None if bias is None else bias.detach())
        self.steps = steps

    def forward(self, x: Tensor) -> Tensor:
        """The product, as float32."""
        result: Tensor = _linear_operator()(
            x, self.weight, self.weight_scale, self.weight_zero_point, self.bias, self.steps
        )
        return result


class _Linear(_Product):
    """A quantised Linear, with the Relu behind it if that belongs to it."""

    def __init__(self, weight: Tensor, bias: Tensor | None, steps: int, relu: bool) -> None:
        super().__init__(weight, bias, steps)
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        """The layer's result in the type of `x`."""
        result = super().forward(x)
        return (result.relu() if self.relu else result).to(x.dtype)


class _HalfLinear(nn.Module):
    """A Linear that holds its weight in float16 and computes in float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None, relu: bool) -> None:
        super().__init__()
        self.register_buffer("weight", weight.half())
        self.register_buffer("bias", None if bias is None else bias.detach())
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        """The layer's result in the type of `x`."""
        result = F.linear(x, self.weight.float(), self.bias)
        return (result.relu() if self.relu else result).to(x.dtype)


class _Embedding(nn.Module):
    """A table of rows in 8 bits, each with a scale and a zero point, which is no whole number."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        scale = table.q_per_channel_scales().float()
        self.register_buffer("weight", table.int_repr())
        self.register_buffer("weight_scale", scale[:, None])
        self.register_buffer("weight_offset", (-table.q_per_channel_zero_points().float() * scale)[:, None])

    def forward(self, indices: Tensor) -> Tensor:
        """The rows as float32; PyTorch multiplies and adds in one step, whose one rounding float64 gives too."""
        parts = (F.embedding(indices, item).double() for item in (self.weight, self.weight_scale, self.weight_offset))
        rows, scale, offset = parts
        return (rows * scale + offset).float()


class _Recurrent(nn.Module):
    """A quantised LSTM or GRU; the input is rounded as a whole, the state at each step."""

    def __init__(self, kind: str, layer: Any, products: Sequence[_Product], steps: int) -> None:
        super().__init__()
        self.kind, self.steps = kind, steps
        self.layers, self.hidden = int(layer.num_layers), int(layer.hidden_size)
        self.bidirectional, self.batch_first = bool(layer.bidirectional), bool(layer.batch_first)
        directions = 2 if self.bidirectional else 1
        self.names = []
        for i, product in enumerate(products):
            part = "hh" if i % 2 else "ih"
            place = f"{part}_l{i // 2 // directions}{'_reverse' if i // 2 % directions else ''}"
            for name, value in (("weight", product.weight), ("scale", product.weight_scale), ("bias", product.bias)):
                self.register_buffer(f"{name}_{place}", value)
                self.names.append(f"{name}_{place}")

    def forward(self, x: Tensor, hx: Any = None) -> Any:
        """The steps and the last state, or states, of a padded sequence."""
        if not isinstance(x, Tensor):
            raise TypeError("a quantised recurrent layer of a packed sequence: pass the padded tensor")
        count = 2 if self.kind == "lstm" else 1
        if hx is None:
            directions = 2 if self.bidirectional else 1
            batch = x.size(0 if self.batch_first else 1)
            states = [x.new_zeros(self.layers * directions, batch, self.hidden)] * count
        else:
            states = list(hx) if count == 2 else [hx]
        params = [getattr(self, name) for name in self.names]
        output, *last = _recurrent_operator(self.kind)(
            x, states, params, self.layers, self.bidirectional, self.batch_first, self.steps
        )
        return output, tuple(last) if count == 2 else last[0]


class _Cell(nn.Module):
    """A quantised cell by its formula."""

    def __init__(self, of_input: nn.Module, of_state: nn.Module, hidden: int, kind: str) -> None:
        super().__init__()
        self.of_input, self.of_state = of_input, of_state
        self.hidden, self.kind = hidden, kind

    def forward(self, x: Tensor, hx: Any = None) -> Any:
        """The next state, or states."""
        if hx is None:
            zeros = x.new_zeros(x.size(0), self.hidden)
            hx = (zeros, zeros) if self.kind == "lstm" else zeros
        h = hx[0] if self.kind == "lstm" else hx
        gates = self.of_input(x), self.of_state(h)
        if self.kind == "lstm":
            return lstm_step(*gates, hx[1])
        if self.kind == "gru":
            return gru_step(*gates, h)
        total = gates[0] + gates[1]
        return total.tanh() if self.kind == "tanh" else total.relu()


def _linear_of(module: Any) -> nn.Module | None:
    relu = isinstance(module, LinearReLU)
    if module._packed_params.dtype == torch.float16:
        return _HalfLinear(module.weight(), module.bias(), relu)
    reduced = relu or (module.version is not None and module.version >= 4)
    return _Linear(module.weight(), module.bias(), _steps(reduced), relu)


def _embedding_of(module: Any) -> nn.Module | None:
    table = module.weight()
    return _Embedding(table) if table.dtype == torch.quint8 and table.q_per_channel_axis() == 0 else None


def _recurrent_of(module: Any) -> nn.Module | None:
    """The stand-in of a quantised layer; a layer of float16 weights is a float32 one that has been rounded."""
    kind = module.mode.lower()
    held = [item.param.__getstate__()[0] for item in module._all_weight_values]
    pairs = [packed.__getstate__()[0] for parts in held for packed in parts[4]]
    if module.dtype == torch.float16:
        layer: nn.RNNBase = getattr(nn, module.mode)(
            module.input_size, module.hidden_size, module.num_layers, True, module.batch_first, module.dropout,
            module.bidirectional,
        )  # fmt: skip
        for place, names in zip(range(0, len(pairs), 2), layer.all_weights, strict=True):
            (w_ih, b_ih), (w_hh, b_hh) = pairs[place : place + 2]
            for parameter, value in zip(names, (w_ih, w_hh, b_ih, b_hh), strict=True):
                parameter.data = value.detach().float()
        return layer
    if {parts[0] for parts in held} != {"quantized_dynamic"} or (module.training and module.dropout):
        return None
    products = [_Product(weight, bias, 0) for weight, bias in pairs]
    flags = {bool(parts[3][0]) for parts in held}
    if len(flags) != 1 or any(item.weight_zero_point is not None or item.bias is None for item in products):
        return None
    return _Recurrent(kind, module, products, _steps(flags.pop()))


def _cell_of(module: Any) -> nn.Module | None:
    kinds = {dynamic.LSTMCell: "lstm", dynamic.GRUCell: "gru"}
    kind = kinds.get(type(module)) or module.nonlinearity
    if module.weight_dtype != torch.qint8:
        return None
    parts = [packed.__getstate__()[0] for packed in (module._packed_weight_ih, module._packed_weight_hh)]
    of_input, of_state = (_Product(weight, bias, _steps(True)) for weight, bias in parts)
    return _Cell(of_input, of_state, module.hidden_size, kind)


_STAND_INS: Mapping[type, Callable[[Any], nn.Module | None]] = MappingProxyType(
    {
        dynamic.Linear: _linear_of,
        Embedding: _embedding_of,
        LinearReLU: _linear_of,
        **dict.fromkeys((dynamic.LSTM, dynamic.GRU), _recurrent_of),
        **dict.fromkeys((dynamic.LSTMCell, dynamic.GRUCell, dynamic.RNNCell), _cell_of),
    }
)


def packed(weight: Tensor, scale: Tensor, zero: Tensor | None, bias: Tensor | None) -> Any:
    """A weight and its bias as PyTorch's kernels take them."""
    zero = torch.zeros_like(scale, dtype=torch.int8) if zero is None else zero
    if scale.dim():
        quantised = torch._make_per_channel_quantized_tensor(weight, scale.double(), zero.long(), 0)
    else:
        quantised = torch._make_per_tensor_quantized_tensor(weight, float(scale), int(zero))
    return torch.ops.quantized.linear_prepack(quantised, bias)


@cache
def _linear_operator() -> Callable[..., Any]:
    """Defined at the first quantised layer: a definition takes torch some milliseconds."""

    def run(x: Tensor, weight: Tensor, scale: Tensor, zero: Tensor | None, bias: Tensor | None, steps: int) -> Tensor:
        result: Tensor = torch.ops.quantized.linear_dynamic(x, packed(weight, scale, zero, bias), steps == REDUCED)
        return result

    def shape(x: Tensor, weight: Tensor, *rest: object) -> Tensor:
        return x.new_empty((*x.shape[:-1], weight.shape[0]))

    operator = torch.library.custom_op("onnxport::linear_dynamic", run, mutates_args=(), schema=_LINEAR)
    operator.register_fake(shape)
    return operator


@cache
def _recurrent_operator(kind: str) -> Callable[..., Any]:
    def run(
        x: Tensor, states: list[Tensor], params: list[Tensor], layers: int, both: bool, batch_first: bool, steps: int
    ) -> list[Tensor]:
        cells = []
        for i in range(0, len(params), 6):
            w_ih, s_ih, b_ih, w_hh, s_hh, b_hh = params[i : i + 6]
            pair = packed(w_ih, s_ih, None, b_ih), packed(w_hh, s_hh, None, b_hh)
            make = torch.ops.quantized.make_quantized_cell_params_dynamic
            cells.append(make(*pair, b_ih, b_hh, steps == REDUCED))
        options = (cells, True, layers, 0.0, False, both, batch_first)
        if kind == "lstm":
            return list(torch.quantized_lstm(x, states, *options, dtype=torch.qint8, use_dynamic=True))
        return list(torch.quantized_gru(x, states[0], *options))

    def shapes(
        x: Tensor, states: list[Tensor], params: list[Tensor], layers: int, both: bool, *rest: object
    ) -> list[Tensor]:
        width = states[0].shape[-1] * (2 if both else 1)
        return [x.new_empty((*x.shape[:-1], width)), *(torch.empty_like(state) for state in states)]

    operator = torch.library.custom_op(f"onnxport::{kind}_dynamic", run, mutates_args=(), schema=_RECURRENT)
    operator.register_fake(shapes)
    return operator
