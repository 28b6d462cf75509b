"""Running ONNX: onnxruntime, and ONNX's reference evaluator where onnxruntime has no kernel."""

from __future__ import annotations

import ctypes
import os
import reprlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.errors import InvalidInputError, InvalidModelError, first_line
from onnxport.graph.evaluator import reference_evaluator
from onnxport.graph.external_data import save, weight_bytes
from onnxport.graph.guard.bounds import Guard
from onnxport.graph.guard.bounds import current as current_guard
from onnxport.graph.guard.messages import named_dtype
from onnxport.graph.guard.requests import RemoteModel, stored
from onnxport.graph.protos import from_proto, to_proto
from onnxport.graph.rows import is_lists, padded, plain
from onnxport.graph.runtimes import Runtime
from onnxport.graph.schema import TENSOR_TYPES, absent_operator

_IN_MEMORY_LIMIT = 64 << 20
Loadable = ir.Model | onnx.ModelProto | str | os.PathLike[str]


NO_TEXT = "an output holds bytes that are no UTF-8, which a string of ONNX can't be"


class Session:
    """A model, or the path of an ``.onnx`` file, ready to run in onnxruntime, or in the reference evaluator where that
    can't load it.

    `runtime` ``"reference"`` is ONNX's reference evaluator alone; `backend` is ``"onnxruntime"`` or ``"onnx.reference"``, and
    `fallback_reason` why onnxruntime, which was asked for, does not run it: empty where it does or was not asked for.
    `threads` are intra-op threads, 0 leaves them to the runtime; without `optimize` onnxruntime runs the graph node by node as
    written.

    Raises:
        InvalidModelError: neither runtime can load the model.
    """

    backend: str
    fallback_reason: str
    input_names: list[str]
    output_names: list[str]

    def __init__(
        self, model: Loadable, *, threads: int = 0, optimize: bool = True, runtime: Runtime = "onnxruntime"
    ) -> None:
        self.backend = "onnxruntime"
        self.fallback_reason = ""
        self._run: Any
        self._dtypes: dict[str, np.dtype | None]
        guard = current_guard()
        if guard is not None:
            self._open_guarded(model, guard, {"threads": threads, "optimize": optimize, "runtime": runtime})
            return
        self._errors: tuple[type[Exception], ...] = ()
        if runtime == "reference":
            self._open_reference(model)
            return
        self._errors = _ort_errors()
        try:
            self._open_onnxruntime(model, threads, optimize)
        except self._errors as error:
            self.fallback_reason = first_line(error)
            self._open_reference(model)

    def _open_guarded(self, model: object, guard: Guard, options: Mapping[str, Any]) -> None:
        """In the helper process (`graph/guard`)."""
        remote = RemoteModel(stored(lambda path: _write(model, path)), options, guard)
        self.backend, self.fallback_reason = remote.about["backend"], remote.about["fallback_reason"]
        self.input_names, self.output_names = remote.about["input_names"], remote.about["output_names"]
        self._dtypes = {name: named_dtype(dtype) for name, dtype in remote.about["dtypes"].items()}
        self._errors = ()
        self._run = remote.run

    def about(self) -> dict[str, Any]:
        """What the process that holds the model tells the other one."""
        return {
            "backend": self.backend,
            "fallback_reason": self.fallback_reason,
            "input_names": self.input_names,
            "output_names": self.output_names,
            "dtypes": {name: np.dtype(dtype).name for name, dtype in self._dtypes.items()},
        }

    def _open_onnxruntime(self, model: object, threads: int, optimize: bool) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 4
        # Threads that go on waiting busily after a run would keep the cores from the framework that runs next in this process.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.intra_op_num_threads = threads
        if not optimize:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.enable_cpu_mem_arena = False  # a session that is run now and then holds nothing in between
        with tempfile.TemporaryDirectory(prefix="onnxport-") as folder:
            session = ort.InferenceSession(_loadable(model, Path(folder)), options, providers=["CPUExecutionProvider"])
        self.input_names = [item.name for item in session.get_inputs()]
        self.output_names = [item.name for item in session.get_outputs()]
        kinds = {
            item.name: TENSOR_TYPES.get(item.type) for item in session.get_inputs() if item.type.startswith("tensor(")
        }
        self._dtypes = {name: None if kind is None else np.dtype(kind.numpy()) for name, kind in kinds.items()}
        types = {item.name: item.type for item in (*session.get_inputs(), *session.get_outputs())}
        packed = sorted({kind for kind in types.values() if kind in _PACKED})
        if packed:
            self.fallback_reason = f"onnxruntime's Python interface passes no {', '.join(packed)}"
            self._open_reference(model)
        elif any(kind in _BITS for kind in types.values()):
            self._run = lambda feeds, names: _run_bits(session, feeds, names, types)
        else:
            self._run = lambda feeds, names: session.run(names, feeds)

    def _open_reference(self, model: Any) -> None:
        if isinstance(model, (str, os.PathLike)):
            model = onnx.load(model)
        proto = to_proto(model) if isinstance(model, ir.Model) else model
        absent = absent_operator(proto)  # which the evaluator may run all the same, as another opset has it
        if absent:
            raise InvalidModelError(absent)
        try:
            evaluator = reference_evaluator(proto)
        except Exception as error:  # the evaluator has no error type of its own
            tried = f"onnxruntime: {self.fallback_reason}; " if self.fallback_reason else ""
            raise InvalidModelError(f"no runtime loads the model: {tried}onnx.reference: {error}") from error
        self.backend = "onnx.reference"
        self._errors = (Exception,)  # the evaluator has no error type of its own
        initialized = {item.name for item in proto.graph.initializer}
        inputs = [item for item in proto.graph.input if item.name not in initialized]
        self.input_names = [item.name for item in inputs]
        self.output_names = list(evaluator.output_names)
        kinds = {item.name: item.type.tensor_type.elem_type for item in inputs if item.type.HasField("tensor_type")}
        self._dtypes = {name: onnx.helper.tensor_dtype_to_np_dtype(kind) for name, kind in kinds.items()}
        self._run = lambda feeds, names: _evaluate(evaluator, feeds, names)

    def run(self, feeds: Mapping[str, Any], names: Sequence[str] | None = None) -> list[Any]:
        """Outputs in graph order (or those named) for inputs by name.

        Raises:
            InvalidInputError: names, element types or shapes do not fit.
        """
        missing = [name for name in self.input_names if name not in feeds]
        unknown = [name for name in feeds if name not in self.input_names]
        if missing or unknown:
            raise InvalidInputError(f"the model takes inputs {self.input_names}; missing {missing}, unknown {unknown}")
        return self.run_prepared({name: self.prepare(name, item) for name, item in feeds.items()}, names)

    def run_prepared(self, prepared: Mapping[str, Any], names: Sequence[str] | None) -> list[Any]:
        """As `run`, for inputs as the runtime takes them."""
        try:
            return list(self._run(prepared, list(names) if names is not None else self.output_names))
        except UnicodeDecodeError as error:
            raise InvalidInputError(f"{NO_TEXT}: {error.object!r}") from error
        except self._errors as error:
            shapes = {name: getattr(item, "shape", None) for name, item in prepared.items()}
            raise InvalidInputError(f"the model can't run on inputs of shapes {shapes}: {error}") from error

    def takes_strings(self, name: str) -> bool:
        """Whether an input is a tensor of strings."""
        dtype = self._dtypes.get(name)
        return dtype is not None and dtype.kind == "O"

    def prepare(self, name: str, item: Any) -> Any:
        """An input as the runtime takes it: Python numbers and lists as arrays of the declared type, widenings done.

        Raises:
            InvalidInputError: the element type does not fit.
        """
        if item is None or isinstance(item, dict) or (isinstance(item, list) and name not in self._dtypes):
            return item
        try:
            array = padded(item) if is_lists(item) else np.asarray(_without_gradient(item))
        except (
            TypeError,
            ValueError,
            RuntimeError,
        ) as error:  # of a framework's tensor that has no memory to read here
            raise InvalidInputError(f"input {name!r} can't be read as an array: {first_line(error)}") from error
        wanted = self._dtypes.get(name)
        if array.dtype.kind in "US":
            array = array.astype(object)
        if array.dtype.kind == "O" and wanted is not None and wanted.kind == "O":
            array = _text(name, array)
        if array.dtype.kind == "c" and array.real.dtype == wanted:
            array = np.stack([array.real, array.imag], -1)  # ONNX graphs hold complex tensors as their parts
        if array.dtype.kind == "O" and wanted is not None and wanted.kind != "O":
            array = plain(array)
        if wanted is None or array.dtype == wanted:
            return array
        if np.can_cast(array.dtype, wanted, "safe") or not isinstance(item, (np.ndarray, np.generic)):
            try:
                return array.astype(wanted)  # Python numbers and widenings, as NumPy itself would
            except (ValueError, TypeError):
                raise InvalidInputError(f"input {name!r} is {reprlib.repr(item)}, the model takes {wanted}") from None
        raise InvalidInputError(f"input {name!r} is {array.dtype}, the model takes {wanted}")


