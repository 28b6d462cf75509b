"""What the models of ai.onnx.ml share: rows, labels, and how scores become probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.cases import Array, Case
from onnxport.opset_maps.from_onnx.cases import ml_node
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Ints, Tensor
from onnxport.opset_maps.maps import onnx
from onnxport.opset_maps.registry import Function

ML = "ai.onnx.ml"
_ZERO = 1e-7  # SOFTMAX_ZERO leaves scores of smaller magnitude out (onnxruntime, ml_common.h)


def ml_op(
    op_type: str,
    outputs: str = "",
    attributes: str = "",
    *inputs: Array | np.ndarray,
    versions: Ints = (1,),
    ml: int = 3,
    cases: Sequence[Case] = (),
) -> Callable[[Function], Function]:
    """Registers the decorated function for an operator of ai.onnx.ml, with a case of one node as `ml_node` takes it."""
    own = [ml_node(op_type, outputs, attributes, *inputs, ml=ml)] if outputs else []
    return onnx.op(op_type, versions=versions, domain=ML, cases=[*own, *cases])


def as_rows(xp: Namespace, x: Tensor) -> Tensor:
    """[rows, features]: a vector is one row."""
    return xp.expand_dims(x, [0]) if xp.ndim(x) == 1 else x


def as_float_rows(xp: Namespace, x: Tensor) -> Tensor:
    """Rows in FLOAT, in which ai.onnx.ml's models compute whatever the input's type."""
    return xp.astype(as_rows(xp, x), ir.DataType.FLOAT)


def labels_of(xp: Namespace, places: Tensor, labels: Sequence[Any]) -> Tensor:
    """The label at each INT64 place, string or INT64."""
    if isinstance(labels[0], str):
        return xp.take(xp.constant(np.asarray(labels, object), ir.DataType.STRING), places, 0)
    if list(labels) == list(range(len(labels))):
        return places
    return xp.take(xp.constant(np.asarray(labels, np.int64)), places, 0)


def probit(xp: Namespace, p: Tensor) -> Tensor:
    """sqrt(2) erfinv(2p - 1), with Winitzki's approximation of the inverse error function that onnxruntime uses.

    Source: S. Winitzki, "A handy approximation for the error function and its inverse", 2008, with a = 0.147.
    """
    y = xp.subtract(xp.multiply(p, 2.0), 1.0)
    log = xp.log(xp.multiply(xp.subtract(xp.multiply(y, -1.0), -1.0), xp.add(y, 1.0)))
    v = xp.add(xp.multiply(log, 0.5), 2 / (3.14159 * 0.147))
    root = xp.sqrt(xp.subtract(xp.square(v), xp.multiply(log, 1 / 0.147)))
    magnitude = xp.multiply(xp.sqrt(xp.subtract(root, v)), math.sqrt(2))
    return xp.where(xp.less(y, 0), xp.negative(magnitude), magnitude)


def softmax_zero(xp: Namespace, scores: Tensor) -> Tensor:
    """Softmax over the scores that are not zero; a zero stays next to nothing."""
    peak = xp.max(scores, (1,), True)
    zero = xp.less_equal(xp.abs(scores), _ZERO)
    powers = xp.exp(xp.subtract(scores, peak))
    total = xp.sum(xp.where(zero, 0, powers), (1,), True)
    return xp.divide(xp.where(zero, xp.multiply(scores, xp.exp(xp.negative(peak))), powers), total)


def transformed(xp: Namespace, scores: Tensor, name: str) -> Tensor:
    """Scores [rows, classes] after the attribute post_transform."""
    match name:
        case "NONE":
            return scores
        case "LOGISTIC":
            return xp.sigmoid(scores)
        case "SOFTMAX":
            return xp.softmax(scores, 1)
        case "SOFTMAX_ZERO":
            return softmax_zero(xp, scores)
        case "PROBIT":
            return probit(xp, scores)
    raise UnsupportedOperator(f"post_transform={name!r} is none of ONNX's")


def add_second_class(xp: Namespace, score: Tensor, transform: str, *, complement: bool) -> Tensor:
    """[rows, 2] of one score [rows, 1] of the second class: with its complement to 1, or its opposite.

    Of the post-transforms onnxruntime applies LOGISTIC, to the score and its opposite, and no other; the specification is
    silent.
    """
    if transform == "PROBIT":
        raise UnsupportedOperator("post_transform=PROBIT of a single score leaves onnxruntime's second score unset")
    if transform == "LOGISTIC":
        return xp.sigmoid(xp.concat([xp.negative(score), score], 1))
    return xp.concat([xp.add(xp.negative(score), 1.0) if complement else xp.negative(score), score], 1)
