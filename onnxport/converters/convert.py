"""`onnxport.convert`: any framework to any other, through ONNX."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from onnxport import frameworks
from onnxport.argument_types import check_batches, check_is_mapping, check_switches
from onnxport.converters.convert_options import ConvertOptions
from onnxport.converters.domains import declare
from onnxport.converters.foreign_keywords import explained
from onnxport.converters.isolation import isolated
from onnxport.converters.watching import check_length, watched, watched_inference
from onnxport.errors import InvalidInputError, UnsupportedOperator
from onnxport.frameworks import Framework
from onnxport.frameworks.descriptor import Lazy, SourceKind
from onnxport.graph.atomic import check_folder, check_target
from onnxport.graph.passes.bake import bake
from onnxport.graph.runtimes import Runtime
from onnxport.model import OnnxModel
from onnxport.options import (
    check,
    check_keywords,
    check_tolerances,
    of_estimators,
)
from onnxport.progress import stage
from onnxport.request import Optimize, Request, States, Strategy, check_names
from onnxport.validation.values import leaves_of

if TYPE_CHECKING:
    from onnxport.validation.parties import Tolerance
    from onnxport.validation.witnesses.engine import Engine

# Of ONNX models alone, and of what is rebuilt from them.
attributed = Lazy("onnxport.converters.from_onnx.blame:attributed")
edit = Lazy("onnxport.converters.to_onnx.onnx:edit")
with_functions = Lazy("onnxport.converters.to_onnx.functions:with_functions")
# Of float32 models that become smaller.
lowered = Lazy("onnxport.converters.to_onnx.precision:lowered")
prove_lowered = Lazy("onnxport.converters.precision_proof:prove_lowered")
with_channels_first = Lazy("onnxport.converters.channels:with_channels_first")
check_edit = Lazy("onnxport.converters.to_onnx.onnx_edit_checks:check")


@overload
def convert(model: object, to: Literal["onnx"] = "onnx", **options: Unpack[ConvertOptions]) -> OnnxModel: ...
@overload
def convert(model: object, to: str, **options: Unpack[ConvertOptions]) -> Any: ...
@explained
def convert(
    model: object,
    to: str = "onnx",
    *,
    inputs: object = None,
    kwargs: Mapping[str, object] | None = None,
    dynamic_shapes: object = None,
    target_opset: int | Mapping[str, int] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    cut_inputs: Sequence[str] | None = None,
    cut_outputs: Sequence[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    validate: bool = True,
    signature: str | None = None,
    methods: Sequence[str] | None = None,
    options: Mapping[str, object] | None = None,
    optimize: Optimize = "none",
    runtime: Runtime = "onnxruntime",
    allow_pickle: bool = False,
    allow_code: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    task: str | None = None,
    dtype: str | None = None,
    keep_io_types: bool = False,
    inputs_as_nchw: Sequence[str] | None = None,
    outputs_as_nchw: Sequence[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
    functions: str | Sequence[type | str] | None = None,
    strategy: Strategy | None = None,
    states: States | None = None,
    runtimes: Sequence[str] | None = None,
) -> Any:
    """Converts `model` to the framework `to` and, unless `validate` is false, proves the result by running both sides.

    Conversions from several threads take turns; none leaves anything behind in the process or in the model.

    Args:
        model: a live model of any framework (see the README), or the path of a file or SavedModel directory.
        to: ``"onnx"``, ``"pytorch"`` (``"torch"``), ``"tensorflow"`` (``"tf"``), ``"keras"`` or ``"sklearn"``.
        inputs: example inputs: a tuple of positional ones or a dict by name; for scikit-learn an array, a DataFrame (one
            graph input a column) or a list of strings. May be left out where the model has a signature. For PyTorch also a
            list of several tuples: the dimensions in which they differ vary, and no others.
        kwargs: example keyword inputs.
        dynamic_shapes: dimensions that may vary, in torch.export's notation, plain strings as names:
            ``{"x": {0: "batch"}}``. By default dimension 0 of every input where tracing allows it; of a module that
            was imported from ONNX those of its file. Of an ONNX model the dimensions to name (``"batch"``) or to fix (``4``);
            the others stay as they are.
        target_opset: version of ai.onnx, 13 to 28; by default 21, which deployed runtimes load. On the way to another
            framework that of the graph in between. An ONNX model keeps its own by default. ``{"": 17, "ai.onnx.ml": 3}`` also
            has those of other domains, which else follow from it.
        input_names: names of the graph's inputs, in order; by default those of the callable's parameters.
        output_names: names of the graph's outputs, in order; by default their paths in the output's structure.
        cut_inputs: names of values of an ONNX graph that become its inputs; what comes before them is left out.
        cut_outputs: names of values of an ONNX graph that become its outputs; what comes after them is left out.
        output: also save the result there.
        validate: run source and result on the inputs, and on a second batch size where the batch is dynamic.
        signature: which signature of a SavedModel.
        methods: which inference methods of an estimator; the outputs are named after them.
        options: which outputs an estimator's graph has: ``{"label": False}``, ``{"labels": "ints"}`` (or ``"strings"``),
            ``{"raw_scores": True}``, ``{"zipmap": True}`` (or ``"columns"``), and for a step of a pipeline, by its path,
            ``{"scale": {"output": True}}``: what it gives, as an output too. For weights in few bits ``{"block_size": 32}``.
        optimize: ``"inference"`` bakes batch norms and transposes into the weights; by default weights stay what they are.
        runtime: ``"onnxruntime"`` writes what its versions from 1.24 on load and run, by composition or casts, which the
            report's notes name; ``"reference"`` the most direct standard graph, run by ONNX's reference evaluator.
        allow_pickle: allow `model` to be a pickle file or to hold pickled parts, which run code when they are loaded.
        allow_code: allow a file to run code of its own: operators that read or write files, functions by name, shared objects.
        rtol: relative tolerance instead of the derived budget.
        atol: absolute tolerance instead of the derived budget.
        task: what a model in a Hugging Face folder is for: ``"text-generation-with-past"``, ``"fill-mask"``; by default that of
            its class.
        dtype: ``"float16"`` or ``"bfloat16"`` computes in it what is safe there; of a Hugging Face folder the weights'
            type, ``"float32"`` too; of a quantised TFLite file ``"float32"`` has its real numbers, unrounded. ``"int8"`` or
            ``"int4"`` holds the weights of products in blocks of so many bits. By default what the model has.
        inputs_as_nchw: names of inputs of an ONNX model to take with their channels before the places, though the source has them
            last.
        outputs_as_nchw: names of outputs to give so.
        keep_io_types: with `dtype` the model takes and gives float32 all the same.
        weights: a file of weights that stands instead of those of a Hugging Face folder.
        functions: classes of PyTorch modules, or their names, each of whose calls stays a function of the ONNX model, equal
            ones sharing one; ``"auto"`` keeps the blocks that repeat.
        strategy: ``"trace"`` lets Python of a PyTorch model decide on values of tensors where it can't be traced otherwise: its
            branches are frozen as the examples take them, and the report names each.
        states: ``"io"`` makes the buffers that a PyTorch module updates inputs and outputs: ``cache`` is the input ``past.cache``
            and the output ``present.cache``. By default such a module is refused by the buffer's name.
        runtimes: names of other engines that run the ONNX model too once it is proved, as in `onnxport.validate`: what they
            give stands in ``report.witnesses``.

    Returns:
        An `OnnxModel`, of a Hugging Face folder an `OnnxFolder`, which is one too; else a `torch.nn.Module`, `tf.Module`,
        `keras.Model` or estimator, called with the graph's inputs in graph order.

    Raises:
        UnsupportedOperator: operators without an equivalent, all of them at once.
        ValidationError: the result's numbers differ from the source's.
        TracingError: the source framework can't trace the model.
        InvalidModelError: a file is corrupt or of another kind.
        InvalidInputError: inputs or options do not fit.
        UntrustedFileError: `model` is a file that would run code, and the consent that the error names is not given.
        MissingDependencyError: a framework is not installed.
        SavingError: `output` can't be written; what stood there is untouched.
    """
    target = frameworks.get(to)
    check_keywords(kwargs)
    check_switches({"keep_io_types": keep_io_types, "allow_pickle": allow_pickle, "allow_code": allow_code})
    if options is not None:
        check_is_mapping(options, "options", "{'block_size': 64}")  # scikit-learn's keys may be classes
    source = frameworks.get(frameworks.of_object(model, leaves_of(inputs, kwargs)))
    kind = source.kind_of(model)
    if source.hub_folder is not None and not target.is_hub:
        raise UnsupportedOperator(
            f"{kind.title} becomes a folder of ONNX models; convert one of these to {target.title}"
        )
    asked: dict[str, Any] = {
        "kwargs": kwargs or None,
        "dynamic_shapes": dynamic_shapes,
        "target_opset": target_opset,
        "input_names": input_names,
        "output_names": output_names,
        "cut_inputs": cut_inputs,
        "cut_outputs": cut_outputs,
        "signature": signature,
        "methods": methods,
        "task": task,
        "dtype": dtype,
        "keep_io_types": True if keep_io_types else None,
        "weights": weights,
        "functions": functions,
        "strategy": strategy,
        "states": states,
    }
    others: dict[str, Any] = {
        "options": of_estimators(options) or None,
        "runtime": None if isinstance(runtime, str) and runtime == "onnxruntime" else runtime,
        "inputs_as_nchw": inputs_as_nchw,
        "outputs_as_nchw": outputs_as_nchw,
    }
    for name in ("inputs_as_nchw", "outputs_as_nchw"):
        check_names(name, others[name])
    if isinstance(model, (str, os.PathLike)):
        others |= {"allow_pickle": allow_pickle or None, "allow_code": allow_code or None}
    check([name for name, value in {**asked, **others}.items() if value is not None], kind, target)
    if not isinstance(validate, bool):
        raise InvalidInputError(f"validate={validate!r}: True, or False for no proof")
    if isinstance(inputs, os.PathLike) or (isinstance(inputs, str) and not source.takes_table):
        raise InvalidInputError(f"inputs={str(inputs)!r} is a path: read the file first, inputs=(numpy.load(path),)")
    check_batches(inputs)
    check_tolerances(rtol, atol, validate=validate)
    engines = _witnesses(runtimes, source, target, proved=validate and dtype is None)
    first, further = _examples(inputs, source, kind)
    # What a framework computes with operators of its own needs no detours around a runtime's defects.
    between: Runtime = "reference" if target.shares_semantics else runtime
    request = Request(
        first, further, options=options or {}, optimize=optimize, runtime=between, proved=validate, **asked
    )
    if output is not None:
        frameworks.check_place(output, target, source)
        check_output(target, output, source)
    for framework in (source, target):
        frameworks.require(framework)
    with isolated():
        with _old_objects_left_alone():
            stage(f"loading {file_name(model)}" if file_name(model) else "preparing")
            live: Any
            if source.is_hub and target.is_hub:
                live = source.adopt(model)  # the caller gets its weights: they lie in memory
            else:
                live = load(model, source.name, allow_pickle=allow_pickle, allow_code=allow_code)
            about = source.notes_of(live)
            source_model = live if isinstance(live, OnnxModel) else None
            if source_model is not None and isinstance(model, (str, os.PathLike)):
                check_length(source_model, target)
            with watched_inference(source_model):
                if source_model is not None:
                    with attributed("editing the graph"):
                        read = isinstance(model, (str, os.PathLike)) and not target.is_hub
                        untouched = read and optimize == "none" and dtype is None
                        edited = edit(source_model, request, itself=untouched)
                    live, hub, request = edited.source, edited.result, edited.request
                else:
                    if states is not None and source.with_states is not None:
                        live, request = source.with_states(live, request)
                    real = dtype == "float32" and source.in_real_numbers is not None
                    if real and source.in_real_numbers is not None:
                        live, request = source.in_real_numbers(live), replace(request, dtype=None, keep_io_types=None)
                    hub = _exported(live, source, request)
                    hub.notes = (*hub.notes, *about, *((_IN_REAL_NUMBERS,) if real else ()))
                if optimize == "inference":
                    bake(hub.model)
                lower = None
                if request.dtype is not None and source.hub_folder is None:
                    lower = lowered(hub, request, typed=source_model is None)
                    hub = lower.result
                if functions is not None and source.hub_folder is None:
                    hub = with_functions(hub, functions)
                result = hub if target.is_hub else _rebuilt(hub, target)
        if validate:
            from onnxport.validation.parties import Tolerance

            with watched([live, hub] if source.is_hub else [], drawn=inputs is None and not kwargs):
                if source.is_hub:
                    check_edit(edited)
                wide = hub if lower is None else lower.wide
                tolerance, title = Tolerance(rtol, atol), file_name(model)
                _prove(source, live, wide, wide if lower else result, request, tolerance, title, engines)
                if lower is not None:
                    hub.report = prove_lowered(replace(lower, result=hub), live, source, request, tolerance)
        if inputs_as_nchw or outputs_as_nchw:
            stage("turning inputs and outputs")
            result = with_channels_first(hub, inputs_as_nchw or (), outputs_as_nchw or (), validate=validate)
    if output is not None:
        stage(f"writing {file_name(output)}")
        save(result, target.name, output)
    return result


_IN_REAL_NUMBERS = (
    "the file's quantised numbers stand as the real ones; its own kernels round what goes between operators"
)


def _exported(live: object, source: Framework, request: Request) -> OnnxModel:
    if source.export is None:
        raise UnsupportedOperator(f"models of {source.title} are not converted to ONNX")
    hub: OnnxModel = source.export(live, request)
    declare(hub, request.domains)
    return hub


def _rebuilt(hub: OnnxModel, target: Framework) -> Any:
    if target.build is None:
        others = [item.title for item in frameworks.registered() if item.build is not None]
        raise UnsupportedOperator(
            f"ONNX graphs are not yet rebuilt into {target.title}: convert to {', '.join(others[:-1])} or {others[-1]}"
        )
    stage(f"rebuilding in {target.title}")
    with attributed(f"rebuilding the graph in {target.name}"):
        result = target.build(hub.model)
    hub.notes = (*hub.notes, *getattr(result, "notes", ()))
    return result


@contextmanager
def _old_objects_left_alone() -> Iterator[None]:
    """The garbage collector looks at objects of this block alone, and seldom: all of a loaded framework's take it 0.1 s."""
    first, *others = gc.get_threshold()
    frozen = gc.get_freeze_count() > 0  # the caller's own
    if not frozen:
        gc.freeze()
    gc.set_threshold(max(first, _COLLECTED_AFTER) if first else 0, *others)  # 0: the caller has turned it off
    try:
        yield
    finally:
        gc.set_threshold(first, *others)
        if not frozen:
            gc.unfreeze()


