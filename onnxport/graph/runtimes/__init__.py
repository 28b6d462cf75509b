"""Made for a runtime: the one room that knows what onnxruntime lacks or gets wrong.

`DEFECTS` holds a row a defect: operators, element types, opsets, what is written instead, the reason and, where there is one, a
public link. `fit` rewrites a graph by it. Entries of the maps write the direct operator and know nothing of runtimes.

The rows cover onnxruntime 1.24, the oldest that onnxport supports, to 1.31.
"""

from __future__ import annotations

from typing import Literal, get_args

Runtime = Literal["onnxruntime", "reference"]
RUNTIMES: tuple[Runtime, ...] = get_args(Runtime)

NEWEST_OPSET = 26  # the newest ai.onnx opset that onnxruntime 1.31 loads
