"""Counts, losses and decoders."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.opset_maps.cases import case, f32, f64, i32
from onnxport.opset_maps.lowerings import ctc, trigonometry
from onnxport.opset_maps.lowerings.ctc_beam import beams
from onnxport.opset_maps.lowerings.scatter import scatter_slices
from onnxport.opset_maps.maps import tensorflow
from onnxport.opset_maps.to_onnx.tensorflow.elementwise import or_zero
from onnxport.opset_maps.to_onnx.tensorflow.operands import int64, rank, static_int
from onnxport.opset_maps.to_onnx.tensorflow.text import dense_bincount

_INT64 = ir.DataType.INT64


@tensorflow.lower(
    "Bincount",
    cases=[
        case(lambda x: tf.raw_ops.Bincount(arr=x, size=4, weights=tf.constant([], tf.int32)), i32(2, 5, low=0, high=6)),
        case(lambda x, w: tf.raw_ops.Bincount(arr=x, size=4, weights=w), i32(7, low=0, high=6), f64(7)),
    ],
)
def bincount(op: OpBuilder, arr: ir.Value, size: ir.Value, weights: ir.Value) -> ir.Value:
    """How often, or with what total weight, each number below `size` stands."""
    flat = weights if weights.shape is not None and weights.shape.rank() == 1 else op.Reshape(weights, [-1])
    return dense_bincount(op, op.Reshape(arr, [-1]), size, flat)


@tensorflow.lower(
    "HistogramFixedWidth",
    cases=[
        case(lambda x: tf.histogram_fixed_width(x, [-1.0, 2.0], nbins=6), f32(40)),
        case(lambda x: tf.histogram_fixed_width(x, [0, 10], nbins=4, dtype=tf.int64), i32(3, 9, low=-3, high=15)),
    ],
)
def histogram_fixed_width(
    op: OpBuilder, values: ir.Value, value_range: ir.Value, nbins: ir.Value, *, dtype: ir.DataType = ir.DataType.INT32
) -> ir.Value:
    """The count of each bin; what lies outside is counted in the first or last one. Divided in double, as TensorFlow does."""
    double = ir.DataType.DOUBLE
    low, high = (op.Gather(value_range, i, axis=0) for i in (0, 1))
    count = op.Reshape(int64(op, nbins), np.zeros(0, np.int64))
    step = op.Div(op.cast(op.Sub(high, low), double), op.cast(count, double))
    raised = op.Sub(op.node("Max", op.Reshape(values, [-1]), low), low)
    bins = op.Min(op.Div(op.cast(raised, double), step), op.cast(op.Sub(count, 1), double))
    hit = op.Equal(op.Unsqueeze(op.cast(bins, _INT64), [1]), op.Range(0, count, 1))
    return op.cast(op.reduce("ReduceSum", op.cast(hit, _INT64), [0], keepdims=False), dtype)


@tensorflow.lower(
    "SoftmaxCrossEntropyWithLogits",
    cases=[
        case(lambda x, y: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(y), x), f32(4, 5), f32(4, 5)),
        case(lambda x, y: tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=x, labels=y), f64(4, 5), np.eye(5)[:4]),
        case(
            lambda x: tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=x, labels=np.eye(5, dtype=np.float32)[:1]),
            f32(4, 5),
        ),
    ],
)
def softmax_cross_entropy(op: OpBuilder, features: ir.Value, labels: ir.Value) -> Sequence[ir.Value]:
    """The loss of each row, and its gradient."""
    logarithms = trigonometry.log_softmax(op, features, -1)
    # A class of no weight has no part, were its probability 0.
    parts = or_zero(op, labels, op.Mul(labels, logarithms))
    loss = op.Neg(op.reduce("ReduceSum", parts, [1], keepdims=False))
    return loss, op.Sub(op.Softmax(features, axis=-1), labels)


@tensorflow.lower(
    "SparseSoftmaxCrossEntropyWithLogits",
    cases=[
        case(lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(y, x), f32(4, 5), i32(4, low=0, high=5)),
        case(
            lambda x, y: tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=y),
            f32(4, 5),
            i32(4, low=0, high=5),
        ),
    ],
)
def sparse_softmax_cross_entropy(op: OpBuilder, features: ir.Value, labels: ir.Value) -> Sequence[ir.Value]:
    """The loss of each row, and its gradient."""
    index = op.Unsqueeze(op.cast(labels, _INT64), [1])
    picked = op.GatherElements(trigonometry.log_softmax(op, features, -1), index, axis=1)
    classes = op.Range(0, op.Squeeze(op.dim(features, 1), [0]), 1)
    target = op.cast_like(op.Equal(index, classes), features)
    return op.Neg(op.Squeeze(picked, [1])), op.Sub(op.Softmax(features, axis=-1), target)


def _places(op: OpBuilder, lengths: ir.Value, time: ir.Value) -> ir.Value:
    """Whether each step [batch, time] is within its sequence."""
    return op.Less(op.Unsqueeze(op.Range(0, time, 1), [0]), op.Unsqueeze(int64(op, lengths), [1]))


_LENGTHS = np.array([7, 4], np.int32)


@tensorflow.lower(
    "CTCGreedyDecoder",
    cases=[
        case(lambda x: [*_flat(tf.nn.ctc_greedy_decoder(x, _LENGTHS))], f32(7, 2, 4)),
        case(lambda x: [*_flat(tf.nn.ctc_greedy_decoder(x, _LENGTHS, False, 0))], f32(7, 2, 4)),
    ],
)
def ctc_greedy_decoder(
    op: OpBuilder, inputs: ir.Value, sequence_length: ir.Value, *, merge_repeated: bool = False, blank_index: int = -1
) -> Sequence[ir.Value]:
    """The best class of each step, without blanks and repetitions: indices, values and shape of a sparse tensor; -log p."""
    time = op.Squeeze(op.dim(inputs, 0), [0])
    best = op.Transpose(op.ArgMax(inputs, axis=2, keepdims=0), perm=[1, 0])  # [batch, time]
    blank = op.const(blank_index) if blank_index >= 0 else op.Add(op.Squeeze(op.dim(inputs, 2), [0]), blank_index)
    within = _places(op, sequence_length, time)
    keep = op.And(within, op.Not(op.Equal(best, blank)))
    if merge_repeated:
        before = op.Concat(op.Sub(op.Mul(op.Slice(best, [0], [1], [1]), 0), 1), op.Slice(best, [0], [-1], [1]), axis=1)
        keep = op.And(keep, op.Not(op.Equal(best, before)))
    kept = op.NonZero(keep)  # [2, n]: the batch's number and the step
    pairs = op.Transpose(kept, perm=[1, 0])
    counts = op.cast(keep, _INT64)
    place = op.GatherND(op.Sub(op.CumSum(counts, op.const(1)), 1), pairs)
    indices = op.Concat(op.Slice(pairs, [0], [1], [1]), op.Unsqueeze(place, [1]), axis=1)
    longest = op.reduce("ReduceMax", op.reduce("ReduceSum", counts, [1], keepdims=False), [0], keepdims=True)
    shape = op.Concat(op.dim(inputs, 1), longest, axis=0)
    peaks = op.Transpose(op.reduce("ReduceMax", inputs, [2], keepdims=False), perm=[1, 0])
    total = op.reduce("ReduceSum", op.Where(within, peaks, op.const(0.0, inputs.dtype)), [1], keepdims=True)
    return indices, op.GatherND(best, pairs), shape, op.Neg(total)


def _flat(decoded: tuple[list[tf.SparseTensor], tf.Tensor]) -> Sequence[tf.Tensor]:
    (sparse,), probability = decoded
    return sparse.indices, sparse.values, sparse.dense_shape, probability


_LABELS = np.array([[0, 0], [0, 1], [0, 2], [1, 0]], np.int64), np.array([2, 2, 1, 0], np.int32)


@tensorflow.lower(
    "CTCLoss",
    cases=[
        case(
            lambda x: tf.raw_ops.CTCLoss(
                inputs=x, labels_indices=_LABELS[0], labels_values=_LABELS[1], sequence_length=_LENGTHS
            )[0],
            f32(7, 2, 4),
        ),
        case(
            lambda x: tf.nn.ctc_loss(tf.constant([[1, 2, 2], [3, 0, 0]]), x, [3, 1], _LENGTHS, blank_index=0),
            f32(7, 2, 4),
            min_opset=18,
        ),
    ],
)
def ctc_loss(
    op: OpBuilder, inputs: ir.Value, labels_indices: ir.Value, labels_values: ir.Value, sequence_length: ir.Value
) -> tuple[ir.Value, None]:
    """The forward variables step by step; the blank is the last class."""
    batch = op.dim(inputs, 1)
    longest = op.Add(op.reduce("ReduceMax", op.Slice(labels_indices, [1], [2], [1]), [0], keepdims=False), 1)
    empty = op.Expand(op.const(0), op.Concat(batch, longest, axis=0))
    labels = scatter_slices(op, empty, labels_indices, op.cast(labels_values, _INT64))
    own = op.Equal(op.Slice(labels_indices, [0], [1], [1]), op.Unsqueeze(op.Range(0, op.Squeeze(batch, [0]), 1), [0]))
    lengths = op.reduce("ReduceSum", op.cast(own, _INT64), [0], keepdims=False)
    classes = inputs.shape[2] if inputs.shape is not None and rank(inputs) == 3 else None
    if not isinstance(classes, int):
        raise UnsupportedOperator("CTCLoss: the number of classes is dynamic")
    logarithms = trigonometry.log_softmax(op, inputs, -1)
    losses = ctc.losses(op, logarithms, labels, int64(op, sequence_length), lengths, classes - 1)
    return op.cast_like(losses, inputs), None


# A beam falls out of the best two before its parent grows.
_OUTRUN = np.random.default_rng(59).normal(size=(7, 2, 3)).astype(np.float32)


def _beams(paths: int, merge: bool = False, width: int = 5) -> Callable[[tf.Tensor], list[tf.Tensor]]:
    def run(x: tf.Tensor) -> list[tf.Tensor]:
        result = tf.raw_ops.CTCBeamSearchDecoder(
            inputs=x, sequence_length=_LENGTHS, beam_width=width, top_paths=paths, merge_repeated=merge
        )
        return list(tf.nest.flatten(result))

    return run


@tensorflow.lower(
    "CTCBeamSearchDecoder",
    cases=[
        case(_beams(1), f32(7, 2, 4)),
        case(_beams(3), f32(7, 2, 4)),
        case(_beams(2, True), f32(7, 2, 3)),
        case(_beams(1, width=2), _OUTRUN),
        case(lambda x: _flat(tf.nn.ctc_beam_search_decoder(x, [9], beam_width=30)), f32(9, 1, 5)),
    ],
)
def ctc_beam_search_decoder(
    op: OpBuilder,
    inputs: ir.Value,
    sequence_length: ir.Value,
    *,
    beam_width: int,
    top_paths: int,
    merge_repeated: bool = True,
) -> Sequence[ir.Value]:
    """The best prefixes: indices of each path, then values, then shapes of sparse tensors; logarithms of their probabilities."""
    labels, total = beams(op, inputs, int64(op, sequence_length), beam_width, top_paths)
    indices, values, shapes = [], [], []
    for path in range(top_paths):
        label = op.Gather(labels, np.int64(path), axis=1)
        keep = op.GreaterOrEqual(label, 0)
        if merge_repeated:
            before = op.Slice(op.Pad(label, [0, 1, 0, 0], np.int64(-1)), [0], [-1], [1])
            keep = op.And(keep, op.Not(op.Equal(label, before)))
        pairs = op.Transpose(op.NonZero(keep), perm=[1, 0])
        counts = op.cast(keep, _INT64)
        place = op.GatherND(op.Sub(op.CumSum(counts, op.const(1)), 1), pairs)
        indices.append(op.Concat(op.Slice(pairs, [0], [1], [1]), op.Unsqueeze(place, [1]), axis=1))
        values.append(op.GatherND(label, pairs))
        longest = op.reduce("ReduceMax", op.reduce("ReduceSum", counts, [1], keepdims=False), [0], keepdims=True)
        shapes.append(op.Concat(op.dim(inputs, 1), longest, axis=0))
    return [*indices, *values, *shapes, op.cast_like(total, inputs)]


@tensorflow.lower("SobolSample", cases=[case(lambda x: x + tf.math.sobol_sample(3, 5, skip=2), f32(5, 3))])
def sobol_sample(
    op: OpBuilder, dim: ir.Value, num_results: ir.Value, skip: ir.Value, *, dtype: ir.DataType = ir.DataType.FLOAT
) -> ir.Value:
    """The points of a quasi-random sequence, which are known before the model runs."""
    given = [static_int(op, item, name) for item, name in ((dim, "dim"), (num_results, "num_results"), (skip, "skip"))]
    points = tf.raw_ops.SobolSample(dim=given[0], num_results=given[1], skip=given[2], dtype=tf.float64)
    return op.const(points.numpy(), dtype)