# New objects between two searches for garbage in cycles: with Python's own few hundred, those of a trace are searched many times.
_COLLECTED_AFTER = 50_000


def load(model: object, framework: str, *, allow_pickle: bool = False, allow_code: bool = False) -> Any:
    """The live model of a path or object, as the driver of its framework takes it.

    Raises:
        InvalidModelError: the file is corrupt or of another kind.
        UntrustedFileError: the file would run code, and the consent that the error names is not given.
    """
    owner = frameworks.get(framework)
    frameworks.require(owner)
    if isinstance(model, (str, os.PathLike)) and owner.files.load is not None:
        model = owner.files.load(model, allow_pickle=allow_pickle, allow_code=allow_code)
    return owner.adopt(model)


def check_output(framework: Framework, path: str | os.PathLike[str], source: Framework | None = None) -> None:
    """Refuses a path that a model of `framework`, converted from one of `source`, can't be written to, before the work is done.

    Raises:
        SavingError: its folder is missing or can't be written to, or something of another kind stands there.
    """
    folder, writes = framework.files.folder, framework.files.writes
    if framework.is_hub and source is not None and Path(path).suffix.lower() not in writes:
        folder, writes = source.hub_folder, ()
    if folder is not None and not writes:
        check_folder(path, marks=folder.marks)
    else:
        check_target(path)


