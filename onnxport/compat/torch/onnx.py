"""The signature of PyTorch's own exporter, on `onnxport.convert`; nothing of that exporter is imported or called."""

from __future__ import annotations

import copy
import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

from onnxport.argument_types import check_mapping, check_path, check_switches
from onnxport.compat.absent import refusing
from onnxport.compat.arguments import by_name, refuse_others
from onnxport.compat.opsets import convert_at
from onnxport.compat.torch.program import NAME, Program, refused, weights_as_inputs
from onnxport.errors import OnnxportError, UnsupportedOperator
from onnxport.frameworks.descriptor import Lazy
from onnxport.model import OnnxModel
from onnxport.request import check_names

_ANY = (True, False, None)
# By argument: the values that change nothing here, and what to do for another.
_NEUTRAL: dict[str, tuple[tuple[object, ...], str]] = {
    "dynamo": (_ANY, ""),  # there is one way to trace
    "do_constant_folding": (_ANY, ""),  # constants are folded, weights are not
    "optimize": (_ANY, ""),  # a graph is written without what it does not need
    "verify": (_ANY, ""),  # it is always proved
    "fallback": (_ANY, ""),  # there is one exporter
    "export_params": ((True,), "weights stand in the file; leave them out with onnx-ir afterwards"),
    "custom_translation_table": (
        (None,),
        "register each operator with onnxport.register_to_onnx('pytorch', 'lib::op')",
    ),
    "profile": ((False,), "python -X importtime and cProfile show where the time goes"),
    "dump_exported_program": ((False,), "torch.export.save(torch.export.export(...)) writes it"),
    "export_modules_as_functions": ((False,), "pass functions= to onnxport.convert"),
    "autograd_inlining": ((True, None), "autograd functions are traced through"),
}
_ELSEWHERE = {  # arguments of former versions
    "use_external_data_format": "external_data=True; beyond 2 GB it is so by itself",
    "example_outputs": "outputs follow from the trace: leave it out",
    "enable_onnx_checker": "the graph is always checked: leave it out",
    "strip_doc_string": "no text of the source stands in the file: leave it out",
    "aten": "operators without an ONNX form are refused by name, not written",
    "_retain_param_name": "weights keep their names: leave it out",
    "export_options": "pass dynamic_shapes= and opset_version= themselves",
    "input_shapes": "args=, example inputs",
    "target_opset": "opset_version=17",
    "inputs": "args=(x,)",
    "output": "f='model.onnx'",
}


class TrainingMode(IntEnum):
    """Whether a model is exported as it infers, as it is, or as it trains."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(IntEnum):
    """How operators without an ONNX form are written; `ONNX`, not at all, is the only one here."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


ONNXProgram: type[Program] = Program
OnnxExporterError: type[OnnxportError] = OnnxportError
# As ``torch.onnx.errors`` has them.
errors = SimpleNamespace(OnnxExporterError=OnnxExporterError, UnsupportedOperatorError=UnsupportedOperator)


def select_model_mode_for_export(model: Any, mode: Any) -> AbstractContextManager[None]:
    """A module as it infers, as it is or as it trains, for the time of the block."""
    return _Mode(model, mode)


def is_in_onnx_export() -> bool:
    """False: a module is traced as it runs."""
    return False


__path__: list[str] = []  # it is asked for modules within, as PyTorch's is
__getattr__ = refusing(__name__)


