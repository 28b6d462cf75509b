"""Files that nobody vouches for, through onnxport in supervised processes: what came of each, and what it cost.

A generator of a format yields attacks:

    Attack("onnx/names/quote", folder / "model.onnx", actions=("pytorch", "inspect", "validate"))

`run` tries each action in a worker process that is reused as long as it is well, and judges: an answer or one of onnxport's
errors is right; a raw exception, the death of the process, more than 20 seconds, more memory than 4 times the file's size and
300 MB, a file written or read that is not the attack's own, or code that ran is not.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SECONDS = 20.0
# Beyond this a worker is ended; between the two bounds it is measured.
_PATIENCE = 30.0
_MEMORY_FACTOR, _MEMORY_CONSTANT = 4, 300 << 20
_ENOUGH_MEMORY = 3 << 30
_REUSES = 150
_POLL = 0.02
VERDICTS = ("answered", "refused", "defect", "raw", "crash", "hang", "memory", "read", "written", "code")
RIGHT = ("answered", "refused")
# Targets whose frameworks take a worker of their own.
HEAVY = ("tensorflow", "keras")


@dataclass(frozen=True)
class Attack:
    """One hostile file.

    Attributes:
        name: format, kind and number: ``onnx/bytes/0012``; totals are by the first two.
        path: the file or folder; what lies in its own folder may be read.
        actions: what is tried: a target framework of ``convert``, ``onnx``, ``inspect``, ``validate``, ``roundtrip``.
        consent: pass ``allow_pickle=True``: then code may run, and only time, memory and the kind of error are judged.
        inputs: shapes of example inputs, as ``--input-shape`` takes them.
        worker: what the worker has imported before: a target of ``convert``, or ``formats`` for all of them.
    """

    name: str
    path: Path
    actions: tuple[str, ...] = ("pytorch",)
    consent: bool = False
    inputs: tuple[str, ...] = ()
    worker: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of one action on one attack."""

    attack: str
    action: str
    verdict: str
    seconds: float
    megabytes: float
    message: str


class Places:
    """Folders that an attack must not touch, watched, and the canaries in them.

    Attributes:
        root: everything below is removed at the end.
        secret: a folder beside the attacks' with files that nobody may open.
        work: the workers' working directory, which must stay empty.
        files: where attacks are written, a folder each.
    """

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="onnxport-hostile-"))
        self.secret, self.work, self.files = (self.root / name for name in ("secret", "work", "files"))
        self.home, self.temporary = self.root / "home", self.root / "tmp"
        for folder in (self.secret, self.work, self.files, self.home, self.temporary):
            folder.mkdir()
        (self.secret / "data.bin").write_bytes(b"\x2a" * 4096)
        (self.secret / "key.txt").write_text("secret")
        self._watch = _Watch(self.secret)

    def touched(self) -> list[str]:
        """Files of the secret folder that were opened since the last call."""
        return self._watch.events()

    def written(self) -> list[str]:
        """What stands where nothing may be written; it is removed."""
        found = []
        for folder in (self.work, self.home):
            for item in folder.iterdir():
                found.append(f"{folder.name}/{item.name}")
                shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
        return found

    def close(self) -> None:
        """Removes everything."""
        shutil.rmtree(self.root, ignore_errors=True)


class _Watch:
    """inotify on one folder: reads by C++ libraries are seen too."""

    _MASK = 0x1 | 0x2 | 0x20 | 0x100 | 0x200  # access, modify, open, create, delete

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._handle = libc.inotify_init1(os.O_NONBLOCK)
        if self._handle < 0 or libc.inotify_add_watch(self._handle, os.fsencode(folder), self._MASK) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def events(self) -> list[str]:
        found = []
        while True:
            try:
                data = os.read(self._handle, 1 << 16)
            except BlockingIOError:
                return sorted(set(found))
            at = 0
            while at < len(data):
                _, _, _, length = struct.unpack_from("iIII", data, at)
                found.append(data[at + 16 : at + 16 + length].rstrip(b"\0").decode() or ".")
                at += 16 + length


