"""Keras files that nobody vouches for: no code, no other file, no more memory than the file can fill."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest

import onnxport
from onnxport.errors import InvalidModelError, UntrustedFileError
from onnxport.tracing.keras import load_weights

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def network() -> keras.Model:
    inputs = keras.Input((4,), name="x")
    hidden = keras.layers.Dense(3, activation="relu", name="dense")(inputs)
    return keras.Model(inputs, keras.layers.Dense(2, name="head")(hidden))


@pytest.fixture(scope="module", params=[".keras", ".h5"])
def file(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    keras.utils.set_random_seed(0)
    place = tmp_path_factory.mktemp("model") / f"model{request.param}"
    network().save(place)
    return place


def edited(source: Path, folder: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    """The file with another configuration."""
    place = folder / source.name
    if source.suffix == ".keras":
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(place, "w") as new:
            for item in old.infolist():
                data = old.read(item)
                if item.filename == "config.json":
                    config = json.loads(data)
                    edit(config)
                    data = json.dumps(config).encode()
                new.writestr(item.filename, data)
        return place
    place.write_bytes(source.read_bytes())
    with h5py.File(place, "r+") as store:
        config = json.loads(store.attrs["model_config"])
        edit(config)
        store.attrs["model_config"] = json.dumps(config)
    return place


def layer(config: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in config["config"]["layers"] if item["class_name"] == "Dense")
    return found


def replaced(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda config: layer(config).update(values)


def function(module: str, name: str) -> Callable[[dict[str, Any]], None]:
    said = {"module": module, "class_name": "function", "config": name, "registered_name": name}
    return lambda config: layer(config)["config"].update(activation=said)


CODE = {"class_name": "__lambda__", "config": {"value": ["4wAAAAA=", None, None]}}
LAMBDA = {"name": "f", "function": ["4wAAAAA=", None, None], "function_type": "lambda"}
WORDS = {"name": "w", "vocabulary": "/etc/hostname"}

ATTACKS = {
    "lambda": replaced(class_name="Lambda", config={"name": "f", "function": CODE}),
    "old lambda": replaced(class_name="Lambda", config=LAMBDA),
    "activation": lambda config: layer(config)["config"].update(activation=CODE),
    "vocabulary": replaced(class_name="StringLookup", config=WORDS),
    "saved model": replaced(class_name="TFSMLayer", config={"filepath": "/tmp/model"}),
    "torch module": replaced(class_name="TorchModuleWrapper", config={"module": "gAJ9Lg=="}),
    "download": function("keras.utils", "get_file"),
    "load": function("keras.models", "load_model"),
    "deserialize": function("keras.layers", "deserialize"),
    "foreign function": function("os", "system"),
    "foreign class": replaced(module="antigravity", class_name="Layer", registered_name="Layer"),
    "other package": replaced(module="keras_hub.layers", class_name="Layer", registered_name="Layer"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_configurations_that_do_more_than_compute_are_refused(file: Path, tmp_path: Path, attack: str) -> None:
    place = edited(file, tmp_path, ATTACKS[attack])
    with pytest.raises(UntrustedFileError, match="--allow-") as caught:
        onnxport.convert(place)
    assert str(place) in str(caught.value)


def test_what_keras_saves_loads_without_consent(file: Path) -> None:
    model = onnxport.convert(file)
    expected = keras.saving.load_model(file, compile=False).predict(X, verbose=0)
    np.testing.assert_allclose(model(X), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        lambda config: layer(config)["config"].update(units=1 << 36),
        lambda config: [
            item["config"].update(units=1 << 17) for item in config["config"]["layers"] if item["class_name"] == "Dense"
        ],
        lambda config: layer(config).update(class_name="Nothing"),
        lambda config: layer(config).pop("config"),
        lambda config: layer(config).update(config=[]),
        lambda config: config.update(class_name=7),
    ],
    ids=["a vast layer", "vast layers", "no class", "no configuration", "a list", "a number"],
)
def test_damaged_configurations_say_so(file: Path, tmp_path: Path, change: Any) -> None:
    with pytest.raises(InvalidModelError, match="model"):
        onnxport.convert(edited(file, tmp_path, change))


def external_link(store: Any) -> None:
    store["other"] = h5py.ExternalLink("/etc/hostname", "/")


def external_data(store: Any) -> None:
    store.create_dataset("other", (2,), "f4", external=[("/etc/hostname", 0, 8)])


def virtual(store: Any) -> None:
    layout = h5py.VirtualLayout((2,), "f4")
    layout[:] = h5py.VirtualSource("/etc/hostname", "x", (2,))
    store.create_virtual_dataset("other", layout)


def soft_link(store: Any) -> None:
    store["other"] = h5py.SoftLink("/")


def packed(store: Any) -> None:
    store.create_dataset("other", (1 << 38,), "f4", chunks=(1 << 20,), compression="gzip")


STORES = {
    "external link": (external_link, UntrustedFileError),
    "external data": (external_data, UntrustedFileError),
    "virtual": (virtual, UntrustedFileError),
    "soft link": (soft_link, InvalidModelError),
    "packed": (packed, InvalidModelError),
}


@pytest.mark.parametrize("attack", STORES)
@pytest.mark.parametrize("suffix", [".h5", ".weights.h5"])
def test_stores_stay_inside_of_the_file(tmp_path: Path, attack: str, suffix: str) -> None:
    change, error = STORES[attack]
    place, model = tmp_path / f"model{suffix}", network()
    model.save(place) if suffix == ".h5" else model.save_weights(place)
    with h5py.File(place, "r+") as store:
        change(store)
    with pytest.raises(error, match="unpacks to" if attack == "packed" else "model"):
        onnxport.convert(place) if suffix == ".h5" else load_weights(model, place)


def test_archives_that_unpack_to_any_size_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "model.keras"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("config.json", b" " * (310 << 20))
    with pytest.raises(InvalidModelError, match="unpacks to"):
        onnxport.convert(place)


def test_archives_with_names_that_lead_out_are_refused(file: Path, tmp_path: Path) -> None:
    place = tmp_path / "model.keras"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("config.json", "{}")
        archive.writestr("assets/../../canary", "here")
    with pytest.raises(InvalidModelError, match="out of place"):
        onnxport.convert(place)
