"""Options of other tools, misspelled ones and other commands' ones: answered in a line."""

import pytest

ANSWERS = [
    ("--dynamic-shapes", "--dynamic x:0=batch"),
    ("--dynamic_axes", "--dynamic x:0=batch"),
    ("--dynamic-axes={'x': {0: 'b'}}", "--dynamic x:0=batch"),
    ("--opset-version", "--opset 17"),
    ("--opset_version=17", "--opset 17"),
    ("--target-opset", "--opset 17"),
    ("--overwrite-input-shape", "--input-shape x=1x3x224x224"),
    ("--input-signature", "--inputs example.npz, or --input-shape x=1x3"),
    ("--initial-types", "--inputs rows.csv"),
    ("--do-validation", "--no-validate"),
    ("--output-path", "-o model.onnx"),
    ("--onnx_file_path", "-o model.onnx"),
    ("--saved-model", "the model is the first argument"),
    ("--fp16", "--dtype float16"),
    ("--quantize", "--dtype int8"),
    ("--simplify", "onnxport slim model.onnx"),
    ("--framework", "--from pytorch"),
    ("--target", "--to keras"),
    ("--large_model", "weights beyond 2 GB go to a file beside the model"),
    ("--batch_size", "--input-shape x=8x128"),
    ("--trust-remote-code", "--allow-code"),
    ("--state_dict", "--weights net.safetensors"),
    ("--signature_def", "--signature serving_default"),
    ("--dynamc", "did you mean --dynamic?"),
    ("--tag", "but of onnxport tf2onnx"),
    ("--concrete-function", "but of onnxport tf2onnx"),
    ("--nothing-like-it", "onnxport convert --help lists all"),
]


@pytest.mark.parametrize("option, answer", ANSWERS)
def test_an_option_of_another_tool_is_answered_in_a_line(run, option, answer):
    done = run("convert", "model.onnx", option, "x")
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith(f"error: {option.partition('=')[0]} is no option of onnxport convert")
    assert answer in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, answer",
    [
        (
            ["validate", "a.onnx", "b.onnx", "--opset-version", "17"],
            "--opset-version is no option of onnxport validate; here it is written",
        ),
        (["roundtrip", "a.onnx", "--target=keras"], "is no option of onnxport roundtrip"),
        (
            ["torch2onnx", "a.pt2", "--dynamic_axes", "x"],
            "is no option of onnxport torch2onnx; here it is written --dynamic",
        ),
        (
            ["tf2onnx", "folder", "--dynamic_axes", "x"],
            "is no option of onnxport tf2onnx; here it is written --dynamic",
        ),
        (["merge", "a.onnx", "b.onnx", "--io_map", "y=x"], "of onnxport merge: OUTPUT=INPUT behind the two files"),
        (["slim", "a.onnx", "--overwrite-input-shape", "x:1"], "is no option of onnxport slim"),
        (["extract", "a.onnx", "--outputs", "y"], "is no option of onnxport extract; here it is written --to NAME"),
        (["extract", "a.onnx", "--cut-inputs", "x"], "of onnxport extract; here it is written --from NAME"),
        (
            ["set-shapes", "a.onnx", "--dynamic", "x:0=1"],
            "of onnxport set-shapes: x=1x3x224x224, x:0=1 or batch=1 behind",
        ),
        (["rename", "a.onnx", "--output-names", "y"], "is no option of onnxport rename: OLD=NEW behind the file"),
    ],
)
def test_so_do_the_other_commands(run, arguments, answer):
    done = run(*arguments)
    assert done.code == 2
    assert answer in done.err
    assert done.err.count("\n") == 1


def test_what_is_named_in_an_answer_exists(run):
    from onnxport.cli.foreign_options import _WRITTEN

    known = "".join(run(command, "--help").out for command in ("convert", "tf2onnx"))
    named = {word.rstrip(",;:.") for text in _WRITTEN.values() for word in text.split() if word.startswith("--")}
    assert len(named) > 10
    assert {name for name in named if name.replace("--no-", "--") not in known} == set()


def test_a_file_of_python_is_answered_with_the_module(run, tmp_path):
    (tmp_path / "net.py").write_text("def make(): ...")
    done = run("convert", "net.py:make")
    assert done.code == 2
    assert "'net.py' is a program: pass the model itself" in run("convert", "net.py").err
    assert done.err == "error: 'net.py:make': a module is named as Python imports it, from its folder: net:make\n"
