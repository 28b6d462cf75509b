"""Models whose inputs and outputs have their channels before the places, NCHW."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.graph.passes.channels import turn
from onnxport.model import OnnxModel
from onnxport.validation import prove
from onnxport.validation.runners import Binding


def with_channels_first(hub: OnnxModel, inputs: Sequence[str], outputs: Sequence[str], *, validate: bool) -> OnnxModel:
    """The model with these inputs and outputs turned; its report is that of the model, which it is proved against.

    Raises:
        InvalidInputError: there is no such input or output.
        ValidationError: it gives other numbers.
    """
    # Names of TensorFlow's tensors stand for those of its operations, unless the model spells them so.
    inputs = [name if name in hub.input_names else name.removesuffix(":0") for name in inputs]
    outputs = [name if name in hub.output_names else name.removesuffix(":0") for name in outputs]
    model = hub.model.clone()
    turn(model, inputs, outputs)
    result = OnnxModel(model, report=hub.report, notes=hub.notes, runtime=hub.runtime)
    if validate:
        again = OnnxModel(model.clone(), runtime=hub.runtime)
        turn(again.model, inputs, outputs, first=False, merge=False)
        prove(hub, hub, again, Binding(None))
    return result
