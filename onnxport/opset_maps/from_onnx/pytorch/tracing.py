"""Recording torch calls as a torch.fx graph, with what is known of each value (`traced.py`)."""

from __future__ import annotations

import keyword
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from onnxport.opset_maps.from_onnx.pytorch.paths import Paths
from onnxport.opset_maps.from_onnx.pytorch.traced import CallRecorder, Traced, Worlds, leaves
from onnxport.opset_maps.from_onnx.pytorch.worlds import META, Sizes, propagate
from onnxport.opset_maps.from_onnx.values import UnknownUntilRun

_ABSENT = object()


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
    """

    def __init__(self, sizes: Sizes, outer: Recorder | None = None) -> None:
        super().__init__()
        self.graph = fx.Graph()
        self.sizes = sizes
        self.outer = outer
        self.attributes: dict[str, Any] = {}
        self.paths = Paths()
        self.captures: list[Traced] = []
        self.ranks: dict[fx.Node, int] = {}
        self._captured: dict[fx.Node, Traced] = {}
        self._constants: dict[int, tuple[Any, fx.Node]] = {}
        self._dims: dict[tuple[fx.Node, int], Traced] = {}
        self._device: Any = _ABSENT
        self._last_placeholder: fx.Node | None = None

    # -- inputs and attributes -----------------------------------------------------------------------------------------

    def placeholder(self, name: str, worlds: Worlds | None, *, opaque: bool = False) -> Traced:
        """The next input."""
        place = self._last_placeholder
        scope = (
            self.graph.inserting_after(place) if place is not None else self.graph.inserting_before(_first(self.graph))
        )
        with scope:
            text = name or "input"
            if text == "self" or keyword.iskeyword(text):  # fx itself lets None, True and False through
                text = f"{text}_"
            node = self.graph.create_node("placeholder", text, name=text)
        node.target = (
            node.name
        )  # which fx has turned into an identifier that no other value and no global of its source has
        self._last_placeholder = node
        return Traced(node, self, worlds, opaque)

    def attribute(self, target: str, value: object) -> Traced:
        """A parameter, buffer or other object that the module holds as `target`."""
        self.attributes[target] = value
        node = self._get_attr(target)
        worlds = (twin := value.detach().to(META), twin) if isinstance(value, torch.Tensor) else None
        return Traced(node, self, worlds, opaque=worlds is None)

    def attribute_again(self, target: str) -> Traced:
        """An attribute that is there already."""
        value = self.attributes[target]
        node = next((n for n in self.graph.nodes if n.op == "get_attr" and n.target == target), None)
        twin = value.detach().to(META)
        return Traced(node if node is not None else self._get_attr(target), self, (twin, twin))

    def _get_attr(self, target: str) -> fx.Node:
        # At the top, where every later use sees it, whatever is rolled back in between.
        place = self._last_placeholder
        scope = (
            self.graph.inserting_after(place) if place is not None else self.graph.inserting_before(_first(self.graph))
        )
        with scope:
            return self.graph.create_node("get_attr", target)

    def free_target(self, base: str) -> str:
        """`base`, numbered where an attribute has that name or lies below it; it is taken then."""
        return self.paths.take(base)

    def constant(self, value: object) -> fx.Node:
        """The node of a constant tensor or other object, a buffer that the state dict leaves out."""
        result = self._constants.get(id(value))
        if result is None:
            target = self.free_target(f"_constant_{len(self._constants)}")
            self.attributes[target] = value
            result = (value, self._get_attr(target))
            self._constants[id(value)] = result
        return result[1]

    def capture(self, value: Traced) -> Traced:
        """A value of an enclosing graph, as an input of this one."""
        result = self._captured.get(value.node)
        if result is None:
            assert self.outer is not None, f"{value.node.name} belongs to no enclosing graph"
            if value.recorder is not self.outer:
                value = self.outer.capture(value)
            index = len(self.captures)
            self.captures.append(value)
            node_name = f"captured_{index}"
            result = self.placeholder(node_name, value.worlds, opaque=value.opaque)
            self._captured[value.node] = result
            origin = value
            self._captured[origin.node] = result
        return result

    @property
    def device(self) -> Any:
        """Where the model's inputs lie: traced, or None (the default device) for a graph without tensor inputs."""
        if self._device is _ABSENT or (self._device is not None and self._device.node._erased):
            self._device = None
            source = next((n for n in self.graph.nodes if n.op == "placeholder" and n.meta.get("tensor")), None)
            if source is not None:
                with self.graph.inserting_after(self._last_placeholder):
                    node = self.graph.call_function(getattr, (source, "device"))
                self._device = Traced(node, self, (META, META))
            elif self.outer is not None:
                self._device = self.outer.device
        return self._device

    # -- calls ---------------------------------------------------------------------------------------------------------

    def create_arg(self, a: object) -> Any:
        """An argument in the form that a graph holds."""
        if isinstance(a, Traced):
            return a.node if a.recorder is self else self.capture(a).node
        if isinstance(a, (list, tuple)):
            return type(a)(self.create_arg(item) for item in a)
        if isinstance(a, dict):
            return {key: self.create_arg(item) for key, item in a.items()}
        if a is None or isinstance(a, (int, float, str, bool, complex, torch.dtype, torch.device, torch.layout)):
            return a
        if isinstance(a, slice):
            return slice(*(self.create_arg(item) for item in (a.start, a.stop, a.step)))
        if a is Ellipsis:
            return a
        return self.constant(a)

    def record(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a call that is written into the graph: traced values in the structure that the function gives."""
        if any(isinstance(item, Traced) and item.opaque for item in leaves((list(args), kwargs))):
            raise UnknownUntilRun(f"an operand of {function.__name__} is no tensor or known only when the model runs")
        node = self.graph.call_function(
            function, tuple(self.create_arg(a) for a in args), {k: self.create_arg(v) for k, v in kwargs.items()}
        )
        return self._wrapped(node, propagate(function, args, kwargs, self.sizes))

    def module(self, target: str, module: torch.nn.Module, args: Sequence[Any], worlds: Worlds | None) -> Any:
        """The result of calling a submodule; `worlds` is its value in both (see `Traced`)."""
        self.attributes.setdefault(target, module)
        node = self.graph.call_module(target, tuple(self.create_arg(a) for a in args))
        return self._wrapped(node, worlds)

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

    # -- going back, ending --------------------------------------------------------------------------------------------

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
        for node in reversed(self.graph.nodes):
            if node.op not in ("placeholder", "output") and not node.users:
                self.graph.erase_node(node)


# Of sizes these give sizes.
_SIZE_ARITHMETIC = frozenset({operator.add, operator.mul, operator.floordiv})


def _first(graph: fx.Graph) -> fx.Node:
    return next(iter(graph.nodes), graph._root)
