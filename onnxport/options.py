"""Which option means something for which source and target: for `onnxport.convert` and the command line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from onnxport.errors import InvalidInputError
from onnxport.frameworks.descriptor import Framework, SourceKind

Spelling = Callable[[str], str]  # how an option reads where the user wrote it


def _as_argument(name: str) -> str:
    return f"{name}="


# Options of a conversion that do not mean something everywhere, which a source's descriptor names, and what to do instead.
# Those that are not here (inputs, input_names, output, validate, rtol, atol, optimize) mean something everywhere.
OPTIONS = {
    "kwargs": "its inputs have no names: pass them as inputs",
    "dynamic_shapes": "which of its dimensions vary can't be chosen",
    "target_opset": "the graph is read at its own opset; convert it to ONNX at another one first",
    "output_names": "its results have no names: they come in the order of the graph's outputs",
    "runtime": "its graph is there already, and no runtime's defects are written around in it",
    "cut_inputs": "convert to ONNX first, then cut the ONNX model",
    "cut_outputs": "convert to ONNX first, then cut the ONNX model",
    "signature": "only SavedModels and modules of TensorFlow have several",
    "methods": "only estimators of scikit-learn have several inference methods",
    "options": "they say which outputs an estimator of scikit-learn has",
    "task": "only a model in a Hugging Face folder can be meant for several",
    "dtype": "a smaller type is that of an ONNX model: convert to ONNX with it",
    "keep_io_types": "only the types of an ONNX model of tensors that dtype= makes smaller are kept",
    "inputs_as_nchw": "only inputs of an ONNX model of tensors are turned",
    "outputs_as_nchw": "only outputs of an ONNX model of tensors are turned",
    "weights": "it holds its own: load others into the model itself first",
    "functions": "only blocks of PyTorch's modules, converted to ONNX, become functions",
    "states": "only buffers of a PyTorch module become inputs and outputs",
    "strategy": "only PyTorch's Python code is traced in more than one way",
    # Consents: of a framework's files, some can hold what they allow.
    "allow_pickle": "nothing in such a file is a pickle: leave it out",
    "allow_code": "nothing in such a file runs: leave it out",
}


def instead(name: str, kind: SourceKind) -> str:
    """What to do for a source of this kind where an option means nothing."""
    return kind.instead.get(name, OPTIONS[name])


def takes(name: str, source: Framework, target: Framework | None = None) -> bool:
    """Whether some model of the framework takes the option on the way to `target`; to any, where that is None."""
    return name not in OPTIONS or any(kind.takes(name, target) for kind in source.kinds)


def check(given: Iterable[str], kind: SourceKind, target: Framework, spelled: Spelling = _as_argument) -> None:
    """Refuses options that the user set and that mean nothing for the source and target, all at once, as the user spelled them.

    Raises:
        InvalidInputError: an option means nothing here.
    """
    names = set(given)
    refused = [option for option in OPTIONS if option in names and not kind.takes(option, target)]
    if refused:
        route = f"{kind.title} to {target.title}"
        lines = [f"{spelled(option)} means nothing for {route}: {instead(option, kind)}" for option in refused]
        raise InvalidInputError("\n".join(lines))


def check_sides(
    given: Iterable[str], source: SourceKind, converted: SourceKind, spelled: Spelling = _as_argument
) -> None:
    """Refuses options of a validation that mean nothing for its two sides; keyword inputs are the source's.

    Raises:
        InvalidInputError: an option means nothing here.
    """
    names = set(given)
    lines = []
    for option in OPTIONS:
        sides = (source,) if option == "kwargs" else (source, converted)
        if option in names and not any(side.takes(option) for side in sides):
            shown, titles = spelled(option), " and ".join(side.title for side in sides)
            lines.append(f"{shown} means nothing for {titles}: {instead(option, source)}")
    if lines:
        raise InvalidInputError("\n".join(lines))


def check_keywords(kwargs: object) -> None:
    """Refuses keyword inputs that are no dict by parameter.

    Raises:
        InvalidInputError: `kwargs` is something else.
    """
    if kwargs is not None and not (isinstance(kwargs, Mapping) and all(isinstance(name, str) for name in kwargs)):
        raise InvalidInputError(
            f"kwargs is a {type(kwargs).__name__}: a dict of the keyword inputs by name, kwargs={{'mask': mask}}; positional "
            "ones are inputs=(x,)"
        )


def check_tolerances(
    rtol: float | None, atol: float | None, *, validate: bool = True, spelled: Spelling = _as_argument
) -> None:
    """Refuses tolerances that no number can meet or that nothing is compared with.

    Raises:
        InvalidInputError: one is negative, infinite or no number, or is given though nothing is validated.
    """
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is None:
            continue
        shown = spelled(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            raise InvalidInputError(f"{shown} is {value!r}: a tolerance is a finite number, 0 or more")
        if not validate:
            raise InvalidInputError(f"{shown} means nothing without a validation: leave one of the two out")


def of_estimators(options: Mapping[str, object] | None) -> bool:
    """Whether options hold some of an estimator's: `block_size` belongs to weights in few bits."""
    return bool(set(options or ()) - {"block_size"})
