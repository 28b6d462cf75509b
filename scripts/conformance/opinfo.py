"""PyTorch's own operator database through the exporter: every OpInfo's samples, converted, run and compared.

    python -m scripts.conformance.opinfo --results build/opinfo.jsonl --shard 0/2
    python -m scripts.conformance.opinfo --results build/opinfo.jsonl --report docs/conformance/pytorch_opinfo.md

Each sample becomes a function of its tensors (numbers, flags and dtypes stay constants), is exported, run by onnxruntime
(by ONNX's reference evaluator where onnxruntime lacks a kernel) and compared with PyTorch's result under the budgets of
`onnxport.validation`. Each operator runs in a process of its own with a time limit; a second run goes on where the first
stopped.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import select
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from onnx.reference import ReferenceEvaluator
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from onnxport.converters.to_onnx.pytorch import export
from onnxport.errors import OnnxportError, TracingError, UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtime import Session
from onnxport.opset_maps.maps import aten
from onnxport.request import Request
from onnxport.validation import tolerance
from onnxport.validation.comparison import is_floating, judge
from onnxport.validation.evidence import shaped_like
from onnxport.validation.numerics import of_model
from onnxport.validation.runners.pytorch import to_numpy, to_tensor
from scripts.conformance.opinfo_table import report, verdict_of

# The part of the samples that each element type gets: all that the OpInfo lists, but complex halves, which NumPy lacks.
_FEW = (torch.float64, torch.complex64, torch.complex128, torch.int8, torch.int16, torch.int32, torch.uint8)
DTYPES = {torch.float32: 1.0, torch.float16: 0.375, torch.bfloat16: 0.375, torch.int64: 0.375, torch.bool: 0.375}
DTYPES |= dict.fromkeys(_FEW, 0.25)
WIDE = {
    torch.complex64: torch.complex128,
    **dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64),
}
SECONDS_PER_SAMPLE = 20
# Runtimes compute sigmoid, erf and their like to a few units of float32 at 1, their range, however small the result is.
KERNEL_ULPS = 4
# PyTorch's own relative error: its trigamma is four terms of an asymptotic series.
COARSE = {"polygamma": 1e-9, "special.polygamma": 1e-9}
# What these give is whatever the memory held.
UNINITIALISED = ("empty", "new_empty", "empty_like", "empty_strided", "empty_permuted", "new_empty_strided")
# Which of several equal elements these name is not defined.
AMBIGUOUS = ("topk", "kthvalue", "sort", "argsort", "median", "nanmedian", "mode", "msort")


class Call(torch.nn.Module):
    """An operator on a sample, as a function of the sample's tensors."""

    def __init__(self, info: Any, sample: Any) -> None:
        super().__init__()
        self.operator = info.op
        self.name = info.name
        leaves, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.tensors = [i for i, item in enumerate(leaves) if isinstance(item, torch.Tensor)]
        self.inputs = tuple(leaves[i].detach() for i in self.tensors)
        self.leaves = [None if isinstance(item, torch.Tensor) else item for item in leaves]
        self.eval()

    def forward(self, *inputs: torch.Tensor) -> Any:
        """The operator's result, only its tensors and numbers."""
        leaves = list(self.leaves)
        for index, item in zip(self.tensors, inputs, strict=True):
            leaves[index] = item
        value, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.operator(value, *args, **kwargs)


def fresh(items: Sequence[Any], dtype: torch.dtype | None = None) -> tuple[Any, ...]:
    """Copies of the tensors, which an operator may write to; floating-point ones widened on request."""
    made = [item.clone() for item in items]
    if dtype is not None:
        made = [item.to(WIDE.get(item.dtype, item.dtype)) for item in made]
    return tuple(made)


def arrays(value: Any) -> list[Any]:
    """The tensors and numbers of a result, as the converted model gives them."""
    found = []
    for item in pytree.tree_leaves(value):
        if isinstance(item, torch.Tensor):
            found.append(to_numpy(item))
        elif isinstance(item, (bool, int, float)):
            found.append(np.asarray(item))
    return found


