"""docs/transcript.md, replayed: its files are written, its commands run, and what they print stands there."""

import re
import shlex
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.pytorch
pytest.importorskip("torch", reason="PyTorch is an extra")

PAGE = (Path(__file__).parents[2] / "docs" / "transcript.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r'^```python title="(\S+)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE))
SESSIONS = re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def commands():
    """Each command of the page, its exit code and the lines that it prints."""
    for session in SESSIONS:
        for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            line, _, printed = part.partition("\n")
            command, _, code = line.partition("  # exit code ")
            yield shlex.split(command), int(code or 0), [text for text in printed.splitlines() if text.strip() != "..."]


def plain(line):
    """A line without the numbers that depend on the machine, and without the widths of a table's columns."""
    return " ".join(re.sub(r"(?<![\w.:])\d+(\.\d+)?(e[+-]?\d+)?(?=[\s%,x]|$)", "#", line).split())


def test_the_page_is_what_happens(run, tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    for words, code, lines in commands():
        seen.append(words[:2])
        if words[0] == "pip":
            continue
        done = run(*words[1:])
        assert done.code == code, done
        printed = [plain(line) for line in (done.out + done.err).splitlines()]
        for line in lines:  # each in its turn
            assert plain(line) in printed, (line, printed)
            del printed[: printed.index(plain(line)) + 1]
        assert code or not done.err
    assert [item[1] for item in seen] == [
        "install",
        "convert",
        "validate",
        "check",
        "convert",
        "convert",
        "debug",
        "validate",
    ]
    for name in ("nets", "scaled"):
        sys.modules.pop(name, None)