def _without_gradient(item: Any) -> Any:
    """A tensor of PyTorch apart from its gradient, which alone would keep NumPy from reading it."""
    return item.detach() if getattr(item, "requires_grad", False) is True else item


def _text(name: str, strings: np.ndarray) -> np.ndarray:
    """Strings that came as bytes, as TensorFlow has them, decoded: onnxruntime would take their spelling, ``b'...'``."""
    if not any(isinstance(item, bytes) for item in strings.flat):
        return strings
    try:
        items = [item.decode() if isinstance(item, bytes) else item for item in strings.flat]
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"input {name!r} holds bytes that are no UTF-8: {error}") from error
    return np.array(items, object).reshape(strings.shape)


def _evaluate(evaluator: Any, feeds: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """Runs the evaluator; what overflows or is not defined is infinite or NaN, as in any runtime, and no warning."""
    with np.errstate(all="ignore"):
        return list(evaluator.run(names, feeds))


def _run_bits(session: Any, feeds: Mapping[str, Any], names: Sequence[str], types: Mapping[str, str]) -> list[Any]:
    """Runs a model with inputs or outputs of types that NumPy lacks: their bits pass through onnxruntime's own values."""
    import onnxruntime as ort

    given = {}
    for name, array in feeds.items():
        bits = _BITS.get(types[name])
        if bits is None:
            given[name] = ort.OrtValue.ortvalue_from_numpy(array)
        else:
            bare = np.ascontiguousarray(array).reshape(array.shape)  # the former makes a vector of a scalar
            raw = bare.view(np.uint8 if array.dtype.itemsize == 1 else np.uint16)
            given[name] = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, bits.value)
    results = []
    for name, value in zip(names, session.run_with_ort_values(list(names), given), strict=True):
        bits = _BITS.get(types[name])
        if bits is None:
            results.append(value.numpy())
            continue
        memory = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
        results.append(np.frombuffer(memory, bits.numpy()).reshape(value.shape()).copy())
    return results


