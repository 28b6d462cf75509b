"""``onnx2torch.converter``, on `onnxport.convert`."""

from __future__ import annotations

import os
from typing import Any

from onnxport.compat.arguments import refuse_others
from onnxport.converters.convert import convert as onnxport_convert

_NEUTRAL: dict[str, tuple[tuple[object, ...], str]] = {
    "attach_onnx_mapping": ((False,), "parameters and layers have the file's own names"),
    # The parameters of `forward` are called as the graph's inputs, which needs no switch.
    "save_input_names": ((True, False), ""),
}


def convert(
    onnx_model_or_path: str | os.PathLike[str] | Any, save_input_names: bool = False, attach_onnx_mapping: bool = False
) -> Any:
    """A file or message of ONNX as a ``torch.nn.Module``.

    Raises:
        InvalidInputError: an argument asks for what is not done here.
        OnnxportError: see `onnxport.convert`.
    """
    given = {"save_input_names": save_input_names, "attach_onnx_mapping": attach_onnx_mapping}
    refuse_others("onnx2torch.convert", given, _NEUTRAL)
    return onnxport_convert(onnx_model_or_path, to="pytorch")
