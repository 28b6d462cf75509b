"""Rows of `test_runtimes.py`: what onnxruntime lacks and the table of defects writes otherwise, and what has no row."""

import ml_dtypes
import numpy as np
import onnx_ir as ir

RNG = np.random.default_rng(0)
OPSETS = (13, 17, 21, 23, 26)
D, F, B16 = np.float64, np.float32, ml_dtypes.bfloat16
IMAGE = RNG.normal(size=(2, 4, 7, 6))
KERNEL = RNG.normal(size=(2, 4, 3, 3))
SHIFTED = [np.asarray([65535, 40001, 1, 32768], np.uint16), np.asarray([1, 15, 9, 0], np.uint16)]
BOXES = np.stack([np.asarray([0, i, 1, i + 0.5], F) for i in range(8)])[None]
HALF = np.asarray([0.5], F)
REALS = np.asarray([-745.0, -40.0, -1.5, -1e-9, 0.0, 1e-9, 0.3, 2.0, 40.0, 745.0])


STEPS = RNG.uniform(0.01, 0.1, 64).astype(F)


def weight(op, kind, zero, *, axis, block=0, turned=False):
    """A matrix of 64 rows and 32 columns in few bits, as numbers: its scale for all, for an axis, or for blocks of an axis."""
    low, high = {"INT8": (-128, 128), "UINT8": (0, 256), "INT4": (-8, 8), "INT2": (-2, 2)}[kind.name]
    sizes = (32, 64) if turned else (64, 32)
    numbers = np.random.default_rng(1).integers(low, high, sizes)
    shape = () if axis is None else (sizes[axis],)
    if block:
        shape = tuple(size // block if place == axis else size for place, size in enumerate(sizes))
    scale = np.resize(STEPS, shape).astype(F)
    parts = [("w", numbers.astype(kind.numpy()), kind), ("s", scale, ir.DataType.FLOAT)]
    parts += [("z", np.resize(numbers, shape).astype(kind.numpy()), kind)] if zero else []
    values = [op.initializer(name, ir.tensor(array, dtype=dtype)) for name, array, dtype in parts]
    real = op.DequantizeLinear(*values, axis=axis, block_size=block or None)
    return op.Transpose(real, perm=[1, 0]) if turned else real


def whole(dtype, *shape):
    info = np.iinfo(dtype)
    array = RNG.integers(max(info.min, -9), 9, shape).astype(dtype)
    array.flat[0], array.flat[-1] = info.max, info.min
    return array


# What onnxruntime has no kernel for and no row stands for: it is computed otherwise, refused by name, or no framework has it.
# A new row takes its operator out of here.
LACKING = {
    "DOUBLE": "Acos Acosh Asin Asinh Atan Atanh Col2Im Cosh Erf GlobalLpPool GridSample MaxRoiPool MaxUnpool "
    "MelWeightMatrix Multinomial RoiAlign Sinh",
    "FLOAT16": "GlobalLpPool MaxRoiPool Multinomial RoiAlign",
    "FLOAT": "GlobalLpPool MaxRoiPool Multinomial RoiAlign",
    "BFLOAT16": "DequantizeLinear QLinearMatMul QuantizeLinear SplitToSequence",
    "UINT8": "Col2Im GridSample ImageDecoder SplitToSequence",
    "UINT16": "Col2Im GridSample SplitToSequence",
    "UINT32": "Col2Im GridSample SplitToSequence",
    "UINT64": "Col2Im GridSample Pow ReduceMean SplitToSequence",
    "INT8": "Col2Im GridSample SplitToSequence",
    "INT16": "Col2Im GridSample SplitToSequence",
    "INT32": "Col2Im GridSample Multinomial QuantizeLinear",
    "INT64": "Col2Im GridSample Multinomial RoiAlign",
    "BOOL": "BitCast Col2Im GridSample",
    "STRING": "Col2Im GridSample NonZero Pad TensorScatter Trilu",
}

SEQUENCE = RNG.normal(size=(5, 2, 4))


def root_mean_square(op, x):
    mean = op.reduce("ReduceMean", op.Pow(x, 2.0), [-1], keepdims=True)
    return op.Mul(op.Div(x, op.Sqrt(op.Add(mean, 1e-3))), np.arange(1.0, 1 + x.shape[-1]))


def gates(count):
    """Weights and recurrent weights of a layer of so many gates."""
    return [RNG.normal(size=(1, count * 3, size)) for size in (4, 3)]


# What is written, its inputs, the opsets, and how many ulps of the largest result it may be off.
ROWS = [
    *[
        (operator, lambda op, x, operator=operator: op.node(operator, x), [REALS.astype(D)], OPSETS, 4)
        for operator in ("Softplus", "Softsign", "Elu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid")
    ],
    ("Elu-alpha", lambda op, x: op.Elu(x, alpha=0.5), [REALS], OPSETS, 2),
    ("HardSigmoid-double", lambda op, x: op.HardSigmoid(x, alpha=0.25, beta=0.75), [REALS], OPSETS, 2),
    (
        "Gemm of nothing",
        lambda op, a, b, c: op.Gemm(a, b, c, alpha=0.5, beta=2.0),
        [np.zeros((3, 0), F), np.zeros((0, 4), F), np.arange(4, dtype=F)],
        OPSETS,
        0,
    ),
    *[
        (f"BitShift-{way}", lambda op, x, n, way=way: op.BitShift(x, n, direction=way), SHIFTED, OPSETS, 0)
        for way in ("LEFT", "RIGHT")
    ],
    ("Sigmoid-double", lambda op, x: op.Log(op.Sigmoid(x)), [np.linspace(-700.0, 9.0, 75)], OPSETS, 2),
    (
        "Sigmoid-scores",
        lambda op, x: op.NonMaxSuppression(BOXES, op.Reshape(op.Sigmoid(x), [1, 1, -1]), [9], HALF, HALF * 0),
        [np.asarray([17.1, 18.3, -17.5, 19.4, -24.6, -16.2, 16.7, -30.2], F)],
        OPSETS,
        0,
    ),
    ("Hardmax", lambda op, x: op.Hardmax(x, axis=1), [np.round(IMAGE)], OPSETS, 0),
    ("Tan", lambda op, x: op.Tan(x), [np.linspace(-1.5, 1.5, 9)], OPSETS, 16),
    ("Cos", lambda op, x: op.Cos(x), [np.linspace(-9, 9, 9)], OPSETS, 4),
    ("Mish", lambda op, x: op.Mish(x), [REALS], (18, 26), 2),
    ("PRelu", lambda op, x: op.PRelu(x, np.asarray([0.5])), [REALS], OPSETS, 1),
    ("Mean", lambda op, x, y: op.Mean(x, y), [REALS, REALS[::-1].copy()], OPSETS, 1),
    ("Det", lambda op, x: op.Det(x), [RNG.normal(size=(3, 5, 5))], OPSETS, 16),
    ("Det-singular", lambda op, x: op.Det(x), [np.ones((4, 4))], OPSETS, 0),
    ("Det-pivots", lambda op, x: op.Det(x), [np.eye(6)[[3, 0, 5, 1, 4, 2]]], OPSETS, 0),
    *[
        (operator, lambda op, x, operator=operator: op.node(operator, x), [IMAGE], OPSETS, 8)
        for operator in ("GlobalAveragePool", "GlobalMaxPool")
    ],
    (
        "InstanceNormalization",
        lambda op, x: op.InstanceNormalization(x, np.arange(4.0), np.ones(4), epsilon=0.25),
        [IMAGE],
        OPSETS,
        16,
    ),
    *[
        (
            f"{operator}-{i}",
            lambda op, x, operator=operator, weights=weights, more=more: op.node(
                operator, x, *weights, None, hidden_size=3, **more
            ),
            [SEQUENCE],
            OPSETS,
            8,
        )
        for i, (operator, weights, more) in enumerate(
            [
                ("RNN", gates(1), {}),
                ("LSTM", gates(4), {}),
                ("GRU", gates(3), {}),
                ("GRU", gates(3), {"linear_before_reset": 1}),
            ]
        )
    ],
    *[
        (
            f"LRN-{size}",
            lambda op, x, size=size: op.LRN(x, size=size, alpha=0.5, beta=0.625, bias=2.0),
            [IMAGE],
            OPSETS,
            8,
        )
        for size in (2, 3)
    ],
    (
        "RMSNormalization",
        lambda op, x: op.RMSNormalization(x, np.arange(1.0, 1 + x.shape[-1]), epsilon=0.25),
        [IMAGE],
        (23, 26),
        16,
    ),
    ("root mean square", root_mean_square, [IMAGE], OPSETS, 16),
    *[
        (f"Conv-{i}", lambda op, x, w=w, a=a: op.Conv(x, op.const(w), **a), [IMAGE], OPSETS, 64)
        for i, (w, a) in enumerate(
            [
                (RNG.normal(size=(5, 4, 3, 2)), {}),
                (RNG.normal(size=(6, 2, 3, 2)), {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1]}),
                (RNG.normal(size=(8, 1, 2, 2)), {"group": 4, "dilations": [2, 3]}),
                (RNG.normal(size=(3, 4, 3, 3)), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
            ]
        )
    ],
    ("Conv-bias", lambda op, x: op.Conv(x, KERNEL[..., :1, :1].copy(), np.ones(2)), [IMAGE], OPSETS, 64),
    *[
        (f"ConvTranspose-{i}", lambda op, x, w=w, a=a: op.ConvTranspose(x, op.const(w), **a), [IMAGE], OPSETS, 64)
        for i, (w, a) in enumerate(
            [
                (RNG.normal(size=(4, 5, 3, 2)), {}),
                (RNG.normal(size=(4, 3, 3, 3)), {"pads": [1, 0, 2, 1], "strides": [2, 3]}),
                (RNG.normal(size=(4, 2, 2, 2)), {"dilations": [2, 1], "strides": [3, 2], "output_padding": [1, 1]}),
            ]
        )
    ],
    *[
        (f"AveragePool-{i}", lambda op, x, a=a: op.AveragePool(x, **a), [IMAGE], opsets, 64)
        for i, (a, opsets) in enumerate(
            [
                ({"kernel_shape": [2, 3]}, OPSETS),
                ({"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}, OPSETS),
                ({"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, OPSETS),
                ({"kernel_shape": [2, 2], "strides": [2, 4], "ceil_mode": 1}, OPSETS),
                ({"kernel_shape": [2, 2], "dilations": [2, 1]}, (21, 26)),
            ]
        )
    ],
    *[
        (f"AveragePool-float-{i}", lambda op, x, a=a: op.AveragePool(x, **a), [IMAGE.astype(F)], (19, 26), 4)
        for i, a in enumerate(
            [
                {"kernel_shape": [2, 3]},
                {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
                {"kernel_shape": [2, 3], "auto_pad": "SAME_UPPER", "strides": [1, 2]},
                {"kernel_shape": [3, 3], "pads": [1, 0, 2, 1], "count_include_pad": 1},
                {"kernel_shape": [1, 1], "strides": [2, 3]},
            ]
        )
    ],
    *[
        (
            f"MaxPool-of-zeros-around-{i}",
            lambda op, x, a=a: op.MaxPool(op.Pad(x, [0, 0, 1, 1, 0, 0, 1, 1]), **a),
            [-np.abs(IMAGE.astype(F)) - 1],
            OPSETS,
            0,
        )
        for i, a in enumerate(
            [
                {"kernel_shape": [3, 3], "strides": [2, 2]},
                {"kernel_shape": [1, 1], "strides": [2, 2]},
                {"kernel_shape": [2, 2], "dilations": [2, 2]},
                {"kernel_shape": [3, 3], "ceil_mode": 1, "strides": [2, 2]},
            ]
        )
    ],
    ("Swish", lambda op, x: op.Swish(x), [REALS.astype(F)], (24, 26), 2),
    ("Swish-alpha", lambda op, x: op.Swish(x, alpha=1.7), [REALS.astype(F)], (24, 26), 2),
    ("Where-bool", lambda op, c, x, y: op.Where(c, x, y), list(RNG.random((3, 2, 5)) < 0.5), OPSETS, 0),
    *[
        (
            f"Where-{kind.__name__}",
            lambda op, c, x: op.Where(c, x, op.const(x.dtype.numpy().type(0))),
            [x > 3, x],
            OPSETS,
            0,
        )
        for kind in (np.int8, np.int16, np.uint16, np.uint32, np.uint64)
        for x in [whole(kind, 7)]
    ],
    *[
        (f"Max-{kind.__name__}", lambda op, x, y: op.Max(x, y), [whole(kind, 9), whole(kind, 9)], OPSETS, 0)
        for kind in (np.int16, np.uint16)
    ],
    *[
        (f"Relu-{kind.__name__}", lambda op, x: op.Relu(x), [whole(kind, 9)], (14, 21, 26), 0)
        for kind in (np.int16, np.int32, np.int64)
    ],
    *[
        (f"Unique-{kind.__name__}", lambda op, x: op.Unique(x, outputs=4), [whole(kind, 9) // 4], OPSETS, 0)
        for kind in (np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.uint64)
    ],
    ("Unique-bool", lambda op, x: op.Unique(x, outputs=4), [RNG.random(6) < 0.5], OPSETS, 0),
    *[
        (f"ArgMax-{kind.__name__}", lambda op, x: op.ArgMax(x, axis=0), [whole(kind, 9)], OPSETS, 0)
        for kind in (np.int16, np.uint16, np.uint32, np.uint64)
    ],
    ("NonZero-scalar", lambda op, x: op.NonZero(x), [np.float32(2.5)], OPSETS, 0),
    ("NonZero-double", lambda op, x: op.NonZero(x), [np.asarray([[0.0, -0.0, 1e-320], [np.nan, 2.0, 0.0]])], OPSETS, 0),
    (
        "OneHot-double",
        lambda op, x: op.OneHot(x, 4, [0.5, 2.5], axis=0),
        [np.asarray([0, -1, 3, 9], np.int32)],
        OPSETS,
        0,
    ),
    *[
        (
            f"MatMul-transposed-{name}",
            lambda op, x, y, t=turn: op.MatMul(t(op, x), y),
            [KERNEL[:, :3], KERNEL[:, :3]],
            OPSETS,
            8,
        )
        for name, turn in {
            "directly": lambda op, x: op.Transpose(x, perm=[0, 1, 3, 2]),
            "and cast": lambda op, x: op.Cast(
                op.Transpose(op.Cast(x, to=ir.DataType.FLOAT), perm=[0, 1, 3, 2]), to=ir.DataType.DOUBLE
            ),
        }.items()
    ],
    *[
        (
            f"{operator}-by-{divisor}-{kind.__name__}",
            lambda op, x, y, o=operator, d=divisor: op.node(o, x, y if d == "given" else op.const(d, x.dtype)),
            [whole(kind, 9), np.asarray([3, -1, 1, -2, 7, -1, 2, -7, -1], kind)],
            OPSETS,
            0,
        )
        for operator in ("Div", "Mod")
        for divisor in ("given", -1)
        for kind in (np.int32, np.int64)
    ],
    ("Gemm-int64", lambda op, x: op.Gemm(x, x, x, transB=1, alpha=3.0), [whole(np.int64, 3, 3) // 2**50], OPSETS, 0),
    ("Trilu-int16", lambda op, x: op.Trilu(x, upper=0), [whole(np.int16, 4, 3)], (14, 26), 0),
    ("DepthToSpace", lambda op, x: op.DepthToSpace(x, blocksize=2), [whole(np.int64, 1, 8, 2, 3)], OPSETS, 0),
    (
        "DepthToSpace-crd",
        lambda op, x: op.DepthToSpace(x, blocksize=2, mode="CRD"),
        [whole(np.int32, 1, 8, 2, 3)],
        OPSETS,
        0,
    ),
    ("Bernoulli", lambda op, x: op.Bernoulli(x), [np.asarray([[0, 1, 1, 0]], F)], (15, 21, 26), 0),
    ("MatMul-of-nothing", lambda op, x: op.MatMul(x, op.Transpose(x, perm=[1, 0])), [np.zeros((3, 0), F)], OPSETS, 0),
    # Each of these ends the process where its row of the table is missing.
    *[
        (f"MatMul-of-no-rows-{name}-{kind.__name__}", build, [np.zeros((0, 4, 6), kind)], OPSETS, 0)
        for kind in (F, D)
        for name, build in {
            "on the left": lambda op, x: op.MatMul(
                op.Transpose(x, perm=[1, 0, 2]), op.const(np.ones((4, 6, 8)), x.dtype)
            ),
            "turned": lambda op, x: op.MatMul(op.const(np.ones((4, 5, 6)), x.dtype), op.Transpose(x, perm=[1, 2, 0])),
            "scaled": lambda op, x: op.MatMul(
                op.Mul(op.Transpose(x, perm=[1, 0, 2]), 0.5), op.const(np.ones((4, 6, 8)), x.dtype)
            ),
        }.items()
    ],
    (
        "MaxUnpool",
        lambda op, x, places, shape: op.MaxUnpool(x, places, shape, kernel_shape=[2, 2], strides=[2, 2]),
        [np.asarray([[[[1, 2], [3, 4]]]], F), np.asarray([[[[5, 7], [13, 15]]]]), np.asarray([1, 1, 5, 6])],
        OPSETS,
        0,
    ),
    *[
        (
            f"Pad-wrap-{len(x)}",
            lambda op, x: op.Pad(x, op.const([0, 1, 0, 0, 0, 2]), mode="wrap"),
            [x],
            (19, 23, 26),
            0,
        )
        for x in (IMAGE[:, :, 0], IMAGE[:0, :, 0])
    ],
    ("SpaceToDepth", lambda op, x: op.SpaceToDepth(x, blocksize=2), [whole(np.int64, 1, 2, 4, 6)], OPSETS, 0),
    *[
        (
            f"Resize-nearest-{x.dtype}",
            lambda op, x: op.Resize(x, None, op.const([1.0, 1.0, 2.0, 0.5], ir.DataType.FLOAT), mode="nearest"),
            [x],
            OPSETS,
            0,
        )
        for x in (IMAGE, whole(np.int64, 1, 2, 4, 6) // 2**20, whole(np.uint16, 1, 2, 4, 6))
    ],
    (
        "Resize-cubic-channels-last",
        lambda op, x: op.Transpose(
            op.Resize(
                op.Transpose(x, perm=[0, 3, 1, 2]),
                None,
                op.const([1.0, 1.0, 2.0, 0.5], ir.DataType.FLOAT),
                mode="cubic",
            ),
            perm=[0, 2, 3, 1],
        ),
        [IMAGE.astype(F).transpose(0, 2, 3, 1)],
        OPSETS,
        64,
    ),
    *[
        (
            f"EyeLike-{kind.name}",
            lambda op, x, kind=kind: op.EyeLike(x, dtype=int(kind)),
            [np.zeros((3, 4), np.int32)],
            OPSETS,
            0,
        )
        for kind in (ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.UINT32, ir.DataType.FLOAT16)
    ],
    *[
        (
            f"{operator}-bfloat16",
            lambda op, x, y, o=operator: op.node(o, x, y),
            [*RNG.uniform(0.5, 2, (2, 3, 3)).astype(B16)],
            (15, 21, 26),
            0,
        )
        for operator in ("Add", "Mul", "MatMul", "Less", "Pow")
    ],
    (
        "MelWeightMatrix-bfloat16",
        lambda op, low, high: op.MelWeightMatrix(8, 64, 8192, low, high, output_datatype=int(ir.DataType.BFLOAT16)),
        [np.asarray(20.0, F), np.asarray(4000.0, F)],
        (17, 21, 23, 26),
        0,
    ),
    ("Conv-bfloat16", lambda op, x: op.Conv(x, KERNEL.astype(B16)), [IMAGE.astype(B16)], (22, 26), 2),
    *[
        (
            f"MatMul-{kind.name}-{zero}-{options}",
            lambda op, x, w=(kind, zero), o=options: op.MatMul(x, weight(op, *w, **o)),
            [REALS[:9].repeat(64).reshape(9, 64).astype(F) * STEPS / 745],
            opsets,
            64,
        )
        for kind, zero, options, opsets in [
            (ir.DataType.INT8, True, {"axis": None}, (19, 21)),
            (ir.DataType.INT8, False, {"axis": 1}, (19, 21)),
            (ir.DataType.INT8, False, {"axis": 1, "turned": True}, (19, 21)),
            (ir.DataType.UINT8, True, {"axis": 0, "turned": True}, (19, 23)),
            (ir.DataType.UINT8, True, {"axis": 0, "block": 16}, (21,)),
            (ir.DataType.INT4, True, {"axis": 1}, (21, 26)),
            (ir.DataType.INT4, True, {"axis": 0, "block": 32}, (21,)),
            (ir.DataType.INT2, False, {"axis": None, "turned": True}, (25,)),
        ]
    ],
    *[
        (
            f"DequantizeLinear-{mover}-{zero}-{x.dtype}",
            lambda op, x, m=move, z=zero: m(op, op.DequantizeLinear(x, *z, axis=1)),
            [x],
            opsets,
            0,
        )
        for x in (whole(np.int8, 2, 3, 4, 4), whole(np.int32, 2, 3, 4, 4) % 99)
        for zero, opsets in [
            ((F(0.1),), (19, 21, 26)),
            ((STEPS[:3],), (19, 21)),
            *([((F(0.1), np.int8(3)), (21, 23, 26))] if x.dtype == np.int8 else []),
        ]
        for mover, move in [
            ("Transpose", lambda op, x: op.Transpose(x, perm=[0, 2, 3, 1])),
            ("Reshape", lambda op, x: op.Reshape(x, [0, -1])),
            ("MaxPool", lambda op, x: op.MaxPool(x, kernel_shape=[2, 2])),
            ("Slice", lambda op, x: op.Slice(x, [1], [3], [1])),
        ]
    ],
]
