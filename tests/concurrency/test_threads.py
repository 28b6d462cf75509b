"""Conversions from several threads are right, and no conversion leaves anything behind: in the process or in the model."""

import dataclasses
import functools
import gc
import io
import logging
import os
import random
import sys
import threading
import time
import warnings
from contextlib import redirect_stdout

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
from keras.src.backend.common import global_state
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch.utils import _pytree as pytree

import onnxport
from onnxport.errors import OnnxportError

X = np.random.default_rng(5).standard_normal((6, 4)).astype(np.float32)
TABLE = np.random.default_rng(6).standard_normal((40, 4))
LABELS = (TABLE[:, 0] > 0).astype(int)


class Net(torch.nn.Module):
    """Batch norm and dropout: buffers, training flags and random numbers to leave alone."""

    def __init__(self, width):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(4, width), torch.nn.BatchNorm1d(width)
        self.drop, self.last = torch.nn.Dropout(0.5), torch.nn.Linear(width, 3)

    def forward(self, x):
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


class Branching(torch.nn.Module):
    """Fails to trace, having printed and warned."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        sys.stdout.write("forward\n")
        warnings.warn("forward", stacklevel=1)
        return self.layer(x) if x.sum() > 0 else x


class Scale(tf.Module):
    """A function with a signature and a variable."""

    def __init__(self, number):
        super().__init__()
        self.weight = tf.Variable(tf.fill((4, 3), float(number)))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], name="x")])
    def __call__(self, x):
        return tf.nn.softmax(tf.matmul(x, self.weight))


def keras_model(width):
    x = keras.Input((4,))
    hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(width, activation="relu")(x))
    return keras.Model(x, keras.layers.Dense(2)(hidden))


def torch_model(width):
    return Net(width).eval()


def sklearn_model(number):
    last = LogisticRegression() if number % 2 else RandomForestClassifier(3, random_state=number)
    return make_pipeline(StandardScaler(), last).fit(TABLE, LABELS)


def through_onnx(to):
    """A conversion from ONNX; its source comes of PyTorch."""

    def convert(model):
        hub = onnxport.convert(model, inputs=(torch.tensor(X),), validate=False)
        return onnxport.convert(hub, to, inputs=(X,)).onnxport_report

    return convert


WORK = [
    (torch_model, lambda model: onnxport.convert(model, inputs=(torch.tensor(X),)).report),
    (Scale, lambda model: onnxport.convert(model, inputs=(tf.constant(X),)).report),
    (keras_model, lambda model: onnxport.convert(model, inputs=(X,)).report),
    (sklearn_model, lambda model: onnxport.convert(model, inputs=TABLE).report),
    (torch_model, through_onnx("pytorch")),
    (torch_model, through_onnx("tensorflow")),
    (torch_model, through_onnx("keras")),
    (torch_model, lambda model: onnxport.validate(model, model, inputs=(torch.tensor(X),))),
]


def refused(convert):
    """The conversion, which has to fail by one of onnxport's own errors."""

    def run(model):
        with pytest.raises(OnnxportError):
            convert(model)

    return run


class CallsPython(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 4], name="x")])
    def __call__(self, x):
        return tf.py_function(lambda value: value + 1.0, [x], tf.float32)


FAILING = [
    (lambda _: Branching(), refused(lambda model: onnxport.convert(model, inputs=(torch.tensor(X),)))),
    (lambda _: Net(3).train(), refused(lambda model: onnxport.convert(model, inputs=(torch.tensor(X),)))),
    (lambda _: CallsPython(), refused(lambda model: onnxport.convert(model))),
    (lambda _: keras.Sequential([keras.layers.Dense(2)]), refused(onnxport.convert)),
    (sklearn_model, refused(lambda model: onnxport.convert(model, inputs=TABLE[:, :2]))),
]


def _threads():
    """All but the one that tqdm starts at its first progress bar, torch.fx's silent ones too."""
    return [item for item in threading.enumerate() if item.name != "tqdm_monitor"]


@pytest.fixture(autouse=True, scope="module")
def the_rest_of_torch():
    """What torch imports of itself at the first trace that fails, and the environment that it sets then."""
    make, convert = FAILING[0]
    convert(make(2))


def process_state():
    """What belongs to the process, and a conversion must leave as it is."""
    names = global_state.get_global_attribute("object_name_uids")
    return {
        "streams": (id(sys.stdout), id(sys.stderr), id(sys.stdin)),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "path": list(sys.path),
        "random": (random.getstate(), repr(np.random.get_state(legacy=False)), torch.get_rng_state().tolist()),
        "modes": (torch.is_grad_enabled(), torch.get_default_dtype(), torch.backends.mha.get_fastpath_enabled()),
        "tensorflow": (tf.executing_eagerly(), tf.config.functions_run_eagerly(), keras.config.floatx()),
        "threads": (torch.get_num_threads(), len(_threads())),
        "garbage": (gc.isenabled(), gc.get_freeze_count(), gc.get_threshold()),
        "log": (list(logging.root.handlers), logging.root.level),
        "floats": (np.geterr(), sys.getrecursionlimit()),
        "names": dict(names or {}),
        "classes": set(pytree.SUPPORTED_NODES),
    }


def model_state(model):
    """What a model holds; fake tensors have no memory to show."""
    if isinstance(model, torch.nn.Module):
        tensors = [*model.named_parameters(), *model.named_buffers()]
        return [(name, type(item), item.data_ptr(), item.requires_grad, item.tolist()) for name, item in tensors] + [
            (name, item.training, set(vars(item)), type(item)) for name, item in model.named_modules()
        ]
    if isinstance(model, (keras.Model, tf.Module)):
        return [np.asarray(item).tolist() for item in model.variables]
    return sorted(vars(model))


