"""What other converters have and is not here: answered by name with the way out, however a program reaches for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from dis import opmap
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, NoReturn

from onnxport.errors import InvalidInputError

_HERE = "onnxport.compat."
PEERS = ("onnx2torch", "skl2onnx", "tf2onnx")

_REGISTER = "onnxport.register_to_onnx('sklearn', 'Class.method') adds a class of your own"
_FROM_ONNX = "onnxport.register_from_onnx('pytorch', 'domain', 'Op', since=1) adds an operator of your own"
_GRAPH_DEF = (
    "tf2onnx.convert.from_graph_def(graph.as_graph_def(), input_names=[...], output_names=[...]) does its work here"
)
_SYMBOLIC = "onnxport.register_to_onnx('pytorch', 'lib::op') adds an operator of your own"
_FROM_TF = "onnxport.register_to_onnx('tensorflow', 'Op') adds an operator of your own"
_EDIT = "onnxport.OnnxModel.load(file) gives .summary(), .rename(), .cut() and .model, the graph as onnx-ir has it"
_EXPORTER = "torch.onnx"  # its names are answered here; nothing of it is called
# By module or name, the longest that fits: what does its work here.
_INSTEAD = {
    "": "it has onnx2torch, skl2onnx, tf2onnx, torch and their functions; docs/migrate shows other tools",
    "onnx2torch": "it has convert, converter, node_converters, utils; onnxport.convert(model, to='pytorch') does the rest",
    "onnx2torch.node_converters": _FROM_ONNX,
    "onnx2torch.onnx_graph": _FROM_ONNX,
    "onnx2torch.onnx_node": _FROM_ONNX,
    "onnx2torch.onnx_tensor": _FROM_ONNX,
    "onnx2torch.utils.common": _FROM_ONNX,
    "onnx2torch.utils.safe_shape_inference": "onnx.shape_inference.infer_shapes gives types and shapes",
    "skl2onnx": "it has convert_sklearn, to_onnx, wrap_as_onnx_mixin, common.data_types, helpers.onnx_helper; "
    + _REGISTER,
    "skl2onnx.algebra.complex_functions": "write the distance of OnnxSub, OnnxMul and OnnxReduceSumApi11",
    "skl2onnx.algebra.custom_ops": "it is an operator of onnxruntime's tests alone: write it of those of algebra.onnx_ops",
    "skl2onnx.algebra.onnx_ops": "ONNX has no such operator; it has OnnxAdd and its like, one for each operator of ONNX",
    "skl2onnx.algebra.sklearn_ops": "it has OnnxSklearnStandardScaler and its like, one for each class of scikit-learn",
    "skl2onnx.common._apply_operation": "add_node of the container writes any node",
    "skl2onnx.common._registration": _REGISTER,
    "skl2onnx.common.tree_ensemble": "OnnxSubEstimator of algebra.onnx_operator writes a fitted tree",
    "skl2onnx.helpers.onnx_rare_helper": "onnxport upgrade FILE --opset N, or onnxport.convert(proto, target_opset=N)",
    "skl2onnx.helpers.onnx_helper.infer_outputs": "onnx.shape_inference.infer_shapes gives types and shapes",
    "skl2onnx.operator_converters": "OnnxSubEstimator of algebra.onnx_operator writes what a fitted estimator gives",
    "skl2onnx.sklapi": "it has CastRegressor, CastTransformer, ReplaceTransformer, TraceableTfidfVectorizer and its like; "
    + _REGISTER,
    "skl2onnx.tutorial": "timeit measures, and a proof's report has the latencies of both sides",
    "torch": "PyTorch's own modules are imported as ever, without onnxport.compat",
    _EXPORTER: "it has export and what it gives; onnxport.convert and onnxport.register_to_onnx do the rest",
    f"{_EXPORTER}.register_custom_op_symbolic": _SYMBOLIC,
    f"{_EXPORTER}.unregister_custom_op_symbolic": _SYMBOLIC,
    f"{_EXPORTER}.symbolic_helper": _SYMBOLIC,
    f"{_EXPORTER}.symbolic_opset9": _SYMBOLIC,
    f"{_EXPORTER}.ops": _SYMBOLIC,
    f"{_EXPORTER}.dynamo_export": "export gives a program too",
    f"{_EXPORTER}.utils": "export does its work here",
    f"{_EXPORTER}.verification": "onnxport.validate(module, file) does its work here",
    f"{_EXPORTER}.testing": "program.report is the proof that comes with each program",
    "tf2onnx": "it has from_keras, from_function, from_graph_def, from_tflite of tf2onnx.convert; onnxport.convert does the rest",
    "tf2onnx.convert": "it has from_keras, from_function, from_graph_def, from_tflite; on the command line onnxport tf2onnx",
    "tf2onnx.graph": _EDIT,
    "tf2onnx.graph_builder": _EDIT,
    "tf2onnx.graph_matcher": _EDIT,
    "tf2onnx.handler": _FROM_TF,
    "tf2onnx.late_rewriters": "a graph is written without what it does not need",
    "tf2onnx.optimizer": "a graph is written without what it does not need; onnxport slim does it for a file",
    "tf2onnx.rewriter": _FROM_TF,
    "tf2onnx.tf_loader": _GRAPH_DEF,
    "tf2onnx.tfonnx": _GRAPH_DEF,
    "tf2onnx.tflite_utils": "tf2onnx.convert.from_tflite does its work here",
    "tf2onnx.tfjs_utils": "convert the SavedModel or Keras model that the page was written from",
}


class AbsentNameError(InvalidInputError, AttributeError):
    """A name of another converter that is not here."""


class AbsentModuleError(InvalidInputError, ModuleNotFoundError):
    """A module of another converter, or a name imported from one, that is not here."""

    def __init__(self, reason: str, name: str) -> None:
        super().__init__(reason)
        self.name = name


def _reason(module: str, name: str) -> str:
    whole = f"{module}.{name}".removeprefix(_HERE)
    fitting = max((key for key in _INSTEAD if f"{whole}.".startswith(f"{key}.")), key=len, default="")
    near = get_close_matches(name, dir(sys.modules[module]), 1, 0.85) if module in sys.modules else []
    return f"onnxport.compat has no {whole}: {f'did you mean {near[0]}? ' if near else ''}{_INSTEAD[fitting]}"


def absent(module: str, name: str) -> NoReturn:
    """Refuses a name of a module of another converter.

    Raises:
        AbsentModuleError: a program imports it: Python gives the text of an AttributeError to no importer.
        AbsentNameError: it is asked for in another way.
    """
    if name.startswith("__"):  # Python asks for such in passing
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    reason = _reason(module, name)
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name in ("absent", "refuse", "__getattr__"):
        frame = frame.f_back
    if frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]:
        raise AbsentModuleError(reason, f"{module}.{name}")
    raise AbsentNameError(reason)


def refusing(module: str) -> Callable[[str], Any]:
    """A module's ``__getattr__`` that refuses by name all that the module has not."""

    def refuse(name: str) -> NoReturn:
        absent(module, name)

    return refuse


class _Finder(MetaPathFinder):
    """Comes behind all others, so that it is asked only for modules that no other has."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root, _, inner = fullname.removeprefix(_HERE).partition(".")
        ours = fullname.startswith(_HERE) or getattr(sys.modules.get(root), "__name__", "") == f"{_HERE}{root}"
        if root not in (*PEERS, "torch") or not inner or not ours or inner.rpartition(".")[2].startswith("__"):
            return None
        places = getattr(sys.modules.get(fullname.rpartition(".")[0]), "__path__", None)
        known = PathFinder.find_spec(fullname, places) if places else None  # asked with another path than the package's
        if known is not None:
            return known
        raise AbsentModuleError(_reason(root, inner), fullname)


def install() -> None:
    """Has Python ask here for modules that it finds nowhere."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
