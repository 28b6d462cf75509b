"""Damaged and hostile files of every format through convert, inspect and validate.

    python scripts/conformance/hostile.py --formats onnx --count 6000 --results build/hostile.jsonl
    python scripts/conformance/hostile.py --results build/hostile.jsonl --report docs/security.md

A second run goes on where the first stopped. The files are made from a seed, so that another run tries the same ones. What
is judged, and how, stands in `hostile_run.py`; what is tried, in `hostile_<format>.py`, each with `attacks(places, count, seed)`.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from hostile_run import RIGHT, VERDICTS, Attack, Outcome, Places, run

# Modules of attacks; each has `attacks(places, count, seed)`, which writes below `places.files` and yields `Attack`s.
MODULES = {"onnx": "hostile_onnx", "formats": "hostile_formats"}
_BEGIN, _END = "<!-- totals: scripts/conformance/hostile.py -->", "<!-- end of totals -->"


def attacks(formats: Iterable[str], places: Places, count: int, seed: int) -> Iterator[Attack]:
    """The attacks of some formats."""
    for name in formats:
        yield from import_module(MODULES[name]).attacks(places, count, seed)


def tried(formats: Iterable[str], count: int, seed: int, seen: set[str], match: str = "") -> Iterator[Outcome]:
    """What comes of the attacks that are not in `seen` and whose names match."""
    places = Places()
    try:
        fresh = (
            item
            for item in attacks(formats, places, count, seed)
            if item.name not in seen and re.search(match, item.name)
        )
        yield from run(fresh, places)
    finally:
        places.close()


def table(outcomes: Iterable[Outcome]) -> str:
    """Totals by format and kind of attack."""
    rows: dict[str, collections.Counter[str]] = {}
    files: dict[str, set[str]] = {}
    worst: dict[str, tuple[float, float]] = {}
    for item in outcomes:
        kind = "/".join(item.attack.split("/")[:2])
        rows.setdefault(kind, collections.Counter())[item.verdict] += 1
        files.setdefault(kind, set()).add(item.attack)
        seconds, megabytes = worst.get(kind, (0.0, 0.0))
        worst[kind] = max(seconds, item.seconds), max(megabytes, item.megabytes)
    total: collections.Counter[str] = sum(rows.values(), collections.Counter())
    lines = [
        f"| attack | files | {' | '.join(VERDICTS)} | most seconds | most MiB |",
        f"|---|---{'|---' * (len(VERDICTS) + 2)}|",
    ]
    for kind, counts in sorted(rows.items()):
        numbers = " | ".join(str(counts[verdict]) for verdict in VERDICTS)
        lines.append(f"| {kind} | {len(files[kind])} | {numbers} | {worst[kind][0]} | {worst[kind][1]} |")
    numbers = " | ".join(str(total[verdict]) for verdict in VERDICTS)
    most = [max((item[i] for item in worst.values()), default=0.0) for i in (0, 1)]
    lines.append(f"| **all** | {sum(map(len, files.values()))} | {numbers} | {most[0]} | {most[1]} |")
    return "\n".join(lines)


def main() -> int:
    """Exit code 1 where anything came of a file that must not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formats", default=",".join(MODULES))
    parser.add_argument("--count", type=int, default=6000, help="files a format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--match", default="", help="only attacks whose name has this expression in it")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--report", type=Path, help="write the totals of --results into this page and stop")
    options = parser.parse_args()
    outcomes = []
    if options.results is not None and options.results.is_file():
        outcomes = [Outcome(**json.loads(line)) for line in options.results.read_text().splitlines()]
    if options.report is not None:
        page = options.report.read_text()
        head, _, rest = page.partition(_BEGIN)
        tail = rest.partition(_END)[2]
        options.report.write_text(f"{head}{_BEGIN}\n{table(outcomes)}\n{_END}{tail}")
        return 0
    seen = {done.attack for done in outcomes}
    for item in tried(options.formats.split(","), options.count, options.seed, seen, options.match):
        outcomes.append(item)
        if options.results is not None:
            options.results.parent.mkdir(parents=True, exist_ok=True)
            with options.results.open("a") as file:
                file.write(json.dumps(asdict(item)) + "\n")
        if item.verdict not in RIGHT:
            print(f"{item.verdict}: {item.attack} {item.action}: {item.message}", file=sys.stderr, flush=True)
    print(table(outcomes))
    return int(any(item.verdict not in RIGHT for item in outcomes))


if __name__ == "__main__":
    sys.exit(main())
