"""ONNX's reference evaluator, without its defects that change results."""

from __future__ import annotations

import locale
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx


def reference_evaluator(model: onnx.ModelProto) -> Any:
    """An `onnx.reference.ReferenceEvaluator` of the model."""
    return _evaluator()(model)


@cache
def _evaluator() -> type[Any]:
    from onnx.reference import ReferenceEvaluator  # a third of a second to import, and rarely needed
    from onnx.reference.op_run import OpRun
    from onnx.reference.ops import op_attention
    from onnx.reference.ops.op_resize import Resize

    own = [type(name, (OpRun,), {"op_domain": "", "_run": run}) for name, run in _RUNS.items()]
    attention = getattr(op_attention, "Attention_23", op_attention.Attention)  # that of version 25 refuses more
    own += [_with("Attention", attention, _mask_of_rows), _with("Resize", Resize, _wide_weights), _conv_transpose()]
    own += [_string_normalizer(), _random_uniform_like()]

    class Evaluator(ReferenceEvaluator):
        """The evaluator with the operators of this file, in bodies of functions and subgraphs too."""

        def __init__(self, proto: Any, **options: Any) -> None:
            super().__init__(proto, **{**options, "new_ops": [_loop(), *own]})

    return Evaluator


def _erf(_: Any, x: np.ndarray) -> tuple[np.ndarray]:
    """Erf in the type of its input: the evaluator's own (onnx 1.23) rounds float64 to float32, and Gelu with it."""
    return (np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype),)


def _lp_normalization(_: Any, x: np.ndarray, axis: int = -1, p: int = 2) -> tuple[np.ndarray]:
    """LpNormalization by a norm: the evaluator's own (onnx 1.23) adds the elements, not their sizes, where p is 1."""
    norm = np.linalg.norm(x.astype(np.float64), ord=p, axis=axis, keepdims=True)
    return (np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm)).astype(x.dtype),)


def _hard_swish(_: Any, x: np.ndarray) -> tuple[np.ndarray]:
    """x times x / 6 + 1/2 between 0 and 1: in the body of the schema (onnx 1.23) the sixth is a float32, of float64 too."""
    return ((x * np.clip(x / 6 + 0.5, 0, 1)).astype(x.dtype),)


def _gelu(_: Any, x: np.ndarray, approximate: str = "none") -> tuple[np.ndarray]:
    """Gelu in the type of its input: in the body of the schema (onnx 1.23) its constants are float32, of float64 too."""
    if approximate == "tanh":
        return ((0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))).astype(x.dtype),)
    return ((0.5 * x * (1 + _erf(None, (x * math.sqrt(0.5)).astype(x.dtype))[0])).astype(x.dtype),)


def _lrn(
    _: Any, x: np.ndarray, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> tuple[np.ndarray]:
    """LRN of every channel: the evaluator's own (onnx 1.23) computes as many as there are images."""
    before, after = (size - 1) // 2, size // 2
    squares = np.pad(x * x, [(0, 0), (before, after), *[(0, 0)] * (x.ndim - 2)])
    sums = sum(squares[:, i : i + x.shape[1]] for i in range(size))
    return ((x / (float(bias) + float(alpha) / size * sums) ** float(beta)).astype(x.dtype),)


_RUNS = {"LRN": _lrn, "Gelu": _gelu, "Erf": _erf, "LpNormalization": _lp_normalization, "HardSwish": _hard_swish}


def _mask_of_rows(operands: list[Any], attributes: dict[str, Any]) -> None:
    """A row of an Attention's mask for each query: the evaluator (onnx 1.23) counts a causal one's queries by its mask."""
    mask = operands[3] if len(operands) > 3 else None
    if mask is not None:
        operands[3] = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, (operands[0].shape[-2], 1)))


def _wide_weights(operands: list[Any], attributes: dict[str, Any]) -> None:
    """Cubic weights of Resize in float64: the evaluator (onnx 1.23) has them in float32, the type of the attribute."""
    if attributes.get("cubic_coeff_a") is not None:
        attributes["cubic_coeff_a"] = float(attributes["cubic_coeff_a"])


