"""Runs ONNX's own backend tests through an importer and writes docs/conformance/onnx_backend.md.

python scripts/conformance/backend.py --framework pytorch [--match REGEX] [--verbose]
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import re
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "conformance" / "onnx_backend.md"
FIGURES = ROOT / "docs" / "conformance" / "onnx_backend.json"
# How the figures of `onnx_backend.py` are named among those of this script.
DEFAULT_PROOF = "default proof, "
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")

# Random numbers can't be equal to those that another generator drew; types and shapes are compared.
RANDOM = re.compile(
    r"^test_(bernoulli.*|training_dropout(?!.*zero_ratio).*|randomnormal.*|randomuniform.*|multinomial.*)$"
)


@dataclass
class Outcome:
    """How one test ended: ``passed``, ``unsupported`` (refused by name), ``wrong`` or ``error``."""

    name: str
    verdict: str
    reason: str = ""


@dataclass
class Case:
    """A model and its sets of inputs and outputs."""

    name: str
    kind: str
    model: onnx.ModelProto
    data: list[tuple[list[Any], list[Any]]] = field(default_factory=list)
    rtol: float = 1e-3
    atol: float = 1e-7


def cases(match: str = "") -> Iterator[Case]:
    """The tests that the onnx package ships, in its order."""
    from onnx.backend.test.loader import load_model_tests

    pattern = re.compile(match)
    for kind in KINDS:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = load_model_tests(kind=kind)
        for test in found:
            if not pattern.search(test.name):
                continue
            if test.model is not None:
                yield Case(test.name, kind, test.model, list(test.data_sets or ()), test.rtol, test.atol)
            elif test.model_dir and os.path.exists(os.path.join(test.model_dir, "model.onnx")):
                model = onnx.load(os.path.join(test.model_dir, "model.onnx"))
                yield Case(test.name, kind, model, list(_stored(test.model_dir, model)), test.rtol, test.atol)


def operators(models: Iterable[onnx.ModelProto]) -> dict[tuple[str, str], set[int]]:
    """Which versions of which operators (domain and name) models hold, in subgraphs too."""
    versions: dict[tuple[str, str], set[int]] = {}
    for model in models:
        opsets = {("" if item.domain == "ai.onnx" else item.domain): item.version for item in model.opset_import}
        stack = list(model.graph.node)
        while stack:
            node = stack.pop()
            for attribute in node.attribute:
                stack.extend(attribute.g.node)
                stack.extend(inner for graph in attribute.graphs for inner in graph.node)
            if onnx.defs.has(node.op_type, node.domain):
                version = opsets.get(node.domain, 1)
                since = onnx.defs.get_schema(node.op_type, version, node.domain).since_version
                versions.setdefault((node.domain, node.op_type), set()).add(since)
    return versions


def without_shapes(model: onnx.ModelProto, keep_ranks: bool) -> onnx.ModelProto:
    """The model with the sizes, or the ranks too, of inputs and values left open."""
    found = onnx.ModelProto.FromString(model.SerializeToString())
    for value in [*found.graph.input, *found.graph.output, *found.graph.value_info]:
        if value.type.WhichOneof("value") != "tensor_type" or not value.type.tensor_type.HasField("shape"):
            continue
        if keep_ranks:
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
        else:
            value.type.tensor_type.ClearField("shape")
    return found


def _stored(folder: str, model: onnx.ModelProto) -> Iterator[tuple[list[Any], list[Any]]]:
    initialized = {item.name for item in model.graph.initializer}
    inputs = [item for item in model.graph.input if item.name not in initialized]
    for place in sorted(glob.glob(os.path.join(folder, "test_data_set_*"))):
        sides = []
        for side, values in (("input", inputs), ("output", model.graph.output)):
            files = [os.path.join(place, f"{side}_{i}.pb") for i in range(len(values))]
            sides.append([_read(file, value.type) for file, value in zip(files, values, strict=True)])
        yield sides[0], sides[1]


def _read(file: str, kind: onnx.TypeProto) -> Any:
    content = Path(file).read_bytes()
    match kind.WhichOneof("value"):
        case "sequence_type":
            return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(content))
        case "optional_type":
            return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(content))


def run(case: Case, importer: Any) -> Outcome:
    """One test through an importer: ``importer.build(model)`` and ``importer.call(built, inputs)``."""
    from onnxport.errors import UnsupportedOperator

    try:
        built = importer.build(ir.from_proto(case.model))
    except UnsupportedOperator as error:
        return Outcome(
            case.name,
            "unsupported",
            "; ".join(f"{i.op}: {i.reason or 'no mapping'}" for i in error.operators) or str(error),
        )
    except Exception as error:
        return Outcome(case.name, "error", _told(error))
    for inputs, expected in case.data:
        declared = [value.type for value in case.model.graph.output]
        types = [value.type for value in case.model.graph.input]
        try:
            got = importer.call(built, [_given(item, kind) for item, kind in zip(inputs, types, strict=False)])
        except UnsupportedOperator as error:
            return Outcome(case.name, "unsupported", str(error))
        except Exception as error:
            return Outcome(case.name, "error", _told(error))
        if len(got) != len(expected):
            return Outcome(case.name, "wrong", f"{len(got)} outputs, {len(expected)} expected")
        for i, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
            theirs = _given(theirs, declared[i])
            difference = compare(ours, theirs, case, random=bool(RANDOM.match(case.name)))
            if difference:
                return Outcome(case.name, "wrong", f"output {i}: {difference}")
    return Outcome(case.name, "passed")


def _told(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    said = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {said} ({Path(last.filename).name}:{last.lineno})"


def _given(item: Any, kind: onnx.TypeProto) -> Any:
    if isinstance(item, onnx.TensorProto):
        item = onnx.numpy_helper.to_array(item)
    if isinstance(item, list):
        return [_given(part, kind) for part in item]
    if item is None:
        return None
    array = np.asarray(item)
    return array.astype(object) if array.dtype.kind in "US" else array


def compare(ours: Any, theirs: Any, case: Case, *, random: bool = False) -> str:
    """What differs between a result and what the test expects; empty where nothing does."""
    if theirs is None or ours is None:
        return "" if ours is theirs else f"{ours!r} instead of {theirs!r}"
    if isinstance(theirs, list):
        if not isinstance(ours, (list, tuple)) or len(ours) != len(theirs):
            return "another number of sequence items"
        return next((told for a, b in zip(ours, theirs, strict=True) if (told := compare(a, b, case))), "")
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape:
        return f"shape {ours.shape} instead of {theirs.shape}"
    if theirs.dtype.kind == "O" or ours.dtype.kind == "O":
        same = np.array_equal(_text(ours), _text(theirs))
        return "" if same else "other strings"
    if theirs.dtype.kind in "biuf" and str(theirs.dtype) in _NATIVE and ours.dtype != theirs.dtype:
        return f"dtype {ours.dtype} instead of {theirs.dtype}"
    if random:
        return ""
    if theirs.dtype.kind in "biu":
        return "" if np.array_equal(ours, theirs) else _worst(ours.astype(np.float64), theirs.astype(np.float64))
    wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
    a, b = ours.astype(wide), theirs.astype(wide)
    # The tests' absolute tolerance knows nothing of the type's precision: a few units in the last place of the output's
    # scale are always allowed (see docs/validation.md).
    finite = b[np.isfinite(b)]
    scale = float(np.abs(finite).max()) if finite.size else 0.0
    atol = max(case.atol, _ULPS * _EPSILON.get(str(theirs.dtype), 0.0) * scale)
    close = np.allclose(a, b, rtol=case.rtol, atol=atol, equal_nan=True)
    return "" if close else _worst(a, b)


_ULPS = 4
_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-23}
_NATIVE = {
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
}


def _text(array: np.ndarray) -> list[str]:
    return [item.decode() if isinstance(item, bytes) else str(item) for item in array.ravel()]


def _worst(a: np.ndarray, b: np.ndarray) -> str:
    if not a.size:
        return "empty"
    with np.errstate(all="ignore"):
        gap = np.nan_to_num(np.abs(a - b), nan=np.inf)
    place = np.unravel_index(int(np.argmax(gap)), gap.shape)
    return f"{a[place]!r} instead of {b[place]!r} at {tuple(int(i) for i in place)}, {int((gap > 1e-3).sum())} of {gap.size}"


class PyTorch:
    """The PyTorch importer."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        from onnxport.converters.from_onnx import pytorch

        self.build = pytorch.build

    def call(self, built: Any, inputs: list[Any]) -> list[Any]:
        """What the built model gives, as NumPy arrays."""
        import torch

        from onnxport.opset_maps.from_onnx.pytorch.dtypes import from_numpy

        def tensor(item: Any) -> Any:
            if isinstance(item, list):
                return [tensor(part) for part in item]
            if item is None or item.dtype == object:
                return item
            if item.dtype in (np.uint16, np.uint32, np.uint64):
                return torch.tensor(item)
            return from_numpy(item)

        with torch.no_grad():
            result = built(*[tensor(item) for item in inputs])
        return [_array(item) for item in (result if isinstance(result, tuple) else (result,))]


