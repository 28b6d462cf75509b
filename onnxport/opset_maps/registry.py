"""The registries behind the tables: which function converts an operator.

`OpsetMap` holds what leads from a framework to ONNX, `Semantics` what leads from ONNX to a framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from pkgutil import iter_modules
from typing import Any, Generic, TypeVar

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.cases import Case

Function = TypeVar("Function", bound=Callable[..., Any])
ENTRY_POINTS = "onnxport.opset_maps"


@dataclass(frozen=True)
class Entry:
    """One operator of a source framework and the function that writes it in ONNX."""

    name: str  # the operator in the source's spelling
    function: Callable[..., Any]  # `function(op, *operands, **attributes)`, giving a value or a tuple of values
    cases: tuple[Case, ...] = ()  # the evidence
    accepts_complex: bool = False  # the entry takes operands in the real representation of complex tensors
    min_opset: int = 13  # least target opset at which the entry has a form

    @property
    def summary(self) -> str:
        """First line of the function's docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    def require_opset(self, opset: int) -> None:
        """Refuses a target that the entry has no form for.

        Raises:
            UnsupportedOperator: `opset` is below the entry's least.
        """
        if opset < self.min_opset:
            raise UnsupportedOperator(f"needs opset {self.min_opset}; target_opset is {opset}")


@dataclass(frozen=True)
class Undefined:
    """In place of a result that an entry can't give: the operator is refused where that result is used."""

    reason: str
    operator: str = ""  # these two are the driver's to fill in
    where: str = ""


Key = TypeVar("Key")
Found = TypeVar("Found")


class _Families(Generic[Key, Found]):
    """Entries by key that the modules of a package register; the package is imported when it is first consulted."""

    def __init__(self, owner: str, families: str | None) -> None:
        self._owner = owner
        self._families = families
        self._entries: dict[Key, Found] = {}

    def _load(self) -> None:
        """Imports the package, once; what the user registered before stays beside or before the package's entries."""
        if self._families is None:
            return
        package, self._families = self._families, None
        earlier, self._entries = self._entries, self._while_loading()
        try:
            _import_families(package)
            for point in _registered():
                if point.name.partition(".")[0] == self._owner:
                    point.load()
        except BaseException:
            # A family that fails to import must fail again, not leave half a map.
            self._families, self._entries = package, earlier
            raise
        self._prefer(earlier)

    def _while_loading(self) -> dict[Key, Found]:
        """The entries that the modules see while they are imported."""
        return {}

    def _prefer(self, earlier: dict[Key, Found]) -> None:
        self._entries.update(earlier)


class OpsetMap(_Families[tuple[str, bool], Entry]):
    """The map of one framework to ONNX.

    The families of the map are modules of one package; they register themselves when the package is first consulted: those of
    the first group of `usual` ones then, each further group and then the others once those do not have what is asked for.

    >>> toy = OpsetMap("toy")
    >>> @toy.lower("toy::twice")
    ... def twice(op, x):
    ...     "x + x."
    ...     return op.Add(x, x)
    >>> toy.find("toy::twice").summary, toy.find("toy::thrice")
    ('x + x.', None)
    """

    def __init__(self, framework: str, families: str | None = None, usual: Sequence[Sequence[str]] = ()) -> None:
        super().__init__(framework, families)
        self.framework = framework
        self._usual = list(usual)
        self._begun = False

    def lower(
        self, *names: str, cases: Sequence[Case] = (), accepts_complex: bool = False, min_opset: int = 13
    ) -> Callable[[Function], Function]:
        """Registers the decorated function for operators of the source.

        Args:
            names: operators in the source's spelling, one or several (with spaces between) a string; for ATen with the
                overload (``aten::add.Tensor``), or without it for all overloads. A later registration replaces an earlier one.
            cases: the evidence, at least one for an entry of the package.
            accepts_complex: an entry beside the real one, taken when an operand is complex.
            min_opset: least target opset at which the entry has a form, and at which its cases are tried.
        """
        own = tuple(item if item.min_opset >= min_opset else replace(item, min_opset=min_opset) for item in cases)

        def register(function: Function) -> Function:
            for name in " ".join(names).split():
                self._entries[name, accepts_complex] = Entry(name, function, own, accepts_complex, min_opset)
            return function

        return register

    def find(self, name: str, *, accepts_complex: bool = False) -> Entry | None:
        """The entry for `name`: the exact overload first, then the one for all overloads."""
        if self._usual and not self._begun:
            self._begin()
        entry = self._entry(name, accepts_complex)
        while entry is None and self._families is not None:
            self._load_more()
            entry = self._entry(name, accepts_complex)
        return entry

    def _begin(self) -> None:
        """Imports the first usual modules; the whole package where someone else registers entries too, which may replace any."""
        self._begun = True
        others = any(not item.function.__module__.startswith(str(self._families)) for item in self._entries.values())
        if others or any(point.name.partition(".")[0] == self._owner for point in _registered()):
            self._load()
        else:
            self._load_more()

    def _load_more(self) -> None:
        """Imports the next group of usual modules, or after the last the whole package."""
        if not self._usual:
            self._load()
            return
        for name in self._usual.pop(0):
            import_module(f"{self._families}.{name}")

    def _while_loading(self) -> dict[tuple[str, bool], Entry]:
        return dict(self._entries)  # a module may look up what an earlier, usual one registered

    def _entry(self, name: str, accepts_complex: bool) -> Entry | None:
        entry = self._entries.get((name, accepts_complex))
        if entry is None and "." in name:
            entry = self._entries.get((name.rpartition(".")[0], accepts_complex))
        return entry

    def __iter__(self) -> Iterator[Entry]:
        self._load()
        return iter(sorted(self._entries.values(), key=lambda entry: (entry.name, entry.accepts_complex)))


