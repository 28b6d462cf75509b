"""Saving in one step: what stood there stays whole, permissions and links are kept, nothing foreign is touched."""

import errno
import multiprocessing
import os
import resource
import signal
import stat
import threading
import time
from contextlib import contextmanager

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxport.errors import InvalidInputError, InvalidModelError, OnnxportError, SavingError
from onnxport.graph import external_data, parts
from onnxport.graph.atomic import atomic_file, atomic_folder, atomic_path
from onnxport.graph.mapped import settled
from onnxport.model import OnnxModel
from scripts.conformance.saves import model_of

ROWS = 600
GIVEN = np.ones((1, 3), np.float32)


def generation(number, rows=ROWS):
    """A model all of whose weights are `number`: a mixture of two shows."""
    return model_of([np.full((3, rows), number, np.float32) for _ in range(3)], ("a", "b", "c"))


def numbers_in(model):
    return {
        float(number) for value in model.model.graph.initializers.values() for number in np.unique(value.const_value)
    }


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_permissions_of_an_existing_file_are_kept(tmp_path, external, mode):
    place = tmp_path / "m.onnx"
    generation(1).save(place, external_data=external)
    place.chmod(mode)
    generation(2).save(place, external_data=external)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {mode}


def test_a_new_file_has_the_permissions_that_open_gives(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    generation(1).save(tmp_path / "m.onnx", external_data=True)
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("inside", [".", "deep/er"])
@pytest.mark.parametrize("existing", [False, True])
def test_a_symbolic_link_is_written_through(tmp_path, external, inside, existing):
    (tmp_path / inside).mkdir(parents=True, exist_ok=True)
    real, link = tmp_path / inside / "real.onnx", tmp_path / "m.onnx"
    if existing:
        generation(1).save(real, external_data=external)
    link.symlink_to(os.path.join(inside, "real.onnx"))
    generation(2).save(link, external_data=external)
    assert link.is_symlink()
    assert not real.is_symlink()
    assert numbers_in(OnnxModel.load(real)) == numbers_in(OnnxModel.load(link)) == {2.0}


@pytest.mark.parametrize(
    "name", ["m.onnx.data", "m.onnx_data", "m.onnx.0123456789abcdeg.data", ".m.onnx.part", "m.data"]
)
def test_files_of_others_are_not_touched(tmp_path, name):
    (tmp_path / name).write_bytes(b"theirs")
    for number in (1, 2):
        generation(number).save(tmp_path / "m.onnx", external_data=True)
        assert (tmp_path / name).read_bytes() == b"theirs"
    assert len(listing(tmp_path)) == 3


@pytest.mark.parametrize("after", [True, False])
def test_the_old_data_file_goes_with_the_old_model(tmp_path, after):
    place = tmp_path / "m.onnx"
    generation(1).save(place, external_data=True)
    old = listing(tmp_path)
    generation(2).save(place, external_data=after)
    assert len(listing(tmp_path)) == 1 + after
    assert not set(listing(tmp_path)) & (set(old) - {"m.onnx"})


def test_a_copied_model_keeps_its_data_file(tmp_path):
    place, copy = tmp_path / "m.onnx", tmp_path / "best.onnx"
    generation(1).save(place, external_data=True)
    copy.write_bytes(place.read_bytes())
    generation(2).save(place, external_data=True)
    assert (numbers_in(OnnxModel.load(copy)), numbers_in(OnnxModel.load(place))) == ({1.0}, {2.0})
    copy.unlink()
    generation(2).save(place, external_data=True)
    assert len(listing(tmp_path)) == 2


def test_a_model_without_large_weights_has_no_data_file(tmp_path):
    generation(1, rows=2).save(tmp_path / "m.onnx", external_data=True)
    assert listing(tmp_path) == ["m.onnx"]


@pytest.mark.parametrize("external", [False, True])
def test_leftovers_of_a_killed_save_are_swept(tmp_path, external):
    place = tmp_path / "m.onnx"
    ours = (".m.onnx.0a1b2c3d.part", "m.onnx.0123456789abcdef.data")
    theirs = (".other.onnx.0a1b2c3d.part", "other.onnx.0123456789abcdef.data")
    for name in (*ours, *theirs):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / ".m.onnx.0a1b2c3e.part").mkdir()
    generation(1).save(place, external_data=external)
    assert not set(listing(tmp_path)) & set(ours)
    assert set(listing(tmp_path)) >= set(theirs)
    assert len(listing(tmp_path)) == 3 + external


