"""Imported Keras models whose layers and operations are all Keras' own: a process without onnxport loads and runs their files."""

import json
import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

pytestmark = [pytest.mark.keras]
onnxruntime = pytest.importorskip("onnxruntime", reason="the expected values are onnxruntime's")
BACKENDS = [
    pytest.param("tensorflow", marks=pytest.mark.tensorflow),
    pytest.param("torch", marks=pytest.mark.pytorch),
]

RNG = np.random.default_rng(0)


def f32(*shape):
    return RNG.normal(size=shape).astype(np.float32)


# Graphs, their weights, and the shapes and ranges of the inputs, of which axis 0 is the batch.
ROWS = {
    "weights of elementwise operators": (
        "g (float[N,3,4] x) => (float[N,3,4] y) { a = Mul(x, scale) b = Add(a, bias) c = Add(b, places) y = Mul(c, one) }",
        {"scale": f32(4), "bias": f32(4), "places": f32(1, 3, 4), "one": f32(1)},
        [(3, 4)],
    ),
    "a token before the others": (
        """g (float[N,3,4] x) => (float[N,4,4] y) {
            s = Shape<start = 0, end = 1>(x) end = Constant<value_ints = [-1, -1]>() t = Concat<axis = 0>(s, end)
            ones = Constant<value_ints = [1, 1, 1]>() low = Constant<value_ints = [-1, -1, -1]>()
            filled = Equal(t, low) u = Where(filled, ones, t) a = Expand(token, u) y = Concat<axis = 1>(a, x) }""",
        {"token": f32(1, 1, 4)},
        [(3, 4)],
    ),
    "heads of a sequence whose length is not known": (
        """g (float[N,S,6] x) => (float[N,S,6] y) {
            z = Constant<value_ints = [0, 0, -1, 2]>() a = Reshape(x, z) b = Transpose<perm = [0, 2, 1, 3]>(a)
            c = Transpose<perm = [0, 2, 1, 3]>(b) w = Constant<value_ints = [0, 0, 6]>() y = Reshape(c, w) }""",
        {},
        [(5, 6)],
    ),
    "heads of a batch": (
        """g (float[N,5,6] x) => (float[N,5,6] y) {
            s = Shape<start = 0, end = 1>(x) h = Constant<value_ints = [5, -1, 2]>() t = Concat<axis = 0>(s, h)
            a = Reshape(x, t) b = Transpose<perm = [0, 2, 1, 3]>(a) two = Constant<value_int = 3>()
            n = Mul(s, two) k = Constant<value_ints = [5, 2]>() u = Concat<axis = 0>(n, k) c = Reshape(b, u)
            v = Constant<value_ints = [3, 5, 2]>() r = Concat<axis = 0>(s, v) d = Reshape(c, r)
            e = Transpose<perm = [0, 2, 1, 3]>(d) m = Constant<value_ints = [-1, 5, 6]>() y = Reshape(e, m) }""",
        {},
        [(5, 6)],
    ),
    "a mask at its places": (
        """g (int64[N,5] mask, float[N,1,5,5] x) => (float[N,1,5,5] y) {
            zero = Constant<value_int = 0>() one = Constant<value_int = 1>() s = Shape<start = 0, end = 1>(mask)
            none = Constant<value_ints = [0]>() n = Squeeze(s, none)
            rows = Range(zero, n, one) inner = Constant<value_ints = [1, 2, 3]>() a = Unsqueeze(rows, inner)
            five = Constant<value_int = 5>() start = Mul(a, five) columns = Constant<value_ints = [0, 1, 2, 3, 4]>()
            place = Add(start, columns) seen = Cast<to = 9>(mask) flat = Constant<value_ints = [-1, 1]>()
            row = Reshape(seen, flat) picked = Gather(row, place) last = Constant<value_ints = [4]>()
            shown = Squeeze(picked, last) low = Constant<value_float = -10000.0>()
            y = Where(shown, x, low) }""",
        {},
        [("ids", 2, (5,)), (1, 5, 5)],
    ),
    "index tuples": (
        """g (float[N,5] x, int64[N,3,2] i) => (float[N,3] y) { y = GatherND(x, i) }""",
        {},
        [(5,), ("ids", 1, (3, 2))],
    ),
    "elements along an axis": (
        "g (float[N,5] x, int64[N,3] i) => (float[N,3] y) { y = GatherElements<axis = 1>(x, i) }",
        {},
        [(5,), ("ids", 5, (3,))],
    ),
    "rows of a table of integers": (
        "g (int64[N,3] i) => (int64[N,3,300] y) { y = Gather(table, i) }",
        {"table": RNG.integers(-(1 << 40), 1 << 40, (7, 300))},
        [("ids", 7, (3,))],
    ),
    "integers": (
        """g (int64[N,4] x) => (int64[N,4] y, int64[N,4] z, int64[N,1] m, bool[N,4] t, float[N,4] f) {
            c = Constant<value_ints = [1, 5000000000, 3, 4]>() a = Add(c, x) i = Constant<value_int = 1>()
            y = Max(a, c) k = Identity(y) g = Less(k, c) three = Constant<value_int = 3>() z = Where(g, x, three)
            m = ReduceMax<keepdims = 1>(x, one) t = Cast<to = 9>(x) f = Cast<to = 1>(x) }""",
        {"one": np.int64([1])},
        [("ids", 4, (4,))],
    ),
    "a sum over places": (
        "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { y = CumSum(x, one) z = CumSum<reverse = 1>(x, one) }",
        {"one": np.int64(1)},
        [(4,)],
    ),
    "a product with a matrix that is computed": (
        "g (float[N,3,4] x) => (float[N,3,5] y) { b = Softmax<axis = -1>(w) y = MatMul(x, b) }",
        {"w": f32(4, 5)},
        [(3, 4)],
    ),
    "halves": (
        """g (float16[N,3,4] x) => (float16[N,3,4] y) {
            m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) p = Pow(d, "/two/Constant")
            v = ReduceMean<axes = [-1]>(p) s = Add(v, "/e/Constant") r = Sqrt(s)
            n = Div(d, r) g = Mul(n, w) h = Erf(g) y = Add(h, b) }""",
        {
            "w": f32(4).astype(np.float16),
            "b": f32(4).astype(np.float16),
            "/two/Constant": np.float16(2),
            "/e/Constant": np.float16(0.001),
        },
        [("float16", (3, 4))],
    ),
    "the greatest of halves": (
        "g (float16[N,2,6,6] x) => (float16[N,2,3,3] y) { y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }",
        {},
        [("float16", (2, 6, 6))],
    ),
    "a layer that is quantised as it runs": (
        """g (float[N,4] x) => (float[N,3] y) {
            q, s, z = DynamicQuantizeLinear(x) p = MatMulInteger(q, w, z) f = Cast<to = 1>(p) h = Mul(f, s) y = Add(h, b) }""",
        {"w": RNG.integers(-128, 128, (4, 3)).astype(np.int8), "b": f32(3)},
        [(4,)],
    ),
    "a convolution between quantised images": (
        """g (float[N,2,6,6] x) => (float[N,4,6,6] y) {
            q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) k = DequantizeLinear<axis = 0>(w, t)
            c = Conv<pads = [1, 1, 1, 1]>(d, k, b) e = Conv<group = 4, pads = [1, 1, 1, 1]>(c, o) y = Add(c, e) }""",
        {
            "s": np.float32(0.05),
            "z": np.uint8(120),
            "w": RNG.integers(-128, 128, (4, 2, 3, 3)).astype(np.int8),
            "t": np.abs(f32(4)) / 100,
            "b": f32(4),
            "o": f32(4, 1, 3, 3),
        },
        [(2, 6, 6)],
    ),
    "quotients of what can't be negative": (
        """g (uint8[N,4] x) => (int32[N,4] y, int32[N,4] z) {
            a = Cast<to = 6>(x) y = Div(a, c) z = Mod(a, c) }""",
        {"c": np.int32(16)},
        [("bytes", (4,))],
    ),
    "functions beside a number": (
        "g (float[N,4] x) => (float[N,4] y, float[N,1] z) { y = Celu<alpha = 0.7>(x) z = ReduceLogSumExp<keepdims = 1>(x, one) }",
        {"one": np.int64([1])},
        [(4,)],
    ),
    "sums of products": (
        'g (float[N,3,4] x) => (float[N,3,5] y) { y = Einsum<equation = "bij,jk->bik">(x, w) }',
        {"w": f32(4, 5)},
        [(3, 4)],
    ),
    "means of windows that reach beyond the image": (
        """g (float[N,2,7,5] x) => (float[N,2,4,3] y) {
            y = AveragePool<kernel_shape = [2, 3], strides = [2, 2], pads = [0, 1, 1, 1]>(x) }""",
        {},
        [(2, 7, 5)],
    ),
    "copies and reversals": (
        """g (float[N,3,4] x) => (float[N,6,4] y, float[N,3,4] z, int64[N,4] k) {
            n = Constant<value_ints = [1, 2, 1]>() y = Tile(x, n) s = Shape<start = 0, end = 1>(x)
            two = Constant<value_ints = [2]>() t = Concat<axis = 0>(s, two) c = Constant<value_ints = [4, 5]>()
            axis = Constant<value_ints = [0]>() r = Unsqueeze(c, axis) k = Tile(r, t) low = Constant<value_ints = [-1]>()
            end = Constant<value_ints = [-9223372036854775807]>() z = Slice(x, low, end, low, low) }""",
        {},
        [(3, 4)],
    ),
    "doubles that a condition picks": (
        """g (float[N,4] x) => (double[N,4] y) {
            zero = Constant<value_float = 0.0>() c = Less(x, zero) a = Constant<value = double {0.1}>()
            b = Constant<value = double {0.7}>() y = Where(c, a, b) }""",
        {},
        [(4,)],
    ),
    "a decision tree": (
        """g (float[N,3] x) => (float[N,1] y) {
            y = ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1, nodes_treeids = [0, 0, 0, 0, 0], nodes_nodeids = [0, 1, 2, 3, 4],
                nodes_featureids = [1, 0, 2, 0, 0], nodes_modes = ["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
                nodes_values = [0.1, 0.0, -0.2, 0.0, 0.0], nodes_truenodeids = [1, 0, 3, 0, 0],
                nodes_falsenodeids = [2, 0, 4, 0, 0], target_treeids = [0, 0, 0], target_nodeids = [1, 3, 4],
                target_ids = [0, 0, 0], target_weights = [1.5, -2.0, 0.25]>(x) }""",
        {},
        [(3,)],
    ),
    "a recurrent layer in two directions": (
        """g (float[S,N,3] x, float[2,N,4] h, float[2,N,4] c) => (float[S,2,N,4] y, float[2,N,4] k, float[2,N,4] m) {
            y, k, m = LSTM<hidden_size = 4, direction = "bidirectional">(x, w, r, b, , h, c) }""",
        {"w": f32(2, 16, 3), "r": f32(2, 16, 4), "b": f32(2, 32)},
        [(3, 3), ("fixed", (2, 3, 4)), ("fixed", (2, 3, 4))],
    ),
    "a gated layer backwards": (
        """g (float[S,N,3] x) => (float[S,1,N,4] y, float[1,N,4] k) {
            y, k = GRU<hidden_size = 4, direction = "reverse", linear_before_reset = 1>(x, w, r, b) }""",
        {"w": f32(1, 12, 3), "r": f32(1, 12, 4), "b": f32(1, 24)},
        [(3, 3)],
    ),
    "a gated layer and a simple one": (
        """g (float[S,N,3] x) => (float[S,1,N,2] y) { a, k = GRU<hidden_size = 4>(x, w, r, b) one = Constant<value_ints = [1]>()
            s = Squeeze(a, one) y, m = RNN<hidden_size = 2, activations = ["Relu"]>(s, v, q) }""",
        {"w": f32(1, 12, 3), "r": f32(1, 12, 4), "b": f32(1, 24), "v": f32(1, 2, 4), "q": f32(1, 2, 2)},
        [(3, 3)],
    ),
    "rows of a mask as those of the words": (
        """g (int64[N,5] ids, float[M,5] x) => (float[N,L] y, int64[K] k) {
            n = Shape<start = 0, end = 1>(ids) end = Constant<value_ints = [-1]>() t = Concat<axis = 0>(n, end)
            y = Reshape(x, t) m = Shape<start = 0, end = 1>(x) five = Constant<value_int = 5>() f = Mul(m, five)
            q = Div(f, n) axis = Constant<value_ints = [0]>() r = Squeeze(q, axis) zero = Constant<value_int = 0>()
            one = Constant<value_int = 1>() k = Range(zero, r, one) }""",
        {},
        [("ids", 4, (5,)), (5,)],
    ),
    "heads of rows that are not the batch's": (
        """g (float[N,4] x, float[M,6] z) => (float[M,3,2] y, float[N,4] u) {
            e = Exp(z) s = Shape<start = 0, end = 1>(e) h = Constant<value_ints = [-1, 2]>() t = Concat<axis = 0>(s, h)
            l = Log(e) y = Reshape(l, t) u = Neg(x) }""",
        {},
        [(4,), (6,)],
    ),
    "signs and whole quotients": (
        """g (float[N,4] x, int64[N,4] i) => (float[N,4] y, int64[N,4] z) {
            y = Sign(x) c = Constant<value_ints = [7, -7, 2, -3]>() a = Sub(i, c) z = Div(a, c) }""",
        {},
        [(4,), ("ids", 9, (4,))],
    ),
    "an image with its reflection around it, a quantised one with its zero": (
        """g (float[N,2,4,4] x, uint8[N,2,4,4] q) => (float[N,2,6,6] y, uint8[N,2,5,5] z) {
            around = Constant<value_ints = [0, 0, 1, 1, 0, 0, 1, 1]>() after = Constant<value_ints = [0, 0, 0, 0, 0, 0, 1, 1]>()
            y = Pad<mode = "reflect">(x, around) z = Pad(q, after, point) }""",
        {"point": np.uint8(128)},
        [(2, 4, 4), ("bytes", (2, 4, 4))],
    ),
    "a convolution of groups whose weights are computed": (
        """g (float[N,4,5,5] x) => (float[N,6,3,3] y) {
            k = DequantizeLinear(w, t) y = Conv<group = 2, pads = [1, 1, 1, 1], strides = [2, 2]>(x, k) }""",
        {"w": RNG.integers(-128, 128, (6, 2, 3, 3)).astype(np.int8), "t": np.float32(0.01)},
        [(4, 5, 5)],
    ),
    "codes of numbers": (
        """g (float[N,3] x) => (int64[N,3] y) { r = Round(x)
            y = ai.onnx.ml.LabelEncoder<keys_floats = [-1.0, 0.0, 1.0], values_int64s = [7, 8, 9], default_int64 = -4>(r) }""",
        {},
        [(3,)],
    ),
}
SIZES = (3, 1, 0)

