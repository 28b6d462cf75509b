"""``onnxport convert``: any model to any framework; the aliases fix source and target."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxport import frameworks
from onnxport.cli import console, describe
from onnxport.cli import options as shared
from onnxport.cli.options import (
    ARGUMENTS,
    declared,
    dynamic_shapes,
    estimator_options,
    refuse,
    show,
    shown,
)
from onnxport.cli.order import Order
from onnxport.cli.source import SourceModel
from onnxport.cli.tensorflow_order import TensorflowOrder
from onnxport.errors import InvalidInputError, InvalidModelError, ValidationError
from onnxport.frameworks import Framework
from onnxport.graph.workbench.description import contents as description
from onnxport.graph.workbench.description import signature

if TYPE_CHECKING:
    from onnxport.model import OnnxModel

# Commands from some frameworks take more.
_ORDERS: dict[str | None, type[Order]] = {"tensorflow": TensorflowOrder}


def command(expected: str | None = None, target: str | None = None, *, about: str = "") -> Callable[..., None]:
    """A conversion as a command: its options are the fields of `Order`; an alias has one or both frameworks fixed."""
    fixed: dict[str, Any] = {"expected": expected, **({"to": target} if target else {})}

    order = _ORDERS.get(expected, Order)

    def convert(**given: Any) -> None:
        _perform(order(**given, **fixed))

    route = [None if name is None else frameworks.get(name) for name in (expected, target)]
    hidden = {*fixed, *(() if expected is None else ("origin",))}
    show(convert, [item for name, item in declared(order).items() if name not in hidden and shown(name, *route)])
    convert.__doc__ = about
    return convert


def _perform(order: Order) -> None:
    with order.outcome(f"converting {order.source}"):
        if order.check:
            outlook = survey(order)
        else:
            with console.failure_page(order.html, order.source):
                summary = carry_out(order)
            report = summary["validation"]
            if order.html is not None and report is not None:
                report.to_html(order.html, command=console.typed(), files=(order.source, summary["output"]))
    if order.check:
        console.print_json(outlook) if order.as_json else _show_survey(outlook)
        return
    report = summary["validation"]
    if order.as_json:
        console.print_json({**summary, "validation": report.to_dict() if report else None})
    elif not order.quiet:
        _show(summary)
    console.settle([report], allow_unproved=order.allow_unproved)


def carry_out(order: Order) -> dict[str, Any]:
    """Converts and writes; gives what was done as plain data, but for the report.

    Raises:
        OnnxportError: see `onnxport.convert`.
    """
    from onnxport.converters.convert import save

    target, model, arguments = _prepared(order)
    place = order.output or order.emit_code or _free_place(model, target)
    started = time.perf_counter()
    early = None if order.static else place
    result = order.convert()(model.model, target.name, inputs=model.inputs, output=early, **arguments)
    if order.static:
        result = _fixed(result, model, arguments, validate=order.validate)
        result.save(place)
    if order.emit_code is not None and place != order.emit_code:
        save(result, target.name, order.emit_code)
    report = getattr(result, "report" if target.is_hub else "onnxport_report", None)
    if order.test_data:
        _write_test_data(model, result, place, arguments)
    return {
        "source": order.source,
        "from": model.framework.name,
        "to": target.name,
        "output": str(place),
        "seconds": round(time.perf_counter() - started, 3),
        **(signature(result.model) if target.is_hub else {}),
        "notes": [*([model.note] if model.note else []), *getattr(result, "notes", ())],
        "validation": None if report is None else model.noted(report),
    }


def _fixed(varying: OnnxModel, model: SourceModel, arguments: Mapping[str, Any], *, validate: bool) -> OnnxModel:
    """The model at the sizes of the example inputs, with the report of these sizes alone.

    Against the source, where its values are those of the file; where an option changes them, against the model that varies, which
    was proved against the source before.
    """
    from onnxport.converters.validate import validate as compare
    from onnxport.converters.workbench import at_sizes_of

    result = at_sizes_of(varying, model.inputs, validate=validate)
    if validate and result is not varying and _SAME_VALUES.issuperset(arguments):
        proof = {name: arguments[name] for name in _PROOF if name in arguments}
        result.report = compare(model.model, result, inputs=model.inputs, **proof)
        if result.report.verdict == "failed":
            raise ValidationError(result.report)
    return result


def _write_test_data(model: SourceModel, hub: Any, place: Path, arguments: Mapping[str, Any]) -> None:
    from onnxport.converters.test_data import write_test_data
    from onnxport.validation.runners import Binding

    binding = Binding(model.inputs, signature=arguments.get("signature"), methods=arguments.get("methods"))
    consents = {name: bool(arguments.get(name)) for name in ("allow_pickle", "allow_code")}
    write_test_data(model.model, hub, place, binding, **consents)


def _check_test_data(order: Order, target: Framework, folder: Framework | None) -> None:
    """Refuses to write test data where the source itself does not give the file's outputs."""
    if not target.is_hub or (folder is not None and folder.hub_folder is not None):
        raise InvalidInputError("--test-data is written beside one ONNX file: convert to one")
    for name in ("states", "cut_inputs", "cut_outputs"):
        if getattr(order, name):
            raise InvalidInputError(
                f"--test-data: with --{name.replace('_', '-')} the file has inputs and outputs that its source has not"
            )