def check(info: Any, sample: Any) -> tuple[str, str]:
    """Verdict and reason on one sample."""
    call = Call(info, sample)
    try:
        expected = arrays(call(*fresh(call.inputs)))
    except Exception as error:
        return "no reference", _line(error)
    try:
        model = export(call, Request(inputs=fresh(call.inputs)))
    except TracingError as error:
        return "untraceable", _line(error.__cause__ or error)
    except UnsupportedOperator as error:
        return "refused", "; ".join(f"{item.op}: {item.reason}" if item.reason else item.op for item in error.operators)
    except Exception as error:
        return "defect", f"{type(error).__name__}: {_line(error)}"
    try:
        names = [value.name for value in model.model.graph.inputs]
        feeds = dict(zip(names, [to_numpy(item) for item in call.inputs], strict=True))
        feeds = {name: model.session.prepare(name, item) for name, item in feeds.items()}
        results = model.session.run(feeds)
    except (OnnxportError, ValueError, RuntimeError, TypeError, IndexError) as error:
        return "defect", f"{model.session.backend if 'session' in model.__dict__ else 'load'}: {_line(error)}"
    again = arrays(call(*fresh(call.inputs)))
    random = of_model(model.model).random or any(
        not np.array_equal(a, b, equal_nan=is_floating(a.dtype)) for a, b in zip(expected, again)
    )
    random = random or info.name in UNINITIALISED
    verdict = compare(model, call, expected, results[: len(expected)], random=random)
    if (
        verdict[0] == "wrong"
        and info.name in AMBIGUOUS
        and _name_equal_elements(to_numpy(call.inputs[0]), expected, results)
    ):
        return "right", "another of several equal elements"
    if verdict[0] == "wrong" and any(item.dtype == torch.float64 for item in call.inputs):
        # onnxruntime's MatMul fusion rounds the factor of a double product to float32; as written the graph is right.
        results = Session(model.model, optimize=False).run(feeds)
        plain = compare(model, call, expected, results, random=random)
        return (plain[0], "in double with onnxruntime's fusions off") if plain[0] == "right" else verdict
    if verdict[0] == "wrong" and any(node.op_type == "DFT" for node in model.model.graph.all_nodes()):
        # onnxruntime's DFT of sizes that are no power of 2 is off by up to 1e-4; the reference evaluator's is not.
        names_out = [value.name for value in model.model.graph.outputs]
        plain = compare(model, call, expected, ReferenceEvaluator(model.proto).run(names_out, feeds), random=random)
        return (plain[0], "in ONNX's reference evaluator") if plain[0] == "right" else verdict
    return verdict


def arrays_of(call: Call, inputs: tuple[Any, ...], dtype: torch.dtype = torch.float32) -> list[Any]:
    """The operator's results on other inputs, `dtype` being what integers become; none where it does not run."""
    torch.set_default_dtype(dtype)
    try:
        return arrays(call(*inputs))
    except Exception:
        return []
    finally:
        torch.set_default_dtype(torch.float32)


def _nudged(inputs: Sequence[torch.Tensor], rng: np.random.Generator) -> tuple[Any, ...]:
    """The inputs, floating-point ones moved by one unit in the last place."""
    made = []
    for item in inputs:
        if item.layout == torch.strided and item.is_complex():
            pairs = to_tensor(tolerance.nudge(to_numpy(torch.view_as_real(_plain(item))), 1, rng))
            item = torch.view_as_complex(pairs.contiguous().clone(memory_format=torch.contiguous_format))
        elif item.layout == torch.strided and item.dtype.is_floating_point:
            item = to_tensor(tolerance.nudge(to_numpy(item), 1, rng))
        made.append(item.clone())
    return tuple(made)