def _write(model: Any, path: Path) -> None:
    if isinstance(model, onnx.ModelProto) and model.ByteSize() < _IN_MEMORY_LIMIT:
        path.write_bytes(model.SerializeToString())
    elif isinstance(model, (str, os.PathLike)):
        save(ir.load(model), path)
    else:
        save(from_proto(model) if isinstance(model, onnx.ModelProto) else model, path)


def _loadable(model: Any, folder: Path) -> str | bytes:
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if isinstance(model, onnx.ModelProto):
        if model.ByteSize() < _IN_MEMORY_LIMIT:
            return model.SerializeToString()
        model = from_proto(model)
    external = any(isinstance(value.const_value, ir.ExternalTensor) for value in model.graph.initializers.values())
    if not external and weight_bytes(model) < _IN_MEMORY_LIMIT:
        return to_proto(model).SerializeToString()
    save(model, folder / "model.onnx")
    return str(folder / "model.onnx")


def _ort_errors() -> tuple[type[Exception], ...]:
    """What onnxruntime raises: types of its own, which share no base, and Python's from its bindings."""
    import onnxruntime.capi.onnxruntime_pybind11_state as state

    own = [item for item in vars(state).values() if isinstance(item, type) and issubclass(item, Exception)]
    return (*own, RuntimeError, TypeError, ValueError)


# Types whose bits onnxruntime hands out, and those that it packs several to a byte.
_BIT_TYPES = ("tensor(bfloat16)", "tensor(float8e4m3", "tensor(float8e5m2")
_BITS = {text: dtype for text, dtype in TENSOR_TYPES.items() if text.startswith(_BIT_TYPES)}
_PACKED = frozenset(f"tensor({name})" for name in ("int4", "uint4", "int2", "uint2", "float4e2m1"))
