"""Time to import onnxport."""

from __future__ import annotations

import statistics
import subprocess
import sys

from scripts.bench.page import table, write_section

RUNS = 10


def seconds(statement: str) -> list[float]:
    """Wall seconds of a statement in fresh processes."""
    program = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True) for _ in range(RUNS)
    ]
    return [float(done.stdout) for done in runs]


def main() -> None:
    """Measures and writes the section."""
    rows = []
    for statement in ("import onnxport", "import onnxport.cli.main", "from onnxport import convert"):
        times = seconds(statement)
        rows.append((f"`{statement}`", f"{statistics.median(times):.3f} s", f"{min(times):.3f} s"))
    text = f"Wall time in a fresh process, {RUNS} runs. No framework is imported.\n\n" + table(
        ("statement", "median", "least"), rows
    )
    write_section("Start-up", text, "onnx", "onnx-ir", "onnxruntime")


if __name__ == "__main__":
    main()
