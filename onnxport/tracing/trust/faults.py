"""What loaders and checks of all formats share: how a file is refused that is missing, damaged or would act, and its bound."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from onnxport.errors import InvalidModelError, OnnxportError, UntrustedFileError, first_line

ALLOW_CODE = "pass allow_code=True (--allow-code) only for files that you trust"
ALLOW_PICKLE = "pass allow_pickle=True (--allow-pickle) only for files that you trust"

LARGEST = 1 << 28  # elements of a tensor whose sizes stand in a file


def most_bytes(file_bytes: int) -> int:
    """How many bytes what a file holds may take in memory."""
    return 4 * file_bytes + (300 << 20)


def check_bytes(title: str, what: str, taken: int, file_bytes: int) -> None:
    """Refuses a file whose parts take more memory than its size allows.

    Raises:
        InvalidModelError: they do; `what` names them, with its verb.
    """
    if taken > most_bytes(file_bytes):
        raise hostile(title, f"{what} {taken:,} bytes, the file has {file_bytes:,}")


def damaged(title: str, fault: str) -> InvalidModelError:
    """The error for a file that its format's own writer did not write so."""
    return InvalidModelError(f"{title} is damaged: {fault}")


def hostile(title: str, fault: str) -> InvalidModelError:
    """The error for a file that would crash its reader, or take more than it may."""
    return InvalidModelError(f"{title} is damaged or hostile: {fault}")


def untrusted(title: str, fault: str, way_out: str = ALLOW_CODE) -> UntrustedFileError:
    """The error for a file that would do more than compute."""
    return UntrustedFileError(f"{title}: {fault}; {way_out}")


_LFS = b"version https://git-lfs.github.com/spec/"


def existing_file(path: str | os.PathLike[str]) -> Path:
    """The path of a file.

    Raises:
        InvalidModelError: there is none, or it is empty, or stands for one that Git LFS has not fetched.
    """
    place = Path(path)
    if not place.is_file():
        raise InvalidModelError(f"no file {str(path)!r}")
    with place.open("rb") as file:
        start = file.read(len(_LFS))
    if start.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise InvalidModelError(
            f"{str(path)!r} is a page of HTML, as downloads that fail leave behind: fetch the file itself"
        )
    if start == _LFS:
        raise InvalidModelError(f"{str(path)!r} is a pointer of Git LFS, not the file itself: git lfs pull fetches it")
    if not start:
        raise InvalidModelError(f"{str(path)!r} is empty: it holds 0 bytes and no model")
    return place


def reading(failure: str) -> AbstractContextManager[None]:
    """What a reader makes of a broken file, an error of any type, is an `InvalidModelError` with its reason; our own pass."""
    return raised_as(lambda error: InvalidModelError(f"{failure}: {first_line(error)}"))


@contextmanager
def raised_as(error_of: Callable[[Exception], InvalidModelError]) -> Iterator[None]:
    """An error of any type is the one that `error_of` gives for it; our own pass."""
    try:
        yield
    except OnnxportError:
        raise
    except Exception as error:
        raise error_of(error) from error
