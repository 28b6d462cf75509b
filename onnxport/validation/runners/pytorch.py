"""PyTorch modules, exported programs and functions of tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils import _pytree as pytree

from onnxport.frameworks import Framework
from onnxport.validation.runners.base import Binding, Outputs, Runner, Structure, parameter_names, split_arguments

# A float64 twin of more weights than this costs more memory than a validation is worth.
_TWIN_LIMIT = 1 << 30
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_WIDENED = (*_FLOATS, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


class PytorchRunner(Runner):
    """Runs a module or function without gradients, in the mode it stands in; its buffers are left as they were."""

    framework: ClassVar[Framework] = "pytorch"

    def __init__(self, call: Callable[..., Any], title: str, structure: Structure | None) -> None:
        parameters = parameter_names(call.forward if isinstance(call, torch.nn.Module) else call)
        super().__init__(title, structure.example(parameters, to_numpy) if structure is not None else None)
        self._call = call
        self._structure = structure
        self._twin: Callable[..., Any] | None = None
        self._twin_fails = False

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """Outputs as flat leaves: tensors and numbers in pytree order."""
        args, kwargs = self._arguments(leaves, torch.float32)
        return _run(self._call, args, kwargs)

    def run_float64(self, leaves: Sequence[Any]) -> Outputs | None:
        """Outputs of a copy in float64; None for large models and those that insist on a type of their own."""
        if self._twin_fails:
            return None
        try:
            if self._twin is None:
                self._twin = _double(self._call)
            if self._twin is None:
                self._twin_fails = True
                return None
            args, kwargs = self._arguments(leaves, torch.float64)
            return _run(self._twin, args, kwargs)
        except Exception:  # a type named in the user's code clashes with float64: any error at all
            self._twin_fails = True
            return None

    def _arguments(self, leaves: Sequence[Any], floats: torch.dtype) -> tuple[tuple[Any, ...], dict[str, Any]]:
        widen = floats is torch.float64

        def like(leaf: Any, original: Any) -> Any:
            if isinstance(original, np.ndarray):
                return leaf.astype(np.float64) if widen and leaf.dtype.kind == "f" else leaf
            tensor = to_tensor(leaf)
            if not isinstance(tensor, torch.Tensor):
                return tensor
            if isinstance(original, torch.Tensor):
                tensor = tensor.to(original.device)
            return _widened(tensor) if widen else tensor

        if self._structure is None:
            return tuple(like(leaf, None) for leaf in leaves), {}
        return self._structure.arguments(leaves, like)


def bind(model: Any, binding: Binding) -> PytorchRunner:
    """A runner of a module, `torch.export.ExportedProgram` or function of tensors."""
    call = model.module() if isinstance(model, torch.export.ExportedProgram) else model
    title = (
        type(model).__qualname__
        if isinstance(model, torch.nn.Module)
        else getattr(model, "__qualname__", type(model).__qualname__)
    )
    if binding.inputs is None and not binding.kwargs:
        return PytorchRunner(call, title, None)
    args, kwargs = split_arguments(() if binding.inputs is None else binding.inputs, binding.kwargs)
    pairs, spec = pytree.tree_flatten_with_path((tuple(args), dict(kwargs)))
    paths = [(("args", "kwargs")[path[0].idx], *(_key(part) for part in path[1:])) for path, _ in pairs]
    flat = [leaf for _, leaf in pairs]
    positions = [i for i, leaf in enumerate(flat) if isinstance(leaf, (torch.Tensor, np.ndarray))]
    return PytorchRunner(
        call, title, Structure(args, kwargs, paths, flat, lambda leaves: pytree.tree_unflatten(leaves, spec), positions)
    )


def to_numpy(tensor: Any) -> Any:
    """A tensor as an array; bfloat16 and float8 as ml_dtypes' types."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    tensor = tensor.detach().cpu()
    if tensor.is_sparse or tensor.layout in (torch.sparse_csr, torch.sparse_csc):
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg().contiguous()
    bits = {1: torch.uint8, 2: torch.int16}.get(tensor.element_size())
    narrow = str(tensor.dtype).removeprefix("torch.")
    if narrow.startswith(("bfloat16", "float8")) and bits is not None:
        import ml_dtypes

        return tensor.view(bits).numpy().view(getattr(ml_dtypes, narrow)).copy()
    return np.array(tensor.numpy(), copy=True)


def to_tensor(leaf: Any) -> Any:
    """An array as a tensor of its own memory; strings, lists and dicts as they are, their arrays made tensors."""
    if isinstance(leaf, list):
        return [to_tensor(item) for item in leaf]
    if isinstance(leaf, dict):
        return {key: to_tensor(item) for key, item in leaf.items()}
    if not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype.kind in "OUS":
        return leaf
    array = np.array(leaf, copy=True)
    if array.dtype.kind == "V":
        bits = torch.from_numpy(array.view({1: np.uint8, 2: np.int16}[array.dtype.itemsize]))
        return bits.view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array)


def _run(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outputs:
    with torch.no_grad(), _unchanged(call):
        result = call(*args, **kwargs)
        pairs, _ = pytree.tree_flatten_with_path(result)
        return [
            (".".join(str(_key(part)) for part in path), to_numpy(leaf) if isinstance(leaf, torch.Tensor) else leaf)
            for path, leaf in pairs
            if isinstance(leaf, (torch.Tensor, np.ndarray, bool, int, float))
        ]


@contextmanager
def _unchanged(call: Callable[..., Any]) -> Iterator[None]:
    """Gives the buffers back as they were: a run must not move batch statistics or fill a cache."""
    buffers = list(call.buffers()) if isinstance(call, torch.nn.Module) else []
    before = [
        (buffer, buffer._version, buffer.clone()) for buffer in buffers if not torch._is_functional_tensor(buffer)
    ]
    try:
        yield
    finally:
        for buffer, version, values in before:
            if buffer._version != version:
                buffer.copy_(values)


def _double(call: Callable[..., Any]) -> Callable[..., Any] | None:
    if not isinstance(call, torch.nn.Module):
        return call
    weights = sum(p.numel() * p.element_size() for p in [*call.parameters(), *call.buffers()])
    if weights > _TWIN_LIMIT:
        return None
    with torch.no_grad():
        return copy.deepcopy(call).double()


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype in _WIDENED:
        return tensor.double()
    return tensor.to(torch.complex128) if tensor.dtype == torch.complex64 else tensor


def _key(part: Any) -> Any:
    for name in ("key", "idx", "name"):
        if hasattr(part, name):
            return getattr(part, name)
    return str(part)
