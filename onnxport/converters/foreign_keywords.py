"""Keywords of other converters, and what they are called here."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

# By keyword: which function takes it, and its form in `onnxport.convert`.
_HERE: dict[str, tuple[str, str]] = {
    "opset_version": ("torch.onnx", "target_opset=17"),
    "opset": ("tf2onnx.convert", "target_opset=17"),
    "dynamic_axes": ("torch.onnx", 'dynamic_shapes={"x": {0: "batch"}}'),
    "args": ("torch.onnx", "inputs=(x,)"),
    "f": ("torch.onnx", 'output="model.onnx"'),
    "do_constant_folding": ("torch.onnx", 'optimize="inference"'),
    "input_signature": ("tf2onnx.convert", "inputs=(x,), with dynamic_shapes= for dimensions that vary"),
    "onnx_file_path": ("other converters", 'output="model.onnx"'),
    "output_path": ("tf2onnx.convert", 'output="model.onnx"'),
    "initial_types": ("skl2onnx.convert_sklearn", "inputs=, a few rows of a table"),
    "final_types": ("skl2onnx.convert_sklearn", "output_names=[...]"),
    "target_opsets": ("skl2onnx", "target_opset=17"),
    "training": ("torch.onnx", "model.eval(), before the call"),
    "device": ("other converters", 'model.to("cpu"), before the call'),
    "fp16": ("other converters", 'dtype="float16"'),
    "dummy_input": ("other converters", "inputs=(x,)"),
    "example_inputs": ("other converters", "inputs=(x,)"),
}

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _by_position(function: str, args: tuple[object, ...]) -> str:
    output = f", output={args[2]!r}" if len(args) > 2 and isinstance(args[2], str) else ""
    example = ", inputs=(x,)" if isinstance(args[1], tuple) or len(args) == 2 else ""
    return (
        f"{function}() takes by position only the model and to=, the framework's name, and got {len(args)} arguments, the second "
        f"a {type(args[1]).__name__}; everything else is named: {function}(model{example}{output})"
    )


def explained(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`function`, whose errors for a call as of another converter say how it is written here."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if len(args) > 2 or (len(args) == 2 and isinstance(args[1], (tuple, list, dict))):
            raise TypeError(_by_position(function.__name__, args))
        for name in kwargs:
            if name in _HERE:
                owner, here = _HERE[name]
                raise TypeError(
                    f"{function.__name__}() takes no {name!r}, a keyword of {owner}: here it is written {here}"
                )
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f": did you mean {near[0]}=?" if near else f"; it takes {', '.join(known[1:])}"
                raise TypeError(f"{function.__name__}() takes no {name!r}{hint}")
        return function(*args, **kwargs)

    known = list(signature(function).parameters)
    return call