@by_name(NAME, _ELSEWHERE)
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
    artifacts_dir: str | os.PathLike[str] = ".",
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
    refuse_others(NAME, given, _NEUTRAL)
    if _member(OperatorExportTypes, operator_export_type, "operator_export_type") != OperatorExportTypes.ONNX:
        raise refused(
            f"operator_export_type={operator_export_type!r} is not taken: operators of ATen are refused by name, not written"
        )
    _mode_of(training)
    check_switches({f"{NAME}: {name}": value for name, value in (("verbose", verbose), ("report", report))})
    check_path(artifacts_dir, f"{NAME}: artifacts_dir")
    for option, mapping, example in (
        ("kwargs", kwargs, "{'mask': mask}"),
        ("custom_opsets", custom_opsets, "{'com.acme': 1}"),
        ("dynamic_axes", dynamic_axes, "{'x': {0: 'batch'}}"),
    ):
        if mapping is not None:
            check_mapping(mapping, f"{NAME}: {option}", example)
    if f is not None and not hasattr(f, "write"):
        check_path(f, "f")
    if input_names:
        check_names("input_names", input_names)
    positional, named = _arguments(args, kwargs)
    own = _paths(model, positional, named)
    if dynamic_axes is not None and dynamic_shapes is not None:
        raise refused("dynamic_axes= and dynamic_shapes= exclude each other")
    if hasattr(dynamic_shapes, "dynamic_shapes"):  # a ShapesCollection, which goes by the tensors themselves
        dynamic_shapes = dynamic_shapes.dynamic_shapes(model, positional, named)
    if dynamic_axes is not None:
        dynamic_shapes = _shapes(dynamic_axes, input_names, output_names, own)
    elif dynamic_shapes is None and not hasattr(model, "graph_signature"):  # an ExportedProgram has its own
        dynamic_shapes = {}
    names = list(input_names or ())
    every = bool(names) and len(names) == len(own)

    def converted(module: Any) -> OnnxModel:
        with _Mode(module, training):
            result = convert_at(
                module,
                inputs=positional or None,
                kwargs=named or None,
                dynamic_shapes=dynamic_shapes,
                input_names=names if every else None,
                output_names=output_names,
                target_opset=_opsets(opset_version, custom_opsets),
            )
        return _with_names(result, module, names) if names and not every else result

    result = converted(model)
    program = Program(result.model, report=result.report, notes=result.notes, runtime=result.runtime)
    program.again = lambda state: converted(_with_weights(model, state))
    if keep_initializers_as_inputs:
        weights_as_inputs(program)
    if hasattr(f, "write"):
        f.write(program.proto.SerializeToString(deterministic=True))
    elif f is not None:
        program.save(os.fspath(f), external_data=external_data)
    if verbose:
        sys.stdout.write(f"{program.summary()}\n{program.report}\n")
    if report and program.report is not None:
        os.makedirs(artifacts_dir, exist_ok=True)
        program.report.to_html(os.path.join(artifacts_dir, "onnx_export_report.html"))
    return program


def _with_weights(module: Any, state: Mapping[str, Any]) -> Any:
    """A copy of the module with the weights of a state."""
    own = module.state_dict() if hasattr(module, "load_state_dict") else None
    if own is None:
        raise refused(f"apply_weights: a {type(module).__name__} takes no weights: export the module again with them")
    taken = {name: value for name, value in state.items() if name in own}
    for name, value in taken.items():
        if tuple(value.shape) != tuple(own[name].shape):
            raise refused(f"apply_weights: {name!r} is {list(value.shape)}, the module's {list(own[name].shape)}")
    module = copy.deepcopy(module)
    module.load_state_dict(taken, strict=False)
    return module


def _opsets(version: int | None, others: Mapping[str, int] | None) -> Any:
    if not others:
        return version
    return {**({} if version is None else {"": version}), **others}


def _with_names(result: OnnxModel, model: Any, names: Sequence[str]) -> OnnxModel:
    """The model with names for its first inputs, or for all of them and its first parameters, in the module's order."""
    weights = [name for name, _ in model.named_parameters()] if hasattr(model, "named_parameters") else []
    own = [*result.input_names, *weights]
    if len(names) > len(own):
        raise refused(f"input_names= has {len(names)} names, and there are {len(own)} inputs and parameters")
    there = {*result.input_names, *result.model.graph.initializers}
    renamed = result.rename({old: new for old, new in zip(own, names) if old in there and old != new})
    renamed.report = result.report  # the proof against the module, not that of the edit
    return renamed


