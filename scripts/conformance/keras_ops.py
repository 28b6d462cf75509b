"""Every function of `keras.ops` as a layer of a functional model, on the backend that ``KERAS_BACKEND`` names.

    KERAS_BACKEND=torch python -m scripts.conformance.keras_ops --results build/keras_ops_torch.jsonl
    python -m scripts.conformance.keras_ops --report docs/conformance/keras_ops.md \
        tensorflow=build/keras_ops_tensorflow.jsonl torch=build/keras_ops_torch.jsonl

`keras.ops` is walked. The first of some patterns of arguments that a function takes symbolically becomes a model with an open
batch, which is converted and proved. What takes none of them, or gives no tensor, is listed.
"""

from __future__ import annotations

import collections
import inspect
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from scripts.conformance import workers
from scripts.conformance.workers import first_line, known

SECONDS = 120
VERDICTS = ("right", "refused", "wrong", "defect", "timeout", "no model")
RNG = np.random.default_rng(0)
ROWS = {
    "x": RNG.uniform(0.1, 0.9, (2, 4, 4)).astype(np.float32),
    "y": RNG.uniform(0.1, 0.9, (2, 4, 4)).astype(np.float32),
    "i": RNG.integers(0, 4, (2, 4, 4)).astype(np.int32),
    "j": RNG.integers(1, 4, (2, 4, 4)).astype(np.int32),
    "b": RNG.integers(0, 2, (2, 4, 4)).astype(bool),
    "p": RNG.uniform(0, 1, (2, 9, 8, 3)).astype(np.float32),
    "k": RNG.uniform(-1, 1, (3, 3, 3, 3)).astype(np.float32),
    "s": np.stack([np.eye(4) * 2 + 0.1, np.eye(4) * 3 + 0.2]).astype(np.float32),
    "l": RNG.integers(0, 4, (2, 4)).astype(np.int32),
    "v": RNG.uniform(0.1, 0.9, (2, 4)).astype(np.float32),
    "q": RNG.uniform(0, 1, (2, 4, 6, 8)).astype(np.float32),
    "w": RNG.uniform(0, 1, (2, 4, 5, 6, 2)).astype(np.float32),
    "h": RNG.uniform(0, 1, (2, 4, 2, 3)).astype(np.float32),
}
# Arguments for functions whose parameters the patterns below do not meet: names of ROWS stand for inputs.
OWN: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "broadcast_to": (("x",), {"shape": (2, 4, 4)}),
    "cast": (("x", "int32"), {}),
    "conv": (("p",), {"kernel": "k"}),
    "conv_transpose": (("p", "k", 2), {"padding": "same"}),
    "depthwise_conv": (("p",), {"kernel": ROWS["k"][..., :2]}),
    "separable_conv": (("p",), {"depthwise_kernel": ROWS["k"][..., :1], "pointwise_kernel": ROWS["k"][:1, :1]}),
    "max_pool": (("p", 2), {"strides": 2}),
    "average_pool": (("p", 2), {"strides": 2}),
    "adaptive_average_pool": (("p", 2), {"data_format": "channels_last"}),
    "adaptive_max_pool": (("p", 2), {"data_format": "channels_last"}),
    "searchsorted": ((np.array([0.2, 0.5, 0.8], np.float32), "v"), {}),
    "space_to_depth": (("q", 2), {}),
    "depth_to_space": (("q", 2), {}),
    "threshold": (("x", 0.5, 0.0), {}),
    "unravel_index": (("l", (2, 2)), {}),
    "slice_update": (("x", (0, 1, 0), "y"), {}),
    "vander": (("v",), {}),
    "correlate": ((np.array([0.2, 0.5, 0.8], np.float32), np.array([1.0, 2.0], np.float32)), {}),
    "psnr": (("x", "y", 1.0), {}),
    "image.ssim": (("p", "p"), {"max_val": 1.0}),
    "image.extract_patches_3d": (("w", 2), {}),
    "select": ((["b", "b"], ["x", "y"]), {"default": 0.0}),
    "lu_factor": (("s",), {}),
    "kron": ((ROWS["v"], ROWS["v"]), {}),
    "einsum": (("abc,acd->abd", "x", "y"), {}),
    "expand_dims": (("x", 1), {}),
    "moveaxis": (("x", 1, 2), {}),
    "one_hot": (("l", 5), {}),
    "multi_hot": (("l", 5), {}),
    "pad": (("x", ((0, 0), (1, 2), (0, 1))), {}),
    "repeat": (("x", 2), {"axis": 1}),
    "reshape": (("x", (-1, 2, 8)), {}),
    "slice": (("x", (0, 1, 0), (2, 2, 3)), {}),
    "split": (("x", 2), {"axis": 1}),
    "array_split": (("x", 2), {"axis": 1}),
    "swapaxes": (("x", 1, 2), {}),
    "take": (("x", [0, 2]), {"axis": 1}),
    "take_along_axis": (("x", "i"), {"axis": 1}),
    "tile": (("x", (1, 2, 1)), {}),
    "top_k": (("x", 2), {}),
    "in_top_k": ((np.array([1, 2]), "v"), {"k": 2}),
    "where": (("b", "x", "y"), {}),
    "clip": (("x", 0.2, 0.6), {}),
    "quantile": (("x", 0.3), {"axis": 1}),
    "percentile": (("x", 30.0), {"axis": 1}),
    "roll": (("x", 1), {"axis": 1}),
    "rot90": (("x",), {"axes": (1, 2)}),
    "segment_sum": ((ROWS["v"], [0, 1]), {"num_segments": 2}),
    "segment_max": ((ROWS["v"], [0, 1]), {"num_segments": 2}),
    "batch_normalization": (("x", np.zeros(4, "float32"), np.ones(4, "float32"), -1), {}),
    "normalize": (("x",), {"axis": 1}),
    "norm": (("x",), {"axis": 1}),
    "dot_product_attention": (("h", "h", "h"), {}),
    "ctc_decode": (("x", [4, 4]), {}),
    "ctc_loss": ((ROWS["l"][:, :2], "x", [2, 2], [4, 4]), {}),
    "binary_crossentropy": (("x", "y"), {}),
    "categorical_crossentropy": (("x", "y"), {}),
    "sparse_categorical_crossentropy": (("l", "x"), {}),
    "fft2": ((("x", "y"),), {}),
    "stft": (("v", 4, 2, 4), {}),
    "extract_sequences": (("v", 2, 1), {}),
    "unfold": ((np.moveaxis(ROWS["p"], -1, 1), 2), {}),
    "image.resize": (("p", (5, 6)), {}),
    "image.extract_patches": (("p", 3), {}),
    "image.affine_transform": (("p", [1.0, 0.1, 0, 0, 0.9, 0, 0, 0]), {}),
    "image.map_coordinates": ((ROWS["p"][0, ..., 0], RNG.uniform(0, 7, (2, 5)).astype("float32")), {"order": 1}),
    "image.crop_images": (("p", 1, 1), {"target_height": 4, "target_width": 3}),
    "image.pad_images": (("p", 1, 1), {"target_height": 12, "target_width": 11}),
    "image.gaussian_blur": (("p",), {}),
    "image.elastic_transform": (("p",), {}),
    "image.scale_and_translate": (
        ("p", (2, 5, 6, 3)),
        {"scale": [0.5, 0.7], "translation": [0.0, 0.0], "spatial_dims": (1, 2), "method": "linear"},
    ),
}
# Patterns that are tried in order.
PATTERNS: tuple[tuple[Any, ...], ...] = (
    ("x",),
    ("x", "y"),
    ("i",),
    ("i", "j"),
    ("s",),
    ("s", "x"),
    ("b",),
    ("b", "b"),
    ("p",),
    (("x", "y"),),
    ("x", 1),
    ("i", 1),
    ("v", "v"),
    ("v",),
)
LEFT_OUT = frozenset(
    "arange array associative_scan cond convert_to_numpy convert_to_tensor custom_gradient device dtype empty eye fori_loop "
    "full get_item hamming hanning bartlett blackman kaiser identity is_tensor linspace logspace ones scan shape switch tri "
    "unstack vectorize vectorized_map while_loop zeros map rearrange result_type ndim size saturate_cast histogram "
    "meshgrid geomspace indices".split()
)


