"""PyTorch: from a module, a callable or an exported program to torch.export's graph, in ATen's own operators."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from onnxport.errors import InvalidInputError, TracingError
from onnxport.frameworks.pytorch_levels import levels_kept
from onnxport.tracing import pytorch_caches, pytorch_classes, pytorch_inputs, pytorch_nodes
from onnxport.tracing.pytorch_answers import Answers, Place, frozen_notes, recorded, replayed, run_under
from onnxport.tracing.pytorch_awareness import asked_if_traced
from onnxport.tracing.pytorch_builtins import sizes_kept
from onnxport.tracing.pytorch_draws import has_draws
from onnxport.tracing.pytorch_export import traced_program
from onnxport.tracing.pytorch_guards import conditions, only_where
from onnxport.tracing.pytorch_inputs import Call, Dims
from onnxport.tracing.pytorch_joins import joined
from onnxport.tracing.pytorch_modules import as_module, with_forward
from onnxport.tracing.pytorch_nodes import drops_ones, is_dynamic, recorded_inputs
from onnxport.tracing.pytorch_numpy import OtherThanNumpyError, check_types
from onnxport.tracing.pytorch_programs import Traced, of_program, tensor_inputs, with_names
from onnxport.tracing.pytorch_reasons import fixed_a_size, reason
from onnxport.tracing.pytorch_rows import decides_on_values, first_row, rows_of
from onnxport.tracing.pytorch_scripts import is_script, of_script
from onnxport.tracing.pytorch_selections import NOTE as NEEDLESS_BRANCHES
from onnxport.tracing.pytorch_selections import check_needless, some_selected
from onnxport.tracing.pytorch_shortcuts import shortcut_notes, shortcuts
from onnxport.tracing.pytorch_transforms import failed_in_transform, without_transforms
from onnxport.tracing.pytorch_unbound import NOTE as KEPT_WHOLE
from onnxport.tracing.pytorch_unbound import check_rows, rows_as_one
from onnxport.tracing.pytorch_values import failed_on_sizes, failed_on_values
from onnxport.tracing.pytorch_ways import branched


def trace(
    model: object,
    inputs: object,
    kwargs: Mapping[str, Any] | None = None,
    *,
    examples: Sequence[Any] = (),
    dynamic_shapes: object = None,
    input_names: Sequence[str] | None = None,
    frozen: bool = False,
) -> Traced:
    """The traced program of a module, a callable of tensors, or an exported program.

    A module is traced without Dynamo first, then with it. Inputs are a tuple of positional ones or a dict by parameter name. The
    dimensions vary in which they differ from further `examples`, or that `dynamic_shapes` names, in torch.export's notation with
    plain strings as names, keyed by parameters or by the user's `input_names`; else those of the file that a module was imported
    from, or dimension 0 of every input, where tracing allows it. With `frozen`, branches on values that can't be traced are
    frozen as the examples take them.

    Raises:
        TracingError: torch.export can't trace the model; the message holds its reason.
        InvalidInputError: inputs, keyword inputs or dynamic shapes do not fit.
    """
    if isinstance(model, ExportedProgram):
        return of_program(model, dynamic_shapes)
    call = _call(model, inputs, kwargs)
    others = [_call(model, item, kwargs) for item in examples]
    freezing = [call, *others] if frozen else []
    if dynamic_shapes is not None or examples:
        if examples:
            dims = pytorch_inputs.differing_dims(call, others)
        else:
            dims = pytorch_inputs.given_dims(call, dynamic_shapes, input_names)
        try:
            program, notes = _first(_attempts(call, dims), model, call, freezing)
        except TracingError:
            by_rows = None if frozen else _by_rows(call, dims, asked=True)
            if by_rows is None:
                raise
            return by_rows
        paths = pytorch_inputs.input_paths(program.call_spec.in_spec, _positional(call))
        pytorch_inputs.check_apart([(path, value) for _, path, value in tensor_inputs(program, paths)], dims.names)
        return _traced(program, call, dims, notes)
    own = _as_imported(call, model, freezing)
    if own is not None:
        return own
    dims = pytorch_inputs.default_dims(call)
    static = "all dimensions are static: tracing with a dynamic dimension 0 failed" if dims.names else ""
    attempts = _attempts(call, dims) if dims.names else []
    program, notes = _first([*attempts, (call, None, static)], model, call, freezing)
    if attempts and _fixed(program, call, dims):
        program, notes = _with_free_sizes(attempts, call, dims) or (program, notes)
    if pytorch_inputs.has_ones(call, dims) and drops_ones(program):
        return trace_static(model, inputs, kwargs, "squeeze() would drop a batch of 1")
    fixed = _fixed(program, call, dims) if attempts else []
    by_rows = _by_rows(call, dims) if fixed and not frozen else None
    if by_rows is None and len(fixed) < len(dims.names) and fixed and _needs_all(program, call, dims, fixed):
        return trace_static(model, inputs, kwargs, f"the trace needs a fixed size of {', '.join(fixed)}")
    return by_rows or _traced(program, call, dims, notes)


def _as_imported(call: Call, model: object, freezing: list[Call]) -> Traced | None:
    """The trace of an imported module with all dimensions that its file lets vary; None where it fixes one of them."""
    dims = _own_dims(call)
    if dims is None:
        return None
    try:
        program, notes = _first(_attempts(call, dims), model, call, freezing)
    except TracingError:
        return None
    if _fixed(program, call, dims) or (pytorch_inputs.has_ones(call, dims) and drops_ones(program)):
        return None
    return _traced(program, call, dims, notes)


def _own_dims(call: Call) -> Dims | None:
    """The dimensions that vary in the file which a module was imported from; None of any other module."""
    signature = getattr(call.module, "onnxport_inputs", ())
    tensors = call.tensors
    if len(signature) != len(tensors):
        return None
    names: dict[tuple[str, int], str] = {}
    sizes: dict[str, int] = {}
    for (path, leaf), (_, dims) in zip(tensors.items(), signature, strict=True):
        if dims is None or len(dims) != leaf.dim():
            return None
        for axis, dim in enumerate(dims):
            name = dim or f"{path}_dim_{axis}"
            if isinstance(name, str) and sizes.setdefault(name, leaf.shape[axis]) == leaf.shape[axis]:
                names[path, axis] = name
    return pytorch_inputs.named_dims(call, names) if names else None


def _by_rows(call: Call, dims: Dims, *, asked: bool = False) -> Traced | None:
    """The trace of one row of the batch, where the model does to each what it does to it alone; None where it does not.

    The other dimensions vary where the trace allows it, or all of them where they are `asked` for.
    """
    rows = rows_of(call, dims.names)
    if rows is None or has_draws(call):  # a row alone would draw the first row's numbers
        return None
    row = first_row(call, rows)
    others = pytorch_inputs.named_dims(row, {key: name for key, name in dims.names.items() if name != rows.name})
    try:
        program, notes = _first([(row, others.shapes if others.names else None, "")], call.module, row)
    except TracingError:
        return None
    paths = pytorch_inputs.input_paths(program.call_spec.in_spec, _positional(row))
    own = [placeholder for placeholder, path, _ in tensor_inputs(program, paths) if path in rows.inputs]
    if decides_on_values(program, notes, own) or (asked and _fixed(program, row, others)):
        return None
    given = [spec for spec in program.graph_signature.output_specs if spec.kind in _GIVEN]
    if len(given) != len(program.graph_signature.output_specs) or len(given) != len(rows.axes):
        return None  # it writes to an input or a buffer
    results = pytree.tree_leaves(program.graph.output_node().args[0])
    for place, item in enumerate(results):
        shape = getattr(pytorch_nodes.recorded(item), "shape", ()) if isinstance(item, torch.fx.Node) else ()
        if not rows.stands(place, shape):
            return None
    operator = "Loop" if any(rows.uneven) else "Scan"
    how = f"its batch can't be traced: the graph goes through {rows.name!r} row by row ({operator})"
    return replace(_traced(program, row, others, (*notes, how)), rows=rows)


def trace_static(model: object, inputs: object, kwargs: Mapping[str, Any] | None, reason: str) -> Traced:
    """The traced program of a module or callable with the sizes of the example inputs, noting `reason`.

    Raises:
        TracingError: torch.export can't trace the model.
        InvalidInputError: inputs or keyword inputs do not fit.
    """
    call = _call(model, inputs, kwargs)
    program, notes = _first([(call, None, f"all dimensions are static: {reason}")], model, call)
    return _traced(program, call, Dims(None, {}), notes)


def _call(model: object, inputs: object, kwargs: Mapping[str, Any] | None) -> Call:
    if inputs is None and not kwargs:
        as_module(model)  # what is none is refused as such
        raise InvalidInputError(
            "a PyTorch model carries no signature: pass inputs=(...), example tensors to trace it with"
        )
    module = of_script(model, inputs, kwargs) if is_script(model) else as_module(model)
    call = pytorch_inputs.bind(module, inputs, kwargs)
    counted = pytorch_caches.fixed_count(pytree.tree_structure((call.args, call.kwargs)))
    if counted is not None:
        raise InvalidInputError(
            f"{counted}: that number would be fixed in the graph. Give a cache that holds all its tokens"
        )
    return _spelled_out(call)


Attempt = tuple[Call, Any, str]
NotedProgram = tuple[ExportedProgram, tuple[str, ...]]  # and notes on how it was traced
Way = Callable[[Call, Any], NotedProgram | None]


def _attempts(call: Call, dims: Dims) -> list[Attempt]:
    """With dimensions of size 1 doubled, then as they are."""
    calls = [pytorch_inputs.doubled_ones(call, dims), *([call] if pytorch_inputs.has_ones(call, dims) else [])]
    return [(item, dims.shapes, "") for item in calls]


def _first(attempts: list[Attempt], model: object, example: Call, freezing: Sequence[Call] = ()) -> NotedProgram:
    """The first attempt that torch.export traces and that takes the example, without Dynamo before with it; notes on how.

    The last resort is to trace the user's own module, not a shell of it; and where there are calls of `freezing`, with the
    answers that these get.
    """
    first: Exception | None = None
    registered = on_values = on_sizes = False
    for strict, apart_from_user in ((False, True), (True, False), (False, False)):
        for call, shapes, note in attempts:
            while True:
                try:
                    program, notes = traced_program(call, shapes, strict, apart_from_user)
                    if strict:
                        check_types(program, call)
                except OtherThanNumpyError as error:
                    first = error
                    break
                except Exception as error:  # whatever the user's code or torch raises while tracing
                    first, on_values = first or error, on_values or failed_on_values(error)
                    on_sizes = on_sizes or failed_on_sizes(error)
                    if not registered and pytorch_classes.register_of(call.module, call.args, call.kwargs):
                        first, registered, on_values = None, True, False
                        continue
                    break
                if not _takes(program, example):
                    first = first or ValueError("the trace holds only for another size than the example's")
                    break
                how = (
                    "traced by torch.export with Dynamo (strict=True), since without it tracing fails" if strict else ""
                )
                return program, (*notes, *(item for item in (how, note) if item))
    if failed_in_transform(first):
        plain = _first_plain(attempts)
        if plain is not None:
            return plain
    ways: list[Way] = []
    if on_values:
        ways = [_selecting, _joined, _branched] if on_sizes else [_joined, _branched, _selecting]
    if first is not None and fixed_a_size(first):
        ways += [_with_sizes, _unbound]
    traced = next(filter(None, (_first_by(way, attempts, example) for way in ways)), None)
    traced = traced or _first_answered(attempts, example, shortcuts(example), shortcut_notes)
    if traced is None and first is not None and not failed_on_values(first):
        traced = _first_by(_unaware, attempts, example)
    if traced is None and freezing:
        runs = [recorded(item) for item in freezing]
        traced = _first_answered(attempts, example, runs[0], partial(frozen_notes, runs=runs))
    if traced is not None:
        return traced
    raise TracingError(reason(model, first, frozen=bool(freezing))) from first


def _first_answered(
    attempts: list[Attempt], example: Call, given: Answers, notes_of: Callable[[set[Place]], list[str]]
) -> NotedProgram | None:
    """The first attempt that is traced with answers to what the model asks of values; None where there are none."""
    for call, shapes, note in attempts if given else ():
        answers = replayed(given)
        try:
            program, notes = traced_program(call, shapes, strict=False, apart_from_user=True, answers=answers)
        except Exception as error:  # whatever torch raises: the first error is the user's
            with answers:
                plain = _first_plain([(call, shapes, note)]) if failed_in_transform(error) else None
            if plain is None:
                continue
            program, notes = plain
        if _takes(program, example):
            return program, (*notes, *notes_of(answers.used), *filter(None, [note]))
    return None


def _first_by(way: Way, attempts: list[Attempt], example: Call) -> NotedProgram | None:
    """The first attempt that is traced in a way of its own, for the example's sizes; None where there is none."""
    for call, shapes, note in attempts:
        with suppress(Exception):  # whatever torch raises: the first error is the user's
            result = way(call, shapes)
            if result is not None and _takes(result[0], example):
                return result[0], (*result[1], *filter(None, [note]))
    return None


