"""RNN, GRU and LSTM in the importers, against onnxruntime."""

from __future__ import annotations

import cProfile
import itertools
import pstats
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves

import onnxport
from onnxport.model import OnnxModel
from tests.evidence import require_equal
from tests.importers.onnx_cases import FLOAT, Node, imported_to_tensorflow

R = np.random.default_rng(3)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
TIME, BATCH, FEATURES, HIDDEN = 6, 3, 4, 5


def floats(*shape: int) -> np.ndarray:
    return R.normal(size=shape).astype(np.float32) * np.float32(0.7)


def near_zero(item: Node) -> Node:
    """The same with small operands: of a sum far below 0 onnxruntime's Softplus in a recurrent layer gives exactly 0."""
    return replace(item, inputs=[x if x is None else x * np.float32(0.3) for x in item.inputs])


def row(op: str, direction: str = "forward", *, bias: bool = True, lengths: bool = False, initial: bool = False,
        peepholes: bool = False, opset: int = 17, **attributes: Any) -> Node:  # fmt: skip
    gates, d = GATES[op], 2 if direction == "bidirectional" else 1
    inputs: list[Any] = [
        floats(TIME, BATCH, FEATURES),
        floats(d, gates * HIDDEN, FEATURES),
        floats(d, gates * HIDDEN, HIDDEN),
    ]
    inputs.append(floats(d, 2 * gates * HIDDEN) if bias else None)
    inputs.append(np.array([6, 2, 4], np.int32) if lengths else None)
    inputs.append(floats(d, BATCH, HIDDEN) if initial else None)
    if op == "LSTM":
        inputs.append(floats(d, BATCH, HIDDEN) if initial else None)
        inputs.append(floats(d, 3 * HIDDEN) if peepholes else None)
    while inputs[-1] is None:
        inputs.pop()
    outputs = (FLOAT,) * (3 if op == "LSTM" else 2)
    return Node(
        op, inputs, outputs, {"direction": direction, "hidden_size": HIDDEN, **attributes}, opset=opset, dynamic=False
    )


TURNED = (0, 5, 6)  # inputs with a batch axis
DIRECTIONS = ["forward", "reverse", "bidirectional"]
ACTIVATIONS = [
    "Relu",
    "Tanh",
    "Sigmoid",
    "Affine",
    "LeakyRelu",
    "ThresholdedRelu",
    "ScaledTanh",
    "HardSigmoid",
    "Elu",
    "Softsign",
    "Softplus",
]
PARAMETERS = {"Affine": (0.5, 0.1), "LeakyRelu": (0.2, None), "ThresholdedRelu": (0.3, None), "ScaledTanh": (0.8, 0.6),
              "HardSigmoid": (0.3, 0.4), "Elu": (0.7, None)}  # fmt: skip


def activated(op: str, names: list[str]) -> Node:
    chosen = [PARAMETERS.get(name, (None, None)) for name in names]
    attributes: dict[str, Any] = {"activations": names}
    for key, index in (("activation_alpha", 0), ("activation_beta", 1)):
        if any(item[index] is not None for item in chosen):
            attributes[key] = [item[index] for item in chosen if item[index] is not None]
    return row(op, **attributes)


ROWS = [
    row(op, direction, bias=bias, lengths=lengths, initial=initial)
    for op, direction, (bias, lengths, initial) in itertools.product(
        GATES, DIRECTIONS, [(True, False, False), (False, False, True), (True, True, True)]
    )
]
ROWS += [row(op, direction, clip=0.4) for op, direction in itertools.product(("RNN", "GRU", "LSTM"), DIRECTIONS)]
ROWS += [row("GRU", direction, linear_before_reset=1, lengths=True) for direction in DIRECTIONS]
ROWS += [row("GRU", linear_before_reset=1, bias=False, clip=0.3)]
ROWS += [row("LSTM", direction, peepholes=True, lengths=True, initial=True) for direction in DIRECTIONS]
ROWS += [row("LSTM", input_forget=1), row("LSTM", "bidirectional", input_forget=1, peepholes=True)]
ROWS += [
    activated("RNN", [name]) if name != "Softplus" else near_zero(activated("RNN", [name])) for name in ACTIVATIONS
]
ROWS += [activated("GRU", ["HardSigmoid", "ScaledTanh"]), activated("LSTM", ["HardSigmoid", "Elu", "Affine"])]
ROWS += [row(op, opset=opset) for op in GATES for opset in (7, 14)]
IDS = [f"{i}-{item.op}" for i, item in enumerate(ROWS)]


