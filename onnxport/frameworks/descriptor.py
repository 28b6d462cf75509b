"""The descriptor of a framework: all that the rest of the package knows of it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnxport.model import OnnxModel
    from onnxport.opset_maps.registry import OpsetMap, Semantics
    from onnxport.request import Request
    from onnxport.validation.parties import Tolerance
    from onnxport.validation.report import Report
    from onnxport.validation.runners.base import Binding, Runner

HUB = "onnx"  # the framework through which every conversion goes
# The options of `onnxport.convert` that mean something for a live model of tensors, whatever it is converted to.
TENSOR_OPTIONS = frozenset({"kwargs", "dynamic_shapes", "target_opset", "runtime", "allow_code"})


def _imported(name: str) -> Any:
    """A module; importing makes no garbage, and to look for some among all objects of a loaded framework takes 0.1 s."""
    if name in sys.modules:
        return import_module(name)  # which waits where another thread imports it
    collecting = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if collecting:
            gc.enable()


@dataclass(frozen=True)
class Lazy:
    """A function of a module that is imported when the function is first called.

    >>> Lazy("math:sqrt")(9.0)
    3.0

    Attributes:
        reference: ``"package.module:name"``; the name may lead through attributes (``"onnxport.model:OnnxModel.save"``).
    """

    reference: str

    def get(self) -> Any:
        """What the reference names; for objects that are no functions."""
        module, _, path = self.reference.partition(":")
        value: Any = _imported(module)
        for name in path.split("."):
            value = getattr(value, name)
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives."""
        return self.get()(*args, **kwargs)


@dataclass(frozen=True, eq=False, repr=False)
class SourceKind:
    """Models of a framework that take the same options of `onnxport.convert`.

    Attributes:
        title: what error messages call one of them: ``"an exported program of PyTorch"``.
        options: the options that mean something for them, whatever they are converted to.
        onnx_options: options that mean something on the way to ONNX alone.
        named_options: options that mean something on the way to frameworks whose models name their outputs.
        instead: by option that they do not take, what to do; by default the advice in `onnxport.options`.
        several_examples: `inputs` may be a list of several calls.
        carries_signature: a model knows its own inputs, so that a conversion needs no examples of them.
        recognises: whether a live model or a path of the framework is of this kind.
    """

    title: str
    options: frozenset[str] = frozenset()
    onnx_options: frozenset[str] = frozenset()
    named_options: frozenset[str] = frozenset()
    instead: Mapping[str, str] = field(default_factory=dict)
    several_examples: bool = False
    carries_signature: bool = True
    recognises: Callable[[object], bool] = lambda model: True

    def takes(self, option: str, target: Framework | None = None) -> bool:
        """Whether the option means something on the way to `target`, or to any framework where that is None."""
        if option in self.options:
            return True
        to_onnx, to_named = (target is None or target.is_hub), (target is None or target.names_outputs)
        return (to_onnx and option in self.onnx_options) or (to_named and option in self.named_options)


class Load(Protocol):
    """Reads a model from a file or folder."""

    def __call__(self, path: str | os.PathLike[str], *, allow_pickle: bool, allow_code: bool) -> object:
        """The live model.

        Raises:
            InvalidModelError: the file is corrupt or of another kind.
            UntrustedFileError: the file would run code, and the consent that the error names is not given.
        """


@dataclass(frozen=True)
class Folder:
    """A folder in which a framework keeps a model.

    Attributes:
        title: what it is called: ``"SavedModel"``.
        marks: a folder is one where it holds one of these files.
        ending: ends the names that the command line gives to such folders.
    """

    title: str
    marks: tuple[str, ...]
    ending: str


@dataclass(frozen=True)
class Files:
    """The files and folders of a framework.

    Attributes:
        reads: suffixes of files that hold its models.
        writes: suffixes of files that results are written to, the usual one first; empty where `folder` is the format.
        folder: the folder that it reads, and that it writes where `writes` is empty.
        weights_alone: suffixes of files that hold no graph: weights, or a module as a pickle.
        way_out: of such a file, what it holds instead and how that converts; empty where it holds what they usually do.
        load: reads a model; None where the framework's `adopt` takes paths.
        save: writes a live model to a path, whole or not at all; None where models can't be written.
        load_weights: loads a file of weights into a live model; None where no such files are taken.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    folder: Folder | None = None
    weights_alone: tuple[str, ...] = ()
    way_out: Callable[[Path], str] | None = None
    load: Load | None = None
    save: Callable[[object, str | os.PathLike[str]], None] | None = None
    load_weights: Callable[[object, Path], None] | None = None


class Drivers(TypedDict):
    """The fields of a framework's drivers and runner."""

    export: Lazy
    build: Lazy
    bind: Lazy


class Rooms(Drivers):
    """The fields of a framework's drivers, runner and importer's map."""

    from_onnx_map: Callable[[], Any]
    shares_semantics: bool


