"""What PyTorch's exporter gives, as ours gives it: a model that is called with tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onnxport.compat.absent import AbsentNameError
from onnxport.compat.arguments import by_name
from onnxport.errors import InvalidInputError
from onnxport.frameworks.descriptor import Lazy
from onnxport.graph.external_data import save as save_file
from onnxport.model import OnnxModel
from onnxport.validation.values import leaves_of

NAME = "torch_onnx_export"  # what errors call the exporter
# Attributes of PyTorch's programs that are not here, and what does their work.
_INSTEAD = {
    "exported_program": "torch.export.export(module, args)",
    "compute_values": "program.cut(outputs=[name]), called with the inputs,",
    "call_reference": "onnx.reference.ReferenceEvaluator(program.model_proto)",
    "adapt_torch_inputs_to_onnx": "a call of the program with the module's own inputs",
    "adapt_torch_outputs_to_onnx": "a call of the module",
    "model_signature": "program.input_names and program.output_names",
    "diagnostic_context": "program.report",
    "to_tensor_inputs": "a call of the program with the module's own inputs",
}


class Program(OnnxModel):
    """What `export` gives: an `OnnxModel` with the attributes that programs of ``torch.onnx`` have too.

    It is called with tensors, as the module is, and gives a tuple of tensors.
    """

    again: Callable[[Mapping[str, Any]], OnnxModel] | None = None  # the export with the weights of a state

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "again"}

    def __getattr__(self, name: str) -> Any:
        if name in _INSTEAD:
            raise AbsentNameError(f"{NAME}: a program has no {name} here: {_INSTEAD[name]} does its work")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def model_proto(self) -> Any:
        """The model as a protobuf message."""
        return self.proto

    def optimize(self) -> None:
        """Changes nothing: the graph was written without what it does not need."""

    def apply_weights(self, state_dict: Mapping[str, Any]) -> None:
        """Takes the values of weights from a state of the module, which is converted and proved again with them.

        A weight may stand in the graph in another layout than in the module, so that nothing less is safe. Names that the
        module lacks are left out.

        Raises:
            InvalidInputError: a weight has another shape, or what was exported takes no weights.
            OnnxportError: see `onnxport.convert`.
        """
        if self.again is None:
            raise refused("apply_weights: the module is not at hand any more: export it again with its weights")
        result = self.again(state_dict)
        self.model, self.report, self.notes = result.model, result.report, result.notes
        self.release()

    def rename_axes(self, rename_mapping: Mapping[Any, str]) -> None:
        """Gives dimensions that vary other names."""
        names = {getattr(old, "value", old): new for old, new in rename_mapping.items()}
        self.model = self.set_shapes({old: new for old, new in names.items() if old != new}).model
        self.release()

    def initialize_inference_session(self, *_: object, **__: object) -> None:
        """Loads the model into its runtime, as the first call does."""
        self.new_session()

    def release(self) -> None:
        """Lets go of the runtime's session."""
        vars(self).pop("session", None)

    @by_name("program.save")
    def save(
        self,
        destination: str | os.PathLike[str],
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Writes the model.

        Raises:
            InvalidInputError: the weights are to be left out.
            SavingError: it can't be written.
        """
        if not include_initializers:
            raise refused("save(include_initializers=False) is not taken: weights stand in the file")
        if keep_initializers_as_inputs:
            weights_as_inputs(self)
        if os.fspath(destination).endswith(
            ".pb"
        ):  # as PyTorch's documentation calls files of ONNX, and TensorFlow its own
            save_file(self.model, destination, external_data=external_data or None)
        else:
            super().save(destination, external_data=external_data or None)

    def __call__(self, *inputs: object, **named: object) -> Any:
        """Runs the model on tensors or arrays, nested as the module takes them."""
        leaves = [_array(leaf) for leaf in leaves_of(inputs)]
        result = super().__call__(*leaves, **{name: _array(leaf) for name, leaf in named.items()})
        return tuple(map(_tensor, result if isinstance(result, tuple) else (result,)))


def _array(leaf: object) -> Any:
    """A tensor as an array; anything else as it is."""
    return leaf.detach().cpu().numpy() if hasattr(leaf, "detach") and hasattr(leaf, "cpu") else leaf


def _tensor(value: object) -> object:
    numeric = isinstance(value, np.ndarray) and value.dtype.kind in "biufc"
    return Lazy("torch:from_numpy").get()(value) if numeric else value


def weights_as_inputs(model: OnnxModel) -> None:
    """Lists the initializers among the graph's inputs too, as files before IR version 4 do."""
    graph = model.model.graph
    graph.inputs.extend(value for value in graph.initializers.values() if not value.is_graph_input())


def refused(reason: str) -> InvalidInputError:
    """The error of a call that asks for what is not done here."""
    return InvalidInputError(f"{NAME}: {reason}")
