"""RNN, GRU and LSTM: the projection of the inputs at once, then one loop over time a direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.host import int_op
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Int, Tensor, host_array, known
from onnxport.opset_maps.maps import onnx

Activation = Callable[[Tensor], Tensor]
# State before a step, projected inputs of the step -> state after it; the first part of the state is the output.
Cell = Callable[[Sequence[Tensor], Tensor], tuple[Tensor, ...]]

# Which parameters an activation takes, with their defaults (ONNX operator specification, RNN).
_PARAMETERS: dict[str, dict[str, float]] = {
    "affine": {"alpha": 1.0, "beta": 0.0},
    "leakyrelu": {"alpha": 0.01},
    "thresholdedrelu": {"alpha": 1.0},
    "scaledtanh": {"alpha": 1.0, "beta": 1.0},
    "hardsigmoid": {"alpha": 0.2, "beta": 0.5},
    "elu": {"alpha": 1.0},
}


def _activation(xp: Namespace, name: str, alpha: float, beta: float) -> Activation:
    match name:
        case "relu":
            return xp.relu
        case "tanh":
            return xp.tanh
        case "sigmoid":
            return xp.sigmoid
        case "softsign":
            return lambda x: xp.divide(x, xp.add(xp.abs(x), 1.0))
        case "softplus":
            return xp.softplus
        case "affine":
            return lambda x: xp.add(xp.multiply(x, alpha), beta)
        case "leakyrelu":
            return lambda x: xp.where(xp.less(x, 0), xp.multiply(x, alpha), x)
        case "thresholdedrelu":
            return lambda x: xp.where(xp.greater(x, alpha), x, 0)
        case "scaledtanh":
            return lambda x: xp.multiply(xp.tanh(xp.multiply(x, beta)), alpha)
        case "hardsigmoid":
            return lambda x: xp.clip(xp.add(xp.multiply(x, alpha), beta), 0.0, 1.0)
        case "elu":
            return lambda x: xp.where(xp.less(x, 0), xp.multiply(xp.subtract(xp.exp(xp.minimum(x, 0)), 1.0), alpha), x)
    raise UnsupportedOperator(f"activation {name!r} is none of ONNX's")


def _activations(
    xp: Namespace,
    names: Sequence[str],
    defaults: Sequence[str],
    directions: int,
    alphas: Sequence[float],
    betas: Sequence[float],
) -> list[list[Activation]]:
    """The activations of each direction; alphas and betas go in order to the activations that take one."""
    needed = len(defaults) * directions
    chosen = list(names)[:needed] or list(defaults) * directions  # the schema's default names them for two directions
    if len(chosen) < needed:
        raise UnsupportedOperator(f"{len(chosen)} activations where {needed} are needed")
    left = {"alpha": list(alphas), "beta": list(betas)}
    found = []
    for item in chosen:
        taken = dict(_PARAMETERS.get(item.lower(), {}))
        for key in taken:
            taken[key] = left[key].pop(0) if left[key] else taken[key]
        found.append(_activation(xp, item.lower(), taken.get("alpha", 0.0), taken.get("beta", 0.0)))
    per = len(defaults)
    return [found[i * per : (i + 1) * per] for i in range(directions)]


@dataclass(frozen=True)
class Sequence_:
    """What all three operators do around their cell.

    Attributes:
        xp: the namespace.
        x: inputs [time, batch, features].
        direction: ``"forward"``, ``"reverse"`` or ``"bidirectional"``.
        batch_first: layout 1.
        lengths: INT [batch], or None where all sequences are as long as x.
    """

    xp: Namespace
    x: Tensor
    direction: str
    batch_first: bool
    lengths: Tensor | None

    @classmethod
    def of(cls, xp: Namespace, x: Tensor, direction: str, layout: int, lengths: Tensor | None) -> Sequence_:
        """The inputs time first."""
        if direction not in ("forward", "reverse", "bidirectional"):
            raise UnsupportedOperator(f"direction={direction!r} is none of ONNX's")
        x = xp.permute_dims(x, (1, 0, 2)) if layout else x
        return cls(xp, x, direction, bool(layout), lengths)

    @property
    def directions(self) -> int:
        """How many."""
        return 2 if self.direction == "bidirectional" else 1

    def initial(self, state: Tensor | None, index: int, hidden: Int) -> Tensor:
        """[batch, hidden] of one direction, zeros by default."""
        xp = self.xp
        if state is None:
            return xp.zeros((xp.shape(self.x)[1], hidden), xp.dtype(self.x))
        axis = 1 if self.batch_first else 0
        return xp.squeeze(xp.slice(state, axis, index, index + 1), (axis,))

    def run(self, index: int, projected: Tensor, states: Sequence[Tensor], cell: Cell) -> tuple[Tensor, ...]:
        """One direction: outputs [time, batch, hidden] and the last states."""
        xp = self.xp
        backward = self.direction == "reverse" or index == 1
        time = xp.shape(self.x)[0]
        steps = xp.flip(projected, [0]) if backward else projected

        def step(i: Tensor, going: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
            following = cell(states, xp.take(steps, i, 0))
            if self.lengths is None:
                return (going, *following, following[0])
            now = self._place(time, i) if backward else i
            lengths = xp.expand_dims(xp.astype(self.lengths, ir.DataType.INT64), [1])
            inside = xp.greater(lengths, now)
            held = tuple(xp.where(inside, new, old) for new, old in zip(following, states, strict=True))
            return (going, *held, xp.where(inside, following[0], 0))

        *last, outputs = xp.loop(time, None, list(states), step, 1, [None] * len(states))
        return (xp.flip(outputs, [0]) if backward else outputs, *last)

    def _place(self, time: Int, i: Tensor) -> Tensor:
        """time - 1 - i as a tensor."""
        xp = self.xp
        last = xp.full((), int(time) - 1, ir.DataType.INT64) if known(time) else self._size(int_op(xp, "sub", time, 1))
        return xp.subtract(last, i)

    def _size(self, n: Int) -> Tensor:
        return self.xp.from_host(host_array(n), ir.DataType.INT64)

    def outputs(self, results: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Y [time, directions, batch, hidden] and each last state [directions, batch, hidden], or their batch-first forms."""
        xp = self.xp
        y = xp.stack([item[0] for item in results], 1)
        y = xp.permute_dims(y, (2, 0, 1, 3)) if self.batch_first else y
        lasts = [
            xp.stack(list(parts), 1 if self.batch_first else 0)
            for parts in zip(*(item[1:] for item in results), strict=True)
        ]
        return (y, *lasts)


