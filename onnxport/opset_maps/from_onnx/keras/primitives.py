"""The layers of an imported Keras model that Keras itself does not have; registered, so that the model can be saved and loaded.

They are registered under the package name ``onnxport`` when this module is imported, which users do by ``import onnxport.keras``.
"""

from __future__ import annotations

import keyword
import os
import re
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, cast

import keras
import numpy as np
import onnx_ir as ir
from keras.src.backend.common import global_state
from keras.src.saving import serialization_lib

from onnxport.errors import UnsupportedOperator
from onnxport.frameworks.recursion import deep_recursion
from onnxport.opset_maps.from_onnx.axes import part
from onnxport.opset_maps.from_onnx.keras.backend import (
    PACKAGE,
    backend_arrays,
    backend_primitive,
    scope_name,
    without_autocast,
)
from onnxport.opset_maps.from_onnx.keras.coding import Constant, Slot, decode, replaced
from onnxport.opset_maps.from_onnx.keras.outputs import form_of, has_maps, has_only_names, leaves_of, of_form, places_of
from onnxport.opset_maps.from_onnx.keras.run_time import RunTimeOperator
from onnxport.opset_maps.from_onnx.keras.stages import in_stages
from onnxport.opset_maps.from_onnx.keras.whole import RunTimeModel as RunTimeModel  # which registers it
from onnxport.opset_maps.from_onnx.layout import LAST
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.primitives.control import Iteration
from onnxport.opset_maps.from_onnx.values import Ints, Tensor, carrier, known, object_array

_SHARED = "shared_objects/id_to_obj_map"  # what Keras has built so far of a file, where it keeps it


def _axis_size(xp: Namespace, x: Tensor, axis: int) -> Tensor:
    n = xp.shape(x)[axis]
    # The dynamic ints of both backends are tensors.
    return xp.constant(np.asarray(n, np.int64)) if known(n) else cast(Tensor, n)


def _element(xp: Namespace, x: Tensor, index: int) -> Tensor:
    return xp.astype(part(xp, x, 0, index), ir.DataType.INT64)


def _same(xp: Namespace, x: Tensor) -> Tensor:
    if keras.backend.backend() == "torch":
        return keras.ops.copy(x)
    import tensorflow as tf

    return tf.identity(x)


# Keras reads a functional model of its own by one call a layer, of which Python allows a thousand; ours may be deeper.
_DEEPEST = 800

# What the namespace needs beyond the primitives.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "axis_size": _axis_size,
    "element": _element,
    "int": lambda xp, x: xp.astype(x, ir.DataType.INT64),
    "vector": lambda xp, items, shape, dtype: xp.from_host(object_array(list(items), tuple(shape)), dtype),
    "identity": _same,
    "given": lambda xp, anchor, constant: constant,
    "uniform": lambda xp, anchor, *args: xp.random("uniform", *args),
    "normal": lambda xp, anchor, *args: xp.random("normal", *args),
}


