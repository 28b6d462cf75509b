"""The frameworks that models come from and go to, one descriptor each; nothing here imports a framework."""

from onnxport.frameworks.descriptor import HUB as HUB
from onnxport.frameworks.descriptor import Framework as Framework
from onnxport.frameworks.files import check_place as check_place
from onnxport.frameworks.files import of_path as of_path
from onnxport.frameworks.objects import of_object as of_object
from onnxport.frameworks.objects import owner_of as owner_of
from onnxport.frameworks.registry import BUILT_IN as BUILT_IN
from onnxport.frameworks.registry import discover as discover
from onnxport.frameworks.registry import get as get
from onnxport.frameworks.registry import register_framework as register_framework
from onnxport.frameworks.registry import registered as registered
from onnxport.frameworks.registry import require as require
from onnxport.frameworks.registry import unregister_framework as unregister_framework