def save(result: object, framework: str, path: str | os.PathLike[str]) -> None:
    """Writes a converted model in its framework's own format, in one step.

    Raises:
        SavingError: it can't be written; what stood there is untouched.
    """
    owner = frameworks.get(framework)
    if owner.files.save is None:
        raise UnsupportedOperator(f"models of {owner.title} are not written to files")
    if owner.is_hub:
        owner.files.save(result, path)
        return
    with isolated(), _old_objects_left_alone():  # the frameworks trace once more to save
        owner.files.save(result, path)


def _examples(inputs: object, source: Framework, kind: SourceKind) -> tuple[object, tuple[object, ...]]:
    """The example inputs, and further ones where a list holds several calls.

    Raises:
        InvalidInputError: there are several, and the source takes one.
    """
    if source.takes_table or not isinstance(inputs, list) or len(inputs) < 2:
        return inputs, ()
    if not all(isinstance(item, tuple) for item in inputs):
        return inputs, ()
    if not kind.several_examples:
        known = [item for framework in frameworks.registered() for item in framework.kinds]
        others = " or ".join(item.title for item in known if item.several_examples)
        raise InvalidInputError(
            f"inputs= holds {len(inputs)} examples; only {others} takes several: give one, and name "
            "the dimensions that vary in dynamic_shapes="
        )
    return inputs[0], tuple(inputs[1:])


