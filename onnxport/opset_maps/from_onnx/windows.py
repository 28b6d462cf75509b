"""Geometry of sliding windows: auto_pad, ceil_mode, explicit padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Required, TypedDict

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.axes import int_op
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.values import Int, Ints, UnknownUntilRun, known


class WindowAttributes(TypedDict, total=False):
    """Attributes of ONNX's operators on windows."""

    auto_pad: str
    dilations: Ints | None
    pads: Ints | None
    strides: Ints | None


class PoolAttributes(WindowAttributes, total=False):
    """Those of pooling, whose last window may reach over the edge; the last two belong to one operator each."""

    kernel_shape: Required[Ints]
    ceil_mode: int
    count_include_pad: int  # AveragePool
    storage_order: int  # MaxPool


@dataclass(frozen=True)
class WindowGeometry:
    """Windows over the spatial axes of an image.

    Attributes:
        kernel: size an axis.
        strides: step an axis.
        dilations: distance of a window's elements an axis.
        pads: padding that the model asks for, (before, after) an axis.
        extra: further padding after, that lets a last window reach over the edge (ceil_mode).
        counts: number of windows an axis.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[Int, Int], ...]
    extra: tuple[Int, ...]
    counts: tuple[Int, ...]

    @property
    def padded(self) -> list[tuple[Int, Int]]:
        """All padding, with the two axes of batch and channels."""
        both = [(a, b if known(e) and e == 0 else b + e) for (a, b), e in zip(self.pads, self.extra, strict=True)]
        return [(0, 0), (0, 0), *both]

    @property
    def has_padding(self) -> bool:
        """Whether any axis is (or may be) padded."""
        return not all(known(n) and n == 0 for pair in self.padded for n in pair)


def spanned(xp: Namespace, count: Int, step: int, reach: Int) -> Int:
    """How many elements `count` windows of `reach` elements lie over, each `step` further than the one before."""
    return int_op(xp, "add", int_op(xp, "mul", int_op(xp, "sub", count, 1), step), reach)


def windows(
    xp: Namespace, sizes: Sequence[Int], kernel: Ints, form: WindowAttributes, ceil_mode: int = 0
) -> WindowGeometry:
    """The windows over spatial axes of `sizes`.

    Source: ONNX operator specification, AveragePool-22: with SAME the windows number ceil(size / stride), with ceil_mode a
    window that would start in the padding after the image is left out.
    """
    rank, auto_pad = len(kernel), form.get("auto_pad", "NOTSET")
    step, spread = tuple(form.get("strides") or (1,) * rank), tuple(form.get("dilations") or (1,) * rank)
    given = tuple(form.get("pads") or (0,) * (2 * rank))
    pairs: list[tuple[Int, Int]] = []
    extra: list[Int] = []
    counts: list[Int] = []
    lengths = list(kernel)
    for i, size in enumerate(sizes):
        reach = spanned(xp, kernel[i], spread[i], 1)
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            if step[i] > 2 and not known(reach):
                raise UnknownUntilRun("whether windows leave gaps is known only when the model runs")
            if known(reach) and step[i] - reach > 1:
                raise UnsupportedOperator(
                    f"auto_pad={auto_pad} with a stride of {step[i]} over windows of {reach}: runtimes do not agree where they "
                    "start; write the pads"
                )
            count = int_op(xp, "ceil_div", size, step[i])
            total = int_op(xp, "max", int_op(xp, "sub", spanned(xp, count, step[i], reach), size), 0)
            small = int_op(xp, "floor_div", total, 2)
            large = int_op(xp, "sub", total, small)
            pairs.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
            extra.append(0)
        else:
            before, after = (0, 0) if auto_pad == "VALID" else (given[i], given[i + rank])
            pairs.append((before, after))
            room = int_op(xp, "sub", int_op(xp, "add", size, before + after), reach)
            if ceil_mode:
                if not known(size):
                    raise UnknownUntilRun("where the last window ends is known only when the model runs")
                count = -(-room // step[i]) + 1
                count -= int((count - 1) * step[i] >= size + before)
                whole = size + before + after
                if count == 1 and spread[i] == 1 and kernel[i] > whole:  # over all there is: no need to fill it up
                    lengths[i], room = whole, 0
                extra.append(max((count - 1) * step[i] - room, 0))
            else:
                count = int_op(xp, "add", int_op(xp, "floor_div", room, step[i]), 1)
                extra.append(0)
        counts.append(count)
    return WindowGeometry(tuple(lengths), step, spread, tuple(pairs), tuple(extra), tuple(counts))
