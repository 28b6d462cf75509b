"""PyTorch: weights from a file into a module."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import torch

from onnxport.errors import InvalidInputError, InvalidModelError, MissingDependencyError, UntrustedFileError
from onnxport.tracing.trust.archives import check_zip
from onnxport.tracing.trust.faults import reading


def load_weights(module: torch.nn.Module, path: Path) -> None:
    """Loads the state dict in a ``.safetensors`` file, or one that `torch.save` wrote, into `module`.

    Raises:
        InvalidModelError: the file is corrupt, or its tensors are not the module's.
        InvalidInputError: `module` is no module.
        UntrustedFileError: the file holds more than tensors, and unpickling it would run code.
    """
    if not isinstance(module, torch.nn.Module):
        raise InvalidInputError(f"weights belong to a torch.nn.Module, not to a {type(module).__qualname__}")
    state = _read_safetensors(path) if path.suffix.lower() == ".safetensors" else read_state(path)
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise InvalidModelError(f"the weights in {str(path)!r} do not fit the module: {error}") from error


def _read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        raise MissingDependencyError.for_extra("safetensors", "pytorch") from error
    with reading(f"{str(path)!r} is truncated or no safetensors file"):
        return load_file(path)


def read_state(path: Path) -> dict[str, torch.Tensor]:
    """The state dict in a file of `torch.save`; its tensors are mapped, not read, where the file is an archive.

    Raises:
        InvalidModelError: the file is corrupt or holds no state dict.
        UntrustedFileError: it holds more than tensors, and unpickling it would run code.
    """
    state = _unpickled(path)
    if isinstance(state, torch.nn.Module) or not hasattr(state, "items"):
        raise InvalidModelError(f"{str(path)!r} holds a {type(state).__qualname__}, not a state dict")
    return state


def _unpickled(path: Path) -> dict[str, torch.Tensor]:
    check_zip(repr(str(path)), path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        if not zipfile.is_zipfile(path):
            raise InvalidModelError(f"{str(path)!r} is truncated or no file of torch.save") from error
        raise UntrustedFileError(
            f"{str(path)!r} holds more than tensors, and unpickling it would run code: save module.state_dict() instead"
        ) from error
    except Exception as error:  # the unpickler raises whatever a broken file makes of it
        raise InvalidModelError(f"{str(path)!r} is truncated or no file of torch.save: {error}") from error
