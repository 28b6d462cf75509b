"""Messages between this process and the helper: a head of JSON, then blocks of bytes; never a pickle."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Callable
from typing import IO, Any

import ml_dtypes
import numpy as np

_LOOK = 0.1  # seconds between two looks at whether a message is late
Message = tuple[dict[str, Any], list[bytes]]  # a head, and the blocks of bytes that it refers to by their index


def send(stream: IO[bytes], head: dict[str, Any], blocks: list[bytes]) -> None:
    """Writes a message."""
    text = json.dumps({**head, "sizes": [len(block) for block in blocks]}).encode()
    stream.write(len(text).to_bytes(8, "little") + text)
    for block in blocks:
        stream.write(block)
    stream.flush()


def receive(stream: IO[bytes], is_late: Callable[[], bool] | None = None) -> Message:
    """The next message; `is_late` is asked while it is waited for, None waits for ever.

    Raises:
        TimeoutError: it is late.
        EOFError: the other process has closed the stream.
    """
    head = json.loads(_exactly(stream, int.from_bytes(_exactly(stream, 8, is_late), "little"), is_late))
    return head, [_exactly(stream, size, is_late) for size in head["sizes"]]


def _exactly(stream: IO[bytes], size: int, is_late: Callable[[], bool] | None) -> bytes:
    parts, handle = [], stream.fileno()
    while size:
        while is_late is not None:
            if is_late():
                raise TimeoutError
            if select.select([handle], [], [], _LOOK)[0]:
                break
        part = os.read(handle, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def encode(item: object, blocks: list[bytes]) -> dict[str, Any]:
    """A runtime's value as JSON; the bytes of its arrays are appended to `blocks`."""
    if isinstance(item, np.ndarray) and item.dtype.kind not in "OUS":
        blocks.append(np.ascontiguousarray(item).tobytes())
        return {"array": [item.dtype.name, item.shape, len(blocks) - 1]}
    if isinstance(item, np.ndarray):
        return {"texts": [item.shape, [_text(part) for part in item.ravel().tolist()]]}
    if isinstance(item, (list, tuple)):
        return {"list": [encode(part, blocks) for part in item]}
    if isinstance(item, dict):
        return {"dict": [[encode(key, blocks), encode(part, blocks)] for key, part in item.items()]}
    if isinstance(item, np.generic):
        return {"scalar": encode(np.asarray(item), blocks)}
    return {"plain": item}


def _text(item: object) -> str:
    return item.decode(errors="replace") if isinstance(item, bytes) else str(item)


def decode(item: dict[str, Any], blocks: list[bytes]) -> Any:
    """The value that `encode` was given."""
    ((kind, content),) = item.items()
    match kind:
        case "array":
            name, shape, index = content
            return np.frombuffer(blocks[index], named_dtype(name)).reshape(shape).copy()
        case "texts":
            shape, texts = content
            array = np.empty(len(texts), object)
            array[:] = texts
            return array.reshape(shape)
        case "list":
            return [decode(part, blocks) for part in content]
        case "dict":
            return {decode(key, blocks): decode(part, blocks) for key, part in content}
        case "scalar":
            return decode(content, blocks)[()]
    return content


def named_dtype(name: str) -> np.dtype[Any]:
    """An element type by name, those of ml_dtypes too."""
    return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)
