"""OnnxModel: what a conversion to ONNX gives."""

from __future__ import annotations

import html
import os
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.argument_types import check_mapping, check_path, check_switches
from onnxport.errors import FallbackWarning, InvalidInputError, InvalidModelError
from onnxport.graph.external_data import save as save_file
from onnxport.graph.protos import to_proto
from onnxport.graph.rows import columns_of, is_frame, is_records, plain
from onnxport.graph.runtime import Session
from onnxport.graph.runtimes import Runtime
from onnxport.graph.scopes import Scopes
from onnxport.tracing.onnx import load_model, model_of

if TYPE_CHECKING:
    from onnxport.validation.report import Report


def _workbench() -> Any:
    """Edits that prove what they give, which stand above this file and are imported when one is asked for."""
    return import_module("onnxport.converters.workbench")


class OnnxModel:
    """An ONNX model that can be called, saved and looked into. It pickles and deep-copies, weights and report included.

    Attributes:
        model: the `onnx_ir.Model`; its initializers are views on the source model's storage.
        report: the validation's report; None where validation was switched off.
        notes: remarks of the conversion: how the model was traced, which dimensions could not be made dynamic, what was
            written for the runtime.
        runtime: what runs the model: ``"onnxruntime"``, or ``"reference"``, ONNX's reference evaluator.
        scopes: which calls of the source's modules the nodes come from, where the conversion was asked for functions.
    """

    def __init__(
        self,
        model: ir.Model,
        *,
        report: Report | None = None,
        notes: tuple[str, ...] = (),
        runtime: Runtime = "onnxruntime",
        scopes: Scopes | None = None,
        plain: ir.Model | None = None,
    ) -> None:
        self.model = model
        self.report = report
        self.notes = notes
        self.runtime = runtime
        self.scopes: Scopes = scopes or Scopes()
        self._plain = plain
        self._warned = False

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OnnxModel:
        """The model in an ``.onnx`` file; external weights are mapped, not read.

        Raises:
            InvalidModelError: the file is missing, truncated, or no ONNX model.
        """
        check_path(path)
        return cls(load_model(path))

    @property
    def proto(self) -> onnx.ModelProto:
        """The model as a new protobuf message; it holds a copy of the weights."""
        return to_proto(self.model)

    @property
    def plain(self) -> ir.Model:
        """The model before blocks of it became functions, whose nodes all stand in the graph; else `model` itself."""
        return self.model if self._plain is None else self._plain

    @property
    def input_names(self) -> list[str]:
        """Names of the graph's inputs, in order, without those that have an initializer."""
        initialized = self.model.graph.initializers
        return [value.name or "" for value in self.model.graph.inputs if value.name not in initialized]

    @property
    def output_names(self) -> list[str]:
        """Names of the graph's outputs, in order."""
        return [value.name or "" for value in self.model.graph.outputs]

    @property
    def opset(self) -> int:
        """Version of ai.onnx that the model imports."""
        return self.model.graph.opset_imports.get("", 0)

    @cached_property
    def session(self) -> Session:
        """The model in its `runtime`; where onnxruntime can't load it, in ONNX's reference evaluator, and
        `Session.fallback_reason` has the reason. It holds the model as it was at the first call or the last validation.
        """
        return Session(self.model, runtime=self.runtime)

    def new_session(self) -> Session:
        """A session of the model as it is now, which later calls use too."""
        vars(self).pop("session", None)
        return self.session

    def __call__(self, *inputs: object, **named: object) -> Any:
        """Runs the model.

        Args:
            inputs: arrays in the order of the graph's inputs; or one DataFrame or list of dictionaries, a column or feature
                for each of the graph's inputs.
            named: arrays by input name.

        Returns:
            The output, or a tuple of them where the graph has several.

        Raises:
            InvalidInputError: number, names, types or shapes of the inputs do not fit.

        Warns:
            FallbackWarning: once, where onnxruntime can't load the model.
        """
        names = self.input_names
        table = inputs[0] if len(inputs) == 1 and not named else None
        if is_frame(table) or is_records(table):
            inputs, named = (), self._columns(table)
        elif isinstance(table, list) and not table:
            inputs, named = (), self._no_rows()
        if len(inputs) > len(names):
            raise InvalidInputError(
                f"the model takes {len(names)} inputs ({', '.join(names)}), {len(inputs)} were given"
            )
        if self.session.fallback_reason and not self._warned:
            self._warned = True
            warnings.warn(
                f"onnxruntime can't run the model, ONNX's reference evaluator does: {self.session.fallback_reason}",
                FallbackWarning,
                stacklevel=2,
            )
        feeds = {**dict(zip(names, inputs, strict=False)), **named}
        self.check_inputs(feeds)
        outputs = self.session.run(feeds)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def check_inputs(self, feeds: Mapping[str, object]) -> None:
        """Refuses inputs of other names or shapes than the graph declares, before a runtime refuses them in words of its own.

        Raises:
            InvalidInputError: a name, a rank or a fixed size differs, or an input is missing.
        """
        check_mapping(feeds, "feeds", "{'x': array}")
        names = self.input_names
        for wrong in [name for name in feeds if name not in names][:1]:
            raise InvalidInputError(f"the model has no input {wrong!r}: it takes {', '.join(names) or 'none'}")
        missing = [name for name in names if name not in feeds]
        if missing:
            raise InvalidInputError(
                f"the model takes {len(names)} inputs ({', '.join(names)}); {', '.join(missing)} was not given"
            )
        for value in self.model.graph.inputs:
            given = feeds.get(value.name or "")
            optional = isinstance(value.type, (ir.OptionalType, ir.SequenceType)) or value.type is None
            if given is None and value.name in feeds and not optional:
                raise InvalidInputError(f"input {value.name!r} is None: the model takes an array of {_declared(value)}")
            shape = getattr(given, "shape", None)
            parts = getattr(getattr(given, "dtype", None), "kind", "") == "c"  # taken apart later: one more axis
            if optional or value.shape is None or not isinstance(shape, tuple) or given is None or parts:
                continue
            pairs = zip(value.shape, shape, strict=False)
            if len(shape) != len(value.shape) or any(isinstance(dim, int) and dim != size for dim, size in pairs):
                raise InvalidInputError(
                    f"input {value.name!r} has the shape {list(shape)}, and the model takes {_declared(value)}"
                )

    def _no_rows(self) -> dict[str, Any]:
        """The graph's inputs for an empty list, which does not say how many columns or features its rows have."""
        names, columns = self.input_names, {}
        for value in self.model.graph.inputs:
            if value.name in names and value.shape is not None and value.shape.rank() and value.dtype is not None:
                dims = [size if isinstance(size, int) else 1 for size in value.shape[1:]]
                dtype = object if value.dtype == ir.DataType.STRING else value.dtype.numpy()
                columns[value.name or ""] = np.zeros((0, *dims), dtype)
        return columns

    def _columns(self, rows: Any) -> dict[str, Any]:
        """The graph's inputs from rows with names."""
        names, columns = self.input_names, columns_of(rows) or {}
        if is_records(rows):  # a feature that no row has
            for name in names:
                text = self.session.takes_strings(name)
                columns.setdefault(name, np.full((len(rows), 1), "" if text else 0.0, object if text else np.float64))
        elif len(names) == 1 and len(columns) != 1 and not self._is_column(names[0], columns):
            return {names[0]: plain(rows)}
        return {name: column for name, column in columns.items() if name in names or is_records(rows)}

    def _is_column(self, name: str, columns: Mapping[str, object]) -> bool:
        """Whether the only input is one of the columns, not a matrix of them: the others have no element type."""
        shape = self.model.graph.inputs[0].shape
        return name in columns and shape is not None and shape.rank() == 2 and shape[1] == 1

    def save(self, path: str | os.PathLike[str], *, external_data: bool | None = None) -> None:
        """Writes the model to `path`, whole or not at all; weights beyond 2 GB go to a data file beside it.

        The data file's name, ``<name>.<16 hexadecimal digits>.data``, follows from what it holds: a model that stood there
        stays whole until the new one takes its place, and then its data file is removed. Permissions and symbolic links are
        kept.

        Args:
            path: file to write.
            external_data: True puts the weights into the data file whatever their size, False never.

        Raises:
            SavingError: the files can't be written; what stood there is untouched.
            InvalidInputError: `external_data` is False for weights that one file can't hold; or `path` names a folder, or a
                file of another framework.
        """
        check_path(path)
        check_switches({"external_data": external_data})
        import_module("onnxport.frameworks.files").check_name(path)
        save_file(self.model, path, external_data=external_data)

    def rename(self, names: Mapping[str, str], *, nodes: Mapping[str, str] | None = None) -> OnnxModel:
        """The model with other names, proved.

        Args:
            names: new names of inputs, outputs, weights and inner values by their old ones.
            nodes: new names of nodes, likewise.

        Raises:
            InvalidInputError: there is no such name, or another value or node has the new one.
        """
        check_mapping(names, "names", "{'x': 'image'}")
        if nodes is not None:
            check_mapping(nodes, "nodes", "{'Conv_0': 'stem'}")
        result: OnnxModel = _workbench().renamed(self, names, nodes or {})
        return result

    def cut(self, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> OnnxModel:
        """The part between values, by their names, proved; without `inputs` or `outputs` from the model's own on, or up to them.

        Raises:
            InvalidInputError: there is no such value, or no output depends on it.
        """
        result: OnnxModel = _workbench().cut(self, inputs, outputs)
        return result

    def set_shapes(self, sizes: Mapping[str, object]) -> OnnxModel:
        """The model with other sizes of its inputs' dimensions, proved.

        Args:
            sizes: by a dimension's name, ``{"batch": 1}``; all of an input's, ``{"x": (1, 3, 224, 224)}``; or one by its place,
                ``{"x:0": 4}``. A name in the place of a size makes a dimension vary.

        Raises:
            InvalidInputError: there is no such dimension or input, or the model has another size there.
        """
        result: OnnxModel = _workbench().with_sizes(self, sizes)
        return result

    def to_float16(self, *, keep_io_types: bool = False) -> OnnxModel:
        """The model computing in float16 what is safe there, proved; see `dtype` of `onnxport.convert`.

        Raises:
            InvalidInputError: it computes nothing in float32, or its inputs lead beyond float16's range.
        """
        result: OnnxModel = _workbench().in_float16(self, keep_io_types)
        return result

    def summary(self) -> str:
        """Versions, inputs, outputs, weights and operators, in a few lines."""
        from onnxport.graph.workbench.description import summary_text

        return summary_text(self.model)

    def __getstate__(self) -> dict[str, Any]:
        from onnxport.graph.pickles import taken_apart

        state = {key: value for key, value in vars(self).items() if key != "session"}
        return {**state, "model": taken_apart(self.model), "_plain": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        from onnxport.graph.pickles import put_together

        vars(self).update({**state, "model": put_together(state["model"])})

    def _repr_html_(self) -> str:
        verdict = "" if self.report is None else f"\n{str(self.report).partition(chr(10))[0]}"
        return f"<pre>{html.escape(self.summary() + verdict)}</pre>"

    def __repr__(self) -> str:
        inputs = ", ".join(f"{v.name}: {v.type}{v.shape}" for v in self.model.graph.inputs)
        outputs = ", ".join(f"{v.name}: {v.type}{v.shape}" for v in self.model.graph.outputs)
        return f"OnnxModel({inputs} -> {outputs}, opset {self.opset})"


def save(model: OnnxModel, path: str | os.PathLike[str]) -> None:
    """Writes a model to `path`; see `OnnxModel.save`."""
    model.save(path)


def mapped(path: str | os.PathLike[str], *, allow_pickle: bool = False, allow_code: bool = False) -> OnnxModel:
    """The model in a file, for the time of a conversion: its weights are mapped from the file; nothing here runs code.

    Raises:
        InvalidModelError: the file is missing, truncated, or no ONNX model.
    """
    check_path(path)
    return OnnxModel(load_model(path, mapped=True))


def as_onnx_model(model: object) -> OnnxModel:
    """An `OnnxModel` of a path, `onnx.ModelProto`, `onnx_ir.Model` or `OnnxModel`.

    Raises:
        InvalidModelError: it is none of these, or not readable.
    """
    if isinstance(model, OnnxModel):
        return model
    if isinstance(model, ir.Model):
        return OnnxModel(model)
    if isinstance(model, onnx.ModelProto):
        return OnnxModel(model_of(model, None))
    if isinstance(model, (str, os.PathLike)):
        return OnnxModel.load(model)
    raise InvalidModelError(
        f"{type(model).__qualname__} is no ONNX model: pass a ModelProto (of a graph onnx.helper.make_model(graph)) or a path"
    )


def _declared(value: ir.Value) -> str:
    """A type and the sizes of an input, those that vary by name: ``float32[batch, 4]``."""
    kind = value.dtype.numpy().name if value.dtype is not None else "any type"
    dims = value.shape if value.shape is not None else ()
    return f"{kind}[{', '.join(str(dim) if isinstance(dim, int) else (dim.value or '?') for dim in dims)}]"