def _plain(item: torch.Tensor) -> torch.Tensor:
    return item.resolve_conj().resolve_neg().contiguous()


def _shaped(runs: Sequence[Sequence[Any]], index: int, like: np.ndarray) -> list[np.ndarray]:
    found = [shaped_like(run[index], like) for run in runs if index < len(run)]
    return [item for item in found if item.shape == like.shape]


def compare(model: Any, call: Call, expected: list[Any], results: list[Any], *, random: bool) -> tuple[str, str]:
    """Verdict on the outputs: within the budget, exactly equal, or for random operators of one shape and type."""
    if len(results) != len(expected):
        return "wrong", f"{len(results)} outputs instead of {len(expected)}"
    if random:
        for a, b in zip((shaped_like(a, b) for a, b in zip(expected, results)), results):
            if a.shape != b.shape or a.dtype != b.dtype:
                return "wrong", f"{b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}"
        return "right", "random: shapes and types only"
    truth = arrays_of(call, fresh(call.inputs, torch.float64), torch.float64)
    rng = np.random.default_rng(0)
    nudged = [arrays_of(call, _nudged(call.inputs, rng)) for _ in range(2)]
    length = max([of_model(model.model).length, *(int(item.numel()) for item in call.inputs)])
    for index, (a, b) in enumerate(zip(expected, results)):
        eps = tolerance.epsilon(a.dtype) if is_floating(a.dtype) else 0.0
        wide = truth[index] if index < len(truth) else None
        if a.dtype.kind == "c":  # judged as the pairs that the graph gives, the budget too
            a, wide = shaped_like(a, b), None if wide is None else shaped_like(wide, b)
        if not is_floating(a.dtype):
            budget = tolerance.EXACT
        elif wide is not None and wide.shape == a.shape and wide.dtype != a.dtype and is_floating(wide.dtype):
            budget = tolerance.derived(a, eps=eps, length=length, truth=wide, moved=_shaped(nudged, index, a))
        else:
            budget = tolerance.derived(a, eps=eps, length=length, moved=_shaped(nudged, index, a))
        coarse = COARSE.get(call.name, 0.0)
        if coarse:
            budget = replace(budget, relative=coarse)
        if a.dtype == np.float32:
            numbers = [abs(item) for item in call.leaves if type(item) is float and abs(item) < 100]
            budget = replace(budget, absolute=np.maximum(budget.absolute, KERNEL_ULPS * eps * max(1.0, *numbers, 0.0)))
        found = judge(f"output {index}", a, b, budget)
        if found.verdict == "fail":
            shapes = [f"{item.dtype}{list(item.shape)}".removeprefix("torch.") for item in call.inputs]
            rest = [item for item in call.leaves if item is not None]
            figures = found.figures
            numbers = f" {figures.source!r} became {figures.converted!r} at {figures.where}" if figures else ""
            return "wrong", f"{found.reason}{numbers} on {', '.join(shapes)} {rest}"[:400]
    return "right", ""


