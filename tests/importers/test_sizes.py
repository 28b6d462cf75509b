"""What is computed from sizes and from numbers, as other tools write it: right, and dynamic where the file is."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxport
from onnxport.converters.from_onnx import inference

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

# Graphs, and the sizes of x in two calls; other inputs are whole numbers.
GRAPHS = {
    # Bounds are elements of a vector: whatever example numbers stand for them, the slice may have any length.
    "a slice between numbers": (
        """(float[N, 6] x, int64[2] bounds) => (float[M, 6] y)
        {zero = Constant <value = int64[1] {0}> () one = Constant <value = int64[1] {1}> ()
         two = Constant <value = int64[1] {2}> ()
         first = Slice (bounds, zero, one) last = Slice (bounds, one, two) h = Slice (x, first, last)
         s = Shape (h) t = ConstantOfShape <value = float[1] {1.0}> (s) y = Add (h, t)}""",
        [(4, 6), (3, 6)],
        [{"bounds": np.int64([1, 3])}, {"bounds": np.int64([0, 3])}],
    ),
    # Both ends are read from vectors whose length the file does not tell, as in torch.onnx's EmbeddingBag.
    "a slice between slices": (
        """(float[N, 6] x, int64[P] bounds, int64 i) => (float[1, 6] y)
        {minus = Constant <value = int64[1] {-1}> () one = Constant <value = int64 {1}> ()
         two = Constant <value = int64 {2}> ()
         zero = Constant <value = int64[1] {0}> () a = Reshape (i, minus) b = Add (a, one) c = Add (a, two)
         first = Slice (bounds, a, b) last = Slice (bounds, b, c) h = Slice (x, first, last) y = ReduceSum (h, zero)}""",
        [(4, 6), (5, 6)],
        [{"bounds": np.int64([0, 1, 4]), "i": np.array(1)}, {"bounds": np.int64([0, 2, 4]), "i": np.array(0)}],
    ),
    # x[:, :k] where the axis is shorter than some k.
    "a short axis cut at a number": (
        """(float[N, 2] x, int64 k) => (float[N, M] y)
        {minus = Constant <value = int64[1] {-1}> () zero = Constant <value = int64[1] {0}> ()
         one = Constant <value = int64[1] {1}> () end = Reshape (k, minus) h = Slice (x, zero, end, one) s = Shape (h)
         t = ConstantOfShape <value = float[1] {1.0}> (s) y = Add (h, t)}""",
        [(4, 2), (3, 2)],
        [{"k": np.array(1)}, {"k": np.array(7)}],
    ),
    "a range of floats up to a size": (
        """(float[N, T] x) => (float[N, T] y)
        {one = Constant <value = int64 {1}> () start = Constant <value = float {0.0}> ()
         step = Constant <value = float {1.0}> ()
         s = Shape (x) n = Gather (s, one) end = Cast <to = 1> (n) places = Range (start, end, step) y = Mul (x, places)}""",
        [(2, 5), (3, 8)],
        [{}, {}],
    ),
    "an image enlarged by a fraction": (
        """(float[N, 2, H, W] x) => (float[N, 2, P, Q] y)
        {scales = Constant <value = float[4] {1.0, 1.0, 1.5, 0.75}> ()
         y = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (x, , scales)}""",
        [(2, 2, 6, 8), (1, 2, 7, 9)],
        [{}, {}],
    ),
    "a branch that makes a tensor of a size": (
        """(float[N, 4] x) => (float[N, 4] y)
        {zero = Constant <value = float {0.0}> () s = ReduceSum <keepdims = 0> (x) c = Greater (s, zero)
         y = If (c) <then_branch = a () => (float[N, 4] p)
                {t = Shape (x) u = ConstantOfShape <value = float[1] {2.0}> (t) p = Mul (x, u)},
             else_branch = b () => (float[N, 4] q) {n = Shape (x) m = Cast <to = 1> (n)
                 o = ReduceSum <keepdims = 0> (m) q = Sub (x, o)}>}""",
        [(2, 4), (3, 4)],
        [{}, {}],
    ),
    # x[x < 0] = 0.5
    "elements written where a condition holds": (
        """(float[N, 4] x) => (float[N, 4] y)
        {zero = Constant <value = float {0.0}> () half = Constant <value = float {0.5}> ()
         flat = Constant <value = int64[1] {-1}> () first = Constant <value = int64[1] {0}> () c = Less (x, zero)
         places = NonZero (c)
         rows = Transpose <perm = [1, 0]> (places) all = Reshape (c, flat) ones = Cast <to = 7> (all)
         count = ReduceSum (ones, first) values = Expand (half, count)
         y = ScatterND (x, rows, values)}""",
        [(2, 4), (3, 4)],
        [{}, {}],
    ),
    # A row for each place at which a condition holds, scaled, as experts take the words that are routed to them.
    "rows picked where a condition holds": (
        """(float[N, 4] x) => (float[N, 4] y)
        {zero = Constant <value = float {0.0}> () one = Constant <value = int64[1] {1}> ()
         axis = Constant <value = int64[1] {0}> () m = ReduceMean <axes = [1], keepdims = 0> (x) c = Greater (m, zero)
         at = NonZero (c) rows = Squeeze (at, axis)
         h = Gather (x, rows) s = Shape (h) w = Gather (m, rows) k = Unsqueeze (w, one) wide = Expand (k, s)
         g = Mul (h, wide)
         index = Unsqueeze (rows, one) all = Expand (index, s) y = ScatterElements <axis = 0> (x, all, g)}""",
        [(5, 4), (7, 4)],
        [{}, {}],
    ),
    # torch.onnx's older exporter writes torch's pad of computed widths so: rows of pairs, turned around and transposed.
    "padding by differences of sizes": (
        """(float[N, 2, H, W] x) => (float[N, 2, H, W] y)
        {two = Constant <value = int64 {2}> () three = Constant <value = int64 {3}> ()
         axis = Constant <value = int64[1] {0}> ()
         half = Constant <value = int64 {2}> () rest = Constant <value = int64[4] {0, 0, 0, 0}> ()
         rows = Constant <value = int64[2] {-1, 2}> () flat = Constant <value = int64[1] {-1}> ()
         last = Constant <value = int64[1] {-1}> () far = Constant <value = int64[1] {-9223372036854775807}> ()
         small = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)
         k = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> ()
         large = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (small, , k)
         s = Shape (x) t = Shape (large)
         h = Gather (s, two) w = Gather (s, three) g = Gather (t, two) v = Gather (t, three)
         dh = Sub (h, g) dw = Sub (w, v) top = Div (dh, half) left = Div (dw, half) bottom = Sub (dh, top)
         right = Sub (dw, left)
         a = Unsqueeze (left, axis) b = Unsqueeze (right, axis) c = Unsqueeze (top, axis) d = Unsqueeze (bottom, axis)
         all = Concat <axis = 0> (a, b, c, d, rest) pairs = Reshape (all, rows)
         turned = Slice (pairs, last, far, axis, last) by = Transpose <perm = [1, 0]> (turned) pads = Reshape (by, flat)
         y = Pad (large, pads)}""",
        [(2, 2, 7, 6), (1, 2, 8, 9)],
        [{}, {}],
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_numbers_are_the_runtimes_and_sizes_stay_dynamic(name):
    text, shapes, numbers = GRAPHS[name]
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> case {text}')
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    net = onnxport.convert(model, to="pytorch", validate=False)
    rng = np.random.default_rng(0)
    calls = [
        {"x": rng.standard_normal(shape).astype(np.float32), **more}
        for shape, more in zip(shapes, numbers, strict=True)
    ]
    programs = [net]
    if not numbers[0]:
        dynamic = {
            axis: torch.export.Dim.DYNAMIC for axis in range(len(shapes[0])) if shapes[0][axis] != shapes[1][axis]
        }
        programs.append(
            torch.export.export(net, (torch.from_numpy(calls[0]["x"]),), dynamic_shapes=(dynamic,)).module()
        )
    for call in calls:
        (expected,) = session.run(None, call)
        for program in programs:
            result = program(*map(torch.from_numpy, map(np.asarray, call.values())))
            np.testing.assert_allclose(result.detach(), expected, rtol=1e-5, atol=1e-6)


def test_an_image_that_is_smaller_than_a_window_is_no_part_of_the_proof():
    """A runtime gives no elements, and a window of them padding; PyTorch refuses such an image, and is right elsewhere."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> unet (float[N, 2, H, W] x) => (float[N, 2, P, Q] y)
        {h = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
         g = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (h)
         pads = Constant <value = int64[8] {0, 0, 1, 1, 0, 0, 1, 1}> () y = Pad (g, pads)}"""
    )
    report = onnxport.convert(model, to="pytorch").onnxport_report
    assert report.passed
    assert any("Output size is too small" in note for note in report.notes)


def test_dimensions_of_the_file_vary_in_an_export_without_being_named():
    graph = """<ir_version: 10, opset_import: ["" : 21]>
        g (float[N, T, 4] x, float[N, 3, M] z) => (float[N, T, 4] y, float[N, 3, M] w) {y = Softmax (x) w = Relu (z)}"""
    module = onnxport.convert(onnx.parser.parse_model(graph), to="pytorch")
    back = onnxport.convert(module, inputs=(torch.randn(2, 5, 4), torch.randn(2, 3, 6)))
    assert [[str(dim) for dim in value.shape] for value in back.model.graph.inputs] == [
        ["N", "T", "4"],
        ["N", "3", "M"],
    ]
    assert back.report.verdict == "passed"
    x, z = (np.random.default_rng(0).normal(size=size).astype(np.float32) for size in ((3, 8, 4), (3, 3, 2)))
    session = onnxruntime.InferenceSession(back.proto.SerializeToString())
    given = session.run(None, dict(zip(back.input_names, (x, z), strict=True)))
    wanted = onnxruntime.InferenceSession(onnx.parser.parse_model(graph).SerializeToString()).run(
        None, {"x": x, "z": z}
    )
    for a, b in zip(given, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def picture_model(kind):
    """A model of pictures whose channels have a name, as optimum exports them all; a batch's name may be theirs too."""
    rng = np.random.default_rng(0)
    weight, form = (rng.random((4, 3, 2, 2)), "Conv") if kind == "Conv" else (rng.random((3, 4, 2, 2)), "ConvTranspose")
    batch = "channels" if kind == "one name" else "batch"
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[{batch}, channels, height, width] x) => (float[{batch}, c, l] y)
        {{ h = {form}(x, w) s = Shape(h) zero = Constant<value = int64[1] {{0}}>() two = Constant<value = int64[1] {{2}}>()
           front = Slice(s, zero, two, zero) minus = Constant<value = int64[1] {{-1}}>()
           t = Concat<axis = 0>(front, minus) y = Reshape(h, t) }}"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight.astype(np.float32), "w"))
    return model


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_a_kernel_settles_how_many_channels_there_are(kind):
    model = picture_model(kind)
    module = onnxport.convert(model, to="pytorch")
    assert not any("RunTime" in type(part).__name__ for part in module.modules())
    torch.compile(module, fullgraph=True, backend="eager")(torch.randn(2, 3, 5, 6))
    dim = torch.export.Dim.AUTO
    torch.export.export(module, (torch.randn(2, 3, 5, 6),), dynamic_shapes=(({0: dim, 2: dim, 3: dim}),))