def _part(xp: Namespace, x: Tensor, index: int) -> Tensor:
    """One direction's part of a weight."""
    return xp.squeeze(xp.slice(x, 0, index, index + 1), (0,))


def _parts(xp: Namespace, x: Tensor, count: int, axis: int) -> list[Tensor]:
    """A tensor cut into `count` equal pieces."""
    size = xp.shape(x)[axis]
    width = int(size) // count if known(size) else int_op(xp, "floor_div", size, count)
    return xp.split(x, [width] * count, axis)


def _transposed(xp: Namespace, x: Tensor) -> Tensor:
    return xp.permute_dims(x, (1, 0))


def _clipped(xp: Namespace, clip: float | None) -> Activation:
    return (lambda x: xp.clip(x, -clip, clip)) if clip else (lambda x: x)


def _weights(
    xp: Namespace, w: Tensor, r: Tensor, b: Tensor | None, index: int, gates: int
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """W^T, R^T, Wb and Rb of one direction."""
    biases = (None, None) if b is None else tuple(_parts(xp, _part(xp, b, index), 2, 0))
    return _transposed(xp, _part(xp, w, index)), _transposed(xp, _part(xp, r, index)), biases[0], biases[1]


def _hidden(xp: Namespace, r: Tensor) -> Int:
    return xp.shape(r)[2]


def _plus(xp: Namespace, x: Tensor, *biases: Tensor | None) -> Tensor:
    for bias in biases:
        x = x if bias is None else xp.add(x, bias)
    return x


@onnx.op("RNN", versions=(1, 7, 14, 22))
def rnn(
    xp: Namespace,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    """H' = f(X W^T + H R^T + Wb + Rb)."""
    run = Sequence_.of(xp, x, direction, layout, sequence_lens)
    functions = _activations(xp, activations, ("tanh",), run.directions, activation_alpha, activation_beta)
    bounded = _clipped(xp, clip)
    results = []
    for index in range(run.directions):
        wt, rt, wb, rb = _weights(xp, w, r, b, index, 1)
        (f,) = functions[index]

        def cell(states: Sequence[Tensor], xw: Tensor, rt: Tensor = rt, f: Activation = f) -> tuple[Tensor, ...]:
            return (f(bounded(xp.add(xw, xp.matmul(states[0], rt)))),)

        projected = _plus(xp, xp.matmul(run.x, wt), wb, rb)
        results.append(run.run(index, projected, [run.initial(initial_h, index, _hidden(xp, r))], cell))
    return run.outputs(results)


@onnx.op("GRU", versions=(1, 3, 7, 14, 22))
def gru(
    xp: Namespace,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    """Gates z, r, h: H' = (1 - z) h + z H, with h = g(X Wh + (r H) Rh + ...), or r (H Rh + Rbh) with linear_before_reset."""
    run = Sequence_.of(xp, x, direction, layout, sequence_lens)
    functions = _activations(xp, activations, ("sigmoid", "tanh"), run.directions, activation_alpha, activation_beta)
    bounded = _clipped(xp, clip)
    results = []
    for index in range(run.directions):
        wt, rt, wb, rb = _weights(xp, w, r, b, index, 3)
        f, g = functions[index]
        rz, rr, rh = _parts(xp, rt, 3, 1)
        bz, br, bh = (None, None, None) if rb is None else _parts(xp, rb, 3, 0)

        def cell(
            states: Sequence[Tensor],
            xw: Tensor,
            rz: Tensor = rz,
            rr: Tensor = rr,
            rh: Tensor = rh,
            bz: Tensor | None = bz,
            br: Tensor | None = br,
            bh: Tensor | None = bh,
            f: Activation = f,
            g: Activation = g,
        ) -> tuple[Tensor, ...]:
            h = states[0]
            xz, xr, xh = _parts(xp, xw, 3, 1)
            z = f(bounded(_plus(xp, xp.add(xz, xp.matmul(h, rz)), bz)))
            reset = f(bounded(_plus(xp, xp.add(xr, xp.matmul(h, rr)), br)))
            if linear_before_reset:
                recurrent = xp.multiply(reset, _plus(xp, xp.matmul(h, rh), bh))
            else:
                recurrent = _plus(xp, xp.matmul(xp.multiply(reset, h), rh), bh)
            new = g(bounded(xp.add(xh, recurrent)))
            return (xp.add(xp.multiply(xp.add(xp.negative(z), 1.0), new), xp.multiply(z, h)),)

        projected = _plus(xp, xp.matmul(run.x, wt), wb)
        results.append(run.run(index, projected, [run.initial(initial_h, index, _hidden(xp, r))], cell))
    return run.outputs(results)


@onnx.op("LSTM", versions=(1, 7, 14, 22))
def lstm(
    xp: Namespace,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    """Gates i, o, f, c: C' = f C + i g(c), H' = o h(C'), with peepholes p on i, o, f; input_forget makes f = 1 - i."""
    run = Sequence_.of(xp, x, direction, layout, sequence_lens)
    defaults = ("sigmoid", "tanh", "tanh")
    functions = _activations(xp, activations, defaults, run.directions, activation_alpha, activation_beta)
    bounded = _clipped(xp, clip)
    results = []
    for index in range(run.directions):
        wt, rt, wb, rb = _weights(xp, w, r, b, index, 4)
        f, g, h_of = functions[index]
        peepholes: Sequence[Any] = (None, None, None) if p is None else _parts(xp, _part(xp, p, index), 3, 0)

        def cell(
            states: Sequence[Tensor],
            xw: Tensor,
            rt: Tensor = rt,
            f: Activation = f,
            g: Activation = g,
            h_of: Activation = h_of,
            peepholes: Sequence[Any] = peepholes,
        ) -> tuple[Tensor, ...]:
            h, c = states
            gates = _parts(xp, xp.add(xw, xp.matmul(h, rt)), 4, 1)

            def peeped(gate: Tensor, peephole: Tensor | None, state: Tensor) -> Tensor:
                return gate if peephole is None else xp.add(gate, xp.multiply(peephole, state))

            i = f(bounded(peeped(gates[0], peepholes[0], c)))
            if input_forget:
                forget = xp.add(xp.negative(i), 1.0)
            else:
                forget = f(bounded(peeped(gates[2], peepholes[2], c)))
            new_c = xp.add(xp.multiply(forget, c), xp.multiply(i, g(bounded(gates[3]))))
            o = f(bounded(peeped(gates[1], peepholes[1], new_c)))
            return xp.multiply(o, h_of(new_c)), new_c

        projected = _plus(xp, xp.matmul(run.x, wt), wb, rb)
        states = [run.initial(item, index, _hidden(xp, r)) for item in (initial_h, initial_c)]
        results.append(run.run(index, projected, states, cell))
    return run.outputs(results)