def _unaware(call: Call, shapes: object) -> NotedProgram | None:
    """As the model goes when it is called; None where it does not ask whether it is traced.

    What it does in a trace instead may be what fails: a mask that nobody gave, in a size that a layer does not take.
    """
    with asked_if_traced(False) as asked:
        program, notes = traced_program(call, shapes, strict=False, apart_from_user=True)
    if not asked:
        return None
    place = next(iter(asked))
    how = f"{place} asks whether it is being traced: traced as it is called, since tracing fails otherwise"
    return program, (*notes, how)


def _with_sizes(call: Call, shapes: object) -> NotedProgram:
    """Where ``len`` and ``int`` keep sizes that vary."""
    with sizes_kept(call.module):
        return traced_program(call, shapes, strict=False, apart_from_user=True)


def _unbound(call: Call, shapes: object) -> NotedProgram:
    """Where a batch which is taken apart and put together again stays whole."""
    rows = rows_as_one()
    program, notes = traced_program(call, shapes, strict=False, apart_from_user=True, answers=rows)
    check_rows(rows, program, call)
    return program, (*notes, KEPT_WHOLE)


def _joined(call: Call, shapes: object) -> NotedProgram:
    """Where the ways behind questions for values come together."""
    return joined(partial(traced_program, call, shapes, False, True))


