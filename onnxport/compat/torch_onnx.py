"""The signature of PyTorch's own exporter, on `onnxport.convert`; nothing of that exporter is imported or called."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from onnxport.compat.arguments import refuse_others
from onnxport.converters.convert import convert
from onnxport.errors import InvalidInputError
from onnxport.model import OnnxModel

_NAME = "torch_onnx_export"  # what errors call it
_ANY = (True, False, None)
# By argument: the values that change nothing here, and what to do for another.
_NEUTRAL: dict[str, tuple[tuple[object, ...], str]] = {
    "verbose": ((False, None), "print(model.report) and print(model.summary()) have what was done"),
    "dynamo": (_ANY, ""),  # there is one way to trace
    "do_constant_folding": (_ANY, ""),  # constants are folded, weights are not
    "optimize": (_ANY, ""),  # a graph is written without what it does not need
    "verify": (_ANY, ""),  # it is always proved
    "fallback": ((False, None), "there is no second exporter to fall back to"),
    "export_params": ((True,), "weights stand in the file; leave them out with onnx-ir afterwards"),
    "keep_initializers_as_inputs": ((False, None), "initializers are no inputs since IR version 4"),
    "custom_translation_table": (
        (None,),
        "register each operator with onnxport.register_to_onnx('pytorch', 'lib::op')",
    ),
    "custom_opsets": ((None,), "operators of a domain of its own come with onnxport.register_to_onnx"),
    "report": ((False,), "model.report.to_html(path) writes one"),
    "profile": ((False,), "python -X importtime and cProfile show where the time goes"),
    "dump_exported_program": ((False,), "torch.export.save(torch.export.export(...)) writes it"),
    "artifacts_dir": ((".",), "nothing but the file itself is written"),
    "export_modules_as_functions": ((False,), "pass functions= to onnxport.convert"),
    "autograd_inlining": ((True, None), "autograd functions are traced through"),
    "operator_export_type": ((None, 0), "operators of ATen are refused by name, not written"),
}


class Program(OnnxModel):
    """What `export` gives: an `OnnxModel` with the attributes that programs of ``torch.onnx`` have too."""

    @property
    def model_proto(self) -> Any:
        """The model as a protobuf message."""
        return self.proto

    def optimize(self) -> None:
        """Changes nothing: the graph was written without what it does not need."""


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool | None = None,
    dynamic_shapes: Any = None,
    custom_translation_table: Mapping[Any, Any] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str = ".",
    fallback: bool = False,
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Any] | None = None,
    training: Any = None,
    operator_export_type: Any = None,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: Any = False,
    autograd_inlining: bool | None = True,
) -> Program:
    """What a call of PyTorch's exporter asks for, by `onnxport.convert` and proved.

    Dimensions are fixed but for those that `dynamic_axes` or `dynamic_shapes` name.

    Raises:
        InvalidInputError: an argument asks for what is not done here, or inputs do not fit.
        OnnxportError: see `onnxport.convert`.
    """
    given = {name: value for name, value in locals().items() if name in _NEUTRAL}
    refuse_others(_NAME, given, _NEUTRAL)
    if _is_training(training):
        raise _refused("training=TRAINING is not taken: a model is converted as it infers")
    positional, named = _arguments(args, kwargs)
    if dynamic_axes is not None and dynamic_shapes is not None:
        raise _refused("dynamic_axes= and dynamic_shapes= exclude each other")
    if dynamic_axes is not None:
        dynamic_shapes = _shapes(dynamic_axes, input_names, positional, named)
    elif dynamic_shapes is None and not named:
        dynamic_shapes = (None,) * len(positional)
    with _Evaluated(model):
        result: OnnxModel = convert(
            model,
            inputs=positional,
            kwargs=named or None,
            dynamic_shapes=dynamic_shapes,
            input_names=input_names,
            output_names=output_names,
            target_opset=opset_version,
        )
    program = Program(result.model, report=result.report, notes=result.notes, runtime=result.runtime)
    if hasattr(f, "write"):
        f.write(program.proto.SerializeToString(deterministic=True))
    elif f is not None:
        program.save(os.fspath(f), external_data=external_data or None)
    return program


def _refused(reason: str) -> InvalidInputError:
    return InvalidInputError(f"{_NAME}: {reason}")


def _arguments(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword inputs: a lone one need not stand in a tuple, a dictionary at the end of it holds keywords."""
    positional = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    named = dict(kwargs or {})
    if positional and isinstance(positional[-1], dict) and isinstance(args, tuple) and kwargs is None:
        positional, named = positional[:-1], dict(positional[-1])
    return positional, named


def _shapes(
    axes: Mapping[str, Any], input_names: Sequence[str] | None, positional: Sequence[Any], named: Mapping[str, Any]
) -> Any:
    """`dynamic_axes` of inputs, in their order; those of outputs follow from these."""
    if named:
        raise _refused("dynamic_axes= beside keyword inputs: name them in dynamic_shapes=")
    if input_names is None:
        raise _refused("dynamic_axes= goes by input_names=: give them, or dynamic_shapes= by the parameters' names")
    if len(input_names) != len(positional):
        raise _refused(
            f"dynamic_axes= goes by input_names=, of which there are {len(input_names)} for {len(positional)} "
            "inputs: write dynamic_shapes= in the structure of the inputs"
        )
    chosen = [axes.get(name) for name in input_names]
    return tuple(
        {axis: f"{name}_dim_{axis}" for axis in item}
        if isinstance(item, (list, tuple))
        else dict(item)
        if item
        else None
        for name, item in zip(input_names, chosen, strict=True)
    )


def _is_training(training: Any) -> bool:
    """Whether the enumeration of torch.onnx asks for the model as it trains."""
    return getattr(training, "name", "EVAL") == "TRAINING" or training is True


class _Evaluated:
    """A module as it infers, for the time of the block."""

    def __init__(self, model: Any) -> None:
        self._model = model if getattr(model, "training", False) is True and hasattr(model, "eval") else None

    def __enter__(self) -> None:
        if self._model is not None:
            self._modes = [(part, part.training) for part in self._model.modules()]
            self._model.eval()

    def __exit__(self, *error: object) -> None:
        if self._model is not None:
            for part, mode in self._modes:
                part.training = mode
