"""Which framework a live model belongs to, without importing any."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from onnxport.errors import InvalidModelError
from onnxport.frameworks.descriptor import Framework
from onnxport.frameworks.files import of_path
from onnxport.frameworks.registry import discover, registered


def of_object(model: object, examples: Iterable[object] = ()) -> str:
    """The name of the framework of a live model, or of the file that a path names.

    A class counts as its bases do (a user's `torch.nn.Module` is PyTorch's); the most derived framework class decides, so
    that a Keras model is Keras though it is also a `tf.Module`. A plain callable belongs to the framework of `examples`,
    else to the only tensor framework that is imported.

    Raises:
        InvalidModelError: it is a class, or no model of a known framework.
    """
    if isinstance(model, (str, os.PathLike)):
        return of_path(model)
    if model is None:
        raise InvalidModelError("None is given for a model: the function that makes it may lack its return")
    if isinstance(model, type):
        raise InvalidModelError(f"{model.__qualname__} is a class: give a model of it, {model.__qualname__}(...)")
    owner = owner_of(type(model))
    if owner is None and _is_foreign(type(model)):
        discover()
        owner = owner_of(type(model))
    framework = owner or next((item for item in registered() if item.recognises(model)), None)
    if framework is not None:
        return framework.name
    if callable(model):
        return _of_callable(model, examples)
    if isinstance(model, dict) and model and all(hasattr(item, "shape") for item in model.values()):
        raise InvalidModelError(
            f"a dict of {len(model)} tensors ({next(iter(model))!r}, ...) holds weights, not a model: build the module, load "
            "them with module.load_state_dict(...), and convert the module"
        )
    if isinstance(model, dict) and model:
        keys = ", ".join(map(repr, list(model)[:5]))
        raise InvalidModelError(
            f"a dict of {keys} is no model: build the model that it belongs to, load its weights into it "
            "(module.load_state_dict(...), model.set_weights(...)), and convert the model"
        )
    if isinstance(model, (list, tuple)):
        kinds = ", ".join(type(item).__name__ for item in model[:5])
        raise InvalidModelError(
            f"a {type(model).__name__} of {kinds or 'nothing'} is no model: pass one model at a time"
        )
    if isinstance(model, (bytes, bytearray)):
        raise InvalidModelError(
            f"{len(model)} bytes are no model: pass the path of their file, or of ONNX onnx.load_model_from_string(data)"
        )
    raise InvalidModelError(
        f"{type(model).__module__}.{type(model).__qualname__} is no model of a framework that onnxport knows: "
        "give a module, a function of tensors, an estimator, an ONNX model, or the path of a file of one"
    )


def owner_of(kind: type) -> Framework | None:
    """The framework that a class or, where none does, its nearest base belongs to."""
    for base in kind.__mro__:
        for framework in registered():
            if base.__module__ in framework.owners or base.__module__.partition(".")[0] in framework.owners:
                return framework
    return None


def _is_foreign(kind: type) -> bool:
    """Whether a class may be that of a framework not loaded yet: it or a base comes from outside the standard library."""
    return any(base.__module__.partition(".")[0] not in sys.stdlib_module_names for base in kind.__mro__)


def _of_callable(model: object, examples: Iterable[object]) -> str:
    """The framework that traces a plain callable."""
    frameworks = [item for item in registered() if item.tensor]
    for example in examples:
        package = type(example).__module__.partition(".")[0]
        for framework in frameworks:
            if package in framework.owners:
                return framework.name
    imported = [item for item in frameworks if item.package in sys.modules]
    if len(imported) == 1:
        return imported[0].name
    tensors = " or ".join(item.tensor for item in frameworks)
    name = getattr(model, "__qualname__", type(model).__qualname__)
    raise InvalidModelError(
        f"{name} is a plain callable: pass inputs=(...) as {tensors} to say which framework traces it"
    )