def _branched(call: Call, shapes: object) -> NotedProgram:
    """Where the ways behind questions for values end alike."""
    return branched(partial(traced_program, call, shapes, False, True))


def _selecting(call: Call, shapes: object) -> NotedProgram:
    """Without branches on whether anything is selected; refused where these matter."""
    selections = some_selected()
    program, notes = traced_program(call, shapes, strict=False, apart_from_user=True, answers=selections)
    check_needless(selections, call)
    return program, (*notes, NEEDLESS_BRANCHES)


def _first_plain(attempts: list[Attempt]) -> NotedProgram | None:
    """The first attempt that is traced with its gradients and vectorised calls written out, with free sizes before fixed ones."""
    for call, shapes, note in attempts:
        modes: tuple[Literal["symbolic", "real"], ...] = ("real", "symbolic") if shapes is None else ("symbolic",)
        for mode, aware in itertools.product(modes, (False, True)):  # as it is called, then as torch.export traces it
            try:
                with levels_kept(), asked_if_traced(True) if aware else nullcontext():
                    plain = without_transforms(call, mode)
                program, notes = traced_program(plain, shapes, strict=False, apart_from_user=True)
            except Exception:  # whatever torch raises: the first error is the user's
                continue
            how = "traced by make_fx, gradients and vectorised calls written out"
            return program, (*notes, f"{how}; {note}" if note else how)
    return None


