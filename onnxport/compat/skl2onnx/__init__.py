"""``skl2onnx``, on `onnxport.convert`: ``from onnxport.compat import skl2onnx`` stands for ``import skl2onnx``.

``from onnxport.compat.skl2onnx.common.data_types import FloatTensorType`` stands for the same without ``onnxport.compat``.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import onnx

from onnxport import frameworks
from onnxport.compat.absent import refusing
from onnxport.compat.arguments import by_name, refuse_others
from onnxport.compat.opsets import convert_at
from onnxport.compat.skl2onnx import common as common
from onnxport.compat.skl2onnx import helpers as helpers
from onnxport.compat.skl2onnx.algebra.sklearn_ops import find_class
from onnxport.compat.skl2onnx.choices import ALIASES, ALLOWED, CHOSEN, TAKEN, taken
from onnxport.compat.skl2onnx.choices import get_latest_tested_opset_version as get_latest_tested_opset_version
from onnxport.compat.skl2onnx.common.data_types import DataType
from onnxport.compat.skl2onnx.common.data_types import FloatTensorType as FloatTensorType
from onnxport.compat.skl2onnx.outputs import Naming, as_sequence, named, of_scores, of_types, with_labels
from onnxport.compat.skl2onnx.outputs import output_names as names_of
from onnxport.compat.skl2onnx.rows import drawn, in_columns, sizes_of
from onnxport.compat.skl2onnx.trees import has_leaves, refuse_leaves, with_leaves
from onnxport.errors import InvalidInputError
from onnxport.frameworks.descriptor import Lazy
from onnxport.graph.rows import columns_of
from onnxport.model import OnnxModel
from onnxport.version import __version__ as __version__

__max_supported_opset__ = 28
__getattr__ = refusing(__name__)
_REGISTER = "register the class with onnxport.register_to_onnx('sklearn', 'Class.method')"
_NEUTRAL: dict[str, tuple[tuple[object, ...], str]] = {
    "custom_conversion_functions": ((None, {}), _REGISTER),
    "custom_shape_calculators": ((None, {}), _REGISTER),
    "custom_parsers": ((None, {}), _REGISTER),
    "intermediate": ((False,), "options={step: {'output': True}} gives what a step computes"),
    "dtype": ((None,), "the graph has the types of the example rows"),
    "model_optim": ((True, False), ""),  # a graph is written without what it does not need
}
_ELSEWHERE = {
    "opset": "target_opset=17",
    "opset_version": "target_opset=17",
    "initial_type": "initial_types=[('X', FloatTensorType([None, 4]))]",
    "custom_op": _REGISTER,
}
# By class: the methods whose results skl2onnx gives where that is more than `onnxport.convert` does by itself, and their names.
_METHODS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(("KMeans", "MiniBatchKMeans"), (("predict", "transform"), ("label", "scores"))),
    **dict.fromkeys(
        ("GaussianMixture", "BayesianGaussianMixture"), (("predict", "predict_proba"), ("label", "probabilities"))
    ),
}
_REGISTERED: set[type] = set()  # classes that convert by functions of the user's
# Linear classifiers whose scores skl2onnx gives as a matrix only.
_MATRIX_ALONE = ("LinearSVC", "RidgeClassifier")


@by_name("skl2onnx.convert_sklearn", _ELSEWHERE)
def convert_sklearn(
    model: Any,
    name: str | None = None,
    initial_types: Sequence[tuple[str, Any]] | None = None,
    doc_string: str = "",
    target_opset: int | Mapping[str, int] | None = None,
    custom_conversion_functions: Any = None,
    custom_shape_calculators: Any = None,
    custom_parsers: Any = None,
    options: Mapping[Any, Any] | None = None,
    intermediate: bool = False,
    white_op: Iterable[str] | None = None,
    black_op: Iterable[str] | None = None,
    final_types: Sequence[tuple[str, Any]] | None = None,
    dtype: Any = None,
    naming: Naming = None,
    model_optim: bool = True,
    verbose: int = 0,
) -> onnx.ModelProto:
    """An estimator as a message of ONNX, its inputs by `initial_types`; classifiers give maps by default.

    Raises:
        InvalidInputError: an argument asks for what is not done here.
        OnnxportError: see `onnxport.convert`.
    """
    refuse_others("skl2onnx.convert_sklearn", _others(locals()), _NEUTRAL)
    if not initial_types:
        raise InvalidInputError(
            "skl2onnx.convert_sklearn: initial_types= is missing, which gives the inputs: [('X', FloatTensorType([None, 4]))]"
        )
    names = _named(initial_types)
    rows, sizes = drawn(model, initial_types), sizes_of(initial_types)
    proto = _converted(model, rows, names, target_opset, options, final_types, verbose, naming, sizes)
    return _finished(in_columns(proto, initial_types), name, doc_string, white_op, black_op)


@by_name("skl2onnx.to_onnx", _ELSEWHERE)
def to_onnx(
    model: Any,
    X: Any = None,  # as skl2onnx spells it
    name: str | None = None,
    initial_types: Sequence[tuple[str, Any]] | None = None,
    target_opset: int | Mapping[str, int] | None = None,
    options: Mapping[Any, Any] | None = None,
    white_op: Iterable[str] | None = None,
    black_op: Iterable[str] | None = None,
    final_types: Sequence[tuple[str, Any]] | None = None,
    dtype: Any = None,
    naming: Naming = None,
    model_optim: bool = True,
    verbose: int = 0,
) -> onnx.ModelProto:
    """An estimator as a message of ONNX, its inputs those of the rows `X`: a matrix is called ``X``, columns by their names.

    Raises:
        InvalidInputError: an argument asks for what is not done here.
        OnnxportError: see `onnxport.convert`.
    """
    refuse_others("skl2onnx.to_onnx", _others(locals()), _NEUTRAL)
    listed = isinstance(X, list) and bool(X) and all(isinstance(item, tuple) for item in X) and _are_types(X)
    if X is None or listed:
        return convert_sklearn(
            model,
            name,
            X if listed else initial_types,
            target_opset=target_opset,
            options=options,
            white_op=white_op,
            black_op=black_op,
            final_types=final_types,
            naming=naming,
            verbose=verbose,
        )
    inputs = None if columns_of(X) is not None else ["X"]
    proto = _converted(model, X, inputs, target_opset, options, final_types, verbose, naming)
    return _finished(proto, name, "", white_op, black_op)


@by_name("skl2onnx.wrap_as_onnx_mixin")
def wrap_as_onnx_mixin(model: Any, target_opset: int | None = None) -> Any:
    """A copy of a fitted estimator that has the method `to_onnx` too, by default at `target_opset`."""
    result = copy.copy(model)
    result.__class__ = find_class(type(model))
    result.op_version = target_opset
    return result


@by_name("skl2onnx.update_registered_converter")
def update_registered_converter(
    model: type,
    alias: str,
    shape_fct: Any = None,
    convert_fct: Any = None,
    overwrite: bool = True,
    parser: Any = None,
    options: Any = None,
) -> None:
    """Has a class convert by what its functions write, proved as any other; a class that converts already keeps our entry.

    Raises:
        InvalidInputError: the class does not convert and no `convert_fct` is given, or a `parser` is, which reads skl2onnx's own
            graphs.
    """
    entries = frameworks.get("sklearn").to_onnx_map
    package = (model.__module__ or "").partition(".")[0]
    methods = ("predict", "predict_proba", "transform", "decision_function", "raw_scores")
    spelled = [f"{prefix}{model.__name__}.{method}" for prefix in ("", f"{package}.") for method in methods]
    if entries is not None and any(entries().find(item) for item in spelled) and model not in _REGISTERED:
        return
    if not callable(convert_fct) or parser is not None:
        raise InvalidInputError(
            f"skl2onnx.update_registered_converter: {model.__name__} does not convert yet, and "
            f"{'parsers of skl2onnx are not called' if parser is not None else 'no convert_fct is given'}: {_REGISTER}"
        )
    _REGISTERED.add(model)
    ALLOWED[model], ALIASES[model] = frozenset(options or ()) - TAKEN, alias
    Lazy("onnxport.compat.skl2onnx.writing:register").get()(model, alias, shape_fct, convert_fct)


@by_name("skl2onnx.supported_converters")
def supported_converters(from_sklearn: bool = False) -> list[str]:
    """scikit-learn's classes that convert, each as ``SklearnName``, or by its name alone."""
    entries = frameworks.get("sklearn").to_onnx_map
    own = {entry.name.split(".")[-2] for entry in (() if entries is None else entries()) if "." in entry.name}
    classes = Lazy("sklearn.utils:all_estimators").get()()
    names = [name for name, model in classes if own & {base.__name__ for base in model.__mro__}]
    return names if from_sklearn else [f"Sklearn{name}" for name in names]


