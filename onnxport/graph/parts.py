"""Parts of a save: files and folders under names that say so, locked while their writer lives, swept when it does not."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no flock: nothing is swept there
    fcntl = None  # type: ignore[assignment]

# How long a data file outlives the model that named it: readers open it right after they have read the model.
_GRACE = 0.1
# A model file that is older than this has no such reader.
_SETTLED = 1.0
_LOCK_PATIENCE = 10.0
# New folders that this process has locked: `flock` would wait for itself, since each handle of a folder has a lock of its own.
_OWN_FOLDERS: set[tuple[int, int]] = set()
_LONGEST_STEM = 200  # a file name has 255 bytes at most, and ours add up to 24 to the target's
# Kinds of file in which the name of a data file may stand.
_MODEL_SUFFIXES = frozenset({".onnx", ".ort", ".pb", ".pbtxt", ".onnxtxt", ".textproto", ".json"})


def data_name(target: Path, digest: str) -> str:
    """The name of a model's data file: the model's, and what the file holds."""
    return f"{_stem(target)}.{digest[:16]}.data"


def fresh_name(target: Path) -> Path:
    """A name for a part of a save of `target`."""
    return target.parent / f".{_stem(target)}.{secrets.token_hex(4)}.part"


def new_file(target: Path, mode: int) -> tuple[int, Path]:
    """A new locked file beside `target`, open for reading and writing; its permissions are `mode` without the umask."""
    return _new(target, lambda path: os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _CLOEXEC, mode))


@contextmanager
def new_folder(target: Path, mode: int) -> Iterator[Path]:
    """A new locked folder beside `target`; what stands under its name when the block ends is removed."""

    def create(path: Path) -> int:
        path.mkdir(mode)
        return os.open(path, os.O_RDONLY)

    handle, path = _new(target, create)
    own = _identity(handle)
    _OWN_FOLDERS.add(own)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        _OWN_FOLDERS.discard(own)
        os.close(handle)


@contextmanager
def folder_locked(folder: Path) -> Iterator[bool]:
    """What is renamed and removed in `folder` is so by one saver after the other; False where that can't be had.

    A new folder of this process is locked already, and nobody else writes to it.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # a folder that may be written to but not listed
        yield False
        return
    try:
        yield _identity(handle) in _OWN_FOLDERS or _wait_for_lock(handle)
    finally:
        os.close(handle)


@contextmanager
def opened(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """A handle of a file or folder, closed when the block ends."""
    handle = os.open(path, flags)
    try:
        yield handle
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Makes the names in `folder` durable, where its file system can."""
    with suppress(OSError), opened(folder) as handle:
        os.fsync(handle)


def sweep_before(target: Path) -> None:
    """Removes what killed saves of `target` left, which may fill the disk, before another is written."""
    try:
        settled = time.time() - target.stat().st_ctime > _SETTLED
    except FileNotFoundError:
        settled = True
    with folder_locked(target.parent) as locked:
        if locked:
            left = _left(target)
            _remove_dead(left.parts)
            if settled:
                _remove_data(target, left.data, ())


@contextmanager
def placing(target: Path, keep: Collection[str] = ()) -> Iterator[None]:
    """A block that renames what a save of `target` wrote, while no other saver does.

    Then goes what earlier saves left: parts of dead writers, and data files that no model names, but for `keep`.
    """
    with folder_locked(target.parent) as locked:
        yield
        data: list[Path] = []
        if locked:
            left = _left(target)
            _remove_dead(left.parts)
            data = [path for path in left.data if path.name not in keep]
    if data:
        time.sleep(_GRACE)
        with folder_locked(target.parent) as locked:
            if locked:
                _remove_data(target, _left(target).data, keep)


_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_SAFE_OPEN = os.O_RDONLY | _CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def _stem(target: Path) -> str:
    name = target.name
    return name if len(os.fsencode(name)) <= _LONGEST_STEM else hashlib.sha256(os.fsencode(name)).hexdigest()[:32]


def _new(target: Path, make: Callable[[Path], int]) -> tuple[int, Path]:
    while True:
        path = fresh_name(target)
        try:
            handle = make(path)
        except FileExistsError:
            continue
        if _lock(handle) is not False and _is_at(handle, path):
            return handle, path
        os.close(handle)  # another saver took it for a dead one's before it was locked


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _identity(handle: int) -> tuple[int, int]:
    status = os.fstat(handle)
    return status.st_dev, status.st_ino


def _lock(handle: int) -> bool | None:
    """Whether the lock of a file or folder is taken now; None where its file system has none."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def _wait_for_lock(handle: int) -> bool:
    end = time.monotonic() + _LOCK_PATIENCE
    while (locked := _lock(handle)) is False and time.monotonic() < end:
        time.sleep(0.005)
    return bool(locked)


@dataclass(frozen=True)
class _Left:
    """What saves of one target left beside it."""

    parts: list[Path]
    data: list[Path]


_PART, _DATA = re.compile(r"[a-z0-9_]{8}\.part"), re.compile(r"[0-9a-f]{16}\.data")


def _left(target: Path) -> _Left:
    """The parts and data files of a target, of one listing of its folder."""
    folder, stem = target.parent, f"{_stem(target)}."
    left = _Left([], [])
    for name in sorted(name for name in os.listdir(folder) if name.startswith((stem, f".{stem}"))):
        if _DATA.fullmatch(name, len(stem)) and name.startswith(stem):
            if _is_regular(folder / name):
                left.data.append(folder / name)
        elif _PART.fullmatch(name, len(stem) + 1) and name.startswith(f".{stem}"):
            left.parts.append(folder / name)
    return left


def _is_regular(path: Path) -> bool:
    """Whether there is a file itself under the name; another saver may have removed what a listing names."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _remove_dead(paths: Iterable[Path]) -> None:
    """Removes the parts whose writers no longer hold their locks."""
    for path in paths:
        with suppress(OSError), opened(path, _SAFE_OPEN) as handle:  # gone, a link, or another user's
            if _lock(handle) is False:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _remove_data(target: Path, paths: Iterable[Path], keep: Collection[str]) -> None:
    data = [path for path in paths if path.name not in keep]
    used = _used({path.name for path in data}, target) if data else set()
    for path in data:
        if path.name not in used:
            with suppress(OSError):
                path.unlink()


def _used(names: set[str], target: Path) -> set[str]:
    """Which of the names stand in a model file of the folder: a copy of a model has the data file in common with it."""
    referenced: set[str] = set()
    for entry in os.scandir(target.parent):
        known = entry.name == target.name or os.path.splitext(entry.name)[1].lower() in _MODEL_SUFFIXES
        if not known or not entry.is_file():
            continue
        try:
            referenced |= _standing_in(Path(entry.path), names - referenced)
        except OSError:  # what can't be read may name all of them
            return names
    return referenced


def _standing_in(path: Path, names: set[str]) -> set[str]:
    with path.open("rb") as file:
        if not names or not os.fstat(file.fileno()).st_size:
            return set()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return {name for name in names if text.find(name.encode()) >= 0}
