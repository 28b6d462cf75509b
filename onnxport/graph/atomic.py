"""Files and folders that appear under their name whole, or not at all.

A save writes parts beside its target, makes them durable and renames them, the target last. Permissions of an existing file
are kept, a symbolic link is written through, and what stands there is untouched until the new one is whole.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from onnxport.errors import SavingError
from onnxport.graph import parts


def check_target(path: str | os.PathLike[str]) -> Path:
    """Where a file under a path is written; refuses one that none can be written to, as far as that is known before it is tried.

    Raises:
        SavingError: its folder is missing or can't be written to, or something that is no file stands there.
    """
    with _errors_named(path):
        target = _resolved(path)
        _check_parent(path, target)
        kind = _kind(target)
        if stat.S_ISDIR(kind):
            raise _refusal(path, errno.EISDIR, "it is a folder")
        if kind and not stat.S_ISREG(kind):
            raise _refusal(path, errno.EEXIST, "it is a device or pipe, not a file")
        return target


def check_folder_of(path: str | os.PathLike[str]) -> None:
    """Refuses a path whose folder takes nothing new.

    Raises:
        SavingError: the folder is missing or can't be written to.
    """
    with _errors_named(path):
        _check_parent(path, _resolved(path))


def _check_parent(path: str | os.PathLike[str], target: Path) -> None:
    folder = target.parent
    if not stat.S_ISDIR(_kind(folder)):
        raise _refusal(path, errno.ENOENT, f"there is no folder {str(folder)!r}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _refusal(path, errno.EACCES, f"the folder {str(folder)!r} can't be written to")


def _kind(path: Path) -> int:
    """What stands there, as `stat` has it in a file's mode; 0 for nothing."""
    try:
        return stat.S_IFMT(os.stat(path).st_mode)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return 0
        raise


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file that appears under `path` when the block ends well, and leaves nothing behind when it does not.

    Raises:
        SavingError: it can't be written.
    """
    with saving(path) as save:
        file = save.part()
        yield file
        save.place(file, save.target.name)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The path of a file to write, for libraries that open it themselves; it appears under `path` when the block ends well.

    Raises:
        SavingError: it can't be written.
    """
    target = check_target(path)
    with _errors_named(path), parts.new_folder(target, 0o700) as folder:
        parts.sweep_before(target)
        written = folder / target.name
        yield written
        _sync_file(written)
        _keep_permissions(written, target)
        with parts.placing(target):
            os.replace(written, target)
            parts.sync_folder(target.parent)


@contextmanager
def atomic_folder(path: str | os.PathLike[str], *, marks: Collection[str], own: Collection[str]) -> Iterator[Path]:
    """An empty folder that takes the place of `path` when the block ends well.

    An existing folder must be empty or hold one of the `marks`. Of its entries those that belong to the format, `own`, go; the
    others are kept.

    Raises:
        SavingError: it can't be written, or what stands there is of another kind.
    """
    check_folder(path, marks=marks)
    target = _resolved(path)
    mode = _mode(target)
    with _errors_named(path), parts.new_folder(target, 0o777 if mode is None else mode | 0o700) as folder:
        parts.sweep_before(target)
        yield folder
        if mode is not None:
            _carry_over(target, folder, own)
            _keep_permissions(folder, target)
        for file in folder.rglob("*"):
            _sync_file(file)
        with parts.placing(target):
            _exchange(folder, target)
            parts.sync_folder(target.parent)


def check_folder(path: str | os.PathLike[str], *, marks: Collection[str]) -> None:
    """Refuses a path that no folder can be written to: see `atomic_folder`.

    Raises:
        SavingError: its parent is missing or can't be written to, or what stands there is of another kind.
    """
    check_folder_of(path)
    target = _resolved(path)
    if target.exists() and not target.is_dir():
        raise _refusal(path, errno.ENOTDIR, "it is a file")
    names = sorted(os.listdir(target)) if target.is_dir() else []
    if names and not set(names) & set(marks):
        raise _refusal(path, errno.ENOTEMPTY, f"the folder holds other things, {names[0]!r} for one")


@contextmanager
def saving(path: str | os.PathLike[str]) -> Iterator[Save]:
    """A save of files that appear together, `path` last, when the block ends well.

    Raises:
        SavingError: they can't be written; what stood there is untouched.
    """
    save = Save(check_target(path))
    with _errors_named(path):
        parts.sweep_before(save.target)
        try:
            yield save
            save.commit()
        finally:
            save.close()