@pytest.mark.keras
@pytest.mark.tensorflow
def test_a_kernel_settles_the_channels_of_a_keras_model():
    model = onnxport.convert(picture_model("Conv"), to="keras")
    assert model.inputs[0].shape == (None, 3, None, None)


def test_sizes_of_one_name_stay_open():
    """No runtime sees to it that they are the same: the kernel's three channels are not three pictures."""
    module = onnxport.convert(picture_model("one name"), to="pytorch", validate=False)
    assert module(torch.randn(2, 3, 5, 6)).shape[0] == 2


def test_branches_that_lay_their_results_out_differently_compile_as_one_graph():
    """Merged decoders of optimum: one branch computes the keys that the other passes on."""
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[n, 3, 4] x, float[n, 4, 3] z, bool on) => (float[n, a, b] y)
        { y = If<then_branch = t () => (p) { p = Transpose<perm = [0, 2, 1]>(x) },
                 else_branch = e () => (q) { q = Relu(z) }>(on) }"""
    module = onnxport.convert(onnx.parser.parse_model(text), to="pytorch")
    x, z = torch.randn(2, 3, 4), torch.randn(2, 4, 3)
    whole = torch.compile(module, fullgraph=True, backend="eager")
    for on, expected in ((True, x.transpose(1, 2)), (False, z.relu())):
        torch.testing.assert_close(whole(x, z, torch.tensor(on)), expected)


@pytest.mark.parametrize("kind", ["ConvInteger", "QLinearConv"])
def test_quantised_pictures_of_any_size_are_read_whole(kind):
    """The kernel is larger than the sizes that stand for those of a picture, as in a quantised vision transformer."""
    product = {
        "ConvInteger": "q, s, zero = DynamicQuantizeLinear(x) h = ConvInteger<strides = [8, 8]>(q, w, zero)",
        "QLinearConv": "q = QuantizeLinear(x, s, zero) h = QLinearConv<strides = [8, 8]>(q, s, zero, w, s, zero, s, zero)",
    }
    text = f"""<ir_version: 8, opset_import: ["" : 18]> g (float[n, c, height, width] x) => (float[n, 4, l] y)
        {{ {product[kind]} f = Cast<to = 1>(h) shape = Shape<end = 2>(f) minus = Constant<value_ints = [-1]>()
           t = Concat<axis = 0>(shape, minus) y = Reshape(f, t) }}"""
    model = onnx.parser.parse_model(text)
    held = {"w": np.random.default_rng(0).integers(0, 5, (4, 3, 8, 8)).astype(np.uint8)}
    if kind == "QLinearConv":
        held |= {"s": np.float32(0.03), "zero": np.uint8(100)}
    for name, array in held.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    module = onnxport.convert(model, to="pytorch")
    assert not any("RunTime" in type(part).__name__ for part in module.modules())


COMPLETE = """<ir_version: 8, opset_import: ["" : 17]> agraph (float[N, 4] x) => (float[N, 4] y)
    <float[4] w = {1, 2, 3, 4}, float[N, 4] h> {h = Mul (x, w) y = Relu (h)}"""


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (COMPLETE, False),
        (COMPLETE.replace("float[N, 4] h", "float[4] unused = {1, 2, 3, 4}"), True),  # h has no type
        (COMPLETE.replace("float[N, 4] h", "float[M, 4] h"), True),  # of a size that no input tells
        (COMPLETE.replace("float[N, 4] h", "float[] h"), True),
        (COMPLETE.replace("float[N, 4] h", "float[3] h"), False),  # inference refuses such a file
    ],
    ids=["complete", "without a type", "another name", "without a shape", "a wrong shape"],
)
def test_inference_is_asked_where_a_file_does_not_tell(
    text: str, asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(inference, "with_shapes", lambda proto, **_: calls.append(proto) or proto)
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    module = onnxport.convert(tmp_path / "m.onnx", to="pytorch", validate=False)
    x = torch.tensor([[1.0, -1.0, 2.0, 0.5]])
    assert torch.equal(module(x), torch.relu(x * torch.tensor([1.0, 2.0, 3.0, 4.0])))
    assert bool(calls) == asked