CONVERTS = """
    import json, sys, onnxport
    from onnxport.opset_maps.from_onnx.keras.primitives import is_keras_own
    rows, folder = json.load(open(sys.argv[1])), sys.argv[2]
    foreign = {}
    for name, file in rows.items():
        model = onnxport.convert(file, to="keras", validate=False)
        own = [op for op in model.operations if not type(op).__module__.startswith("keras")]
        foreign[name] = [getattr(op, "function", type(op).__name__) for op in own]
        foreign[name] += [] if is_keras_own(model) or own else ["OnnxModel"]
        model.save(f"{file}.keras")
        foreign[name] = [foreign[name], [weight.path for weight in model.trainable_weights]]
    json.dump(foreign, open(folder + "/foreign.json", "w"))
"""
RUNS = """
    import json, sys
    sys.modules["onnxport"] = None
    import keras, numpy as np
    foreign = json.load(open(sys.argv[2] + "/foreign.json"))
    for file in [file for name, file in json.load(open(sys.argv[1])).items() if not foreign[name][0]]:
        model = keras.saving.load_model(file + ".keras")
        sets, results = np.load(file + ".npz"), {}
        for size in sorted({key.split(".")[0] for key in sets.files}):
            given = [sets[key] for key in sets.files if key.split(".")[0] == size]
            got = keras.tree.flatten(model(given if len(given) > 1 else given[0]))
            results |= {f"{size}.{i}": keras.ops.convert_to_numpy(item) for i, item in enumerate(got)}
        np.savez(file + ".results.npz", **results)
"""