def test_leftovers_of_killed_saves_go_before_the_next_is_written(tmp_path):
    place = tmp_path / "m.model"  # a name that is not a model's by its suffix
    generation(1).save(place, external_data=True)
    (tmp_path / ".m.model.0a1b2c3d.part").write_bytes(b"half")
    (tmp_path / "m.model.0123456789abcdef.data").write_bytes(b"whole")
    time.sleep(1.1)  # no reader of the model before is waited for any more
    with atomic_file(place) as file:
        assert len([name for name in listing(tmp_path) if name.endswith(".part")]) == 1
        assert len([name for name in listing(tmp_path) if name.endswith(".data")]) == 1
        assert numbers_in(OnnxModel.load(place)) == {1.0}
        file.write(place.read_bytes())
    assert numbers_in(OnnxModel.load(place)) == {1.0}


def test_parts_of_a_living_saver_are_left_alone(tmp_path):
    place = tmp_path / "m.onnx"
    with atomic_file(place) as file:
        file.write(b"slow")
        generation(1).save(place, external_data=True)
        assert len([name for name in listing(tmp_path) if name.endswith(".part")]) == 1
    assert place.read_bytes() == b"slow"


@pytest.mark.parametrize("external", [False, True])
def test_a_loaded_model_stays_what_it_was_when_its_file_is_replaced(tmp_path, external):
    place = tmp_path / "m.onnx"
    generation(1).save(place, external_data=external)
    loaded = OnnxModel.load(place)
    generation(2).save(place, external_data=external)
    assert numbers_in(loaded) == {1.0}
    np.testing.assert_array_equal(loaded(GIVEN), np.full((1, ROWS), 9.0, np.float32))
    assert {
        float(n) for item in loaded.proto.graph.initializer for n in np.unique(onnx.numpy_helper.to_array(item))
    } == {1.0}
    loaded.save(place, external_data=external)
    assert numbers_in(OnnxModel.load(place)) == {1.0}


@pytest.mark.parametrize("load", [OnnxModel.load, lambda path: OnnxModel(ir.load(path))])
def test_a_model_is_saved_over_its_own_file(tmp_path, load):
    place = tmp_path / "m.onnx"
    generation(3).save(place, external_data=True)
    loaded = load(place)
    loaded.model.graph.initializers["a"].const_value = ir.tensor(np.full((3, ROWS), 4, np.float32), name="a")
    loaded.save(place, external_data=True)
    assert numbers_in(OnnxModel.load(place)) == numbers_in(loaded) == {3.0, 4.0}
    assert len(listing(tmp_path)) == 2


@pytest.mark.parametrize("write", [lambda p: p.write_bytes(p.read_bytes()[::-1]), lambda p: p.write_bytes(b"")])
def test_a_data_file_written_in_place_is_refused(tmp_path, write):
    generation(1).save(tmp_path / "m.onnx", external_data=True)
    loaded = OnnxModel.load(tmp_path / "m.onnx")
    time.sleep(0.02)  # file systems count time in ticks of some milliseconds
    write(next(tmp_path.glob("*.data")))
    with pytest.raises(InvalidModelError, match="changed after the model was loaded"):
        loaded(GIVEN)


