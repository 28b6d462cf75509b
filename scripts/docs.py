"""Writes the generated parts of the documentation: docs/support.md, and the summary and examples in the README.

Run as ``python -m scripts.docs``; with ``--check`` it writes nothing and fails where a part is out of date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from onnxport.cli.ops import FRAMEWORKS, lowerings, meanings, page

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
SUPPORT = ROOT / "docs" / "support.md"


def summary() -> str:
    """How many operators each framework has in either direction."""
    rows = [
        f"| {item.title} | {sum(1 for _ in lowerings(item))} | {sum(1 for _ in meanings(item))} |\n"
        for item in FRAMEWORKS
    ]
    return "| framework | operators to ONNX | ONNX operators from it |\n|---|---|---|\n" + "".join(rows)


def readme() -> str:
    """The README with its generated parts made anew."""
    text = _replaced(README.read_text(encoding="utf-8"), "support", summary())
    for example in sorted((ROOT / "examples").glob("from_*.py")):
        text = _replaced(text, example.name, f"```python\n{example.read_text(encoding='utf-8')}```\n")
    return text


def _replaced(text: str, name: str, part: str) -> str:
    found = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->\n)", re.DOTALL)
    if not found.search(text):
        raise ValueError(f"the README has no part {name!r}")
    return found.sub(lambda match: f"{match[1]}{part}{match[2]}", text)


def main() -> int:
    """Writes, or checks; 1 where something is out of date."""
    parts = {SUPPORT: page(), README: readme()}
    if "--check" not in sys.argv:
        for path, text in parts.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path.name for path, text in parts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if stale:
        print(f"out of date: {', '.join(stale)}; run python -m scripts.docs")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
