"""PyTorch modules, exported programs and functions of tensors."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from onnxport.frameworks.pytorch_devices import beside
from onnxport.frameworks.pytorch_levels import levels_kept
from onnxport.frameworks.pytorch_log import graphs_kept_back, quiet
from onnxport.frameworks.pytorch_paths import leaf_keys
from onnxport.frameworks.pytorch_titles import name_of
from onnxport.validation import tolerance
from onnxport.validation.numerics import Numerics
from onnxport.validation.runners import base
from onnxport.validation.runners import pytorch_lanes as lanes
from onnxport.validation.runners import pytorch_steps as steps
from onnxport.validation.runners.base import DEFAULT_LENGTH, Binding, Example, Outputs, Runner
from onnxport.validation.runners.pytorch_program import argument_name, fitted_to
from onnxport.validation.runners.pytorch_single import narrowed, single

# A float64 twin of more weights than this costs more memory than a validation is worth.
_TWIN_LIMIT = 1 << 30
_RESULTS = (torch.Tensor, np.ndarray, bool, int, float)
_MOVABLE = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})
_FLOAT8 = frozenset(getattr(torch, f"float8_{name}") for name in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"))
_NARROW = _MOVABLE - {torch.float64} | _FLOAT8


class PytorchRunner(Runner):
    """Runs a module or function without gradients, in the mode it stands in; its buffers are left as they were."""

    framework: ClassVar[str] = "pytorch"
    names_are_steady: bool = False

    def __init__(self, call: Callable[..., Any], title: str, arguments: Arguments | None, structured: bool) -> None:
        super().__init__(title, arguments.example if arguments is not None else None)
        self._call = call
        self._arguments = arguments
        self._structured = structured
        self._twin: Callable[..., Any] | None = None
        self._has_twin = True
        self._needs_gradients = False

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """Tensors and numbers in pytree order, then the inputs that the model wrote to, as ``<input>.updated``."""
        return self._run(self._call, [to_tensor(leaf) for leaf in leaves])

    def refuses(self, error: Exception) -> bool:
        """Whether it is torch's refusal of a window that is larger than what it looks at: of that a graph gives no elements."""
        return isinstance(error, RuntimeError) and "Output size is too small" in str(error)

    def run_float64(self, leaves: Sequence[Any]) -> Outputs | None:
        """Outputs of a copy in float64; None for large models and those that insist on a type of their own."""
        if not self._has_twin:
            return None
        try:
            self._twin = self._twin or _double(self._call)
            if self._twin is not None:
                return self._run(self._twin, [base.nested(to_tensor(leaf), _widened) for leaf in leaves])
        except Exception:  # a type named in the user's code clashes with float64: any error at all
            self._twin = None
        self._has_twin = False
        return None

    def run_float32(self, leaves: Sequence[Any]) -> Outputs | None:
        """Outputs of a copy in float32; None where there is none in float64."""
        if not self._has_twin or self._twin is None:
            return None
        return self._run(single(self._call), [base.nested(to_tensor(leaf), narrowed) for leaf in leaves])

    @cached_property
    def numerics(self) -> Numerics:
        """The longest row of a weight is the longest sum that is known."""
        shapes = [p.shape for p in self._call.parameters()] if isinstance(self._call, torch.nn.Module) else []
        return Numerics(max([DEFAULT_LENGTH, *(math.prod(shape[1:]) for shape in shapes if len(shape) > 1)]))

    @property
    def computes_in_steps(self) -> bool:
        """Whether a layer is dynamically quantised."""
        return isinstance(self._call, torch.nn.Module) and steps.rounds_to_steps(self._call)

    def coarse(self, leaves: Sequence[Any]) -> float | None:
        """Of the types of all tensors that the operators give, as under autocast."""
        return coarsest(lambda: self.run(leaves))

    def computes_complex(self, leaves: Sequence[Any]) -> bool:
        """Whether an operator gives complex numbers."""
        return any(dtype.is_complex for dtype in self._dtypes(leaves))

    def _dtypes(self, leaves: Sequence[Any]) -> set[torch.dtype]:
        """The types of all tensors that the operators give; none where that can't be seen."""
        dtypes: set[torch.dtype] = set()

        def seen(operator: Any, args: Any, result: Any) -> Any:
            dtypes.update(leaf.dtype for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor))
            return result

        try:
            with _Each(seen):
                self.run(leaves)
        except Exception:  # scripted modules and tensors of a kind of their own do not go with such a mode
            return set()
        return dtypes

    def run_moved(self, leaves: Sequence[Any], units: int, seed: int) -> Outputs | None:
        """Outputs of a copy whose weights have moved, or of the model itself where it is large or no module; sums inside move."""
        tensors = [to_tensor(leaf) for leaf in leaves]
        rng = np.random.default_rng(seed)
        if not isinstance(self._call, torch.nn.Module) or _weight_bytes(self._call) > _TWIN_LIMIT:
            return self._run_with_noise(self._call, tensors, seed)
        try:
            twin = copy.deepcopy(self._call)
        except Exception:  # what a user's module holds need not be copied
            return self._run_with_noise(self._call, tensors, seed)
        with torch.no_grad():
            for weight in [*twin.parameters(), *twin.buffers()]:
                if weight.dtype in _MOVABLE:
                    weight.copy_(to_tensor(tolerance.nudge(to_numpy(weight), units, rng)))
            steps.move_packed(twin, units, rng)
        return self._run_with_noise(twin, tensors, seed)

    def _run_with_noise(self, call: Callable[..., Any], tensors: list[Any], seed: int) -> Outputs:
        try:
            with noise(seed):
                return self._run(call, tensors)
        except Exception:  # compiled code need not take a dispatch mode
            return self._run(call, tensors)

    def intermediates(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """Results of the operators in torch.export's graph by node name."""
        results: dict[str, Any] = {}
        try:
            self.each_intermediate(leaves, results.__setitem__)
        except Exception:  # of the user's code: the search does without
            return {}
        return results

    def each_intermediate(self, leaves: Sequence[Any], take: Callable[[str, Any], None]) -> None:
        """The same one by one; the interpreter lets go of each after its last reader."""
        args, kwargs = self._rebuilt([to_tensor(leaf) for leaf in leaves])

        class Recorder(torch.fx.Interpreter):
            def run_node(self, n: torch.fx.Node) -> Any:
                result = super().run_node(n)
                if isinstance(result, torch.Tensor):
                    take(n.name, to_numpy(result))
                return result

        with torch.no_grad(), _unchanged(self._call):
            try:
                with quiet(), levels_kept():
                    module = torch.export.export(self._call, args, kwargs, strict=False).module()
            except Exception:  # what is no module, or can't be traced again, has none
                return
            Recorder(module).run(*pytree.tree_leaves((args, kwargs)))

    def _rebuilt(self, tensors: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self._arguments.rebuilt(tensors) if self._arguments is not None else (tuple(tensors), {})

    def _result(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """What the call gives; with gradients where it asks for one inside."""
        if not self._needs_gradients:
            try:
                return call(*args, **kwargs)
            except RuntimeError as error:
                if "does not require grad" not in str(error):
                    raise
        with torch.enable_grad():
            result = call(*args, **kwargs)
        self._needs_gradients = True
        return result

    def _run(self, call: Callable[..., Any], tensors: list[Any]) -> Outputs:
        args, kwargs = self._rebuilt(tensors)
        before = [_state(tensor) for tensor in tensors]
        with torch.no_grad(), graphs_kept_back(call), _unchanged(call):
            result = self._result(call, args, kwargs)
            if self._structured:
                return base.top_level(result, to_numpy)
            results = [(path, leaf) for path, leaf in leaves_of(result) if isinstance(leaf, _RESULTS)]
            outputs = [(".".join(path), to_numpy(leaf)) for path, leaf in results]
        names = self.example.names if self.example is not None else [f"input_{i}" for i in range(len(tensors))]
        returned = {(".".join(path[1:]), id(leaf)) for path, leaf in results}  # below their roots: a cache comes back
        written = [
            (f"{name}.updated", to_numpy(tensor))
            for name, tensor, state in zip(names, tensors, before, strict=True)
            if isinstance(tensor, torch.Tensor) and _written(tensor, state)
            if "." not in name or (name.partition(".")[2], id(tensor)) not in returned
        ]
        return outputs + written


# Operators that add, softmax too: what a large sum loses in a difference, or in a choice, shows only where it moves itself.
_SUMS = frozenset("_softmax add addmm baddbmm bmm convolution cumsum linear_dynamic mean mm rsub sub sum".split())
# Operators whose small results are sums with 1 in runtimes, log(1 + exp(x)) and 1 / (1 + exp(-x)); and such factors of x.
_BESIDE_ONE = frozenset("log_sigmoid_forward sigmoid softplus".split())
_FACTORS_BESIDE_ONE = frozenset("gelu mish silu".split())
# Operators that cast, and which of their arguments.
_CASTS = {"_to_copy": 0, "copy_": 1, "copy": 1}
_HALVES = frozenset({torch.float16, torch.bfloat16})


class _Each(TorchDispatchMode):
    """Hands the result of each operator through a function of the operator, its arguments and its result."""

    def __init__(self, through: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        self._through = through

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """True: else torch.cond, which compiles itself, is not compiled under the mode, nor ever after (torch 2.13)."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._through(func, args, func(*args, **(kwargs or {})))

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: to be skipped torch's compiler would be loaded, a second or more in a process that compiles nothing."""
        return False


def coarsest(run: Callable[[], object]) -> float | None:
    """Epsilon of the coarsest type that a run computes in: a 16-bit one, or a narrower one that numbers are cast to.

    A narrower type that the code names stays in a float64 run, which then shows nothing of what it costs.
    """
    seen: set[float] = set()

    def noted(operator: Any, args: Any, result: Any) -> Any:
        for leaf in pytree.tree_leaves(result):
            if not isinstance(leaf, torch.Tensor) or not leaf.dtype.is_floating_point:
                continue
            given = torch.finfo(leaf.dtype).eps
            name = operator.overloadpacket.__name__
            source = args[_CASTS[name]] if name in _CASTS else None
            wider = source.dtype if isinstance(source, torch.Tensor) and source.dtype.is_floating_point else leaf.dtype
            if leaf.dtype in _HALVES or torch.finfo(wider).eps < given:
                seen.add(given)
        return result

    try:
        with _Each(noted):
            run()
    except Exception:  # scripted modules and tensors of a kind of their own do not go with such a mode
        return None
    return max(seen, default=None)


def noise(seed: int) -> _Each:
    """Moves float32 and float64 sums by one unit in the last place, up or down at random, as `onnx_noise` does in a graph.

    What stands beside 1 in a sum moves by a unit of 1. Long sums are added as runtimes do, not in pairs.
    """
    draw = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng(seed)

    def moved(operator: Any, args: Any, result: Any) -> Any:
        rounded = isinstance(result, torch.Tensor) and result.dtype in (torch.float32, torch.float64)
        name = operator.overloadpacket.__name__
        if name in steps.GATED:
            return steps.gates_moved(result, draw)
        if name in lanes.DEVIATIONS and args[0].device.type == "cpu":
            return lanes.deviating(name, args, result)
        if name in steps.TRANSFORMS and result.device.type == "cpu":
            return steps.transform_moved(result, args[1], draw)
        beside_one = name in _BESIDE_ONE or name in _FACTORS_BESIDE_ONE
        if not rounded or not (beside_one or name in _SUMS) or result.device.type != "cpu":
            return result
        unit = torch.finfo(result.dtype).eps
        signs = torch.from_numpy(tolerance.coins(rng, tuple(result.shape))).to(result.dtype).mul_(2.0).sub_(1.0)
        exact = (result == torch.floor(result)).logical_and_(torch.abs(result) < 1.0 / unit)
        if name in _SUMS and name not in lanes.SUMS:
            return torch.where(exact, result, signs.mul_(unit).add_(1.0).mul_(result))
        start = lanes.added(name, args, result) if name in lanes.SUMS else result
        scale = start if name in _SUMS else args[0] if name in _FACTORS_BESIDE_ONE else 1.0
        move = scale * unit * signs
        kept = exact | (start + move == 0)
        turned = torch.sign(start + move) != torch.sign(start)  # no probability below 0, whose root or logarithm is NaN
        return torch.where(kept, result, torch.where(turned, start - move, start + move))

    return _Each(moved)


class Arguments:
    """A call's arguments taken apart in pytree order, keywords in the order of the signature."""

    def __init__(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        target = call.forward if isinstance(call, torch.nn.Module) else call
        parameters = base.parameter_names(target)
        ordered = base.arguments_in_order(target, args, kwargs)
        self._flat, self._spec = pytree.tree_flatten((args, ordered))
        paths = leaf_keys(self._spec)
        self._positions = [i for i, leaf in enumerate(self._flat) if isinstance(leaf, (torch.Tensor, np.ndarray))]
        names = tuple(argument_name(paths[i], parameters, args, ordered) for i in self._positions)
        self.example = Example(names, tuple(to_numpy(self._flat[i]) for i in self._positions))

    def rebuilt(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other tensors in place of those of the example, on their devices."""
        flat = list(self._flat)
        for position, tensor in zip(self._positions, tensors, strict=True):
            original = flat[position]
            flat[position] = tensor.to(original.device) if isinstance(original, torch.Tensor) else tensor
        args, kwargs = pytree.tree_unflatten(flat, self._spec)
        return args, kwargs


def bind(model: Any, binding: Binding) -> PytorchRunner:
    """A runner of a module, `torch.export.ExportedProgram` or function of tensors."""
    call = model.module() if isinstance(model, torch.export.ExportedProgram) else model
    title = name_of(model)
    if not binding.given:
        return PytorchRunner(call, title, None, binding.structured)
    inputs = tuple(binding.inputs) if isinstance(binding.inputs, list) else binding.inputs
    args, kwargs = replace(binding, inputs=inputs).arguments()
    if isinstance(model, torch.export.ExportedProgram):
        args, kwargs = fitted_to(model, args, kwargs)
    arguments = Arguments(call, *beside(call, (args, dict(kwargs))))
    return PytorchRunner(call, title, arguments, binding.structured)


def to_numpy(value: object) -> Any:
    """A tensor as an array of its own memory; bfloat16 and float8 as ml_dtypes' types."""
    if not isinstance(value, torch.Tensor):
        return value
    tensor = value.detach().cpu()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor._is_zerotensor():  # a derivative that is 0 has no memory
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    tensor = tensor.resolve_conj().resolve_neg().contiguous()
    narrow = str(tensor.dtype).removeprefix("torch.")
    if narrow.startswith(("bfloat16", "float8")):
        import ml_dtypes

        bits = torch.uint8 if tensor.element_size() == 1 else torch.int16
        return tensor.view(bits).numpy().copy().view(getattr(ml_dtypes, narrow))
    return np.array(tensor.numpy(), copy=True)


def to_tensor(leaf: object) -> Any:
    """An array as a tensor of its own memory; strings as they are, arrays in lists and dicts as tensors."""
    if isinstance(leaf, (list, dict)):
        return base.nested(leaf, to_tensor)
    if not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype.kind in "OUS":
        return leaf
    array = base.travelled(np.array(leaf, copy=True))
    if array.dtype.isbuiltin != 1:  # bfloat16 and float8
        bits = torch.from_numpy(array.view({1: np.uint8, 2: np.int16}[array.dtype.itemsize]))
        return bits.view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array)


def leaves_of(result: object, prefix: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Leaves of a result with their paths, in pytree order; dataclasses and mappings that torch does not know by field."""
    flat, spec = pytree.tree_flatten(result)
    leaves: list[tuple[tuple[str, ...], Any]] = []
    for path, leaf in zip(leaf_keys(spec), flat, strict=True):
        names = (*prefix, *path)
        children = _fields(leaf)
        inner = [pair for key, item in children or () for pair in leaves_of(item, (*names, key))]
        leaves += [(names, leaf)] if children is None else inner
    return leaves


def _fields(leaf: object) -> list[tuple[str, Any]] | None:
    if isinstance(leaf, Mapping):
        return [(str(key), item) for key, item in leaf.items()]
    if is_dataclass(leaf) and not isinstance(leaf, type):
        return [(item.name, getattr(leaf, item.name)) for item in fields(leaf)]
    return None


def _state(tensor: object) -> tuple[int, Any]:
    return (int(tensor._version), tensor.clone()) if isinstance(tensor, torch.Tensor) else (0, None)


def _written(tensor: torch.Tensor, state: tuple[int, Any]) -> bool:
    """Whether a tensor was written to: its version counts most writes, but not those of the batch norm kernels."""
    version, values = state
    return tensor._version != version or not torch.equal(_bits(tensor), _bits(values))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bytes, in which NaN equals itself."""
    tensor = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8) if flat.numel() else flat  # a stride of 0, which no elements may have, has no view


@contextmanager
def _unchanged(call: Callable[..., Any]) -> Iterator[None]:
    """Gives the buffers back as they were: a run must not move batch statistics or fill a cache."""
    buffers = list(call.buffers()) if isinstance(call, torch.nn.Module) else []
    before = [(buffer, _state(buffer)) for buffer in buffers]
    try:
        yield
    finally:
        for buffer, state in before:
            if _written(buffer, state):
                buffer.copy_(state[1])


def _double(call: Callable[..., Any]) -> Callable[..., Any] | None:
    if not isinstance(call, torch.nn.Module):
        return call
    if _weight_bytes(call) > _TWIN_LIMIT:
        return None
    with torch.no_grad():
        return copy.deepcopy(call).double()


def _weight_bytes(module: torch.nn.Module) -> int:
    return sum(p.numel() * p.element_size() for p in [*module.parameters(), *module.buffers()])


def _widened(value: object) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype in _NARROW:
        return value.double()
    return value.to(torch.complex128) if value.dtype == torch.complex64 else value
