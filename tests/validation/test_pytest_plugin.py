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
def test_the_fixtures_pass_and_fail(run, pytester):
    """All in one run, since importing PyTorch takes the most of it."""
    pytester.makepyfile(
        """
        import onnx, onnxport, pytest, torch

        @pytest.mark.onnx(opsets=[17], runtimes=["reference"])
        def test_good(assert_converts):
            made = assert_converts(torch.nn.Softplus(), inputs=(torch.ones(2, 3),))
            assert (made.opset, made.runtime) == (17, "reference")
            assert made.input_names == ["input"]

        def test_bad(assert_converts):
            class Branching(torch.nn.Module):
                def forward(self, x):
                    return x if float(x.sum()) > 0 else x[:1]
            assert_converts(Branching(), inputs=(torch.ones(2, 3),))

        class Nothing(torch.nn.Module):
            def forward(self, x):
                return torch.sqrt(-x * x - 1)

        def test_unproved(assert_converts):
            assert_converts(Nothing(), inputs=(torch.ones(2, 3),))

        def test_allowed(assert_converts):
            assert_converts(Nothing(), inputs=(torch.ones(2, 3),), allow_unproved=True)

        @torch.library.custom_op("plugin::scaled", mutates_args=())
        def scaled(x: torch.Tensor) -> torch.Tensor:
            return x * 0.9

        @scaled.register_fake
        def _(x):
            return torch.empty_like(x)

        @onnxport.register_to_onnx("pytorch", "plugin::scaled")
        def entry(op, x):
            return op.Mul(x, 0.8)

        class Wrong(torch.nn.Module):
            def forward(self, x):
                return torch.ops.plugin.scaled(x) + 1.0

        def test_wrong(assert_converts):
            assert_converts(Wrong().eval(), inputs=(torch.ones(2, 3),), rtol=1e-3)

        def test_round(onnx_roundtrip):
            model = onnx_roundtrip(torch.nn.ReLU(), inputs=(torch.ones(2, 3),), target_opset=18)
            assert [node.op_type for node in model.model.graph] == ["Relu"]

        def test_of_onnx(onnx_roundtrip, tmp_path):
            with pytest.raises(pytest.fail.Exception, match="some.onnx: no file or directory"):
                onnx_roundtrip(tmp_path / "some.onnx")
            onnx_roundtrip(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (float[n] x) {}'))

        def test_leg(onnx_roundtrip):
            onnx_roundtrip(Wrong().eval(), inputs=(torch.ones(2, 3),), through="keras")
        """
    )
    result = pytester.runpytest_subprocess(
        "-q", "-p", "no:cacheprovider", "-p", "no:warnings", "--onnx-artifacts", "kept"
    )
    result.assert_outcomes(passed=3, failed=5)
    result.stdout.fnmatch_lines(["*Branching does not convert to onnx*"])
    result.stdout.no_fnmatch_line("*During handling of the above exception*")
    result.stdout.fnmatch_lines(["*Nothing to onnx: the conversion is unproved: output: NaN on both sides*"])
    differs = "Wrong does not convert to onnx: the converted model differs from its source"
    assert result.outlines.count(differs) == 2  # of test_wrong and of test_leg, once each
    result.stdout.fnmatch_lines(["onnx_roundtrip: the model is ONNX: name a framework, through='pytorch'"])
    wrong, leg = sorted((pytester.path / "kept").iterdir(), key=lambda path: "wrong" not in path.name)
    assert (wrong.name.endswith("test_wrong"), leg.name.endswith("test_leg")) == (True, True)
    assert "plugin::scaled" in (wrong / "report.html").read_text(encoding="utf-8")
    result.stdout.fnmatch_lines(
        ["report: kept/*/report.html", "the operator to look at: kept/*; onnxport validate * replays it"]
    )
    assert run("validate", wrong / "operator" / "model.onnx").code == 1


def test_opsets_and_runtimes(pytester):
    pytester.makepyfile(
        '''
        import onnx, pytest

        RUNTIMES = ("onnxruntime", "reference")
        TEXT = """<ir_version: 8, opset_import: ["": 16]>
        g (float[n] x) => (float[n] y) { y = Softplus(x) }"""

        @pytest.mark.onnx(opsets=[17, 18])
        def test_marked(assert_converts, request):
            model = assert_converts(onnx.parser.parse_model(TEXT))
            assert request.node.name in (f"test_marked[opset{model.opset}-{item}]" for item in RUNTIMES)
            assert assert_converts(onnx.parser.parse_model(TEXT), target_opset=21).opset == 21

        def test_plain(assert_converts, request):
            model = assert_converts(onnx.parser.parse_model(TEXT))
            assert request.node.name in (f"test_plain[opset{model.opset}-{item}]" for item in RUNTIMES)
        '''
    )
    result = pytester.runpytest_subprocess(
        "-q", "-p", "no:cacheprovider", "--onnx-opsets", "18,21", "--onnx-runtimes", "onnxruntime,reference"
    )
    result.assert_outcomes(passed=8)
