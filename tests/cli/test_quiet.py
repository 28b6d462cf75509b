"""What reaches a person's terminal: nothing of the frameworks' own, and all of everybody else's."""

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
import typer

from onnxport.cli.console import outcome
from onnxport.frameworks.native_log import native_log_kept

LOG = b"I0000 00:00:1795508436.515902   13303 port.cc:153] oneDNN custom operations are on.\n"


@contextmanager
def received(path):
    """The descriptor of standard error leads to a file."""
    before = os.dup(2)
    with open(path, "wb") as file:
        os.dup2(file.fileno(), 2)
    yield
    os.dup2(before, 2)
    os.close(before)


def test_lines_of_the_native_log_are_kept_and_all_others_pass(tmp_path, caplog):
    caplog.set_level("DEBUG", logger="onnxport.native")
    with received(tmp_path / "stderr"), native_log_kept():
        os.write(2, LOG[:9])
        os.write(2, LOG[9:] + b"mine\n" + LOG.replace(b"I0", b"F0"))
        os.write(2, b"no end of line")
    assert (tmp_path / "stderr").read_bytes() == b"mine\n" + LOG.replace(b"I0", b"F0") + b"no end of line"
    assert [record.message for record in caplog.records] == [LOG.decode().strip()]


def test_a_line_of_tensorflow_lite_in_its_three_parts_is_kept(tmp_path):
    with received(tmp_path / "stderr"), native_log_kept():
        for part in (b"INFO: ", b"Created TensorFlow Lite XNNPACK delegate for CPU.", b"\n", b"INFO: ", b"mine\n"):
            os.write(2, part)
            time.sleep(0.05)  # the reader has taken the part
    assert (tmp_path / "stderr").read_bytes() == b"INFO: mine\n"


def test_what_another_thread_writes_passes_at_once(tmp_path):
    seen = threading.Event()

    def other():
        os.write(2, b"from another thread\n")
        while b"another" not in (tmp_path / "stderr").read_bytes():
            pass
        seen.set()

    with received(tmp_path / "stderr"), native_log_kept():
        threading.Thread(target=other).start()
        assert seen.wait(20)


def test_nothing_is_left_behind(tmp_path):
    def state():
        opened = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        return os.fstat(2).st_ino, threading.active_count(), opened

    with received(tmp_path / "stderr"):
        before = state()
        with pytest.raises(KeyError), native_log_kept(), native_log_kept():
            raise KeyError
        assert state() == before


def test_a_child_process_outlives_the_block(tmp_path):
    with received(tmp_path / "stderr"), native_log_kept():
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read(); sys.stderr.write('late'); sys.exit(3)"],
            stdin=subprocess.PIPE,
        )
    child.communicate()
    assert child.returncode == 3
    for thread in threading.enumerate():
        if thread.name == "onnxport native log":
            thread.join(20)
    assert (tmp_path / "stderr").read_bytes() == b"late"


TOO_MUCH = {
    "numpy": lambda: np.empty(1 << 58),
    "torch": lambda: pytest.importorskip("torch", reason="PyTorch is an extra").empty(1 << 58),
}


@pytest.mark.parametrize("allocate", TOO_MUCH.values(), ids=TOO_MUCH)
def test_memory_that_runs_out_is_no_defect(allocate, capsys):
    with pytest.raises(typer.Exit), outcome(False, "converting"):
        allocate()
    text = " ".join(capsys.readouterr().err.split())
    assert "memory ran out" in text
    assert "--no-validate" in text
    assert "llocate" in text
    assert "defect" not in text


NETS = """
import keras
def net(): return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu")])
"""


@pytest.mark.keras
@pytest.mark.tensorflow
def test_a_conversion_through_tensorflow_writes_nothing_to_standard_error(tmp_path):
    pytest.importorskip("keras", reason="Keras is an extra")
    (tmp_path / "nets.py").write_text(NETS)
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    program = "from onnxport.cli.main import main\nmain()"
    for more, silent in ([], True), (["-v"], False):
        arguments = ["convert", "nets:net", "-o", "net.onnx", *more]
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        assert (done.stderr == "") == silent, done.stderr
        assert silent or "tracing" in done.stderr


_INSIDE = """
import onnxport
with onnxport.native_log_kept():
    import keras
keras.utils.set_random_seed(0)
small = keras.initializers.RandomNormal(stddev=1e-9)
layers = [keras.layers.Conv2D(8, 3, activation="relu", kernel_initializer=small), keras.layers.BatchNormalization()]
layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10, activation="softmax")]
report = str(onnxport.convert(keras.Sequential([keras.Input((28, 28, 1)), *layers])).report)
assert "hardly changed" in report, report
"""

_OF_WORDS = """
import onnxport
with onnxport.native_log_kept():
    import keras
words = keras.layers.TextVectorization(max_tokens=9, output_sequence_length=4)
words.adapt(["a b c d"])
layers = [words, keras.layers.Embedding(9, 3), keras.layers.LSTM(2)]
assert onnxport.convert(keras.Sequential([keras.Input((1,), dtype="string"), *layers])).report.passed
"""


@pytest.mark.keras
@pytest.mark.parametrize("program", [_INSIDE, _OF_WORDS], ids=["pieces of the graph", "a table and a loop"])
def test_a_proof_writes_nothing_to_standard_error(program):
    """TensorFlow compiles pieces of a graph, and freezes the graph of a table and a loop."""
    pytest.importorskip("keras", reason="Keras is an extra")
    environment = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    written = [line for line in done.stderr.splitlines() if "XLA" in line or "WARNING:tensorflow" in line]
    assert (done.returncode, written) == (0, []), done.stderr
