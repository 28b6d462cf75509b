"""RNN, GRU and LSTM: the projection of the inputs at once, then one loop over time a direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, Unpack

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.axes import int_op, part
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.primitives.control import Iteration
from onnxport.opset_maps.from_onnx.semantics.elementwise import elu, hard_sigmoid, leaky_relu, thresholded_relu
from onnxport.opset_maps.from_onnx.values import Int, Reals, Strings, Tensor, host_array, known, optional
from onnxport.opset_maps.maps import onnx

Activation = Callable[[Tensor], Tensor]


class RecurrentAttributes(TypedDict, total=False):
    """Attributes of RNN, GRU and LSTM; the last two belong to one operator each."""

    activation_alpha: Reals
    activation_beta: Reals
    activations: Strings
    clip: float | None
    direction: str
    hidden_size: int | None
    layout: int
    output_sequence: int
    linear_before_reset: int  # GRU
    input_forget: int  # LSTM


@dataclass(frozen=True)
class Direction:
    """What a cell computes with in one direction.

    Attributes:
        xp: the namespace.
        recurrent: transposed weight of the state, in as many pieces as the cell multiplies by.
        biases: those of the state that the cell adds itself.
        functions: the activations.
        peepholes: weights of an LSTM's peepholes on i, o, f.
        attributes: the node's attributes.
    """

    xp: Namespace
    recurrent: Sequence[Tensor]
    biases: Sequence[Tensor | None]
    functions: Sequence[Activation]
    peepholes: Sequence[Tensor | None]
    attributes: RecurrentAttributes

    def times(self, state: Tensor) -> Tensor:
        """The state times its weight, where that is one piece."""
        return self.xp.matmul(state, self.recurrent[0])

    def bounded(self, x: Tensor) -> Tensor:
        """What goes into an activation, between -clip and clip."""
        clip = self.attributes.get("clip")
        return self.xp.clip(x, -clip, clip) if clip else x


# A direction, the state before a step, the projected inputs of the step -> the state after it, whose first part is the output.
Cell = Callable[[Direction, Sequence[Tensor], Tensor], tuple[Tensor, ...]]

# The activations by name, with their parameters and the parameters' defaults (ONNX operator specification, RNN).
_ACTIVATIONS: dict[str, tuple[Callable[..., Tensor], dict[str, float]]] = {
    "relu": (lambda xp, x: xp.relu(x), {}),
    "tanh": (lambda xp, x: xp.tanh(x), {}),
    "sigmoid": (lambda xp, x: xp.sigmoid(x), {}),
    "softsign": (lambda xp, x: xp.divide(x, xp.add(xp.abs(x), 1.0)), {}),
    "softplus": (lambda xp, x: xp.softplus(x), {}),
    "affine": (lambda xp, x, alpha, beta: xp.add(xp.multiply(x, alpha), beta), {"alpha": 1.0, "beta": 0.0}),
    "leakyrelu": (leaky_relu, {"alpha": 0.01}),
    "thresholdedrelu": (thresholded_relu, {"alpha": 1.0}),
    "scaledtanh": (
        lambda xp, x, alpha, beta: xp.multiply(xp.tanh(xp.multiply(x, beta)), alpha),
        {"alpha": 1.0, "beta": 1.0},
    ),
    "hardsigmoid": (hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "elu": (elu, {"alpha": 1.0}),
}


def activations_of(
    xp: Namespace, attributes: RecurrentAttributes, defaults: Strings, directions: int
) -> list[list[Activation]]:
    """The activations of each direction; alphas and betas go in order to the activations that take one."""
    needed = len(defaults) * directions
    chosen = (
        list(attributes.get("activations", ()))[:needed] or list(defaults) * directions
    )  # the schema's default names them for two directions
    if len(chosen) < needed:
        raise UnsupportedOperator(f"{len(chosen)} activations where {needed} are needed")
    left = {"alpha": list(attributes.get("activation_alpha", ())), "beta": list(attributes.get("activation_beta", ()))}
    results: list[Activation] = []
    for item in chosen:
        if item.lower() not in _ACTIVATIONS:
            raise UnsupportedOperator(f"activation {item.lower()!r} is none of ONNX's")
        function, parameters = _ACTIVATIONS[item.lower()]
        taken = {key: left[key].pop(0) if left[key] else default for key, default in parameters.items()}
        results.append(partial(function, xp, **taken))
    per = len(defaults)
    return [results[i * per : (i + 1) * per] for i in range(directions)]


# Whether each direction runs backward.
BACKWARD = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def run_direction(
    d: Direction, cell: Cell, x: Tensor, time: Int, lengths: Tensor | None, backward: bool, states: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """One direction over projected inputs [time, batch, gates]: outputs [time, batch, hidden] and the last states.

    Steps beyond `lengths` (INT [batch]; None where all sequences are as long as x) keep the states, and their outputs are 0.
    """
    xp = d.xp
    steps = xp.flip(x, [0]) if backward else x

    def step(i: Tensor, going: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        following = cell(d, states, xp.take(steps, i, 0))
        if lengths is None:
            return (going, *following, following[0])
        now = i
        if backward:
            now = xp.subtract(xp.from_host(host_array(int_op(xp, "sub", time, 1)), ir.DataType.INT64), i)
        inside = xp.greater(xp.expand_dims(xp.astype(lengths, ir.DataType.INT64), [1]), now)
        held = tuple(xp.where(inside, new, old) for new, old in zip(following, states, strict=True))
        return (going, *held, xp.where(inside, following[0], 0))

    *last, outputs = xp.loop(time, None, list(states), Iteration(step, 1, [None] * len(states)))
    return (xp.flip(outputs, [0]) if backward else outputs, *last)


def outputs_of(xp: Namespace, results: Sequence[tuple[Tensor, ...]], batch_first: bool) -> tuple[Tensor, ...]:
    """Y [time, directions, batch, hidden] and each last state [directions, batch, hidden], or their batch-first forms."""
    y = xp.stack([item[0] for item in results], 1)
    y = xp.permute_dims(y, (2, 0, 1, 3)) if batch_first else y
    lasts = zip(*(item[1:] for item in results), strict=True)
    return (y, *(xp.stack(list(parts), 1 if batch_first else 0) for parts in lasts))


def parts(xp: Namespace, x: Tensor, count: int, axis: int) -> list[Tensor]:
    """A tensor cut into `count` equal pieces."""
    size = xp.shape(x)[axis]
    width = int(size) // count if known(size) else int_op(xp, "floor_div", size, count)
    return xp.split(x, [width] * count, axis)


def _weights(
    xp: Namespace, w: Tensor, r: Tensor, b: Tensor | None, index: int
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """W^T, R^T, Wb and Rb of one direction."""
    biases = (None, None) if b is None else tuple(parts(xp, part(xp, b, 0, index), 2, 0))
    wt, rt = (xp.permute_dims(part(xp, item, 0, index), (1, 0)) for item in (w, r))
    return wt, rt, biases[0], biases[1]


def plus(xp: Namespace, x: Tensor, *biases: Tensor | None) -> Tensor:
    """x plus those biases that are given."""
    for bias in biases:
        x = x if bias is None else xp.add(x, bias)
    return x


def _rnn_step(d: Direction, states: Sequence[Tensor], xw: Tensor) -> tuple[Tensor, ...]:
    """H' = f(X W^T + H R^T + Wb + Rb)."""
    xp = d.xp
    return (d.functions[0](d.bounded(xp.add(xw, d.times(states[0])))),)


