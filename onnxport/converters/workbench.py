"""Edits of ONNX models with their proofs: what the commands of the graph workbench do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.argument_types import check_mapping
from onnxport.converters.convert import convert
from onnxport.converters.from_onnx.inference import inferred
from onnxport.converters.watching import watched, watched_inference
from onnxport.errors import InvalidInputError
from onnxport.graph.rows import columns_of
from onnxport.graph.runtime import Session
from onnxport.graph.workbench.joining import by_equal_names, join
from onnxport.graph.workbench.naming import rename_all
from onnxport.graph.workbench.slimming import slim
from onnxport.model import OnnxModel
from onnxport.validation import prove, settled
from onnxport.validation.exact import exact
from onnxport.validation.runners import Binding
from onnxport.validation.values import leaves_of


@dataclass(frozen=True)
class Proof:
    """How an edit is proved: on which inputs, and whether at all."""

    inputs: Any = None  # by default they are drawn from the graph
    wanted: bool = True
    title: str = ""  # what the report calls the model before the edit


def renamed(
    model: OnnxModel, values: Mapping[str, str], nodes: Mapping[str, str], proof: Proof | None = None
) -> OnnxModel:
    """The model with other names; see `onnxport.graph.workbench.naming.rename_all`.

    Raises:
        ValidationError: the result gives other numbers.
        InvalidInputError: names do not fit.
    """
    result = OnnxModel(model.model.clone())
    rename_all(result.model, values, nodes)
    proof = proof or Proof()
    inputs = proof.inputs
    if isinstance(inputs, Mapping):
        inputs = tuple(inputs[name] for name in model.input_names)
    return proved(model, result, replace(proof, inputs=inputs))


def slimmed(model: OnnxModel, proof: Proof) -> OnnxModel:
    """The model with fewer nodes; see `onnxport.graph.workbench.slimming.slim`.

    Raises:
        ValidationError: the result gives other numbers.
    """
    return proved(model, OnnxModel(slim(with_types(model))), proof)


def with_types(model: OnnxModel) -> ir.Model:
    """A copy of the model's graph, its weights shared, with the types and shapes that ONNX's inference finds."""
    with watched_inference(model):
        return inferred(model.model)


def merged(
    first: OnnxModel, second: OnnxModel, ends: Mapping[str, str], proof: Proof, *, keep: bool = False
) -> OnnxModel:
    """`first` and `second` as one model; see `onnxport.graph.workbench.joining.join`.

    Raises:
        ValidationError: the result gives other numbers than one model after the other.
        InvalidInputError: names, types or sizes do not fit.
    """
    ends = dict(ends) or by_equal_names(first.model, second.model)
    result = OnnxModel(join(with_types(first), with_types(second), ends, keep=keep))
    if proof.wanted:
        with watched([first, second, result], drawn=True):
            chain = _Chain(first.model, second.model, ends)
            whole = Session(result.model, optimize=False)
            report = exact(chain, lambda feeds: _named(whole, feeds), result.model, ("one after the other", "merged"))
        result.report = settled(report)
    return result


def proved(before: OnnxModel, after: OnnxModel, proof: Proof) -> OnnxModel:
    """The second model with the report of its proof against the first.

    Raises:
        ValidationError: it gives other numbers.
    """
    if proof.wanted:
        with watched([before, after], drawn=proof.inputs is None):
            after.report = prove(before, after, after, Binding(proof.inputs), title=proof.title)
    return after


class _Chain:
    """Two models run one after the other, as they are written."""

    def __init__(self, first: ir.Model, second: ir.Model, ends: Mapping[str, str]) -> None:
        self._first, self._second = Session(first, optimize=False), Session(second, optimize=False)
        self._ends = ends

    def __call__(self, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        first = _named(self._first, {name: feeds[name] for name in self._first.input_names})
        fed = {into: first[out] for out, into in self._ends.items()}
        own = {name: feeds[name] for name in self._second.input_names if name not in fed}
        return {**first, **_named(self._second, {**own, **fed})}


def _named(session: Session, feeds: Mapping[str, Any]) -> dict[str, Any]:
    return dict(zip(session.output_names, session.run(feeds), strict=True))


def cut(model: OnnxModel, inputs: Sequence[str], outputs: Sequence[str]) -> OnnxModel:
    """The part of the model between values, by their names.

    Raises:
        InvalidInputError: there is no such value, or no output depends on it.
        InvalidModelError: the part gives other values than the whole.
    """
    return convert(model, cut_inputs=_given(inputs), cut_outputs=_given(outputs))


def _given(names: Sequence[str]) -> Sequence[str] | None:
    """None for an empty list, which asks for nothing; what is no list is refused by its name."""
    return None if isinstance(names, (list, tuple)) and not names else names


def in_float16(model: OnnxModel, keep_io_types: bool) -> OnnxModel:
    """The model computing in float16 what is safe there.

    Raises:
        ValidationError: the result gives other numbers.
        InvalidInputError: it computes nothing in float32.
    """
    return convert(model, dtype="float16", keep_io_types=keep_io_types)


def with_sizes(model: OnnxModel, sizes: Mapping[str, object]) -> OnnxModel:
    """The model with other sizes of its inputs' dimensions; see `read_sizes`, whose words may be numbers and tuples here.

    Raises:
        ValidationError: the result gives other numbers.
        InvalidInputError: sizes do not fit.
    """
    check_mapping(sizes, "sizes", "{'batch': 1}, by a dimension's or an input's name")
    words = {
        key: "x".join(map(str, item)) if isinstance(item, (tuple, list)) else str(item) for key, item in sizes.items()
    }
    return convert(model, dynamic_shapes=read_sizes(model, words))


def at_sizes_of(model: OnnxModel, inputs: object, *, validate: bool = True) -> OnnxModel:
    """The model with each dimension of its inputs at its size in the example inputs.

    Raises:
        ValidationError: the result gives other numbers.
        InvalidInputError: no example has the size of a dimension.
    """
    examples = _by_name(model, inputs)
    sizes: dict[str, dict[int, str | int]] = {}
    for value in model.model.graph.inputs:
        name, shape = value.name or "", value.shape
        if name not in model.input_names or shape is None:
            continue
        open_ = [axis for axis, dim in enumerate(shape) if not isinstance(dim, int)]
        if open_ and len(examples.get(name, ())) != len(shape):
            raise InvalidInputError(
                f"dimension {open_[0]} of {name!r} varies, and no example has its size: give --inputs or --input-shape, or fix "
                f"it afterwards by onnxport set-shapes model.onnx {name}:{open_[0]}=1"
            )
        sizes |= {name: {axis: examples[name][axis] for axis in open_}} if open_ else {}
    return convert(model, dynamic_shapes=sizes, validate=validate) if sizes else model


def _by_name(model: OnnxModel, inputs: object) -> dict[str, tuple[int, ...]]:
    """The shapes of example inputs by the names of the graph's inputs."""
    table = inputs if isinstance(inputs, Mapping) else columns_of(inputs)
    if table is not None and set(model.input_names) <= set(table):
        return {name: tuple(np.shape(table[name])) for name in model.input_names}
    leaves = [] if inputs is None else leaves_of(inputs)
    shapes = [tuple(np.shape(leaf)) for leaf in leaves]
    return dict(zip(model.input_names, shapes, strict=True)) if len(shapes) == len(model.input_names) else {}