def functions() -> Iterator[tuple[str, Any]]:
    """Every function by its name; those of rooms by the room's too."""
    import keras

    for room in (keras.ops, keras.ops.image, keras.ops.linalg, keras.ops.nn, keras.ops.numpy):
        short = room.__name__.rpartition(".")[2]
        for name, item in sorted(vars(room).items()):
            if not inspect.isfunction(item) or name.startswith("_") or name in LEFT_OUT:
                continue
            yield (f"image.{name}" if short == "image" else name), item


def model_of(name: str, function: Any) -> tuple[Any, list[Any]] | None:
    """A model of one call, and arrays for its inputs; None where no pattern fits."""
    import keras

    tried = [OWN[name]] if name in OWN else [(pattern, {}) for pattern in PATTERNS]
    for positional, keywords in tried:
        inputs: dict[str, Any] = {}
        arrays: list[Any] = []

        def given(item: Any, inputs: dict[str, Any] = inputs, arrays: list[Any] = arrays) -> Any:
            if (
                isinstance(item, (tuple, list))
                and item
                and all(isinstance(part, str) and part in ROWS for part in item)
            ):
                return type(item)(given(part) for part in item)
            if not isinstance(item, str) or item not in ROWS:
                return item
            if item == "k":
                return ROWS["k"]
            if item not in inputs:
                inputs[item] = keras.Input(ROWS[item].shape[1:], dtype=str(ROWS[item].dtype), name=item)
                arrays.append(ROWS[item])
            return inputs[item]

        try:
            result = function(*map(given, positional), **{key: given(item) for key, item in keywords.items()})
            model = keras.Model(list(inputs.values()), result)
            model([keras.ops.convert_to_tensor(item) for item in arrays])
        except Exception:
            continue
        if all(hasattr(item, "shape") for item in keras.tree.flatten(result)):
            return model, arrays
    return None