@by_name("skl2onnx.update_registered_parser")
def update_registered_parser(model: type, parser_fct: Any = None) -> None:
    """Refuses: a parser reads skl2onnx's own graphs.

    Raises:
        InvalidInputError: always.
    """
    raise InvalidInputError(f"skl2onnx.update_registered_parser: {model.__name__}: {_REGISTER}")


@by_name("skl2onnx.get_model_alias")
def get_model_alias(model_type: type) -> str:
    """What skl2onnx calls the operator of a class: the alias that it was registered under, or its name."""
    return ALIASES.get(model_type, f"Sklearn{model_type.__name__}")


def _are_types(types: Sequence[Any]) -> bool:
    return all(len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], DataType) for item in types)


def _named(types: object, option: str = "initial_types") -> list[str]:
    """The names of inputs, or outputs, by their types.

    Raises:
        InvalidInputError: it is no list of pairs.
    """
    if not isinstance(types, (list, tuple)) or not all(
        isinstance(item, (list, tuple)) and len(item) == 2 for item in types
    ):
        raise InvalidInputError(
            f"skl2onnx: {option}={types!r}: a list of names with types, [('X', FloatTensorType([None, 4]))]"
        )
    return [item[0] for item in types]


def _others(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in _NEUTRAL}


def _finished(
    proto: onnx.ModelProto,
    name: str | None,
    doc_string: str,
    white: Iterable[str] | None,
    black: Iterable[str] | None,
) -> onnx.ModelProto:
    """The message with the graph's name and text; refused where it has an operator that is not to stand in it."""
    for option, text in (("name", name), ("doc_string", doc_string)):
        if text is not None and not isinstance(text, str):
            raise InvalidInputError(f"skl2onnx: {option}={text!r}: a text")
    operators = {node.op_type for node in proto.graph.node}
    odd = sorted((operators & set(black or ())) | (operators - set(white) if white is not None else set()))
    if odd:
        raise InvalidInputError(
            f"skl2onnx: {'black' if black else 'white'}_op= leaves out {', '.join(odd)}, of which the graph is written: "
            "onnxport check --for ENGINE names what an engine lacks"
        )
    proto.graph.name = name or proto.graph.name
    proto.doc_string = doc_string or proto.doc_string
    return proto


