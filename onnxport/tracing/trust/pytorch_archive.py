"""The records of a ``.pt2`` file: what torch.export.save writes, read without unpickling more than tensors."""

from __future__ import annotations

import io
import json
import math
import os
from typing import Any

import torch

from onnxport.errors import InvalidModelError, first_line
from onnxport.tracing.trust.archives import check_zip
from onnxport.tracing.trust.faults import ALLOW_PICKLE, check_bytes, damaged, hostile, reading, untrusted
from onnxport.tracing.trust.pytorch import check_program

_SLACK = 1 << 20
# Bytes an element, by the number of a dtype in torch's schema of these files.
_WIDTHS = dict.fromkeys((1, 2, 12, 29, 30, 31, 32, 33), 1) | dict.fromkeys((3, 6, 13, 28), 2)
_WIDTHS |= dict.fromkeys((4, 7, 9, 34), 4) | dict.fromkeys((5, 8, 10, 35), 8) | {11: 16}


def check_archive(path: str, *, allow_pickle: bool) -> None:
    """Looks through a ``.pt2`` file before torch loads it; `allow_pickle` allows pickled parts.

    Raises:
        UntrustedFileError: loading or running it would run code of its own.
        InvalidModelError: it is no archive that torch.export.save wrote, or holds more than its size can.
    """
    title = repr(path)
    file_bytes = os.path.getsize(path)
    with reading(f"{title} is truncated or no torch.export program"):
        reader: Any = torch._C.PyTorchFileReader(path)  # the one that torch.export.load reads with
        records = {name: reader.get_record_size(name) for name in reader.get_all_records()}
    if len(records) != len(reader.get_all_records()) or sum(records.values()) > file_bytes + _SLACK:
        raise hostile(title, f"its records take {sum(records.values()):,} bytes, the file has {file_bytes:,}")
    if "archive_format" not in records or "models/model.json" not in records:
        raise InvalidModelError(
            f"{title} is no torch.export program, or one of torch 2.7 or older: save it with a newer torch"
        )
    for name in records:
        _check_record(title, name, allow_pickle)
    programs = [name for name in records if name.startswith("models/")]
    for name in programs:
        model = name.removeprefix("models/").removesuffix(".json")
        check_program(f"{title} ({name})", _json(title, reader, name))
        total = 0
        for kind in ("weights", "constants"):
            config = f"data/{kind}/{model}_{kind}_config.json"
            if config not in records:
                raise damaged(title, f"it holds no record {config!r}")
            total += _check_payloads(title, config, _json(title, reader, config), records, allow_pickle)
        check_bytes(title, "its weights take", total, file_bytes)
        samples = f"data/sample_inputs/{model}.pt"
        if samples not in records:
            raise damaged(title, f"it holds no record {samples!r}")
        if records[samples] and not allow_pickle:
            _check_samples(title, samples, reader.get_record(samples))


def _check_record(title: str, name: str, allow_pickle: bool) -> None:
    if name.startswith("data/aotinductor"):
        raise untrusted(title, f"the record {name!r} is machine code that loading would run")
    if name.startswith(("data/constants/custom_obj", "data/constants/opaque_obj")):
        raise untrusted(title, f"the record {name!r} is an object of a class of its own")
    if name.startswith(("data/weights/", "data/constants/")) and name.endswith(".pt") and not allow_pickle:
        raise untrusted(title, f"the record {name!r} is a pickle, and loading one runs code", ALLOW_PICKLE)


def _json(title: str, reader: Any, name: str) -> Any:
    with reading(f"{title} is damaged: the record {name!r} can't be read"):
        return json.loads(reader.get_record(name))


def _check_payloads(title: str, config: str, content: object, records: dict[str, int], allow_pickle: bool) -> int:
    """How many bytes the tensors of one table take."""
    entries = content.get("config") if isinstance(content, dict) else None
    if not isinstance(entries, dict):
        raise damaged(title, f"the record {config!r} lists no tensors")
    total = 0
    for name, entry in entries.items():
        meta: Any = entry.get("tensor_meta") if isinstance(entry, dict) else None
        record = f"{config.rpartition('/')[0]}/{entry.get('path_name')}" if isinstance(entry, dict) else ""
        if record not in records:
            raise damaged(title, f"the tensor {name!r} has no record {record!r}")
        if entry.get("use_pickle"):
            if not allow_pickle:
                raise untrusted(title, f"the tensor {name!r} is a pickle, and loading one runs code", ALLOW_PICKLE)
            continue
        try:
            sizes = [int(size["as_int"]) for size in meta["sizes"]]
            width = _WIDTHS[meta["dtype"]]
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(title, f"the tensor {name!r} has no size and type") from error
        if any(size < 0 for size in sizes):
            raise damaged(title, f"the tensor {name!r} has the size {sizes}")
        count = math.prod(sizes) * width
        if count and not records[record]:
            raise damaged(title, f"the tensor {name!r} takes {count:,} bytes, its record holds none")
        total += count
    return total


def _check_samples(title: str, name: str, data: bytes) -> None:
    """The example inputs are tensors and plain containers, as the restricted unpickler of torch takes them."""
    check_zip(f"{title} ({name})", data)
    try:
        torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except EOFError as error:
        raise damaged(title, f"the record {name!r} can't be read: {first_line(error)}") from error
    except Exception as error:  # the unpickler raises whatever a broken file makes of it
        more = f"are a pickle of more than tensors, and loading one runs code ({first_line(error)})"
        raise untrusted(title, f"the example inputs ({name!r}) {more}", ALLOW_PICKLE) from error