def _array(item: Any) -> Any:
    import torch

    if isinstance(item, (list, tuple)):
        return [_array(part) for part in item]
    if isinstance(item, torch.Tensor):
        plain = item.detach()
        narrow = plain.dtype in (torch.bfloat16,) or (plain.dtype.is_floating_point and plain.dtype.itemsize == 1)
        return (plain.float() if narrow else plain).numpy()
    return item


class TensorFlow:
    """The TensorFlow importer."""

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        from onnxport.converters.from_onnx import tensorflow

        self.build = tensorflow.build

    def call(self, built: Any, inputs: list[Any]) -> list[Any]:
        """What the built model gives, as NumPy arrays."""
        result = built(*inputs)
        return [_numpy(item) for item in (result if isinstance(result, tuple) else (result,))]


class Keras(TensorFlow):
    """The Keras importer."""

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        from onnxport.converters.from_onnx import keras

        self.build = keras.build


def _numpy(item: Any) -> Any:
    if isinstance(item, (list, tuple)):
        return [_numpy(part) for part in item]
    return item.numpy() if hasattr(item, "numpy") else item


IMPORTERS = {"pytorch": PyTorch, "tensorflow": TensorFlow, "keras": Keras}


def write_page(framework: str, outcomes: list[Outcome]) -> None:
    """Puts the figures of one framework on the page, keeping those of the others."""
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    figures[framework] = {
        "counts": dict(Counter(item.verdict for item in outcomes)),
        "others": {item.name: f"{item.verdict}: {item.reason}" for item in outcomes if item.verdict != "passed"},
    }
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
    own = {name: entry for name, entry in figures.items() if not name.startswith(DEFAULT_PROOF)}
    drawn = {name: entry for name, entry in figures.items() if name.startswith(DEFAULT_PROOF)}
    lines = [
        "# ONNX's backend tests through the importers",
        "",
        f"onnx {onnx.__version__}. Figures in `onnx_backend.json` beside this page.",
        "",
        "## On the tests' own inputs",
        "",
        "Written by `scripts/conformance/backend.py`. Of tests that draw random numbers only types and shapes are compared.",
        "",
        *_table(own, ("passed", "unsupported", "wrong", "error")),
        "",
        "## Default proof, drawn inputs",
        "",
        "Written by `scripts/conformance/onnx_backend.py`: the node tests, converted with the default proof, without inputs.",
        "The source runs in onnxruntime, or in onnx.reference where that does not load it or runs it on no drawn inputs.",
        "",
        *_table(drawn, ("passed", "unproved", "refused", "unsupported")),
    ]
    for name, entry in sorted(figures.items()):
        if not entry["others"]:
            continue
        lines += ["", f"## {name}: not passed", ""]
        grouped: dict[str, list[str]] = {}
        for test, reason in sorted(entry["others"].items()):
            grouped.setdefault(reason, []).append(test)
        lines += [f"- {reason}: {', '.join(tests)}" for reason, tests in sorted(grouped.items())]
    PAGE.write_text("\n".join(lines) + "\n")