def drivers(name: str) -> Drivers:
    """Where the package's own frameworks have them: in files of the framework's name."""
    return {
        "export": Lazy(f"onnxport.converters.to_onnx.{name}:export"),
        "build": Lazy(f"onnxport.converters.from_onnx.{name}:build"),
        "bind": Lazy(f"onnxport.validation.runners.{name}:bind"),
    }


def rooms(name: str) -> Rooms:
    """Where the package's own frameworks of tensors have them: in files and folders of the framework's name."""
    return {
        **drivers(name),
        "from_onnx_map": Lazy(f"onnxport.opset_maps.maps:{name}_native").get,
        "shares_semantics": True,
    }


@dataclass(frozen=True, eq=False, repr=False)
class Framework:
    """A framework that models come from or go to.

    The functions are `Lazy`, or import inside: importing a descriptor imports no framework.

    Attributes:
        name: its name in ``onnxport.convert(to=...)`` and in reports.
        title: its name in sentences.
        kinds: the kinds of its models; a model is of the first that recognises it.
        aliases: other names that users may give.
        command: its name in commands (``torch2onnx``); empty where it has none of its own.
        package: the package that has to be installed; empty where there is none.
        extra: the extra of onnxport that brings the package; empty where another distribution does.
        distributions: the distributions whose versions stand in a report.
        owners: top-level packages, or single modules, whose classes are its models and tensors; subclasses count too.
        recognises: whether an object that no framework owns is a model of it.
        tensor: how its tensors are written (``"torch.Tensor"``), where a plain callable of them is a model; else empty.
        files: its files and folders.
        names_outputs: its models name their outputs.
        takes_table: a model takes one table of samples instead of a tuple of inputs.
        node_bytes: memory that one node without weights takes in a rebuilt model; None where that needs no bound.
        adopt: the model that driver and runner take, from what was loaded or given.
        notes_of: a report's notes of a model that was adopted.
        to_inference: puts a model that nobody but a command holds into inference mode, and says so where it trained.
        register_inputs: makes classes among the inputs and keyword inputs known to it.
        start: what its package does at its first use, once imported, and may write about; None where that is nothing.
        unchanged: a context after which the framework's global state is as before.
        in_real_numbers: of a quantised model one that computes with the real numbers that its own stand for, in float32;
            None where ``dtype="float32"`` has no such meaning.
        with_states: of a model that keeps a state and the request ``states="io"`` a model without state and the request for it;
            None where its models have no such form.
        export: the driver to ONNX: the model in ONNX, not validated, of a live model and a request.
        build: the driver from ONNX: the live model of a graph; None where there is none yet.
        hub_folder: the folder that a model of it becomes in ONNX; None where that is one file.
        bind: the runner of a live model.
        prove: the report of a conversion to ONNX, where that is no comparison of two runners.
        to_numpy: one of its tensors as a NumPy array; None where its models take NumPy arrays.
        to_onnx_map: gives the table of its operators that convert to ONNX.
        from_onnx_map: gives the table of ONNX operators that it has natively.
        shares_semantics: `build` goes by the shared description of ONNX too, not by `from_onnx_map` alone.
    """

    name: str
    title: str
    kinds: tuple[SourceKind, ...]
    aliases: tuple[str, ...] = ()
    command: str = ""
    package: str = ""
    extra: str = ""
    distributions: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    recognises: Callable[[object], bool] = lambda model: False
    tensor: str = ""
    files: Files = Files()
    names_outputs: bool = False
    takes_table: bool = False
    node_bytes: int | None = None
    adopt: Callable[[object], object] = lambda model: model
    notes_of: Callable[[object], tuple[str, ...]] = lambda model: ()
    to_inference: Callable[[object], str] = lambda model: ""
    register_inputs: Callable[[object, Mapping[str, object] | None], None] = lambda inputs, kwargs: None
    start: Callable[[], None] | None = None
    unchanged: Callable[[], AbstractContextManager[None]] | None = None
    with_states: Callable[[object, Request], tuple[object, Request]] | None = None
    in_real_numbers: Callable[[object], object] | None = None
    export: Callable[[object, Request], OnnxModel] | None = None
    build: Callable[[ir.Model], object] | None = None
    hub_folder: Folder | None = None
    bind: Callable[[object, Binding], Runner] | None = None
    prove: Callable[[object, OnnxModel, Request, Tolerance], Report] | None = None
    to_numpy: Callable[[object], object] | None = None
    to_onnx_map: Callable[[], OpsetMap] | None = None
    from_onnx_map: Callable[[], Semantics] | None = None
    shares_semantics: bool = False

    @property
    def is_hub(self) -> bool:
        """Whether it is ONNX, through which every conversion goes."""
        return self.name == HUB

    def kind_of(self, model: object) -> SourceKind:
        """The kind of a live model, or of the path of a file of the framework."""
        return next(kind for kind in self.kinds if kind.recognises(model))
