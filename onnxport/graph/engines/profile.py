"""What an engine takes, as data, and the nodes of a model that it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir as ir

from onnxport.graph.bodies import bodies
from onnxport.graph.engines.limits import Limit
from onnxport.graph.provenance import PREFIX
from onnxport.graph.schema import find_schema


@dataclass(frozen=True)
class Profile:
    """The operators that one engine documents.

    Attributes:
        name: what the user calls it.
        title: engine and version.
        source: the page with them.
        operators: names of operators, with their domain where that is not ai.onnx.
        types: element types of tensors; empty where the page names none.
        without: operators among those that all engines have that this one lacks.
        limits: by operator, what its page restricts.
        composes: the engine reads no ONNX: a converter writes its operators, those that ONNX defines by others by these.
        otherwise: what becomes of a node that it does not take.
    """

    name: str
    title: str
    source: str
    operators: str
    types: str = ""
    without: str = ""
    limits: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)
    composes: bool = False
    otherwise: str = ""

    @cached_property
    def known(self) -> frozenset[str]:
        """The operators."""
        return frozenset(self.operators.split()) - frozenset(self.without.split())


@dataclass(frozen=True)
class Finding:
    """A node that an engine does not take, and why."""

    op: str
    node: str
    reason: str
    where: str = ""  # the place in the user's code


def findings(model: ir.Model, profile: Profile) -> list[Finding]:
    """All nodes that the engine does not take, in the graph's order; bodies of branches and loops, and functions, included.

    The values of the model have types, as far as ONNX's inference finds them.
    """
    opset = model.graph.opset_imports.get("", 1)
    tops: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    nodes = [node for top in tops for node in _nodes(top)]
    own = {name[:2] for name in model.functions}  # functions of the model are taken by what they consist of
    return [item for node in nodes if (node.domain, node.op_type) not in own for item in _of_node(node, profile, opset)]


def _nodes(graph: ir.Graph | ir.Function) -> Iterator[ir.Node]:
    for node in graph:
        yield node
        for body in bodies(node):
            yield from _nodes(body)


def _of_node(node: ir.Node, profile: Profile, opset: int) -> Iterator[Finding]:
    op = f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
    name = node.name or node.outputs[0].name or ""
    props = node.metadata_props
    module, line = props.get(f"{PREFIX}module", ""), props.get(f"{PREFIX}source", "")
    where = ", ".join(part for part in (f"'{module}'" if module else "", line) if part)
    if op == "Constant":  # a weight by another name
        return
    if op not in profile.known and not _is_composed(node.domain, node.op_type, profile, opset):
        yield Finding(op, name, "not among its operators", where)
        return
    for limit in profile.limits.get(op, ()):
        reason = limit(node)
        if reason:
            yield Finding(op, name, reason, where)
    types = profile.types.split()
    dtypes = {value.dtype.name for value in node.outputs if value.dtype is not None}
    for dtype in sorted(dtypes - set(types)) if types else ():
        yield Finding(op, name, f"its result is {dtype}", where)


def _is_composed(domain: str, op_type: str, profile: Profile, opset: int) -> bool:
    """Whether ONNX defines the operator by others, all of which the engine takes, and a converter writes these.

    Only a definition that does not depend on types is looked at.
    """
    schema = find_schema(domain, op_type, opset) if profile.composes else None
    if not getattr(schema, "has_function", False) or schema is None:
        return False
    inner = {item.op_type for item in schema.function_body.node} - profile.known - {"Constant", "CastLike", op_type}
    return all(_is_composed("", name, profile, opset) for name in inner)
