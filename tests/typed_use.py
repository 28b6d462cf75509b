"""A user's program, for mypy alone: what the public surface gives has types that editors complete."""

from pathlib import Path
from typing import Any, Literal, assert_type

import numpy as np
import onnx
import onnx_ir as ir

import onnxport
from onnxport import OnnxModel, Report, ValidationError


def program(net: object, x: np.ndarray, to: str) -> None:
    assert_type(onnxport.convert(net, inputs=(x,), target_opset=17), OnnxModel)
    assert_type(onnxport.convert(net, "onnx", validate=False), OnnxModel)
    assert_type(onnxport.convert("net.onnx", to="pytorch"), Any)
    assert_type(onnxport.convert(net, to, dynamic_shapes={"x": {0: "batch"}}), Any)
    model = OnnxModel.load(Path("net.onnx"))
    assert_type(model.model, ir.Model)
    assert_type(model.proto, onnx.ModelProto)
    assert_type(model.input_names, list[str])
    assert_type(model.report, Report | None)
    assert_type(model.rename({"x": "y"}).cut(outputs=["h"]).set_shapes({"batch": 1}).to_float16(), OnnxModel)
    assert_type(model.summary(), str)
    report = onnxport.validate(net, model, inputs=(x,))
    assert_type(report.verdict, Literal["passed", "failed", "unproved"])
    assert_type(report.passed, bool)
    try:
        model.save("net.onnx", external_data=True)
    except ValidationError as error:
        assert_type(str(error), str)
    onnxport.convert(net, opset=17)  # type: ignore[call-overload]
