"""Which framework a file or folder belongs to, and where results may be written."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

from onnxport.argument_types import check_path
from onnxport.errors import InvalidInputError, InvalidModelError
from onnxport.frameworks.descriptor import HUB, Framework
from onnxport.frameworks.registry import discover, get, registered


def of_path(path: str | os.PathLike[str]) -> str:
    """The name of the framework that wrote a file or folder, by its suffix or by what the folder holds.

    Raises:
        InvalidModelError: there is no such file, or neither suffix nor content tells what it is.
    """
    place = Path(path)
    if not os.path.exists(place):  # also of a text too long for a name, as a model's JSON is
        name = textwrap.shorten(str(path), 100, placeholder="...") if len(str(path)) > 255 else str(path)
        elsewhere = "://" in name or (not place.suffix and not place.is_absolute() and name.count("/") < 2)
        hint = "; nothing is downloaded: pass a file or folder of this machine" if elsewhere else ""
        hint = "; os.path.expanduser(path) has the folder for ~" if name.startswith("~") else hint
        beside = _readable(place.parent, f"{place.name}.") if place.name else []
        hint = f"; there is {', '.join(beside)}" if beside else hint
        known = [suffix for item in registered() for suffix in item.files.weights_alone]
        alone = next((f"{name}{suffix}" for suffix in known if place.name and os.path.exists(f"{name}{suffix}")), None)
        if alone is not None and not beside:
            return of_path(alone)  # which refuses it, with the way out
        raise InvalidModelError(f"no file or directory {name!r}{hint}")
    framework = _reader(place, registered()) or _reader(place, discover())
    if framework is not None:
        return framework.name
    suffix = place.suffix.lower()
    if place.is_dir():
        folders = [item.files.folder for item in registered() if item.files.folder is not None]
        if (place / "adapter_config.json").exists():
            raise InvalidModelError(
                f"{str(path)!r} holds a PEFT adapter alone: merge it into its model (merge_and_unload(), save_pretrained) and "
                "convert that folder"
            )
        titles, marks = (" or ".join(names) for names in zip(*((item.title, item.marks[0]) for item in folders)))
        inside = _readable(place)
        hint = f"; it holds {', '.join(inside)}, which can be given" if inside else ""
        raise InvalidModelError(f"the directory {str(path)!r} is no {titles}: it holds no {marks}{hint}")
    holders = [item.files for item in registered() if suffix in item.files.weights_alone]
    if holders:
        for files in holders:
            if files.way_out is not None and (way_out := files.way_out(place)):
                raise InvalidModelError(f"{str(path)!r} {way_out}")
        raise InvalidModelError(
            f"{str(path)!r} holds weights or a pickled module, not a graph: pass the module itself to onnxport.convert, or "
            f"to the command line a function that makes it: onnxport convert my_package.nets:factory --weights {place.name}"
        )
    if suffix == ".py":
        raise InvalidModelError(
            f"{str(path)!r} is a program: pass the model itself to onnxport.convert, or to the command line a function that "
            f"makes it, as Python imports it from its folder: onnxport convert {place.stem}:factory"
        )
    known = sorted(item for framework in registered() for item in framework.files.reads)
    raise InvalidModelError(f"{str(path)!r}: the suffix {place.suffix!r} is none of {', '.join(known)}")


def _readable(folder: Path, start: str = "") -> list[str]:
    """The first few files of a folder, quoted, that some framework reads and whose names begin so."""
    suffixes = {suffix for item in registered() for suffix in item.files.reads}
    try:
        files = sorted(item for item in folder.iterdir() if item.name.startswith(start) and item.suffix in suffixes)
    except OSError:
        return []
    return [repr(str(item)) for item in files[:3]]


def _reader(place: Path, frameworks: tuple[Framework, ...]) -> Framework | None:
    if place.is_dir():
        return next((item for item in frameworks if _marked(place, item)), None)
    return next((item for item in frameworks if place.suffix.lower() in item.files.reads), None)


def _marked(place: Path, framework: Framework) -> bool:
    folder = framework.files.folder
    return folder is not None and any((place / name).exists() for name in folder.marks)


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuses to write an ONNX model under a name of something else.

    Raises:
        InvalidInputError: it ends as files of another framework or as a folder.
    """
    place, name = Path(path), os.fspath(path)
    _check_is_of_file(name)
    suffix, hub = place.suffix.lower(), get(HUB)
    if suffix in hub.files.writes:
        return
    for item in registered():
        if suffix in (*item.files.writes, *item.files.reads, *item.files.weights_alone):
            way = (
                f"onnxport.convert(model, to={item.name!r}, output={name!r}), or "
                if suffix in item.files.writes
                else ""
            )
            raise InvalidInputError(
                f"{name!r}: {suffix} files belong to {item.title}, and this writes {hub.title}: {way}name it "
                f"{place.with_suffix(hub.files.writes[0]).name!r}"
            )


def _check_is_of_file(name: str) -> None:
    if name.endswith(("/", os.sep)):
        raise InvalidInputError(f"{name!r} is the name of a folder: name the file, {str(Path(name) / 'model.onnx')!r}")


def check_place(path: str | os.PathLike[str], target: Framework, source: Framework | None = None) -> None:
    """Refuses a place that no result can be written to in the target's format, before any work is done.

    Models of some sources become a folder in ONNX.

    Raises:
        InvalidInputError: the suffix is another format's, the folder is missing, or a file and a folder would collide.
    """
    check_path(path, "output")
    place = Path(path)
    suffix = place.suffix.lower()
    writes, folder = target.files.writes, target.files.folder
    if target.is_hub and source is not None and source.hub_folder is not None and suffix not in writes:
        writes, folder = (), source.hub_folder
    if writes and suffix not in writes:
        raise InvalidInputError(
            f"{str(path)!r}: a result in {target.name} is written as {', '.join(writes)}, not {suffix!r}"
        )
    if writes:
        _check_is_of_file(os.fspath(path))
    if not writes and folder is None:
        raise InvalidInputError(f"{str(path)!r}: results in {target.name} are not written to files")
    title = "" if folder is None else folder.title
    if not writes and any(suffix in (*item.files.writes, *item.files.reads) for item in registered()):
        raise InvalidInputError(f"{str(path)!r}: a {title} is a folder; its name does not end in {suffix!r}")
    if not place.parent.is_dir():
        raise InvalidInputError(f"there is no folder {str(place.parent)!r} to write {place.name!r} to")
    if writes and place.is_dir():
        raise InvalidInputError(f"{str(path)!r} is a folder: name a file")
    if not writes and place.exists() and not place.is_dir():
        raise InvalidInputError(f"{str(path)!r} is a file: a {title} is a folder")