def _gru_step(d: Direction, states: Sequence[Tensor], xw: Tensor) -> tuple[Tensor, ...]:
    """Gates z, r, h: H' = (1 - z) h + z H, with h = g(X Wh + (r H) Rh + ...), or r (H Rh + Rbh) with linear_before_reset."""
    xp, (f, g), h = d.xp, d.functions, states[0]
    (rz, rr, rh), (bz, br, bh) = d.recurrent, d.biases
    xz, xr, xh = parts(xp, xw, 3, 1)
    z = f(d.bounded(plus(xp, xp.add(xz, xp.matmul(h, rz)), bz)))
    reset = f(d.bounded(plus(xp, xp.add(xr, xp.matmul(h, rr)), br)))
    if d.attributes.get("linear_before_reset"):
        recurrent = xp.multiply(reset, plus(xp, xp.matmul(h, rh), bh))
    else:
        recurrent = plus(xp, xp.matmul(xp.multiply(reset, h), rh), bh)
    new = g(d.bounded(xp.add(xh, recurrent)))
    return (xp.add(xp.multiply(xp.add(xp.negative(z), 1.0), new), xp.multiply(z, h)),)


def lstm_step(d: Direction, states: Sequence[Tensor], xw: Tensor) -> tuple[Tensor, ...]:
    """Gates i, o, f, c: C' = f C + i g(c), H' = o h(C'), with peepholes p on i, o, f; input_forget makes f = 1 - i."""
    xp, (f, g, h_of), (h, c) = d.xp, d.functions, states
    gates = parts(xp, xp.add(xw, d.times(h)), 4, 1)

    def gate(index: int, peephole: Tensor | None, state: Tensor) -> Tensor:
        x = gates[index] if peephole is None else xp.add(gates[index], xp.multiply(peephole, state))
        return f(d.bounded(x))

    i = gate(0, d.peepholes[0], c)
    forget = xp.add(xp.negative(i), 1.0) if d.attributes.get("input_forget") else gate(2, d.peepholes[2], c)
    new_c = xp.add(xp.multiply(forget, c), xp.multiply(i, g(d.bounded(gates[3]))))
    return xp.multiply(gate(1, d.peepholes[1], new_c), h_of(new_c)), new_c


