"""What the frameworks' namespaces consist of: the families that `namespace.FAMILIES` lists, each in its own class."""

import importlib

import pytest

from onnxport.opset_maps.from_onnx.namespace import FAMILIES, Namespace

PREFIXES = {"pytorch": "Torch", "tensorflow": "TensorFlow"}
ROWS = [
    pytest.param(framework, prefix, family, marks=getattr(pytest.mark, framework), id=f"{framework}-{family.__name__}")
    for framework, prefix in PREFIXES.items()
    for family in FAMILIES
]


def primitives(family):
    return {name for name, item in vars(family).items() if callable(item) and not name.startswith("_")}


@pytest.mark.parametrize(("framework", "prefix", "family"), ROWS)
def test_a_framework_computes_a_family_in_the_class_named_after_it(framework, prefix, family):
    module = importlib.import_module(f"onnxport.opset_maps.from_onnx.{framework}.namespace")
    arrays = module.TorchNamespace if framework == "pytorch" else module.TensorFlowArrays
    classes = {item.__name__: item for item in arrays.__mro__}
    own = classes.get(f"{prefix}{family.__name__}", arrays)
    elsewhere = set().union(*(primitives(other) for other in FAMILIES if other is not family))
    assert not (primitives(own) & elsewhere) or own is arrays
    assert primitives(own) & primitives(family)


def test_every_primitive_belongs_to_one_family():
    names = [name for family in FAMILIES for name in primitives(family)]
    assert len(names) == len(set(names))
    assert all(hasattr(Namespace, name) for name in names)