def run(attacks: Iterable[Attack], places: Places) -> Iterator[Outcome]:
    """What comes of each action of each attack, one after the other."""
    workers: dict[str, _Worker] = {}
    try:
        for attack in attacks:
            for action in attack.actions:
                kind = attack.worker or ("keras" if action in HEAVY else "pytorch")
                worker = workers.get(kind)
                if worker is None or not worker.alive or worker.uses >= (500 if kind == "formats" else _REUSES):
                    if worker is not None:
                        worker.end()
                    worker = workers[kind] = _Worker(places, kind)
                yield worker.tried(attack, action)
    finally:
        for worker in workers.values():
            worker.end()


def allowed_bytes(path: Path) -> int:
    """Memory that a file may cost."""
    files = [path] if path.is_file() else [item for item in path.rglob("*") if item.is_file()]
    beside = [item for item in path.parent.iterdir() if item.is_file()] if path.is_file() else []
    return _MEMORY_FACTOR * sum(item.stat().st_size for item in {*files, *beside}) + _MEMORY_CONSTANT


class _Worker:
    """A process that has the frameworks imported and takes one action after the other."""

    def __init__(self, places: Places, target: str) -> None:
        self.places, self.uses, self.alive = places, 0, True
        environment = {
            **os.environ,
            "HOME": str(places.home),
            "TMPDIR": str(places.temporary),
            "XDG_CACHE_HOME": str(places.temporary),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": os.pathsep.join(item for item in sys.path if item),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOSTILE_TARGET": target,
        }
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=places.work,
            env=environment,
            start_new_session=True,
        )
        self._answer(300.0)  # ready
        self.places.touched()
        self.places.written()

    def tried(self, attack: Attack, action: str) -> Outcome:
        """One action, timed and weighed."""
        self.uses += 1
        allowed = allowed_bytes(attack.path)
        request = {**asdict(attack), "path": str(attack.path), "action": action}
        before = resident(self.process.pid)
        started = time.perf_counter()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died before: no answer will come
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        answer, peak = self._answer(_PATIENCE, before + max(allowed * 2, allowed + (1 << 30)))
        seconds = time.perf_counter() - started
        peak = max(peak, (answer or {}).get("peak", 0)) - before
        verdict, message = self._verdict(attack, answer, seconds, peak, allowed)
        return Outcome(attack.name, action, verdict, round(seconds, 2), round(max(peak, 0) / 2**20, 1), message)

    def _verdict(
        self, attack: Attack, answer: dict[str, Any] | None, seconds: float, peak: int, allowed: int
    ) -> tuple[str, str]:
        touched, written = self.places.touched(), self.places.written()
        if not attack.consent:
            if (self.places.secret / "ran").exists() or any("ran" in item for item in (*touched, *written)):
                (self.places.secret / "ran").unlink(missing_ok=True)
                return "code", f"{touched} {written}"
            if touched:
                return "read", str(touched)
            if written or (answer or {}).get("written"):
                return "written", f"{written} {(answer or {}).get('written')}"
        if peak > allowed:
            return "memory", f"{peak / 2**20:.0f} MiB of {allowed / 2**20:.0f}"
        if seconds > SECONDS:
            return "hang", f"{seconds:.1f} s"
        if answer is None:
            return "crash", f"exit code {self.process.wait()}"
        return str(answer["verdict"]), str(answer["message"])

    def _answer(self, patience: float, most: int = 1 << 62) -> tuple[dict[str, Any] | None, int]:
        """The worker's next answer, None where it died or had to be ended, and the most memory that it held meanwhile."""
        assert self.process.stdout is not None
        deadline, peak = time.perf_counter() + patience, 0
        while time.perf_counter() < deadline:
            ready, _, _ = select.select([self.process.stdout], [], [], _POLL)
            if ready:
                line = self.process.stdout.readline()
                if line:
                    return json.loads(line), peak
                break
            peak = max(peak, resident(self.process.pid))
            if peak > min(most, _ENOUGH_MEMORY):
                break
        self.end()
        return None, peak

    def end(self) -> None:
        """Ends the process and those that it started."""
        self.alive = False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def resident(pid: int) -> int:
    """Resident memory of a process and its descendants, in bytes.

    One that is just being started still shows its parent's memory and command line: it is left out.
    """
    total, stack, own = 0, [pid], _command_line(pid)
    while stack:
        number = stack.pop()
        if number != pid and _command_line(number) == own:
            continue
        try:
            fields = Path(f"/proc/{number}/statm").read_text().split()
            total += int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
            for task in os.listdir(f"/proc/{number}/task"):
                stack += [int(item) for item in Path(f"/proc/{number}/task/{task}/children").read_text().split()]
        except (OSError, IndexError):
            continue
    return total


