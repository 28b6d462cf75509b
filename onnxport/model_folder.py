"""OnnxFolder: what the conversion of a folder of a model gives."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxport.errors import InvalidInputError
from onnxport.graph.atomic import atomic_folder
from onnxport.graph.external_data import save as save_file
from onnxport.graph.runtimes import Runtime
from onnxport.model import OnnxModel

REPORT = "onnxport_report.json"


class OnnxFolder(OnnxModel):
    """One or several ONNX models and the files that belong to them; as an `OnnxModel` it is the first of them.

    Attributes:
        parts: the models by the name of their file without its suffix, in the order in which they run.
        companions: files that are copied beside them: configurations, those of a tokenizer.
        texts: files of ours beside them by their names, which a companion of the same name is left in place of.
        smaller: of parts whose weights are in few bits what they were before, for their proof.
    """

    def __init__(
        self,
        parts: Mapping[str, OnnxModel],
        companions: Sequence[Path] = (),
        *,
        notes: tuple[str, ...] = (),
        runtime: Runtime = "onnxruntime",
    ) -> None:
        first = next(iter(parts.values()))
        super().__init__(first.model, notes=notes, runtime=runtime)
        self.parts: dict[str, OnnxModel] = dict(parts)
        self.companions: tuple[Path, ...] = tuple(companions)
        self.texts: dict[str, str] = {}
        self.smaller: Mapping[str, Any] = {}

    def __getitem__(self, name: str) -> OnnxModel:
        """The model in one of the files."""
        return self.parts[name]

    def save(self, path: str | os.PathLike[str], *, external_data: bool | None = None) -> None:
        """Writes the folder, whole or not at all: ``<part>.onnx`` for each part, the companions, and the report.

        A path that ends in ``.onnx`` names a file: that of the only part, without companions.

        Args:
            path: folder or file to write.
            external_data: as for an `OnnxModel`.

        Raises:
            SavingError: it can't be written; what stood there is untouched.
            InvalidInputError: a file is named, and there are several parts.
        """
        if Path(path).suffix.lower() == ".onnx":
            if len(self.parts) > 1:
                raise InvalidInputError(
                    f"{os.fspath(path)!r} is a file, and the model becomes {len(self.parts)} ({', '.join(self.parts)}): "
                    "name a folder"
                )
            super().save(path, external_data=external_data)
            return
        with atomic_folder(path, marks=(REPORT,), own=self._own(path)) as folder:
            for name, part in self.parts.items():
                save_file(part.model, folder / f"{name}.onnx", external_data=external_data)
            for file in self.companions:
                shutil.copyfile(file, folder / file.name)
            for name, content in self.texts.items():
                if not (folder / name).exists():
                    (folder / name).write_text(content + "\n", encoding="utf-8")
            text = self.report.to_json() if self.report is not None else "{}"
            (folder / REPORT).write_text(text + "\n", encoding="utf-8")

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "smaller": {}}  # for the proof alone; it holds what reads the folder

    def _own(self, path: str | os.PathLike[str]) -> list[str]:
        """Names in a folder that stands there already which the new one replaces: all models and their data."""
        place = Path(path)
        old = os.listdir(place) if place.is_dir() else []
        return [name for name in old if name == REPORT or name in self.texts or name.endswith((".onnx", ".data"))] + [
            file.name for file in self.companions
        ]

    def __repr__(self) -> str:
        return f"OnnxFolder({', '.join(f'{name}: {part!r}' for name, part in self.parts.items())})"
