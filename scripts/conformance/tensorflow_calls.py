"""Calls of operators whose operands belong together in ways that their definitions do not say."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

_RNG = np.random.default_rng(5)


def _floats(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return _RNG.uniform(low, high, shape).astype(np.float32)


def _whole(*shape: int, low: int = 0, high: int = 9, dtype: Any = np.int32) -> np.ndarray:
    return _RNG.integers(low, high, shape).astype(dtype)


_IMAGE, _VOLUME = _floats(2, 6, 7, 3, low=0.0, high=1.0), _floats(1, 4, 5, 6, 2)
_BOXES = np.array([[0.1, 0.1, 0.5, 0.6], [0.2, 0.3, 0.9, 0.8], [0.1, 0.15, 0.5, 0.65]], np.float32)
_MAP = np.array([[0.9, -0.2, 1.3, 0.2, 0.9, -0.7, 0.001, 0.002]], np.float32)
_STEPS, _CUBES = [1, 2, 2, 1], [1, 2, 2, 2, 1]
_WORDS = np.array(["a", "bc", "", "d\u00e9", "e"], object)
_SEED = np.array([1, 2], np.int32)
_LABELS = {
    "labels_indices": np.array([[0, 0], [0, 1], [1, 0]], np.int64),
    "labels_values": np.array([1, 2, 1], np.int32),
    "sequence_length": np.array([6, 5], np.int32),
}
_SPARSE = {
    "hypothesis_indices": np.array([[0, 0], [0, 1], [1, 0]], np.int64),
    "hypothesis_values": np.array([1, 2, 3], np.int64),
    "hypothesis_shape": np.array([2, 2], np.int64),
    "truth_indices": np.array([[0, 0], [1, 0], [1, 1]], np.int64),
    "truth_values": np.array([1, 3, 4], np.int64),
    "truth_shape": np.array([2, 2], np.int64),
}
_SEGMENTS = {"indices": np.array([0, 3, 1], np.int32), "segment_ids": np.array([0, 0, 1], np.int32)}

# By operator: the operands and attributes of each call. Arrays of floating-point and complex numbers vary, the rest is bound.
CALLS: dict[str, list[dict[str, Any]]] = {
    "AudioSpectrogram": [
        {"input": _floats(64, 2), "window_size": 16, "stride": 8},
        {"input": _floats(1000, 1), "window_size": 400, "stride": 160, "magnitude_squared": True},
        {"input": _floats(7, 3), "window_size": 2, "stride": 3},
        {"input": _floats(5, 1), "window_size": 9, "stride": 3},
    ],
    "AvgPoolGrad": [
        {"orig_input_shape": [2, 6, 8, 3], "grad": _floats(2, 3, 4, 3), "ksize": _STEPS, "strides": _STEPS, "padding": "SAME"}
    ],
    "AvgPool3DGrad": [
        {"orig_input_shape": [1, 4, 6, 6, 2], "grad": _floats(1, 2, 3, 3, 2), "ksize": _CUBES, "strides": _CUBES,
         "padding": "SAME"}
    ],
    "CTCBeamSearchDecoder": [
        {"inputs": _floats(6, 2, 5), "sequence_length": [6, 5], "beam_width": 8, "top_paths": 2, "merge_repeated": False}
    ],
    "CTCLossV2": [{"inputs": _floats(6, 2, 5), **_LABELS}],
    "ConcatOffset": [{"concat_dim": 1, "shape": [np.array([2, 3], np.int32), np.array([2, 5], np.int32)]}],
    "CropAndResizeGradImage": [
        {"grads": _floats(3, 2, 3, 3), "boxes": _BOXES, "box_ind": [0, 1, 1], "image_size": [2, 6, 7, 3], "T": tf.float32}
    ],
    "CropAndResizeGradBoxes": [{"grads": _floats(3, 2, 3, 3), "image": _IMAGE, "boxes": _BOXES, "box_ind": [0, 1, 1]}],
    "CombinedNonMaxSuppression": [
        {
            "boxes": _BOXES[None, :, None], "scores": _floats(1, 3, 2, low=0, high=1), "max_output_size_per_class": 2,
            "max_total_size": 3, "iou_threshold": 0.5, "score_threshold": 0.1,
        }
    ],
    "DrawBoundingBoxes": [{"images": _IMAGE, "boxes": np.stack([_BOXES, _BOXES])}],
    "DrawBoundingBoxesV2": [{"images": _IMAGE, "boxes": np.stack([_BOXES, _BOXES]), "colors": [[1.0, 0.5, 0.0]]}],
    "Dilation2DBackpropInput": [
        {"input": _IMAGE, "filter": _floats(2, 2, 3), "out_backprop": _floats(2, 5, 6, 3), "strides": [1, 1, 1, 1],
         "rates": [1, 1, 1, 1], "padding": "VALID"}
    ],
    "Dilation2DBackpropFilter": [
        {"input": _IMAGE, "filter": _floats(2, 2, 3), "out_backprop": _floats(2, 5, 6, 3), "strides": [1, 1, 1, 1],
         "rates": [1, 1, 1, 1], "padding": "VALID"}
    ],
    "EditDistance": [{**_SPARSE, "normalize": flag} for flag in (True, False)],
    "ExtractGlimpse": [{"input": _IMAGE, "size": [3, 4], "offsets": _floats(2, 2, low=-0.4, high=0.4)}],
    "ExtractGlimpseV2": [{"input": _IMAGE, "size": [3, 4], "offsets": _floats(2, 2, low=-0.4, high=0.4)}],
    "FractionalAvgPool": [{"value": _IMAGE, "pooling_ratio": [1.0, 1.5, 1.4, 1.0]}],
    "FractionalMaxPool": [{"value": _IMAGE, "pooling_ratio": [1.0, 1.5, 1.4, 1.0]}],
    "ImageProjectiveTransformV2": [
        {"images": _IMAGE, "transforms": _MAP, "output_shape": [5, 6], "interpolation": kind} for kind in ("NEAREST", "BILINEAR")
    ],
    "ImageProjectiveTransformV3": [
        {"images": _IMAGE, "transforms": _MAP, "output_shape": [5, 6], "interpolation": "BILINEAR", "fill_mode": mode,
         "fill_value": 0.5}
        for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST")
    ],
    "Mfcc": [{"spectrogram": _floats(1, 5, 9, low=0.0), "sample_rate": 16000}],
    "NonMaxSuppressionWithOverlaps": [
        {"overlaps": _floats(5, 5, low=0.0, high=1.0), "scores": _floats(5), "max_output_size": 3, "overlap_threshold": 0.5,
         "score_threshold": -1.0}
    ],
    "ParameterizedTruncatedNormal": [
        {"shape": [2, 5], "means": [0.0, 1.0], "stdevs": [1.0, 2.0], "minvals": [-1.0, 0.0], "maxvals": [1.0, 3.0]}
    ],
    "QuantizeV2": [
        {"input": _floats(3, 4), "min_range": low, "max_range": high, "T": kind, "mode": mode}
        for kind in (tf.quint8, tf.qint8, tf.quint16, tf.qint16)
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")
        for low, high in ((-2.0, 2.0), (0.0, 1.3), (0.4, 1.7))
    ],
    "StringNGrams": [
        {"data": _WORDS, "data_splits": splits, "separator": " ", "ngram_widths": widths, "left_pad": "<s>", "right_pad": "",
         "pad_width": pad, "preserve_short_sequences": kept}
        for splits in (np.array([0, 5]), np.array([0, 0, 1, 3, 5, 5]))
        for widths, pad, kept in (
            ([1], 0, False), ([2, 3], -1, False), ([3], 1, False), ([3, 5], 2, True), ([6], 0, True), ([9, 4], 1, True)
        )
    ],
    "ScatterNdNonAliasingAdd": [
        {"input": _floats(4, 3), "indices": [[1, 2], [1, 2], [0, 0]], "updates": _floats(3)},
        {"input": _floats(4, 3), "indices": np.array([[[3]], [[3]]], np.int64), "updates": _floats(2, 1, 3)},
    ],
    "UnsortedSegmentJoin": [
        {"inputs": _WORDS, "segment_ids": ids, "num_segments": 4, "separator": "-"} for ids in ([0, 0, 3, 3, 1], [2, 0, 2, 0, 2])
    ],
    "StringFormat": [{"inputs": [np.int32(4), _floats(2)], "template": "a {} b {}"}],
    "SparseBincount": [
        {"indices": np.array([[0, 0], [0, 2], [1, 1]]), "values": np.array([1, 1, 3]), "dense_shape": np.array([2, 3]),
         "size": np.int64(4), "weights": weights, "binary_output": binary}
        for weights in (np.zeros(0, np.float32), _floats(3)) for binary in (False, True)
    ],
    "RaggedCountSparseOutput": [
        {"splits": np.array([0, 2, 2, 5]), "values": np.array([1, 1, 0, 3, 0]), "weights": np.zeros(0, np.float32),
         "binary_output": False}
    ],
    "SparseSegmentMeanGradV2": [{"grad": _floats(2, 3), **_SEGMENTS, "dense_output_dim0": 5}],
    "Eig": [{"input": _floats(3, 3) + np.eye(3, dtype=np.float32) * 5, "Tout": tf.complex64, "compute_v": False}],
    "StringSplit": [{"input": np.array(["a b", "c", ""], object), "delimiter": " ", "skip_empty": flag}
        for flag in (True, False)],
    "MaxPoolGradGradV2": [
        {"orig_input": _IMAGE,
         "orig_output": tf.raw_ops.MaxPool(input=_IMAGE, ksize=_STEPS, strides=_STEPS, padding="VALID").numpy(),
         "grad": _floats(2, 6, 7, 3), "ksize": _STEPS, "strides": _STEPS, "padding": "VALID"}
    ],
    "BlockLSTMV2": [
        {"seq_len_max": np.int64(4), "x": _floats(5, 2, 3), "cs_prev": _floats(2, 4), "h_prev": _floats(2, 4),
         "w": _floats(7, 16),
         "wci": _floats(4), "wcf": _floats(4), "wco": _floats(4), "b": _floats(16), **given}
        for given in ({}, {"use_peephole": True, "cell_clip": 0.7})
    ],
    "BlockLSTM": [
        {"seq_len_max": np.int64(4), "x": _floats(5, 2, 3), "cs_prev": _floats(2, 4), "h_prev": _floats(2, 4),
         "w": _floats(7, 16),
         "wci": _floats(4), "wcf": _floats(4), "wco": _floats(4), "b": _floats(16), **given}
        for given in ({}, {"use_peephole": True, "forget_bias": 0.5, "cell_clip": -1.0})
    ],
    "MaxPool3DGradGrad": [
        {"orig_input": _VOLUME, "orig_output": tf.raw_ops.MaxPool3D(input=_VOLUME, ksize=_CUBES, strides=_CUBES,
         padding="VALID").numpy(), "grad": _floats(*_VOLUME.shape), "ksize": _CUBES, "strides": _CUBES, "padding": "VALID"}
    ],
    "FractionalAvgPoolGrad": [
        {"orig_input_tensor_shape": np.array([1, 4, 5, 2]), "out_backprop": _floats(1, 2, 3, 2), "row_pooling_sequence":
         np.array([0, 2, 4]), "col_pooling_sequence": np.array([0, 1, 3, 5]), "overlapping": flag} for flag in (False, True)
    ],
    "DecodeBase64": [{"input": np.array(["aGVsbG8", "w6k=", ""], object)}],

    "SegmentMaxV2": [{"data": _floats(4, 3), "segment_ids": [0, 0, 2, 2], "num_segments": 4}],
    "SegmentMinV2": [{"data": _floats(4, 3), "segment_ids": [0, 0, 2, 2], "num_segments": 4}],
    "SegmentProdV2": [{"data": _floats(4, 3), "segment_ids": [0, 0, 2, 2], "num_segments": 4}],
    "SegmentSumV2": [{"data": _floats(4, 3), "segment_ids": [0, 0, 2, 2], "num_segments": 4}],
    "ScaleAndTranslateGrad": [
        {"grads": _floats(1, 3, 4, 2), "original_image": _floats(1, 6, 7, 2), "scale": [0.5, 0.6], "translation": [0.0, 0.1]}
    ],
    "SobolSample": [{"dim": 3, "num_results": 5, "skip": 2}],
    "SparseSegmentMeanGrad": [{"grad": _floats(2, 3), **_SEGMENTS, "output_dim0": 5}],
    "SparseSegmentSqrtNGrad": [{"grad": _floats(2, 3), **_SEGMENTS, "output_dim0": 5}],
    "SparseSegmentSumGrad": [{"grad": _floats(2, 3), **_SEGMENTS, "output_dim0": 5}],
    "StatelessSampleDistortedBoundingBox": [
        {"image_size": [20, 30, 3], "bounding_boxes": _BOXES[None], "min_object_covered": 0.1, "seed": _SEED}
    ],
    "SampleDistortedBoundingBoxV2": [{"image_size": [20, 30, 3], "bounding_boxes": _BOXES[None], "min_object_covered": 0.1}],
    "TensorStridedSliceUpdate": [
        {"input": _floats(4, 5), "begin": [1, 0], "end": [3, 5], "strides": [1, 2], "value": _floats(2, 3)}
    ],
    "UniformCandidateSampler": [
        {"true_classes": np.array([[1], [2]], np.int64), "num_true": 1, "num_sampled": 3, "unique": True, "range_max": 9}
    ],
    "LogUniformCandidateSampler": [
        {"true_classes": np.array([[1], [2]], np.int64), "num_true": 1, "num_sampled": 3, "unique": True, "range_max": 9}
    ],
    "AllCandidateSampler": [{"true_classes": np.array([[1], [2]], np.int64), "num_true": 1, "num_sampled": 5, "unique": True}],
    "ComputeAccidentalHits": [
        {"true_classes": np.array([[1], [2]], np.int64), "sampled_candidates": np.array([2, 5, 1], np.int64), "num_true": 1}
    ],
    "FFTND": [{"input": _floats(2, 3, 4) + 1j * _floats(2, 3, 4), "fft_length": [3, 4], "axes": [1, 2]}],
    "RFFTND": [{"input": _floats(2, 3, 4), "fft_length": [3, 4], "axes": [1, 2]}],
}  # fmt: skip
