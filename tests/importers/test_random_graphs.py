"""Random valid graphs (`scripts/conformance/random_graphs.py`): a sample of them, and the graphs that once differed."""

import ml_dtypes
import numpy as np
import onnx
import pytest

import onnxport
from scripts.conformance.random_graph_drawing import DrawnGraph
from scripts.conformance.random_graph_judgement import judged_graph
from scripts.conformance.random_graph_operators import graph_of

F32 = np.random.default_rng(0).uniform(-1, 1, (2, 2, 3)).astype(np.float32)
FRAMEWORKS = [
    pytest.param("pytorch", marks=pytest.mark.pytorch),
    pytest.param("tensorflow", marks=pytest.mark.tensorflow),
    pytest.param("keras", marks=[pytest.mark.keras, pytest.mark.tensorflow]),
]
RECURRENT = 'LSTM <hidden_size = 1, activations = ["Sigmoid", "Softsign", "Tanh"]>'
DIFFERED = {
    "NonZero of a scalar": ("(float x) => (int64[N, M] y) {y = NonZero(x)}", [np.float32(5)]),
    "one output of a recurrent operator that waits for the run": (
        f"(float[2, 2, 3] x, float[1, 4, 3] w, float[1, 4, 1] r) => (float[2, 1, 2, 1] y) {{y = {RECURRENT} (x, w, r)}}",
        [F32, F32[:1, :1].repeat(4, 1), F32[:1, :1, :1].repeat(4, 1)],
    ),
    "a sum of what stands before nothing": (
        "(float[N] x, int64 a) => (float[N] y) {y = CumSum <exclusive = 1> (x, a)}",
        [np.zeros(0, np.float32), np.int64(0)],
    ),
    "index tuples of a length that only the run tells": (
        "(float[2, 3] x, int64[N, M] i) => (float[1] y) {y = GatherND(x, i)}",
        [F32[0], np.array([[1, 2]])],
    ),
    "pieces of which only the run tells how many": (
        "(float[N, 3] x) => (seq(float[M, 3]) y) {y = SplitToSequence(x)}",
        [F32[0]],
    ),
    "a crop that a graph computes": (
        "(float[N, 3] x, int64[2] s) => (float[P, Q] y) {t = Add(s, s) y = CenterCropPad(x, t)}",
        [F32[0], np.array([2, 1])],
    ),
    "Gelu of float64": (
        "(double[2, 2, 3] x) => (double[2, 2, 3] y) {y = Gelu(x)}",
        [F32.astype(np.float64)],
    ),
    "the sizes of LpNormalization": (
        "(float[2, 2, 3] x) => (float[2, 2, 3] y) {y = LpNormalization <p = 1> (x)}",
        [F32],
    ),
    "one slope for a vector": ("(float[3] x, float s) => (float[3] y) {y = PRelu(x, s)}", [F32[0, 0], np.float32(0.5)]),
    "a sequence of a type that PyTorch computes in another": (
        "(uint64[3] x) => (seq(uint64) y) {y = SequenceConstruct(x)}",
        [np.arange(3, dtype=np.uint64)],
    ),
    "a sequence of such a type that only the run tells": (
        "(uint64[3] x, int64 n) => (seq(uint64) y) {y = SplitToSequence(x, n)}",
        [np.arange(3, dtype=np.uint64), np.int64(1)],
    ),
    "HardSwish of float64": (
        "(double[2, 2, 3] x) => (double[2, 2, 3] y) {y = HardSwish(x)}",
        [F32.astype(np.float64)],
    ),
    "Erf of whole numbers": ("(int32[3] x) => (int32[3] y) {y = Erf(x)}", [np.array([9, -9, 0], np.int32)]),
    "sums of whole numbers": (
        '(int32[3] x) => (int32 y) {y = Einsum <equation = "j->"> (x)}',
        [np.arange(3, dtype=np.int32)],
    ),
    "HardSigmoid of float64": (
        "(double[2, 2, 3] x) => (double[2, 2, 3] y) {y = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x)}",
        [F32.astype(np.float64)],
    ),
    "Gelu by tanh of float64": (
        '(double[2, 2, 3] x) => (double[2, 2, 3] y) {y = Gelu <approximate = "tanh"> (x)}',
        [F32.astype(np.float64)],
    ),
    "sums of a constant from its end": (
        "() => (int64[2] y) <int64[2] x = {3, 6}, int64 axis = {0}> {y = CumSum <reverse = 1> (x, axis)}",
        [],
    ),
    "means of float16 over three axes": (
        "(float16[1, 1, 2, 2, 2] x) => (float16[1, 1, 1, 1, 1] y) {y = AveragePool <kernel_shape = [2, 2, 2]> (x)}",
        [np.arange(8, dtype=np.float16).reshape(1, 1, 2, 2, 2)],
    ),
    "means of float64 over three axes": (
        "(double[1, 1, 2, 2, 2] x) => (double[1, 1, 1, 1, 1] y) {y = AveragePool <kernel_shape = [2, 2, 2]> (x)}",
        [np.arange(8, dtype=np.float64).reshape(1, 1, 2, 2, 2)],
    ),
    "greatest of float64 over three axes": (
        "(double[1, 1, 2, 2, 2] x) => (double[1, 1, 1, 1, 1] y) {y = MaxPool <kernel_shape = [2, 2, 2]> (x)}",
        [np.arange(8, dtype=np.float64).reshape(1, 1, 2, 2, 2)],
    ),
    "products of a type without a kernel": (
        '(uint32[3] x, uint32[2] z) => (uint32[3, 2] y) {y = Einsum <equation = "i,j->ij"> (x, z)}',
        [np.arange(3, dtype=np.uint32), np.array([2**31, 5], np.uint32)],
    ),
    "NonZero of strings": ("(string[3] x) => (int64[1, N] y) {y = NonZero(x)}", [np.array(["a", "", "b"], object)]),
    "batch norm of channels that the run tells": (
        "(double[a, b, c] x) => (double[a, b, c] y) <double[2] s = {1, 2}> {y = BatchNormalization(x, s, s, s, s)}",
        [F32.astype(np.float64)],
    ),
    "groups of a transposed convolution": (
        "(float[2, 2, 3] x, float[2, 1, 1] w, float[2] b) => (float[2, 2, 3] y) {y = ConvTranspose <group = 2> (x, w, b)}",
        [F32, F32[0, :, :1, None].reshape(2, 1, 1), np.array([1, 2], np.float32)],
    ),
    "the sizes of a grid that the run tells": (
        "(float[1, 2, 3] x, int64[4] n) => (float[1, 4, 3, 2] y) {y = AffineGrid (x, n)}",
        [F32[:1], np.array([1, 1, 4, 3])],
    ),
    "a triangle of strings": (
        "(string[2, 2] x) => (string[2, 2] y) {y = Trilu(x)}",
        [np.array([["a", "b"], ["c", "d"]], object)],
    ),
    "a range whose start is beyond its limit": (
        "(int64 x) => (int64[N] y) <int64 limit = {4}, int64 step = {1}> {y = Range (x, limit, step)}",
        [np.int64(5)],
    ),
    "a range of a step that leads away": (
        (
            "(int32 x, int32 step) => (int32[N] y, int32[M] z) <int32 limit = {2}, int32 back = {-2}> "
            "{y = Range (x, limit, step) z = Range (limit, x, back)}"
        ),
        [np.int32(6), np.int32(3)],
    ),
    "a range of a step that the run tells": (
        "(int64 x, int64 step) => (int64[N] y) <int64 limit = {2}> {y = Range (x, limit, step)}",
        [np.int64(9), np.int64(-3)],
    ),
    "a sum of 16 bits that cancels": (
        "(float16[N] x) => (float16[N] y) {y = HardSigmoid <beta = 0.5> (x)}",
        [np.array([-2.459, -2.48], np.float16)],
    ),
    "mel bins up to what the run tells": (
        (
            "(float x) => (float[9, 3] y) <int64 n = {3}, int64 w = {16}, int64 rate = {8192}, float low = {0}> "
            "{y = MelWeightMatrix (n, w, rate, low, x)}"
        ),
        [np.float32(4096)],
    ),
    "cubic weights of float64": (
        (
            "(double[2, 2, 3] x) => (double[2, 2, 9] y) <int64[3] n = {2, 2, 9}> "
            '{y = Resize <coordinate_transformation_mode = "asymmetric", mode = "cubic"> (x, "", "", n)}'
        ),
        [F32.astype(np.float64)],
    ),
    "a float8 that few frameworks have": (
        (
            "(float[2, 2, 3] x, string[2] z) => (float8e4m3fnuz[2, 2, 3] y, string[2] t) "
            "<float scale = {0.4}, float8e4m3fnuz zero = {67}> {y = QuantizeLinear (x, scale, zero) t = Identity (z)}"
        ),
        [F32, np.array(["a", "b"], object)],
    ),
    "a float8 that few frameworks have beside another input": (
        "(float8e5m2fnuz[2] x, float z) => (float8e5m2fnuz[2] y) {y = Dropout (x, z)}",
        [np.array([1.5, -2], ml_dtypes.float8_e5m2fnuz), np.float32(0.4)],
    ),
    "one place of an image that the run tells": (
        "(double[a, b, c] x, double[2] s) => (double[a, b, c] y) {y = InstanceNormalization (x, s, s)}",
        [F32[..., :1].astype(np.float64), np.array([1.0, 2.0])],
    ),
    "directions of a state that the run tells": (  # behind an input whose size leaves 3 to be tried as their number
        (
            "(float[k] z, float[a, b, c] x, float[d, e, f] h) => (float[k] t, float[2, 2, 2, 2] y) "
            f"<float[2, 8, 2] w = {{{', '.join(['0.5', '-0.25'] * 16)}}}> {{t = Neg (z) "
            'y = LSTM <direction = "bidirectional", hidden_size = 2> (x, w, w, "", "", h)}'
        ),
        [F32[0, 0], F32[..., :2], F32[..., :2]],
    ),
    "each group's bias of float64": (
        "(double[2, 2, 3] x, double[2, 1, 1] w, double[2] b) => (double[2, 2, 3] y) {y = ConvTranspose <group = 2> (x, w, b)}",
        [F32.astype(np.float64), np.ones((2, 1, 1)), np.array([1.0, 2.0])],
    ),
    "channels that outnumber the images": (
        "(double[2, 3, 2, 2] x) => (double[2, 3, 2, 2] y) {y = LRN <size = 3, alpha = 0.5> (x)}",
        [np.arange(24.0).reshape(2, 3, 2, 2)],
    ),
    "a lower bound alone of 16 bits": (
        "(float16[3] x) => (float16[3] y) {y = Clip <min = -1.5> (x)}",
        [np.array([-2, -np.inf, np.inf], np.float16)],
        10,
    ),
    "windows of a size that the run tells": (
        (
            "(float[2, 1, 5] x, float[a, b, c] w) => (float[2, 1, 3] y, float[2, 1, 9] z) {"
            'y = Conv <auto_pad = "SAME_UPPER", strides = [2], dilations = [2]> (x, w) z = ConvTranspose <strides = [2]> (x, w)}'
        ),
        [F32.reshape(-1)[:10].reshape(2, 1, 5), np.ones((1, 1, 1), np.float32)],
    ),
    "repeated numbers without a kernel": (
        "(uint16[2] x) => (uint16[6] y) <int64[1] n = {3}> {y = Tile (x, n)}",
        [np.array([1, 2**16 - 1], np.uint16)],
    ),
    "the ends of a window": (
        "() => (float[N] y) {n = Constant <value_int = 4> () y = BlackmanWindow(n)}",
        [],
    ),
}


