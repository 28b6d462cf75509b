"""Settings of all tests and doctests."""

import os
from collections.abc import Iterator

import pytest

from onnxport import frameworks

# TensorFlow reads these when it is imported; without them it writes its start-up notes between the results.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

FAMILIES = "onnxport.opset_maps."
# Its doctest registers an operator, of which nothing else knows.
EXTENDING = "onnxport.opset_maps.extending"
MAPS = [item.to_onnx_map() for item in frameworks.BUILT_IN if item.to_onnx_map is not None]


@pytest.fixture(autouse=True)
def _maps_without_what_a_test_registered() -> Iterator[None]:
    """Takes back what a test or a doctest registered, so that no other test of the same process meets it."""
    before = [dict(table._entries) for table in MAPS]
    yield
    for table, entries in zip(MAPS, before, strict=True):
        for key, entry in list(table._entries.items()):
            module = entry.function.__module__
            if module == EXTENDING or not module.startswith(FAMILIES):
                del table._entries[key]
                if key in entries:
                    table._entries[key] = entries[key]
