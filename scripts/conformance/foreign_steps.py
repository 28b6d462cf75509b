"""What people do with an imported model: run it, train it, save it and load it elsewhere, compile and export it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Sets = Sequence[Sequence[np.ndarray]]
Step = Callable[[Any, Sets, Path], str]  # the reason why it fails, else nothing


class OtherNumbers(Exception):
    """A model that was loaded elsewhere gives other numbers than the one that was saved.

    Attributes:
        results: the outputs, in the file's order.
    """

    def __init__(self, results: list[Any]) -> None:
        super().__init__("other numbers")
        self.results = results


@dataclass(frozen=True)
class Steps:
    """How an importer's models are run, and what comes after that."""

    run: Callable[[Any, Sequence[np.ndarray]], list[Any]]
    later: tuple[tuple[str, Step], ...]


def steps(importer: str) -> Steps:
    """Those of an importer."""
    if importer == "pytorch":
        return Steps(
            run_torch,
            (("trained", trained), ("reloaded", reloaded_torch), ("compiled", compiled), ("exported", exported)),
        )
    if importer == "tensorflow":
        return Steps(run_tensorflow, (("reloaded without onnxport", reloaded_tensorflow),))
    return Steps(
        run_tensorflow,
        (("reloaded", reloaded_keras), ("reloaded without onnxport", alone_keras), ("served", served_keras)),
    )


def leaves(result: Any) -> list[Any]:
    """A model's results as a list."""
    return list(result) if isinstance(result, tuple) else [result]


def _numpy(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _numpy(value) for key, value in item.items()}
    if isinstance(item, list):
        return [_numpy(value) for value in item]
    if hasattr(item, "detach"):
        return item.detach().numpy()
    item = item.numpy() if hasattr(item, "numpy") else item
    if isinstance(item, np.ndarray) and item.dtype == object:
        return np.array([x.decode() if isinstance(x, bytes) else x for x in item.ravel()], dtype=object).reshape(
            item.shape
        )
    return item


def tensors(inputs: Sequence[np.ndarray]) -> tuple[Any, ...]:
    """Inputs as torch takes them."""
    import torch

    return tuple(x if x.dtype == object else torch.from_numpy(np.array(x)) for x in inputs)


def run_torch(module: Any, inputs: Sequence[np.ndarray]) -> list[Any]:
    """The results of a module."""
    import torch

    with torch.no_grad():
        return [_numpy(item) for item in leaves(module(*tensors(inputs)))]


def run_tensorflow(model: Any, inputs: Sequence[np.ndarray]) -> list[Any]:
    """The results of a tf.Module or Keras model."""
    import keras
    import tensorflow as tf

    given = [tf.constant(x) for x in inputs]
    result = model(given if len(given) > 1 else given[0]) if isinstance(model, keras.Model) else model(*given)
    result = tuple(result) if isinstance(result, list) and isinstance(model, keras.Model) else result
    return [_numpy(item) for item in leaves(result)]


def trained(module: Any, sets: Sets, _: Path) -> str:
    """One step on a copy of the module: each parameter that has a gradient has a finite one, and the step moves some.

    Results that stay as they are when the weights move a little, such as votes, have no gradient to give.
    """
    import copy

    import torch

    weights = {name for name, item in module.named_parameters() if item.numel()}
    if not weights:
        return ""
    copied = copy.deepcopy(module).train(False)

    def loss(given: Sequence[np.ndarray]) -> Any:
        parts = torch.utils._pytree.tree_leaves(copied(*tensors(given)))  # maps have a tensor for each key
        filled = [item for item in parts if isinstance(item, torch.Tensor) and item.numel()]
        floats = [item for item in filled if item.is_floating_point()]
        kept = [((item.float() - 0.1) ** 2).mean() for item in floats if bool(torch.isfinite(item).all())]
        return sum(kept, torch.zeros(()))

    for given in sets:  # a branch may leave some inputs without weights
        first = loss(given)
        if first.requires_grad:
            break
    else:
        return "no output has a gradient" if any(_moves(copied, loss, given) for given in sets) else ""
    first.backward()
    grads = {name: item.grad for name, item in copied.named_parameters() if item.grad is not None}
    if any(not bool(torch.isfinite(item).all()) for item in grads.values()):
        return "a gradient is not finite"
    if len(grads) < 0.3 * len(weights):
        return f"{len(grads)} of {len(weights)} parameters have a gradient"
    torch.nn.utils.clip_grad_norm_(copied.parameters(), 1.0)
    torch.optim.SGD(copied.parameters(), lr=1e-2).step()
    moved = any(not torch.equal(item, module.get_parameter(name)) for name, item in copied.named_parameters())
    return "" if moved and bool(torch.isfinite(loss(given))) else "the step changes nothing, or too much"


