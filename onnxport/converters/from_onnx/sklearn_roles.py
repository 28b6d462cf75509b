"""Which method of an estimator each output of a graph is, and the classes that a classifier's graph knows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnxport.errors import InvalidInputError
from onnxport.graph.outputs import Output, read

Kind = Literal["classifier", "regressor", "transformer", "clusterer", "outlier_detector"]
RUN = "run"  # the method that gives every output by its name

# Methods that take rows alone and give one result; nothing else in a file's record is called.
METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "transform",
    "score_samples",
)
_LABELS = frozenset((ir.DataType.INT64, ir.DataType.INT32, ir.DataType.STRING, ir.DataType.BOOL))
# What hands values on, so that it is looked through on the way back to what computes them.
_CARRIERS = frozenset("Identity Cast ZipMap Reshape Squeeze Unsqueeze Flatten Gather ArrayFeatureExtractor".split())
_RAW_NAMES = re.compile(r"score|decision|logit|margin|raw", re.IGNORECASE)
_LABEL_NAMES = re.compile(r"^(output_)?labels?$", re.IGNORECASE)
_FEATURES = re.compile(r"^(variable|transformed|embedding|feature|scaled|encoded)", re.IGNORECASE)


@dataclass(frozen=True)
class Roles:
    """What a graph's outputs are to an estimator."""

    kind: Kind
    outputs: tuple[Output, ...]  # one for each output of the graph, in order; `run` where no method gives it
    methods: Mapping[str, tuple[int, ...]]  # by method the outputs that it is of: several for a column each
    classes: np.ndarray | None = None  # in the order of the columns; None where the graph does not tell


def roles_of(model: ir.Model, chosen: Mapping[str, str] | None = None) -> Roles:
    """The roles of a graph's outputs: as `chosen` (by method an output's name), as the file records them, else by their kinds.

    Raises:
        InvalidInputError: `chosen` names no such method or output.
    """
    values = model.graph.outputs
    names = [value.name or "" for value in values]
    if chosen is not None:
        outputs = _chosen(chosen, names)
    else:
        recorded = read(model.metadata_props)
        whole = [item.name for item in recorded] == names and all(_is_callable(item) for item in recorded)
        outputs = [_known(item) for item in recorded] if whole else _guessed(values)
    methods: dict[str, tuple[int, ...]] = {}
    for place, item in enumerate(outputs):
        if item.method != RUN:
            methods[item.method] = (*methods.get(item.method, ()), place)
    outputs = [_compared(item, value) for item, value in zip(outputs, values, strict=True)]
    return Roles(_kind(methods, values), tuple(outputs), methods, _classes(methods, values))


def _chosen(chosen: Mapping[str, str], names: Sequence[str]) -> list[Output]:
    for method, name in chosen.items():
        if method not in METHODS:
            raise InvalidInputError(f"outputs: no method {method!r}; one of {', '.join(METHODS)}")
        if name not in names:
            raise InvalidInputError(f"outputs: the graph gives no {name!r}; it gives {', '.join(names)}")
    by_name = {name: method for method, name in chosen.items()}
    return [Output(name, by_name[name]) if name in by_name else _by_name(name) for name in names]


def _is_callable(output: Output) -> bool:
    fields = (output.name, output.method, output.step, output.form)
    return all(isinstance(item, str) for item in fields) and isinstance(output.column, int)


def _known(output: Output) -> Output:
    """A recorded output, by its name alone where no method of an `OnnxEstimator` gives it."""
    plain = output.method in METHODS and output.index is None and not output.step
    return output if plain and output.form in ("array", "column", "zipmap") else _by_name(output.name)


def _by_name(name: str) -> Output:
    return Output(name, RUN, index=name)


def _guessed(values: Sequence[ir.Value]) -> list[Output]:
    """A label beside scores is a classifier's, rows of several numbers under a name of features a transformer's."""
    outputs = [_by_name(value.name or "") for value in values]
    labels = next((i for i, value in enumerate(values) if _is_label(value) or is_row_of_labels(value)), None)
    scores = [i for i, value in enumerate(values) if _is_map(value) or _is_float(value)]
    if labels is None:
        labels = next((i for i, value in enumerate(values) if _is_several_labels(value)), None)
        if labels is not None:  # of several targets the scores are a table each, which no method gives as one
            scores = [i for i in scores if _width(values[i]) == _width(values[labels])]
    if labels is not None:
        outputs[labels] = replace(outputs[labels], method="predict", index=None)
        if scores:
            first = scores[0]
            method = "predict_proba" if _is_probability(values[first]) else "decision_function"
            outputs[first] = replace(outputs[first], method=method, index=None)
        return outputs
    first = scores[0] if scores else 0
    if values and (_is_float(values[first]) or values[first].dtype in _LABELS):
        name, several = values[first].name or "", _width(values[first]) != 1
        features = several and (not _is_float(values[first]) or _FEATURES.match(name) is not None)
        method = "transform" if features and not _is_regression(values[first]) else "predict"
        outputs[first] = replace(outputs[first], method=method, index=None)
    return outputs