_GIVEN = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)


def _takes(program: ExportedProgram, example: Call) -> bool:
    """Whether the sizes that the trace fixed are the example's: it may have seen doubled dimensions."""
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    values = recorded_inputs(program)
    leaves = example.leaves.values()
    pairs = zip(specs, leaves, strict=True)
    tensors = ((values[spec.arg.name], leaf) for spec, leaf in pairs if isinstance(leaf, torch.Tensor))
    sizes = (pair for value, leaf in tensors for pair in zip(value.shape, leaf.shape, strict=True))
    return all(is_dynamic(size) or int(size) == given for size, given in sizes)


def _spelled_out(call: Call) -> Call:
    """The call of a module whose ``**kwargs`` parameter is replaced by the keywords given: torch.export can't name them."""
    signature = inspect.signature(call.module.forward)
    rest = [name for name, item in signature.parameters.items() if item.kind is item.VAR_KEYWORD]
    if not rest or rest[0] not in call.combined:
        return call
    parameters = [item for name, item in signature.parameters.items() if name != rest[0]]
    for key in call.combined[rest[0]]:
        parameters.append(inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY))
    module = with_forward(call.module, call.module.forward, signature.replace(parameters=parameters))
    return Call(module, call.args, call.kwargs)


def _traced(program: ExportedProgram, call: Call, dims: Dims, notes: tuple[str, ...]) -> Traced:
    trained = call.module.training and any(True for _ in call.module.children())
    in_training = "the model is traced in training mode; model.eval() gives the one for inference"
    notes = (in_training, *notes) if trained else notes
    paths = pytorch_inputs.input_paths(program.call_spec.in_spec, _positional(call))
    traced = with_names(program, paths, dims.names, notes)
    fixed = _fixed(program, call, dims)
    if fixed and not any("static" in note for note in notes):
        traced = replace(traced, notes=(*traced.notes, f"the trace needs a fixed size of {', '.join(fixed)}"))
    where = conditions(program, traced.symbols)
    notes = (*traced.notes, only_where(where.texts)) if where.texts else traced.notes
    return replace(traced, notes=notes, other_sizes=where.other_sizes, conditions=where.all_of, sums=where.sums)


