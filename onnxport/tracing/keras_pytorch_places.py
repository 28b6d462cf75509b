"""Which layer and which line of the user's code each node of a Keras model on the PyTorch backend comes from.

torch.export records the frames of functions that are called ``forward``; a layer of Keras has a ``call``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import keras
import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.overrides import TorchFunctionMode

from onnxport.graph.provenance import is_users, relative_path
from onnxport.tracing import keras_pytorch
from onnxport.tracing.pytorch_nodes import record_call


class CallsRecorded(TorchFunctionMode):
    """While it is active, the nodes that a trace writes have the layer and line that call them."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What the function gives."""
        proxies = get_proxy_mode()
        if proxies is None:
            return function(*args, **(kwargs or {}))
        graph: torch.fx.Graph = proxies.tracer.graph
        last = next(iter(reversed(graph.nodes)), None)
        result = function(*args, **(kwargs or {}))
        written = []
        for node in reversed(graph.nodes):
            if node is last:
                break
            written.append(node)
        if written:
            layer, file, line = _caller(sys._getframe(1))
            for node in written:
                record_call(node, layer, file, line)
        return result


def _caller(frame: FrameType | None) -> tuple[str, str, int | None]:
    """Path of the innermost layer, file and line of the innermost frame of the user's, within the call of the model."""
    layer, file, line = "", "", None
    while frame is not None and frame.f_code.co_filename != keras_pytorch.__file__:
        code = frame.f_code
        if not file and is_users(code.co_filename):
            file, line = relative_path(code.co_filename), frame.f_lineno
        if (
            not layer
            and code.co_name == "__call__"
            and isinstance(own := frame.f_locals.get("self"), keras.layers.Layer)
        ):
            layer = own.path or own.name  # a layer without weights is never built, and has no path
        frame = frame.f_back
    return layer, file, line
