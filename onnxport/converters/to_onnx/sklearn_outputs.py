"""Which outputs a graph of an estimator has, and in which form each stands there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import numpy as np
import onnx_ir as ir
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from onnxport.errors import InvalidInputError, UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.outputs import SEVERAL, Output, raw_scores
from onnxport.graph.rows import plain
from onnxport.opset_maps.to_onnx.sklearn.arrays.array import Array
from onnxport.opset_maps.to_onnx.sklearn.tables.categories import codes

# Methods of the map that are an estimator's method with an option, and that method.
VARIANTS = {"predict_std": "predict", "raw_scores": "predict"}
# Methods of a pipeline's last step that scikit-learn's Pipeline does not hand on, and that one asks of it all the same.
PIPED = ("kneighbors",)
_OF_MODEL = {
    "label": (True, False),
    "labels": ("names", "ints", "strings"),
    "raw_scores": (False, True),
    "zipmap": (False, True, "columns"),
}


def outputs_of(
    model: BaseEstimator, methods: Sequence[str] | None, options: Mapping[str, object] | None = None
) -> list[Output]:
    """The graph's outputs for an estimator.

    A classifier gives ``label`` and ``probabilities`` (only ``label`` where it has no probabilities), a mixture likewise, a
    clusterer ``label``, an outlier detector ``label`` and ``scores`` (its decision function), anything else ``variable``,
    what `predict` or else `transform` gives; nearest neighbours their distances and indices. With `methods` the outputs
    bear the methods' names.

    Options of the estimator itself: ``label=False`` leaves the label out; ``labels="ints"`` or ``"strings"`` gives it by its
    number among the classes or as text; ``raw_scores=True`` gives the decision function (the margins of XGBoost, LightGBM
    and CatBoost), as ``scores``, instead of probabilities; ``zipmap=True`` a map from label to probability for each row
    (float32, as ONNX's ZipMap has it), and ``zipmap="columns"`` an output for each class. A key that is a step's path
    (``"scale"``, ``"prep.num"``, or as scikit-learn writes it, ``"prep__num"``) holds options of that step: ``output=True``
    also gives what it makes of its input, under the step's path or the name said instead of True; those of a pipeline's last
    step are the estimator's own.

    Raises:
        InvalidInputError: no such method, step or option.
    """
    own, steps = _options(model, options or {})
    result = _chosen(model, methods, own)
    for path, name in steps.items():
        step = step_at(model, path)
        method = "transform" if hasattr(step, "transform") else "predict"
        result.append(Output(name, method, step=path))
    return result


def _options(model: BaseEstimator, options: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, str]]:
    """The estimator's own options, and the names of the outputs that steps are to give, by path."""
    own: dict[str, Any] = {}
    steps: dict[str, str] = {}
    last = model.steps[-1][0] if hasattr(model, "steps") else ""
    for key, value in _by_path(model, options):
        if not isinstance(value, Mapping):
            own[key] = value
            continue
        path = key.replace("__", ".")
        if path in (last, "", type(model).__name__):
            own.update({name: item for name, item in value.items() if name != "output"})
        elif step_at(model, path) is not None and set(value) - {"output"}:
            unknown = ", ".join(sorted(set(value) - {"output"}))
            raise InvalidInputError(f"options of the step {key!r}: {unknown}; a step has the option output=True")
        if value.get("output"):
            step_at(model, path)
            steps[path] = path if value["output"] is True else str(value["output"])
    for key, item in own.items():
        if key not in _OF_MODEL or not any(item is known or item == known for known in _OF_MODEL[key]):
            known = "; ".join(f"{name} (one of {', '.join(map(repr, items))})" for name, items in _OF_MODEL.items())
            raise InvalidInputError(f"options: {key}={item!r} is none of {known}, and no step's options")
    return own, steps


def _by_path(model: BaseEstimator, options: Mapping[Any, object]) -> Iterator[tuple[str, Any]]:
    """Options under the names of what they are of; a class stands for each step of it."""
    for key, value in options.items():
        if isinstance(key, str):
            paths = [
                path for path, step in _steps(model, "") if type(step).__name__ == key and isinstance(value, Mapping)
            ]
            yield from ((path, value) for path in paths or [key])
            continue
        if not isinstance(key, type) or not isinstance(value, Mapping):
            raise InvalidInputError(
                f"options: {key!r} is no name; those of the estimator itself stand as they are, {{'zipmap': True}}, those of a "
                "step under its name, {'scale': {'output': True}}, or its class, {StandardScaler: {'output': True}}"
            )
        paths = [path for path, step in _steps(model, "") if isinstance(step, key)]
        if not paths:
            raise InvalidInputError(f"options: no step of {type(model).__name__} is a {key.__name__}")
        yield from ((path, value) for path in paths)


def _steps(model: object, path: str) -> Iterator[tuple[str, object]]:
    """An estimator and its steps, at any depth, by their paths."""
    yield path, model
    for attribute in ("steps", "transformer_list", "transformers_"):
        for part in getattr(model, attribute, ()):
            yield from _steps(part[1], f"{path}.{part[0]}" if path else part[0])


def step_at(model: BaseEstimator, path: str) -> Any:
    """The fitted step at a path of names.

    Raises:
        InvalidInputError: there is none.
    """
    for name in path.split("."):
        parts: dict[str, Any] = {}
        for attribute in ("steps", "transformer_list", "transformers_"):
            parts |= {part[0]: part[1] for part in getattr(model, attribute, ())}
        if name not in parts:
            among = f"; {type(model).__name__} has {', '.join(parts)}" if parts else ""
            raise InvalidInputError(f"options: no step {path!r}{among}")
        model = parts[name]
    if isinstance(model, str) or model is None:
        raise InvalidInputError(f"options: the step {path!r} is {model!r}, which makes nothing of its own")
    return model


def _chosen(model: BaseEstimator, methods: Sequence[str] | None, own: Mapping[str, Any]) -> list[Output]:
    parts = _of_methods(model, methods, raw=bool(own.get("raw_scores")))
    if own.get("label") is False:
        parts = [output for output in parts if output.method != "predict"]
    labels = own.get("labels", "names")
    if labels != "names":
        _require_classes(model, f"labels={labels!r}")
        parts = [replace(output, form=labels) if output.method == "predict" else output for output in parts]
    zipmap = own.get("zipmap", False)
    if zipmap:
        classes = _require_classes(model, f"zipmap={zipmap!r}")
        parts = [part for output in parts for part in _zipped(output, classes, zipmap)]
    if not parts:
        raise InvalidInputError("options: no output is left")
    return parts


def _zipped(output: Output, classes: np.ndarray, zipmap: bool | str) -> list[Output]:
    if output.method not in ("predict_proba", "predict_log_proba", "decision_function", "raw_scores"):
        return [output]
    if zipmap is True:
        return [replace(output, form="zipmap")]
    form = replace(output, form="column")
    names = [f"{output.name}_{label}" for label in classes.tolist()]
    return [replace(form, name=name, column=index) for index, name in enumerate(names)]


def _require_classes(model: BaseEstimator, option: str) -> np.ndarray:
    classes = getattr(model, "classes_", None)
    if classes is None or isinstance(classes, list):
        raise InvalidInputError(f"options: {option} is for classifiers of one label")
    return np.asarray(classes)


def _of_methods(model: BaseEstimator, methods: Sequence[str] | None, *, raw: bool) -> list[Output]:
    if methods:
        return [output for method in methods for output in _outputs_of_method(model, method, method)]
    kind = get_tags(model).estimator_type
    if raw and kind != "classifier":
        raise InvalidInputError("options: raw_scores=True is for classifiers")
    if hasattr(model, "predict") and kind in ("classifier", "clusterer", "outlier_detector", "density_estimator"):
        second = {"classifier": "predict_proba", "density_estimator": "predict_proba"}.get(kind, "decision_function")
        if raw:
            decides = hasattr(model, "decision_function") or not raw_scores(model)
            second = "decision_function" if decides else "raw_scores"
        title = "probabilities" if second == "predict_proba" else "scores"
        scored = hasattr(model, second) and not (second == "predict_proba" and _votes(model))
        more = kind != "clusterer" and (raw or scored)
        return [Output("label", "predict"), *(_outputs_of_method(model, second, title) if more else [])]
    for method in ("predict", "transform"):
        if hasattr(model, method):
            return [Output("variable", method)]
    for method in ("score_samples", "kneighbors", "mahalanobis"):
        if hasattr(model, method) or (method in PIPED and hasattr(_last(model), method)):
            return _outputs_of_method(model, method, method)
    raise InvalidInputError(
        f"{type(model).__name__} infers nothing about new rows: it has neither predict nor transform"
    )


def _votes(model: BaseEstimator) -> bool:
    """Whether the estimator, or a pipeline's last step, declares probabilities and has none: pairs of classes vote."""
    model = _last(model) or model
    return getattr(model, "multi_class", None) == "one_vs_one" and getattr(model, "n_classes_", 0) > 2


def _outputs_of_method(model: BaseEstimator, method: str, title: str) -> list[Output]:
    wanted = VARIANTS.get(method, method)
    if method == "raw_scores" and raw_scores(model) is None:
        raise InvalidInputError(f"{type(model).__name__} has no raw scores of XGBoost, LightGBM or CatBoost")
    if not hasattr(model, wanted) and not (wanted in PIPED and hasattr(_last(model), wanted)):
        near = get_close_matches(method, [name for name in dir(model) if not name.startswith("_")], 1)
        meant = f": did you mean {near[0]!r}?" if near else ""
        raise InvalidInputError(f"{type(model).__name__} has no method {method!r}{meant}")
    if method.startswith(("fit", "partial_fit", "score_metric", "set_", "get_")) or method == "score":
        raise InvalidInputError(
            f"methods: {method!r} of {type(model).__name__} infers nothing from rows alone, as predict does"
        )
    names: Sequence[Any] = SEVERAL.get(method, ())
    if method == "decision_path" and hasattr(model, "estimators_"):
        names = ("indicator", "n_nodes_ptr")
    if method in ("predict_proba", "predict_log_proba"):
        names = range(_lists_of_classes(model))
    if not names:
        return [Output(title, method)]
    return [Output(f"{title}_{name}", method, index) for index, name in enumerate(names)]


def _last(model: BaseEstimator) -> Any:
    return model.steps[-1][1] if hasattr(model, "steps") else None


def _lists_of_classes(model: BaseEstimator) -> int:
    """How many arrays of probabilities an estimator of several label columns gives; 0 where it gives one array."""
    inner = getattr(model, "best_estimator_", None) or (model.steps[-1][1] if hasattr(model, "steps") else model)
    if inner is not model:
        return _lists_of_classes(inner)
    classes = getattr(model, "classes_", None)
    several = hasattr(model, "n_outputs_") or "MultiOutput" in type(model).__name__
    in_lists = several or not hasattr(model, "estimators_")
    chained = hasattr(model, "order_") or hasattr(model, "multilabel_")
    if isinstance(classes, list) and in_lists and not chained and not hasattr(model, "out_activation_"):
        return len(classes)
    return 0


def formed(op: OpBuilder, model: BaseEstimator, output: Output, value: ir.Value) -> ir.Value:
    """What a method gives, in the form that the output has."""
    if output.form == "array":
        return value
    if output.form in ("ints", "strings"):
        classes = np.asarray(model.classes_)
        if output.form == "ints":
            column = op.Unsqueeze(value, op.axes(1))
            return codes(op, column, classes).reshape(-1).value
        if classes.dtype.kind in "OUS":
            return value
        places = codes(op, op.Unsqueeze(value, op.axes(1)), classes).reshape(-1).value
        return op.Gather(op.const(np.array([str(item) for item in classes.tolist()], object)), places, axis=0)
    scores = Array(op, value)
    if scores.ndim != 2:
        raise UnsupportedOperator(f"zipmap: {output.method} gives one score a row, not one for each class")
    if output.form == "column":
        return scores[:, output.column].value
    return _zip_map(op, model, scores)


def _zip_map(op: OpBuilder, model: BaseEstimator, scores: Array) -> ir.Value:
    classes = plain(model.classes_)
    text = classes.dtype.kind == "O"
    if not text and classes.dtype.kind not in "iub":
        raise UnsupportedOperator(
            f"zipmap=True: ZipMap has keys of strings or integers, the classes are {classes.dtype}"
        )
    key, labels = ("classlabels_strings", classes) if text else ("classlabels_int64s", classes.astype(np.int64))
    value: ir.Value = op.ml.ZipMap(scores.astype(np.float32).value, **{key: labels.tolist()})
    return value
