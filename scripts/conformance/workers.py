"""Long lists of checks in worker processes: one item after the other, and a new worker behind one that dies or hangs.

A worker prints a JSON line ``[item, null]`` where it begins with an item and ``[item, findings]`` where it is done; findings are
lists that hold a label, a verdict and a reason. They are appended to a file of results, from which a later run goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

BAD = ("wrong", "defect", "timeout")


def first_line(error: BaseException, length: int = 300) -> str:
    """The first line of an error's message that is not empty; its class where it has none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:length]


def work(todo: Iterable[str], findings: Callable[[str], Iterable[Sequence[Any]]]) -> None:
    """Checks items and prints a line for each."""
    for name in todo:
        print(json.dumps([name, None]), flush=True)
        try:
            found = list(findings(name))
        except Exception as error:
            found = [("", "defect", f"{type(error).__name__}: {first_line(error)}")]
        print(json.dumps([name, found]), flush=True)


def supervise(module: str, todo: list[str], results: Path, seconds: float, *more: str) -> None:
    """Runs workers ``python -m module --results ... --work ...`` until every item has its line.

    `seconds` are for one item, of the worker's processor: a machine that others use takes longer. One that waits is given up
    after ten times as long.
    """
    while todo:
        command = [sys.executable, "-m", module, "--results", str(results), *more, "--work", *todo]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert worker.stdout is not None
        current, ended, late = todo[0], False, False
        buffer, started = b"", _Spent(worker.pid)
        while not ended:
            ready, _, _ = select.select([worker.stdout], [], [], 1.0)
            late = not ready and started.beyond(seconds)
            if not ready and not late:
                continue
            chunk = os.read(worker.stdout.fileno(), 1 << 16) if ready else b""
            ended = not chunk
            buffer += chunk
            *lines, buffer = buffer.split(b"\n")
            for name, found in filter(None, map(_parsed, lines)):
                current, started = name, _Spent(worker.pid)
                if found is not None:
                    todo.remove(name)
                    note(results, name, found)
        worker.kill()
        worker.wait()
        if todo and current in todo:
            reason = f"more than {seconds:.0f} s" if late else "the process died"
            note(results, current, [("", "timeout" if late else "defect", reason)])
            todo.remove(current)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Ends what takes this process more than so many seconds of its processor.

    Raises:
        TimeoutError: it does.
    """

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"more than {seconds:.0f} s")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class _Spent:
    """The time since now, of a process and of the clock."""

    def __init__(self, pid: int) -> None:
        self._pid, self._clock, self._own = pid, time.monotonic(), _processor(pid)

    def beyond(self, seconds: float) -> bool:
        """Whether the process has worked for so long, or waited for ten times as long."""
        wall, own = time.monotonic() - self._clock, _processor(self._pid)
        worked = wall if own is None or self._own is None else own - self._own
        return worked > seconds or wall > 10 * seconds


def _processor(pid: int) -> float | None:
    """Seconds of processor time of a process; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _parsed(line: bytes) -> tuple[str, Any] | None:
    """What a worker's line says; None for one that a framework printed."""
    try:
        name, found = json.loads(line)
    except (TypeError, ValueError):
        return None
    return (name, found) if isinstance(name, str) else None


def note(results: Path, name: str, found: Sequence[Any]) -> None:
    """Appends an item's findings to the results, and prints the first that is bad."""
    with results.open("a") as stream:
        print(json.dumps([name, found]), file=stream)
    bad = [item for item in found if item[1] in BAD]
    if bad:
        print(name, bad[0], flush=True)


def parser(description: str | None, results: str) -> argparse.ArgumentParser:
    """The options of a long run."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--results", type=Path, default=Path(results))
    options.add_argument("--shard", default="0/1")
    options.add_argument("--match", default="", help="only these, comma-separated; run again if done")
    options.add_argument("--report", type=Path)
    options.add_argument("--work", nargs="*", help=argparse.SUPPRESS)
    return options


def options_of_cases(description: str | None, rows: int | None = None) -> argparse.ArgumentParser:
    """The options of a run over cases of estimators: ours or the peer's, or the page of both; `rows` are those of a case."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--match", default="")
    options.add_argument("--peer", action="store_true")
    options.add_argument("--report", action="store_true")
    if rows is not None:
        options.add_argument("--rows", type=int, default=rows)
        options.add_argument("--verbose", action="store_true")
    return options


def keep(path: Path, outcomes: Sequence[Any]) -> None:
    """Writes what came of all cases, dataclasses, for the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(item) for item in outcomes], indent=0))


def known(results: Path) -> dict[str, list[Any]]:
    """The findings so far, the latest of each item."""
    if not results.exists():
        return {}
    return dict(json.loads(line) for line in results.read_text().splitlines())


def counts(
    kinds: Sequence[str], rows: Mapping[str, Mapping[str, int]], empty: Mapping[str, Collection[str]]
) -> list[str]:
    """A Markdown table of how often each kind of outcome occurs, a row a title; `empty` are the kinds that a row has none of."""
    lines = ["| | " + " | ".join(kinds) + " |", "|-|" + "-|" * len(kinds)]
    for title, of_kind in rows.items():
        cells = ("" if kind in empty.get(title, ()) else str(of_kind.get(kind, 0)) for kind in kinds)
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return lines


def remaining(options: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """Those of the names that the options ask for and that have no result yet."""
    index, total = (int(part) for part in options.shard.split("/"))
    wanted = set(filter(None, options.match.split(",")))
    todo = [name for name in names if name in wanted] if wanted else list(names[index::total])
    done = known(options.results)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    return [name for name in todo if wanted or name not in done]


def run(
    module: str,
    description: str | None,
    names: Callable[[], Sequence[str]],
    worker: Callable[[list[str]], None],
    report: Callable[[dict[str, list[Any]], Path], None],
    seconds: float,
) -> None:
    """The command line of a script: works on the items that a supervisor gives it, writes the page, or supervises a shard."""
    options = parser(description, f"build/{module.rpartition('.')[2]}.jsonl").parse_args()
    if options.work is not None:
        worker(options.work)
    elif options.report:
        report(known(options.results), options.report)
    else:
        supervise(module, remaining(options, names()), options.results, seconds)
