"""Made for a runtime: each row of the table of defects is written, loads, and gives the direct graph's numbers."""

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxport.converters.to_onnx.finish import finish
from onnxport.errors import FallbackWarning, InvalidInputError
from onnxport.graph.builder import OpBuilder
from onnxport.graph.runtime import Session
from onnxport.graph.runtimes import RUNTIMES
from onnxport.graph.runtimes.fitting import DEFECTS
from onnxport.model import OnnxModel
from onnxport.request import Request

RNG = np.random.default_rng(0)
OPSETS = (13, 17, 21, 23, 26)
D, F, B16 = np.float64, np.float32, ml_dtypes.bfloat16
IMAGE = RNG.normal(size=(2, 4, 7, 6))
KERNEL = RNG.normal(size=(2, 4, 3, 3))
SHIFTED = [np.asarray([65535, 40001, 1, 32768], np.uint16), np.asarray([1, 15, 9, 0], np.uint16)]
REALS = np.asarray([-745.0, -40.0, -1.5, -1e-9, 0.0, 1e-9, 0.3, 2.0, 40.0, 745.0])


def whole(dtype, *shape):
    info = np.iinfo(dtype)
    array = RNG.integers(max(info.min, -9), 9, shape).astype(dtype)
    array.flat[0], array.flat[-1] = info.max, info.min
    return array


# What onnxruntime has no kernel for and no row stands for: it is computed otherwise, refused by name, or no framework has it.
# A new row takes its operator out of here.
LACKING = {
    "DOUBLE": "Acos Acosh Asin Asinh Atan Atanh Col2Im Cosh Erf GlobalLpPool GridSample LRN MaxRoiPool MaxUnpool "
    "MelWeightMatrix Multinomial RNN RoiAlign Sinh",
    "FLOAT16": "GlobalLpPool MaxRoiPool Multinomial RoiAlign",
    "FLOAT": "GlobalLpPool MaxRoiPool Multinomial RoiAlign",
    "BFLOAT16": "DequantizeLinear MelWeightMatrix QLinearMatMul QuantizeLinear SplitToSequence",
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
        (
            f"{operator}-{kind.__name__}",
            lambda op, x, y, o=operator: op.node(o, x, y),
            [whole(kind, 9), whole(kind, 9)],
            opsets,
            0,
        )
        for operator, opsets in (
            ("Add", (14, 26)),
            ("Mul", (14, 26)),
            ("Max", OPSETS),
            ("Less", OPSETS),
            ("Equal", OPSETS),
        )
        for kind in (np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.uint64)
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
    (
        "MaxUnpool",
        lambda op, x, places, shape: op.MaxUnpool(x, places, shape, kernel_shape=[2, 2], strides=[2, 2]),
        [np.asarray([[[[1, 2], [3, 4]]]], F), np.asarray([[[[5, 7], [13, 15]]]]), np.asarray([1, 1, 5, 6])],
        OPSETS,
        0,
    ),
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
    ("Conv-bfloat16", lambda op, x: op.Conv(x, KERNEL.astype(B16)), [IMAGE.astype(B16)], (22, 26), 2),
]


def written(build, inputs, opset, runtime, notes=None):
    op = OpBuilder(opset)
    shapes = [["n", *item.shape[1:]] if item.ndim else [] for item in inputs]
    values = [op.input(f"x{i}", ir.DataType.from_numpy(x.dtype), shapes[i]) for i, x in enumerate(inputs)]
    results = build(op, *values)
    results = results if isinstance(results, tuple) else (results,)
    names = [op.names.unique(f"y{i}") for i in range(len(results))]
    return finish(op, results, names, runtime=runtime, notes=notes)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    ("build", "inputs", "opset", "ulps"),
    [pytest.param(b, x, o, ulps, id=f"{name}-{o}") for name, b, x, opsets, ulps in ROWS for o in opsets],
)
def test_what_onnxruntime_lacks_is_written_otherwise(build, inputs, opset, ulps, tmp_path):
    import onnxruntime

    notes = []
    fitted = OnnxModel(written(build, inputs, opset, "onnxruntime", notes))
    onnx.checker.check_model(fitted.proto, full_check=True)
    fitted.save(tmp_path / "model.onnx")
    onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    direct = Session(written(build, inputs, opset, "reference"), runtime="reference")
    feeds = {f"x{i}": item for i, item in enumerate(inputs)}
    session = Session(fitted.model)
    assert (session.backend, session.fallback_reason) == ("onnxruntime", "")
    for got, want in zip(session.run(feeds), direct.run(feeds), strict=True):
        got, want = np.asarray(got), np.asarray(want)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if got.dtype.kind in "iub":
            assert got.tolist() == want.tolist()
            continue
        eps = float(ml_dtypes.finfo(got.dtype).eps)
        got, want = got.astype(D), want.astype(D)
        np.testing.assert_allclose(got, want, rtol=0, atol=ulps * eps * np.abs(want).max(initial=0))
    if fitted.model.graph.num_nodes() != len(list(written(build, inputs, opset, "reference").graph)):
        assert notes
        assert all(note.startswith("for onnxruntime: ") for note in notes)


def test_every_row_is_rewritten_at_some_opset():
    """Not only loaded by an onnxruntime that happens to have the kernel, as it has for these three."""
    direct = [
        name for name, build, inputs, opsets, _ in ROWS if not any(notes_of(build, inputs, opset) for opset in opsets)
    ]
    assert direct == ["Max-uint32", "Max-uint64", "Relu-int32"]


