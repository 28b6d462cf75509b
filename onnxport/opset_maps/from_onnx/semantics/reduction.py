"""Reductions and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import onnx_ir as ir

from onnxport.opset_maps.from_onnx.axes import given, int_op, number, resolved, scalar
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Axes, Host, Tensor, host_array
from onnxport.opset_maps.maps import onnx


def _wide(xp: Namespace, x: Tensor) -> Tensor:
    return x if xp.dtype(x).is_floating_point() else xp.astype(x, ir.DataType.DOUBLE)


def _l2(xp: Namespace, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    return xp.astype(xp.sqrt(xp.sum(xp.square(_wide(xp, x)), axes, keepdims)), xp.dtype(x))


def _log_sum_exp(xp: Namespace, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    return xp.astype(xp.logsumexp(_wide(xp, x), axes, keepdims), xp.dtype(x))


def _log_sum(xp: Namespace, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    return xp.astype(xp.log(_wide(xp, xp.sum(x, axes, keepdims))), xp.dtype(x))


_Form: TypeAlias = Callable[[Namespace, Tensor, Axes, bool], Tensor]
# For each reduction its versions, and whether it leaves single elements, of which no axes make one each, as they are.
_FORMS: dict[str, tuple[_Form, tuple[int, ...], bool]] = {
    "ReduceSum": (lambda xp, x, axes, keepdims: xp.sum(x, axes, keepdims), (1, 11, 13), True),
    "ReduceMean": (lambda xp, x, axes, keepdims: xp.mean(x, axes, keepdims), (1, 11, 13, 18), True),
    "ReduceProd": (lambda xp, x, axes, keepdims: xp.prod(x, axes, keepdims), (1, 11, 13, 18), True),
    "ReduceMax": (lambda xp, x, axes, keepdims: xp.max(x, axes, keepdims), (1, 11, 12, 13, 18, 20), True),
    "ReduceMin": (lambda xp, x, axes, keepdims: xp.min(x, axes, keepdims), (1, 11, 12, 13, 18, 20), True),
    "ReduceL1": (lambda xp, x, axes, keepdims: xp.sum(xp.abs(x), axes, keepdims), (1, 11, 13, 18), False),
    "ReduceL2": (_l2, (1, 11, 13, 18), False),
    "ReduceLogSum": (_log_sum, (1, 11, 13, 18, 28), False),
    "ReduceLogSumExp": (_log_sum_exp, (1, 11, 13, 18, 28), True),
    "ReduceSumSquare": (lambda xp, x, axes, keepdims: xp.sum(xp.square(x), axes, keepdims), (1, 11, 13, 18), False),
}


def _reduction(name: str, form: _Form, is_plain: bool) -> Callable[..., Any]:
    def operator(
        xp: Namespace, x: Tensor, axes: Host | None = None, *, keepdims: int, noop_with_empty_axes: int = 0, **_: Any
    ) -> Tensor:
        chosen = given(axes)
        if not chosen:
            if noop_with_empty_axes:
                return x if is_plain else form(xp, x, (), True)
            return form(xp, x, None, bool(keepdims))
        rank = xp.ndim(x) if any(axis < 0 for axis in chosen) else 0
        return form(xp, x, tuple(sorted({resolved(axis, rank) for axis in chosen})), bool(keepdims))

    operator.__doc__ = f"ONNX {name}: axes are an attribute in early opsets, an operand later; none are all."
    return operator


for _op, (_form, _versions, _is_plain) in _FORMS.items():
    onnx.op(_op, versions=_versions)(_reduction(_op, _form, _is_plain))


def _arg(name: str) -> Callable[..., Any]:
    def operator(xp: Namespace, x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        ours = xp.shape(x)
        axis = resolved(axis, len(ours))
        method = getattr(xp, name)
        if not select_last_index:
            return method(x, axis, bool(keepdims))
        from_end = method(xp.flip(x, (axis,)), axis, bool(keepdims))
        last = xp.from_host(host_array(int_op(xp, "sub", ours[axis], 1)), ir.DataType.INT64)
        return xp.subtract(last, from_end)

    operator.__doc__ = f"Index of the first or last element that is {name[3:]}imal along an axis."
    return operator


for _op in ("ArgMax", "ArgMin"):
    onnx.op(_op, versions=(1, 11, 12, 13))(_arg(_op.lower()))


def _running(kind: str, unit: int) -> Callable[..., Tensor]:
    def operator(xp: Namespace, x: Tensor, axis: Host, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
        rank = xp.ndim(x)
        along = resolved(number(scalar(axis)), rank)
        if reverse:
            x = xp.flip(x, (along,))
        if exclusive:
            longer = xp.pad(x, [(1, 0) if i == along else (0, 0) for i in range(rank)], "constant", unit)
            x = xp.slice(longer, along, None, -1)  # which leaves nothing of nothing
        result = getattr(xp, f"cumulative_{kind}")(x, along)
        return xp.flip(result, (along,)) if reverse else result

    operator.__doc__ = f"Running {kind}."
    return operator


onnx.op("CumSum", versions=(11, 14))(_running("sum", 0))
onnx.op("CumProd", versions=(26,))(_running("prod", 1))
