"""The frameworks that models come from and go to, one descriptor each; nothing here imports a framework."""

from onnxport.frameworks.descriptor import HUB, Framework
from onnxport.frameworks.files import check_place, of_path
from onnxport.frameworks.objects import of_object, owner_of
from onnxport.frameworks.registry import (
    BUILT_IN,
    discover,
    get,
    register_framework,
    registered,
    require,
    unregister_framework,
)

__all__ = [
    "BUILT_IN",
    "HUB",
    "Framework",
    "check_place",
    "discover",
    "get",
    "of_object",
    "of_path",
    "owner_of",
    "register_framework",
    "registered",
    "require",
    "unregister_framework",
]