def _compared(output: Output, value: ir.Value) -> Output:
    """How a proof asks for an output: by its method where that gives it as the graph does, else by its name."""
    if output.method == RUN:
        return output
    if _is_map(value):
        return replace(output, form="zipmap")
    if is_row_of_labels(value):
        return _by_name(output.name)
    raw = output.method == "decision_function" and _width(value) == 2
    lone = output.method == "predict_proba" and output.form == "array" and _width(value) in (1, None)
    return _by_name(output.name) if raw or lone else output


def _kind(methods: Mapping[str, Sequence[int]], values: Sequence[ir.Value]) -> Kind:
    if "predict_proba" in methods or "predict_log_proba" in methods:
        return "classifier"
    if "predict" in methods:
        return "classifier" if values[methods["predict"][0]].dtype in _LABELS else "regressor"
    if "decision_function" in methods:
        return "classifier"
    return "transformer" if "transform" in methods else "regressor"


def _classes(methods: Mapping[str, Sequence[int]], values: Sequence[ir.Value]) -> np.ndarray | None:
    """The classes that the nearest node before one of the outputs names."""
    for method in ("predict_proba", "decision_function", "predict"):
        for place in methods.get(method, ()):
            for node in _before(values[place]):
                known = _classes_of(node)
                if known is not None:
                    return known
    places = [*methods.get("predict_proba", ()), *methods.get("decision_function", ())]
    label = [values[place] for place in methods.get("predict", ())]
    width = _width(values[places[0]]) if len(places) == 1 else len(places) or None
    nodes = [node.op_type for node in _before(label[0])] if label else []
    if width is not None and nodes[-1:] == ["ArgMax"] and not {"Gather", "ArrayFeatureExtractor"} & {*nodes}:
        return np.arange(max(width, 2))  # the label is the column's own number
    return None


def _classes_of(node: ir.Node) -> np.ndarray | None:
    for name in ("classlabels_strings", "classlabels_int64s", "classlabels_ints"):
        attribute = node.attributes.get(name)
        if attribute is not None and len(attribute.value):
            return np.array([str(item) if isinstance(item, str) else int(item) for item in attribute.value])
    if node.op_type not in ("Gather", "ArrayFeatureExtractor") or node.inputs[0] is None:
        return None
    constant = node.inputs[0].const_value
    if constant is None or sum(size != 1 for size in constant.shape) > 1:
        return None
    labels = constant.numpy().ravel()
    if labels.dtype.kind in "OS":
        labels = np.array([item.decode() if isinstance(item, bytes) else str(item) for item in labels])
    return labels if len(np.unique(labels)) == len(labels) and labels.dtype.kind in "iUbf" else None


def _before(value: ir.Value) -> list[ir.Node]:
    """The nodes that hand an output on, from the last to the first, and what computes it."""
    nodes: list[ir.Node] = []
    producer = value.producer()
    while producer is not None:
        nodes.append(producer)
        places = (1,) if producer.op_type in ("Gather", "ArrayFeatureExtractor") else (0,)
        following = producer.inputs[places[0]] if len(producer.inputs) > places[0] else None
        if producer.op_type not in _CARRIERS or following is None:
            break
        producer = following.producer()
    return nodes


def _is_probability(value: ir.Value) -> bool:
    nodes = _before(value)
    last = nodes[-1] if nodes else None
    if last is not None and last.op_type in ("Softmax", "Sigmoid"):
        return True
    if last is not None and last.op_type in ("LinearClassifier", "SVMClassifier"):
        transform = last.attributes.get("post_transform")
        return "prob_a" in last.attributes or (transform is not None and transform.value != "NONE")
    return _RAW_NAMES.search(value.name or "") is None


def _is_regression(value: ir.Value) -> bool:
    return any(node.op_type.endswith("Regressor") for node in _before(value))


def _is_label(value: ir.Value) -> bool:
    return isinstance(value.type, ir.TensorType) and value.dtype in _LABELS and _width(value) == 1


def _is_several_labels(value: ir.Value) -> bool:
    """Whether a row has a label for each of several targets, as those of multilabel classifiers."""
    rank = len(value.shape or ()) if isinstance(value.type, ir.TensorType) and value.dtype in _LABELS else 0
    return rank == 2 and _LABEL_NAMES.search(value.name or "") is not None


def is_row_of_labels(value: ir.Value) -> bool:
    """Whether the labels of all rows stand in one, [1, N], as skl2onnx writes those of discriminant analysis."""
    shape = list(value.shape or ()) if isinstance(value.type, ir.TensorType) and value.dtype in _LABELS else []
    return len(shape) == 2 and shape[0] == 1 and not isinstance(shape[1], int)


def _is_float(value: ir.Value) -> bool:
    return isinstance(value.type, ir.TensorType) and value.dtype is not None and value.dtype.is_floating_point()


def _is_map(value: ir.Value) -> bool:
    node = value.producer()  # onnx-ir has no type of maps
    return node is not None and node.op_type == "ZipMap"


def _width(value: ir.Value) -> int | None:
    """How many numbers a row has; None where that is not known."""
    if value.shape is None:
        return None
    sizes = list(value.shape[1:])
    if not all(isinstance(size, int) for size in sizes):
        return None
    return int(np.prod([int(size) for size in sizes if isinstance(size, int)], dtype=np.int64))
