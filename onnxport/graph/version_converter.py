"""ONNX's version converter, in a process of its own: it is C++ that a graph can crash or hang."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Sequence

import onnx

_SECONDS = 60
# What the process runs: one line of JSON for each model, as soon as it is converted.
_PROGRAM = """
import base64, json, sys
import onnx.version_converter
order = json.load(sys.stdin)
for text in order["models"]:
    try:
        model = onnx.load_model_from_string(base64.b64decode(text))
        result = onnx.version_converter.convert_version(model, order["opset"])
        answer = {"model": base64.b64encode(result.SerializeToString()).decode()}
    except Exception as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
"""


def convert_versions(models: Sequence[onnx.ModelProto], opset: int) -> list[onnx.ModelProto | str]:
    """Each of some small models, which pass between processes, at another opset of ai.onnx; or why it can't be brought there."""
    results: list[onnx.ModelProto | str] = []
    while len(results) < len(models):
        answers, reason = _run(models[len(results) :], opset)
        results += answers
        if len(results) < len(models):  # the process ended on this one; the next starts behind it
            results.append(reason)
    return results


def _run(models: Sequence[onnx.ModelProto], opset: int) -> tuple[list[onnx.ModelProto | str], str]:
    order = {"opset": opset, "models": [base64.b64encode(item.SerializeToString()).decode() for item in models]}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    reason = "ONNX's version converter crashes on it"
    try:
        done = subprocess.run(  # the program is the constant above
            [sys.executable, "-c", _PROGRAM],
            input=json.dumps(order).encode(),
            capture_output=True,
            timeout=_SECONDS,
            env=environment,
            check=False,
        )
        printed = done.stdout
    except subprocess.TimeoutExpired as error:
        printed, reason = error.stdout or b"", f"ONNX's version converter takes more than {_SECONDS} s"
    return [_answer(line) for line in printed.splitlines()], reason


def _answer(line: bytes) -> onnx.ModelProto | str:
    answer = json.loads(line)
    if "error" in answer:
        return str(answer["error"])
    return onnx.load_model_from_string(base64.b64decode(answer["model"]))
