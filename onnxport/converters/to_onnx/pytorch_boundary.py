"""What comes into the ONNX graph of a PyTorch program: its inputs and its initializers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor
from torch.export.graph_signature import InputKind

from onnxport.converters.to_onnx.pytorch_types import Types, is_sparse, stored
from onnxport.errors import InvalidInputError
from onnxport.frameworks.pytorch_checksums import checksum
from onnxport.graph.builder import OpBuilder
from onnxport.graph.module_state import Content, ModuleState
from onnxport.graph.names import is_written_constant
from onnxport.opset_maps.lowerings.complex_numbers import mark_complex
from onnxport.tracing.pytorch_deferred import StreamedTensor, weight_of
from onnxport.tracing.pytorch_nodes import recorded_inputs

# Constants that tracing lifted out of the code, up to this many elements, take part in constant folding.
_FOLDABLE = 1024
# Of a state dict's tensors that the graph does not use, so many bytes come into the file, or none: they are to cost nothing.
_KEPT = 1 << 18
# So many different numbers are no accident.
_TELLING = 4
# Element types that torch hands to NumPy.
NUMPY = frozenset(getattr(torch, name) for name in "bool uint8 int8 int16 int32 int64 float16 float32 float64".split())


class Boundary:
    """Inputs and initializers of the main graph.

    `arguments` has what each placeholder stands for, in order; `input_names` the graph's input by placeholder, `buffers` the
    name of a buffer by the id of its initializer.
    """

    def __init__(self, op: OpBuilder, program: torch.export.ExportedProgram, types: Types) -> None:
        self.arguments: list[Any] = []
        self.input_names: dict[str, str] = {}
        self.buffers: dict[int, str] = {}
        self._op = op
        self._program = program
        self._types = types
        self._bound: dict[str, Any] = {}
        self._holders: dict[tuple[Any, ...], str] = {}
        self._dense: dict[str, torch.Tensor] = {}

    def bind_inputs(self, names: Mapping[str, str], batches: Mapping[str, str]) -> None:
        """Declares the graph's inputs, named by placeholder; of `batches` the program takes one row, in a batch of this name."""
        self.input_names = dict(names)
        values = recorded_inputs(self._program)
        for placeholder, name in names.items():
            expected = self._types.expected(values[placeholder])
            if expected is None or expected.shape is None:
                raise InvalidInputError(f"the input {name!r} is no tensor")
            dtype, shape = stored(expected)
            if placeholder in batches and shape is not None:
                shape = (batches[placeholder], *shape[1:])
            value = self._op.input(name, dtype, shape)
            if dtype != expected.dtype:
                mark_complex(value)
            self._bound[placeholder] = value

    def bind_parameters(self) -> None:
        """Makes an initializer of every parameter, buffer and constant that the graph uses, tied ones once."""
        used = {node.name for node in self._program.graph.nodes if node.op == "placeholder" and node.users}
        names = self._holders
        shared: dict[tuple[Any, ...], Any] = {}
        for spec in self._program.graph_signature.input_specs:
            placeholder = spec.arg.name
            if spec.kind is InputKind.USER_INPUT:
                self.arguments.append(self._bound.get(placeholder, getattr(spec.arg, "value", None)))
                continue
            tensor = self._tensor(spec)
            key = _identity(tensor)
            name = names.setdefault(key, str(spec.target))
            if placeholder in used and key not in shared:
                shared[key] = self._initializer(name, tensor, spec.kind)
            if spec.kind is InputKind.BUFFER and placeholder in used:
                self.buffers[id(shared[key])] = str(spec.target)
            self.arguments.append(shared[key] if placeholder in used else None)

    def state(self, graph: ir.Graph) -> ModuleState:
        """What the module's state dict has beyond the initializers that the finished graph holds."""
        held = {name for name in graph.initializers if not is_written_constant(name)}
        state = self._program.state_dict
        # A program may list no input for a weight that it does not use.
        known = {**{_identity(tensor): key for key, tensor in reversed(state.items())}, **self._holders}
        holders = {key: known[_identity(tensor)] for key, tensor in state.items()}
        numbers = {
            key: int(tensor)
            for key, tensor in state.items()
            if holders[key] not in held and tensor.dtype == torch.int64 and not tensor.dim() and not _is_away(tensor)
        }
        unused = [key for key in state if holders[key] not in held and key not in numbers]
        first: dict[str, str] = {}  # of the keys that share a content
        for key in unused:
            first.setdefault(holders[key], key)
        holders |= {key: first[holders[key]] for key in unused}
        contents = _contents({key: state[key] for key in first.values() if not is_sparse(state[key])})
        lacking = [key for key in unused if holders[key] not in contents]
        keys = [(key, key if key in numbers else holders[key]) for key in state if key not in lacking]
        specs = self._program.graph_signature.input_specs
        parameters = [self._tensor(spec) for spec in specs if spec.kind is InputKind.PARAMETER]
        trained = {first.get(holder, holder) for item in parameters if (holder := self._holders.get(_identity(item)))}
        trained |= {key for key in contents if isinstance(state[key], torch.nn.Parameter)}
        constants = [self._tensor(spec) for spec in specs if spec.kind is InputKind.CONSTANT_TENSOR]
        cached = tuple((key, checksum(state[key])) for key in unused if _is_cached(state[key], constants))
        return ModuleState(
            tuple(keys),
            frozenset({*held, *contents} - trained),
            frozenset(held - {holder for _, holder in keys}),
            tuple(numbers.items()),
            tuple(contents.items()),
            tuple(lacking),
            cached,
        )

    def _tensor(self, spec: Any) -> Any:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) and spec.target in self._program.state_dict:
            return self._strided(spec.target, self._program.state_dict[spec.target])
        constant = self._strided(spec.target, self._program.constants[spec.target])
        if isinstance(constant, torch.Tensor) and constant._is_zerotensor():  # a derivative that is 0 has no memory
            return torch.zeros(constant.shape, dtype=constant.dtype)
        return constant

    def _strided(self, name: str, tensor: Any) -> Any:
        """A tensor as it is; a sparse one dense, the same each time: what shares memory is one initializer."""
        if not is_sparse(tensor):
            return tensor
        if name not in self._dense:
            self._dense[name] = tensor.detach().to_dense()
        return self._dense[name]

    def _initializer(self, name: str, tensor: Any, kind: InputKind) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        tensor = tensor.detach()
        if tensor.device.type == "meta":
            raise InvalidInputError(f"the parameter {name!r} is on the meta device and has no values")
        deferred = weight_of(tensor)
        if deferred is not None:
            return self._op.initializer(name, StreamedTensor(deferred, name))
        complex_valued = tensor.is_complex()
        if complex_valued:
            tensor = torch.view_as_real(tensor.resolve_conj())
        if kind is InputKind.CONSTANT_TENSOR and tensor.numel() <= _FOLDABLE and tensor.dtype in NUMPY:
            value = self._op.const(tensor.cpu().numpy(), name=name)
        else:
            value = self._op.initializer(name, TorchTensor(tensor, name=name))
        if complex_valued:
            mark_complex(value)
        return value


