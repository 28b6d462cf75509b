"""Elementwise operators on the edges of their types: each converted, run in onnxruntime and compared with its framework.

    python -m scripts.conformance.edges --framework torch --results build/edges_torch.jsonl
    python -m scripts.conformance.edges --report docs/conformance/edges.md \
        torch=build/edges_torch.jsonl tensorflow=build/edges_tensorflow.jsonl keras=build/edges_keras.jsonl

The operators are those of `torch`, `torch.special`, `torch.nn.functional`, `tf`, `tf.math`, `tf.nn`, `tf.bitwise` and
`keras.ops` that work element by element, recognised by a trial, and some with further arguments. Each runs on NaN,
the infinities, both zeros, the greatest, least and subnormal numbers, numbers beside the places where functions
change, and the ends of whole numbers; two operands take every pair. NaN has to stand at the same places, an infinity
with the same sign, a number within what one unit in the last place of an operand changes, and whole numbers exactly.
Where the framework itself gives several answers (for one element and for many, in float64 and in the type because a
step on the way leaves it, on one processor and on another), each of them is right. In float64 so is the number itself, in 60
digits, where a framework's is off: `edge_truths.py` names the operators, and the page the numbers.
"""

from __future__ import annotations

import collections
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import ml_dtypes
import numpy as np

from scripts.conformance import edge_operators, edge_truths, workers
from scripts.conformance.edge_operators import Function
from scripts.conformance.workers import first_line, known

SECONDS = 120
VERDICTS = ("right", "refused", "wrong", "defect", "timeout", "not taken")
FLOATS = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float64": np.dtype(np.float64),
}
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "bool")
DTYPES = (*FLOATS, *WHOLE)
# Where functions change: thresholds of activations, and where exp, cosh, gamma and squares leave a type.
PLACES = (
    0.5, 1.5, 2.5, 2.0, 3.0, 6.0, 8.0, 9.0, 10.0, 16.0, 17.0, 20.0, 30.0, 35.04, 11.09, 12.0, 18.0, 37.0, 50.0, 88.0, 88.7228,
    89.0, 89.5, 90.0, 91.9, 100.0, 103.9, 104.0, 170.6, 171.7, 255.0, 256.0, 709.7, 709.79, 710.5, 713.9, 745.2, 1000.0, 1e4,
    40000.0, 65500.0, 16777217.0, 2147483647.0, 2147483648.0, 9007199254740993.0, 9.3e18, 1.8e19, 1e20, 6.9e12, 1e30, 2e38,
    1e154, 1e200, 1e-3, 1e-5, 1e-8, 1e-20, 1e-30, 0.7, 0.25,
)  # fmt: skip
# Whole numbers are divided by more than 0.
DIVIDES = re.compile("div|mod|remainder|gcd|lcm|%|//")
# Operators of which a framework ends the process on the least number by -1.
ENDS = re.compile("trunc|lcm")
# PyTorch's own relative error in float64, of an asymptotic series of four terms; other orders run long beside negative whole
# numbers.
COARSE = {"torch.polygamma(1)": 1e-8, "torch.polygamma(2)": 1e-8}
# That of PyTorch's expansion for large numbers, which ours is right beyond (mpmath's gammainc).
for _name in ("torch.igamma", "torch.igammac", "torch.special.gammainc", "torch.special.gammaincc", "tf.math.igammac"):
    COARSE[_name] = 1e-9
# Begins the reason of an operator that is right where its framework is not.
OFF = "the framework is off, "
# Those of two operands.
FEW = (0.5, 1.0, 2.0, 3.0, 2.5, 7.0, 20.0, 90.0, 255.0, 40000.0, 16777217.0, 1e20, 1e-5, 0.1)


def limits(dtype: np.dtype) -> Any:
    """The type's limits."""
    return ml_dtypes.finfo(dtype)


