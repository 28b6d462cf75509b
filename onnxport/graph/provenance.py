"""Where a node came from, in the user's own terms."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

PREFIX = "onnxport."


@lru_cache(maxsize=4096)
def relative_path(file: str) -> str:
    """`file` from its installed package, relative to the working directory where it lies below it, or its bare name.

    Absolute paths would make two machines' files differ and tell of the machine.
    """
    if not file or file.startswith("<"):
        return file
    path = Path(file)
    parts = path.parts
    if "site-packages" in parts:  # before the working directory: an environment may lie below it
        return "/".join(parts[parts.index("site-packages") + 1 :])
    if path.is_relative_to(os.getcwd()):
        return path.relative_to(os.getcwd()).as_posix()
    return path.name


_NOT_USERS = (str(Path(__file__).parents[1]), sysconfig.get_paths()["stdlib"], "<")
_GENERATED = ("site-packages", "dist-packages", "__autograph_generated_file")


def is_users(file: str) -> bool:
    """Whether a file of Python is the user's own: of no installed package, not of Python, not of onnxport."""
    return not file.startswith(_NOT_USERS) and not any(part in file for part in _GENERATED)


def user_line(error: BaseException) -> str:
    """The innermost line of an error's traceback in the user's own code, with its text; empty where there is none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    return f"{relative_path(frames[-1].filename)}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""


@dataclass(frozen=True)
class Source:
    """One operator of the source model."""

    op: str  # operator in the source framework's spelling (`aten::gelu.default`, `Conv2D`, `PCA.transform`)
    name: str = ""  # the source node's own name; values of the lowered nodes are named after it
    module: str = ""  # path of the module or scope that called it (`encoder.layers.0.attn`)
    file: str = ""  # file of the user's code, relative
    line: int | None = None  # line in that file, from 1

    @property
    def where(self) -> str:
        """``'encoder.layers.0', model.py:42``: as far as it is known."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        scope = f"'{self.module or self.name}'" if self.module or self.name else ""
        return ", ".join(part for part in (scope, place) if part)

    def metadata(self) -> dict[str, str]:
        """The entries of a node's ``metadata_props``; a name that is the module's or the operator's is not written twice."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        name = self.name if self.name != (self.module or _stem(self.op)) else ""
        fields = {"op": self.op, "name": name, "module": self.module, "source": place}
        return {PREFIX + key: value for key, value in fields.items() if value}


def source_name(props: Mapping[str, str]) -> str:
    """The name of the source's node by a node's ``metadata_props``, as `Source.metadata` writes them; "" where they tell none.

    >>> source_name(Source("Conv2D", "head", "head").metadata()), source_name(Source("Add", "add", "head").metadata())
    ('head', 'add')
    >>> source_name(Source("PCA.transform", "PCA").metadata())
    'PCA'
    """
    return props.get(f"{PREFIX}name") or props.get(f"{PREFIX}module") or _stem(props.get(f"{PREFIX}op", ""))


def _stem(op: str) -> str:
    """The part of an operator's spelling that names its nodes.

    >>> _stem("PCA.transform"), _stem("Conv2D")
    ('PCA', 'Conv2D')
    """
    return op.partition(".")[0]
