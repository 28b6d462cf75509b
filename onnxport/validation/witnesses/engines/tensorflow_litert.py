"""LiteRT, which reads no ONNX: the file goes there as onnxport's TensorFlow module, through TensorFlow's own converter."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxport import frameworks
from onnxport.validation.witnesses.engine import Engine, OpenFile, Shapes

ENGINE = Engine(
    "litert",
    "LiteRT",
    "onnxport.validation.witnesses.engines.tensorflow_litert:open_file",
    packages=("ai_edge_litert", "tensorflow"),
    distribution="ai-edge-litert",
    extra="litert",
    settles_nan=False,  # XNNPACK's exp, minimum and others make numbers of NaN
)
# Operators of TensorFlow that are none of LiteRT's, in the last lines of the converter's error.
_MISSING = re.compile(r"(?:TF Select|Custom) ops: ([\w, .]+)")


def open_file(path: Path, shapes: Shapes) -> OpenFile:
    """The file in LiteRT's built-in operators.

    Raises:
        ValueError: it needs others.
    """
    from ai_edge_litert.interpreter import Interpreter

    from onnxport.model import OnnxModel

    framework = frameworks.get("tensorflow")
    frameworks.require(framework)
    assert framework.build is not None
    module: Any = framework.build(OnnxModel.load(path).model)
    interpreter = Interpreter(model_content=_lite(module))
    (key,) = interpreter.get_signature_list()
    runner = interpreter.get_signature_runner(key)
    taken = {
        name: argument
        for name, argument in zip(module.input_names, module.argument_names, strict=True)
        if argument in runner.get_input_details()
    }
    names = list(module.output_names)

    def run(feeds: Mapping[str, Any]) -> list[Any]:
        results = runner(**{argument: feeds[name] for name, argument in taken.items()})
        return [results[name] for name in names]

    return run


def _lite(module: Any) -> bytes:
    import tensorflow as tf

    with tempfile.TemporaryDirectory(prefix="onnxport-") as folder:
        place = Path(folder) / "module"
        frameworks.get("tensorflow").files.save(module, place)  # type: ignore[misc]
        converter = tf.lite.TFLiteConverter.from_saved_model(str(place))
        try:
            content: bytes = converter.convert()
        except Exception as error:  # of a type that its API does not name
            missing = sorted({word.strip() for item in _MISSING.findall(str(error)) for word in item.split(",")})
            if not missing:
                raise
            raise ValueError(f"LiteRT has no built-in operator for TensorFlow's {', '.join(missing)}") from error
    return content
