"""CPU seconds of conversion: ours over the trace alone, and the peer's over the same.

The environment variable ROUNDS says how often each is measured.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from typing import Any

from scripts.bench.jobs import run
from scripts.bench.page import number, table, write_section

ROUNDS = int(os.environ.get("ROUNDS", "3"))
# Model, framework, further conversions in the same process.
MODELS = (
    ("ResNet-50", "torch", 2),
    ("ViT-B/16", "torch", 2),
    ("MLP, 10 layers", "torch", 2),
    ("MLP, 100 layers", "torch", 2),
    ("MLP, 1000 layers", "torch", 1),
    ("Keras ResNet-50", "keras", 2),
)


def measure(model: str, framework: str, warm: int) -> dict[str, list[dict[str, Any]]]:
    """The figures of every way, one a round; the ways take turns."""
    ways = [f"floor {framework}", "ours", f"peer {framework}"]
    found: dict[str, list[dict[str, Any]]] = {way.split()[0]: [] for way in ways}
    for _ in range(ROUNDS):
        for way in ways:
            found[way.split()[0]].append(run("conversion", model, way, warm))
    return found


def ratio(found: dict[str, list[dict[str, Any]]], way: str, kind: str) -> float | None:
    """Median over the rounds of a way's seconds over the floor's of the same round."""
    pairs = zip(found[way], found["floor"], strict=True)
    ratios = [one[kind] / floor[kind] for one, floor in pairs if one.get(kind) and floor.get(kind)]
    return statistics.median(ratios) if ratios else None


def seconds(runs: Sequence[dict[str, Any]], kind: str) -> float | None:
    """Median over the rounds."""
    found = [item[kind] for item in runs if item.get(kind) is not None]
    return statistics.median(found) if found else None


def main() -> None:
    """Measures and writes the section."""
    rows, reasons = [], {}
    for model, framework, warm in MODELS:
        found = measure(model, framework, warm)
        print(model, found, flush=True)
        for kind in ("fresh", "warm"):
            rows.append(
                (
                    model,
                    kind,
                    number(seconds(found["floor"], kind)),
                    number(seconds(found["ours"], kind)),
                    number(seconds(found["peer"], kind)),
                    number(ratio(found, "ours", kind)),
                    number(ratio(found, "peer", kind)),
                )
            )
        for way, runs in found.items():
            reasons.update({f"{model}, {way}: {item['error']}": None for item in runs if "error" in item})
    head = ("model", "process", "floor", "onnxport", "peer", "onnxport / floor", "peer / floor")
    text = (
        f"CPU seconds (all threads), median of {ROUNDS} rounds. Fresh: the first conversion of a process; warm: a later one.\n"
        "The floor is `torch.export.export` alone, or getting the concrete function of the Keras model; the peer is torch.onnx\n"
        "(dynamo) or tf2onnx. Without validation; random weights. The first conversion of a Keras model in a process imports\n"
        "onnx-ir, and with it sympy: about 0.25 s that PyTorch's own floor holds already.\n\n" + table(head, rows)
    )
    if reasons:
        text += "\nNot measured:\n" + "".join(f"- {reason}\n" for reason in reasons)
    write_section("Conversion", text, "torch", "tensorflow-cpu", "keras", "onnxscript", "tf2onnx")


if __name__ == "__main__":
    main()
