"""Which calls of the source's modules a node belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Scope:
    """One call of a module of the source model."""

    path: str  # the module's path in the model: `encoder.layers.0`
    call: str  # tells the calls of one module apart
    kinds: tuple[str, ...]  # dotted names of the module's class and of the classes that it is derived from

    @property
    def kind(self) -> str:
        """The dotted name of the module's class."""
        return self.kinds[0]

    @property
    def class_name(self) -> str:
        """The class's own name."""
        return self.kind.rpartition(".")[2]


Chain = tuple[Scope, ...]  # calls around a node, the outermost first


@dataclass(frozen=True)
class Scopes:
    """What the source tells of its modules."""

    chains: Mapping[str, Chain] = field(default_factory=dict)  # by the name of the source's node
    parameters: frozenset[str] = frozenset()  # names of the initializers that are the source's own