def _is_away(tensor: torch.Tensor) -> bool:
    """Whether a tensor's values are not in memory."""
    return tensor.device.type == "meta" or weight_of(tensor) is not None


def _contents(tensors: Mapping[str, torch.Tensor]) -> dict[str, Content]:
    """The contents of tensors; nothing where they are large or one of them can't be written."""
    each = tensors.values()
    if any(_is_away(tensor) or tensor.dtype not in {*NUMPY, torch.bfloat16} for tensor in each):
        return {}
    if sum(tensor.numel() * tensor.element_size() for tensor in each) > _KEPT:
        return {}
    stored = {name: TorchTensor(tensor.detach().cpu().contiguous()) for name, tensor in tensors.items()}
    return {name: Content(item.dtype.name, tuple(tensors[name].shape), item.tobytes()) for name, item in stored.items()}


def _identity(tensor: Any) -> tuple[Any, ...]:
    if not isinstance(tensor, torch.Tensor) or is_sparse(tensor):
        return ("object", id(tensor))
    if tensor.device.type == "meta" or not tensor.numel():
        return ("tensor", id(tensor))
    return ("data", tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _is_cached(content: torch.Tensor, constants: Sequence[torch.Tensor]) -> bool:
    """Whether a constant consists of a weight's numbers: a module that has run keeps what it makes of its weights alone."""
    if is_sparse(content) or not content.is_floating_point():
        return False
    if "meta" in (content.device.type, *(item.device.type for item in constants)):
        return False
    distinct = content.unique()
    return len(distinct) >= _TELLING and any(
        item.dtype == content.dtype and len(item.unique()) >= _TELLING and bool(torch.isin(item, distinct).all())
        for item in constants
    )