def check(name: str, function: Any) -> tuple[str, str]:
    """Verdict and reason on one function."""
    import onnxport
    from onnxport.errors import OnnxportError, TracingError, UnsupportedOperator, ValidationError

    case = model_of(name, function)
    if case is None:
        return "no model", ""
    try:
        made = onnxport.convert(case[0], inputs=tuple(case[1]))
    except UnsupportedOperator as error:
        return "refused", "; ".join(f"{item.op}: {item.reason}" for item in error.operators) or first_line(error)
    except TracingError as error:
        return "refused", first_line(error)
    except ValidationError as error:
        return "wrong", " ".join(str(error).split())[:300]
    except (OnnxportError, Exception) as error:
        return "defect", f"{type(error).__name__}: {first_line(error)}"
    return ("right", made.report.verdict) if made.report.verdict in ("passed", "unproved") else ("wrong", "")


def report(paths: dict[str, Path], place: Path) -> None:
    """The table as Markdown."""
    import keras

    results = {backend: known(path) for backend, path in paths.items()}
    lines = [
        "# Functions of keras.ops",
        "",
        f"Written by `scripts/conformance/keras_ops.py` with Keras {keras.__version__}: every function of `keras.ops` as a",
        "layer of a functional model with an open batch, converted and proved on each backend.",
        "",
        "| backend | functions | " + " | ".join(VERDICTS) + " |",
        "|-|-|" + "-|" * len(VERDICTS),
    ]
    for backend, seen in results.items():
        counts = collections.Counter(item[0][1] for item in seen.values())
        lines.append(f"| {backend} | {len(seen)} | " + " | ".join(str(counts[kind]) for kind in VERDICTS) + " |")
    lines += [
        "",
        "- *no model*: it takes none of the script's patterns of arguments symbolically, or gives no tensor.",
        "- *wrong*: the proof fails, and `convert` raises an error; as where equal values have an order of the library's choice,",
        "  or a matrix that has no inverse an infinity in one library and a NaN in the other.",
        "- A backend whose run ended early has fewer functions.",
        "",
    ]
    lines += ["| function | backend | verdict | reason |", "|-|-|-|-|"]
    for name in dict.fromkeys(name for seen in results.values() for name in seen):
        for backend, seen in results.items():
            _, verdict, reason = seen.get(name, [("", "right", "")])[0]
            if verdict != "right":
                lines.append(f"| `{name}` | {backend} | {verdict} | {reason.replace('|', chr(92) + '|')[:200]} |")
    place.write_text("\n".join(lines) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the functions, or writes the report."""
    parser = workers.parser(__doc__, "build/keras_ops.jsonl")
    parser.add_argument("runs", nargs="*", help="of a report, the results of each backend: torch=build/torch.jsonl")
    options = parser.parse_args(arguments)
    if options.report:
        report({name: Path(path) for name, _, path in (run.partition("=") for run in options.runs)}, options.report)
        return
    warnings.simplefilter("ignore")
    every = dict(functions())
    if options.work is not None:
        from onnxport.converters.to_onnx.keras_elsewhere import processes_kept

        with processes_kept():
            workers.work(options.work, lambda name: [("", *check(name, every[name]))])
        return
    workers.supervise(
        "scripts.conformance.keras_ops", workers.remaining(options, list(every)), options.results, SECONDS
    )


if __name__ == "__main__":
    main()
