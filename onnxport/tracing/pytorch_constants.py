"""Values of tensors that no input has a part in, while torch.export traces: of constants, buffers and what is computed of them.

torch's fake tensors have no values but for a single number. A model that writes its sizes in a tensor and asks for them again, or
that branches on one of its buffers, has an answer nevertheless: it is the same for every input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.weak import WeakIdKeyDictionary

_ELEMENTS = 1 << 12  # of a tensor whose value is kept
_ASKS = frozenset("__bool__ __int__ __float__ __index__ __complex__ item tolist is_nonzero equal allclose".split())
_FACTORIES = frozenset("tensor as_tensor arange zeros ones full linspace eye".split())
# They take sizes one by one or in a list, which may be tensors of one number.
_SIZED = frozenset(
    "pad view reshape expand repeat narrow new_zeros new_ones new_full new_empty broadcast_to tile".split()
)
# Their results have as many elements as their operands' values tell.
_SIZED_BY_VALUES = frozenset(
    "argwhere bincount masked_select nonzero repeat_interleave unique unique_consecutive".split()
)
_RANDOM = r"rand|bernoulli|multinomial|dropout|normal|uniform|exponential|poisson|empty"
_IN_PLACE = r"^(__setitem__|__i[a-z]+__|[a-z]\w*[a-z0-9]_)$"


class known_constants(TorchFunctionMode):
    """While it is active, tensors without a part of an input give their values as they do in eager."""

    def __init__(self, module: torch.nn.Module, traced: torch.nn.Module) -> None:
        super().__init__()
        named = [*module.named_buffers(), *module.named_parameters()]
        self._weights = {name: item.detach().clone() for name, item in named if item.numel() <= _ELEMENTS}
        self._traced = traced
        self._values = WeakIdKeyDictionary()
        self._first: Tensor | None = None  # of the module's tensors, which torch changes for fake ones and back

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Answers what asks for a value that is known; passes every other call on, and computes its value beside it."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        values = [self._value(item) for item in tensors]
        known = self._computable(name, leaves, values)
        if known and name in _ASKS:
            return self._run(func, args, kwargs)
        if known and tensors and _sized_by_values(name, args):
            return self._constants(func, args, kwargs)
        if known and tensors and name in _FACTORIES:  # of sizes in tensors: the result has a size that is known too
            args, kwargs = pytree.tree_map(self._number, (args, kwargs))
        elif name in _SIZED and len(tensors) > 1:
            args, kwargs = (*args[:1], *pytree.tree_map(self._number, args[1:])), pytree.tree_map(self._number, kwargs)
        result = func(*args, **kwargs)
        if re.match(_IN_PLACE, name) and tensors:
            if not known or self._computed(func, args, kwargs) is None:
                self._forget(tensors[0])
        elif known and name not in ("__get__", "__set__"):
            self._keep(result, func, args, kwargs)
        return result

    def _value(self, tensor: Tensor) -> Tensor | None:
        if not isinstance(tensor, FakeTensor):
            return tensor if _small(tensor) and tensor.device.type == "cpu" else None
        first = next((item for _, item in _named(self._traced)), None)
        if first is not self._first:
            self._first = first
            fakes = {name: item for name, item in _named(self._traced) if isinstance(item, FakeTensor)}
            self._values.update((fakes[name], value) for name, value in self._weights.items() if name in fakes)
        return self._values.get(tensor)

    def _computable(self, name: str, leaves: list[Any], values: list[Tensor | None]) -> bool:
        if any(value is None for value in values) or re.search(_RANDOM, name):
            return False
        if any(isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)) for leaf in leaves):
            return False
        return bool(values) or name in _FACTORIES

    def _run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        def real(leaf: Any) -> Any:
            return self._value(leaf) if isinstance(leaf, Tensor) else leaf

        args, kwargs = pytree.tree_map(real, (args, kwargs))
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            return func(*args, **kwargs)

    def _constants(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The results of a call of known operands as constants, since torch's fake ones have sizes that nobody knows."""

        def constant(value: Tensor) -> Tensor:
            fake = torch.tensor(value.tolist(), dtype=value.dtype).reshape(value.shape)
            self._values[fake] = value
            return fake

        return pytree.tree_map_only(Tensor, constant, self._run(func, args, kwargs))

    def _number(self, leaf: Any) -> Any:
        value = self._value(leaf) if isinstance(leaf, Tensor) and leaf.dim() == 0 else None
        return leaf if value is None else value.item()

    def _keep(self, result: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Notes the values of a call's results, which the same call gives of the values of its operands."""
        fakes = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, FakeTensor)]
        if not fakes or any(not _small(leaf) for leaf in fakes):
            return
        values = self._computed(func, args, kwargs) or []
        if len(values) == len(fakes):
            self._values.update(zip(fakes, values, strict=True))

    def _computed(self, func: Any, args: Any, kwargs: dict[str, Any]) -> list[Tensor] | None:
        """The tensors that a call gives of the values of its operands; None where there is no kernel for these."""
        try:
            leaves = pytree.tree_leaves(self._run(func, args, kwargs))
        except Exception:  # of whatever operator it is
            return None
        return [leaf for leaf in leaves if isinstance(leaf, Tensor)]

    def _forget(self, tensor: Tensor) -> None:
        """A tensor gets unknown values: so do those that share its storage."""
        value = self._values.get(tensor)
        if value is None:
            return
        storage = value.untyped_storage().data_ptr()
        for other in [key for key, item in self._values.items() if item.untyped_storage().data_ptr() == storage]:
            del self._values[other]


def _named(module: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_buffers()
    yield from module.named_parameters()


def _sized_by_values(name: str, args: Any) -> bool:
    """Whether the sizes of a call's results depend on the values of its operands."""
    if name == "where":
        return len(args) == 1
    masks = [leaf for leaf in pytree.tree_leaves(args[1:]) if isinstance(leaf, Tensor)] if name == "__getitem__" else []
    return name in _SIZED_BY_VALUES or any(mask.dtype in (torch.bool, torch.uint8) for mask in masks)


def _small(tensor: Tensor) -> bool:
    return all(isinstance(size, int) for size in tensor.shape) and tensor.numel() <= _ELEMENTS