def file_name(model: object) -> str:
    """What reports call a model: the name of its file or folder; empty for a live one, which its class names."""
    return os.path.basename(os.path.normpath(model)) if isinstance(model, (str, os.PathLike)) else ""


def _witnesses(
    runtimes: Sequence[str] | None, source: Framework, target: Framework, *, proved: bool
) -> tuple[Engine, ...]:
    if not runtimes:
        return ()
    if not target.is_hub or source.prove is not None or not proved:
        raise InvalidInputError(
            f"runtimes={list(runtimes)!r}: other engines run beside the proof of one ONNX model in the source's own precision; "
            "onnxport.validate(source, 'model.onnx', runtimes=[...]) has them run any file"
        )
    from onnxport.validation.witnesses.engine import chosen_engines

    return chosen_engines(runtimes)


def _prove(
    source: Framework,
    live: object,
    hub: OnnxModel,
    result: object,
    request: Request,
    tolerance: Tolerance,
    title: str,
    engines: Sequence[Engine],
) -> None:
    if source.prove is not None:
        hub.report = source.prove(live, hub, request, tolerance)
        return
    from onnxport.validation import prove
    from onnxport.validation.runners.base import Binding

    rtol, atol = tolerance.rtol, tolerance.atol
    binding = Binding(request.inputs, request.kwargs, signature=request.signature, methods=request.methods)
    hub.report = prove(live, hub, result, binding, rtol=rtol, atol=atol, title=title, witnesses=engines)
    for number, example in enumerate(request.examples, start=1):
        further = prove(live, hub, result, replace(binding, inputs=example), rtol=rtol, atol=atol, title=title)
        sets = [replace(item, name=f"inputs[{number}]: {item.name}") for item in further.sets]
        hub.report = replace(hub.report, sets=(*hub.report.sets, *sets))
    if result is not hub and hasattr(result, "__dict__"):
        object.__setattr__(result, "onnxport_report", hub.report)