def _last(model: Any) -> Any:
    while getattr(model, "steps", None):
        model = model.steps[-1][1]
    return model


def _converted(
    model: Any,
    rows: Any,
    input_names: Sequence[str] | None,
    target_opset: int | Mapping[str, int] | None,
    options: Mapping[Any, Any] | None,
    final_types: Sequence[tuple[str, Any]] | None,
    verbose: int,
    naming: Naming = None,
    sizes: Mapping[str, object] | None = None,
) -> onnx.ModelProto:
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInputError(f"skl2onnx: options={options!r}: a dict, such as {{'zipmap': False}}")
    if naming is not None and not isinstance(naming, str) and not callable(naming):
        raise InvalidInputError(f"skl2onnx: naming={naming!r}: a text before names, or a function that gives them")
    if final_types is not None:
        _named(final_types, "final_types")
    own, chosen = taken(model, options or {})
    labels, path, leaf = (own.pop(name, False) for name in ("output_class_labels", "decision_path", "decision_leaf"))
    if (path or leaf) and not has_leaves(model):
        refuse_leaves(model)

    def asked(**more: Any) -> OnnxModel:
        opset, before = _without_extras(target_opset), CHOSEN.set(chosen)
        try:
            result = convert_at(model, inputs=rows, input_names=input_names, target_opset=opset, **more)
        finally:
            CHOSEN.reset(before)
        return named(result.set_shapes(sizes) if sizes else result, naming)

    proto = of_types(_with_outputs(model, own, final_types, verbose, asked), final_types or ())
    if path or leaf:
        with_leaves(proto, asked(methods=["apply"], output_names=["leaves"]).proto, model, leaf=leaf, path=path)
    if labels:
        with_labels(proto, range(len(model.classes_)) if own.get("labels") == "ints" else model.classes_)
    return proto


