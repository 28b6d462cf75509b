"""The error of a trace that fails: the user's line, the reason, the way out."""

from __future__ import annotations

import itertools
import linecache
import os
import re
import traceback

import torch

from onnxport.frameworks.pytorch_titles import name_of
from onnxport.graph.provenance import relative_path
from onnxport.tracing.pytorch_numpy import OtherThanNumpyError
from onnxport.tracing.pytorch_quantized import is_readable
from onnxport.tracing.pytorch_values import failed_on_values

# Folders of code that is neither the user's nor a library's with models.
OWN = tuple(os.path.dirname(os.path.abspath(path)) + os.sep for path in (torch.__file__, os.path.dirname(__file__)))
_ARRAYS = tuple(f"{os.sep}site-packages{os.sep}{name}{os.sep}" for name in ("numpy", "scipy", "einops"))

_ON_VALUES = (
    "Python decides there on the value of a tensor: write it with torch.where or torch.cond, "
    'or pass strategy="trace", which freezes it as the examples take it.'
)
_QUANTISED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")
_ON_SIZES = "A number in its code or the size of a weight fixes it: leave the dimension out of dynamic_shapes=."
_ON_PACKED = (
    "Convert the float model and quantise the file, or quantise the exported graph (PT2E): its quantize and dequantize "
    "operators convert."
)
# In torch's text: a dimension that was to vary and the size that the trace fixes; how a message that says nothing more ends.
_FIXED = r"You marked L\['(\w+)'\](\S*?)\.size\(\)\[(\d+)\] as dynamic but .*? constant \((\d+)\)"
_FIXED_NAME = r"You marked (\w+) as dynamic but your code specialized it to be a constant \((\d+)\)"
_NO_TENSORS = r"Found <class '(?:builtins\.)?([\w.]+)'> in output, which is not a known type"
_NUMPY_CALLED = ".numpy() is not supported"
_CLOSING = "The error above occurred when calling"
_ON_FROZEN = (
    'A value frozen by strategy="trace" is not enough there: write it with torch.where or torch.cond, or leave it to the code '
    "around the model."
)
_ON_FAKES = "Register what shape and type it gives, with torch.library.register_fake or @operator.register_fake."
_ON_RESULTS = "Return tensors, in tuples, lists, dicts or dataclasses where they are several."
_ON_NUMPY = "Compute with torch, not with NumPy, or leave that step to the code around the model."
_OTHERWISE = "Make the model traceable by torch.export, or name fewer dynamic dimensions."


def reason(model: object, error: Exception | None, *, frozen: bool = False) -> str:
    """Three lines: where in the user's code, why, and what to do; `frozen` where values were frozen already."""
    name = name_of(model)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(itertools.takewhile(lambda line: not line.startswith(_CLOSING), lines[:2]))[:600] or "no message"
    place = place_of(error)
    packed = _quantised(model)
    if packed:
        return f"torch.export can't read the packed weights of {name}'s quantised modules ({packed}).\n{_ON_PACKED}"
    why = f"torch.export can't trace {name}: {type(error).__name__}: {text}"
    sizes, names, kind = (
        re.findall(_FIXED, str(error)),
        re.findall(_FIXED_NAME, str(error)),
        re.search(_NO_TENSORS, str(error)),
    )
    if sizes:
        needs = (f"dimension {axis} of {_path(root, rest)!r} to be {size}" for root, rest, axis, size in sizes)
        why = f"{name} does not trace with the dynamic sizes: it needs {' and '.join(dict.fromkeys(needs))}."
    elif names:
        needs = (f"dimension {dim!r} to be {size}" for dim, size in names)
        why = f"{name} does not trace with the dynamic sizes: it needs {' and '.join(dict.fromkeys(needs))}."
    elif kind:
        why = f"{name} gives a {kind[1]}, which is no tensor."
    elif isinstance(error, OtherThanNumpyError):
        why = f"torch.export can't trace {name}: {text}."
    elif _NUMPY_CALLED in str(error):
        why = f"torch.export can't trace {name}: NumPy computes there, and has no part in a graph."
    elif error is not None and failed_on_values(error):
        why = f"torch.export can't trace {name}: it asks for the value of a tensor ({type(error).__name__})."
    return "\n".join([*([place] if place else []), why, _way_out(error, frozen)])


def _path(root: str, rest: str) -> str:
    """An input's path by torch's source of it.

    >>> _path("x", "['past'][0]")
    'x.past.0'
    """
    return ".".join([root, *re.findall(r"\w+", rest)])


def _way_out(error: Exception | None, frozen: bool) -> str:
    if error is not None and failed_on_values(error):
        return _ON_FROZEN if frozen else _ON_VALUES
    if isinstance(error, OtherThanNumpyError) or _NUMPY_CALLED in str(error):
        return _ON_NUMPY
    if "no fake impl registered" in str(error):
        return _ON_FAKES
    if re.search(_NO_TENSORS, str(error)):
        return _ON_RESULTS
    return _ON_SIZES if fixed_a_size(error) else _OTHERWISE


def fixed_a_size(error: Exception | None) -> bool:
    """Whether a trace fixed a size that was to vary."""
    return "Constraints violated" in str(error)


def place_of(error: Exception | None) -> str:
    """The innermost line that is neither torch's nor ours nor in a library of arrays; empty where there is none."""
    if isinstance(error, OtherThanNumpyError):
        return "" if error.place is None else _spelled(*error.place)
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    user = [frame for frame in frames if not frame.filename.startswith((*OWN, "<"))]
    user = [frame for frame in user if not any(part in frame.filename for part in _ARRAYS)] or user
    return _spelled(user[-1].filename, user[-1].lineno or 0) if user else ""


def _spelled(file: str, line: int) -> str:
    return f"{relative_path(file)}:{line}: {linecache.getline(file, line).strip()}"


def _quantised(model: object) -> str:
    """The first of a module's quantised modules that can't be read, by path and type; empty where there is none."""
    modules = model.named_modules() if isinstance(model, torch.nn.Module) else ()
    read: set[int] = set()
    for path, item in modules:
        if is_readable(item):
            read.update(map(id, item.modules()))
        kind = type(item)
        if id(item) not in read and kind.__module__.startswith(_QUANTISED):
            return f"{path}: {kind.__module__}.{kind.__qualname__}"
    return ""
