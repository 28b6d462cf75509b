"""Cases of recurrent layers and attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from keras import layers as L

from scripts.conformance.keras_cases import SERIES, VECTOR, Case, each, flags, floats, whole

RECURRENT = ("LSTM", "GRU", "SimpleRNN")
EVERYTHING = {"return_sequences": True, "return_state": True}
MASK = flags(7)


def cases() -> Iterator[Case]:
    """All of them."""
    for name in RECURRENT:
        for of_name in (_recurrent, _cells, _bidirectional):
            yield from of_name(name)
    for part in (_further_recurrent, _distributed, _attention, _multi_head):
        yield from part()


def _recurrent(name: str) -> Iterator[Case]:
    rows: dict[str, dict[str, Any]] = {
        "": {},
        "sequences": {"return_sequences": True},
        "states": {"return_state": True},
        "everything": EVERYTHING,
        "backwards": {"go_backwards": True, "return_sequences": True},
        "unrolled": {"unroll": True},
        "relu": {"activation": "relu"},
        "no bias": {"use_bias": False},
        "dropout": {"dropout": 0.2, "recurrent_dropout": 0.1},
    }
    if name == "LSTM":
        rows |= {
            "hard sigmoid": {"recurrent_activation": "hard_sigmoid"},
            "no forget bias": {"unit_forget_bias": False},
        }
    if name == "GRU":
        rows |= {
            "reset before": {"reset_after": False},
            "reset before, everything": {"reset_after": False, **EVERYTHING},
        }
    yield from each(name, SERIES, {label: {"units": 5, **row} for label, row in rows.items()})
    yield from each(name, SERIES, {"open time": {"units": 5, "return_sequences": True}}, dims=(1,))
    yield from each(name, SERIES, {"sequential": {"units": 5}}, form="sequential")
    yield from each(name, SERIES, {"subclassed": {"units": 5, "return_sequences": True}}, form="subclassed")
    yield from each(name, SERIES[:2], {"stateful": {"units": 5, "stateful": True}}, form="layer", batched=False)
    layer = getattr(L, name)

    def masked(**options: Any) -> Any:
        return lambda: lambda x: layer(5, **options)(L.Masking()(x))

    yield Case(name, "masked", masked(), _gaps())
    yield Case(name, "masked, sequences", masked(return_sequences=True), _gaps())
    yield Case(name, "masked, backwards", masked(go_backwards=True, return_sequences=True), _gaps())
    yield Case(
        name, "mask as an input", lambda: lambda x: layer(5, return_sequences=True)(x[0], mask=x[1]), [SERIES, MASK]
    )
    yield Case(name, "zero output for mask", masked(return_sequences=True, zero_output_for_mask=True), _gaps())
    yield Case(
        name,
        "after an embedding, open time",
        lambda: lambda x: layer(5)(L.Embedding(7, 3, mask_zero=True)(x)),
        whole(7),
        dims=(1,),
    )
    states = 2 if name == "LSTM" else 1
    yield Case(
        name,
        "initial state",
        lambda: lambda x: layer(5)(x[0], initial_state=list(x[1:])),
        [SERIES, *(floats(5) for _ in range(states))],
    )


def _gaps() -> np.ndarray:
    data = SERIES.copy()
    data[:, 2] = 0.0
    data[1, 4:] = 0.0
    return data


def _cells(name: str) -> Iterator[Case]:
    states = [floats(5) for _ in range(2 if name == "LSTM" else 1)]
    options: list[dict[str, Any]] = [{}, {"use_bias": False}, {"activation": "relu"}]
    if name == "GRU":
        options.append({"reset_after": False})
    for row in options:
        label = ", ".join(f"{key}={value}" for key, value in row.items())
        yield from each(f"{name}Cell", (VECTOR, states), {label: {"units": 5, **row}}, form="layer")
    cell = getattr(L, f"{name}Cell")
    yield Case("RNN", f"of a {name} cell", lambda: L.RNN(cell(5), return_sequences=True), SERIES)
    yield Case("RNN", f"of a {name} cell, open time", lambda: L.RNN(cell(5)), SERIES, dims=(1,))


def _bidirectional(name: str) -> Iterator[Case]:
    layer = getattr(L, name)

    def both(inner: dict[str, Any], **options: Any) -> Any:
        return lambda: L.Bidirectional(layer(4, **inner), **options)

    yield Case("Bidirectional", name, both({}), SERIES)
    yield Case("Bidirectional", f"{name}, sequences", both({"return_sequences": True}), SERIES)
    yield Case("Bidirectional", f"{name}, everything", both(EVERYTHING), SERIES)
    yield Case("Bidirectional", f"{name}, open time", both({"return_sequences": True}), SERIES, dims=(1,))
    for mode in ("sum", "mul", "ave", None):
        yield Case(
            "Bidirectional", f"{name}, {mode}", both({"return_sequences": mode == "sum"}, merge_mode=mode), SERIES
        )
    yield Case(
        "Bidirectional",
        f"{name}, masked",
        lambda: lambda x: both({"return_sequences": True})()(L.Masking()(x)),
        _gaps(),
    )
    if name == "LSTM":
        other = L.GRU
        yield Case(
            "Bidirectional",
            "two layers",
            lambda: L.Bidirectional(layer(4), backward_layer=other(3, go_backwards=True)),
            SERIES,
        )


def _further_recurrent() -> Iterator[Case]:
    yield Case("StackedRNNCells", "in RNN", lambda: L.RNN([L.LSTMCell(3), L.GRUCell(2)]), SERIES)
    yield Case("StackedRNNCells", "everything", lambda: L.RNN([L.GRUCell(3), L.GRUCell(2)], **EVERYTHING), SERIES)
    yield Case(
        "StackedRNNCells",
        "itself",
        lambda: L.StackedRNNCells([L.SimpleRNNCell(5), L.SimpleRNNCell(2)]),
        (VECTOR, [floats(5), floats(2)]),
        form="layer",
    )
    for rank, shape in ((1, (4, 6, 2)), (2, (4, 6, 5, 2)), (3, (3, 4, 4, 3, 2))):
        rows: dict[str, dict[str, Any]] = {"": {}, "same, sequences": {"padding": "same", "return_sequences": True}}
        if rank < 3:
            rows |= {"strides, everything": {"strides": 2, **EVERYTHING}, "backwards": {"go_backwards": True}}
        rows = {label: {"filters": 3, "kernel_size": 2, **row} for label, row in rows.items()}
        yield from each(f"ConvLSTM{rank}D", floats(*shape), rows)
    yield Case("ConvLSTM2D", "bidirectional", lambda: L.Bidirectional(L.ConvLSTM2D(3, 2)), floats(4, 6, 5, 2))
    yield Case("RNN", "two layers", lambda: [L.LSTM(5, return_sequences=True), L.GRU(3)], SERIES, form="sequential")


def _distributed() -> Iterator[Case]:
    yield Case("TimeDistributed", "dense", lambda: L.TimeDistributed(L.Dense(3)), SERIES)
    yield Case("TimeDistributed", "dense, open time", lambda: L.TimeDistributed(L.Dense(3)), SERIES, dims=(1,))
    frames = floats(3, 6, 5, 2)
    yield Case("TimeDistributed", "convolution", lambda: L.TimeDistributed(L.Conv2D(3, 2)), frames)
    yield Case(
        "TimeDistributed", "convolution, open time", lambda: L.TimeDistributed(L.Conv2D(3, 2)), frames, dims=(1,)
    )
    yield Case(
        "TimeDistributed", "flatten", lambda: [L.TimeDistributed(L.Flatten()), L.LSTM(3)], frames, form="sequential"
    )
    yield Case("TimeDistributed", "recurrent", lambda: L.TimeDistributed(L.LSTM(3)), floats(3, 4, 2))
    yield Case("TimeDistributed", "masked", lambda: lambda x: L.TimeDistributed(L.Dense(3))(L.Masking()(x)), _gaps())


def _attention() -> Iterator[Case]:
    query, value, key = floats(5, 8), floats(6, 8), floats(6, 8)
    masks = [flags(5), flags(6)]
    for name in ("Attention", "AdditiveAttention"):
        layer = getattr(L, name)
        yield Case(name, "two", lambda layer=layer: layer(), [query, value])
        yield Case(name, "three", lambda layer=layer: layer(), [query, value, key])
        yield Case(name, "masks", lambda layer=layer: lambda x: layer()(x[:2], mask=x[2:]), [query, value, *masks])
        yield Case(name, "causal", lambda layer=layer: lambda x: layer()([x, x], use_causal_mask=True), query)
        yield Case(
            name, "scores", lambda layer=layer: lambda x: layer()(x, return_attention_scores=True), [query, value]
        )
        yield Case(name, "open time", lambda layer=layer: layer(), [query, value], dims=(1,))
    yield from each(
        "Attention",
        [query, value],
        {"concat": {"score_mode": "concat"}, "scale": {"use_scale": True}, "dropout": {"dropout": 0.1}},
    )
    yield from each("AdditiveAttention", [query, value], {"no scale": {"use_scale": False}})


def _multi_head() -> Iterator[Case]:
    query, value = floats(5, 8), floats(6, 8)

    def heads(options: dict[str, Any] | None = None, **call: Any) -> Any:
        return lambda: lambda x: L.MultiHeadAttention(2, 4, **(options or {}))(x[0], x[1], **call)

    yield Case("MultiHeadAttention", "two", heads(), [query, value])
    yield Case("MultiHeadAttention", "open time", heads(), [query, value], dims=(1,))
    yield Case(
        "MultiHeadAttention",
        "three",
        lambda: lambda x: L.MultiHeadAttention(2, 4)(x[0], x[1], x[2]),
        [query, value, value * 2],
    )
    yield Case("MultiHeadAttention", "value width, output", heads({"value_dim": 3, "output_shape": 6}), [query, value])
    yield Case("MultiHeadAttention", "no bias, dropout", heads({"use_bias": False, "dropout": 0.1}), [query, value])
    yield Case("MultiHeadAttention", "scores", heads(return_attention_scores=True), [query, value])
    yield Case(
        "MultiHeadAttention", "causal", lambda: lambda x: L.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True), query
    )
    yield Case(
        "MultiHeadAttention",
        "causal, open time",
        lambda: lambda x: L.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True),
        query,
        dims=(1,),
    )
    attended = flags(5, 6)
    for label, masks in {
        "attention mask": {"attention_mask": attended},
        "padding masks": {"query_mask": flags(5), "value_mask": flags(6)},
        "all masks": {"query_mask": flags(5), "value_mask": flags(6), "key_mask": flags(6), "attention_mask": attended},
        "padding and causal": {"value_mask": flags(5)},
    }.items():
        causal = {"use_causal_mask": True} if "causal" in label else {}
        other = query if causal else value

        def build(names: tuple[str, ...] = tuple(masks), causal: dict[str, Any] = causal) -> Any:
            return lambda x: L.MultiHeadAttention(2, 4)(x[0], x[1], **dict(zip(names, x[2:], strict=True)), **causal)

        yield Case("MultiHeadAttention", label, build, [query, other, *masks.values()])
    yield Case(
        "MultiHeadAttention",
        "attention axes",
        lambda: lambda x: L.MultiHeadAttention(2, 4, attention_axes=(2,))(x, x),
        floats(3, 5, 8),
    )
    embedded = lambda: lambda x: (lambda e: L.MultiHeadAttention(2, 4)(e, e))(L.Embedding(7, 8, mask_zero=True)(x))  # noqa: E731
    yield Case(
        "MultiHeadAttention", "mask of an embedding", embedded, np.maximum(whole(5), np.eye(3, 5, dtype=np.int32))
    )
    yield Case("MultiHeadAttention", "itself", lambda: L.MultiHeadAttention(2, 4), (query, value), form="layer")
    yield Case(
        "MultiHeadAttention",
        "itself, mask by keyword",
        lambda: L.MultiHeadAttention(2, 4),
        (query, value),
        form="layer",
        kwargs={"attention_mask": attended},
    )
    for gate in ("flash_attention",):
        yield Case("MultiHeadAttention", f"{gate}=False", heads({gate: False}), [query, value])

    def grouped(options: dict[str, Any] | None = None, **call: Any) -> Any:
        return lambda: lambda x: L.GroupQueryAttention(4, 6, 2, **(options or {}))(x[0], x[1], **call)

    yield Case("GroupQueryAttention", "two", grouped(), [query, value])
    yield Case("GroupQueryAttention", "open time", grouped(), [query, value], dims=(1,))
    yield Case(
        "GroupQueryAttention",
        "no bias, scores",
        grouped({"use_bias": False}, return_attention_scores=True),
        [query, value],
    )
    yield Case("GroupQueryAttention", "causal", grouped(use_causal_mask=True), [query, query])
    yield Case(
        "GroupQueryAttention",
        "attention mask",
        lambda: lambda x: L.GroupQueryAttention(4, 6, 2)(x[0], x[1], attention_mask=x[2]),
        [query, value, attended],
    )
    yield Case(
        "GroupQueryAttention",
        "padding masks",
        lambda: lambda x: L.GroupQueryAttention(4, 6, 2)(x[0], x[1], query_mask=x[2], value_mask=x[3]),
        [query, value, flags(5), flags(6)],
    )
