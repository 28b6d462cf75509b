"""Archives of PyTorch and files of Keras whose records, configurations or arrays lead astray."""

from __future__ import annotations

import io
import json
import marshal
import pickle
import zipfile
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostile_formats_places import ACTIONS, Payload, Written, new_place


def archives(folder: Path, secret: Path) -> Iterator[Written]:
    import torch

    canary = secret / "ran"
    code = f"open({str(canary)!r}, 'w').close()"

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.layer(x), torch.arange(x.shape[0] // 2 + 1)

    source = folder.parent / "net.pt2"
    program = torch.export.export(Net(), (torch.ones(5, 4),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    torch.export.save(program, source)
    with zipfile.ZipFile(source) as archive:
        records = {item.filename.partition("/")[2]: archive.read(item) for item in archive.infolist()}

    def written(changed: dict[str, bytes]) -> Path:
        place = new_place(folder, "model.pt2")
        with zipfile.ZipFile(place, "w") as archive:
            for name, data in changed.items():
                archive.writestr(f"model/{name}", data)
        return place

    def pickled() -> bytes:
        buffer = io.BytesIO()
        torch.save(((Payload(canary),), {}), buffer)
        return buffer.getvalue()

    text = records["models/model.json"].decode()
    found = json.loads(text)
    node = found["graph_module"]["graph"]["nodes"][0]
    for target in (
        "torch.os.system", "torch.load", "torch.hub.load", "torch.ops.load_library", "torch.ops.aten.from_file.default",
        "torch.ops.aten.save.default", "_operator.methodcaller", "_operator.attrgetter", "torch.serialization.load",
        "torch.ops.higher_order.print", "torch.ops.higher_order.aoti_call_delegate", "torch.ops.debugprims.load_tensor.default",
        "math.factorial", "torchx.os.system", "torch.ops.aten.__class__", "torch.jit.load", "torch._C._jit_unpickle",
    ):  # fmt: skip
        said = [{"name": "", "arg": {"as_string": f"touch {canary}"}, "kind": 1}]
        changed = json.loads(text)
        changed["graph_module"]["graph"]["nodes"][0] = {**node, "target": target, "inputs": said}
        yield "pt2/target", written({**records, "models/model.json": json.dumps(changed).encode()}), ACTIONS
    for old, new in (
        ('"guards_code": []', f'"guards_code": {json.dumps([code])}'),
        ('"guards_code": []', f'"guards_code": {json.dumps([f"L.__class__ or {code}"])}'),
        ('"name": "x"', json.dumps({"name": f"x, y={code}"})[1:-1]),
        ('"layer.weight"', json.dumps(f'w") or {code} or getattr(self, "w')),
        ('"forward_arg_names": ["x"]', json.dumps({"forward_arg_names": [f"x={code}"]})[1:-1]),
        ("Symbol('", f"{code} or Symbol('"),
        ("Integer(2)", f"Integer({code})"),
        ("Integer(2)", "Pow(Integer(9), Integer(999999999))"),
        ("Integer(2)", f"Symbol({json.dumps(code)})".replace('"', '\\"')),
        ('"verifiers": ["TRAINING"]', '"verifiers": ["../x"]'),
        ("builtins.tuple", "collections.defaultdict"),
        ('"as_ints": []', '"as_ints": [1099511627776]'),
    ):
        if old in text:
            yield "pt2/text", written({**records, "models/model.json": text.replace(old, new).encode()}), ACTIONS
    for name in (
        "data/weights/model.pt", "data/constants/model.pt", "data/sample_inputs/model.pt", "data/constants/opaque_obj_0",
        "data/constants/custom_obj_0", "data/aotinductor/model/model.so", "data/aotinductor/model/model.wrapper.so",
    ):  # fmt: skip
        data = pickled() if name.endswith(".pt") else pickle.dumps(Payload(canary))
        yield "pt2/record", written({**records, name: data}), ACTIONS
    for kind in ("weights", "constants"):
        config = json.loads(records[f"data/{kind}/model_{kind}_config.json"])
        entry = next(iter(config["config"].values()), {"path_name": "tensor_0", "is_param": False, "tensor_meta": None})
        config["config"]["layer.weight"] = {**entry, "use_pickle": True}
        changed = {**records, f"data/{kind}/model_{kind}_config.json": json.dumps(config).encode()}
        changed[f"data/{kind}/{entry['path_name']}"] = pickled()
        yield "pt2/pickle", written(changed), ACTIONS
    place = new_place(folder, "old.pt2")
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("version", "8.20")
        archive.writestr("serialized_exported_program.json", text)
        for name in ("state_dict", "constants", "example_inputs"):
            archive.writestr(f"serialized_{name}.pt", pickled())
    yield "pt2/old", place, ACTIONS
    place = new_place(folder, "weights.pt")
    place.write_bytes(pickled())
    yield "weights/pickle", place, ("weights",)
    place = new_place(folder, "weights.pt")
    place.write_bytes(pickle.dumps({"0.weight": Payload(canary)}))
    yield "weights/old pickle", place, ("weights",)


def keras_files(folder: Path, secret: Path) -> Iterator[Written]:
    import keras

    canary, key = secret / "ran", secret / "key.txt"
    body = compile(f"lambda x: open({str(canary)!r}, 'w') and x", "x", "eval").co_consts[0]
    code = b64encode(marshal.dumps(body)).decode()
    fresh = {
        "class_name": "__lambda__",
        "config": {"code": code, "value": [code, None, None], "defaults": None, "closure": None},
    }
    pickled = b64encode(pickle.dumps(Payload(canary))).decode()

    def function(module: str, name: str) -> dict[str, Any]:
        return {"module": module, "class_name": "function", "config": name, "registered_name": name}

    def layer(kind: str, module: str = "keras.layers", **config: Any) -> dict[str, Any]:
        return {
            "module": module,
            "class_name": kind,
            "config": {"name": "bad", **config},
            "registered_name": None,
            "name": "bad",
        }

    bad: list[dict[str, Any]] = [
        layer("Lambda", function=fresh),
        layer("Lambda", function=[code, None, None], function_type="lambda"),
        layer("Lambda", function=function("os", "system")),
        layer("Dense", units=2, activation=fresh),
        layer("Dense", units=2, activation=function("keras.utils", "get_file")),
        layer("Dense", units=2, activation=function("keras.config", "enable_unsafe_deserialization")),
        layer("Dense", units=2, kernel_initializer=function("builtins", "exec")),
        layer("StringLookup", vocabulary=str(key)),
        layer("IntegerLookup", vocabulary=str(key)),
        layer("TextVectorization", vocabulary=str(key)),
        layer("TFSMLayer", filepath=str(secret)),
        layer("TorchModuleWrapper", module={"class_name": "__bytes__", "config": {"value": pickled}}),
        layer("TorchModuleWrapper", module=pickled),
        layer("JaxLayer", call_fn=fresh),
        layer("load_model", module="keras.models", filepath=str(key)),
        layer("get_file", module="keras.utils", origin=f"file://{key}"),
        layer("Popen", module="subprocess", args=["touch", str(canary)]),
        layer("antigravity", module="antigravity"),
        layer("TextLineDataset", module="tensorflow.data", filenames=str(key)),
        layer("Embedding", input_dim=1 << 34, output_dim=64),
        layer("Dense", units=1 << 30),
        layer("TimeDistributed", layer=layer("Lambda", function=fresh)),
        layer(
            "Wrapper",
            layer={"class_name": "__typespec__", "spec_name": "x", "module": "os", "config": [], "registered_name": ""},
        ),
    ]
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)], name="model")
    model.save(folder.parent / "plain.keras")
    model.save(folder.parent / "plain.h5")
    with zipfile.ZipFile(folder.parent / "plain.keras") as archive:
        parts = {item.filename: archive.read(item) for item in archive.infolist()}
    for item in bad:
        config = json.loads(parts["config.json"])
        config["config"]["layers"][1] = item
        place = new_place(folder, "model.keras")
        with zipfile.ZipFile(place, "w") as archive:
            for name, data in {**parts, "config.json": json.dumps(config).encode()}.items():
                archive.writestr(name, data)
        yield "keras/configuration", place, ACTIONS
        import h5py

        place = new_place(folder, "model.h5")
        place.write_bytes((folder.parent / "plain.h5").read_bytes())
        with h5py.File(place, "r+") as store:
            config = json.loads(store.attrs["model_config"])
            config["config"]["layers"][1] = item
            store.attrs["model_config"] = json.dumps(config)
        yield "h5/configuration", place, ACTIONS