@keras.saving.register_keras_serializable(package=PACKAGE)
class Primitive(keras.layers.Layer):
    """One primitive of the array namespace.

    Args:
        function: the primitive's name.
        arguments: its positional arguments as JSON (`coding.encode`), the layer's inputs by their places.
        keywords: its keyword arguments, likewise.
    """

    def __init__(self, function: str, arguments: object, keywords: object, **kwargs: object) -> None:
        super().__init__(autocast=False, **kwargs)
        is_primitive = function in LAST or (hasattr(Namespace, function) and not function.startswith("_"))
        if function not in FUNCTIONS and not is_primitive:
            raise UnsupportedOperator(f"{function!r} is no primitive of onnxport")
        self.function = function
        self.arguments = arguments
        self.keywords = keywords
        self._decoded = decode(arguments), decode(keywords)
        self.supports_masking = True

    def call(self, *tensors: keras.KerasTensor) -> Any:
        """The primitive's result."""
        xp = backend_arrays()

        def content(item: Slot | Constant) -> Any:
            return tensors[item.index] if isinstance(item, Slot) else xp.constant(item.array)

        args, kwargs = replaced(self._decoded, lambda item: isinstance(item, (Slot, Constant)), content)
        own = FUNCTIONS.get(self.function)
        return own(xp, *args, **kwargs) if own is not None else backend_primitive(xp, self.function)(*args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """What the constructor takes."""
        own = {"function": self.function, "arguments": self.arguments, "keywords": self.keywords}
        return {**without_autocast(super().get_config()), **own}


@keras.saving.register_keras_serializable(package=PACKAGE)
class Weight(keras.layers.Layer):
    """A weight of the model that no layer of Keras' own holds.

    Called with any tensor, which only connects it to the model's graph, it gives the weight.

    Args:
        shape: the weight's shape.
        element_type: its element type.
        weight_name: its name in the ONNX model.
    """

    def __init__(self, shape: Ints, element_type: str, weight_name: str = "", **kwargs: object) -> None:
        super().__init__(autocast=False, **kwargs)
        self.shape, self.element_type, self.weight_name = tuple(shape), element_type, weight_name
        self.value = self.add_weight(
            name=scope_name(weight_name) or "value",
            shape=self.shape,
            dtype=element_type,
            initializer="zeros",
            trainable=self.trainable,
            autocast=False,
        )
        self.built = True
        self.supports_masking = True

    def call(self, anchor: keras.KerasTensor) -> Any:
        """The weight."""
        return keras.ops.convert_to_tensor(self.value.value)

    def get_config(self) -> dict[str, Any]:
        """What the constructor takes."""
        own = {"shape": self.shape, "element_type": self.element_type, "weight_name": self.weight_name}
        return {**without_autocast(super().get_config()), **own}


@keras.saving.register_keras_serializable(package=PACKAGE)
class Branches(keras.layers.Layer):
    """ONNX's If: one of two models, each on its own of the layer's inputs behind the condition.

    Args:
        models: the models of the branches, then and else.
        inputs_of: for each branch which inputs it takes.
    """

    def __init__(self, models: Sequence[Any], inputs_of: Sequence[Ints], **kwargs: object) -> None:
        super().__init__(autocast=False, **kwargs)
        self.then_branch, self.else_branch = models
        self.inputs_of = [list(places) for places in inputs_of]
        self.built = True

    def call(self, condition: keras.KerasTensor, *captured: keras.KerasTensor) -> Any:
        """The results of the branch that the condition names."""

        def branch(model: keras.Model, places: Ints) -> Callable[[], tuple[Any, ...]]:
            return lambda: results_of(model([captured[i] for i in places]))

        then_places, else_places = self.inputs_of
        branches: Any = branch(self.then_branch, then_places), branch(self.else_branch, else_places)
        return backend_arrays().cond(condition, *branches)

    def compute_output_spec(self, condition: keras.KerasTensor, *captured: keras.KerasTensor) -> Any:
        """What both branches give; a size in which they differ is not known."""
        specs = []
        for one, other in zip(self.then_branch.outputs, self.else_branch.outputs, strict=True):
            shape = tuple(m if m == n else None for m, n in zip(one.shape, other.shape, strict=True))
            specs.append(keras.KerasTensor(shape, dtype=one.dtype))
        return tuple(specs)

    def get_config(self) -> dict[str, Any]:
        """What the constructor takes."""
        models = [_body_config(model) for model in (self.then_branch, self.else_branch)]
        return {**without_autocast(super().get_config()), "models": models, "inputs_of": self.inputs_of}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Branches:
        """The layer of a configuration."""
        models = [keras.saving.deserialize_keras_object(item) for item in config.pop("models")]
        return cls(models=models, **config)


@keras.saving.register_keras_serializable(package=PACKAGE)
class Loop(keras.layers.Layer):
    """ONNX's Loop: a model run again and again on values that it gives itself.

    The layer's inputs are the trip count and the first condition, where there are any, the carried values, and what the body
    takes from outside.

    Args:
        body: the model; its inputs are iteration, condition, carried values and those from outside.
        carried: how many values are carried.
        scanned: how many elements each iteration gives to be stacked.
        trips: greatest number of iterations, None where the first input holds it or there is no limit.
        has_trips: whether the first input holds it.
        has_condition: whether the next input is the first condition.
    """

    def __init__(
        self,
        body: keras.Model,
        carried: int,
        scanned: int,
        trips: int | None,
        has_trips: bool,
        has_condition: bool,
        **kwargs: object,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.body, self.carried, self.scanned, self.trips = body, carried, scanned, trips
        self.has_trips, self.has_condition = has_trips, has_condition
        self.built = True

    def call(self, *inputs: keras.KerasTensor) -> Any:
        """The carried values at the end and the stacked elements."""
        rest = list(inputs)
        trips = rest.pop(0) if self.has_trips else self.trips
        condition = rest.pop(0) if self.has_condition else None
        carried, captured = rest[: self.carried], rest[self.carried :]

        def step(i: keras.KerasTensor, going: keras.KerasTensor, *values: keras.KerasTensor) -> tuple[Any, ...]:
            return results_of(self.body([i, going, *values, *captured]))

        return backend_arrays().loop(trips, condition, carried, Iteration(step, self.scanned, [None] * self.carried))

    def get_config(self) -> dict[str, Any]:
        """What the constructor takes."""
        own = {
            "body": _body_config(self.body),
            "carried": self.carried,
            "scanned": self.scanned,
            "trips": self.trips,
            "has_trips": self.has_trips,
            "has_condition": self.has_condition,
        }
        return {**without_autocast(super().get_config()), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Loop:
        """The layer of a configuration."""
        return cls(body=keras.saving.deserialize_keras_object(config.pop("body")), **config)


def _body_config(model: keras.Model) -> dict[str, Any]:
    """The configuration of a body, which tells what layers it may share: Keras marks them in a copy that is not written."""
    config: dict[str, Any] = keras.saving.serialize_keras_object(model)
    for item, layer in zip(config["config"]["layers"], model.operations, strict=True):
        if getattr(layer, "weights", None):
            item["shared_object_id"] = id(layer)
    return config


def results_of(result: object) -> tuple[Any, ...]:
    """What a layer or model gives, as a tuple."""
    return tuple(result) if isinstance(result, (list, tuple)) else (result,)


@keras.saving.register_keras_serializable(package=PACKAGE)
class OnnxModel(keras.Model):
    """A functional model that is called as the ONNX graph is: its inputs one after the other, a tuple of several outputs.

    A list of the inputs, which Keras' own methods pass, is taken too.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        with deep_recursion():
            super().__init__(*args, **kwargs)
        if self._waits():
            self.run_eagerly = True

    def __call__(self, *inputs: object, **kwargs: object) -> Any:
        """The outputs, in graph order."""
        inputs = tuple(_in_held_type(item) for item in inputs)
        several = len(inputs) > 1 and len(inputs) == len(self.inputs)
        args = (list(inputs),) if several else inputs
        result = super().__call__(*args, **kwargs)
        return tuple(result) if isinstance(result, list) else result

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """As Keras compiles; a model with an operator that is resolved when it runs is run eagerly."""
        super().compile(*args, **({**kwargs, "run_eagerly": True} if self._waits() else kwargs))

    def _waits(self) -> bool:
        return any(isinstance(layer, RunTimeOperator) for layer in self._flatten_layers())

    def save(self, filepath: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Writes a file: a functional model of Keras' own, which loads without onnxport, where every layer is Keras' own."""
        if not is_keras_own(self):
            super().save(filepath, *args, **kwargs)
            return
        if len(self._nodes_by_depth) > _DEEPEST:
            with in_stages(self, _DEEPEST // 2) as plain:
                if plain is None or self.compiled:  # what an optimizer holds is in the order of the model's own layers
                    super().save(filepath, *args, **kwargs)
                else:
                    plain.save(filepath, *args, **kwargs)
            return
        plain = keras.Model(self._inputs_struct, self._outputs_struct, name=self.name)
        plain.trainable = self.trainable
        if self.compiled:
            plain.compile_from_config(self.get_compile_config())
            plain.optimizer = self.optimizer
        plain.save(filepath, *args, **kwargs)

    def export(self, filepath: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Writes what serves the model: its arguments have the names of the inputs where Python takes them, maps are columns.

        What it gives lies side by side: a signature of TensorFlow has no sequences within its outputs.
        """
        parts = self._outputs_struct if isinstance(self._outputs_struct, (list, tuple)) else []
        if has_maps(self._outputs_struct) or any(isinstance(part, (list, tuple)) for part in parts):
            flat = OnnxModel(self._inputs_struct, leaves_of(self._outputs_struct), name=self.name)
            flat.export(filepath, *args, **kwargs)
            return
        if (
            not args
            and kwargs.get("format", "tf_saved_model") == "tf_saved_model"
            and not kwargs.get("input_signature")
        ):
            names = argument_names([item.name for item in self.inputs])
            specs = [
                keras.layers.InputSpec(dtype=item.dtype, shape=item.shape, name=name)
                for item, name in zip(self.inputs, names, strict=True)
            ]
            kwargs["input_signature"] = [specs if len(specs) > 1 else specs[0]]
        super().export(filepath, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """What the constructor takes; of maps apart from their tensors, since a key of JSON is always text."""
        config = super().get_config()
        if has_maps(self._outputs_struct):
            config["output_form"] = form_of(self._outputs_struct)
            config["output_layers"] = places_of(config["output_layers"])
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> OnnxModel:
        """The model of a configuration."""
        form = config.pop("output_form", None)
        if form is not None:
            config["output_layers"] = of_form(form, config["output_layers"])
        return super().from_config(_counted_on(config, custom_objects), custom_objects)


def _counted_on(config: dict[str, Any], custom_objects: dict[str, Any] | None) -> dict[str, Any]:
    """The configuration of a model, its layers' calls counted from those that they have had already.

    The bodies of an If or Loop may share a layer. Keras counts its calls anew in each body, and looks them up among all.
    """
    if global_state.get_global_attribute(_SHARED) is None:  # nothing is shared
        return config
    layers: dict[str, keras.Operation] = {}
    for place, item in enumerate(config["layers"]):
        item.setdefault("shared_object_id", f"{id(config)}/{place}")  # Keras gets the same one when it asks for it
        layers[item["name"]] = serialization_lib.deserialize_keras_object(item, custom_objects)
    # Inputs and models start with a call.
    others = {
        name: layer for name, layer in layers.items() if not isinstance(layer, (keras.layers.InputLayer, keras.Model))
    }
    calls = {name: len(layer._inbound_nodes) for name, layer in others.items() if layer._inbound_nodes}

    def moved(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: moved(part) for key, part in item.items()}
        if isinstance(item, (list, tuple)) and len(item) == 3 and isinstance(item[0], str) and item[0] in calls:
            return [item[0], item[1] + calls[item[0]], item[2]]
        return [moved(part) for part in item] if isinstance(item, (list, tuple)) else item

    if not calls:
        return config
    shifted = [{**layer, "inbound_nodes": moved(layer["inbound_nodes"])} for layer in config["layers"]]
    ends = {key: moved(config[key]) for key in ("input_layers", "output_layers")}
    return {**config, "layers": shifted, **ends}


def is_keras_own(model: keras.Model) -> bool:
    """Whether all operations of a functional model are classes of Keras, and what it gives has a form in Keras' files."""
    own = (type(item).__module__.partition(".")[0] == "keras" for item in model.operations)
    return has_only_names(model._outputs_struct) and all(own)


def argument_names(names: Sequence[str]) -> list[str]:
    """Names as arguments of a served function: letters, digits and underscores, each once.

    >>> argument_names(["x", "lambda", "a.b", "a:b", "self"])
    ['x', 'lambda_', 'a_b', 'a_b_1', 'self_']
    """
    taken: set[str] = set()
    result = []
    for name in names:
        text = re.sub(r"[^A-Za-z0-9_]", "_", name)
        text = text if text[:1].isalpha() else f"input_{text}"
        text = f"{text}_" if keyword.iskeyword(text) or text in ("self", "cls", "name") else text
        number = next(i for i in count() if (f"{text}_{i}" if i else text).lower() not in taken)
        result.append(f"{text}_{number}" if number else text)
        taken.add(result[-1].lower())
    return result


def _in_held_type(item: object) -> Any:
    """An array of an element type that Keras lacks in the one that it travels as."""
    if not isinstance(item, np.ndarray) or item.dtype.kind in "OUS":
        return item
    held = carrier(ir.DataType.from_numpy(item.dtype))
    return item if item.dtype.name == held else item.astype(held)