def _table(figures: dict[str, Any], verdicts: tuple[str, ...]) -> list[str]:
    lines = [f"| framework | {' | '.join(verdicts)} |", f"|{'-|' * (len(verdicts) + 1)}"]
    for name, entry in sorted(figures.items()):
        counts = [entry["counts"].get(key, 0) for key in verdicts]
        lines.append(f"| {name.removeprefix(DEFAULT_PROOF)} | " + " | ".join(map(str, counts)) + " |")
    return lines


def main() -> int:
    """Runs the tests; 1 where one is wrong or raises what is no refusal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", choices=sorted(IMPORTERS), required=True)
    parser.add_argument("--match", default="", help="only tests whose name has this")
    parser.add_argument("--shapes", choices=("static", "dynamic", "unknown"), default="static")
    parser.add_argument("--verbose", action="store_true", help="print each test that did not pass")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    importer = IMPORTERS[options.framework]()
    outcomes = []
    for case in cases(options.match):
        if options.shapes != "static":
            case.model = without_shapes(case.model, options.shapes == "dynamic")
        outcomes.append(run(case, importer))
        if options.verbose and outcomes[-1].verdict != "passed":
            print(f"{outcomes[-1].verdict:12} {outcomes[-1].name}: {outcomes[-1].reason}"[:300], flush=True)
    counts = Counter(item.verdict for item in outcomes)
    print(dict(counts))
    if not options.match:
        suffix = "" if options.shapes == "static" else f", {options.shapes} shapes"
        write_page(f"{options.framework}{suffix}", outcomes)
    return int(bool(counts["wrong"] or counts["error"]))


if __name__ == "__main__":
    sys.exit(main())