def floats(dtype: np.dtype, *, few: bool, flushed: bool = False) -> np.ndarray:
    """The edges of a floating-point type, each once; `flushed` without those that become subnormal, which count as 0."""
    info = limits(dtype)
    with np.errstate(all="ignore"):
        normal = float(info.smallest_normal)
        ends = [float(info.max), *((normal * 2**24,) if flushed else (normal, float(info.smallest_subnormal)))]
        middle = [float(info.max) / 2, float(info.max) ** 0.5, float(info.max) ** (1 / 3)]
        middle = middle if flushed else [normal / 4, *middle]
        places = [0.0, *ends, *(FEW if few else (*middle, *PLACES))]
        places = [item for item in places if item == 0.0 or item >= normal or not flushed]
        beside = [] if few else [1.0 - float(info.epsneg), 1.0, 1.0 + float(info.eps), 3.0 - float(info.eps) * 2]
        numbers = np.asarray([*places, *beside], np.float64)
        every = np.concatenate([numbers, -numbers, [np.inf, -np.inf, np.nan]]).astype(dtype)
    bits = every.view(f"u{dtype.itemsize}")
    return every[np.sort(np.unique(bits, return_index=True)[1])]


def wholes(name: str) -> np.ndarray:
    """The edges of whole numbers."""
    if name == "bool":
        return np.array([False, True])
    info = np.iinfo(name)
    places = (
        0,
        1,
        2,
        3,
        5,
        7,
        8,
        15,
        16,
        31,
        32,
        46341,
        63,
        64,
        127,
        128,
        255,
        2**24 + 1,
        2**31 - 1,
        2**31,
        2**31 + 1,
        2**53 + 1,
    )
    numbers = {sign * item for item in places for sign in (1, -1)} | {info.max, info.min, info.max - 1, info.min + 1}
    return np.array(sorted(item for item in numbers if info.min <= item <= info.max), name)


def operands(item: str, name: str, count: int, *, flushed: bool = False) -> list[np.ndarray]:
    """An operator's operands of a type: all pairs where there are two, without those that processors take no quotient of."""
    if count == 1:
        return [floats(FLOATS[name], few=False, flushed=flushed) if name in FLOATS else wholes(name)]
    edges = floats(FLOATS[name], few=True, flushed=flushed) if name in FLOATS else wholes(name)
    first, second = np.repeat(edges, len(edges)), np.tile(edges, len(edges))
    kept = np.ones(len(first), bool)
    if name in WHOLE and name != "bool" and DIVIDES.search(item):
        least = np.iinfo(name).min
        kept = second != 0
        if ENDS.search(item.lower()):
            kept &= ~((second == -1) & (first == least))
        kept &= ("lcm" not in item) | (least == 0) | ((first != least) & (second != least))
    elif "polynomial" in item:  # whose second operand is a number of steps
        kept = ~(np.abs(second.astype(np.float64)) > 50)
    elif (
        flushed and "igamma" in item
    ):  # TensorFlow's series end before they have settled: P and Q of 1e6 are 1.31 and 1.37
        kept = ~(np.isfinite(first) & (first > 1e4))
    elif flushed and name in FLOATS and DIVIDES.search(item.lower()):  # quotients that TensorFlow takes for 0
        with np.errstate(all="ignore"):
            kept = ~(np.abs(first / second) < limits(FLOATS[name]).smallest_normal) | (first == 0)
    return [first[kept], second[kept]]


