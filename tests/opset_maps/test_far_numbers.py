"""Numbers at the ends of their types, of which runtimes' own kernels say wrong things: each function against its framework."""

import numpy as np
import pytest

import onnxport
from tests.evidence import require_equal

NAN, INF = np.nan, np.inf
FAR = [[NAN, 1, 2, 3, 4], [5, 2, NAN, 4, 9], [1, 2, 3, 4, NAN], [INF, -INF, 1, 2, 3], [-INF, -INF, 1, 0, -7]]
FLOATS = ("float16", "float32", "float64")
SMALL = [list(range(-120, 60, 5))]
MANY = [[NAN if i % 7 == 3 else INF if i % 11 == 5 else -INF if i % 13 == 2 else i * 37 % 101 for i in range(300)]]
# Numerators and divisors whose squares leave float32.
FAR_PARTS = [[1e38, 1e38], [1e-30, 2e-30], [3e37, -1e-30], [2.0, 1e30], [0.5, 7.0], [-1e20, 3e25]]
TORCH = {
    "clamp from above": (lambda torch, x: x.clamp(max=2), FAR, ("float16", "float32", "float64")),
    "clamp from below": (lambda torch, x: x.clamp(min=2), FAR, ("float16", "float32", "float64")),
    "clamp_min": (lambda torch, x: x.clamp_min(2.5), FAR, ("float32",)),
    "clamp of relu": (lambda torch, x: torch.relu(x).clamp(0, 3), FAR, ("float32", "float64")),
    "relu6 of relu": (lambda torch, x: torch.nn.functional.relu6(torch.relu(x)), FAR, ("float32", "float64")),
    "log_softmax": (lambda torch, x: x.log_softmax(1), FAR, ("float32", "float64")),
    "log_softmax of columns": (lambda torch, x: x.log_softmax(0), FAR, ("float64",)),
    "log of sigmoid": (lambda torch, x: torch.log(torch.sigmoid(x)), SMALL, ("float32", "float64")),
    "power that wraps around": (lambda torch, x: x**5, SMALL, ("int32", "int64")),
    "extremes": (lambda torch, x: (x.amax(1), x.amin(0), x.max(), *x.aminmax(dim=1)), FAR, FLOATS),
    "extremes and places": (lambda torch, x: (*x.max(1), *x.min(1, True), x.argmax(0), x.argmin()), FAR, FLOATS),
    "norms by the extremes": (lambda torch, x: (x.norm(p=INF, dim=1), x.norm(p=-INF, dim=0)), FAR, ("float32",)),
    "mean of infinities": (lambda torch, x: torch.var_mean(x, 1), FAR, ("float32", "float64")),
    "resize of rows": (
        lambda torch, x: torch.nn.functional.interpolate(x[None], size=7, mode="linear"),
        FAR[:3],
        ("float32",),
    ),
    "resize of rows by a factor": (
        lambda torch, x: torch.nn.functional.interpolate(x[None], scale_factor=1.5, mode="linear"),
        FAR[:3],
        ("float32",),
    ),
    "numbers that differ": (lambda torch, x: (torch.cdist(x, x + 1, 0.0), torch.pdist(x, 0.0)), FAR, ("float32",)),
    "extremes by index": (
        lambda torch, x: tuple(
            x[:3].scatter_reduce(0, torch.tensor([[0, 1, 1, 2, 2]] * 5), x, kind, include_self=keep)
            for kind in ("amax", "amin")
            for keep in (True, False)
        ),
        FAR,
        ("float32", "float64"),
    ),
    "max_pool1d": (lambda torch, x: torch.max_pool1d(x[:, None], 3, 2, 1), FAR, FLOATS),
    "max_pool2d": (lambda torch, x: torch.max_pool2d(x[None, None], 2, ceil_mode=True), FAR, FLOATS),
    "max_pool2d with padding": (
        lambda torch, x: torch.max_pool2d(x[None, None].expand(1, 16, *x.shape), 3, 2, 1),
        FAR,
        FLOATS,
    ),
    "max_pool2d with padding behind Relu": (
        lambda torch, x: torch.max_pool2d(torch.relu(x[None, None].expand(1, 16, *x.shape)), (3, 2), 1, 1),
        FAR,
        FLOATS,
    ),
    "max_pool2d with steps": (lambda torch, x: torch.max_pool2d(x[None, None], 2, 1, dilation=2), FAR, FLOATS),
    "max_pool2d and places": (
        lambda torch, x: torch.nn.functional.max_pool2d(x[None, None], 3, 1, 1, return_indices=True),
        FAR,
        FLOATS,
    ),
    "adaptive_max_pool1d": (lambda torch, x: torch.adaptive_max_pool1d(x[:, None], 3), FAR, FLOATS),
    "adaptive_max_pool2d": (
        lambda torch, x: torch.nn.functional.adaptive_max_pool2d(x[None, None], 1),
        FAR,
        ("float32", "float64"),
    ),
    "sort": (lambda torch, x: (*x.sort(dim=1, stable=True), *x.sort(dim=0, descending=True, stable=True)), FAR, FLOATS),
    "topk": (lambda torch, x: (x.topk(3)[0], x.topk(2, 0, largest=False)[0], x.kthvalue(4, 1)[0]), FAR, FLOATS),
    "sort of many": (lambda torch, x: x.reshape(-1).sort(stable=True), MANY, FLOATS),
    "medians": (lambda torch, x: (*x.median(1), x.nanmedian(1)[0], x.nanmedian()), FAR, FLOATS),
    "quantile": (lambda torch, x: (x.quantile(0.3, dim=1), x.nanquantile(0.3, dim=1)), FAR, ("float32", "float64")),
    "unique": (lambda torch, x: torch.unique(x, return_counts=True), FAR, FLOATS),
    "samples beyond the image": (
        lambda torch, x: [
            torch.nn.functional.grid_sample(
                torch.arange(12, dtype=x.dtype).reshape(1, 1, 3, 4),
                x.reshape(1, 2, 4, 2),
                mode,
                padding,
                align_corners=corners,
            )
            for mode, padding in (("bilinear", "border"), ("nearest", "border"), ("nearest", "zeros"))
            for corners in (False, True)
        ],
        [[INF, 0.2, -0.4, -INF, 3e9, -0.1, 0.3, -3e20], [0.5, -0.2, 1e12, 0.1, -INF, INF, 3e38, 3e38]],
        ("float32", "float64"),
    ),
    "sign": (lambda torch, x: (x.sign(), x.sgn()), FAR, FLOATS),
    "shrink": (
        lambda torch, x: (torch.nn.functional.softshrink(x, 1.5), torch.nn.functional.hardshrink(x, 1.5)),
        FAR,
        FLOATS,
    ),
    "threshold": (lambda torch, x: torch.threshold(x, 0.5, -7.0), FAR, FLOATS),
    "roots": (lambda torch, x: (x**0.5, x**-0.5), FAR, FLOATS),
    "rms_norm": (lambda torch, x: torch.rms_norm(x * 1e-3, (5,)), FAR, FLOATS),
    "complex division": (
        lambda torch, x: [
            torch.view_as_real(item)
            for z in [torch.view_as_complex(x.reshape(-1, 2))]
            for item in (z / z.flip(0), torch.reciprocal(z), 2 / z, z / (1e37 + 2e37j))
        ],
        FAR_PARTS,
        ("float32", "float64"),
    ),
}
TENSORFLOW = {
    "log_softmax": (lambda tf, x: tf.nn.log_softmax(x), FAR, ("float32", "float64")),
    "log of sigmoid": (lambda tf, x: tf.math.log(tf.sigmoid(x)), [list(range(-85, 60, 5))], ("float32", "float64")),
    "relu6 of relu": (lambda tf, x: tf.nn.relu6(tf.nn.relu(x)), FAR, ("float32", "float64")),
    "power that wraps around": (lambda tf, x: tf.pow(x, 5), SMALL, ("int32", "int64")),
    "sums and products that wrap around": (
        lambda tf, x: (tf.reduce_sum(x, 1), tf.reduce_sum(x), tf.reduce_prod(x, 1, True), tf.reduce_prod(x, 0)),
        [[2**31 - 1, 2**31 - 1, 1, 3], [-(2**31), -7, 5, 3], [65536, 65537, 3, 1]],
        ("int32",),
    ),
    "greatest of windows": (
        lambda tf, x: tf.nn.max_pool2d(x[None, :, :, None], 2, 1, "VALID"),
        [[65535, 0, 32768, 7], [3, 1, 2, 65534]],
        ("uint16",),
    ),
    "extremes": (lambda tf, x: (tf.reduce_max(x, 1), tf.reduce_min(x, 0), tf.reduce_max(x)), FAR, FLOATS),
    "extremes over axes of the run": (
        lambda tf, x: tf.reduce_max(x, tf.range(1, tf.rank(x[:, :, None]) - 1)),
        FAR,
        ("float32",),
    ),
    "complex division": (
        lambda tf, x: [
            part(tf.complex(x[:, 0], x[:, 1]) / tf.complex(x[::-1, 1], x[::-1, 0]))
            for part in (tf.math.real, tf.math.imag)
        ],
        FAR_PARTS,
        ("float32", "float64"),
    ),
    "sign": (lambda tf, x: tf.sign(x), FAR, FLOATS),
    "zero times anything": (
        lambda tf, x: (tf.math.xlogy(x[:, :2], x[:, 3:]), tf.math.xlog1py(x * 0, x), tf.math.xdivy(x - x, x)),
        FAR,
        ("float32", "float64"),
    ),
    "places among edges": (
        lambda tf, x: (
            tf.searchsorted([[1.0, 3.0]] * 5, x),
            tf.searchsorted([[1.0, 3.0]] * 5, x, side="right"),
            tf.raw_ops.Bucketize(input=x, boundaries=[1.0, 3.0]),
        ),
        FAR,
        ("float32",),
    ),
    "poles": (
        lambda tf, x: (tf.math.digamma(x), tf.math.zeta(tf.constant([[2.0], [3.0], [2.5], [1.0], [4.0]]), x)),
        [[0.0, -1.0, -2.0, -0.0]] * 5,
        ("float32",),
    ),
    "unique": (
        lambda tf, x: (*tf.unique(x[0]), *tf.unique_with_counts(x[1]), *tf.raw_ops.UniqueV2(x=x[0], axis=[0])),
        [[3.0, float("nan"), 2.0, float("nan"), 3.0, 1.0], [0.0, -0.0, float("inf"), 1.0, float("-inf"), float("inf")]],
        ("float32", "float64"),
    ),
    "places": (lambda tf, x: (tf.argmax(x, 1), tf.argmin(x, 1), tf.argmax(x, 0)), FAR, FLOATS),
    "extremes by segment": (
        lambda tf, x: (tf.math.segment_max(x, [0, 1, 1, 3, 4]), tf.math.segment_min(x, [0, 1, 1, 3, 4])),
        [[1.0, -INF, INF], [-INF, -INF, INF], [-INF, 2.0, INF], [INF, -INF, 0.0], [-INF, INF, -INF]],
        ("float32", "float64"),
    ),
    "sparse extremes": (
        lambda tf, x: (
            tf.sparse.reduce_max(tf.sparse.from_dense(x), 1),
            tf.sparse.reduce_max(tf.sparse.from_dense(x), 1, output_is_sparse=True).values,
        ),
        [[-INF, 0.0, 0.0], [1.0, INF, -INF], [0.0, 0.0, 0.0]],
        ("float32",),
    ),
    "counts with weights": (
        lambda tf, x: (
            tf.raw_ops.DenseBincount(input=[[3, 0, 1, 1, 7]] * 5, size=4, weights=x),
            tf.raw_ops.Bincount(arr=[3, 0, 1, 1, 7], size=4, weights=x[3]),
        ),
        FAR,
        ("float32", "float64"),
    ),
    "whether among the greatest": (
        lambda tf, x: [tf.math.in_top_k([1, 3, -1, 0, 5], x, k) for k in (1, 2, 5)],
        [
            [1.0, 5.0, 2.0, 4.0, 0.0],
            [1.0, 2.0, INF, 3.0, 0.0],
            [1, 2, 3, 4, 5],
            [4.0, 1.0, NAN, 1.0, 1.0],
            [1, 2, 3, 4, 5],
        ],
        ("float32",),
    ),
    "steps between": (
        lambda tf, x: [tf.raw_ops.LinSpace(start=x[i, 0], stop=x[i, 1], num=n) for i in range(5) for n in (1, 2, 5)],
        [[1.0, INF], [-INF, 1.0], [-INF, INF], [NAN, 2.0], [3.0, NAN]],
        ("float32", "float64"),
    ),
    "series that end": (
        lambda tf, x: (*(tf.math.polygamma(tf.fill(tf.shape(x), n), x) for n in (1.0, 2.0, 3.0)), tf.math.zeta(2.5, x)),
        [[INF, 1.0, NAN, 2.0]],
        ("float32",),
    ),
    "max_pool2d": (lambda tf, x: tf.nn.max_pool2d(x[None, :, :, None], 3, 2, "SAME"), FAR, ("float32", "float64")),
    "max_pool2d of single elements": (
        lambda tf, x: tf.nn.max_pool2d(x[None, :, :, None], 1, 2, "VALID"),
        FAR,
        ("float32", "float64"),
    ),
    "max_pool2d of a convolution": (
        lambda tf, x: tf.nn.max_pool2d(
            tf.nn.conv2d(x[None, :, :, None], tf.fill([1, 1, 1, 1], tf.constant(2, x.dtype)), 1, "VALID"), 2, 2, "SAME"
        ),
        [[NAN, NAN, 1.0, NAN, 3.0], [NAN, NAN, -INF, -INF, INF], [2.0, NAN, -INF, -INF, NAN]],
        ("float32",),
    ),
}


def cases(table):
    return [pytest.param(*row[:2], dtype, id=f"{name}-{dtype}") for name, row in table.items() for dtype in row[2]]


@pytest.mark.pytorch
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(("function", "numbers", "dtype"), cases(TORCH))
def test_numbers_of_pytorch(function, numbers, dtype):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")

    class Model(torch.nn.Module):
        def forward(self, x):
            return function(torch, x)

    x = np.array(numbers, dtype)
    model = onnxport.convert(Model(), inputs=(torch.tensor(x),), validate=False)
    require_equal(Model(), model, (torch.tensor(x),))


@pytest.mark.tensorflow
@pytest.mark.parametrize(("function", "numbers", "dtype"), cases(TENSORFLOW))
def test_numbers_of_tensorflow(function, numbers, dtype):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    x = np.array(numbers, dtype)
    lowered = tf.function(lambda x: function(tf, x), input_signature=[tf.TensorSpec([None, x.shape[1]], x.dtype)])
    require_equal(lowered, onnxport.convert(lowered, validate=False), (x,))
