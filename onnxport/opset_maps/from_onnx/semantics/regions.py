"""Boxes and regions of images: NonMaxSuppression, RoiAlign."""

from __future__ import annotations

from functools import reduce
from typing import TypedDict, Unpack

import onnx_ir as ir

from onnxport.opset_maps.from_onnx.axes import int_op, part, product, scalar, size_operand
from onnxport.opset_maps.from_onnx.namespace import Namespace
from onnxport.opset_maps.from_onnx.primitives.control import Iteration
from onnxport.opset_maps.from_onnx.values import Host, Int, Number, Scalar, Tensor, host_array, known
from onnxport.opset_maps.maps import onnx

_BOOL, _INT32, _INT64 = ir.DataType.BOOL, ir.DataType.INT32, ir.DataType.INT64
_Box = tuple[Tensor, Tensor, Tensor, Tensor]  # low and high along one axis, then along the other


def _corners(xp: Namespace, boxes: Tensor, centred: bool) -> _Box:
    first, second, third, fourth = (part(xp, boxes, 2, i) for i in range(4))
    sides = []
    for a, b in ((first, third), (second, fourth)):
        half = xp.divide(b, 2.0) if centred else None
        sides += [xp.minimum(a, b) if half is None else xp.subtract(a, half)]
        sides += [xp.maximum(a, b) if half is None else xp.add(a, half)]
    return sides[0], sides[1], sides[2], sides[3]


def _area(xp: Namespace, box: _Box) -> Tensor:
    return xp.multiply(xp.subtract(box[1], box[0]), xp.subtract(box[3], box[2]))


def _overlap(xp: Namespace, a: _Box, b: _Box) -> Tensor:
    """Intersection over union; 0 where the union is nothing."""
    sides = [xp.maximum(xp.subtract(xp.minimum(a[i + 1], b[i + 1]), xp.maximum(a[i], b[i])), 0.0) for i in (0, 2)]
    shared = xp.multiply(sides[0], sides[1])
    union = xp.subtract(xp.add(_area(xp, a), _area(xp, b)), shared)
    is_some = xp.greater(union, 0.0)
    return xp.where(is_some, xp.divide(shared, xp.where(is_some, union, 1.0)), 0.0)


