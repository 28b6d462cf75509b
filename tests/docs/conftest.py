import pytest

from onnxport.opset_maps import maps
from onnxport.opset_maps.registry import OpsetMap, Semantics


@pytest.fixture(autouse=True)
def without_entries_of_the_pages():
    """What a page registers is gone after it: tests of the maps look at all entries."""
    yield
    for table in vars(maps).values():
        if isinstance(table, OpsetMap):
            kept = {key: entry for key, entry in table._entries.items() if _is_ours(entry)}
        elif isinstance(table, Semantics):
            by_key = {key: [entry for entry in items if _is_ours(entry)] for key, items in table._entries.items()}
            kept = {key: items for key, items in by_key.items() if items}
        else:
            continue
        table._entries = kept


def _is_ours(entry):
    return entry.function.__module__.partition(".")[0] == "onnxport"
