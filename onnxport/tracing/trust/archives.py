"""Zip archives of models: names and sizes, checked before anything is unpacked."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path, PurePosixPath

from onnxport.tracing.trust.faults import hostile, reading

_BYTES = 300 << 20
_RECORDS = 200_000


def check_zip(title: str, source: Path | bytes, *, packed: int = 1) -> None:
    """Refuses an archive that unpacks to more than its size allows, or whose names lead out of it or repeat.

    What is no archive passes. It may unpack to `packed` times its size, beyond 1 MB where that is 1 and 300 MB where it is more.

    Raises:
        InvalidModelError: it does, or its directory is damaged.
    """
    held = len(source) if isinstance(source, bytes) else os.path.getsize(source)
    allowed = packed * held + (_BYTES if packed > 1 else 1 << 20)
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    if not zipfile.is_zipfile(stream):
        return
    with reading(f"{title} is damaged: its archive can't be read"), zipfile.ZipFile(stream) as archive:
        records = archive.infolist()
    total = sum(item.file_size for item in records)
    if total > allowed or len(records) > _RECORDS:
        raise hostile(title, f"it unpacks to {total:,} bytes in {len(records):,} parts, the file has {held:,}")
    seen = set[str]()
    for item in records:
        inside = PurePosixPath(item.filename.replace("\\", "/"))
        if inside.is_absolute() or ".." in inside.parts or item.filename in seen:
            raise hostile(title, f"its part {item.filename!r} is out of place or repeated")
        seen.add(item.filename)
