"""Cases of convolutions, poolings and what else moves over space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keras import layers as L

from scripts.conformance.keras_cases import FIRST, IMAGE, LAST, SERIES, VECTOR, Case, each, floats


def cases() -> Iterator[Case]:
    """All of them."""
    for rank in (1, 2, 3):
        for of_rank in (_convolutions, _transposed, _pooling, _borders):
            yield from of_rank(rank)
    for part in (_depthwise, _quantised, _precisions):
        yield from part()


def _convolutions(rank: int) -> Iterator[Case]:
    name = f"Conv{rank}D"
    plain: dict[str, Any] = {"filters": 6, "kernel_size": 3 if rank < 3 else 2}
    rows = {
        "valid": {},
        "same": {"padding": "same"},
        "same strides": {"padding": "same", "strides": 2},
        "valid strides, relu": {"strides": 2, "activation": "relu"},
        "dilated": {"dilation_rate": 2, "padding": "same"},
        "no bias, gelu": {"use_bias": False, "activation": "gelu"},
    }
    if rank < 3:
        rows["groups"] = {"groups": LAST[rank].shape[-1]} if rank == 2 else {"groups": 2}
    if rank == 1:
        rows |= {"causal": {"padding": "causal"}, "causal dilated": {"padding": "causal", "dilation_rate": 2}}
    if rank == 2:
        rows |= {"oblong": {"kernel_size": (2, 3), "strides": (2, 1)}}
    yield from each(name, LAST[rank], {label: plain | row for label, row in rows.items()})
    yield from each(name, FIRST[rank], {"channels first": plain | {"data_format": "channels_first", "padding": "same"}})
    yield from each(name, LAST[rank], {"open sizes": plain | {"padding": "same", "strides": 2}}, dims=(1,))


def _transposed(rank: int) -> Iterator[Case]:
    name = f"Conv{rank}DTranspose"
    plain: dict[str, Any] = {"filters": 5, "kernel_size": 3}
    rows = {
        "valid": {},
        "same strides": {"padding": "same", "strides": 2},
        "valid strides": {"strides": 2},
        "output padding": {"strides": 2, "output_padding": 1},
        "same, no bias, tanh": {"padding": "same", "use_bias": False, "activation": "tanh"},
    }
    if rank < 3:
        rows["dilated"] = {"dilation_rate": 2}
    yield from each(name, LAST[rank], {label: plain | row for label, row in rows.items()})
    yield from each(name, FIRST[rank], {"channels first": plain | {"data_format": "channels_first", "strides": 2}})


def _depthwise() -> Iterator[Case]:
    for rank in (1, 2):
        rows: dict[str, dict[str, Any]] = {
            "valid": {"kernel_size": 3},
            "same": {"kernel_size": 3, "padding": "same"},
            "strides": {"kernel_size": 2, "strides": 2},
            "multiplier": {"kernel_size": 3, "depth_multiplier": 2, "padding": "same"},
            "dilated": {"kernel_size": 2, "dilation_rate": 2},
        }
        first = {"channels first": {"kernel_size": 3, "data_format": "channels_first"}}
        yield from each(f"DepthwiseConv{rank}D", LAST[rank], rows)
        yield from each(f"DepthwiseConv{rank}D", FIRST[rank], first)
        separable = {label: row | {"filters": 5} for label, row in rows.items()}
        yield from each(
            f"SeparableConv{rank}D",
            LAST[rank],
            separable | {"relu": rows["same"] | {"filters": 4, "activation": "relu"}},
        )
        yield from each(
            f"SeparableConv{rank}D", FIRST[rank], {"channels first": first["channels first"] | {"filters": 5}}
        )


def _pooling(rank: int) -> Iterator[Case]:
    for kind in ("Max", "Average"):
        rows: dict[str, dict[str, Any]] = {
            "2": {"pool_size": 2},
            "same": {"pool_size": 3, "padding": "same"},
            "strides": {"pool_size": 3, "strides": 1},
            "same strides": {"pool_size": 2, "strides": 3, "padding": "same"},
        }
        yield from each(f"{kind}Pooling{rank}D", LAST[rank], rows)
        yield from each(
            f"{kind}Pooling{rank}D", FIRST[rank], {"channels first": {"pool_size": 2, "data_format": "channels_first"}}
        )
        yield from each(f"Global{kind}Pooling{rank}D", LAST[rank], {"": {}, "keepdims": {"keepdims": True}})
        yield from each(
            f"Global{kind}Pooling{rank}D", FIRST[rank], {"channels first": {"data_format": "channels_first"}}
        )
        adaptive = {"3": {"output_size": 3}, "2": {"output_size": 2}}
        yield from each(f"Adaptive{kind}Pooling{rank}D", LAST[rank], adaptive)
        yield from each(
            f"Adaptive{kind}Pooling{rank}D",
            FIRST[rank],
            {"channels first": {"output_size": 2, "data_format": "channels_first"}},
        )
    yield from each(f"GlobalAveragePooling{rank}D", LAST[rank], {"open sizes": {}}, dims=(1,))


def _borders(rank: int) -> Iterator[Case]:
    sides: Any = {1: (1, 2), 2: ((1, 2), (0, 3)), 3: ((1, 2), (0, 3), (1, 1))}[rank]
    first = {} if rank == 1 else {"data_format": "channels_first"}
    yield from each(f"ZeroPadding{rank}D", LAST[rank], {"1": {"padding": 1}, "sides": {"padding": sides}})
    yield from each(f"Cropping{rank}D", LAST[rank], {"1": {"cropping": 1}, "sides": {"cropping": sides}})
    yield from each(f"UpSampling{rank}D", LAST[rank], {"2": {"size": 2}})
    if rank > 1:
        yield from each(f"ZeroPadding{rank}D", FIRST[rank], {"channels first": {"padding": sides, **first}})
        yield from each(f"Cropping{rank}D", FIRST[rank], {"channels first": {"cropping": 1, **first}})
        yield from each(f"UpSampling{rank}D", FIRST[rank], {"channels first": {"size": 2, **first}})
    else:
        yield from each(
            "ZeroPadding1D", FIRST[1], {"channels first": {"padding": (1, 2), "data_format": "channels_first"}}
        )
    if rank == 2:
        ways = ("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5")
        yield from each(
            "UpSampling2D", IMAGE, {f"{way} oblong": {"size": (2, 3), "interpolation": way} for way in ways}
        )


def _quantised() -> Iterator[Case]:
    def quantised(layer: Any, mode: str) -> Any:
        layer.build((None, 6) if isinstance(layer, L.Dense) else (None, 7, 4))
        layer.quantize(mode)
        return layer

    for mode in ("int8", "float8", "int4"):
        yield Case("Dense", f"quantised to {mode}", lambda mode=mode: quantised(L.Dense(5), mode), VECTOR)
        yield Case(
            "EinsumDense",
            f"quantised to {mode}",
            lambda mode=mode: quantised(L.EinsumDense("abc,cd->abd", (None, 5), bias_axes="d"), mode),
            SERIES,
        )
    for mode in ("int8", "float8"):
        policies = {"Dense": lambda mode=mode: L.Dense(5, dtype=f"{mode}_from_float32")}
        yield Case("Dense", f"{mode}_from_float32, relu", policies["Dense"], VECTOR)


def _precisions() -> Iterator[Case]:
    for policy in ("mixed_float16", "mixed_bfloat16", "float16", "bfloat16", "float64"):
        yield Case("Dense", policy, lambda: L.Dense(5, activation="relu"), VECTOR, policy=policy)
        yield Case("Conv2D", policy, lambda: L.Conv2D(4, 3, padding="same"), IMAGE, policy=policy)
        yield Case("LSTM", policy, lambda: L.LSTM(4), SERIES, policy=policy)
        yield Case("LayerNormalization", policy, lambda: L.LayerNormalization(), SERIES, policy=policy)
        yield Case("BatchNormalization", policy, lambda: L.BatchNormalization(), IMAGE, policy=policy)
        yield Case(
            "MultiHeadAttention",
            policy,
            lambda: lambda x: L.MultiHeadAttention(2, 3)(x, x),
            floats(4, 6),
            policy=policy,
        )