def _moves(module: Any, loss: Callable[[Sequence[np.ndarray]], Any], given: Sequence[np.ndarray]) -> bool:
    """Whether a loss changes when the weights move by a ten-thousandth."""
    import torch

    with torch.no_grad():
        before = loss(given)
        held = [(item, item.clone()) for item in module.parameters() if item.is_floating_point()]
        for sign in (1, -1):
            for item, old in held:
                item.copy_(old * (1 + sign * 1e-4 * (torch.rand_like(old) + 0.5)))
            after = loss(given)
            for item, old in held:
                item.copy_(old)
            if not torch.equal(before, after):
                return True
    return False


def reloaded_torch(module: Any, sets: Sets, folder: Path) -> str:
    """The whole module pickled, and loaded by another process."""
    import torch

    torch.save(module, folder / "module.pt")
    return elsewhere("torch", folder / "module.pt", sets[-1], run_torch(module, sets[-1]))


def compiled(module: Any, sets: Sets, _: Path) -> str:
    """One graph of torch.compile, which gives the module's numbers; with `allow_rnn`, since nn.LSTM is refused without."""
    import torch

    if any(x.dtype == object for x in sets[0]):
        return ""
    torch._dynamo.reset()
    whole = torch.compile(module, fullgraph=True, backend="eager", dynamic=True)
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        return next((f"set {i}: other numbers" for i, s in enumerate(sets) if not _alike(module, whole, s)), "")


def exported(module: Any, sets: Sets, _: Path) -> str:
    """An exported program with the dynamic dimensions of the file."""
    import torch

    dims = [shape or () for _, shape in module.onnxport_inputs]
    dynamic = tuple(
        {
            axis: torch.export.Dim.DYNAMIC if axis == 0 else torch.export.Dim.AUTO
            for axis, n in enumerate(shape)
            if not isinstance(n, int)
        }
        for shape in dims
    )
    program = torch.export.export(module, tensors(sets[0]), dynamic_shapes=dynamic).module()
    return next((f"set {i}: other numbers" for i, s in enumerate(sets) if not _alike(module, program, s)), "")


def _alike(module: Any, other: Any, inputs: Sequence[np.ndarray]) -> bool:
    return same(run_torch(module, inputs), run_torch(other, inputs))


