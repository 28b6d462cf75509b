"""``skl2onnx``, on `onnxport.convert`: ``from onnxport.compat import skl2onnx`` stands for ``import skl2onnx``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx

from onnxport.compat.arguments import refuse_others
from onnxport.converters.convert import convert
from onnxport.errors import InvalidInputError
from onnxport.graph.rows import columns_of
from onnxport.model import OnnxModel

_ROWS = 8  # examples that are drawn of `initial_types`, for the proof
_REGISTER = "register the class with onnxport.register_to_onnx('sklearn', 'Class.method')"
_NEUTRAL: dict[str, tuple[tuple[object, ...], str]] = {
    "doc_string": (("",), "set it on the message"),
    "custom_conversion_functions": ((None, {}), _REGISTER),
    "custom_shape_calculators": ((None, {}), _REGISTER),
    "custom_parsers": ((None, {}), _REGISTER),
    "intermediate": ((False,), "options={step: {'output': True}} gives what a step computes"),
    "white_op": ((None,), "onnxport check --for names the operators that an engine lacks"),
    "black_op": ((None,), "onnxport check --for names the operators that an engine lacks"),
    "dtype": ((None,), "the graph has the types of the example rows"),
    "naming": ((None,), "inner values are named after the steps"),
    "model_optim": ((True, False), ""),  # a graph is written without what it does not need
    "verbose": ((0, False), "print(onnxport.convert(...).report) has what was done"),
    "name": ((None,), "the graph's name is not chosen"),
}


class DataType:
    """The type of a column or matrix: ``FloatTensorType([None, 4])``."""

    numpy: Any = np.float32

    def __init__(self, shape: Sequence[int | None] | None = None) -> None:
        self.shape: list[int | None] = list(shape or [None, 1])


def _type(name: str, dtype: Any) -> type[DataType]:
    return type(name, (DataType,), {"numpy": dtype, "__doc__": f"{np.dtype(dtype).name} numbers or strings."})


FloatTensorType: type[DataType] = _type("FloatTensorType", np.float32)
DoubleTensorType: type[DataType] = _type("DoubleTensorType", np.float64)
Int64TensorType: type[DataType] = _type("Int64TensorType", np.int64)
Int32TensorType: type[DataType] = _type("Int32TensorType", np.int32)
BooleanTensorType: type[DataType] = _type("BooleanTensorType", np.bool_)
StringTensorType: type[DataType] = _type("StringTensorType", np.object_)
_TYPES = (FloatTensorType, DoubleTensorType, Int64TensorType, Int32TensorType, BooleanTensorType, StringTensorType)
_BY_NAME = {kind.__name__: kind for kind in _TYPES}

common: SimpleNamespace = SimpleNamespace(
    data_types=SimpleNamespace(**_BY_NAME)
)  # skl2onnx.common.data_types.FloatTensorType


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
    white_op: Any = None,
    black_op: Any = None,
    final_types: Sequence[tuple[str, Any]] | None = None,
    dtype: Any = None,
    naming: Any = None,
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
    names = ("output_label", "output_probability")
    return _converted(
        model,
        _drawn(model, initial_types),
        [item[0] for item in initial_types],
        target_opset,
        options,
        final_types,
        names,
    )


def to_onnx(
    model: Any,
    X: Any = None,  # as skl2onnx spells it
    name: str | None = None,
    initial_types: Sequence[tuple[str, Any]] | None = None,
    target_opset: int | Mapping[str, int] | None = None,
    options: Mapping[Any, Any] | None = None,
    white_op: Any = None,
    black_op: Any = None,
    final_types: Sequence[tuple[str, Any]] | None = None,
    dtype: Any = None,
    naming: Any = None,
    model_optim: bool = True,
    verbose: int = 0,
) -> onnx.ModelProto:
    """An estimator as a message of ONNX, its inputs those of the rows `X`: a matrix is called ``X``, columns by their names.

    Raises:
        InvalidInputError: an argument asks for what is not done here.
        OnnxportError: see `onnxport.convert`.
    """
    refuse_others("skl2onnx.to_onnx", _others(locals()), _NEUTRAL)
    names = ("output_label", "output_probability")
    if X is None:
        return convert_sklearn(
            model, initial_types=initial_types, target_opset=target_opset, options=options, final_types=final_types
        )
    inputs = None if columns_of(X) is not None else ["X"]
    return _converted(model, X, inputs, target_opset, options, final_types, names)


def _others(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in _NEUTRAL}


def _converted(
    model: Any,
    rows: Any,
    input_names: Sequence[str] | None,
    target_opset: int | Mapping[str, int] | None,
    options: Mapping[Any, Any] | None,
    final_types: Sequence[tuple[str, Any]] | None,
    names: tuple[str, str],
) -> onnx.ModelProto:
    own = _options(model, options or {})
    classifies = hasattr(model, "predict_proba")
    if classifies and not {"zipmap", "raw_scores"} & set(own):
        own["zipmap"] = True  # as skl2onnx does
    output_names = [item[0] for item in final_types] if final_types else None
    if output_names is None and classifies and own.get("zipmap") != "columns" and not own.get("raw_scores"):
        output_names = list(names)
        own = {name: value for name, value in own.items() if not (name == "zipmap" and value is False)}
        output_names = output_names if own.get("zipmap") else ["label", "probabilities"]
    result: OnnxModel = convert(
        model,
        inputs=rows,
        input_names=input_names,
        output_names=output_names,
        target_opset=target_opset,
        options=own or None,
    )
    return result.proto


def _options(model: Any, options: Mapping[Any, Any]) -> dict[str, Any]:
    """Options by the estimator's id, class or object, or without one, as those of the whole; those of steps by their paths.

    Raises:
        InvalidInputError: an option is not known here.
    """
    result: dict[str, Any] = {}
    steps = list(_steps(model, ""))
    for key, value in options.items():
        if not isinstance(value, Mapping):
            result[str(key)] = value
            continue
        path = next((path for path, step in steps if key in (id(step), type(step)) or key is step), None)
        if path is None:
            raise InvalidInputError(f"skl2onnx: options={key!r}: is no step of {type(model).__name__}")
        result.update(value) if path == "" else result.update({path: dict(value)})
    known = {"zipmap", "raw_scores", *(path for path, _ in steps if path)}
    odd = [name for name in result if name not in known]
    if odd:
        raise InvalidInputError(
            f"skl2onnx: option {odd[0]!r} is not taken: onnxport.convert(options=) has those there are"
        )
    return result


def _steps(model: Any, path: str) -> Iterable[tuple[str, Any]]:
    """The estimator and its steps by their paths; the last step of a pipeline stands for the whole."""
    yield path, model
    for number, (name, step) in enumerate(getattr(model, "steps", ())):
        last = number == len(model.steps) - 1
        yield from _steps(step, path if last else f"{path}.{name}".strip("."))


def _drawn(model: Any, types: Sequence[tuple[str, Any]]) -> Any:
    """A few rows of the types, for the proof: one matrix, else a table with a column for each."""
    rng = np.random.default_rng(0)
    arrays = {name: _array(kind, name, rng) for name, kind in types}
    if len(arrays) == 1:
        (array,) = arrays.values()
        return list(array[:, 0]) if array.dtype == object and array.shape[1] == 1 and _reads_text(model) else array
    if any(array.shape[1] != 1 for array in arrays.values()):
        raise InvalidInputError(
            "skl2onnx: several inputs are columns of a table, each [None, 1]: give rows to to_onnx(model, X)"
        )
    import pandas

    return pandas.DataFrame({name: array[:, 0] for name, array in arrays.items()})


def _reads_text(model: Any) -> bool:
    """Whether the first step takes documents, not a table of words."""
    while getattr(model, "steps", None):
        model = model.steps[0][1]
    return hasattr(model, "build_analyzer")


def _array(kind: Any, name: str, rng: np.random.Generator) -> np.ndarray:
    known = _BY_NAME.get(type(kind).__name__)
    if known is None:
        raise InvalidInputError(
            f"skl2onnx: initial_types: {name!r} is {type(kind).__name__}; it can be {', '.join(_BY_NAME)}"
        )
    shape = [_ROWS, *(1 if size is None else int(size) for size in list(kind.shape)[1:])]
    draw: Callable[..., Any] = {"b": rng.integers, "i": rng.integers, "O": rng.integers}.get(
        np.dtype(known.numpy).kind, rng.standard_normal
    )
    drawn = draw(0, 2, shape) if draw == rng.integers else draw(shape)
    return (
        np.asarray(np.char.add("word", drawn.astype(str)), object)
        if known is StringTensorType
        else drawn.astype(known.numpy)
    )