@onnx.op("NonMaxSuppression", versions=(10, 11))
def non_max_suppression(
    xp: Namespace,
    boxes: Tensor,
    scores: Tensor,
    most: Host | None = None,
    limit: Number | None = None,
    least: Number | None = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """[n, 3]: batch, class and box of each kept box, greatest score first within a class.

    A box is dropped where it overlaps a kept one of its class by more than `limit`. Each iteration keeps one box of every class
    that has one left.
    """
    shape = xp.shape(scores)
    count: Int = 0 if most is None else scalar(most)
    if 0 in [n for n in (*shape, count) if known(n)]:
        return xp.zeros((0, 3), _INT64)
    order = xp.argsort(scores, 2, descending=True)
    sides = (
        xp.take_along_axis(xp.broadcast_to(xp.expand_dims(side, (1,)), shape), order, 2)
        for side in _corners(xp, boxes, bool(center_point_box))
    )
    box: _Box = (next(sides), next(sides), next(sides), next(sides))
    ranked = xp.take_along_axis(scores, order, 2)
    left = xp.equal(order, order) if least is None else xp.greater(ranked, least)

    def keep(_: Tensor, __: Tensor, left: Tensor) -> tuple[Tensor, ...]:
        place = xp.argmax(xp.astype(left, _INT32), 2, True)
        best = tuple(xp.take_along_axis(side, place, 2) for side in box)
        apart = xp.less_equal(_overlap(xp, box, (best[0], best[1], best[2], best[3])), 0.0 if limit is None else limit)
        own = xp.equal(xp.arange(0, shape[2]), place)
        following = xp.logical_and(left, xp.logical_and(apart, xp.logical_not(own)))
        return xp.max(following), following, place, xp.max(left, (2,), True)

    bound = int_op(xp, "min", count, shape[2])
    _, places, kept = xp.loop(bound, xp.max(left), [left], Iteration(keep, 2, [None]))
    places, kept = (xp.permute_dims(part(xp, item, 3, 0), (1, 2, 0)) for item in (places, kept))
    tuples = xp.permute_dims(xp.nonzero(kept), (1, 0))
    ranks = xp.expand_dims(xp.gather_nd(places, tuples), (1,))
    labels = xp.slice(tuples, 1, 0, 2)
    indices = xp.gather_nd(order, xp.concat([labels, ranks], 1))
    return xp.concat([labels, xp.expand_dims(indices, (1,))], 1)


class RoiAlignAttributes(TypedDict, total=False):
    """Attributes of RoiAlign."""

    coordinate_transformation_mode: str
    mode: str
    output_height: int
    output_width: int
    sampling_ratio: int
    spatial_scale: float


def _points(xp: Namespace, start: Tensor, extent: Tensor, bins: int, samples: int) -> tuple[Tensor, Int, Tensor | None]:
    """Where an axis of a region is sampled, the number of points in each bin, and whether there are none."""
    dtype = xp.dtype(start)
    width = xp.divide(extent, float(bins))
    count: Int = samples
    empty = None
    if samples <= 0:
        wanted = xp.astype(xp.ceil(width), _INT64)
        empty = xp.less(wanted, 1)
        count = scalar(xp.to_host(xp.maximum(wanted, 1)))
    bin_ = xp.expand_dims(xp.astype(xp.arange(0, bins), dtype), (1,))
    inner = xp.expand_dims(xp.add(xp.astype(xp.arange(0, count), dtype), 0.5), (0,))
    step: Scalar = float(count) if known(count) else size_operand(xp, count, dtype)
    places = xp.add(xp.add(start, xp.multiply(bin_, width)), xp.divide(xp.multiply(inner, width), step))
    return xp.reshape(places, (product(xp, [bins, count]),)), count, empty


def _neighbours(xp: Namespace, place: Tensor, length: Int) -> list[tuple[Tensor, Tensor]]:
    """The two places of an axis beside each point and their weights, 0 beyond one element outside."""
    dtype = xp.dtype(place)
    last = size_operand(xp, int_op(xp, "sub", length, 1), _INT64)
    end = float(length) if known(length) else size_operand(xp, length, dtype)
    inside = xp.astype(xp.logical_and(xp.greater_equal(place, -1.0), xp.less_equal(place, end)), dtype)
    place = xp.maximum(place, 0.0)
    low = xp.minimum(xp.astype(xp.floor(place), _INT64), last)
    high = xp.minimum(xp.add(low, 1), last)
    share = xp.where(xp.equal(low, last), 0.0, xp.subtract(place, xp.astype(low, dtype)))
    return [(low, xp.multiply(xp.subtract(1.0, share), inside)), (high, xp.multiply(share, inside))]


@onnx.op("RoiAlign", versions=(10, 16, 22))
def roi_align(xp: Namespace, x: Tensor, rois: Tensor, batch: Tensor, **form: Unpack[RoiAlignAttributes]) -> Tensor:
    """[regions, C, height, width]: mean or maximum of points sampled bilinearly in each bin of a region.

    Before opset 16 pixels lie at whole coordinates; a region without extent gives 0 where that tells how many points there are.
    Source: He et al., "Mask R-CNN"; ONNX operator specification, RoiAlign-16.
    """
    half = form.get("coordinate_transformation_mode") == "half_pixel"
    bins = form.get("output_height", 1), form.get("output_width", 1)
    samples, is_mean = form.get("sampling_ratio", 0), form.get("mode", "avg") == "avg"
    channels, *lengths = xp.shape(x)[1:]
    edges = xp.multiply(rois, form.get("spatial_scale", 1.0))
    edges = xp.subtract(edges, 0.5) if half else edges
    images = xp.astype(batch, _INT64)

    def region(i: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        edge = xp.take(edges, i, 0)
        image = xp.take(x, xp.take(images, i, 0), 0)
        axes, counts, empties = [], [], []
        for axis, first in enumerate((1, 0)):  # a region is left, top, right, bottom
            start, end = part(xp, edge, 0, first), part(xp, edge, 0, first + 2)
            extent = xp.subtract(end, start)
            extent = extent if half else xp.maximum(extent, 1.0)
            places, count, empty = _points(xp, start, extent, bins[axis], samples)
            axes.append(_neighbours(xp, places, lengths[axis]))
            counts.append(count)
            empties += [] if empty is None else [empty]
        parts = [
            xp.multiply(
                xp.take(xp.take(image, row, 1), column, 2),
                xp.multiply(xp.expand_dims(down, (1,)), xp.expand_dims(across, (0,))),
            )
            for row, down in axes[0]
            for column, across in axes[1]
        ]
        joined = reduce(xp.add if is_mean else xp.maximum, parts)
        joined = xp.reshape(joined, (channels, bins[0], counts[0], bins[1], counts[1]))
        result = xp.mean(joined, (2, 4)) if is_mean else xp.max(joined, (2, 4))
        if empties:
            result = xp.where(reduce(xp.logical_or, empties), 0.0, result)
        return xp.constant(host_array(True, bool), _BOOL), result

    return xp.loop(xp.shape(rois)[0], None, [], Iteration(region, 1, []))[0]