def _with_outputs(
    model: Any,
    own: dict[str, Any],
    final_types: Sequence[tuple[str, Any]] | None,
    verbose: int,
    asked: Callable[..., OnnxModel],
) -> onnx.ModelProto:
    """The graph with the outputs that skl2onnx gives."""
    methods, names = _METHODS.get(type(_last(model)).__name__, ((), ()))
    if own.pop("return_std", False):
        methods, names = ("predict", "predict_std"), ("GPmean", "GPcovstd")
    if own.pop("score_samples", False):
        methods, names = methods or ("predict", "decision_function"), names or ("label", "scores")
        methods, names = (*methods, "score_samples"), (*names, "score_samples")
    output_names = [item[0] for item in final_types] if final_types else list(names) or None
    if final_types and len(final_types) < len(methods):
        methods = methods[: len(final_types)]
    scored = not methods and _gives_scores(model, own)
    form = own.pop("zipmap", True) if scored else None
    several = isinstance(getattr(model, "classes_", None), list)  # a classifier of several targets
    if scored:
        alone = type(_last(model)).__name__ in _MATRIX_ALONE
        both = own.pop("raw_scores", False) or not alone
        labels = range(len(model.classes_)) if own.get("labels") == "ints" else model.classes_
        form, own = False if alone else form, {**own, "raw_scores": True}
        chosen = names_of(form, labels, output_names or ())
        output_names = [chosen[0], "scores"]
    elif several:
        own.pop("zipmap", None)
    elif not methods and hasattr(model, "predict_proba"):
        output_names, own = _of_classifier(model, own, output_names)
    result = asked(output_names=None if several else output_names, methods=methods or None, options=own or None)
    if verbose:
        sys.stdout.write(f"{result.summary()}\n{result.report}\n")
    if scored:
        return of_scores(result.proto, labels, chosen[1:], form=form, both=both)
    return as_sequence(result.proto, output_names or ()) if several else result.proto


def _gives_scores(model: Any, own: Mapping[str, Any]) -> bool:
    """Whether the second output of a classifier is its decision function: it is asked for, or there are no probabilities."""
    one_label = getattr(getattr(model, "classes_", None), "ndim", 0) == 1
    if not one_label or not hasattr(model, "decision_function"):
        return False
    return bool(own.get("raw_scores")) or not hasattr(model, "predict_proba")


def _without_extras(target_opset: int | Mapping[str, int] | None) -> int | Mapping[str, int] | None:
    """The versions without leave to write operators of onnxruntime's own, which nothing here needs."""
    if not isinstance(target_opset, Mapping):
        return target_opset
    return {domain: version for domain, version in target_opset.items() if (domain, version) != ("com.microsoft", 1)}


def _of_classifier(
    model: Any, own: dict[str, Any], output_names: list[str] | None
) -> tuple[list[str] | None, dict[str, Any]]:
    """Names and options of a classifier as skl2onnx has them: maps unless something else is asked for."""
    if "zipmap" not in own:
        own = {**own, "zipmap": True}
    if output_names is None:
        output_names = names_of(own["zipmap"], model.classes_, ())
    if own.get("zipmap") is False:
        own = {name: value for name, value in own.items() if name != "zipmap"}
    return output_names, own
