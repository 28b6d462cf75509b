"""Hooks of the documentation's site: the pages of the repository's root, and the folders that the navigation names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
# Pages at the root, and what they are called in the site.
_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "policy.md",
    "CHANGELOG.md": "changelog.md",
}


def on_config(config: Any) -> Any:
    """The navigation with the pages of each folder that it names by a path ending in a slash."""
    config.nav = [_expanded(item) for item in config.nav]
    return config


def _expanded(item: Any) -> Any:
    if isinstance(item, dict):
        return {name: _expanded(value) for name, value in item.items()}
    if isinstance(item, list):
        return [_expanded(value) for value in item]
    if not item.endswith("/"):
        return item
    files = [path for pattern in ("*.md", "*.ipynb") for path in (ROOT / "docs" / item).glob(pattern)]
    pages = sorted(files, key=lambda path: (path.name != "README.md", path.name))
    return [f"{item}{path.with_suffix('.md').name}" for path in pages]


def on_files(files: Any, config: Any) -> Any:
    """The files with those of the root beside them, their links as they read in the site."""
    from mkdocs.structure.files import File

    for name, place in _PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=_linked(text.replace("](docs/", "]("), "")))
    for book in sorted((ROOT / "docs").rglob("*.ipynb")):
        place = book.relative_to(ROOT / "docs").with_suffix(".md").as_posix()
        files.append(File.generated(config, place, content=notebook_page(book)))
    return files


def notebook_page(book: Path) -> str:
    """A notebook as a page: its text, its code, and a link to the file."""
    cells = json.loads(book.read_text(encoding="utf-8"))["cells"]
    parts = ["".join(cell["source"]) for cell in cells]
    parts = [
        f"```python\n{text}\n```" if cell["cell_type"] == "code" else text
        for cell, text in zip(cells, parts, strict=True)
    ]
    return "\n\n".join([*parts, f"[This page as a notebook]({book.name})"])


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """A page whose links to the root lead to the site's own pages, and those of the list of notebooks to theirs."""
    if page.file.src_uri.endswith("README.md"):
        markdown = markdown.replace(".ipynb)", ".md)")
    return _linked(markdown, "../" * page.file.src_uri.count("/"))


def _linked(text: str, up: str) -> str:
    for name, place in _PAGES.items():
        text = re.sub(rf"\]\((?:\.\./)*{re.escape(name)}", f"]({up}{place}", text)
    return text