def notes_of(build, inputs, opset):
    notes = []
    written(build, inputs, opset, "onnxruntime", notes)
    return notes


@pytest.mark.parametrize("opset", [13, 21, 24])
def test_a_double_product_is_not_merged_with_a_transposition(opset):
    """onnxruntime from 1.20 to 1.24 loads no such graph; 1.25 and later, one of which runs this suite, do."""
    model = written(lambda op, x: op.MatMul(op.Transpose(x, perm=[0, 1, 3, 2]), KERNEL), [KERNEL], opset, "onnxruntime")
    assert [node.op_type for node in model.graph] == ["Transpose", "Sum", "MatMul"]


def test_reference_is_the_direct_graph_and_an_unknown_runtime_is_refused():
    build, inputs = (lambda op, x: op.Softplus(x)), [REALS]
    direct = OnnxModel(written(build, inputs, 21, "reference"), runtime="reference")
    assert [node.op_type for node in direct.model.graph] == ["Softplus"]
    assert (direct.session.backend, direct.session.fallback_reason) == ("onnx.reference", "")
    direct(REALS)  # without a warning
    with pytest.raises(InvalidInputError, match="runtime='tensorrt': one of 'onnxruntime', 'reference'"):
        Request(runtime="tensorrt")
    assert RUNTIMES == ("onnxruntime", "reference")


def test_a_model_that_onnxruntime_can_not_load_says_so_once():
    model = OnnxModel(written(lambda op, x: op.Softplus(x), [REALS], 21, "reference"))
    with pytest.warns(FallbackWarning, match="Could not find an implementation for Softplus"):
        model(REALS)
    model(REALS)
    assert model.session.fallback_reason


def test_an_opset_that_onnxruntime_does_not_load_is_written_directly_and_said():
    notes = []
    model = written(lambda op, x: op.Softplus(x), [REALS], 27, "onnxruntime", notes)
    assert [node.op_type for node in model.graph] == ["Softplus"]
    assert notes == ["opset 27 is beyond 26, the last that onnxruntime loads: ONNX's reference evaluator runs it"]


def test_names_types_and_provenance_stay():
    from onnxport.graph.provenance import Source

    op, notes = OpBuilder(21), []
    x = op.input("x", ir.DataType.DOUBLE, ["n", 3])
    with op.at(Source("aten::softplus", "act", "net.act", "model.py", 7)):
        y = op.Softplus(x)
    with op.at(Source("aten::conv", "other")):
        z = op.Softplus(op.Neg(y))
    names = [op.names.unique(name) for name in ("first", "second")]
    model = finish(op, [y, z], names, notes=notes)
    assert [value.name for value in model.graph.outputs] == names
    assert [list(map(str, value.shape)) for value in model.graph.outputs] == [["n", "3"]] * 2
    assert all(value.type is not None for node in model.graph for value in node.outputs)
    sources = {node.metadata_props["onnxport.op"] for node in model.graph}
    assert sources == {"aten::softplus", "aten::conv"}
    assert notes == [
        "for onnxruntime: Softplus x2 written as max(x, 0) + log1p(exp(-|x|)), since onnxruntime has no kernel"
    ]


def test_bodies_are_rewritten_too():
    def build(op, x, c):
        return op.If(c, then_branch=op.body(lambda b: [b.Softsign(x)]), else_branch=op.body(lambda b: [x]))

    model = OnnxModel(written(build, [REALS, np.asarray(True)], 21, "onnxruntime"))
    np.testing.assert_allclose(model(REALS, np.asarray(True)), REALS / (1 + np.abs(REALS)), rtol=1e-15)
    assert model.session.backend == "onnxruntime"


def test_every_row_says_what_and_why():
    for defect in DEFECTS:
        assert defect.operators
        assert defect.instead
        assert defect.reason


@pytest.mark.parametrize("opset", [21, 22, 26])
@pytest.mark.parametrize("like", [False, True])
def test_random_numbers_have_their_distribution(opset, like):
    def build(op, x):
        suffix, given = ("Like", (x,)) if like else ("", ())
        shape = {} if like else {"shape": [40, 50]}
        return (
            op.node(f"RandomUniform{suffix}", *given, low=-2.0, high=6.0, **shape),
            op.node(f"RandomNormal{suffix}", *given, mean=3.0, scale=2.0, **shape),
            op.node(f"RandomNormal{suffix}", *given, dtype=int(ir.DataType.FLOAT16), **shape),
        )

    model = OnnxModel(written(build, [np.zeros((40, 50), F)], opset, "onnxruntime"))
    uniform, normal, half = model(np.zeros((40, 50), F))
    assert model.session.backend == "onnxruntime"
    assert (uniform.shape, uniform.dtype, half.dtype) == ((40, 50), F, np.float16)
    assert uniform.min() >= -2
    assert uniform.max() < 6
    assert len(np.unique(uniform)) > 1900
    for values, mean, deviation in ((uniform, 2, 8 / 12**0.5), (normal, 3, 2), (half.astype(F), 0, 1)):
        np.testing.assert_allclose([values.mean(), values.std()], [mean, deviation], atol=6 * deviation / 2000**0.5)
    assert not np.allclose(uniform, model(np.zeros((40, 50), F))[0])


def test_a_constant_that_cleaning_took_away_comes_back():
    def build(op, x):
        op.Mul(x, 0.0)  # used by nobody
        return op.Elu(x)

    model = OnnxModel(written(build, [REALS], 21, "onnxruntime"))
    onnx.checker.check_model(model.proto, full_check=True)
    assert model.session.backend == "onnxruntime"
