"""Damage to a file: bytes, cuts, and changes where its format has a structure."""

from __future__ import annotations

import copy
import io
import json
import random
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 255, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63), 1e308, -0.5, float("nan"), "", "x",
    "../../secret/data.bin", "/etc/hostname", "x" * 3000, "\n", "\ud83d\ude00", [], [[]], [1, 2], {}, {"class_name": "x"},
)  # fmt: skip


def changed(path: Path, kind: str, rng: random.Random) -> None:
    """Damages a file, or one of a folder."""
    if path.is_dir():
        files = sorted(item for item in path.rglob("*") if item.is_file())
        path = rng.choice([*files, *(item for item in files if item.suffix == ".pb")])
    data = path.read_bytes()
    if kind == "structure":
        data = structured(path, data, rng)
    elif kind == "cut":
        data = data[: rng.randrange(len(data) + 1)]
    else:
        data = scratched(data, rng)
    path.write_bytes(data)


def scratched(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, or a stretch zeroed, doubled or taken out."""
    found, size = bytearray(data), len(data)
    if not size:
        return data
    start = rng.randrange(size)
    stop = min(size, start + rng.choice((1, 4, 16, 64, 256)))
    match rng.randrange(4):
        case 0:
            found[start:stop] = bytes(stop - start)
        case 1:
            found[start:start] = found[start:stop]
        case 2:
            del found[start:stop]
        case _:
            for _ in range(rng.choice((1, 1, 2, 8, 32))):
                found[rng.randrange(size)] = rng.randrange(256)
    return bytes(found)


def structured(path: Path, data: bytes, rng: random.Random) -> bytes:
    """A field changed where the format has fields, else bytes."""
    suffix = path.suffix
    if zipfile.is_zipfile(io.BytesIO(data)):
        return in_archive(data, rng)
    if suffix in (".json",) or data[:1] == b"{":
        return in_json(data, rng)
    if path.name == "saved_model.pb" or suffix == ".pb":
        return in_message(path, data, rng)
    if data[:4] == b"\x89HDF":
        return in_store(data, rng)
    if suffix in (".txt", ".csv"):
        return in_text(data, rng)
    return scratched(data, rng)


def in_archive(data: bytes, rng: random.Random) -> bytes:
    """A member changed, taken out, doubled or renamed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [[item.filename, archive.read(item)] for item in archive.infolist()]
    chosen = rng.choice(members)
    for item in members:  # what is read first is changed more often
        if item[0].endswith((".json", "config.json")) and rng.random() < 0.5:
            chosen = item
    match rng.randrange(8):
        case 0:
            members.remove(chosen)
        case 1:
            chosen[0] = rng.choice(("../x", "/x", "x", chosen[0] + "/", "a\\b"))
        case 2:
            members.append([rng.choice(members)[0], scratched(chosen[1], rng)])
        case _:
            chosen[1] = structured(Path(chosen[0]), chosen[1], rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def in_json(data: bytes, rng: random.Random) -> bytes:
    """A value replaced, taken out, doubled or moved."""
    try:
        found = json.loads(data)
    except ValueError:
        return scratched(data, rng)
    places = [*slots(found)]
    if not places:
        return json.dumps(rng.choice(ODD)).encode()
    for _ in range(rng.choice((1, 1, 1, 3))):
        owner, key = rng.choice(places)
        match rng.randrange(6):
            case 0 if isinstance(owner, dict):
                owner.pop(key, None)
            case 1 if isinstance(owner, list) and key < len(owner):
                owner.insert(key, copy.deepcopy(owner[key]))
            case 2:
                other, name = rng.choice(places)
                if (name in other) if isinstance(other, dict) else name < len(other):
                    put(owner, key, copy.deepcopy(other[name]))
            case _:
                value = owner.get(key) if isinstance(owner, dict) else owner[key] if key < len(owner) else None
                put(owner, key, text_changed(value, rng) if isinstance(value, str) else rng.choice(ODD))
    return json.dumps(found).encode()


def text_changed(text: str, rng: random.Random) -> Any:
    """Text with JSON inside changed as JSON; any other replaced."""
    if text[:1] in "[{" and text:
        return in_json(text.encode(), rng).decode()
    return rng.choice(ODD)


def put(owner: Any, key: Any, value: Any) -> None:
    if isinstance(owner, dict) or key < len(owner):
        owner[key] = value


def slots(found: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a value in nested JSON."""
    waiting = [found]
    while waiting:
        item = waiting.pop()
        keys = [*item] if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
        for key in keys:
            yield item, key
            waiting.append(item[key])


def in_message(path: Path, data: bytes, rng: random.Random) -> bytes:
    """A field of a protocol buffer changed, cleared or doubled."""
    import tensorflow as tf
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    kinds = {"fingerprint.pb": None, "saved_model.pb": SavedModel}
    kind = kinds.get(path.name, tf.compat.v1.GraphDef)
    if kind is None:
        return scratched(data, rng)
    message = kind()
    message.ParseFromString(data)
    for _ in range(rng.choice((1, 1, 2))):
        owner = message
        while True:
            fields = owner.ListFields()
            if not fields:
                break
            field, value = rng.choice(fields)
            inner = [value] if field.message_type and not hasattr(value, "__len__") else []
            if field.message_type and hasattr(value, "__len__"):
                inner = [value[key] for key in sorted(value)] if hasattr(value, "values") else [*value]
            inner = [item for item in inner if hasattr(item, "ListFields")]
            if inner and rng.random() < 0.93:
                owner = rng.choice(inner)
                continue
            field_changed(owner, field, value, rng)
            break
    return bytes(message.SerializeToString(deterministic=True))


def field_changed(owner: Any, field: Any, value: Any, rng: random.Random) -> None:
    repeated = hasattr(value, "append") or hasattr(value, "add")
    if rng.random() < 0.25 or (field.message_type and not repeated):
        owner.ClearField(field.name)
    elif repeated and len(value):
        index = rng.randrange(len(value))
        if field.message_type:
            value.add().CopyFrom(value[index]) if rng.random() < 0.5 else value.__delitem__(index)
        elif field.cpp_type in (field.CPPTYPE_STRING,):
            value[index] = (
                rng.choice((b"x", b"", b"^x", b"/etc/hostname", b"x:9"))
                if isinstance(value[index], bytes)
                else rng.choice(("x", "", "^x", str(rng.choice(list(value))), "x:9:9"))
            )
        else:
            value[index] = rng.choice((0, 1, -1, 2, 99, 1 << 30))
    elif isinstance(value, bytes):
        setattr(owner, field.name, rng.choice((b"", b"x", value[: len(value) // 2], value + value, b"\xff" * 9)))
    elif isinstance(value, str):
        names = (
            "",
            "x",
            "Const",
            "Placeholder",
            "Reshape",
            "StatefulPartitionedCall",
            "While",
            "MatMul",
            "VarHandleOp",
            "Pad",
        )
        setattr(owner, field.name, rng.choice(names))
    elif isinstance(value, bool):
        setattr(owner, field.name, not value)
    elif isinstance(value, (int, float)):
        setattr(owner, field.name, rng.choice((0, 1, 2, 3, 7, 9, 19, 20, 21, 127, -1, 1 << 20, (1 << 31) - 1)))


def in_store(data: bytes, rng: random.Random) -> bytes:
    """An array or attribute of an HDF5 file replaced, taken out or reshaped."""
    import h5py

    buffer = io.BytesIO(data)
    with h5py.File(buffer, "r+") as store:
        if "model_config" in store.attrs and rng.random() < 0.5:
            text = store.attrs["model_config"]
            store.attrs["model_config"] = in_json(text.encode() if isinstance(text, str) else text, rng).decode()
        else:
            names: list[str] = []
            store.visit(names.append)
            name = rng.choice(names)
            kept = rng.random()
            del store[name]
            if kept < 0.7:
                shape = rng.choice(((), (0,), (1,), (3, 4), (4, 3), (1 << 10,)))
                store[name] = np.ones(shape, rng.choice(("f4", "f8", "i8", "S3", "c8", "?", "f2")))
    return buffer.getvalue()


def in_text(data: bytes, rng: random.Random) -> bytes:
    """Some number or word replaced, or a line taken out."""
    text = data.decode("utf-8", "replace")
    lines = text.split("\n")
    index = rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[index]
        case 1:
            lines.insert(index, rng.choice(lines))
        case _:
            words = [*re.finditer(r"-?[\w.]+", text)]
            for _ in range(rng.choice((1, 1, 3))):
                word = rng.choice(words)
                odd = str(
                    rng.choice(
                        ("", "-1", "-7", "999", "1e400", "nan", "x", "2147483648", "-2147483649", "99999999999999")
                    )
                )
                if word.end() <= len(text):
                    text = text[: word.start()] + odd + text[word.end() :]
            return text.encode()
    return "\n".join(lines).encode()