def _conv_transpose() -> type[Any]:
    from onnx.reference.ops.op_conv_transpose import ConvTranspose

    def run(
        self: Any, x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, group: int = 1, **form: Any
    ) -> tuple[np.ndarray]:
        """ConvTranspose with the bias of each channel: in groups the evaluator's own (onnx 1.23) adds the first group's."""
        parts = zip(np.split(x, group, axis=1), np.split(w, group), strict=True)
        whole = np.concatenate([ConvTranspose._run(self, *part, None, group=1, **form)[0] for part in parts], axis=1)
        return (whole if b is None else whole + b.reshape(-1, *[1] * (x.ndim - 2)),)

    return type("ConvTranspose", (ConvTranspose,), {"op_domain": "", "_run": run})


def _random_uniform_like() -> type[Any]:
    from onnx.reference.ops.op_random_uniform_like import RandomUniformLike

    def run(
        self: Any, x: np.ndarray, dtype: int | None = None, high: float = 1.0, low: float = 0.0, **seed: Any
    ) -> Any:
        """RandomUniformLike, drawing anew in each run, as onnxruntime does; of a scalar the evaluator (onnx 1.23) fails."""
        if not hasattr(self, "_state"):
            self._state = self._get_state(seed.get("seed"))
        kind = x.dtype if dtype is None else self.numpy_type(dtype)
        return (np.asarray(self._state.uniform(low, high, x.shape)).astype(kind),)

    return type("RandomUniformLike", (RandomUniformLike,), {"op_domain": "", "_run": run})


def _string_normalizer() -> type[Any]:
    from onnx.reference.ops.op_string_normalizer import StringNormalizer

    def run(self: Any, *operands: Any, **attributes: Any) -> Any:
        """StringNormalizer; the locale of the process, which the evaluator's own (onnx 1.23) changes for good, stays."""
        before = locale.setlocale(locale.LC_ALL)
        try:
            return StringNormalizer._run(self, *operands, **attributes)
        finally:
            locale.setlocale(locale.LC_ALL, before)

    return type("StringNormalizer", (StringNormalizer,), {"op_domain": "", "_run": run})


def _with(name: str, given: type[Any], prepare: Callable[[list[Any], dict[str, Any]], None]) -> type[Any]:
    """The evaluator's operator, which gets its operands and attributes as `prepare` changes them."""

    def run(self: Any, *operands: Any, **attributes: Any) -> Any:
        changed = list(operands)
        prepare(changed, attributes)
        return given._run(self, *changed, **attributes)

    return type(name, (given,), {"op_domain": "", "_run": run})


@cache
def _loop() -> type[Any]:
    from onnx.reference.op_run import OpRun

    class Loop(OpRun):
        """Loop as the specification has it: a scan output gets one new leading axis.

        The evaluator's own (onnx 1.18 to 1.23) stacks with `numpy.vstack`: scalars to a matrix of one column, matrices to a
        longer matrix.
        """

        op_domain = ""
        body: Any  # these two are set from the node's attributes
        _run_body: Any

        def need_context(self) -> bool:
            """The body may read any value of the graph around it."""
            return True

        def _run(
            self,
            count: Any = None,
            goes_on: Any = None,
            *states: Any,
            context: Mapping[str, Any] | None = None,
            body: Any = None,
            attributes: Any = None,
            **options: Any,
        ) -> tuple[Any, ...]:
            names, carried = self.body.input_names, list(states)
            scanned: list[list[Any]] = [[] for _ in self.body.output_names[1 + len(carried) :]]
            step = 0
            while (goes_on is None or bool(np.all(goes_on))) and (count is None or step < int(np.ravel(count)[0])):
                condition = np.asarray(True if goes_on is None else goes_on)
                own = dict(zip(names, [np.asarray(step, np.int64), condition, *carried], strict=True))
                goes_on, *results = self._run_body({**(context or {}), **own}, attributes=attributes, **options)
                carried, rows = results[: len(carried)], results[len(carried) :]
                for places, row in zip(scanned, rows, strict=True):
                    places.append(row)
                step += 1
            if scanned and not step:
                raise ValueError("the scan outputs of a Loop without a step have no known shape")
            return self._check_and_fix_outputs((*carried, *(np.stack(rows) for rows in scanned)))

    return Loop
