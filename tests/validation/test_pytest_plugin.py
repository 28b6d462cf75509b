"""The fixture for users' own suites, in a pytest run of its own."""

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]


def test_loading_the_plugin_imports_nothing_heavy():
    heavy = "numpy onnx onnx_ir onnxruntime torch tensorflow keras sklearn"
    code = f"import onnxport.validation.pytest_plugin, sys; print([m for m in {heavy!r}.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.pytorch
def test_the_fixture_passes_and_fails(pytester):
    pytester.makepyfile(
        """
        import torch

        def test_good(assert_converts):
            made = assert_converts(torch.nn.Softplus(), inputs=(torch.ones(2, 3),))
            assert made.input_names == ["input"]

        def test_bad(assert_converts):
            class Branching(torch.nn.Module):
                def forward(self, x):
                    return x if x.sum() > 0 else -x
            assert_converts(Branching(), inputs=(torch.ones(2, 3),))

        class Nothing(torch.nn.Module):
            def forward(self, x):
                return torch.sqrt(-x * x - 1)

        def test_unproved(assert_converts):
            assert_converts(Nothing(), inputs=(torch.ones(2, 3),))

        def test_allowed(assert_converts):
            assert_converts(Nothing(), inputs=(torch.ones(2, 3),), allow_unproved=True)
        """
    )
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-p", "no:warnings")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*Branching does not convert to onnx*"])
    result.stdout.no_fnmatch_line("*During handling of the above exception*")
    result.stdout.fnmatch_lines(["*Nothing to onnx: the conversion is unproved: output: NaN on both sides*"])