# -- the worker ------------------------------------------------------------------------------------------------------------


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what frameworks print
    import warnings

    warnings.simplefilter("ignore")
    import onnxport
    from onnxport.graph.runtime import Session  # noqa: F401

    _warmed(onnxport)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        _reset_peak()
        found = _tried(request)
        print(json.dumps({**found, "peak": _peak()}), file=answers, flush=True)


def _warmed(onnxport: Any) -> None:
    """Converts a small model to the target, so that what its framework takes to start is not counted."""
    import onnx

    if os.environ["HOSTILE_TARGET"] == "formats":
        import hostile_formats

        hostile_formats.warmed()
        return
    text = (
        '<ir_version: 10, opset_import: ["": 21]> g (float[n, 4] x) => (float[n, 4] y) { h = Relu(x) y = Softmax(h) }'
    )
    proto = onnx.parser.parse_model(text)
    onnxport.convert(proto, to=os.environ["HOSTILE_TARGET"])


def _tried(request: dict[str, Any]) -> dict[str, str]:
    from onnxport.errors import OnnxportError

    try:
        message = _act(request["action"], request["path"], request["consent"], request["inputs"])
    except OnnxportError as error:
        defect = "defect of onnxport" in str(error)
        return {"verdict": "defect" if defect else "refused", "message": f"{type(error).__name__}: {error}"[:300]}
    except BaseException as error:  # the very thing that must not come
        import traceback

        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        return {"verdict": "raw", "message": f"{type(error).__name__}: {error} ({place})"[:300]}
    return {"verdict": "answered", "message": message}


def _act(action: str, path: str, consent: bool, shapes: Sequence[str]) -> str:
    import onnxport
    from onnxport.cli.inputs import draw_inputs

    inputs = draw_inputs(shapes) if shapes else None
    match action:
        case "inspect" | "validate" | "roundtrip":
            return _command(action, path, consent, shapes)
        case "weights" | "inputs":
            import hostile_formats

            return hostile_formats.act(action, Path(path), tuple(shapes))
        case _:
            result = onnxport.convert(path, to=action, allow_pickle=consent, inputs=inputs)
            return type(result).__name__


def _command(action: str, path: str, consent: bool, shapes: Sequence[str]) -> str:
    """A command of the command line in this process: its exit code and the end of what it says."""
    from typer.testing import CliRunner

    from onnxport.cli.main import app
    from onnxport.errors import OnnxportError

    arguments = {"inspect": [path], "validate": [path, path], "roundtrip": [path, "--through", "pytorch"]}[action]
    options = ["--allow-pickle"] * consent + [part for shape in shapes for part in ("--input-shape", shape)]
    result = CliRunner().invoke(app, [action, *arguments, *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code:
        raise OnnxportError(f"exit code {result.exit_code}: {result.output[-250:]}")
    return "exit code 0"


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    return 0


if __name__ == "__main__" and "--worker" in sys.argv:
    _serve()