def _name_equal_elements(x: np.ndarray, expected: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether indices that differ stand for equal elements of `x`, and all other outputs agree exactly."""
    for a, b in zip(expected, results):
        if np.array_equal(a, b):
            continue
        if a.dtype != np.int64 or a.shape != b.shape:
            return False
        for axis in range(x.ndim):
            places = [np.expand_dims(item, axis) if item.ndim < x.ndim else item for item in (a, b)]
            if all(places[0].shape[i] == x.shape[i] for i in range(x.ndim) if i != axis):
                if np.array_equal(*(np.take_along_axis(x, item, axis) for item in places)):
                    break
        else:
            return False
    return True


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]


def samples(info: Any, count: int, only: Sequence[str] = ()) -> Iterator[tuple[torch.dtype, int, Any]]:
    """Up to `count` samples of each element type that the operator takes, drawn from a fixed seed."""
    for dtype, share in DTYPES.items():
        if dtype not in info.supported_dtypes("cpu") or (only and _short(dtype) not in only):
            continue
        torch.manual_seed(0)
        np.random.seed(0)
        try:
            found = islice(info.sample_inputs("cpu", dtype, requires_grad=False), max(1, round(count * share)))
            yield from ((dtype, index, item) for index, item in enumerate(found))
        except Exception:  # some generators of samples need libraries or devices
            continue


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _late(*_: Any) -> None:
    raise TimeoutError


def run(info: Any, count: int, only: Sequence[str], emit: Any) -> None:
    """Checks an operator's samples; `emit` takes each finding."""
    signal.signal(signal.SIGALRM, _late)
    for dtype, index, sample in samples(info, count, only):
        signal.alarm(SECONDS_PER_SAMPLE)
        try:
            verdict, reason = check(info, sample)
        except TimeoutError:
            verdict, reason = "timeout", f"more than {SECONDS_PER_SAMPLE} s"
        except Exception as error:
            verdict, reason = "defect", f"{type(error).__name__}: {_line(error)}"
        finally:
            signal.alarm(0)
        emit([_short(dtype), index, verdict, reason])


def in_child(info: Any, count: int, only: Sequence[str], seconds: float) -> list[list[Any]]:
    """The findings of an operator, from a process that may crash or hang."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        with os.fdopen(writer, "w") as stream:
            run(info, count, only, lambda item: print(json.dumps(item), file=stream, flush=True))
        os._exit(0)
    os.close(writer)
    text, deadline = b"", time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            os.kill(child, signal.SIGKILL)
            break
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            break
        text += chunk
    os.close(reader)
    _, status = os.waitpid(child, 0)
    found = [json.loads(line) for line in text.decode().splitlines() if line.endswith("]")]
    if status:
        late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        found.append(
            [
                "",
                -1,
                "timeout" if late else "defect",
                f"more than {seconds:g} s" if late else f"crashed with status {status}",
            ]
        )
    return found


def title(info: Any) -> str:
    """The operator with its variant."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def main() -> None:
    """Runs a shard, or writes the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("build/opinfo.jsonl"))
    parser.add_argument("--samples", type=int, default=8, help="samples of float32; the other types get a part of it")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--ops", default="", help="only these operators, comma-separated; run again if done")
    parser.add_argument("--dtypes", default="", help="only these element types, comma-separated")
    parser.add_argument("--again", default="", help="run again the operators with these verdicts, comma-separated")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit for one operator")
    parser.add_argument("--budget", type=float, default=3600.0, help="start no operator after so many seconds")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    results: dict[str, list[list[Any]]] = {}
    if options.results.exists():
        for line in options.results.read_text().splitlines():
            name, found = json.loads(line)
            results[name] = found
    if options.report:
        report(results, options.report, [_short(dtype) for dtype in DTYPES])
        return
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)  # torch logs every dynamic dimension that it gives up
    torch.set_num_threads(1)
    aten.find("aten::add")
    OpBuilder(21).Relu(1.0)
    index, total = (int(part) for part in options.shard.split("/"))
    wanted = set(filter(None, options.ops.split(",")))
    again = set(filter(None, options.again.split(",")))
    options.results.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    for number, info in enumerate(op_db):
        name = title(info)
        if number % total != index or (wanted and name not in wanted and info.name not in wanted):
            continue
        if name in results and not wanted and verdict_of(results[name]) not in again:
            continue
        if time.monotonic() - start > options.budget:
            break
        found = in_child(info, options.samples, tuple(filter(None, options.dtypes.split(","))), options.seconds)
        with options.results.open("a") as stream:
            print(json.dumps([name, found]), file=stream)
        verdict = verdict_of(found)
        if verdict != "right":
            worst = next(
                (item for item in found if item[2] == verdict),
                next((item for item in found if item[2] != "right"), None),
            )
            print(f"{name}: {verdict} {worst}", flush=True)


if __name__ == "__main__":
    main()