@dataclass(frozen=True)
class SemanticsEntry:
    """What one ONNX operator means, for some of its versions."""

    domain: str  # operator domain, "" for ai.onnx
    op_type: str  # operator name
    versions: tuple[int, ...]  # the schema's since_versions that the function covers, ascending
    function: Callable[..., Any]  # `function(xp, *inputs, **attributes)`
    cases: tuple[Case, ...] = ()


class Semantics(_Families[tuple[str, str], list[SemanticsEntry]]):
    """The meaning of ONNX operators, or a framework's native spellings of some of them.

    >>> table = Semantics()
    >>> @table.op("Relu", versions=(6, 13, 14))
    ... def relu(xp, x):
    ...     return xp.maximum(x, 0)
    >>> table.find("", "Relu", 14).function is relu, table.find("", "Relu", 1)
    (True, None)
    """

    def __init__(self, families: str | None = None) -> None:
        super().__init__("onnx", families)

    def op(
        self, *op_types: str, versions: Sequence[int], domain: str = "", cases: Sequence[Case] = ()
    ) -> Callable[[Function], Function]:
        """Registers the decorated function for ONNX operators.

        Args:
            op_types: operator names in `domain`.
            versions: every since_version of the schema that the function was written against.
            domain: operator domain.
            cases: evidence beside ONNX's own backend tests.
        """

        def register(function: Function) -> Function:
            for op_type in op_types:
                entry = SemanticsEntry(domain, op_type, tuple(versions), function, tuple(cases))
                self._entries.setdefault((domain, op_type), []).append(entry)
            return function

        return register

    def find(self, domain: str, op_type: str, version: int) -> SemanticsEntry | None:
        """The latest implementation whose version is at most `version`; the last registered where several cover it."""
        self._load()
        best: tuple[int, SemanticsEntry] | None = None
        for entry in self._entries.get((domain, op_type), ()):
            reached = max((since for since in entry.versions if since <= version), default=None)
            if reached is not None and (best is None or reached >= best[0]):
                best = (reached, entry)
        return best[1] if best else None

    def __iter__(self) -> Iterator[SemanticsEntry]:
        self._load()
        for _, entries in sorted(self._entries.items()):
            yield from entries

    def _prefer(self, earlier: dict[tuple[str, str], list[SemanticsEntry]]) -> None:
        for key, entries in earlier.items():
            self._entries.setdefault(key, []).extend(entries)


def _registered() -> EntryPoints:
    return entry_points(group=ENTRY_POINTS)


def _import_families(package: str) -> None:
    """Imports every module of a package, those of its subpackages too."""
    for module in iter_modules(import_module(package).__path__, f"{package}."):
        if module.ispkg:
            _import_families(module.name)
        else:
            import_module(module.name)
