"""Settings of all tests and doctests."""

import os
import zlib
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from onnxport import frameworks

# TensorFlow reads these when it is imported; without them it writes its start-up notes between the results.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
# pytest imports the package's files for their doctests; JAX is one of Keras' backends, and need not be there.
collect_ignore_glob = [] if find_spec("jax") else ["onnxport/validation/runners/jax_*.py"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--every-row``."""
    parser.addoption("--every-row", action="store_true", help="run every row of the tests that are marked `sampled`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test marked ``sampled(share)`` about that share of its rows runs, the same ones each time: those of low checksums."""
    if config.getoption("--every-row"):
        return
    left_out = []
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None and zlib.crc32(item.name.encode()) >= mark.args[0] * 2**32:
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        dropped = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in dropped]


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
