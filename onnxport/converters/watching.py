"""Proofs of models that may be anybody's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from onnxport.converters.from_onnx.blame import attributed
from onnxport.graph.external_data import weight_bytes
from onnxport.graph.guard import guarded
from onnxport.model import OnnxModel


@contextmanager
def watched(models: Sequence[OnnxModel]) -> Iterator[None]:
    """Runs ONNX models in a process of their own, with bounds on memory and time, and errors that say whose fault it is.

    Raises:
        InvalidModelError: for an error of no type of onnxport's own, chained to it.
    """
    if not models:
        yield
        return
    size = sum(weight_bytes(model.model) for model in models)
    with attributed("running the model"), guarded(size) as guard:
        yield
    if guard.used:
        for model in models:  # the user's own runs are the user's own
            model.__dict__.pop("session", None)
