"""Folders whose weights never fit: memory, time and bytes of a conversion, for Llama-like models of random bfloat16 weights.

`python -m scripts.bench.folders [0.5B 3B 7B]` writes the section; the folder is made in the temporary directory and removed.
Every step is a process of its own.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scripts.bench.page import table, write_section

SHARD = 2 << 30
_BLOCK = 16 << 20  # random numbers that are drawn; every tensor begins at another place among them
SIZES: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
    "0.5B": {"hidden_size": 1280, "intermediate_size": 3456, "num_hidden_layers": 22, "num_attention_heads": 20},
    "3B": {"hidden_size": 2560, "intermediate_size": 6912, "num_hidden_layers": 36, "num_attention_heads": 20},
    "7B": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32},
}
_VOCABULARY = 32_000
GB = 1e9


def make(place: Path, size: str) -> None:
    """Writes the folder, tensor by tensor, in shards."""
    config = {**SIZES[size], "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16"}
    config |= {"vocab_size": _VOCABULARY, "max_position_embeddings": 4096, "bos_token_id": 1, "eos_token_id": 2}
    place.mkdir()
    (place / "config.json").write_text(json.dumps(config, indent=2))
    draws = np.random.default_rng(0)
    numbers = (0.02 * draws.standard_normal(_BLOCK, np.float32)).view(np.uint32) >> 16
    block = np.concatenate([numbers, numbers]).astype(np.uint16)
    ones = (np.ones(1, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    shards, index = list(_shards(SIZES[size])), {}
    for number, tensors in enumerate(shards, start=1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        header, end = {}, 0
        for key, shape in tensors.items():
            start, end = end, end + 2 * math.prod(shape)
            header[key] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
            index[key] = name
        text = json.dumps(header).encode()
        with (place / name).open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for shape in tensors.values():
                _write(file, math.prod(shape), ones if len(shape) == 1 else block, draws)
    (place / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def _write(file: Any, count: int, numbers: np.ndarray, draws: np.random.Generator) -> None:
    if len(numbers) == 1:
        file.write(np.repeat(numbers, count).data)
        return
    while count:
        start, length = int(draws.integers(_BLOCK)), min(count, _BLOCK)
        file.write(numbers[start : start + length].data)
        count -= length


def _shards(sizes: dict[str, int]) -> Iterator[dict[str, list[int]]]:
    hidden, inner = sizes["hidden_size"], sizes["intermediate_size"]
    tensors: dict[str, list[int]] = {"model.embed_tokens.weight": [_VOCABULARY, hidden]}
    for layer in range(sizes["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        tensors |= {f"{at}.self_attn.{name}_proj.weight": [hidden, hidden] for name in "qkvo"}
        tensors |= {f"{at}.mlp.{name}_proj.weight": [inner, hidden] for name in ("gate", "up")}
        tensors |= {f"{at}.mlp.down_proj.weight": [hidden, inner]}
        tensors |= {f"{at}.{name}_layernorm.weight": [hidden] for name in ("input", "post_attention")}
    tensors |= {"model.norm.weight": [hidden], "lm_head.weight": [_VOCABULARY, hidden]}
    shard: dict[str, list[int]] = {}
    held = 0
    for key, shape in tensors.items():
        if held > SHARD:
            yield shard
            shard, held = {}, 0
        shard[key] = shape
        held += 2 * math.prod(shape)
    yield shard


_CONVERT = """
import json, resource, sys, time
start = time.perf_counter()
import onnxport
source, output, validate = sys.argv[1], sys.argv[2], sys.argv[3] == "proved"
made = onnxport.convert(source, output=output, validate=validate)
io = dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "wall": time.perf_counter() - start,
    "cpu": usage.ru_utime + usage.ru_stime,
    "peak": usage.ru_maxrss * 1024,
    "read": int(io["rchar"]),
    "written": int(io["wchar"]),
    "verdict": made.report.verdict if validate else "not validated",
    "report": str(made.report) if validate else "",
}))
"""


def convert(source: Path, output: Path, mode: str) -> dict[str, Any]:
    """Converts in a process of its own; memory, time and bytes."""
    done = subprocess.run(
        [sys.executable, "-c", _CONVERT, str(source), str(output), mode], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def copied(source: Path, output: Path) -> float:
    """Seconds that a plain copy of the weights takes, written through to the disk."""
    program = (
        "import os, sys, time, shutil; start = time.perf_counter(); shutil.copytree(sys.argv[1], sys.argv[2]); os.sync(); "
        "print(time.perf_counter() - start)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(source), str(output)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def rows_of(size: str, folder: Path, *, proved: bool) -> Iterator[tuple[str, ...]]:
    """A row for the conversion alone, and one with its proof."""
    source = folder / "model"
    make(source, size)
    weights = sum(file.stat().st_size for file in source.glob("*.safetensors"))
    plain = copied(source, folder / "copy")
    shutil.rmtree(folder / "copy")
    for mode in ("alone", *(["proved"] if proved else [])):
        figures = convert(source, folder / "out", mode)
        shutil.rmtree(folder / "out")
        print(size, mode, json.dumps(figures), flush=True)
        print(figures["report"], flush=True)
        yield (
            size,
            f"{weights / GB:.2f} GB",
            "converted" if mode == "alone" else f"with proof: {figures['verdict']}",
            f"{figures['peak'] / GB:.2f} GB",
            f"{figures['wall']:.0f} s",
            f"{figures['cpu']:.0f} s",
            f"{figures['read'] / GB:.1f} GB",
            f"{figures['written'] / GB:.1f} GB",
            f"{plain:.0f} s",
        )


def main(sizes: list[str]) -> None:
    """Measures the sizes and writes the section."""
    rows: list[tuple[str, ...]] = []
    for size in sizes or [name for name in SIZES if name != "tiny"]:
        with tempfile.TemporaryDirectory(prefix="folders-") as place:
            rows += rows_of(size, Path(place), proved=True)
    text = (
        "A Llama-like folder of random bfloat16 weights, made by the script and converted in a fresh process: its peak resident\n"
        "memory with the imports of torch and transformers (about 0.5 GB), its time, and the bytes that it reads and writes.\n"
        "The proof runs model and file layer by layer with all weights. The last column is a plain copy of the folder.\n\n"
        + table(("size", "weights", "what", "peak memory", "wall", "CPU", "read", "written", "plain copy"), rows)
    )
    write_section("Folders of weights", text, "torch", "transformers", "onnxruntime")


if __name__ == "__main__":
    main(sys.argv[1:])