class Framework:
    """How a framework computes on arrays, and what is converted."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.functions = edge_operators.OF[name]()

    def run(self, function: Function, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The source's result."""
        if self.name == "torch":
            from onnxport.validation.runners.pytorch import to_numpy, to_tensor

            return np.asarray(to_numpy(function(*map(to_tensor, arrays))))
        import tensorflow as tf

        return np.asarray(tf.function(function)(*map(tf.constant, arrays)))

    def tried(self, function: Function, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
        """The source's result, of operands that it may refuse: whole numbers as fractions."""
        try:
            return self.run(function, arrays)
        except Exception:
            return None

    def convert(self, function: Function, arrays: Sequence[np.ndarray]) -> Any:
        """The converted model."""
        import onnxport

        if self.name == "torch":
            import torch

            from onnxport.validation.runners.pytorch import to_tensor

            class Call(torch.nn.Module):
                def forward(self, *inputs: Any) -> Any:
                    return function(*inputs)

            return onnxport.convert(Call(), inputs=tuple(map(to_tensor, arrays)), validate=False)
        import tensorflow as tf

        from onnxport.errors import TracingError

        for length in (None, len(arrays[0])):  # some functions of Keras ask for the length
            specs = [tf.TensorSpec([length], item.dtype) for item in arrays]
            try:
                return onnxport.convert(tf.function(function, input_signature=specs), validate=False)
            except TracingError:
                if length is not None:
                    raise
        return None


def moved(arrays: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """The operands, one of them a unit in the last place up or down, or its subnormal numbers at 0."""
    for index, item in enumerate(arrays):
        if item.dtype.kind in "iub":
            continue
        for way in (np.inf, -np.inf):
            beside = np.nextafter(item, np.asarray(way, item.dtype))
            kept = np.where(np.isfinite(item) & np.isfinite(beside), beside, item)
            yield [*arrays[:index], kept, *arrays[index + 1 :]]
        tiny = np.abs(item) < limits(item.dtype).smallest_normal
        yield [*arrays[:index], np.where(tiny, np.copysign(0, item).astype(item.dtype), item), *arrays[index + 1 :]]


def differing(expected: np.ndarray, result: np.ndarray, near: Sequence[np.ndarray], coarse: float = 0.0) -> np.ndarray:
    """Whether each element differs from the source's by more than rounding; `near` are its results on moved operands."""
    if expected.dtype.kind in "iub":
        return np.asarray(expected != result)
    info = limits(expected.dtype)
    with np.errstate(all="ignore"):
        a, b = expected.astype(np.float64), result.astype(np.float64)
        around = np.stack([a, *(item.astype(np.float64) for item in near)])
        # Within a unit in the last place of the operands where the source itself is an infinity on one side of an overflow.
        great = np.abs(np.where(np.isfinite(a), a, b)) > 0.98 * float(info.max)
        overflow = np.where(np.isfinite(a) != np.isfinite(b), great & (np.sign(a) == np.sign(b)), False)
        inside = np.where(
            np.isfinite(around), around, np.where(np.isinf(around), np.copysign(float(info.max), around), a)
        )
        spread = np.max(np.abs(inside - a), axis=0)
        eps = float(info.eps)
        budget = (
            max(64 * eps, 1e-12, coarse) * np.abs(a)
            + 4 * spread
            + max(8 * eps, 3e-14, coarse / 1000)
            + 4 * float(info.smallest_normal)
        )
        wrong = np.where(
            np.isfinite(a) & np.isfinite(b),
            np.abs(a - b) > budget,
            ~((a == b) | (np.isnan(a) & np.isnan(b)) | overflow),
        )
    # A subnormal operand may count as 0.
    return wrong & ~np.any([_same(item.astype(np.float64), b) for item in near], axis=0) if near else wrong


def truthful(framework: Framework, function: Function, arrays: Sequence[np.ndarray], result: np.ndarray) -> np.ndarray:
    """Whether each element is that of the source's own run in float64, from which the source in its type is off."""
    wide = np.dtype(np.float64)
    if result.dtype.kind in "iub" or result.dtype == wide:
        return np.zeros(result.shape, bool)
    widened = [item if item.dtype.kind == "b" else item.astype(result.dtype).astype(wide) for item in arrays]
    truth = framework.tried(function, widened)
    if truth is None:
        return np.zeros(result.shape, bool)
    with np.errstate(all="ignore"):
        return ~differing(truth.astype(result.dtype), result, []) & ~np.isnan(truth)


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) | (np.isnan(a) & np.isnan(b))


def check(framework: Framework, item: str) -> Iterator[tuple[str, str, str, int, int]]:
    """Verdict, reason, number of elements and of wrong ones of an operator on a type."""
    name, _, dtype = item.rpartition(":")
    count, function = framework.functions[name]
    # TensorFlow sets the processor to take subnormal numbers for 0.
    arrays = operands(name, dtype, count, flushed=framework.name != "torch")
    try:
        expected = framework.run(function, arrays)
    except Exception:
        yield dtype, "not taken", "", 0, 0
        return
    if expected.dtype.kind == "c" or expected.shape != arrays[0].shape:
        yield dtype, "not taken", "", 0, 0
        return
    size = len(expected)
    verdict, reason, wrong = outcome(framework, name, function, arrays, expected)
    yield dtype, verdict, reason, size, wrong


def outcome(
    framework: Framework, name: str, function: Function, arrays: list[np.ndarray], expected: np.ndarray
) -> tuple[str, str, int]:
    """Verdict, reason and number of wrong elements."""
    from onnxport.errors import OnnxportError, UnsupportedOperator

    try:
        model = framework.convert(function, arrays)
    except UnsupportedOperator as error:
        return (
            "refused",
            "; ".join(f"{part.op}: {part.reason}" for part in error.operators)[:200] or first_line(error),
            0,
        )
    except OnnxportError as error:
        return "refused", first_line(error), 0
    except Exception as error:
        return "defect", f"{type(error).__name__}: {first_line(error)}", 0
    try:
        result = np.asarray(model(*arrays))
    except Exception as error:
        return "defect", f"run: {type(error).__name__}: {first_line(error)}", 0
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return (
            "wrong",
            f"{result.dtype}{list(result.shape)} instead of {expected.dtype}{list(expected.shape)}",
            len(expected),
        )
    # Whole numbers of which the result has fractions are moved in its type.
    real = expected.dtype.kind not in "iub"
    given = [item.astype(expected.dtype) if real and item.dtype.kind in "iu" else item for item in arrays]
    near = (
        []
        if name in COARSE
        else [item for part in moved(given) if (item := framework.tried(function, part)) is not None]
    )
    near = [item for item in near if item.dtype == expected.dtype]
    coarse = COARSE.get(name, 0.0)
    bad = differing(expected, result, near, coarse)
    # A framework's kernels for many elements and for few are others, which differ on edges: each of them is right.
    for copies in (1, 64):
        places = np.flatnonzero(bad)
        if len(places) > 400:
            break
        for i in places:
            alone = framework.run(function, [np.repeat(part[i], copies) for part in arrays])
            bad[i] = differing(alone[:1], result[i : i + 1], [part[i : i + 1] for part in near])[0]
    bad &= ~truthful(framework, function, arrays, result) if bad.any() else bad
    if bad.any() and name in edge_truths.OTHERWISE:
        bad &= differing(framework.run(edge_truths.OTHERWISE[name], arrays), result, near, coarse)
    off = np.zeros(bad.shape, bool)
    if bad.any() and name in edge_truths.TRUTHS and result.dtype == np.float64:
        numbers = edge_truths.truth(name, [part[bad] for part in arrays])
        off[bad] = ~differing(numbers, result[bad], []) & ~np.isnan(numbers)
    bad &= ~off
    places = np.flatnonzero(bad if bad.any() else off)
    shown = [
        f"({', '.join(_text(part[i]) for part in arrays)}): {_text(expected[i])} became {_text(result[i])}"
        for i in places[:6]
    ]
    if bad.any():
        return "wrong", "; ".join(shown), len(places)
    if off.any():
        return "right", f"{OFF}{len(places)} of {len(off)}: {'; '.join(shown)}", 0
    return "right", "" if not model.session.fallback_reason else "in the reference evaluator", 0


def _text(value: Any) -> str:
    return f"{float(value):.9g}" if np.asarray(value).dtype.kind not in "iub" else str(value)


def report(paths: dict[str, Path], place: Path) -> None:
    """The table as Markdown."""
    results = {name: known(path) for name, path in paths.items()}
    lines = [
        "# Elementwise operators on the edges of their types",
        "",
        "Written by `scripts/conformance/edges.py`: every elementwise operator of PyTorch, TensorFlow and `keras.ops`, on NaN,",
        "the infinities, both zeros, the greatest, least and subnormal numbers and the ends of whole numbers (two operands:",
        "every pair), as onnxruntime runs it with its default options.",
        "",
        "| framework | operators | operators and types | elements | wrong elements | " + " | ".join(VERDICTS) + " |",
        "|-|-|-|-|-|" + "-|" * len(VERDICTS),
    ]
    for framework, seen in results.items():
        findings = [item[0] for item in seen.values()]
        counts = collections.Counter(item[1] for item in findings)
        names = {name.rpartition(":")[0] for name, item in seen.items() if item[0][1] != "not taken"}
        taken = len(findings) - counts["not taken"]
        cells = [sum(item[index] for item in findings if len(item) > 4) for index in (3, 4)]
        numbers = [len(names), taken, *cells, *(counts[kind] for kind in VERDICTS)]
        lines.append(f"| {framework} | " + " | ".join(map(str, numbers)) + " |")
    lines += ["", "*Not taken*: the framework itself refuses the type. What is not right:", ""]
    lines += ["| operator | types | framework | verdict | of how many | example or reason |", "|-|-|-|-|-|-|"]
    for framework, seen in results.items():
        rows: dict[tuple[str, str], list[Any]] = {}
        for item, (finding, *_) in seen.items():
            if finding[1] not in ("right", "not taken"):
                rows.setdefault((item.rpartition(":")[0], finding[1]), []).append(finding)
        for (name, verdict), found in rows.items():
            types = ", ".join(item[0] for item in found)
            sizes = ", ".join(f"{item[4]} of {item[3]}" for item in found if len(item) > 4 and verdict == "wrong")
            reason = found[0][2].replace("|", "\\|")[:160]
            lines.append(f"| `{name}` | {types} | {framework} | {verdict} | {sizes} | {reason} |")
    lines += [
        "",
        "Where a framework's own float64 numbers are off, and those that it became are right by mpmath, in 60 digits:",
        "",
    ]
    lines += ["| operator | type | framework | of how many |", "|-|-|-|-|"]
    for framework, seen in results.items():
        for item, (finding, *_) in seen.items():
            if finding[1] == "right" and finding[2].startswith(OFF):
                name, _, dtype = item.rpartition(":")
                reason = finding[2].removeprefix(OFF)
                lines.append(f"| `{name}` | {dtype} | {framework} | {reason[:220]} |")
    place.write_text("\n".join(lines) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the operators, or writes the report."""
    parser = workers.parser(__doc__, "build/edges.jsonl")
    parser.add_argument("--framework", choices=sorted(edge_operators.OF), default="torch")
    parser.add_argument("--types", default=",".join(DTYPES))
    parser.add_argument(
        "runs", nargs="*", help="of a report, the results of each framework: torch=build/edges_torch.jsonl"
    )
    options = parser.parse_args(arguments)
    if options.report:
        report({name: Path(path) for name, _, path in (run.partition("=") for run in options.runs)}, options.report)
        return
    warnings.simplefilter("ignore")
    framework = Framework(options.framework)
    if options.work is not None:
        workers.work(options.work, lambda item: check(framework, item))
        return
    wanted = set(filter(None, options.match.split(",")))
    names = [name for name in framework.functions if not wanted or name in wanted]
    items = [f"{name}:{dtype}" for name in names for dtype in options.types.split(",")]
    options.match = ",".join(items) if wanted else ""
    todo = workers.remaining(options, items)
    more = ("--framework", options.framework)
    workers.supervise("scripts.conformance.edges", todo, options.results, SECONDS, *more)


if __name__ == "__main__":
    main()
