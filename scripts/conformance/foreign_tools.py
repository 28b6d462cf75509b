"""Files that tools made of other files of the corpus: onnxruntime's optimisers and quantisers, float16, onnxslim."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scripts.conformance.foreign_files import Write, read_inputs

Tool = Callable[[Path, Path, str], None]  # source, destination, and the word that picks a form
DYNAMO, SCRIPT, KERAS = "torch.onnx dynamo", "torch.onnx TorchScript", "tf2onnx"
BASES = (
    (DYNAMO, "transformer_bert"), (SCRIPT, "transformer_bert"), (SCRIPT, "transformer_roberta"), (DYNAMO, "transformer_vit"),
    (SCRIPT, "transformer_vit"), (SCRIPT, "transformer_gpt2"), (DYNAMO, "transformer_gpt2"), (DYNAMO, "transformer_t5"),
    (DYNAMO, "transformer_llama"), (SCRIPT, "transformer_distilbert"), (DYNAMO, "transformer_swin"), (SCRIPT, "transformer_clip"),
    (DYNAMO, "plain_small_resnet"), (SCRIPT, "plain_small_mobilenet"), (SCRIPT, "plain_lstm"), (SCRIPT, "plain_norms"),
    (SCRIPT, "plain_activations"), (SCRIPT, "plain_encoder"), (KERAS, "convolutions"), (KERAS, "dense"), (KERAS, "attention"),
    (KERAS, "mobilenet_v2"), (KERAS, "lstm"),
)  # fmt: skip
FUSED = {
    "bert": "bert",
    "roberta": "bert",
    "distilbert": "bert",
    "vit": "vit",
    "gpt2": "gpt2",
    "t5": "t5",
    "clip": "clip",
    "swin": "swin",
}


def optimised(source: Path, path: Path, level: str) -> None:
    """What an onnxruntime session writes of its optimised graph."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
    options.optimized_model_filepath = str(path)
    ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def fused(source: Path, path: Path, _: str) -> None:
    """What onnxruntime's optimiser of transformers makes: attention, embeddings and normalisation in one node."""
    from onnxruntime.transformers import optimizer

    kind = next((FUSED[word] for word in FUSED if f"_{word}_" in f"{source.stem}_"), "bert")
    made = optimizer.optimize_model(str(source), model_type=kind, num_heads=0, hidden_size=0, opt_level=0)
    made.save_model_to_file(str(path))


def dynamic(source: Path, path: Path, form: str) -> None:
    """Weights in 8 bits, activations quantised while the model runs."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    kind = QuantType.QUInt8 if form == "uint8" else QuantType.QInt8
    quantize_dynamic(str(source), str(path), per_channel=form == "per channel", weight_type=kind)


class _Draws:
    """Calibration data: the inputs that stand beside a file."""

    def __init__(self, source: Path) -> None:
        import onnxruntime as ort

        session = ort.InferenceSession(str(source), providers=["CPUExecutionProvider"])
        names = [item.name for item in session.get_inputs()]
        self._sets = iter([dict(zip(names, given, strict=True)) for given in read_inputs(source)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next set."""
        return next(self._sets, None)


def static(source: Path, path: Path, form: str) -> None:
    """Activations quantised by calibration, as QDQ pairs or as operators on quantised numbers."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(_Draws, CalibrationDataReader):  # type: ignore[misc]
        pass

    layout, _, kind = form.partition(" ")
    types: dict[str, Any] = {}
    if kind:
        types = {"activation_type": getattr(QuantType, kind), "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(str(source), str(path), Reader(source), quant_format=getattr(QuantFormat, layout), **types)


def blocks(source: Path, path: Path, form: str) -> None:
    """Weights of products in blocks of 4 bits."""
    import onnx
    from onnxruntime.quantization import QuantFormat
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

    config = DefaultWeightOnlyQuantConfig(
        block_size=16, is_symmetric=form.endswith("symmetric"), quant_format=getattr(QuantFormat, form.split()[0])
    )
    made = MatMulNBitsQuantizer(onnx.load(str(source)), algo_config=config)
    made.process()
    made.model.save_model_to_file(str(path))


def half(source: Path, path: Path, form: str) -> None:
    """Numbers in float16."""
    import onnx
    from onnxconverter_common import float16

    onnx.save(float16.convert_float_to_float16(onnx.load(str(source)), keep_io_types=form == "inside"), str(path))


def slim(source: Path, path: Path, _: str) -> None:
    """What onnxslim leaves."""
    import onnxslim

    onnxslim.slim(str(source), str(path))


TOOLS: tuple[tuple[str, Tool, tuple[str, ...]], ...] = (
    ("onnxruntime optimised", optimised, ("basic", "extended", "all")),
    ("onnxruntime transformer optimiser", fused, ("",)),
    ("onnxruntime quantize_dynamic", dynamic, ("int8", "uint8", "per channel")),
    ("onnxruntime quantize_static", static, ("QDQ", "QOperator", "QDQ QInt8", "QOperator QUInt8")),
    ("onnxruntime blocks of 4 bits", blocks, ("QOperator", "QOperator symmetric", "QDQ")),
    ("onnxconverter-common float16", half, ("all", "inside")),
    ("onnxslim", slim, ("",)),
)
TRANSFORMERS = "transformer_"


def _write(folder: Path, producer: str, base: str, tool: Tool, form: str, path: Path) -> Sequence[Sequence[np.ndarray]]:
    sources = sorted((folder / producer).glob(f"{base}_[0-9]*.onnx"))
    if not sources:
        raise FileNotFoundError(f"{producer}/{base} is not in the corpus")
    tool(sources[0], path, form)
    sets = read_inputs(sources[0])
    if tool is half and form == "all":
        sets = [[item.astype(np.float16) if item.dtype == np.float32 else item for item in given] for given in sets]
    return sets


def recipes() -> Iterator[tuple[str, Write]]:
    """Every tool on every base that it is meant for, then onnxruntime's optimiser on what its quantisers made."""
    for title, tool, forms in TOOLS:
        for index, (producer, base) in enumerate(BASES):
            if tool in (fused, blocks) and TRANSFORMERS not in base:
                continue
            for form in (
                forms
                if tool is optimised
                else (forms[index % len(forms)], forms[(index + 1) % len(forms)])[: len(forms)]
            ):
                kind = {DYNAMO: "dynamo", SCRIPT: "script", KERAS: "keras"}[producer]
                yield _recipe(title, producer, base, tool, form, f"{base}_{kind}")
    for title in ("onnxruntime quantize_dynamic", "onnxruntime quantize_static"):
        for producer, base in BASES:
            kind = {DYNAMO: "dynamo", SCRIPT: "script", KERAS: "keras"}[producer]
            yield _recipe(
                "onnxruntime optimised after quantisation",
                title,
                f"{base}_{kind}",
                optimised,
                "all",
                f"{title[20:]}_{base}_{kind}",
            )


def _recipe(title: str, producer: str, base: str, tool: Tool, form: str, stem: str) -> tuple[str, Write]:
    name = f"{title}/{stem}{'_' if form else ''}{form.replace(' ', '_')}_0"

    def write(path: Path) -> Sequence[Sequence[np.ndarray]]:
        folder = path.parent.parent
        if title.endswith("quantisation"):
            sources = sorted((folder / producer).glob(f"{base}_*.onnx"))
            if not sources:
                raise FileNotFoundError(f"{producer}/{base} is not in the corpus")
            tool(sources[0], path, form)
            return read_inputs(sources[0])
        return _write(folder, producer, base, tool, form, path)

    return name, write