def _paths(model: Any, positional: Sequence[Any], named: Mapping[str, Any]) -> list[str]:
    """The paths of the tensors among the inputs: a parameter of ``forward``, and below it keys and places."""
    try:
        forward = getattr(model, "forward", model)
        scripted = hasattr(forward, "schema")  # TorchScript has parameters of its own
        signature = Lazy("onnxport.tracing.pytorch_scripts:signature_of").get() if scripted else inspect.signature
        taken = list(signature(forward).parameters.values())
    except (TypeError, ValueError):
        taken = []
    parameters = [item.name for item in taken]
    many = next((place for place, item in enumerate(taken) if item.kind is item.VAR_POSITIONAL), None)
    if many is not None:  # def forward(self, *xs)
        parameters[many:] = [f"{taken[many].name}.{place}" for place in range(len(positional) - many)]
    parameters += [f"input_{place}" for place in range(len(parameters), len(positional))]
    items = [*zip(parameters, positional), *named.items()]
    return [path for name, item in items for path in _below(name, item)]


def _below(path: str, item: Any) -> Iterator[str]:
    if isinstance(item, Mapping):
        for key, child in item.items():
            yield from _below(f"{path}.{key}", child)
    elif isinstance(item, (list, tuple)):
        for place, child in enumerate(item):
            yield from _below(f"{path}.{place}", child)
    elif hasattr(item, "shape"):
        yield path


def _arguments(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword inputs: a lone one need not stand in a tuple, a dictionary at the end of it holds keywords."""
    positional = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    named = dict(kwargs or {})
    if positional and isinstance(positional[-1], dict) and isinstance(args, tuple) and kwargs is None:
        positional, named = positional[:-1], dict(positional[-1])
    return positional, named


def _shapes(
    axes: Mapping[str, Any],
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    own: Sequence[str],
) -> Any:
    """`dynamic_axes` of inputs by their paths; those of outputs follow from these."""
    given = list(input_names or ())[: len(own)]
    names = [*given, *own[len(given) :]]
    odd = [name for name in axes if name not in {*names, *own, *(output_names or ())}]
    if odd and (input_names is None or output_names is not None):
        raise refused(
            f"dynamic_axes= names {odd[0]!r}; the inputs are {', '.join(names)}: give input_names= and output_names="
        )
    chosen = [(path, axes.get(name, axes.get(path))) for name, path in zip(names, own, strict=True)]
    return {path: _dims(item) for path, item in chosen if item}


def _dims(item: Any) -> dict[int, Any]:
    """The names of axes; those of a list have none, and which of them are of one size is the trace's to say."""
    if isinstance(item, (list, tuple)):
        return dict.fromkeys(item, Lazy("torch.export:Dim").get().DYNAMIC)
    if not isinstance(item, Mapping):
        raise refused(f"dynamic_axes: {item!r:.60} is neither axes with names, {{0: 'batch'}}, nor a list of axes, [0]")
    return dict(item)


def _member(kind: type[IntEnum], given: Any, option: str) -> Any:
    """A member by itself, its number or its name, or PyTorch's own; the first for None."""
    try:
        return kind[given] if isinstance(given, str) else kind(int(given or 0))
    except (KeyError, TypeError, ValueError):
        names = ", ".join(f"{kind.__name__}.{item.name}" for item in kind)
        raise refused(f"{option}={given!r:.60} is none of {names}") from None


def _mode_of(training: Any) -> TrainingMode:
    """The mode that is asked for; True is one that trains."""
    mode: TrainingMode = _member(TrainingMode, 2 * training if isinstance(training, bool) else training, "training")
    return mode


class _Mode(AbstractContextManager[None]):
    """A module as it infers, as it is or as it trains, for the time of the block."""

    def __init__(self, model: Any, training: Any) -> None:
        mode = _mode_of(training)
        wanted = mode == TrainingMode.TRAINING
        changes = mode != TrainingMode.PRESERVE and getattr(model, "training", wanted) is not wanted
        self._model, self._wanted = (model if changes and hasattr(model, "train") else None), wanted

    def __enter__(self) -> None:
        if self._model is not None:
            self._modes = [(part, part.training) for part in self._model.modules()]
            self._model.train(self._wanted)

    def __exit__(self, *error: object) -> None:
        if self._model is not None:
            for part, mode in self._modes:
                part.training = mode