def _recurrent(cell: Cell, defaults: Strings) -> Callable[..., tuple[Tensor, ...]]:
    """The operator of a cell, with its default activations."""

    def operator(
        xp: Namespace, x: Tensor, w: Tensor, r: Tensor, *rest: Tensor | None, **attributes: Unpack[RecurrentAttributes]
    ) -> tuple[Tensor, ...]:
        b, lengths, initial_h, initial_c, p = optional(rest, 5)
        direction, batch_first = attributes.get("direction", "forward"), bool(attributes.get("layout", 0))
        if direction not in BACKWARD:
            raise UnsupportedOperator(f"direction={direction!r} is none of ONNX's")
        x = xp.permute_dims(x, (1, 0, 2)) if batch_first else x
        functions = activations_of(xp, attributes, defaults, len(BACKWARD[direction]))
        results = []
        for index, backward in enumerate(BACKWARD[direction]):
            wt, rt, wb, rb = _weights(xp, w, r, b, index)
            # A GRU multiplies the state, or a product with it, by its reset gate, so that its weights stay apart and its bias of
            # the state is added in the cell; the others add theirs to the inputs, once for all steps.
            in_cell = cell is _gru_step
            d = Direction(
                xp,
                parts(xp, rt, 3, 1) if in_cell else [rt],
                parts(xp, rb, 3, 0) if in_cell and rb is not None else [None] * 3,
                functions[index],
                [None] * 3 if p is None else parts(xp, part(xp, p, 0, index), 3, 0),
                attributes,
            )
            projected = plus(xp, xp.matmul(x, wt), wb, None if in_cell else rb)
            hidden = xp.shape(r)[2]
            states = [
                xp.zeros((xp.shape(x)[1], hidden), xp.dtype(x))
                if item is None
                else part(xp, item, 1 if batch_first else 0, index)
                for item in ((initial_h, initial_c) if cell is lstm_step else (initial_h,))
            ]
            results.append(run_direction(d, cell, projected, xp.shape(x)[0], lengths, backward, states))
        return outputs_of(xp, results, batch_first)

    operator.__doc__ = cell.__doc__
    return operator


onnx.op("RNN", versions=(1, 7, 14, 22))(_recurrent(_rnn_step, ("tanh",)))
onnx.op("GRU", versions=(1, 3, 7, 14, 22))(_recurrent(_gru_step, ("sigmoid", "tanh")))
onnx.op("LSTM", versions=(1, 7, 14, 22))(_recurrent(lstm_step, ("sigmoid", "tanh", "tanh")))
