"""The signature of PyTorch's own exporter, on `onnxport.convert`; nothing of that exporter is imported or called."""

from __future__ import annotations

import copy
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np

from onnxport.argument_types import check_mapping, check_path
from onnxport.compat.arguments import refuse_others
from onnxport.compat.opsets import convert_at
from onnxport.errors import InvalidInputError, OnnxportError, UnsupportedOperator
from onnxport.frameworks.descriptor import Lazy
from onnxport.graph.external_data import save as save_file
from onnxport.model import OnnxModel
from onnxport.request import check_names
from onnxport.validation.values import leaves_of

_NAME = "torch_onnx_export"  # what errors call it
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


class Program(OnnxModel):
    """What `export` gives: an `OnnxModel` with the attributes that programs of ``torch.onnx`` have too.

    It is called with tensors, as the module is, and gives a tuple of tensors.
    """

    _again: Callable[[Mapping[str, Any]], OnnxModel] | None = None  # the export with the weights of a state

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_again"}

    @property
    def exported_program(self) -> Any:
        """Not kept.

        Raises:
            AttributeError: always, with the way out.
        """
        raise AttributeError(f"{_NAME}: exported_program is not kept: torch.export.export(module, args) gives it")

    @property
    def model_proto(self) -> Any:
        """The model as a protobuf message."""
        return self.proto

    def optimize(self) -> None:
        """Changes nothing: the graph was written without what it does not need."""

    def apply_weights(self, state_dict: Mapping[str, Any]) -> None:
        """Takes the values of weights from a state of the module, which is converted and proved again with them.

        A weight may stand in the graph in another layout than in the module, so that nothing less is safe. Names that the
        module lacks are left out.

        Raises:
            InvalidInputError: a weight has another shape, or what was exported takes no weights.
            OnnxportError: see `onnxport.convert`.
        """
        if self._again is None:
            raise _refused("apply_weights: the module is not at hand any more: export it again with its weights")
        result = self._again(state_dict)
        self.model, self.report, self.notes = result.model, result.report, result.notes
        self.release()

    def initialize_inference_session(self, *_: object, **__: object) -> None:
        """Loads the model into its runtime, as the first call does."""
        self.new_session()

    def release(self) -> None:
        """Lets go of the runtime's session."""
        vars(self).pop("session", None)

    def save(
        self,
        destination: str | os.PathLike[str],
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Writes the model.

        Raises:
            InvalidInputError: the weights are to be left out.
            SavingError: it can't be written.
        """
        if not include_initializers:
            raise _refused("save(include_initializers=False) is not taken: weights stand in the file")
        if keep_initializers_as_inputs:
            _weights_as_inputs(self)
        if os.fspath(destination).endswith(
            ".pb"
        ):  # as PyTorch's documentation calls files of ONNX, and TensorFlow its own
            save_file(self.model, destination, external_data=external_data or None)
        else:
            super().save(destination, external_data=external_data or None)

    def __call__(self, *inputs: object, **named: object) -> Any:
        """Runs the model on tensors or arrays, nested as the module takes them."""
        leaves = [_array(leaf) for leaf in leaves_of(inputs)]
        result = super().__call__(*leaves, **{name: _array(leaf) for name, leaf in named.items()})
        return tuple(map(_tensor, result if isinstance(result, tuple) else (result,)))


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


_INSTEAD = {
    "register_custom_op_symbolic": "onnxport.register_to_onnx('pytorch', 'lib::op')",
    "dynamo_export": "export, which gives a program too,",
    "utils": "export",
    "verification": "onnxport.validate(module, file)",
    "testing": "program.report, the proof that comes with each program,",
}


def __getattr__(name: str) -> Any:
    instead = _INSTEAD.get(name, "onnxport.convert, onnxport.validate or onnxport.register_to_onnx")
    raise AttributeError(f"onnxport.compat has no torch.onnx.{name}; {instead} does its work here")


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
    refuse_others(_NAME, given, _NEUTRAL)
    if int(operator_export_type or 0) != OperatorExportTypes.ONNX:
        raise _refused(
            f"operator_export_type={operator_export_type!r} is not taken: operators of ATen are refused by name, not written"
        )
    if f is not None and not hasattr(f, "write"):
        check_path(f, "f")
    if input_names:
        check_names("input_names", input_names)
    positional, named = _arguments(args, kwargs)
    own = _paths(model, positional, named)
    if dynamic_axes is not None and dynamic_shapes is not None:
        raise _refused("dynamic_axes= and dynamic_shapes= exclude each other")
    if hasattr(dynamic_shapes, "dynamic_shapes"):  # a ShapesCollection, which goes by the tensors themselves
        dynamic_shapes = dynamic_shapes.dynamic_shapes(model, positional, named)
    if dynamic_axes is not None:
        check_mapping(dynamic_axes, "dynamic_axes", "{'x': {0: 'batch'}}")
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
    program._again = lambda state: converted(_with_weights(model, state))
    if keep_initializers_as_inputs:
        _weights_as_inputs(program)
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
        raise _refused(f"apply_weights: a {type(module).__name__} takes no weights: export the module again with them")
    taken = {name: value for name, value in state.items() if name in own}
    for name, value in taken.items():
        if tuple(value.shape) != tuple(own[name].shape):
            raise _refused(f"apply_weights: {name!r} is {list(value.shape)}, the module's {list(own[name].shape)}")
    module = copy.deepcopy(module)
    module.load_state_dict(taken, strict=False)
    return module


def _opsets(version: int | None, others: Mapping[str, int] | None) -> Any:
    if not others:
        return version
    return {**({} if version is None else {"": version}), **others}


def _array(leaf: object) -> Any:
    """A tensor as an array; anything else as it is."""
    return leaf.detach().cpu().numpy() if hasattr(leaf, "detach") and hasattr(leaf, "cpu") else leaf


def _tensor(value: object) -> object:
    numeric = isinstance(value, np.ndarray) and value.dtype.kind in "biufc"
    return Lazy("torch:from_numpy").get()(value) if numeric else value


def _weights_as_inputs(model: OnnxModel) -> None:
    """Lists the initializers among the graph's inputs too, as files before IR version 4 do."""
    graph = model.model.graph
    graph.inputs.extend(value for value in graph.initializers.values() if not value.is_graph_input())


def _with_names(result: OnnxModel, model: Any, names: Sequence[str]) -> OnnxModel:
    """The model with names for its first inputs, or for all of them and its first parameters, in the module's order."""
    weights = [name for name, _ in model.named_parameters()] if hasattr(model, "named_parameters") else []
    own = [*result.input_names, *weights]
    if len(names) > len(own):
        raise _refused(f"input_names= has {len(names)} names, and there are {len(own)} inputs and parameters")
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
        raise _refused(
            f"dynamic_axes= names {odd[0]!r}; the inputs are {', '.join(names)}: give input_names= and output_names="
        )
    chosen = [(path, axes.get(name, axes.get(path))) for name, path in zip(names, own, strict=True)]
    return {path: _dims(item) for path, item in chosen if item}


def _dims(item: Any) -> dict[int, Any]:
    """The names of axes; those of a list have none, and which of them are of one size is the trace's to say."""
    if isinstance(item, (list, tuple)):
        return dict.fromkeys(item, Lazy("torch.export:Dim").get().DYNAMIC)
    return dict(item)


class _Mode(AbstractContextManager[None]):
    """A module as it infers, as it is or as it trains, for the time of the block."""

    def __init__(self, model: Any, training: Any) -> None:
        mode = TrainingMode(int(training or 0)) if not isinstance(training, bool) else TrainingMode(2 * training)
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