def _check_static(order: Order, target: Framework, model: SourceModel) -> None:
    """Refuses to fix dimensions that another option names, or of what is no one file of ONNX."""
    if order.dynamic:
        raise InvalidInputError("--static and --dynamic exclude each other: --static fixes every dimension")
    if not target.is_hub or model.framework.hub_folder is not None:
        raise InvalidInputError("--static fixes the dimensions of one ONNX file: convert to one")


def survey(order: Order) -> dict[str, Any]:
    """What converts, as plain data, without proof and file.

    Raises:
        UnsupportedOperator: all that does not convert.
        OnnxportError: see `onnxport.convert`.
    """
    from onnxport.converters.convert import convert as convert_model

    target, model, arguments = _prepared(replace(order, validate=False))
    hub = order.convert()(model.model, inputs=model.inputs, **arguments)
    if not target.is_hub:
        convert_model(hub, target.name, validate=False)
    contents = description(hub.model)
    operators = contents["operators" if model.framework.is_hub else "source_operators"]
    ends = {"source": order.source, "from": model.framework.name, "to": target.name}
    return {**ends, "nodes": contents["nodes"], "operators": operators, "notes": list(hub.notes)}


def _prepared(order: Order) -> tuple[Framework, SourceModel, dict[str, Any]]:
    """The target, the model, and the arguments of `onnxport.convert` that the user set."""
    folder = frameworks.get(frameworks.of_path(order.source)) if os.path.isdir(order.source) else None
    target = _target(order, folder)
    if order.output is not None:
        _check_output(order.output, target, folder)
    if order.emit_code is not None and (order.emit_code.suffix != ".py" or ".py" not in target.files.writes):
        raise InvalidInputError(
            f"--emit-code {str(order.emit_code)!r}: a PyTorch module is written as source, to a file in .py; give --to pytorch"
        )
    if order.test_data:
        _check_test_data(order, target, folder)
    order.check_opset()
    model = order.resolve(order.source)
    expected = order.expected or (order.origin and frameworks.get(order.origin).name)
    if expected is not None and model.framework.name != expected:
        raise InvalidModelError(f"{order.source!r} is a model of {model.framework.name}, not of {expected}")
    if not model.kind.carries_signature and model.inputs is None:
        raise InvalidInputError(
            f"{model.kind.title} carries no signature: give example inputs with --inputs or --input-shape, or let "
            f"{order.source!r} return (model, inputs)"
        )
    arguments = _arguments(order)
    if order.static:
        _check_static(order, target, model)
        if model.kind.takes("dynamic_shapes", target) and not model.framework.is_hub:
            arguments["dynamic_shapes"] = {}  # nothing varies in the trace
    if order.weights is not None and model.kind.takes("weights"):
        arguments["weights"] = order.weights
    refuse(arguments, model, target)
    return target, model, arguments


