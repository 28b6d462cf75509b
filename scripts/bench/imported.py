"""PyTorch modules to ONNX and back: their eager latency against the originals', and what importing them takes.

``python -m scripts.bench.imported [MODEL ...]`` writes the section; models of timm and torchvision are left out where these
are not installed. Files of torch.onnx's exporter through TorchScript are imported too.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import onnx

import onnxport
from scripts.bench.clock import BLOCK_SECONDS, repeats
from scripts.bench.page import number, table, write_section

BLOCKS = 16
IMPORTS = 5
SECONDS_A_NODE, SECONDS_A_BYTE = 1e-3, 1e-9  # what an import may take
Built = tuple[Any, tuple[Any, ...]]


def timm_model(name: str, size: int = 224) -> Built:
    """A model of timm with random weights, and an image."""
    import timm
    import torch

    return timm.create_model(name, pretrained=False).eval(), (torch.randn(1, 3, size, size),)


def vision(name: str) -> Built:
    """A model of torchvision with random weights, and an image."""
    import torch
    import torchvision

    return torchvision.models.get_model(name, weights=None).eval(), (torch.randn(1, 3, 224, 224),)


def tokens(name: str, **options: Any) -> Built:
    """A model of transformers in a small configuration, and token numbers."""
    import torch
    import transformers

    config = getattr(transformers, f"{name}Config")(**options)
    model = getattr(transformers, f"{name}Model")(config).eval()
    model.config.use_cache = False
    return first_result(model), (torch.randint(1, 900, (1, 32)),)


def recurrent(name: str, **options: Any) -> Built:
    """A recurrent layer behind an embedding, and a sequence of 64 steps."""
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(1000, 128)
            self.layer = getattr(nn, name)(128, 128, batch_first=True, **options)
            self.out = nn.LazyLinear(20)

        def forward(self, ids: Any) -> Any:
            return self.out(self.layer(self.words(ids))[0])

    model, ids = Tagger().eval(), torch.randint(0, 1000, (4, 64))
    model(ids)
    return model, (ids,)


def first_result(model: Any) -> Any:
    import torch

    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.model(ids, return_dict=False)[0]

    return First().eval()


_SMALL: dict[str, Any] = {
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 256,
}
_KEYS = {**_SMALL, "vocab_size": 1000, "num_key_value_heads": 2}
_OPT = {
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "ffn_dim": 256,
    "word_embed_proj_dim": 128,
}
_TIMM = (
    "resnet18 resnet50 resnext50_32x4d regnety_004 mobilenetv3_small_100 mobilenetv2_100 efficientnet_b0 tf_efficientnetv2_b0 "
    "densenet121 convnext_atto convnextv2_atto vit_tiny_patch16_224 deit_tiny_patch16_224 swin_tiny_patch4_window7_224 "
    "mixer_s16_224 maxvit_nano_rw_256 mobilevit_xxs ghostnet_100 inception_v3 coatnet_nano_rw_224"
)
_VISION = "resnet18 vgg11 squeezenet1_1 shufflenet_v2_x0_5 mnasnet0_5 googlenet swin_v2_t"
MODELS: dict[str, Callable[[], Built]] = {
    **{
        f"timm {name}": partial(timm_model, name, 256 if "256" in name or "mobilevit" in name else 224)
        for name in _TIMM.split()
    },
    **{f"torchvision {name}": partial(vision, name) for name in _VISION.split()},
    "Bert": partial(tokens, "Bert", **_SMALL),
    "Roberta": partial(tokens, "Roberta", **_SMALL),
    "Electra": partial(tokens, "Electra", **_SMALL),
    "GPT2": partial(tokens, "GPT2", n_embd=128, n_layer=4, n_head=4, vocab_size=1000),
    "Llama": partial(tokens, "Llama", **_KEYS),
    "Qwen2": partial(tokens, "Qwen2", **_KEYS),
    "Mistral": partial(tokens, "Mistral", **_KEYS),
    "OPT": partial(tokens, "OPT", **_OPT),
    "LSTM": partial(recurrent, "LSTM"),
    "LSTM, 2 layers, both ways": partial(recurrent, "LSTM", num_layers=2, bidirectional=True),
    "GRU": partial(recurrent, "GRU"),
    "GRU, 2 layers, both ways": partial(recurrent, "GRU", num_layers=2, bidirectional=True),
    "RNN": partial(recurrent, "RNN"),
    "TorchScript, timm resnet18": partial(timm_model, "resnet18"),
    "TorchScript, timm vit_tiny_patch16_224": partial(timm_model, "vit_tiny_patch16_224"),
    "TorchScript, LSTM": partial(recurrent, "LSTM"),
}


def hub_of(title: str, model: Any, inputs: tuple[Any, ...]) -> onnxport.OnnxModel:
    """The module's ONNX model, written by torch.onnx's exporter through TorchScript where the title says so."""
    import torch

    if not title.startswith("TorchScript"):
        return onnxport.convert(model, inputs=inputs, validate=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        torch.onnx.export(model, inputs, str(path), dynamo=False, opset_version=17)
        return onnxport.convert(onnx.load(path), validate=False)


def ratio(original: Callable[[], Any], imported: Callable[[], Any]) -> tuple[float, float, float]:
    """Processor seconds of a call of each, the least of all blocks, and the median of the ratios of blocks in turns."""
    calls = (original, imported)
    counts, times = [repeats(call) for call in calls], ([], [])  # type: tuple[list[int], tuple[list[float], list[float]]]
    for block in range(BLOCKS):
        for side in (0, 1) if block % 2 else (1, 0):
            started = time.thread_time()
            for _ in range(counts[side]):
                calls[side]()
            times[side].append((time.thread_time() - started) / counts[side])
    return min(times[0]), min(times[1]), statistics.median(b / a for a, b in zip(*times, strict=True))


def row(title: str) -> tuple[list[str], float, float]:
    """A line of the table, the ratio of latencies and that of the import's time to what it may take."""
    import torch

    model, inputs = MODELS[title]()
    with torch.no_grad():
        hub = hub_of(title, model, inputs)
        again, took, copied = None, float("inf"), float("inf")
        held = [
            item.const_value.numpy() for item in hub.model.graph.initializers.values() if item.const_value is not None
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            hub.save(path)
            for _ in range(IMPORTS):
                again = None  # its memory is the next one's
                started = time.process_time()
                again = onnxport.convert(path, to="pytorch", validate=False)
                took = min(took, time.process_time() - started)
                again, started = None, time.process_time()
                copies = [torch.tensor(array) for array in held]
                copied = min(copied, time.process_time() - started)
                del copies
            again = onnxport.convert(path, to="pytorch", validate=False)
        original, imported, times = ratio(lambda: model(*inputs), lambda: again(*inputs))
    nodes = len(hub.model.graph)
    size = sum(array.nbytes for array in held)
    allowed = SECONDS_A_NODE * nodes + SECONDS_A_BYTE * size
    cells = [title, number(1000 * original, 3, " ms"), number(1000 * imported, 3, " ms"), number(times)]
    return (
        [
            *cells,
            str(nodes),
            f"{size / 1e6:.0f} MB",
            number(took, 3, " s"),
            number(copied, 3, " s"),
            number(took / allowed),
        ],
        times,
        took / allowed,
    )


def main(names: list[str]) -> None:
    """Measures and writes the section."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows, reasons, latencies, imports = [], [], [], []
    for title in names or MODELS:
        try:
            cells, latency, took = row(title)
        except Exception as error:  # a row less
            reasons.append(f"- {title}: {type(error).__name__}: {str(error).splitlines()[0][:160]}\n")
            continue
        print(" | ".join(cells), flush=True)
        rows.append(cells), latencies.append(latency), imports.append(took)
    text = (
        "A PyTorch module with random weights to ONNX and back, against the original, both eager, one thread. Processor "
        f"time; the two take turns in {BLOCKS} blocks of {BLOCK_SECONDS} s, the least block counts, and of the blocks' "
        "ratios the median. An import is allowed 1 ms a node of the file and 1 s a GB of its weights; the last column is "
        "its time, from a file, as a share of that. The copy is one of the weights alone, in new memory. Rows of "
        "TorchScript are files of torch.onnx's exporter through it.\n\n"
    )
    head = ("module", "original", "imported", "ratio", "nodes", "weights", "import", "copy", "of what it may take")
    text += table(head, rows)
    text += (
        f"\nOf {len(rows)} ratios the median is {statistics.median(latencies):.2f}, the greatest {max(latencies):.2f}; "
        f"of imports {statistics.median(imports):.2f} and {max(imports):.2f}.\n"
    )
    text += "\nNot measured:\n" + "".join(reasons) if reasons else ""
    if not names:
        write_section("Latency of imported modules", text, "torch", "transformers", "timm", "torchvision")
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