test_tensorflow = imported_to_tensorflow(ROWS, IDS, share=0.3)


@pytest.mark.tensorflow
@pytest.mark.parametrize("op", GATES)
def test_tensorflow_batch_first(op: str) -> None:
    """Layout 1, which onnxruntime does not run, gives the numbers of layout 0."""
    from onnxport.converters.from_onnx.tensorflow import build

    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    item = row(op, "bidirectional", initial=True, lengths=True)
    places = [i for i, x in enumerate(item.inputs) if x is not None]
    turned = [np.ascontiguousarray(np.swapaxes(x, 0, 1)) if i in TURNED else x for i, x in enumerate(item.inputs)]
    module = build(Node(op, turned, item.outputs, {**item.attributes, "layout": 1}, opset=17, dynamic=False).ir())

    def as_layout_0(*given: Any) -> list[Any]:
        pairs = zip(places, given, strict=True)
        y, *lasts = module(*(tf.transpose(x, (1, 0, 2)) if i in TURNED else x for i, x in pairs))
        return [tf.transpose(y, (1, 2, 0, 3)), *(tf.transpose(last, (1, 0, 2)) for last in lasts)]

    require_equal(OnnxModel(item.ir()), tf.function(as_layout_0), tuple(map(tf.constant, item.arrays())))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_pytorch_imports_a_recurrent_layer_without_computing_its_steps(kind: str) -> None:
    """torch computes step after step, on tensors without content too: each took a millisecond."""
    layer = getattr(torch.nn, kind)(3, 5, batch_first=False, bidirectional=True).eval()
    x = torch.randn(512, 1, 3)
    hub = onnxport.convert(layer, inputs=(x,), validate=False)
    onnxport.convert(hub, to="pytorch", validate=False)  # imports do not count
    with cProfile.Profile() as calls:
        imported = onnxport.convert(hub, to="pytorch", validate=False)
    assert pstats.Stats(calls).total_calls < 400 * 512
    with torch.no_grad():
        for got, expected in zip(tree_leaves(imported(x)), tree_leaves(layer(x)), strict=True):
            torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("kind", GATES)
def test_initial_states_stand_in_order_as_accelerators_want_them(kind: str, tmp_path: Any) -> None:
    source = getattr(torch.nn, kind)(4, 5, num_layers=2, bidirectional=True).eval()
    x = torch.randn(TIME, BATCH, 4, generator=torch.Generator().manual_seed(0))
    model = onnxport.convert(source, inputs=(x,), dynamic_shapes={"input": {1: "batch"}})
    module = onnxport.convert(model, to="pytorch")
    states: list[torch.Tensor] = []

    class Watching(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in (torch.lstm, torch.gru, torch.rnn_tanh):
                states.extend(tree_leaves(args[1]))
            return func(*args, **(kwargs or {}))

    with Watching():
        module(x)
    assert len(states) == (4 if kind == "LSTM" else 2)
    assert all(state.is_contiguous() for state in states)
    torch.save(module, tmp_path / "module.pt")
    torch.testing.assert_close(torch.load(tmp_path / "module.pt", weights_only=False)(x), module(x))
    onnxport.convert(model, to="pytorch", output=tmp_path / "net.py")