# Arguments with which a file gives what its source gives, and those of them that are a proof's too.
_PROOF = frozenset("signature methods rtol atol seed allow_pickle allow_code runtimes details".split())
_SAME_VALUES = _PROOF | frozenset(
    "target_opset input_names output_names runtime functions validate dynamic_shapes optimize".split()
)
# Fields that are no arguments of `onnxport.convert`, and how others become one where they are not taken as they are.
_OWN = frozenset(
    "source output to origin inputs input_shape weights allow_unproved as_json expected verbose quiet html check "
    "test_data static emit_code tag concrete_function load_op_libraries".split()
)
_READ: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys(
        (
            "input_names",
            "output_names",
            "cut_inputs",
            "cut_outputs",
            "inputs_as_nchw",
            "outputs_as_nchw",
            "methods",
            "runtimes",
        ),
        console.words,
    ),
    "functions": lambda given: "auto" if list(given) == ["auto"] else console.words(given),
    "dynamic": dynamic_shapes,
    "option": estimator_options,
    "optimize": lambda chosen: "inference",
}


def _arguments(order: Order) -> dict[str, Any]:
    """The arguments of `onnxport.convert` that the user set: the fields that are not as they are by default."""
    values = ((item, getattr(order, item.name)) for item in fields(order) if item.name not in _OWN)
    given = {item.name: value for item, value in values if value != item.default}
    if order.extra_opset:
        own = {} if order.opset is None else {"": order.opset}
        given["opset"] = {**own, **shared.opsets(given.pop("extra_opset"))}
    return {ARGUMENTS.get(name, name): _READ.get(name, lambda as_is: as_is)(value) for name, value in given.items()}


def _target(order: Order, source: Framework | None) -> Framework:
    """The framework that --to names, else the one whose files end as --output does, else ONNX; `source` is a folder's."""
    if order.to is not None:
        try:
            return frameworks.get(order.to)
        except InvalidInputError as error:
            raise InvalidInputError(f"--to: {error}") from None
    if order.output is None:
        return frameworks.get(frameworks.HUB if order.emit_code is None else "pytorch")
    suffix = order.output.suffix.lower()
    for framework in (*frameworks.registered(), *frameworks.discover()):
        if suffix in framework.files.writes:
            return framework
    if source is not None and source.hub_folder is not None:  # folders are called Llama-3.2-1B: a dot ends no name
        return frameworks.get(frameworks.HUB)
    known = ", ".join(item for framework in frameworks.registered() for item in framework.files.writes)
    named = [(item.files.folder, item.name) for item in frameworks.registered() if item.build is not None]
    folders = [f"a {folder.title}'s folder needs --to {name}" for folder, name in named if folder is not None]
    raise InvalidInputError(
        f"--output: {str(order.output)!r} does not say what to convert to: it ends in none of {'; '.join([known, *folders])}"
    )


def _check_output(place: Path, target: Framework, source: Framework | None) -> None:
    try:
        frameworks.check_place(place, target, source)
    except InvalidInputError as error:
        raise InvalidInputError(f"--output: {error}") from None


def _free_place(model: SourceModel, target: Framework) -> Path:
    """A place named after the model; a name that the user did not choose never replaces a file."""
    folder, writes = target.files.folder, target.files.writes
    if target.is_hub and model.framework.hub_folder is not None:
        folder, writes = model.framework.hub_folder, ()
    endings = (*writes, *([folder.ending] if folder is not None else []))
    if not endings:
        raise InvalidInputError(f"results in {target.name} are not written to files")
    place = Path(f"{model.name}{endings[0]}")
    if place.exists():
        raise InvalidInputError(f"{str(place)!r} exists: name the result with --output")
    return place


def _show_survey(summary: Mapping[str, Any]) -> None:
    operators = ", ".join(f"{op} x{count}" if count > 1 else op for op, count in summary["operators"].items())
    console.say(f"{summary['source']} converts to {summary['to']}: {len(summary['operators'])} operators ({operators})")
    for note in summary["notes"]:
        console.say(f"  note: {note}")


def _show(summary: Mapping[str, Any]) -> None:
    opset = f", opset {summary['opsets'].get('', '?')}" if "opsets" in summary else ""
    console.say(f"{summary['output']}  ({summary['from']} to {summary['to']}{opset}, {summary['seconds']:.1f} s)")
    if "inputs" in summary:
        describe.show_signature(summary)
    if summary["validation"] is None:
        for note in summary["notes"]:
            console.say(f"  note: {note}")
        console.say("not validated")
    else:
        console.say(str(summary["validation"]))
