"""Cases of preprocessing: of numbers, categories, text, images and sound; and of layers that wrap another library's model."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers as L

from scripts.conformance.keras_cases import IMAGE, PIXELS, SERIES, VECTOR, Case, each, floats, whole

WORDS = np.array([["a", "zebra"], ["b", "a"], ["c", "xyz"]], dtype=object)
LINES = np.array(["The quick, brown fox!", "a b  c", "Fox a the"], dtype=object)
# Augmentations, which do nothing or a fixed thing when a model is not trained.
RANDOM: dict[str, dict[str, dict[str, Any]]] = {
    "AugMix": {"": {}},
    "AutoContrast": {"": {}, "range": {"value_range": (0, 255)}},
    "ContrastLimitedAdaptiveHistogramEqualization": {"": {}},
    "Equalization": {"": {}},
    "RandAugment": {"": {}},
    "RandomBrightness": {"": {"factor": 0.2}},
    "RandomColorDegeneration": {"": {"factor": 0.2}},
    "RandomColorJitter": {"": {}},
    "RandomContrast": {"": {"factor": 0.2}},
    "RandomCrop": {"": {"height": 5, "width": 4}, "larger": {"height": 12, "width": 4}},
    "RandomElasticTransform": {"": {}},
    "RandomErasing": {"": {}},
    "RandomFlip": {"": {}, "vertical": {"mode": "vertical"}},
    "RandomGaussianBlur": {"": {}},
    "RandomGrayscale": {"": {}},
    "RandomHue": {"": {"factor": 0.2}},
    "RandomInvert": {"": {}},
    "RandomPerspective": {"": {}},
    "RandomPosterization": {"": {"factor": 4}},
    "RandomRotation": {"": {"factor": 0.2}},
    "RandomSaturation": {"": {"factor": 0.2}},
    "RandomSharpness": {"": {"factor": 0.2}},
    "RandomShear": {"": {}},
    "RandomTranslation": {"": {"height_factor": 0.1, "width_factor": 0.1}},
    "RandomZoom": {"": {"height_factor": 0.1}},
    "Solarization": {"": {"addition_factor": 0.2, "threshold_factor": 0.5}},
}


def adapted(layer: Any, data: Any) -> Any:
    """The layer after it saw the data."""
    layer.adapt(data)
    return layer


def cases() -> Iterator[Case]:
    """All of them."""
    for part in (_numbers, _categories, _text, _images, _sound, _wrappers):
        yield from part()


def _numbers() -> Iterator[Case]:
    rows: dict[str, dict[str, Any]] = {
        "given": {"mean": [1.0, 2.0, 3.0, 4.0], "variance": [1.0, 2.0, 1.5, 3.0]},
        "inverted": {"mean": 1.0, "variance": 2.0, "invert": True},
        "axis None": {"axis": None, "mean": 0.5, "variance": 2.0},
    }
    yield from each("Normalization", SERIES, rows)
    yield Case("Normalization", "adapted", lambda: adapted(L.Normalization(), SERIES), SERIES)
    yield Case("Normalization", "adapted, axis 1", lambda: adapted(L.Normalization(axis=1), SERIES), SERIES)
    yield Case(
        "Normalization",
        "adapted, sequential",
        lambda: [adapted(L.Normalization(), VECTOR), L.Dense(3)],
        VECTOR,
        form="sequential",
    )
    yield from each("Rescaling", PIXELS, {"": {"scale": 1 / 127.5, "offset": -1}})
    yield from each("Rescaling", whole(9, 8, 3, high=255, dtype="uint8"), {"bytes": {"scale": 1 / 255}})
    yield from each("Rescaling", IMAGE, {"channels": {"scale": [1.0, 2.0, 3.0], "offset": [0.0, 1.0, 2.0]}})
    bounds = [-1.0, 0.0, 0.5]
    yield from each("Discretization", SERIES, {"": {"bin_boundaries": bounds}})
    for mode in ("one_hot", "multi_hot", "count"):
        yield from each(
            "Discretization",
            floats(1 if mode == "one_hot" else 3),
            {mode: {"bin_boundaries": bounds, "output_mode": mode}},
        )
    yield Case("Discretization", "adapted", lambda: adapted(L.Discretization(num_bins=4), SERIES), SERIES)


def _categories() -> Iterator[Case]:
    for mode in ("one_hot", "multi_hot", "count"):
        data = whole(1) if mode == "one_hot" else whole(4)
        yield from each("CategoryEncoding", data, {mode: {"num_tokens": 7, "output_mode": mode}})
    yield from each("CategoryEncoding", whole(4), {"one_hot of several": {"num_tokens": 7, "output_mode": "one_hot"}})
    yield Case(
        "CategoryEncoding",
        "count weights",
        lambda: L.CategoryEncoding(7, output_mode="count"),
        (whole(4),),
        form="layer",
        kwargs={"count_weights": floats(4)},
    )
    numbers = whole(3, dtype="int64")
    rows: dict[str, dict[str, Any]] = {
        "": {},
        "two unknowns": {"num_oov_indices": 2},
        "mask": {"mask_token": 0},
        "inverted": {"invert": True},
        "no unknowns": {"num_oov_indices": 0, "vocabulary": list(range(8))},
    }
    yield from each("IntegerLookup", numbers, {label: {"vocabulary": [3, 5, 1], **row} for label, row in rows.items()})
    for mode in ("multi_hot", "count"):
        yield from each("IntegerLookup", numbers, {mode: {"vocabulary": [3, 5, 1], "output_mode": mode}})
    yield from each("IntegerLookup", numbers[:, :1], {"one_hot": {"vocabulary": [3, 5, 1], "output_mode": "one_hot"}})
    yield Case("IntegerLookup", "adapted", lambda: adapted(L.IntegerLookup(), numbers), numbers)
    yield from each(
        "StringLookup",
        WORDS,
        {
            label: {"vocabulary": ["a", "b"], **row}
            for label, row in {
                "": {},
                "mask": {"mask_token": ""},
                "multi_hot": {"output_mode": "multi_hot"},
                "count": {"output_mode": "count"},
                "two unknowns": {"num_oov_indices": 2},
            }.items()
        },
    )
    yield from each("StringLookup", WORDS[:, :1], {"one_hot": {"vocabulary": ["a", "b"], "output_mode": "one_hot"}})
    yield from each(
        "StringLookup",
        WORDS,
        {"tf_idf": {"vocabulary": ["a", "b"], "idf_weights": [0.5, 0.7], "output_mode": "tf_idf"}},
    )
    yield from each(
        "StringLookup", whole(3, high=3, dtype="int64"), {"inverted": {"vocabulary": ["a", "b"], "invert": True}}
    )
    yield Case("StringLookup", "adapted", lambda: adapted(L.StringLookup(), WORDS), WORDS)
    yield from each(
        "Hashing", whole(3, high=99, dtype="int64"), {"integers": {"num_bins": 5}, "salt": {"num_bins": 5, "salt": 133}}
    )
    yield from each(
        "Hashing", whole(3, high=99, dtype="int64"), {"multi_hot": {"num_bins": 5, "output_mode": "multi_hot"}}
    )
    yield from each("Hashing", WORDS, {"strings": {"num_bins": 5}, "mask": {"num_bins": 5, "mask_value": "a"}})
    yield from each("Hashing", WORDS, {"strings, salt": {"num_bins": 5, "salt": [133, 137]}})
    crossed = (WORDS[:, :1], whole(1, high=9, dtype="int64"))
    yield from each(
        "HashedCrossing", crossed, {"": {"num_bins": 5}, "one_hot": {"num_bins": 5, "output_mode": "one_hot"}}
    )
    integers = (whole(1, high=9, dtype="int64"), whole(1, high=9, dtype="int64"))
    yield from each("HashedCrossing", integers, {"integers": {"num_bins": 5}})


def _text() -> Iterator[Case]:
    words = ["the", "fox", "a", "b"]
    rows: dict[str, dict[str, Any]] = {
        "": {},
        "fixed length": {"output_sequence_length": 6},
        "lower": {"standardize": "lower", "output_sequence_length": 4},
        "no standardization": {"standardize": None},
        "strip": {"standardize": "strip_punctuation"},
        "multi_hot": {"output_mode": "multi_hot"},
        "count": {"output_mode": "count"},
        "characters": {"split": "character", "output_sequence_length": 9},
        "bigrams": {"ngrams": 2},
        "tf_idf": {"output_mode": "tf_idf", "idf_weights": [0.5, 0.6, 0.7, 0.8]},
    }
    yield from each("TextVectorization", LINES, {label: {"vocabulary": words, **row} for label, row in rows.items()})
    yield Case("TextVectorization", "adapted", lambda: adapted(L.TextVectorization(), LINES), LINES)
    yield Case(
        "TextVectorization",
        "classifier",
        lambda: [
            adapted(L.TextVectorization(output_sequence_length=6), LINES),
            L.Embedding(20, 4),
            L.GlobalAveragePooling1D(),
            L.Dense(2),
        ],
        LINES[:, None],
        form="sequential",
    )


def _images() -> Iterator[Case]:
    for name, rows in RANDOM.items():
        yield from each(name, PIXELS, rows)
    yield Case(
        "RandomFlip",
        "sequential",
        lambda: [L.RandomFlip(), L.RandomRotation(0.1), L.Conv2D(2, 3)],
        PIXELS,
        form="sequential",
    )
    yield from each("CenterCrop", PIXELS, {"": {"height": 5, "width": 4}, "larger": {"height": 12, "width": 4}})
    ways = ("bilinear", "nearest", "bicubic", "lanczos3", "lanczos5")
    yield from each("Resizing", PIXELS, {way: {"height": 5, "width": 11, "interpolation": way} for way in ways})
    yield from each(
        "Resizing",
        PIXELS,
        {
            "larger": {"height": 20, "width": 17},
            "antialias": {"height": 4, "width": 3, "antialias": True},
            "cropped": {"height": 5, "width": 11, "crop_to_aspect_ratio": True},
            "padded": {"height": 5, "width": 11, "pad_to_aspect_ratio": True},
        },
    )
    yield from each(
        "Resizing",
        np.moveaxis(PIXELS, -1, 1),
        {"channels first": {"height": 5, "width": 11, "data_format": "channels_first"}},
    )
    yield from each("Resizing", PIXELS, {"open sizes": {"height": 5, "width": 11}}, dims=(1, 2))
    yield Case("Resizing", "one image", lambda: L.Resizing(5, 11), (PIXELS[0],), form="layer", batched=False)
    yield Case("Pipeline", "two", lambda: L.Pipeline([L.Rescaling(0.5), L.Resizing(4, 4)]), PIXELS)
    yield Case(
        "Pipeline",
        "augmentation",
        lambda: L.Pipeline([L.RandomFlip(), L.RandomBrightness(0.1)]),
        (PIXELS,),
        form="layer",
    )
    labels = np.eye(4, dtype=np.float32)[:3]
    for name in ("CutMix", "MixUp"):
        yield from each(name, ({"images": PIXELS, "labels": labels},), {"": {}}, form="layer")
    boxes = {"boxes": floats(4, 4, low=0.0, high=5.0), "labels": whole(4, high=3)}
    yield from each(
        "MaxNumBoundingBoxes", ({"images": PIXELS, "bounding_boxes": boxes},), {"": {"max_number": 6}}, form="layer"
    )


def _sound() -> Iterator[Case]:
    sound = floats(256)
    yield from each(
        "MelSpectrogram",
        sound,
        {"": {"fft_length": 64, "sequence_stride": 16, "sampling_rate": 8000, "num_mel_bins": 12}},
    )
    yield from each(
        "MelSpectrogram",
        sound,
        {
            "power 1": {
                "fft_length": 64,
                "sequence_stride": 16,
                "sampling_rate": 8000,
                "num_mel_bins": 8,
                "power_to_db": False,
            }
        },
    )
    for mode in ("magnitude", "log", "psd", "real", "imag", "angle", "stft"):
        yield from each(
            "STFTSpectrogram",
            sound[..., None],
            {mode: {"mode": mode, "frame_length": 32, "frame_step": 16, "fft_length": 32}},
        )
    yield from each(
        "STFTSpectrogram",
        sound[..., None],
        {"padded": {"mode": "magnitude", "frame_length": 32, "frame_step": 8, "padding": "same"}},
    )


def _wrappers() -> Iterator[Case]:
    backend = keras.backend.backend()
    if backend == "tensorflow":
        yield Case("TFSMLayer", "of model.export", _saved, VECTOR)
    if backend == "jax":
        yield Case("JaxLayer", "with parameters", _jax, VECTOR)
    if backend == "torch":
        yield Case("TorchModuleWrapper", "linear", _torch, VECTOR)


def _saved() -> Any:
    folder = Path(tempfile.mkdtemp()) / "saved"
    inner = keras.Sequential([keras.Input((6,)), L.Dense(3, activation="relu")])
    inner.export(folder, verbose=False)
    return L.TFSMLayer(str(folder), call_endpoint="serve")


def _jax() -> Any:
    import jax.numpy as jnp

    def call(params: Any, inputs: Any) -> Any:
        return jnp.tanh(inputs @ params["w"]) + params["b"]

    return L.JaxLayer(call_fn=call, params={"w": jnp.ones((6, 3)) * 0.3, "b": jnp.arange(3.0)})


def _torch() -> Any:
    import torch

    return L.TorchModuleWrapper(torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.BatchNorm1d(4)))