def same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether two runs of the same program agree to rounding."""
    return len(first) == len(second) and all(map(_same, first, second))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return same(a, b)
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return False
    if a.dtype.kind not in "fc" or not a.size:
        return bool(np.array_equal(a, b))
    with np.errstate(invalid="ignore"):
        top = np.max(np.abs(a[np.isfinite(a)]), initial=1e-30)
        return bool(
            np.allclose(a, b, rtol=1e-3, atol=float(top) * (1e-4 if a.dtype.itemsize > 2 else 1e-2), equal_nan=True)
        )


def reloaded_tensorflow(model: Any, sets: Sets, folder: Path) -> str:
    """A SavedModel, loaded by a process that has no onnxport."""
    import onnxport.converters.from_onnx.tensorflow as driver

    driver.save(model, folder / "saved")
    want = [flat(model.output_names, run_tensorflow(model, sets[-1]))]
    names = model.argument_names
    return elsewhere("saved_model", folder / "saved", sets[-1], want, without="onnxport", names=names)


def flat(names: Sequence[str], results: Sequence[Any]) -> dict[str, Any]:
    """Results by name, parts of maps and sequences each by its own."""
    found: dict[str, Any] = {}
    for name, item in zip(names, results, strict=True):
        if isinstance(item, (dict, list)):
            parts = dict(item) if isinstance(item, dict) else dict(enumerate(item))
            found.update(flat([f"{name}.{key}" for key in parts], list(parts.values())))
        else:
            found[name] = item
    return found


def reloaded_keras(model: Any, sets: Sets, folder: Path) -> str:
    """A .keras file, loaded by another process."""
    model.save(folder / "model.keras")
    return elsewhere("keras", folder / "model.keras", sets[-1], run_tensorflow(model, sets[-1]))


def alone_keras(model: Any, sets: Sets, folder: Path) -> str:
    """The same file, loaded by a process that has no onnxport."""
    return elsewhere("keras", folder / "model.keras", sets[-1], run_tensorflow(model, sets[-1]), without="onnxport")


def served_keras(model: Any, sets: Sets, folder: Path) -> str:
    """What ``model.export`` writes, loaded by a process that has no onnxport."""
    model.export(folder / "served", verbose=False)
    want = run_tensorflow(model, sets[-1])
    want = list(flat([str(i) for i in range(len(want))], want).values())
    return elsewhere("served", folder / "served", sets[-1], want, without="onnxport")


def elsewhere(
    kind: str, path: Path, inputs: Sequence[np.ndarray], want: list[Any], without: str = "", names: Any = ()
) -> str:
    """Loads a saved model in another process and compares its results."""
    import pickle

    task = path.with_suffix(".task")
    task.write_bytes(pickle.dumps((kind, str(path), [np.asarray(x) for x in inputs], want, without, names)))
    server = _server(kind)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(f"{task}\n".encode())
    server.stdin.flush()
    for line in server.stdout:
        if line.startswith(b"RESULT "):
            reason = line[7:].decode().strip()
            if reason == OTHER:
                found = pickle.loads(task.with_suffix(".results").read_bytes())  # noqa: S301 - written by the child
                raise OtherNumbers(list(found[0].values()) if names and isinstance(found[0], dict) else found)
            return reason
    return "the process died"


OTHER = "other numbers"
_SERVERS: dict[str, subprocess.Popen[bytes]] = {}


def _server(kind: str) -> subprocess.Popen[bytes]:
    """A process that has the framework imported, and nothing of the model: it loads each file in a child of its own."""
    framework = "torch" if kind == "torch" else "tensorflow"
    server = _SERVERS.get(framework)
    if server is None or server.poll() is not None:
        command = [sys.executable, "-m", "scripts.conformance.foreign_steps", framework]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        _SERVERS[framework] = server
    return server


def _serve(framework: str) -> None:
    import importlib
    import warnings

    warnings.simplefilter("ignore")
    importlib.import_module(framework)
    if framework == "tensorflow":
        importlib.import_module("keras")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                reason = _load(Path(line.strip()))
            except BaseException as error:
                text = [part.strip() for part in str(error).splitlines() if part.strip()]
                reason = f"{type(error).__name__}: {text[0] if text else ''}"[:300]
            print(f"RESULT {reason}", flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def _load(task: Path) -> str:
    import importlib
    import pickle

    kind, path, inputs, want, without, names = pickle.loads(task.read_bytes())  # noqa: S301 - written by the process that asks
    if without:
        sys.modules[without] = None  # type: ignore[assignment]
    if kind == "torch":
        import torch

        return _compared(task, want, run_torch(torch.load(path, weights_only=False), inputs))
    import keras
    import tensorflow as tf

    given = [tf.constant(x) for x in inputs]
    together = given if len(given) > 1 else given[0]
    if kind == "keras":
        if not without:
            importlib.import_module("onnxport.opset_maps.from_onnx.keras.primitives")
        result = keras.saving.load_model(path)(together)
    else:
        model = tf.saved_model.load(path)  # kept: its functions hold no variables
        if kind == "served":
            result = model.serve(together)
        else:
            results = model.signatures["serving_default"](**dict(zip(names, given, strict=True)))
            result = ({name: results[name] for name in want[0]},)
    result = tuple(result) if isinstance(result, list) else result
    return _compared(task, want, [_numpy(x) for x in leaves(result)])


def _compared(task: Path, want: Sequence[Any], results: list[Any]) -> str:
    import pickle

    if same(want, results):
        return ""
    task.with_suffix(".results").write_bytes(pickle.dumps(results))
    return OTHER


if __name__ == "__main__":
    _serve(sys.argv[1])
