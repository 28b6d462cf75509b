"""The recurrent layer of com.microsoft that onnxruntime's dynamic quantiser writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.cases import Case, f32
from onnxport.opset_maps.from_onnx.axes import part
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.semantics.microsoft import microsoft_op
from onnxport.opset_maps.from_onnx.semantics.microsoft_products import dynamic_quantize_matmul
from onnxport.opset_maps.from_onnx.semantics.recurrent import (
    BACKWARD,
    Direction,
    RecurrentAttributes,
    activations_of,
    lstm_step,
    outputs_of,
    parts,
    plus,
    run_direction,
)
from onnxport.opset_maps.from_onnx.values import Tensor, optional


@dataclass(frozen=True)
class _QuantizedDirection(Direction):
    """A direction whose weight of the state is quantised.

    Attributes:
        scale: of that weight, one or one a column.
        zero: its zero point, likewise.
    """

    scale: Tensor
    zero: Tensor | None

    def times(self, state: Tensor) -> Tensor:
        """The state, quantised by the range of all its rows, times its weight."""
        return dynamic_quantize_matmul(self.xp, state, self.recurrent[0], self.scale, self.zero)


def _case(rows: int, *, per_column: bool, directions: int = 1) -> Case:
    """A layer of 3 inputs and 2 hidden units."""
    rng = np.random.default_rng(0)

    def held(name: str, kind: str, values: np.ndarray) -> str:
        shape = ", ".join(map(str, values.shape))
        return f"{name} = Constant <value = {kind}[{shape}] {{{', '.join(map(str, values.ravel()))}}}> () "

    columns = (directions, 8) if per_column else (directions,)
    constants = [
        held("w", "int8", rng.integers(-100, 100, (directions, 3, 8))),
        held("r", "int8", rng.integers(-100, 100, (directions, 2, 8))),
        held("b", "float", rng.standard_normal((directions, 16)).round(3)),
        *(held(name, "float", rng.uniform(0.005, 0.02, columns).round(4)) for name in ("s", "t")),
        *(held(name, "int8", np.full(columns, 0)) for name in ("z", "u")),
    ]
    way = "bidirectional" if directions == 2 else "forward"
    call = f'y, h, c = com.microsoft.DynamicQuantizeLSTM <hidden_size = 2, direction = "{way}"> (x, w, r, b, , , , , s, z, t, u)'
    results = "float[S, D, N, 2] y, float[D, N, 2] h, float[D, N, 2] c"
    return graph(
        f"(float[S, N, 3] x) => ({results}) {{{''.join(constants)}{call}}}", f32(4, rows, 3, low=-2.0, high=2.0)
    )


@microsoft_op(
    "DynamicQuantizeLSTM",
    _case(1, per_column=False),
    _case(3, per_column=True),
    _case(2, per_column=False, directions=2),
)
def dynamic_quantize_lstm(
    xp: Namespace, x: Tensor, w: Tensor, r: Tensor, *rest: Tensor | None, **attributes: Unpack[RecurrentAttributes]
) -> tuple[Tensor, ...]:
    """LSTM with weights [directions, inputs, gates] of 8 bits; all inputs and each state are quantised by their range.

    onnxruntime does so for each part of the rows that one of its threads computes; this is the meaning of one thread.
    """
    b, lengths, initial_h, initial_c, p, w_scale, w_zero, r_scale, r_zero = optional(rest, 9)
    direction = attributes.get("direction", "forward")
    if lengths is not None:
        raise UnsupportedOperator(
            "sequence_lens: what is left of sequences that have ended counts for the range of the others"
        )
    if direction not in BACKWARD or w_scale is None or r_scale is None:
        raise UnsupportedOperator(f"direction={direction!r} and the scales are no such layer's")
    functions = activations_of(xp, attributes, ("sigmoid", "tanh", "tanh"), len(BACKWARD[direction]))
    hidden = xp.shape(r)[1]
    results = []
    for index, backward in enumerate(BACKWARD[direction]):
        zeros = [None if item is None else part(xp, item, 0, index) for item in (w_zero, r_zero)]
        biases = [None] * 2 if b is None else parts(xp, part(xp, b, 0, index), 2, 0)
        peepholes = [None] * 3 if p is None else parts(xp, part(xp, p, 0, index), 3, 0)
        weight, scale = (part(xp, item, 0, index) for item in (r, r_scale))
        d = _QuantizedDirection(xp, [weight], [None], functions[index], peepholes, attributes, scale, zeros[1])
        weight, scale = (part(xp, item, 0, index) for item in (w, w_scale))
        projected = plus(xp, dynamic_quantize_matmul(xp, x, weight, scale, zeros[0]), *biases)
        states = [
            xp.zeros((xp.shape(x)[1], hidden), xp.dtype(x)) if item is None else part(xp, item, 0, index)
            for item in (initial_h, initial_c)
        ]
        results.append(run_direction(d, lstm_step, projected, xp.shape(x)[0], None, backward, states))
    return outputs_of(xp, results, batch_first=False)