@dataclass(frozen=True)
class _Part:
    file: BinaryIO
    path: Path


class Save:
    """Files that are written beside `target`, the one that is placed last, and renamed together."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self._parts: list[_Part] = []
        self._places: list[tuple[_Part, str]] = []

    def part(self) -> BinaryIO:
        """A new file to write, which can be read back; the save closes it."""
        mode = _mode(self.target)
        handle, path = parts.new_file(self.target, 0o666 if mode is None else mode)
        file = os.fdopen(handle, "w+b")
        self._parts.append(_Part(file, path))
        return file

    def place(self, file: BinaryIO, name: str) -> None:
        """Has a part appear as `name` when the save ends well, those placed first first."""
        self._places += [(part, name) for part in self._parts if part.file is file]

    def commit(self) -> None:
        """Makes the files durable, renames them in order, and removes what earlier saves of the target left."""
        folder = self.target.parent
        for part, _ in self._places:
            part.file.flush()
            os.fsync(part.file.fileno())
            _keep_permissions(part.path, self.target)
        with parts.placing(self.target, [name for _, name in self._places]):
            for part, name in self._places:
                if os.name == "nt":  # which renames no file that is open
                    part.file.close()
                os.replace(part.path, folder / name)
                parts.sync_folder(folder)

    def close(self) -> None:
        """Removes the parts that were not renamed, and lets go of all."""
        for part in self._parts:
            with suppress(OSError):  # what is still buffered for a full disk
                part.file.close()
            with suppress(OSError):
                part.path.unlink(missing_ok=True)


def _resolved(path: str | os.PathLike[str]) -> Path:
    """The path itself, or where the symbolic link under it leads."""
    place = Path(path)
    return Path(os.path.realpath(place)) if os.path.islink(place) else place


def _mode(target: Path) -> int | None:
    """Permissions of an existing target."""
    try:
        return stat.S_IMODE(target.stat().st_mode) & 0o777
    except FileNotFoundError:
        return None


def _keep_permissions(part: Path, target: Path) -> None:
    """Gives a part the permissions and, where that is allowed, the owner of the target that it is to replace."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return
    new = part.stat()
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid) and hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(part, old.st_uid, old.st_gid)
    mode = stat.S_IMODE(old.st_mode) & 0o777
    if stat.S_IMODE(new.st_mode) != mode:
        os.chmod(part, mode)


def _sync_file(path: Path) -> None:
    if path.is_symlink() or not path.is_file():
        return
    with parts.opened(path) as handle:
        os.fsync(handle)


def _carry_over(old: Path, new: Path, own: Collection[str]) -> None:
    for entry in os.listdir(old):
        if entry in own or (new / entry).exists():
            continue
        source, place = old / entry, new / entry
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, place, symlinks=True, copy_function=_linked)
        else:
            _linked(source, place)


def _linked(source: str | Path, place: str | Path) -> None:
    try:
        os.link(source, place, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(source, place, follow_symlinks=False)


def _exchange(new: Path, target: Path) -> None:
    """Puts `new` where `target` is, and what was there where `new` is, in one step where the system can."""
    if not target.exists():
        os.rename(new, target)
        return
    if _renameat2() is not None and _renameat2()(_CWD, os.fsencode(new), _CWD, os.fsencode(target), _SWAP) == 0:
        return
    aside = parts.fresh_name(target)
    os.rename(target, aside)
    try:
        os.rename(new, target)
    except OSError:
        os.rename(aside, target)
        raise
    os.rename(aside, new)


# linux/fcntl.h and linux/fs.h: AT_FDCWD, RENAME_EXCHANGE.
_CWD, _SWAP = -100, 2


@cache
def _renameat2() -> Any:
    """Linux' call that exchanges two names; None on other systems."""
    return getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None


@contextmanager
def _errors_named(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except SavingError:
        raise
    except OSError as error:
        raise _refusal(path, error.errno, str(error.strerror or error)) from error


def _refusal(path: str | os.PathLike[str], number: int | None, reason: str) -> SavingError:
    way_out = {
        errno.ENOSPC: "; free some space, or save elsewhere",
        errno.EDQUOT: "; free some space, or save elsewhere",
        errno.ENOENT: "; make the folder first",
        errno.ENOTEMPTY: "; name one of its own",
    }.get(number or 0, "")
    return SavingError(f"can't write {os.fspath(path)!r}: {reason}{way_out}", number, os.fspath(path))
