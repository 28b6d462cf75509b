"""What the commands from TensorFlow take beside what all conversions take: which part of a file, and libraries of operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from onnxport import frameworks
from onnxport.cli.options import Words
from onnxport.cli.order import Order
from onnxport.cli.source import SourceModel
from onnxport.errors import InvalidInputError
from onnxport.frameworks.descriptor import Lazy
from onnxport.frameworks.native_log import native_log_kept

_load_part = Lazy("onnxport.tracing.tensorflow:load_part")
_load_libraries = Lazy("onnxport.tracing.tensorflow:load_libraries")


@dataclass(frozen=True, kw_only=True)
class TensorflowOrder(Order):
    """The command line of a conversion from TensorFlow."""

    tag: Annotated[str | None, Option(help="Which graph of a SavedModel: the one with this tag.")] = None
    concrete_function: Annotated[
        int | None, Option(help="Which concrete function of a SavedModel's __call__, from 0; no signature then.")
    ] = None
    load_op_libraries: Annotated[
        Words, Option(help="Shared libraries of operators, which run in this process. Repeatable.")
    ] = None

    opset: Annotated[
        int | None, Option(help="Version of ai.onnx, 7 to 28; 21 by default. Those before 13 are for old runtimes.")
    ] = None

    def check_opset(self) -> None:
        """Those from before 13 are taken; what is older still is refused with them."""

    def convert(self) -> Callable[..., Any]:
        """What converts, at an opset from before 13 too, as the examples of tf2onnx ask for."""
        from onnxport.converters.older_opsets import convert_at

        return convert_at

    def resolve(self, text: str) -> SourceModel:
        """The model, or the part of it that is asked for; see `onnxport.cli.source.resolve`."""
        if self.load_op_libraries:
            _started()
            with native_log_kept():
                _load_libraries([path for item in self.load_op_libraries for path in item.split(",")])
        model = super().resolve(text)
        if self.tag is None and self.concrete_function is None:
            return model
        if not isinstance(model.model, str) or not Path(model.model).is_dir():
            raise InvalidInputError(f"--tag and --concrete-function choose a part of a SavedModel; {text!r} is none")
        if self.concrete_function is not None and self.signature is not None:
            raise InvalidInputError("--concrete-function and --signature exclude each other")
        _started()
        with native_log_kept():
            part = _load_part(text, tag=self.tag, concrete_function=self.concrete_function, allow_code=self.allow_code)
        return replace(model, model=part)


def _started() -> None:
    frameworks.require(frameworks.get("tensorflow"))
