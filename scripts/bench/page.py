"""docs/benchmarks.md: a section a benchmark, each replaced by its own script."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Sequence
from datetime import date
from importlib import metadata
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Measured by `scripts/bench/run`; `scripts/bench/run NAME` repeats one section. Ratios come from runs that alternate within one
session, each in a process of its own, so that a busy machine troubles both sides alike.
"""


def write_section(title: str, text: str, *packages: str) -> None:
    """Puts a section into the page in place of an earlier one of the same title."""
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    section = (
        f"## {title}\n\n{text.strip()}\n\n{date.today():%Y-%m-%d}; Python {platform.python_version()}, {versions}; "
        f"{_processor()}.\n"
    )
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else HEAD
    old = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
    page = old.sub(lambda _: section + "\n", page) if old.search(page) else f"{page.rstrip()}\n\n{section}"
    PAGE.write_text(page.rstrip() + "\n", encoding="utf-8")
    print(section)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [" | ".join(head), " | ".join("---" for _ in head), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def number(value: float | None, digits: int = 2, unit: str = "") -> str:
    """A figure, or a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}{unit}"


def version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names) or '?'} x {names[0] if names else platform.processor() or 'unknown processor'}"
