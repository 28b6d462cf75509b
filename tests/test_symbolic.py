"""A conversion imports onnx-ir without sympy, and symbolic sizes compute as ever."""

import subprocess
import sys

import onnx_ir as ir
import pytest

CONVERTED = """
import numpy as np
from sklearn.linear_model import LogisticRegression
import onnxport
rows = np.eye(4, dtype=np.float32)
onnxport.convert(LogisticRegression().fit(rows, [0, 1, 0, 1]), inputs=rows, validate=False)
"""
BESIDE_TORCH = f"import torch{CONVERTED}"
SIZES = ("seq + 1", "max(a, 3) + b", "floor(a / 2) * sqrt(4)", "Mod(a, 2) + min(a, b)")
COMPUTED = f"""
import onnxport
onnxport.OnnxModel
import onnx_ir as ir
for text in {SIZES!r}:
    print(ir.SymbolicDim(text).evaluate(dict(a=9, b=5, seq=7)))
print(ir.SymbolicDim("seq") + 1)
import sympy
print(isinstance((ir.SymbolicDim("seq") * 2)._expr, sympy.Expr))
import sympy.core
"""


def lines(program: str) -> list[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize(
    "program",
    [
        CONVERTED,
        pytest.param(BESIDE_TORCH, marks=pytest.mark.pytorch),
        "from onnxport import convert",
        "from onnxport import OnnxModel",
    ],
)
def test_a_conversion_without_symbolic_arithmetic_imports_no_sympy(program):
    assert lines(f"{program}\nimport sys; print('sympy' in sys.modules, 'onnx_ir' in sys.modules)") == ["False True"]


def test_symbolic_sizes_compute_as_where_sympy_is_there():
    expected = [str(ir.SymbolicDim(text).evaluate({"a": 9, "b": 5, "seq": 7})) for text in SIZES]
    assert lines(COMPUTED) == [*expected, "seq + 1", "True"]


def test_threads_that_import_sympy_meanwhile_get_all_of_it():
    program = """
import threading
import onnxport
started, found = threading.Barrier(3), []
def use():
    started.wait()
    for _ in range(50):
        import sympy
        found.append(str(sympy.expand((sympy.Symbol("x") + 1) ** 2)))
threads = [threading.Thread(target=use) for _ in range(2)]
[thread.start() for thread in threads]
started.wait()
onnxport.convert
[thread.join() for thread in threads]
print(*set(found), sep=";")
"""
    assert [lines(program) for _ in range(3)] == [["x**2 + 2*x + 1"]] * 3