def drawn(form, size, rng):
    if form[0] == "ids":
        return rng.integers(0, form[1], (size, *form[2]))
    if form[0] == "bytes":
        return rng.integers(0, 256, (size, *form[1])).astype(np.uint8)
    if form[0] == "fixed":
        return rng.normal(size=form[1]).astype(np.float32)
    kind, shape = form if isinstance(form[0], str) else ("float32", form)
    return rng.normal(size=(size, *shape)).astype(kind)


def run_in_process(code, backend, *arguments):
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module", params=BACKENDS)
def alone(request, tmp_path_factory):
    """For each row what of its model is not Keras' own, and the files of graph, inputs and results."""
    folder = tmp_path_factory.mktemp("alone")
    files = {}
    for number, (name, (text, weights, inputs)) in enumerate(ROWS.items()):
        opset = 21 if "ReduceMean<axes" not in text else 17
        head = f'<ir_version: 8, opset_import: ["": {opset}, "ai.onnx.ml": 3]>\n'
        proto = parser.parse_model(head + text)
        proto.graph.initializer.extend(numpy_helper.from_array(np.asarray(item), key) for key, item in weights.items())
        files[name] = str(folder / f"{number}.onnx")
        onnx.save(proto, files[name])
        rng = np.random.default_rng(number)
        # TensorFlow convolves and reflects no images wrongly; Keras' recurrent layers take one step at least; 0 divides nothing.
        tried = [size for size in SIZES if size or not re.search("Conv<|LSTM|GRU|Div\\(f|reflect", text)]
        sets = {f"{size}.{i}": drawn(form, size, rng) for size in tried for i, form in enumerate(inputs)}
        np.savez(files[name] + ".npz", **sets)
    (folder / "rows.json").write_text(json.dumps(files))
    run_in_process(CONVERTS, request.param, folder / "rows.json", folder)
    run_in_process(RUNS, request.param, folder / "rows.json", folder)
    return json.loads((folder / "foreign.json").read_text()), files


@pytest.mark.parametrize("name", ROWS)
def test_a_process_without_onnxport_gives_onnxruntimes_numbers(alone, name):
    foreign, files = alone
    assert foreign[name][0] == []
    session = onnxruntime.InferenceSession(files[name], providers=["CPUExecutionProvider"])
    sets, results = np.load(files[name] + ".npz"), np.load(files[name] + ".results.npz")
    for size in sorted({int(key.split(".")[0]) for key in sets.files}):
        given = [sets[key] for key in sets.files if key.startswith(f"{size}.")]
        try:
            wanted = session.run(None, {item.name: x for item, x in zip(session.get_inputs(), given, strict=True)})
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
            assert size == 0
            continue
        for i, expected in enumerate(wanted):
            got = results[f"{size}.{i}"]
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape), size
            rough = 2e-3 if expected.dtype == np.float16 else 1e-5
            np.testing.assert_allclose(got, expected, rtol=rough, atol=rough)


def test_weights_are_trained_under_their_names(alone):
    paths = alone[0]["weights of elementwise operators"][1]
    assert sorted(path.split("/")[0] for path in paths) == ["bias", "one", "places", "scale"]
