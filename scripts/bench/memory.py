"""Peak memory of conversion and saving over the live model, against the size of its weights."""

from __future__ import annotations

from scripts.bench.jobs import run
from scripts.bench.page import table, write_section

MODELS = (("ResNet-50", "torch"), ("ViT-B/16", "torch"), ("MLP, 1 GB", "torch"), ("Keras ResNet-50", "keras"))
MB = 1e6


def main() -> None:
    """Measures and writes the section."""
    rows, reasons = [], []
    for model, framework in MODELS:
        found = {way: run("memory", model, way) for way in (f"floor {framework}", "ours", f"peer {framework}")}
        reasons += [f"- {model}, {way}: {item['error']}\n" for way, item in found.items() if "error" in item]
        weights = next((item["weights"] for item in found.values() if "weights" in item), None)
        cells = [
            f"{item['peak'] / MB:.0f} MB ({item['peak'] / weights:.0%})" if "peak" in item and weights else "-"
            for item in found.values()
        ]
        rows.append((model, f"{weights / MB:.0f} MB" if weights else "-", *cells))
    text = (
        "Peak resident memory while converting and saving, less what the process held with the live model just before; in\n"
        "brackets as a share of the weights. A small model is converted first, so that imports do not count. The trace alone is\n"
        "`torch.export.export`, or getting the concrete function of the Keras model.\n\n"
        + table(("model", "weights", "trace alone", "onnxport", "peer"), rows)
    )
    if reasons:
        text += "\nNot measured:\n" + "".join(reasons)
    write_section("Memory", text, "torch", "tensorflow-cpu", "keras", "onnxscript", "tf2onnx")


if __name__ == "__main__":
    main()
