"""Settings of all tests and doctests."""

import os
from collections.abc import Iterator

import pytest

from onnxport.opset_maps.maps import TO_ONNX

# TensorFlow reads these when it is imported; without them it writes its start-up notes between the results.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

FAMILIES = "onnxport.opset_maps."


@pytest.fixture(autouse=True)
def _maps_without_what_a_test_registered() -> Iterator[None]:
    """Takes back what a test or a doctest registered, so that no other test of the same process meets it."""
    before = {framework: dict(table._entries) for framework, table in TO_ONNX.items()}
    yield
    for framework, table in TO_ONNX.items():
        for key, entry in list(table._entries.items()):
            if not entry.function.__module__.startswith(FAMILIES):
                del table._entries[key]
                if key in before[framework]:
                    table._entries[key] = before[framework][key]