def judged(drawn, framework):
    outcome = judged_graph(drawn, framework)
    assert not outcome.is_bad, f"{outcome.reason}\n{onnx.printer.to_text(drawn.model)}"
    return outcome.verdict


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", DIFFERED)
def test_a_graph_that_once_differed_is_right(name, framework):
    text, inputs, *opset = DIFFERED[name]
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset[0] if opset else 20}]> graph {text}')
    assert judged(DrawnGraph(model, tuple(map(np.asarray, inputs)), 0), framework) in (
        "right",
        "by onnxruntime",
        "refused",
    )


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_quantised_product_of_float8_keeps_its_fractions(framework):
    """The evaluator truncates float8 to whole numbers, and no other runtime has it: the definition itself is the judge."""
    kind, small = onnx.TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn
    operands = {
        "a": np.array([[-2, 4]], np.int8),
        "a_scale": np.float32(0.125),
        "a_zero": np.int8(0),
        "b": np.array([[-2.25], [0.21875]], small),
        "b_scale": np.float32(1.0),
        "b_zero": np.zeros((), small),
        "y_scale": np.float32(1.0),
        "y_zero": np.int8(3),
    }
    kinds = {name: kind if np.asarray(x).dtype == small else None for name, x in operands.items()}
    constants = [
        onnx.helper.make_tensor(name, kind, x.shape, x.tobytes(), raw=True)
        if kinds[name]
        else onnx.numpy_helper.from_array(np.asarray(x), name)
        for name, x in operands.items()
        if name != "a"
    ]
    info = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("QLinearMatMul", list(operands), ["y"])
    int8 = onnx.TensorProto.INT8
    graph = onnx.helper.make_graph([node], "g", [info("a", int8, [1, 2])], [info("y", int8, [1, 1])], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    module = onnxport.convert(model, framework, validate=False)
    assert int(module(as_native(framework, operands["a"]))[0, 0]) == round((4.5 + 0.875) * 0.125) + 3


def as_native(framework, array):
    return pytest.importorskip("torch", reason="PyTorch is an extra").tensor(array) if framework == "pytorch" else array


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("kind", ["uint2", "int4", "float8_e8m0fnu"])
def test_numbers_of_a_type_that_a_framework_lacks_come_in(kind, framework):
    name = kind.replace("_", "").removesuffix("fnu")
    text = f'<ir_version: 13, opset_import: ["" : 25]> graph ({name}[2] x) => (float[2] y) {{y = Cast <to = 1> (x)}}'
    model = onnx.parser.parse_model(text)
    assert judged(DrawnGraph(model, (np.array([1, 2], getattr(ml_dtypes, kind)),), 0), framework) == "right"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_transposed_convolution_whose_stride_leaves_gaps_is_as_long_as_in_onnxruntime(framework):
    form = 'auto_pad = "SAME_LOWER", strides = [3]'
    text = f"(float[1, 1, 3] x, float[1, 1, 1] w) => (float[1, 1, N] y) {{y = ConvTranspose <{form}> (x, w)}}"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> graph {text}')
    drawn = DrawnGraph(model, (F32[:1, :1], F32[:1, :1, :1]), 0)
    assert judged(drawn, framework) == "by onnxruntime"  # the evaluator's is longer than ONNX's shape inference says


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_groups_that_the_evaluator_normalises_in_float32_are_as_near_as_that(framework):
    """GroupNormalization of float64 in opset 21, whose `stash_type` is float32 by default."""
    text = "(double[2, 2, 3] x, double[2] s) => (double[2, 2, 3] y) {y = GroupNormalization <num_groups = 2> (x, s, s)}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> graph {text}')
    drawn = DrawnGraph(model, (F32.astype(np.float64), np.array([1.0, 2.0])), 0)
    assert judged(drawn, framework) == "right"


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("number", range(10))
def test_a_random_graph_is_right_or_refused(number, framework):
    judged(graph_of(16, number), framework)
