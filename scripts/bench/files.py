"""Our files against the peers': nodes, and latency with one and two threads; ``python -m scripts.bench.files [MODEL ...]``.

The files stay in ``--keep FOLDER``, where a later run takes the peers' from; our own are always written anew.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from scripts.bench.clock import BLOCK_SECONDS, repeats
from scripts.bench.file_models import GROUPS, MODELS
from scripts.bench.page import number, table, write_section

ROUNDS = {1: (4, 7), 2: (2, 5)}  # by threads: how many times over so many blocks; an even number of times


def write(name: str, side: str, path: str) -> None:
    """Writes one file, ours or the peer's."""
    model = MODELS[name]
    built, inputs = model.build()
    (model.ours if side == "ours" else model.peer)(built, inputs, path)


def written(name: str, side: str, path: str) -> str:
    """Writes a file in a process of its own; why it can't, empty where it can."""
    command = [sys.executable, "-m", "scripts.bench.files", "--write", name, side, path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0 and os.path.exists(path):
        return ""
    lines = [line for line in done.stderr.strip().splitlines() if line and not line.startswith(" ")]
    return lines[-1][:160] if lines else f"ended with {done.returncode}"


def session(path: str, threads: int, optimised: str = "") -> onnxruntime.InferenceSession:
    """A session of so many threads; what the runtime makes of the graph goes to `optimised`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    if optimised:
        options.optimized_model_filepath = optimised
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def nodes(path: str) -> tuple[int, int]:
    """Nodes of a file, and those of them that are batch norms, which runtimes merge when they load it."""
    graph = onnx.load(path, load_external_data=False).graph
    return len(graph.node), sum(node.op_type == "BatchNormalization" for node in graph.node)


def call_of(opened: onnxruntime.InferenceSession, seed: int = 0) -> Callable[[], Any]:
    """A call of a session on drawn inputs, of batch 1 and images of 224 pixels where the file leaves sizes open."""
    rng, feed = np.random.default_rng(seed), {}
    for item in opened.get_inputs():
        sizes = [size if isinstance(size, int) else 1 if axis == 0 else 224 for axis, size in enumerate(item.shape)]
        whole = "int" in item.type
        feed[item.name] = rng.integers(1, 900, sizes) if whole else rng.uniform(-1, 1, sizes).astype(np.float32)
    return lambda: opened.run(None, feed)


def ratios(calls: list[Callable[[], Any]], clock: Callable[[], float], blocks: int) -> tuple[list[float], float]:
    """Seconds a call of each, the least of all blocks, and the median of the blocks' ratios; the two take turns."""
    times: list[list[float]] = [[], []]
    counts = [repeats(call) for call in calls]
    for block in range(blocks):
        for side in (0, 1) if block % 2 else (1, 0):
            started = clock()
            for _ in range(counts[side]):
                calls[side]()
            times[side].append((clock() - started) / counts[side])
    pairs = [ours / peer for ours, peer in zip(*times, strict=True)]
    return [min(item) for item in times], statistics.median(pairs)


def one_round(
    paths: tuple[str, str], threads: int, clock: Callable[[], float], blocks: int, *, first: int
) -> tuple[list[float], float]:
    """`ratios` of two files in new sessions, of which the one of `first` is opened first."""
    opened = {side: session(paths[side], threads) for side in (first, 1 - first)}
    return ratios([call_of(opened[side]) for side in (0, 1)], clock, blocks)


def measured(own: str, peer: str) -> dict[str, Any]:
    """Nodes and latencies of two files."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for side, path in (("ours", own), ("peer", peer)):
            found[f"nodes {side}"], found[f"norms {side}"] = nodes(path)
            session(path, 1, optimised := os.path.join(folder, f"{side}.onnx"))
            found[f"optimised {side}"] = nodes(optimised)[0]
    # the caller's own processor time, which other work on the machine does not lengthen; of two threads the wall time
    for threads, clock in ((1, time.thread_time), (2, time.perf_counter)):
        count, blocks = ROUNDS[threads]
        # of two sessions of one file the one that was opened first is slower: each side is that half of the times
        rounds = [one_round((own, peer), threads, clock, blocks, first=turn % 2) for turn in range(count)]
        for place, side in enumerate(("ours", "peer")):
            found[f"{threads} {side}"] = 1000 * min(times[place] for times, _ in rounds)
        found[f"{threads} ratio"] = statistics.geometric_mean(ratio for _, ratio in rounds)
    return found


def line(name: str, found: dict[str, Any]) -> list[str]:
    """A line of the table."""
    cells = [name]
    for side in ("ours", "peer"):
        norms = found[f"norms {side}"]
        cells.append(f"{found[f'nodes {side}'] - norms}{f' + {norms}' if norms else ''}")
    cells += [str(found[f"optimised {side}"]) for side in ("ours", "peer")]
    for threads in (1, 2):
        cells += [number(found[f"{threads} {side}"], 3, " ms") for side in ("ours", "peer")]
        cells.append(number(found[f"{threads} ratio"]))
    return cells


def section(results: dict[str, dict[str, Any]], failed: dict[str, str]) -> str:
    """The section's text."""
    turns = [count * blocks for count, blocks in ROUNDS.values()]
    text = f"""Random weights, a batch of one. The peer is tf2onnx for Keras and torch.onnx (dynamo) for the others. Nodes: as the
file has them, batch norms, which stay in our files and runtimes merge when they load them, behind a plus sign; then as
onnxruntime runs them. The two take turns in blocks of {BLOCK_SECONDS} s, {turns[0]} with one thread, of which the processor time
counts, and {turns[1]} with two, of which the wall time counts: the least of all blocks, and the median of the blocks' ratios. Of
two sessions of one file the one opened first takes 1 to 3% longer: each side is opened first in half of the blocks.
Our files skip NaN in Keras' MaxPool, as TensorFlow does: two operators clean small images, large ones are asked for NaN first
(seven or eight). They keep it in PyTorch's (four); the peers' do neither.
{_company()}
"""
    head = ["model", "nodes", "peer", "as run", "peer", "1 thread", "peer", "ratio", "2 threads", "peer", "ratio"]
    for group, names in GROUPS.items():
        rows = [line(name, results[name]) for name in names if name in results]
        if rows:
            text += f"\n{group}\n\n" + table(head, rows)
    for threads in ROUNDS:
        shares = [found[f"{threads} ratio"] for found in results.values()]
        if shares:
            middle, beyond = statistics.median(shares), sum(share > 1.05 for share in shares)
            text += f"\nOf {len(shares)} ratios with {threads} thread{'s' if threads > 1 else ''} the median is {middle:.2f}, "
            text += f"the least {min(shares):.2f}, the greatest {max(shares):.2f}; {beyond} are beyond 1.05.\n"
    if failed:
        text += "\nNot measured:\n" + "".join(f"- {name}: {reason}\n" for name, reason in failed.items())
    return text


def _company() -> str:
    """What else the machine does."""
    load, count = os.getloadavg()[2], os.cpu_count() or 1
    if load <= count:
        return "The machine did nothing else."
    return (
        f"The machine did other work beside, at the end a load of {load:.0f} on {count} processors: two threads then wait\n"
        "for each other, and their times say little of the files."
    )


def compare(name: str, folder: str) -> dict[str, Any]:
    """What is measured of one model; ``{"fails": reason}`` where a file can't be written or run."""
    own, peer = (os.path.join(folder, f"{name}.{side}.onnx") for side in ("ours", "peer"))
    reason = written(name, "ours", own)
    if reason:
        return {"fails": f"ours: {reason}"}
    if not os.path.exists(peer) and (reason := written(name, "peer", peer)):
        return {"fails": f"the peer: {reason}"}
    try:
        call_of(session(peer, 1))()
    except Exception as error:  # a file of the peer's that does not load, or asks for more inputs than the model has
        return {"fails": f"the peer's file: {str(error).splitlines()[0][:160]}"}
    return measured(own, peer)


def main() -> None:
    """Measures the models and writes the section; results are kept, so that a run that was cut off goes on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--write", nargs=3, metavar=("MODEL", "SIDE", "PATH"))
    parser.add_argument("--keep", help="a folder for the files and results; those of the peers that are there are used")
    given = parser.parse_args()
    if given.write:
        write(*given.write)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or temporary
        kept = Path(folder, "results.json")
        all_found: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else {}
        for name in given.models:
            all_found[name] = compare(name, folder)
            kept.write_text(json.dumps(all_found))
            print(name, all_found[name], flush=True)
    results = {name: found for name, found in all_found.items() if "fails" not in found}
    failed = {name: found["fails"] for name, found in all_found.items() if "fails" in found}
    write_section(
        "Our files and the peers'",
        section(results, failed),
        "onnxruntime",
        "torch",
        "transformers",
        "onnxscript",
        "keras",
        "tf2onnx",
    )


if __name__ == "__main__":
    main()
