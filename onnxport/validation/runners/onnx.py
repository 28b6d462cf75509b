"""ONNX models, run by onnxruntime or ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.errors import InvalidInputError, OnnxportError
from onnxport.graph import rows
from onnxport.graph.external_data import weight_bytes
from onnxport.graph.guard.bounds import current as current_guard
from onnxport.graph.protos import to_proto
from onnxport.graph.runtime import Session
from onnxport.graph.runtimes.fitting import misread, parted_by_threads, unrounded
from onnxport.graph.runtimes.windows import refuses_small_images
from onnxport.graph.slices import values_in_slices
from onnxport.validation import tolerance
from onnxport.validation.numerics import Numerics, of_model
from onnxport.validation.runners.base import Binding, Example, Outputs, Runner, split_arguments
from onnxport.validation.runners.onnx_noise import with_noise
from onnxport.validation.runners.onnx_wide import RemoteWideGraph, WideGraph, wide_graph
from onnxport.validation.values import as_table

# Operators that keep which number is the greatest.
_FORMS = frozenset(("Cast", "Identity", "Normalizer", "Reshape", "Squeeze", "ZipMap"))
_CLASSIFIERS = frozenset(("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"))
_TWIN_LIMIT = 1 << 29  # graphs with more weights have no float64 run and no run with moved weights


class OnnxRunner(Runner):
    """Runs a session; leaves are the graph's inputs in order."""

    framework: ClassVar[str] = "onnx"
    setting: str = ""  # how the session differs from one with onnxruntime's defaults, and why
    _rounds_to: float | None = None  # epsilon of a type narrower than its own that the graph rounds to

    def __init__(self, session: Session, title: str, example: Example | None, model: ir.Model | None = None) -> None:
        super().__init__(title, example)
        self.graph = model
        self.session = session
        self.runtime = session.backend
        self._wide: WideGraph | RemoteWideGraph | None = None
        self._noisy: Session | None = None
        self._has_wide = self._has_noisy = model is not None and weight_bytes(model) <= _TWIN_LIMIT

    @cached_property
    def numerics(self) -> Numerics:
        """Facts about the graph."""
        return of_model(self.graph) if self.graph is not None else super().numerics

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """Outputs in graph order."""
        return self._named(self.session.run(self._feeds(leaves)))

    def refuses(self, error: Exception) -> bool:
        """Whether it is onnxruntime's refusal of an image that is smaller than a convolution's window.

        Of that frameworks give no elements, which TensorFlow's later layers go on with.
        """
        return isinstance(error, InvalidInputError) and refuses_small_images(str(error))

    @property
    def stopped(self) -> str:
        """The error of a run that took more memory or time than the guard allows."""
        guard = current_guard()
        return guard.stopped if guard is not None else ""

    def stand_in(self) -> bool:
        """ONNX's reference evaluator, where onnxruntime loads the model and then has no kernel for what the inputs hold."""
        if self.graph is None or self.session.backend != "onnxruntime":
            return False
        self._turn_to_reference(self.graph, "it loads the model, but runs it on none of the drawn inputs")
        self.stands_in = True
        return True

    def by_the_specification(self) -> None:
        """Turns to ONNX's reference evaluator where onnxruntime does not run an operator by its definition.

        Where only its optimisations do not, it runs the graph node by node; where numbers depend on its threads, with one;
        where the file lets it round an operand, without that.
        """
        if self.graph is None or self.session.backend != "onnxruntime":
            return
        if (exact := unrounded(self.graph)) is not None:
            self.graph, self.session = exact, Session(exact)
            self.setting = "with accuracy_level=1: at 4, MatMulNBits of onnxruntime rounds its other operand to 8 bits"
        if reason := misread(self.graph):
            self._turn_to_reference(self.graph, reason)
        elif misread(self.graph, optimised=True):
            self.session = Session(self.graph, optimize=False)
        elif operator := parted_by_threads(self.graph):
            self.session = Session(self.graph, threads=1)
            self.setting = f"on one thread: with several, onnxruntime's {operator} gives other numbers for several rows"

    def _turn_to_reference(self, model: ir.Model, reason: str) -> None:
        self.session = Session(model, runtime="reference")
        self.session.fallback_reason = reason
        self.runtime = self.session.backend

    def _feeds(self, leaves: Sequence[Any]) -> dict[str, Any]:
        names = self.example.names if self.example is not None else self.session.input_names
        if len(leaves) != len(names):
            raise InvalidInputError(
                f"the model takes {len(names)} inputs ({', '.join(names)}), {len(leaves)} were given"
            )
        return dict(zip(names, leaves, strict=True))

    def _named(self, values: Sequence[Any]) -> Outputs:
        return list(zip(self.session.output_names, values, strict=True))

    def run_float64(self, leaves: Sequence[Any]) -> Outputs | None:
        """Outputs of the graph with doubles in place of narrower types; None where it has no such form."""
        if not self._has_wide or self.graph is None:
            return None
        feeds = {name: self.session.prepare(name, leaf) for name, leaf in self._feeds(leaves).items()}
        try:
            self._wide = self._wide or wide_graph(to_proto(self.graph))
            return self._named(self._wide.run(feeds))
        except Exception:  # of onnx's shape inference, inliner or evaluator: the moved runs then say what rounding does
            self._has_wide = False
        return None

    def run_moved(self, leaves: Sequence[Any], units: int, seed: int) -> Outputs | None:
        """Outputs of the graph with weights and inner results off by one unit in the last place, drawn anew each time."""
        if self._has_noisy and self.graph is not None:
            try:
                self._noisy = self._noisy or Session(with_noise(self.graph, self._rounds_to), optimize=False)
                if self._noisy.backend == self.session.backend:
                    return self._named(self._noisy.run(self._feeds(leaves)))
            except OnnxportError:
                pass
            self._has_noisy = False
        return self.run(leaves)

    def undecided(self, leaves: Sequence[Any], name: str, slack: float) -> np.ndarray | None:
        """Rows whose best two scores lie closer together than `slack` times the scores' scale, for an output of labels.

        The scores are another output, of the same classifier or such that its greatest number tells the label of every other row.
        """
        outputs = dict(self.run(leaves))
        labels = outputs.pop(name, None)
        if not isinstance(labels, np.ndarray) or labels.ndim != 1 or labels.dtype.kind not in "iuOUS":
            return None
        for other, value in outputs.items():
            scores = as_table(value)
            if np.ndim(scores) == 2 and len(scores) == len(labels) and scores.shape[1] > 1 and scores.dtype.kind == "f":
                close = tolerance.tied(scores, slack)
                alike = _one_to_one(np.argmax(scores, axis=1)[~close].tolist(), labels[~close].tolist())
                if alike or (self.graph is not None and _classifier(self.graph, name, other)):
                    return close
        return None

    def intermediates(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """Every tensor of the main graph by name."""
        return values_of(self.graph, self._feeds(leaves)) if self.graph is not None else {}

    def each_intermediate(self, leaves: Sequence[Any], take: Callable[[str, Any], None]) -> None:
        """Every tensor of the main graph, in the order of its nodes; of its values a slice is in memory."""
        if self.graph is not None:
            for name, value in values_in_slices(self.graph, self._feeds(leaves)):
                take(name, value)


class RangedRunner(OnnxRunner):
    """A source that rounds to a 16-bit type, which refuses inputs for which its numbers leave the type's range.

    Its session gives some outputs more, which count such numbers: `places` has their names and what they count.
    """

    def __init__(
        self,
        session: Session,
        title: str,
        example: Example | None,
        model: ir.Model,
        places: Mapping[str, str],
        dtype: str,
    ) -> None:
        super().__init__(session, title, example, model)
        self._places, self._dtype = places, dtype
        self._rounds_to = self.numerics.coarse

    def _named(self, values: Sequence[Any]) -> Outputs:
        return list(zip(self.session.output_names, values, strict=False))  # other runs give no counts, which come last

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """Outputs in graph order.

        Raises:
            InvalidInputError: a number on the way is beyond the type's range.
        """
        results = self._named(self.session.run(self._feeds(leaves)))
        beyond = [self._places[name] for name, count in results if name in self._places and float(count) > 0]
        if beyond:
            raise InvalidInputError(
                f"{beyond[0]} leaves {self._dtype}'s range for these inputs: bfloat16 has that of float32"
            )
        return [(name, value) for name, value in results if name not in self._places]


def _one_to_one(places: Sequence[object], labels: Sequence[object]) -> bool:
    """Whether each place goes with one label and each label with one place, of two or more."""
    together = set(zip(places, labels, strict=True))
    return len(together) > 1 and len(together) == len(set(places)) == len(set(labels))


def _classifier(graph: ir.Model, *names: str) -> bool:
    """Whether outputs are those of one node that classifies, or the same in another form."""
    nodes = []
    for value in graph.graph.outputs:
        if value.name in names:
            node = value.producer()
            while node is not None and node.op_type in _FORMS and node.inputs[0] is not None:
                node = node.inputs[0].producer()
            nodes.append(node)
    return (
        len(nodes) == len(names) and len(set(nodes)) == 1 and nodes[0] is not None and nodes[0].op_type in _CLASSIFIERS
    )


def values_of(model: ir.Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Every tensor of the model's main graph on `feeds`, the graph run as it is written."""
    values = [value for node in model.graph for value in node.outputs if value.name]
    return _shown(
        model, feeds, [value for value in values if value.type is None or isinstance(value.type, ir.TensorType)]
    )


def value_of(model: ir.Model, feeds: Mapping[str, Any], value: ir.Value) -> Any:
    """One tensor of the model's main graph, or an input."""
    if value.producer() is None:
        constant = value.const_value
        return feeds[value.name or ""] if constant is None else constant.numpy()
    return _shown(model, feeds, [value])[value.name or ""]


def _shown(model: ir.Model, feeds: Mapping[str, Any], values: Sequence[ir.Value]) -> dict[str, Any]:
    names = [value.name or "" for value in values]
    proto = to_proto(model)
    shown = {item.name for item in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in shown)
    session = Session(proto, optimize=False)
    return dict(zip(names, session.run(feeds, names), strict=True))


def bind(model: Any, binding: Binding) -> OnnxRunner:
    """A runner of an `OnnxModel`."""
    from onnxport.validation.runners import to_numpy

    session: Session = model.new_session()
    title = model.model.graph.name or "model"
    if not binding.given:
        return _runner(model, session, title, None)
    inputs: Any = () if binding.inputs is None else binding.inputs
    if rows.is_frame(inputs) or rows.is_records(inputs):  # one graph input a column
        inputs = rows.columns_of(inputs)
    args, named = split_arguments(inputs, binding.kwargs)
    given: Mapping[str, Any] = {**dict(zip(session.input_names, args, strict=False)), **named}
    if len(args) > len(session.input_names):
        raise InvalidInputError(
            f"the model takes {len(session.input_names)} inputs ({', '.join(session.input_names)}), {len(args)} are given"
        )
    model.check_inputs(given)
    names = tuple(session.input_names)
    leaves = tuple(session.prepare(name, to_numpy(given[name])) for name in names)
    return _runner(model, session, title, Example(names, leaves))


def _runner(model: Any, session: Session, title: str, example: Example | None) -> OnnxRunner:
    beyond = getattr(model, "beyond", None)
    if beyond is None:
        return OnnxRunner(session, title, example, model.model)
    return RangedRunner(session, title, example, model.model, beyond, model.dtype)