def _nested(tmp_path):
    """An If with weights in its branches and a Constant, all of them external."""
    number = onnx.numpy_helper.from_array(np.full((3, ROWS), 5, np.float32), "inner")
    constant = onnx.numpy_helper.from_array(np.full((3, ROWS), 6, np.float32), "constant")
    out = onnx.helper.make_tensor_value_info("o", 1, None)
    branch = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "inner"], ["o"])], "b", [], [out], [number])
    nodes = [
        onnx.helper.make_node("If", ["flag"], ["p"], then_branch=branch, else_branch=branch),
        onnx.helper.make_node("Constant", [], ["c"], value=constant),
        onnx.helper.make_node("MatMul", ["x", "c"], ["q"]),
        onnx.helper.make_node("Add", ["p", "q"], ["y"]),
    ]
    inputs = [onnx.helper.make_tensor_value_info("flag", 9, []), onnx.helper.make_tensor_value_info("x", 1, ["N", 3])]
    graph = onnx.helper.make_graph(nodes, "g", inputs, [onnx.helper.make_tensor_value_info("y", 1, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(
        model,
        tmp_path / "n.onnx",
        save_as_external_data=True,
        location="n.bin",
        size_threshold=0,
        convert_attribute=True,
    )
    return tmp_path / "n.onnx"


@pytest.mark.parametrize("external", [False, True])
def test_data_of_bodies_and_constants_travel_with_the_model(tmp_path, external):
    (tmp_path / "new").mkdir()
    source = _nested(tmp_path)
    loaded = OnnxModel(ir.load(source))
    loaded.save(tmp_path / "new" / "m.onnx", external_data=external)
    source.unlink()
    (tmp_path / "n.bin").unlink()
    again = OnnxModel.load(tmp_path / "new" / "m.onnx")
    np.testing.assert_array_equal(again(np.array(True), GIVEN), np.full((1, ROWS), 33, np.float32))


def test_weights_that_one_file_can_not_hold_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(external_data, "SINGLE_FILE_LIMIT", 1000)
    with pytest.raises(InvalidInputError, match="external_data=False"):
        generation(1).save(tmp_path / "m.onnx", external_data=False)
    generation(1).save(tmp_path / "m.onnx")
    assert len(listing(tmp_path)) == 2


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("missing/m.onnx", "no folder"),
        ("folder", "it is a folder"),
        ("pipe", "device or pipe"),
        ("loop", "can't write"),
        ("file/m.onnx", "no folder"),
        ("m" * 300, "can't write"),
    ],
)
def test_places_that_take_no_file_are_named(tmp_path, place, words):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    before = listing(tmp_path)
    with pytest.raises(SavingError, match=words) as caught:
        generation(1).save(tmp_path / place)
    assert place in str(caught.value)
    assert isinstance(caught.value, OnnxportError)
    assert isinstance(caught.value, OSError)
    assert listing(tmp_path) == before


def test_long_names_have_room_for_parts(tmp_path):
    name = "m" * 250 + ".onnx"
    for number in (1, 2):
        generation(number).save(tmp_path / name, external_data=True)
    assert len(listing(tmp_path)) == 2
    assert numbers_in(OnnxModel.load(tmp_path / name)) == {2.0}


@contextmanager
def full_disk(limit):
    """No file may grow beyond `limit` bytes, as on a disk that has no more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("limit", [0, 100, 300_000])
def test_a_full_disk_leaves_the_old_model(tmp_path, external, limit):
    place = tmp_path / "m.onnx"
    generation(1).save(place, external_data=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    model = generation(2, rows=20_000)
    with pytest.raises(SavingError, match="m.onnx") as caught, full_disk(limit):
        model.save(place, external_data=external)
    assert caught.value.errno == errno.EFBIG
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def _save_forever(place, seed):
    for number in range(seed, 10**9, 2):
        generation(number % 1000 + 1, rows=20_000).save(place, external_data=True)


def _look(place):
    """The numbers of the model there, read as any reader does; None where its data went between the two files."""
    try:
        model = onnx.load(place)
    except (FileNotFoundError, onnx.checker.ValidationError):
        return None
    return {float(n) for item in model.graph.initializer for n in np.unique(onnx.numpy_helper.to_array(item))}


# Python 3.12 and later warn of forking beside the threads that frameworks keep.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_killed_savers_and_readers_beside_them_see_no_mixture(tmp_path):
    """A sample of scripts/conformance/saves.py: two savers of one file, killed in turn, and readers."""
    place = tmp_path / "m.onnx"
    generation(1, rows=20_000).save(place, external_data=True)
    rng = np.random.default_rng(12)
    fork = multiprocessing.get_context("fork")
    looks, gone = 0, 0
    for turn in range(10):
        savers = [fork.Process(target=_save_forever, args=(place, turn * 40 + i)) for i in range(2)]
        for saver in savers:
            saver.start()
        end = time.monotonic() + 0.1 + 0.2 * rng.random()
        while time.monotonic() < end or looks < 20 * turn:
            seen, looks = _look(place), looks + 1
            gone += seen is None
            assert seen is None or len(seen) == 1
            assert len(numbers_in(OnnxModel.load(place))) == 1
        for saver in savers:
            os.kill(saver.pid, signal.SIGKILL if turn % 2 else signal.SIGTERM)
            saver.join()
        assert len(_look(place)) == 1
    generation(7).save(place, external_data=True)
    assert len(listing(tmp_path)) == 2
    assert gone <= looks // 20


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("folder", [True, False])
def test_a_model_replaced_while_it_is_read_is_read_again(tmp_path, fails, folder):
    place = tmp_path / "model"
    place.mkdir() if folder else place.write_bytes(b"old")
    reads = []

    def read():
        reads.append(place)
        if len(reads) < 3:
            place.rename(tmp_path / f"old{len(reads)}")
            place.mkdir() if folder else place.write_bytes(b"new")
            if fails:
                raise InvalidModelError("its data file is gone")
        return "whole"

    assert settled(place, read) == "whole"
    assert len(reads) == 3


def test_a_data_file_that_another_saver_removes_meanwhile_is_no_error(tmp_path, monkeypatch):
    listed = os.listdir
    gone = "m.onnx.0123456789abcdef.data"
    monkeypatch.setattr(parts.os, "listdir", lambda folder: [*listed(folder), gone])
    generation(5).save(tmp_path / "m.onnx")
    assert numbers_in(OnnxModel.load(tmp_path / "m.onnx")) == {5.0}


def test_threads_save_one_model_at_once(tmp_path):
    model = generation(5)
    failed = []

    def save(index):
        try:
            for turn in range(5):
                model.save(tmp_path / ("same.onnx" if index % 2 else f"{index}.onnx"), external_data=turn % 2 == 0)
                assert numbers_in(model) == {5.0}
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=save, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert {len(numbers_in(OnnxModel.load(path))) for path in tmp_path.glob("*.onnx")} == {1}
    assert not list(tmp_path.glob(".*.part"))


def _broken(path, data):
    path.write_bytes(data)
    raise OSError(data.decode())


def test_a_file_that_a_library_writes_is_replaced_whole(tmp_path):
    place = tmp_path / "m.keras"
    with atomic_path(place) as path:
        path.write_bytes(b"first")
    place.chmod(0o600)
    with atomic_path(place) as path:
        path.write_bytes(b"second")
    assert (place.read_bytes(), stat.S_IMODE(place.stat().st_mode)) == (b"second", 0o600)
    with pytest.raises(OSError, match="third"), atomic_path(place) as path:
        _broken(path, b"third")
    assert place.read_bytes() == b"second"
    assert listing(tmp_path) == ["m.keras"]


@pytest.mark.parametrize("exchanged", [True, False])
def test_a_folder_is_replaced_whole_and_keeps_what_is_not_its_own(tmp_path, monkeypatch, exchanged):
    if not exchanged:
        monkeypatch.setattr("onnxport.graph.atomic._renameat2", lambda: None)
    place = tmp_path / "saved"
    kinds = {"marks": ["mark"], "own": ["mark", "inner"]}
    for text in ("one", "two"):
        with atomic_folder(place, **kinds) as folder:
            (folder / "mark").write_text(text)
            (folder / "inner").mkdir()
            (folder / "inner" / text).write_text(text)
        if text == "one":
            place.chmod(0o750)
            (place / "notes").mkdir()
            (place / "notes" / "mine.txt").write_text("mine")
    assert sorted(str(path.relative_to(place)) for path in place.rglob("*")) == [
        "inner",
        "inner/two",
        "mark",
        "notes",
        "notes/mine.txt",
    ]
    assert (place / "mark").read_text() == "two"
    assert stat.S_IMODE(place.stat().st_mode) == 0o750
    with pytest.raises(OSError, match="three"), atomic_folder(place, **kinds) as folder:
        _broken(folder / "mark", b"three")
    assert (place / "mark").read_text() == "two"
    assert listing(tmp_path) == ["saved"]


def test_a_folder_of_something_else_is_not_replaced(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("all of it")
    with (
        pytest.raises(SavingError, match="holds other things"),
        atomic_folder(tmp_path / "work", marks=["m"], own=["m"]),
    ):
        pass
    assert (tmp_path / "work" / "thesis.txt").read_text() == "all of it"


def test_a_save_in_a_new_folder_waits_for_no_lock(tmp_path, monkeypatch):
    """As the files of a Hugging Face folder: the folder that they stand in is this process's own, and locked."""
    monkeypatch.setattr(parts, "_LOCK_PATIENCE", 0.0)
    with parts.new_folder(tmp_path / "models", 0o700) as folder, parts.folder_locked(folder) as locked:
        assert locked
    with parts.opened(tmp_path) as handle, parts.folder_locked(tmp_path) as locked:
        assert locked
        assert not parts._wait_for_lock(handle)
