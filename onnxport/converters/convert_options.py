"""The keywords of `onnxport.convert` as a type, for the signatures that editors and type checkers read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypedDict

from onnxport.graph.runtimes import Runtime
from onnxport.request import Optimize, States, Strategy


class ConvertOptions(TypedDict, total=False):
    """Each as `onnxport.convert` describes it."""

    inputs: object
    kwargs: Mapping[str, object] | None
    dynamic_shapes: object
    target_opset: int | Mapping[str, int] | None
    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    cut_inputs: Sequence[str] | None
    cut_outputs: Sequence[str] | None
    output: str | os.PathLike[str] | None
    validate: bool
    signature: str | None
    methods: Sequence[str] | None
    options: Mapping[str, object] | None
    optimize: Optimize
    runtime: Runtime
    allow_pickle: bool
    allow_code: bool
    rtol: float | None
    atol: float | None
    task: str | None
    dtype: str | None
    keep_io_types: bool
    inputs_as_nchw: Sequence[str] | None
    outputs_as_nchw: Sequence[str] | None
    weights: str | os.PathLike[str] | None
    functions: str | Sequence[type | str] | None
    strategy: Strategy | None
    states: States | None
    runtimes: Sequence[str] | None