def _fixed(program: ExportedProgram, call: Call, dims: Dims) -> list[str]:
    """The dimensions that were to vary and are numbers in the trace."""
    paths = pytorch_inputs.input_paths(program.call_spec.in_spec, _positional(call))
    shapes = {path: value.shape for _, path, value in tensor_inputs(program, paths)}
    varying = [(path, axis) for path, axis in dims.names if path in shapes]
    return [f"{path}[{axis}]" for path, axis in varying if not is_dynamic(shapes[path][axis])]


def _needs_all(program: ExportedProgram, call: Call, dims: Dims, fixed: Collection[str]) -> bool:
    """Whether the trace fails where the model runs: on one row of the inputs whose batch it has left free."""
    free = {path for path, axis in dims.names if f"{path}[{axis}]" not in fixed}
    row = call.mapped(lambda path, leaf: leaf[:1] if path in free else leaf)
    try:
        run_under(nullcontext(), row)
    except Exception:  # whatever the model raises
        return False
    try:
        with torch.no_grad():
            program.module(check_guards=False)(*row.args, **row.kwargs)
    except Exception:  # whatever torch raises
        return True
    return False


def _with_free_sizes(attempts: list[Attempt], example: Call, dims: Dims) -> NotedProgram | None:
    """The first attempt that fixes none of the sizes that are to vary: with Dynamo, which follows ``len(x)``, then without."""
    for call, shapes, _ in attempts:
        try:
            program, notes = traced_program(call, shapes, strict=True, apart_from_user=False)
        except Exception:  # whatever torch raises: the trace that fixes them stays
            continue
        if _takes(program, example) and not _fixed(program, example, dims):
            return program, (*notes, "traced by torch.export with strict=True")
    for way in (_with_sizes, _unbound):
        traced = _first_by(way, attempts, example)
        if traced is not None and not _fixed(traced[0], example, dims):
            return traced
    return None


def _positional(call: Call) -> list[str]:
    return pytorch_inputs.positional_names(inspect.signature(call.module.forward), len(call.args))
