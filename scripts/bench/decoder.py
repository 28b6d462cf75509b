"""A step of a decoder in onnxruntime, our file against optimum-onnx's: `python -m scripts.bench.decoder --optimum PYTHON`.

PYTHON is an interpreter whose environment has optimum-onnx, which needs an older transformers than ours, so that it can't stand
in the environment of the other peers. The files stay in ``--keep FOLDER``, where a later run takes the peer's from.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from scripts.bench.files import nodes, ratios, session
from scripts.bench.page import number, table, write_section

_BASE = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12}
_IDS = {"bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 2048}
_TEXT = {"vocab_size": 32_000, **_IDS}
_HALF = {"hidden_size": 1280, "intermediate_size": 3456, "num_hidden_layers": 22, "num_attention_heads": 20}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama-like, 0.1B": ("LlamaForCausalLM", {**_TEXT, **_BASE}),
    "Llama-like, 0.5B, 4 heads of keys": ("LlamaForCausalLM", {**_TEXT, **_HALF, "num_key_value_heads": 4}),
    "GPT-2, 0.1B": ("GPT2LMHeadModel", {"bos_token_id": 1, "eos_token_id": 2}),
    "Qwen2-like, 0.1B, 2 heads of keys": ("Qwen2ForCausalLM", {**_TEXT, **_BASE, "num_key_value_heads": 2}),
}
PROMPTS = (16, 128, 512)
TURNS, BLOCKS = 2, 6  # sessions are opened anew so many times, each side first in half of them
_TASK = "text-generation-with-past"
_OPTIMUM = f"""
import sys
from optimum.exporters.onnx import main_export
main_export(sys.argv[1], sys.argv[2], task={_TASK!r}, do_validation=False)
"""


def make(name: str, place: Path) -> None:
    """Writes a folder of random weights."""
    import torch
    import transformers

    kind, options = MODELS[name]
    torch.manual_seed(0)
    model = getattr(transformers, kind)
    model(model.config_class(**options)).eval().save_pretrained(place)


def written(name: str, folder: Path, optimum: str) -> tuple[Path, Path]:
    """Our file and the peer's; ours is always written anew."""
    import onnxport

    source, own, peer = (
        folder / f"{name.replace(', ', ' ').replace(' ', '-')}.{part}" for part in ("hf", "ours", "peer")
    )
    if not source.exists():
        make(name, source)
    onnxport.convert(str(source), task=_TASK, output=str(own), validate=False)
    if not peer.exists():
        subprocess.run([optimum, "-c", _OPTIMUM, str(source), str(peer)], check=True, capture_output=True)
    return own / "model.onnx", peer / "model.onnx"


def call_of(opened: onnxruntime.InferenceSession, new: int, past: int) -> Callable[[], Any]:
    """A call with so many new tokens behind a cache of so many, one row."""
    rng, feed = np.random.default_rng(0), {}
    for item in opened.get_inputs():
        if item.name == "input_ids":
            feed[item.name] = rng.integers(3, 900, (1, new))
        elif item.name == "attention_mask":
            feed[item.name] = np.ones((1, past + new), np.int64)
        elif item.name == "position_ids":
            feed[item.name] = np.arange(past, past + new)[None]
        else:
            feed[item.name] = rng.normal(size=(1, item.shape[1], past, item.shape[3])).astype(np.float32)
    return lambda: opened.run(None, feed)


def measured(paths: tuple[Path, Path]) -> dict[str, Any]:
    """Nodes, and for each length the least times of a step and of the prompt, with the ratios."""
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for side, path in zip(("ours", "peer"), paths, strict=True):
            result[f"nodes {side}"] = nodes(str(path))[0]
            session(str(path), 1, optimised := f"{folder}/{side}.onnx")
            result[f"as run {side}"] = nodes(optimised)[0]
    rounds: dict[str, list[tuple[list[float], float]]] = {}
    for turn in range(TURNS):
        opened = {side: session(str(paths[side]), 1) for side in (turn % 2, 1 - turn % 2)}
        for prompt in PROMPTS:
            for what, new, past, blocks in (("step", 1, prompt, BLOCKS), ("prompt", prompt, 0, 2)):
                calls = [call_of(opened[side], new, past) for side in (0, 1)]
                rounds.setdefault(f"{what} {prompt}", []).append(ratios(calls, time.thread_time, blocks))
        del opened, calls  # weights of both are in memory else twice
    for key, found in rounds.items():
        least = [min(times[side] for times, _ in found) for side in (0, 1)]
        result[key] = [*least, statistics.geometric_mean(ratio for _, ratio in found)]
    return result


def lines(name: str, found: dict[str, Any]) -> list[list[str]]:
    """The lines of a model, one a length."""
    rows = []
    for prompt in PROMPTS:
        own, peer, ratio = found[f"step {prompt}"]
        first, other, share = found[f"prompt {prompt}"]
        counts = [str(found[f"{kind} {side}"]) for kind in ("nodes", "as run") for side in ("ours", "peer")]
        cells = [name, *counts] if prompt == PROMPTS[0] else ["", "", "", "", ""]
        cells += [str(prompt), number(1e3 * own, 2, " ms"), number(1e3 * peer, 2, " ms"), number(ratio, 3)]
        cells += [number(1 / own, 1), number(1 / peer, 1)]
        rows.append([*cells, number(1e3 * first, 1, " ms"), number(1e3 * other, 1, " ms"), number(share, 3)])
    return rows


def section(results: dict[str, dict[str, Any]]) -> str:
    """The section's text."""
    text = f"""Float32 folders of random weights, written by `onnxport convert folder -o out/` (task {_TASK}) and by optimum-onnx
of the same folder; one row, one thread, processor time. A step is one token behind a cache as long as the prompt; the
prompt itself begins with an empty cache. The two take turns in blocks of 0.1 s, in {TURNS} pairs of new sessions, each side
opened first in half of them: the least of all blocks, and the mean of the medians of the ratios. A step of such models is
mostly the reading of the weights, which both files do alike.

"""
    head = ["model", "nodes", "peer", "as run", "peer", "length", "a step", "peer", "ratio", "tokens a second", "peer"]
    rows = [row for name, found in results.items() for row in lines(name, found)]
    text += table([*head, "the prompt", "peer", "ratio"], rows)
    shares = {
        what: [found[f"{what} {n}"][2] for found in results.values() for n in PROMPTS] for what in ("step", "prompt")
    }
    for what, ratios_of in shares.items():
        text += f"\nOf {len(ratios_of)} ratios of a {what} the median is {statistics.median(ratios_of):.3f}, the least "
        text += f"{min(ratios_of):.3f}, the greatest {max(ratios_of):.3f}.\n"
    return text


def main() -> None:
    """Measures the models and writes the section; results are kept, so that a run that was cut off goes on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--optimum", metavar="PYTHON", required=True)
    parser.add_argument("--keep", help="a folder for the files and results; those of the peer that are there are used")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.keep or temporary)
        kept = folder / "decoder.json"
        results: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else {}
        for name in given.models:
            results[name] = measured(written(name, folder, given.optimum))
            kept.write_text(json.dumps(results))
            print(name, results[name], flush=True)
    ordered = {name: results[name] for name in MODELS if name in results}
    write_section("A decoder's step with cache", section(ordered), "onnxruntime", "torch", "transformers")


if __name__ == "__main__":
    main()
