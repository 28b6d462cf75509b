"""``.pt2`` archives and weights that nobody vouches for: no text of theirs is evaluated, nothing is unpickled."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import onnxport
from onnxport.errors import InvalidModelError, OnnxportError, UntrustedFileError
from onnxport.tracing.pytorch_weights import load_weights
from onnxport.tracing.trust.pytorch_expressions import is_guard, is_symbolic


class Net(torch.nn.Module):
    """A layer, and sizes that depend on each other."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, *, scale: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.layer(x) * scale["a-b"]
        return y, torch.arange(x.shape[0] // 2 + 1)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    dims = {"x": {0: torch.export.Dim.AUTO}, "scale": {"a-b": None}}
    program = torch.export.export(Net(), (torch.ones(5, 4),), {"scale": {"a-b": torch.ones(3)}}, dynamic_shapes=dims)
    place = tmp_path_factory.mktemp("archive") / "model.pt2"
    torch.export.save(program, place)
    return place


class Payload:
    """Unpickling it writes a file."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.canary),)


def edited(source: Path, folder: Path, edit: Callable[[dict[str, bytes]], None]) -> Path:
    """The archive with other records."""
    with zipfile.ZipFile(source) as archive:
        records = {item.filename.removeprefix("model/"): archive.read(item) for item in archive.infolist()}
    edit(records)
    place = folder / "model.pt2"
    with zipfile.ZipFile(place, "w") as archive:
        for name, data in records.items():
            archive.writestr(f"model/{name}", data)
    return place


def in_json(change: Callable[[Any, str], None]) -> Callable[[dict[str, bytes], Path], None]:
    def edit(records: dict[str, bytes], canary: Path) -> None:
        found = json.loads(records["models/model.json"])
        change(found, f"__import__('os').mkdir({str(canary)!r})")
        records["models/model.json"] = json.dumps(found).encode()

    return edit


def guard(program: Any, code: str) -> None:
    program["guards_code"] = [code]


def size(program: Any, code: str) -> None:
    next(iter(program["graph_module"]["graph"]["sym_int_values"].values()))["as_expr"]["expr_str"] = code


def target(name: str) -> Callable[[Any, str], None]:
    def change(program: Any, code: str) -> None:
        node = program["graph_module"]["graph"]["nodes"][0]
        node["target"] = name
        node["inputs"] = [{"name": "", "arg": {"as_string": code}, "kind": 1}]

    return change


def renamed(program: Any, code: str) -> None:
    text = json.dumps(program).replace('"x"', json.dumps(f"x, y={code}"))
    program.clear()
    program.update(json.loads(text))


def parameter(program: Any, code: str) -> None:
    spec = next(item for item in program["graph_module"]["signature"]["input_specs"] if "parameter" in item)
    spec["parameter"]["parameter_name"] = f'a") or {code} or getattr(self, "a'


def argument(program: Any, code: str) -> None:
    program["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = [f"x={code}"]


def key(program: Any, code: str) -> None:
    signature = program["graph_module"]["module_call_graph"][0]["signature"]
    signature["in_spec"] = signature["in_spec"].replace("a-b", f"a': {code}, '")


def enumeration(program: Any, code: str) -> None:
    signature = program["graph_module"]["module_call_graph"][0]["signature"]
    hook = json.dumps(json.dumps([{"__enum__": True, "fqn": "antigravity:x", "name": "y"}]))
    signature["in_spec"] = signature["in_spec"].replace('"[\\"scale\\"]"', hook)


def vast(program: Any, code: str) -> None:
    node = program["graph_module"]["graph"]["nodes"][0]
    node["target"] = "torch.ops.aten.full.default"
    node["inputs"] = [{"name": "size", "arg": {"as_ints": [1 << 20, 1 << 20]}, "kind": 1}]


def samples(records: dict[str, bytes], canary: Path) -> None:
    buffer = io.BytesIO()
    torch.save(((Payload(canary),), {}), buffer)
    records["data/sample_inputs/model.pt"] = buffer.getvalue()


def weight(records: dict[str, bytes], canary: Path) -> None:
    config = json.loads(records["data/weights/model_weights_config.json"])
    config["config"]["layer.weight"]["use_pickle"] = True
    records["data/weights/model_weights_config.json"] = json.dumps(config).encode()
    buffer = io.BytesIO()
    torch.save(Payload(canary), buffer)
    records["data/weights/weight_0"] = buffer.getvalue()


def record(name: str) -> Callable[[dict[str, bytes], Path], None]:
    return lambda records, canary: records.update({name: pickle.dumps(Payload(canary))})


def empty_weight(records: dict[str, bytes], canary: Path) -> None:
    config = json.loads(records["data/weights/model_weights_config.json"])
    config["config"]["layer.weight"]["tensor_meta"]["sizes"] = [{"as_int": 1 << 40}]
    records["data/weights/model_weights_config.json"] = json.dumps(config).encode()
    records["data/weights/weight_0"] = b""


ATTACKS = {
    "guard": (in_json(guard), UntrustedFileError),
    "size": (in_json(size), UntrustedFileError),
    "os": (in_json(target("torch.os.system")), UntrustedFileError),
    "load": (in_json(target("torch.load")), UntrustedFileError),
    "methodcaller": (in_json(target("_operator.methodcaller")), UntrustedFileError),
    "from_file": (in_json(target("torch.ops.aten.from_file.default")), UntrustedFileError),
    "save": (in_json(target("torch.ops.aten.save.default")), UntrustedFileError),
    "load_library": (in_json(target("torch.ops.load_library")), UntrustedFileError),
    "delegate": (in_json(target("torch.ops.higher_order.aoti_call_delegate")), UntrustedFileError),
    "name": (in_json(renamed), UntrustedFileError),
    "parameter": (in_json(parameter), UntrustedFileError),
    "argument": (in_json(argument), UntrustedFileError),
    "key": (in_json(key), UntrustedFileError),
    "enumeration": (in_json(enumeration), UntrustedFileError),
    "samples": (samples, UntrustedFileError),
    "weight": (weight, UntrustedFileError),
    "old weights": (record("data/weights/model.pt"), UntrustedFileError),
    "old constants": (record("data/constants/model.pt"), UntrustedFileError),
    "opaque": (record("data/constants/opaque_obj_0"), UntrustedFileError),
    "torchbind": (record("data/constants/custom_obj_0"), UntrustedFileError),
    "machine code": (record("data/aotinductor/model/model.so"), UntrustedFileError),
    "vast": (in_json(vast), InvalidModelError),
    "empty weight": (empty_weight, InvalidModelError),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_archives_that_would_run_code_are_refused_by_name(archive: Path, tmp_path: Path, attack: str) -> None:
    canary = tmp_path / "canary"
    edit, error = ATTACKS[attack]
    place = edited(archive, tmp_path, lambda records: edit(records, canary))
    with pytest.raises(error) as caught:
        onnxport.convert(place)
    assert error is InvalidModelError or "--allow-" in str(caught.value)
    assert str(place) in str(caught.value)
    assert not canary.exists()


def test_what_torch_export_saves_loads_without_consent(archive: Path) -> None:
    x, scale = torch.ones(6, 4), {"a-b": torch.full((3,), 0.5)}
    model = onnxport.convert(archive, inputs=(x,), kwargs={"scale": scale})
    expected = torch.export.load(archive).module()(x, scale=scale)
    for got, want in zip(model(x.numpy(), scale["a-b"].numpy()), expected, strict=True):
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-5)


def test_a_consent_covers_pickled_examples(archive: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    place = edited(archive, tmp_path, lambda records: samples(records, canary))
    with pytest.raises(OnnxportError):  # the example is no input of the model; only the consent is looked at here
        onnxport.convert(place, allow_pickle=True)
    assert canary.exists()


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("Symbol('s77', positive=True, integer=True)", True),
        ("Add(FloorDiv(Symbol('s7', integer=True), Integer(2)), Integer(-1))", True),
        ("s0*2 + 1", True),
        ("Pow(Symbol('s0', integer=True), Integer(2))", True),
        ("Rational(1, 2)", True),
        ("Pow(Integer(10), Integer(1000000000))", False),
        ("9**9**9**9", False),
        ("Symbol('x').__class__", False),
        ("().__class__", False),
        ("lambda: 0", False),
        ("Integer('__import__(\"os\")')", False),
        ("S('os')", False),
        ("open('x')", False),
        ("(" * 500 + ")" * 500, False),
    ],
)
def test_sizes_are_arithmetic(text: str, fine: bool) -> None:
    assert is_symbolic(text) is fine


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("max(3, 1 + 2*L['x'].size()[0]) <= 3*L['x'].size()[0]", True),
        ("L['x'].state[0].stride()[1] == 4 and not L['y'].size()[0] % 2 != 0", True),
        ("math.floor(L['x'].size()[0] / 2) < 8", True),
        ("L['x'].data.tofile('y')", False),
        ("torch.load('x')", False),
        ("L.__class__", False),
        ("[x for x in L]", False),
        ("(y := 3)", False),
        ("math.factorial(10**9)", False),
    ],
)
def test_guards_are_comparisons_of_sizes(text: str, fine: bool) -> None:
    assert is_guard(text) is fine


def test_weights_that_unpack_to_more_than_the_file_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "weights.pt"
    torch.save({"weight": torch.zeros(512, 1024), "bias": torch.zeros(512)}, place)
    packed = tmp_path / "packed.pt"
    with zipfile.ZipFile(place) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for item in source.infolist():
            archive.writestr(item.filename, source.read(item))
    with pytest.raises(InvalidModelError, match="unpacks to"):
        load_weights(torch.nn.Linear(1024, 512), packed)


def test_a_program_whose_modules_do_not_fit_its_graph_is_refused(tmp_path):
    from onnxport.tracing.pytorch_programs import load

    program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))
    program.module_call_graph[0].fqn = "other"
    torch.export.save(program, tmp_path / "model.pt2")
    with pytest.raises(InvalidModelError, match="no torch.export program"):
        load(tmp_path / "model.pt2")
