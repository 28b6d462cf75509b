"""Recording torch calls as a torch.fx graph, with what is known of each value (`traced.py`)."""

from __future__ import annotations

import keyword
import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import onnx_ir as ir
import torch
from torch import fx, nn

from onnxport.graph.module_state import ModuleState
from onnxport.graph.names import is_written_constant, is_written_number
from onnxport.opset_maps.from_onnx.pytorch.dtypes import FLOAT8, from_numpy
from onnxport.opset_maps.from_onnx.pytorch.paths import Attributes, Paths, is_constant
from onnxport.opset_maps.from_onnx.pytorch.stored import RecordedModule
from onnxport.opset_maps.from_onnx.pytorch.traced import (
    CallRecorder,
    Traced,
    Worlds,
    is_tensor_input,
    leaves,
    mapped,
    twins,
)
from onnxport.opset_maps.from_onnx.pytorch.worlds import META, Sizes, propagate
from onnxport.opset_maps.from_onnx.values import UnknownUntilRun

_ABSENT = object()
# What stands in the source of a graph as it is.
_WRITTEN = (int, float, str, complex, torch.dtype, torch.device, torch.layout)


class Recorder(CallRecorder):
    """Writes one torch.fx graph.

    Args:
        sizes: example sizes, shared by all graphs of a model.
        outer: the recorder of the enclosing graph, whose values may be used and become inputs here.

    Attributes:
        attributes: modules, parameters and buffers of the graph's module by target.
        paths: which of its targets are taken.
        captures: values of the enclosing graph that this one takes after its own inputs.
        ranks: rank of each node that is known to be a tensor.
        shapes: its shape in both worlds.
        transient: targets of buffers that the state dict leaves out.
        holders: modules that hold parameters which the graph uses, by their path.
    """

    def __init__(self, sizes: Sizes, outer: Recorder | None = None) -> None:
        super().__init__()
        self.graph = fx.Graph()
        self.sizes = sizes
        self.outer = outer
        self.attributes = Attributes()
        self.paths = Paths()
        self.captures: list[Traced] = []
        self.ranks: dict[fx.Node, int] = {}
        self.shapes: dict[fx.Node, tuple[torch.Size, torch.Size]] = {}
        self.transient: set[str] = set()
        self.holders: dict[str, nn.Module] = {}
        self._captured: dict[fx.Node, Traced] = {}
        self._constants: dict[int, tuple[Any, fx.Node]] = {}
        self._dims: dict[tuple[fx.Node, int], Traced] = {}
        self._device: Any = _ABSENT
        self._last_placeholder: fx.Node | None = None

    def placeholder(self, name: str, worlds: Worlds | None, *, opaque: bool = False) -> Traced:
        """The next input."""
        text = name or "input"
        if text == "self" or keyword.iskeyword(text):  # fx itself lets None, True and False through
            text = f"{text}_"
        with self._at_the_top():
            node = self.graph.create_node("placeholder", text, name=text)
        # fx has turned the name into an identifier that no other value and no global of its source has.
        node.target = node.name
        self._last_placeholder = node
        return Traced(node, self, worlds, opaque)

    def attribute(self, target: str, value: object) -> Traced:
        """A parameter, buffer or other object that the module holds as `target`."""
        self.attributes[target] = value
        node = self._get_attr(target)
        worlds = twins(value) if isinstance(value, torch.Tensor) else None
        return Traced(node, self, worlds, opaque=worlds is None)

    def attribute_again(self, target: str) -> Traced:
        """An attribute that is there already."""
        node = next((n for n in self.graph.nodes if n.op == "get_attr" and n.target == target), None)
        return Traced(node if node is not None else self._get_attr(target), self, twins(self.attributes[target]))

    def _at_the_top(self) -> AbstractContextManager[None]:
        """Nodes are written after the inputs, where every later use sees them, whatever is rolled back in between."""
        place = self._last_placeholder
        if place is not None:
            return self.graph.inserting_after(place)
        return self.graph.inserting_before(next(iter(self.graph.nodes), self.graph._root))

    def _get_attr(self, target: str) -> fx.Node:
        with self._at_the_top():
            return self.graph.create_node("get_attr", target)

    def constant(self, value: object) -> fx.Node:
        """The node of a constant tensor or other object, a buffer that the state dict leaves out."""
        result = self._constants.get(id(value))
        if result is None:
            target = self.paths.take(f"_constant_{len(self._constants)}")
            self.attributes[target] = value
            result = (value, self._get_attr(target))
            self._constants[id(value)] = result
        return result[1]

    def capture(self, value: Traced) -> Traced:
        """A value of an enclosing graph, as an input of this one."""
        result = self._captured.get(value.node)
        if result is None:
            assert self.outer is not None, f"{value.node.name} belongs to no enclosing graph"
            near = value if value.recorder is self.outer else self.outer.capture(value)
            result = self.placeholder(f"captured_{len(self.captures)}", near.worlds, opaque=near.opaque)
            self.captures.append(near)
            self._captured[value.node] = self._captured[near.node] = result
        return result

    @property
    def device(self) -> Any:
        """Where the model's inputs lie: traced, or None (the default device) for a graph without tensor inputs."""
        if self._device is _ABSENT or (self._device is not None and self._device.node._erased):
            self._device = None
            source = next((n for n in self.graph.nodes if n.op == "placeholder" and is_tensor_input(n)), None)
            if source is not None:
                with self.graph.inserting_after(self._last_placeholder):
                    node = self.graph.call_function(getattr, (source, "device"))
                self._device = Traced(node, self, (META, META))
            elif self.outer is not None:
                self._device = self.outer.device
        return self._device

    def create_arg(self, a: object) -> Any:
        """An argument in the form that a graph holds."""
        return mapped(a, self._argument)

    def _argument(self, a: object) -> Any:
        if isinstance(a, Traced):
            return a.node if a.recorder is self else self.capture(a).node
        return a if a is None or a is Ellipsis or isinstance(a, _WRITTEN) else self.constant(a)

    def record(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a call that is written into the graph: traced values in the structure that the function gives."""
        if any(isinstance(item, Traced) and item.opaque for item in leaves((list(args), kwargs))):
            raise UnknownUntilRun(f"an operand of {function.__name__} is no tensor or known only when the model runs")
        node = self.graph.call_function(
            function, tuple(self.create_arg(a) for a in args), {k: self.create_arg(v) for k, v in kwargs.items()}
        )
        return self._wrapped(node, propagate(function, args, kwargs, self.sizes))

    def module(
        self, name: str, module: torch.nn.Module, args: Sequence[Any], worlds: Worlds | None, *, opaque: bool = False
    ) -> Traced:
        """The result of calling a submodule, which gets the next free target of `name`; `worlds` as of `Traced`."""
        target = self.paths.take(name)
        self.attributes[target] = module
        return Traced(self.graph.call_module(target, tuple(self.create_arg(a) for a in args)), self, worlds, opaque)

    def item(self, value: Traced, index: int, worlds: Worlds | None) -> Traced:
        """Part `index` of a traced tuple."""
        return Traced(self.graph.call_function(operator.getitem, (value.node, index)), self, worlds, worlds is None)

    def _wrapped(self, node: fx.Node, worlds: Worlds | None) -> Any:
        if worlds is not None and isinstance(worlds[0], (tuple, list)):
            parts = []
            for index, both in enumerate(zip(*worlds, strict=True)):  # type: ignore[arg-type]
                part = self.graph.call_function(operator.getitem, (node, index))
                parts.append(self._wrapped(part, both))
            return type(worlds[0])(parts) if type(worlds[0]) in (list, tuple) else tuple(parts)
        return Traced(node, self, worlds)

    def size(self, x: Traced, axis: int) -> Any:
        """One size: an int where it is fixed, else traced."""
        x = x if x.recorder is self else self.capture(x)
        a, b = x.tensors()
        if a.shape[axis] == b.shape[axis]:
            return a.shape[axis]
        result = self._dims.get((x.node, axis))
        if result is None or result.node._erased:
            node = self.graph.call_method("size", (x.node, axis))
            result = Traced(node, self, (a.shape[axis], b.shape[axis]))
            self._dims[x.node, axis] = result
        return result

    def is_size(self, node: fx.Node) -> bool:
        """Whether an int is computed from sizes of axes, not read from a tensor's elements."""
        if node.op == "call_method":
            return node.target == "size"
        return (
            node.op == "call_function"
            and node.target in _SIZE_ARITHMETIC
            and all(map(self.is_size, node.all_input_nodes))
        )

    def mark(self) -> fx.Node | None:
        """The last node so far."""
        return next(iter(reversed(self.graph.nodes)), None)

    def rollback(self, mark: fx.Node | None) -> None:
        """Erases the calls that came after `mark`."""
        for node in reversed(self.graph.nodes):
            if node is mark:
                break
            if node.op not in ("placeholder", "get_attr") and not node.users:
                self.graph.erase_node(node)

    def finish(self, outputs: object) -> None:
        """Ends the graph with its outputs and drops what is not used."""
        self.graph.output(self.create_arg(outputs))
        self.drop_unused()

    def drop_unused(self) -> None:
        """Drops what no output depends on; torch.fx's own would ask the module of the graph, which there is not yet."""
        for node in reversed(self.graph.nodes):
            if node.op not in ("placeholder", "output") and not node.users:
                self.graph.erase_node(node)


# Of sizes these give sizes.
_SIZE_ARITHMETIC = frozenset({operator.add, operator.mul, operator.floordiv})


class RootRecorder(Recorder):
    """The main graph's recorder: it holds the parameters, under their own names.

    Attributes:
        fixed: paths of the state dict whose content stands in the finished graph as numbers, as the indices of a slice.
    """

    fixed: tuple[str, ...] = ()

    def finish(self, outputs: object) -> None:
        """Ends the graph; what it computed from while it was recorded is part of the state dict nevertheless."""
        super().finish(outputs)
        known = {self.paths.of(value): value for value in self._held if value.name in self.paths.of_key}
        fixed = {path: value for path, value in known.items() if path not in self.attributes}
        for path, value in fixed.items():
            self.attributes[path] = self._content(value)
        self.fixed = tuple(fixed)

    def reserve(self, initializers: Iterable[ir.Value], state: ModuleState) -> None:
        """Takes the paths of a model's initializers before anything else does, and what the file tells of their module."""
        self._held = held = list(initializers)
        known = {value.name for value in held} | {name for name, _ in (*state.numbers, *state.contents)}
        self.paths = Paths(held, [item for item in state.keys if item[1] in known])
        self._state = state
        for name, number in state.numbers:
            if name in self.paths.of_key:
                self.attributes[self.paths.of_key[name]] = torch.tensor(number)
        for name, content in state.contents:
            if name in self.paths.of_key:
                tensor = from_numpy(content.array(), ir.DataType[content.dtype])
                trained = tensor.dtype.is_floating_point and name not in state.buffers
                self.attributes[self.paths.of_key[name]] = torch.nn.Parameter(tensor) if trained else tensor
        for value in held:  # of the state dict, and used by nothing
            if not value.uses() and not value.is_graph_output() and value.name in self.paths.of_key:
                self.attributes[self.paths.of(value)] = self._content(value)

    def parameter(self, value: ir.Value) -> Traced:
        """An initializer as parameter (floating point) or buffer."""
        content = self._content(value)
        known = value.name in self.paths.of_key
        if not known and (is_written_constant(value.name or "") or is_written_number(value)):
            return Traced(self.constant(content.detach()), self, twins(content))
        path = self.paths.of(value)
        if value.name in self._state.transient:
            self.transient.add(path)
        return self.attribute(path, content)

    def _content(self, value: ir.Value) -> torch.Tensor:
        tensor = value.const_value
        assert tensor is not None
        content = from_numpy(tensor.numpy(), ir.DataType(tensor.dtype))
        trained = content.dtype.is_floating_point and content.dtype not in FLOAT8
        return torch.nn.Parameter(content) if trained and value.name not in self._state.buffers else content


def graph_module(recorder: Recorder, name: str) -> fx.GraphModule:
    """The module of a finished graph."""
    root = nn.Module()
    # A layer stands at its path before parameters that lie in it are looked at; else an empty module would hold them.
    for kind in ("call_module", "get_attr"):
        for target in sorted((str(node.target) for node in recorder.graph.nodes if node.op == kind), key=_depth):
            place(root, target, recorder.attributes.get(target))
    result = RecordedModule(root, recorder.graph, name)
    for path, holder in recorder.holders.items():
        parent, _, last = path.rpartition(".")
        module = _inside(result, parent)
        if module is not None and last in module._modules:
            module._modules[last] = holder
    for path, source in recorder.paths.state():
        content = held(result, source)
        place(result, path, recorder.attributes.get(source) if content is None else content)
    arrange(result, recorder.paths.order())
    # A GraphModule makes every buffer persistent.
    for path in (*filter(is_constant, result._buffers), *recorder.transient):
        parent, _, last = path.rpartition(".")
        module = _inside(result, parent)
        if module is not None and last in module._buffers:
            module._non_persistent_buffers_set.add(last)
    return result


def held(root: nn.Module, path: str) -> torch.Tensor | None:
    """The parameter or buffer at a path, None where there is none."""
    parent, _, last = path.rpartition(".")
    module = _inside(root, parent)
    return None if module is None else {**module._buffers, **module._parameters}.get(last)


def arrange(root: nn.Module, paths: Sequence[str]) -> None:
    """Sets modules, parameters and buffers in the order in which paths name them; what none names stays behind."""
    places: dict[str, dict[str, int]] = {}
    for path in paths:
        names = path.split(".")
        for end, name in enumerate(names):
            seen = places.setdefault(".".join(names[:end]), {})
            seen.setdefault(name, len(seen))
    for place_of, seen in places.items():
        module = _inside(root, place_of)
        for held in (module._modules, module._parameters, module._buffers) if module is not None else ():
            for name in sorted(held, key=lambda name, seen=seen: seen.get(name, len(seen))):  # type: ignore[misc]
                held[name] = held.pop(name)


def _inside(root: nn.Module, path: str) -> nn.Module | None:
    module: nn.Module | None = root
    for name in path.split(".") if path else ():
        module = module._modules.get(name) if module is not None else None
    return module


def _depth(target: str) -> int:
    return target.count(".")


def place(root: nn.Module, target: str, value: object) -> None:
    """Sets a parameter, buffer, module or other object at a dotted path."""
    *path, name = target.split(".")
    module = root
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module._modules[part]
    if value is None or name in module._modules or name in module._parameters or name in module._buffers:
        return
    if isinstance(value, nn.Module):
        module.add_module(name, value)
    elif isinstance(value, nn.Parameter):
        module.register_parameter(name, value)
    elif isinstance(value, torch.Tensor):
        module.register_buffer(name, value, persistent=not is_constant(name))
    else:
        setattr(module, name, value)
