"""TFLite files that TensorFlow's own converter writes, through the exporter and its proof against TensorFlow's interpreter.

    python -m scripts.conformance.tflite --results build/tflite.jsonl
    python -m scripts.conformance.tflite --results build/tflite.jsonl --report docs/conformance/tflite.md

The files are of the calls of `tensorflow_draws` for every operator of `tf.raw_ops`, as far as the converter writes them with
builtin operators alone (of float32 ones a second file with 8-bit numbers inside), and of architectures of `keras.applications`.
Each is converted as `onnxport.convert` does it, proof included.
"""

from __future__ import annotations

import collections
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from scripts.conformance import workers
from scripts.conformance.workers import first_line

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

SECONDS, DRAWS, SIZE = 240, 4, 96
ARCHITECTURES = (
    "MobileNet MobileNetV2 MobileNetV3Small EfficientNetB0 ResNet50V2 DenseNet121 NASNetMobile Xception".split()
)
VERDICTS = ("right", "unproved", "refused", "source fails", "wrong", "defect", "timeout")


def names() -> list[str]:
    """Architectures, and the operators that can stand in an inference graph."""
    from scripts.conformance.tensorflow_ops import names as operators

    return [*(f"keras.{name}" for name in ARCHITECTURES), *operators()]


def whole(converter: Any, inputs: Sequence[Any]) -> None:
    """Asks for 8-bit numbers inside, with ranges from the inputs."""
    import tensorflow as tf

    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: iter([list(inputs)])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]


def judged(path: Path, inputs: Sequence[Any] | None) -> tuple[str, str]:
    """Verdict and reason on one file."""
    import onnxport
    from onnxport.errors import InvalidInputError, OnnxportError, UnsupportedOperator, ValidationError

    try:
        verdict = onnxport.convert(path, inputs=tuple(inputs) if inputs else None).report.verdict
    except UnsupportedOperator as error:
        reasons = [f"{item.op}: {item.reason}" if item.reason else item.op for item in error.operators]
        return "refused", ("; ".join(reasons) or first_line(error)).replace(str(path), path.name)
    except ValidationError as error:
        unable = [item.error for item in error.report.sets if item.error]
        return ("defect", unable[0]) if unable else ("wrong", str(error)[-300:])
    except InvalidInputError as error:
        return "source fails", first_line(error)
    except (OnnxportError, Exception) as error:
        return "defect", f"{type(error).__name__}: {first_line(error)}"
    return ("right" if verdict == "passed" else verdict), ""


def findings(name: str) -> Iterator[tuple[str, str, str]]:
    """The verdicts on an item's files; the label has the builtin operators of the file."""
    for label, path, inputs in files(name):
        yield f"{label}: {' '.join(codes(path))}", *judged(path, inputs)


def codes(path: Path) -> list[str]:
    """The builtin operators of a file."""
    from onnxport.tracing.tensorflow import load

    model = load(path)
    graphs = (model.graph(index) for index in range(model.graphs))
    return sorted({operator.code for graph in graphs for operator in graph.operators})


def files(name: str) -> Iterator[tuple[str, Path, Sequence[Any] | None]]:
    """The files of an item: label, place, and inputs where they can't be drawn from the signature."""
    import keras
    import tensorflow as tf

    from scripts.conformance.tensorflow_draws import draws

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        if name.startswith("keras."):
            keras.utils.set_random_seed(0)
            make = getattr(keras.applications, name.removeprefix("keras."))
            model = make(weights=None, input_shape=(SIZE, SIZE, 3), classes=10)
            image = keras.random.uniform((1, SIZE, SIZE, 3)).numpy()
            for label in ("float32", "hybrid", "int8"):
                converter = tf.lite.TFLiteConverter.from_keras_model(model)
                if label == "hybrid":
                    converter.optimizations = [tf.lite.Optimize.DEFAULT]
                if label == "int8":
                    whole(converter, [image])
                if is_written(converter, path):
                    yield label, path, None
            return
        for draw in islice(draws(name), DRAWS):
            specs = [tf.TensorSpec(item.shape, item.dtype) for item in draw.inputs]
            function = tf.function(draw.function, input_signature=specs, autograph=False)
            for label in (draw.label, f"{draw.label} int8"):
                if label != draw.label and not all(item.dtype == "float32" for item in draw.inputs):
                    continue
                converter = tf.lite.TFLiteConverter.from_concrete_functions(
                    [function.get_concrete_function()], function
                )
                if label != draw.label:
                    whole(converter, draw.inputs)
                if draw.inputs and is_written(converter, path):
                    yield label, path, draw.inputs


def is_written(converter: Any, path: Path) -> bool:
    """Whether TensorFlow's converter writes the file with builtin operators."""
    try:
        with redirect_stdout(StringIO()):
            path.write_bytes(converter.convert())
    except Exception:  # it has no builtin operator for something, in any words
        return False
    return True


def work(todo: Sequence[str]) -> None:
    """Checks items and prints a line for each."""
    warnings.simplefilter("ignore")
    workers.work(todo, findings)


def report(results: dict[str, list[Any]], path: Path) -> None:
    """The table as Markdown: by builtin operator, the verdicts on the files that hold it."""
    import tensorflow as tf

    from onnxport.tracing.tensorflow_lite.operators import TABLE

    written = [item for found in results.values() for item in found]
    by_code: dict[str, list[Any]] = collections.defaultdict(list)
    for item in written:
        for code in item[0].rpartition(": ")[2].split():
            by_code[code].append(item)
    verdicts = collections.Counter(item[1] for item in written)
    lines = [
        "# TFLite's operators",
        "",
        f"Written by `scripts/conformance/tflite.py` with TensorFlow {tf.__version__}: files that its converter writes of calls",
        "of `tf.raw_ops` with builtin operators alone, in float32 and with 8-bit numbers inside, and of architectures of",
        "`keras.applications`. *right*: proved against `tf.lite.Interpreter`; *source fails*: the interpreter can't run it.",
        "",
        f"{sum(bool(found) for found in results.values())} of the {len(results)} operators and architectures tried gave files:",
        "",
        *workers.counts(VERDICTS, {"files": verdicts}, {}),
        "",
        "| architecture | verdicts |",
        "|-|-|",
    ]
    for name, found in results.items():
        if name.startswith("keras."):
            each = ", ".join(f"{label.partition(':')[0]} {verdict}" for label, verdict, _ in found)
            lines.append(f"| {name.removeprefix('keras.')} | {each} |")
    lines += ["", "| builtin operator | files | right | others |", "|-|-|-|-|"]
    for code, items in sorted(by_code.items()):
        right = sum(item[1] == "right" for item in items)
        others = collections.Counter(
            " ".join(f"{item[1]}: {item[2]}".split())[:120].replace("|", "\\|") for item in items if item[1] != "right"
        )
        lines.append(f"| `{code}` | {len(items)} | {right} | {next(iter(others), '')} |")
    missing = sorted(name for name in TABLE if name not in by_code)
    lines += [
        "",
        "Of 0 RSQRT is NaN in XNNPACK, the interpreter's default, and infinite in TFLite's own kernels and in ONNX.",
    ]
    lines += ["", f"With a form, but in none of these files ({len(missing)}): {', '.join(missing)}."]
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Runs a shard, or writes the report."""
    workers.run("scripts.conformance.tflite", __doc__, names, work, report, SECONDS)


if __name__ == "__main__":
    main()
