"""``onnx2torch.converter``, on `onnxport.convert`."""

from __future__ import annotations

import os
from typing import Any

from onnxport.compat.absent import refusing
from onnxport.compat.arguments import by_name
from onnxport.compat.onnx2torch.utils.common import attach
from onnxport.converters.convert import convert as onnxport_convert
from onnxport.model import as_onnx_model

__getattr__ = refusing(__name__)


@by_name("onnx2torch.convert")
def convert(
    onnx_model_or_path: str | os.PathLike[str] | Any, save_input_names: bool = False, attach_onnx_mapping: bool = False
) -> Any:
    """A file or message of ONNX as a ``torch.nn.Module``.

    The parameters of ``forward`` are called as the graph's inputs, with `save_input_names` or without. With `attach_onnx_mapping`
    layers have an ``onnx_mapping``, the names of what their node takes and gives; what is a function here has no layer.

    Raises:
        OnnxportError: see `onnxport.convert`.
    """
    module = onnxport_convert(onnx_model_or_path, to="pytorch")
    if attach_onnx_mapping:
        attach(module, as_onnx_model(onnx_model_or_path).model)
    return module