def test_eight_threads_and_four_frameworks():
    work = [*WORK, *FAILING]
    models = [(make(3), convert) for make, convert in work]
    before, held = process_state(), [model_state(model) for model, _ in models]
    queue, failures, reports = list(enumerate(models)), [], []

    def work_off():
        while queue:
            try:
                index, (model, convert) = queue.pop()
            except IndexError:
                return
            try:
                reports.append(convert(model))
            except BaseException as error:
                failures.append((index, error))

    threads = [threading.Thread(target=work_off) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert [report.passed for report in reports if report is not None] == [True] * (len(models) - len(FAILING))
    after = process_state()
    for name, state in before.items():
        assert after[name] == state, name
    assert [model_state(model) for model, _ in models] == held


@pytest.mark.parametrize(("make", "work"), [*WORK, *FAILING])
def test_one_conversion_leaves_nothing_behind(make, work):
    model = make(4)
    tf.random.set_seed(3)
    before, held = process_state(), model_state(model)
    work(model)
    drawn = tf.random.uniform([3]).numpy().tolist()
    after = process_state()
    for name, state in before.items():
        assert after[name] == state, name
    assert model_state(model) == held
    tf.random.set_seed(3)
    assert tf.random.uniform([3]).numpy().tolist() == drawn


@pytest.mark.parametrize("suffix", [".pt2", ".pt", ".keras", "_saved"])
def test_a_save_leaves_nothing_behind(tmp_path, suffix):
    to = {".keras": "keras", "_saved": "tensorflow"}.get(suffix, "pytorch")
    hub = onnxport.convert(torch_model(4), inputs=(torch.tensor(X),))
    before = process_state()
    onnxport.convert(hub, to, inputs=(X,), output=tmp_path / f"m{suffix}")
    if to == "keras":
        onnxport.convert(tmp_path / "m.keras", inputs=(X,))
    after = process_state()
    for name, state in before.items():
        assert after[name] == state, name


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


class Pairs(torch.nn.Module):
    def forward(self, x):
        return Pair(x + 1, x * 2)


def test_a_users_dataclass_is_registered_for_the_conversion_only():
    for _ in range(2):
        assert onnxport.convert(Pairs(), inputs=(torch.tensor(X),)).output_names == ["left", "right"]
        assert Pair not in pytree.SUPPORTED_NODES


class Remembering(torch.nn.Module):
    """Modules among its attributes in every way that people keep them, and what its calls leave on it."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 3)
        self.scale = torch.ones(4)
        self.parts = [self.first, {"last": self.last}]
        self.call = self.first.forward
        self.again = functools.partial(self.last.forward)
        self.seen, self.latest = [], None

    def forward(self, x):
        self.seen.append(x)
        self.latest = self.call(x) * self.scale
        return self.parts[1]["last"](self.latest) + self.again(self.parts[0](x))


class Outside(torch.nn.Module):
    """Reaches its layer past itself."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        owner = self
        self.function = lambda x: owner.layer(x)

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    ("make", "bound"),
    [
        *((make, bound) for make in (lambda: torch_model(4), Remembering, Outside) for bound in (False, True)),
        (lambda: torch.nn.LSTM(4, 3), False),
        (lambda: torch.nn.LazyLinear(3), False),
    ],
)
def test_a_module_is_traced_by_a_shell_of_it(make, bound):
    model = make()
    model(torch.tensor(X))
    before = {name: vars(item).copy() for name, item in model.named_modules()}
    converted = onnxport.convert(model.forward if bound else model, inputs=(torch.tensor(X),))
    assert converted.report.passed
    names = {name for name, _ in model.named_parameters()}
    assert names <= set(converted.model.graph.initializers) or isinstance(model, torch.nn.LSTM)
    for name, item in model.named_modules():
        changed = {key for key, value in vars(item).items() if value is not before[name].get(key)}
        assert changed <= {"seen", "latest"}
    assert all(type(item) is torch.Tensor for item in getattr(model, "seen", []))


def test_a_model_serves_while_it_is_converted():
    model = torch_model(4)
    with torch.no_grad():
        right = model(torch.tensor(X))
    failures = []

    def convert():
        try:
            for _ in range(2):
                onnxport.convert(model, inputs=(torch.tensor(X),))
        except BaseException as error:
            failures.append(error)

    other = threading.Thread(target=convert)
    other.start()
    while other.is_alive():
        with torch.no_grad():
            assert torch.equal(model(torch.tensor(X)), right)
    assert not failures


def test_other_threads_keep_their_output():
    """What one thread prints while another's model is traced goes where it always goes, and at once."""
    stop, seen, written = threading.Event(), io.StringIO(), []

    def chatter():
        while not stop.is_set():
            written.append(sys.stdout.write("mine\n"))
            time.sleep(0.001)

    with redirect_stdout(seen):
        stream = sys.stdout
        other = threading.Thread(target=chatter)
        other.start()
        for _ in range(3):
            refused(lambda model: onnxport.convert(model, inputs=(torch.tensor(X),)))(Branching())
            onnxport.convert(torch_model(3), inputs=(torch.tensor(X),))
        stop.set()
        other.join()
        assert sys.stdout is stream
    assert seen.getvalue().count("mine") == len(written) > 0


def test_a_child_of_fork_converts_though_another_thread_does():
    """The lock that a thread of the parent holds is not the child's."""
    from onnxport.converters.isolation import isolated
    from tests.concurrency.elsewhere import entered_elsewhere

    with entered_elsewhere(isolated()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of forking beside threads
            child = os.fork()
        if child == 0:
            with isolated():
                os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