def read_sizes(model: OnnxModel, words: Mapping[str, str]) -> dict[str, dict[int, str | int]]:
    """Sizes of inputs' dimensions, as `dynamic_shapes` of `onnxport.convert` takes them.

    Each of `words` is the name of a dimension and its size (``batch`` and ``1``), an input and all its sizes (``x`` and
    ``1x3x224x224``), or an input's dimension by its place (``x:0`` and ``4``); a word in the place of a size makes it vary.

    Raises:
        InvalidInputError: there is no such dimension or input, or its number of dimensions differs.
    """
    inputs = {value.name or "": value for value in model.model.graph.inputs if value.name in model.input_names}
    symbols: dict[str, list[tuple[str, int]]] = {}
    for own, value in inputs.items():
        for place, dim in enumerate(value.shape or ()):
            if not isinstance(dim, int) and dim.value:
                symbols.setdefault(dim.value, []).append((own, place))
    result: dict[str, dict[int, str | int]] = {}
    for key, text in words.items():
        name, _, axis = key.rpartition(":")
        if key in inputs:
            shape = inputs[key].shape
            dims = text.split("x") if text else []
            if shape is not None and shape.rank() != len(dims):
                raise InvalidInputError(
                    f"{key}={text}: input {key!r} has {shape.rank()} dimensions, {len(dims)} are given"
                )
            places = [(key, at, size) for at, size in enumerate(dims)]
        elif key in symbols:
            places = [(own, at, text) for own, at in symbols[key]]
        elif name in inputs and axis.lstrip("-").isdecimal():
            places = [(name, int(axis), text)]
        else:
            known = f"inputs {', '.join(inputs)}; dimensions {', '.join(symbols) or 'none'}"
            raise InvalidInputError(
                f"{key!r} is no input, no dimension's name and no INPUT:AXIS; the model has {known}"
            )
        for own, at, size in places:
            if not size.isdecimal() and not (size[:1].isalpha() or size.startswith("_")):
                raise InvalidInputError(
                    f"{key}={text}: {size!r} is no size: a whole number, 0 or more, or a name for a dimension that varies"
                )
            result.setdefault(own, {})[at] = int(size) if size.isdecimal() else size
    return result