def stores(folder: Path, secret: Path) -> Iterator[Written]:
    import h5py
    import keras

    data = str(secret / "data.bin")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="dense")], name="model")

    def external(store: Any, name: str) -> None:
        store[name] = h5py.ExternalLink(data, "/")

    def raw(store: Any, name: str) -> None:
        store.create_dataset(name, (4, 3), "f4", external=[(data, 0, 48)])

    def virtual(store: Any, name: str) -> None:
        layout = h5py.VirtualLayout((4, 3), "f4")
        layout[:] = h5py.VirtualSource(data, "x", (4, 3))
        store.create_virtual_dataset(name, layout)

    def soft(store: Any, name: str) -> None:
        store[name] = h5py.SoftLink("/")

    def packed(store: Any, name: str) -> None:
        store.create_dataset(name, (1 << 36,), "f4", chunks=(1 << 20,), compression="gzip")

    for change in (external, raw, virtual, soft, packed):
        for replace in (False, True):
            for suffix in (".h5", ".weights.h5", ".keras"):
                place = new_place(folder, f"model{suffix}")
                inner = place if suffix != ".keras" else place.with_suffix(".weights.h5")
                model.save(place) if suffix == ".h5" else model.save_weights(inner)
                with h5py.File(inner, "r+") as store:
                    names: list[str] = []
                    store.visititems(
                        lambda name, item, names=names: names.append(name) if isinstance(item, h5py.Dataset) else None
                    )
                    if replace:
                        del store[names[-1]]
                    change(store, names[-1] if replace else "other")
                if suffix == ".keras":
                    model.save(folder.parent / "plain.keras")
                    with zipfile.ZipFile(folder.parent / "plain.keras") as old, zipfile.ZipFile(place, "w") as archive:
                        for item in old.infolist():
                            held = inner.read_bytes() if item.filename == "model.weights.h5" else old.read(item)
                            archive.writestr(item.filename, held)
                    inner.unlink()
                kind = {".h5": "h5", ".weights.h5": "weights", ".keras": "keras"}[suffix]
                yield f"{kind}/{change.__name__}", place, ("weights",) if kind == "weights" else ACTIONS
