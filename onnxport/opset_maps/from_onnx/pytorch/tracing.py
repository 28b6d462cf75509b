"""Recording torch calls as a torch.fx graph, with what is known of each value.

A `Traced` value is a torch.fx proxy that knows its element type, rank and, where they are fixed, sizes. It does so by
living in two worlds at once: each value is a meta tensor in both, made by running the recorded function there; the worlds
differ in the example size of every dynamic dimension, so that a size that agrees in both does not depend on one. Values of
which nothing is known (results of operators that are put off until the model runs) are in no world, and asking about them
raises `UnknownUntilRun`.
"""

from __future__ import annotations

import keyword
import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import onnx_ir as ir
import torch
import torch.nn.functional as F
from torch import fx
from torch.fx.proxy import TracerBase

from onnxport.opset_maps.from_onnx.pytorch.paths import Paths
from onnxport.opset_maps.from_onnx.values import UnknownUntilRun

World = Any  # a meta tensor, a Python number, a device, or a tuple or list of such

_ABSENT = object()
_SEEDS = ((2, 3, 5), (67, 71, 73, 79, 83, 89, 97))
META = torch.device("meta")


class Traced(fx.Proxy):
    """A value of the traced program.

    Attributes:
        worlds: what the value is in the two example worlds; None where nothing is known.
        opaque: it may be no numeric tensor at all (strings, a sequence), so that only a deferred operator may take it.
    """

    worlds: tuple[World, World] | None
    opaque: bool

    def __init__(
        self, node: fx.Node, recorder: Recorder, worlds: tuple[World, World] | None, opaque: bool = False
    ) -> None:
        super().__init__(node, recorder)
        self.recorder = recorder
        self.worlds = worlds
        self.opaque = opaque
        if worlds is not None and isinstance(worlds[0], torch.Tensor):
            recorder.ranks[node] = worlds[0].dim()

    def world(self) -> World:
        """The first world's value.

        Raises:
            UnknownUntilRun: nothing is known of the value.
        """
        if self.worlds is None:
            raise UnknownUntilRun(f"the type of {self.node.name!r} is known only when the model runs")
        return self.worlds[0]

    def _unknown(self, *_: Any) -> Any:
        raise UnknownUntilRun(f"the value of {self.node.name!r} is known only when the model runs")

    __bool__ = __iter__ = __len__ = __int__ = __float__ = __index__ = __contains__ = _unknown
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _unknown

    def __hash__(self) -> int:
        return id(self)

    def _recorded(self, function: Callable[..., Any], *operands: Any) -> Any:
        return self.recorder.record(function, operands, {})

    def __add__(self, other: Any) -> Any:
        return self._recorded(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._recorded(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._recorded(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._recorded(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._recorded(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._recorded(operator.mul, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._recorded(operator.floordiv, self, other)

    def __neg__(self) -> Any:
        return self._recorded(operator.neg, self)

    @property
    def is_tensor(self) -> bool:
        """Whether it is known to be a tensor."""
        return self.worlds is not None and isinstance(self.worlds[0], torch.Tensor)


def holds_traced(item: Any) -> bool:
    """Whether a (nested) argument has a traced value in it."""
    if isinstance(item, Traced):
        return True
    if isinstance(item, (list, tuple)):
        return any(holds_traced(part) for part in item)
    if isinstance(item, dict):
        return any(holds_traced(part) for part in item.values())
    return False


def leaves(item: Any) -> Iterator[Any]:
    """The parts of a nested argument that are no lists, tuples or dicts."""
    if isinstance(item, (list, tuple)):
        for part in item:
            yield from leaves(part)
    elif isinstance(item, dict):
        yield from leaves(list(item.values()))
    else:
        yield item


class Sizes:
    """Example sizes of dynamic dimensions: a pair that differs, the same for the same name."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[int, int]] = {}
        self._fresh = count()

    def pair(self, name: str | None) -> tuple[int, int]:
        """Sizes in the two worlds of the dimension `name`."""
        if name is not None and name in self._named:
            return self._named[name]
        index = next(self._fresh)
        small, large = _SEEDS
        found = (small[index % len(small)], large[index % len(large)] + 100 * (index // len(large)))
        if name is not None:
            self._named[name] = found
        return found


class Recorder(TracerBase):
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

    def placeholder(self, name: str, worlds: tuple[World, World] | None, *, opaque: bool = False) -> Traced:
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
        node.target = node.name  # which fx has made an identifier that no other value and no global of its source has
        self._last_placeholder = node
        return Traced(node, self, worlds, opaque)

    def attribute(self, target: str, value: Any) -> Traced:
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

    def constant(self, value: Any) -> fx.Node:
        """The node of a constant tensor or other object, a buffer that the state dict leaves out."""
        found = self._constants.get(id(value))
        if found is None:
            target = self.free_target(f"_constant_{len(self._constants)}")
            self.attributes[target] = value
            found = (value, self._get_attr(target))
            self._constants[id(value)] = found
        return found[1]

    def capture(self, value: Traced) -> Traced:
        """A value of an enclosing graph, as an input of this one."""
        found = self._captured.get(value.node)
        if found is None:
            assert self.outer is not None, f"{value.node.name} belongs to no enclosing graph"
            if value.recorder is not self.outer:
                value = self.outer.capture(value)
            index = len(self.captures)
            self.captures.append(value)
            node_name = f"captured_{index}"
            found = self.placeholder(node_name, value.worlds, opaque=value.opaque)
            self._captured[value.node] = found
            origin = value
            self._captured[origin.node] = found
        return found

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

    def create_arg(self, a: Any) -> Any:
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

    def module(self, target: str, module: torch.nn.Module, args: Sequence[Any], worlds: Any) -> Any:
        """The result of calling a submodule; `worlds` says what it is in both worlds (see `Traced`)."""
        self.attributes.setdefault(target, module)
        node = self.graph.call_module(target, tuple(self.create_arg(a) for a in args))
        return self._wrapped(node, worlds)

    def item(self, value: Traced, index: int, worlds: tuple[World, World] | None) -> Traced:
        """Part `index` of a traced tuple."""
        return Traced(self.graph.call_function(operator.getitem, (value.node, index)), self, worlds, worlds is None)

    def _wrapped(self, node: fx.Node, worlds: tuple[World, World] | None) -> Any:
        if worlds is not None and isinstance(worlds[0], (tuple, list)):
            parts = []
            for index, (a, b) in enumerate(zip(*worlds, strict=True)):
                part = self.graph.call_function(operator.getitem, (node, index))
                parts.append(self._wrapped(part, (a, b)))
            return type(worlds[0])(parts) if type(worlds[0]) in (list, tuple) else tuple(parts)
        return Traced(node, self, worlds)

    def size(self, x: Traced, axis: int) -> Any:
        """One size: an int where it is fixed, else traced."""
        x = x if x.recorder is self else self.capture(x)
        x.world()
        a, b = x.worlds  # type: ignore[misc]
        if a.shape[axis] == b.shape[axis]:
            return a.shape[axis]
        found = self._dims.get((x.node, axis))
        if found is None or found.node._erased:
            node = self.graph.call_method("size", (x.node, axis))
            found = Traced(node, self, (a.shape[axis], b.shape[axis]))
            self._dims[x.node, axis] = found
        return found

    def is_size(self, node: fx.Node) -> bool:
        """Whether an int is made of sizes of axes, not read from a tensor's elements."""
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

    def finish(self, outputs: Any) -> None:
        """Ends the graph with its outputs and drops what is not used."""
        self.graph.output(self.create_arg(outputs))
        for node in reversed(self.graph.nodes):
            if node.op not in ("placeholder", "output") and not node.users:
                self.graph.erase_node(node)


# Of sizes these give sizes.
_SIZE_ARITHMETIC = frozenset({operator.add, operator.mul, operator.floordiv})


def _first(graph: fx.Graph) -> fx.Node:
    return next(iter(graph.nodes), graph._root)


# -- what a call gives in the two worlds ---------------------------------------------------------------------------------

_RULES: dict[Callable[..., Any], Callable[..., Any]] = {}
_BROADCASTING: set[Callable[..., Any]] = set()


def rule(function: Callable[..., Any], result: Callable[..., Any]) -> None:
    """Says what `function` gives on meta tensors: ``result(sizes, world, *args)`` with world 0 or 1."""
    _RULES[function] = result


# On floating-point operands of one type and shape these give another such: most nodes of a graph. Running one on a meta tensor
# can take milliseconds.
_LIKE_OPERANDS: frozenset[Callable[..., Any]] = frozenset(
    (operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, torch.maximum, torch.minimum)
    + (
        torch.relu,
        torch.sigmoid,
        torch.tanh,
        torch.exp,
        torch.log,
        torch.sqrt,
        torch.erf,
        torch.sin,
        torch.cos,
        torch.abs,
    )
    + (torch.floor, torch.ceil, torch.round, torch.sign, torch.reciprocal, torch.neg, torch.square)
    + (F.relu, F.gelu, F.silu, F.elu, F.leaky_relu, F.hardsigmoid, F.hardswish, F.softplus, F.softsign, F.mish)
)


def _like_operands(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[World, World] | None:
    """The worlds of the first operand, where the others are like it or Python numbers; else None."""
    first = args[0] if args else None
    if not isinstance(first, Traced) or first.worlds is None or not isinstance(first.worlds[0], torch.Tensor):
        return None
    if not first.worlds[0].is_floating_point() or not all(isinstance(item, _PLAIN) for item in kwargs.values()):
        return None
    for item in args[1:]:
        if isinstance(item, Traced):
            if item.worlds is None or not all(_alike(a, b) for a, b in zip(item.worlds, first.worlds, strict=True)):
                return None
        elif not isinstance(item, _PLAIN):
            return None
    return first.worlds


_PLAIN = (int, float, str)


def _alike(a: Any, b: Any) -> bool:
    return isinstance(a, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape


def broadcasting(*functions: Callable[..., Any]) -> None:
    """Declares functions whose operands are broadcast against each other.

    Where example sizes of dynamic dimensions contradict each other though the model's do not, the greater rank and the
    sizes other than 1 decide.
    """
    _BROADCASTING.update(functions)


def propagate(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], sizes: Sizes
) -> tuple[World, World] | None:
    """The result in both worlds; None where it can't be told."""
    operands = [item for item in leaves((list(args), kwargs)) if isinstance(item, Traced)]
    if any(item.worlds is None for item in operands):
        return None
    if function in _LIKE_OPERANDS and (told := _like_operands(args, kwargs)) is not None:
        return told
    same = (
        all(item.worlds[0] is item.worlds[1] for item in operands if item.worlds is not None) and function not in _RULES
    )
    found = []
    fresh = sizes.pair(None)
    for world in (0,) if same else (0, 1):
        try:
            found.append(_evaluate(function, in_world(args, world), in_world(kwargs, world), world, fresh))
        except Exception:  # example sizes contradict each other, or the function can't run without data
            return _fallback(function, args, kwargs, sizes)
    return (found[0], found[0]) if same else (found[0], found[1])


def _evaluate(function: Callable[..., Any], args: Any, kwargs: Any, world: int, fresh: tuple[int, int]) -> Any:
    special = _RULES.get(function)
    with torch.no_grad():
        if special is not None:
            return special(fresh[world], *args, **kwargs)
        return function(*args, **kwargs)


def in_world(item: Any, world: int) -> Any:
    """An argument as it is in one of the two worlds, its tensors without content."""
    if isinstance(item, Traced):
        return item.worlds[world]  # type: ignore[index]
    if isinstance(item, torch.Tensor):
        return item.detach().to(META)
    if isinstance(item, (list, tuple)):
        return type(item)(in_world(part, world) for part in item)
    if isinstance(item, dict):
        return {key: in_world(part, world) for key, part in item.items()}
    return item


def _fallback(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], sizes: Sizes
) -> tuple[World, World] | None:
    if function not in _BROADCASTING:
        return None
    tensors = [item for item in args if isinstance(item, (Traced, torch.Tensor))]
    shapes = [[in_world(item, world).shape for item in tensors] for world in (0, 1)]
    rank = max(len(shape) for shape in shapes[0])
    merged = []
    for axis in range(-rank, 0):
        pairs = [(shapes[0][i][axis], shapes[1][i][axis]) for i in range(len(tensors)) if len(shapes[0][i]) >= -axis]
        wide = [pair for pair in pairs if pair != (1, 1)]
        fixed = [pair for pair in wide if pair[0] == pair[1]]
        merged.append(fixed[0] if fixed else wide[0] if wide else (1, 1))
    try:
        scalars = [
            torch.empty((1,), dtype=in_world(i, 0).dtype, device=META) if isinstance(i, (Traced, torch.Tensor)) else i
            for i in args
        ]
        dtype = function(*scalars, **kwargs).dtype
    except Exception:  # nothing more to try: the type stays unknown
        return None
    a, b = ([pair[world] for pair in merged] for world in (0, 1))
    return torch.empty(a, dtype=dtype, device=META), torch.empty(b, dtype=dtype, device=META)


def example(dtype: torch.dtype, dims: Sequence[int | str | None], sizes: Sizes) -> tuple[World, World]:
    """A tensor in both worlds: sizes that are fixed, named, or unknown (None)."""
    if all(isinstance(dim, int) for dim in dims):
        twin = torch.empty([int(dim) for dim in dims if dim is not None], dtype=dtype, device=META)
        return twin, twin
    pairs = [(dim, dim) if isinstance(dim, int) else sizes.pair(dim) for dim in dims]
    a, b = ([pair[world] for pair in pairs] for world in (0, 1))
    return torch.empty(a, dtype=dtype, device=META), torch.empty(b, dtype=dtype, device=META)


def merged(x: Any, y: Any, sizes: Sizes) -> tuple[World, World] | None:
    """What is known of a value that is `x` or `y`: sizes that differ become dynamic; None where type or rank differ."""
    if x is None or y is None or not all(isinstance(item, torch.Tensor) for item in (x[0], y[0])):
        return None
    if x[0].dtype != y[0].dtype or x[0].dim() != y[0].dim():
        return None
    dims: list[Any] = []
    pairs = []
    for axis in range(x[0].dim()):
        ours, theirs = (x[0].shape[axis], x[1].shape[axis]), (y[0].shape[axis], y[1].shape[axis])
        pairs.append(ours if ours == theirs else sizes.pair(None))
    del dims
    if all(a == b for a, b in pairs):
        twin = torch.empty([a for a, _ in pairs], dtype=x[0].dtype, device=META)
        return twin, twin
    a, b = ([pair[world] for pair in pairs] for world in (0, 1))
    return torch.empty(a, dtype=x[0].dtype, device=META), torch.empty(b, dtype=x[0].dtype, device=META)


def dims_of(value: ir.Value) -> list[int | str | None] | None:
    """Sizes that the model declares for a value; None where it says no rank."""
    if value.shape is None:
        return None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]
