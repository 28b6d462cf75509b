"""Sessions: every kind of input and output, both runtimes, and what is said when inputs do not fit."""

import locale

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h

from onnxport.errors import InvalidInputError, InvalidModelError
from onnxport.graph.evaluator import reference_evaluator
from onnxport.graph.runtime import Session


def model(nodes, inputs, outputs, *, opset=21, initializers=(), domains=()):
    graph = h.make_graph(nodes, "g", inputs, outputs, list(initializers))
    imports = [h.make_opsetid("", opset), *(h.make_opsetid(name, version) for name, version in domains)]
    return h.make_model(graph, opset_imports=imports, ir_version=10)


def tensor(name, dtype, shape=("N",)):
    return h.make_tensor_value_info(name, dtype, shape)


@pytest.mark.parametrize(
    ("dtype", "element", "backend"),
    [
        (T.BFLOAT16, ml_dtypes.bfloat16, "onnxruntime"),
        (T.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn, "onnxruntime"),
        (T.FLOAT8E5M2, ml_dtypes.float8_e5m2, "onnxruntime"),
        (T.INT4, ml_dtypes.int4, "onnx.reference"),
        (T.FLOAT16, np.float16, "onnxruntime"),
        (T.UINT64, np.uint64, "onnxruntime"),
        (T.BOOL, np.bool_, "onnxruntime"),
    ],
)
def test_every_element_type_goes_in_and_out(dtype, element, backend):
    values = np.asarray([0, 1, 2], np.float32)
    out = Session(model([h.make_node("Cast", ["x"], ["y"], to=dtype)], [tensor("x", T.FLOAT)], [tensor("y", dtype)]))
    assert out.backend == backend
    (made,) = out.run({"x": values})
    assert made.dtype == element
    np.testing.assert_array_equal(made.astype(np.float32), values.astype(element).astype(np.float32))
    back = Session(model([h.make_node("Cast", ["x"], ["y"], to=T.FLOAT)], [tensor("x", dtype)], [tensor("y", T.FLOAT)]))
    np.testing.assert_array_equal(back.run({"x": made})[0], values.astype(element).astype(np.float32))


def test_sequences_optionals_maps_and_strings():
    x = np.asarray([1.5, 2.5], np.float32)
    sequence = h.make_tensor_sequence_value_info("s", T.FLOAT, None)
    assert [
        item.tolist()
        for item in Session(
            model([h.make_node("SequenceConstruct", ["x", "x"], ["s"])], [tensor("x", T.FLOAT)], [sequence])
        ).run({"x": x})[0]
    ] == [[1.5, 2.5]] * 2
    count = model([h.make_node("SequenceLength", ["s"], ["n"])], [sequence], [tensor("n", T.INT64, ())])
    assert Session(count).run({"s": [x, x, x]})[0] == 3
    zipmap = h.make_node("ZipMap", ["x"], ["m"], domain="ai.onnx.ml", classlabels_int64s=[3, 7])
    kind = h.make_sequence_type_proto(h.make_map_type_proto(T.INT64, h.make_tensor_type_proto(T.FLOAT, ())))
    maps = model([zipmap], [tensor("x", T.FLOAT)], [h.make_value_info("m", kind)], domains=[("ai.onnx.ml", 3)])
    assert Session(maps).run({"x": x})[0] == [{3: 1.5, 7: 2.5}]
    upper = h.make_node("StringNormalizer", ["x"], ["y"], case_change_action="UPPER", locale="")
    words = Session(model([upper], [tensor("x", T.STRING)], [tensor("y", T.STRING)]))
    assert words.run({"x": np.asarray(["a", "b"])})[0].tolist() == ["A", "B"]


def test_what_onnxruntime_does_not_load_runs_in_the_reference():
    x = np.asarray([0.5], np.float64)
    softplus = model([h.make_node("Softplus", ["x"], ["y"])], [tensor("x", T.DOUBLE)], [tensor("y", T.DOUBLE)])
    newest = model([h.make_node("Relu", ["x"], ["y"])], [tensor("x", T.DOUBLE)], [tensor("y", T.DOUBLE)], opset=27)
    for item in (softplus, newest):
        session = Session(item)
        assert session.backend == "onnx.reference"
        assert session.fallback_reason
    np.testing.assert_allclose(Session(softplus).run({"x": x})[0], np.log1p(np.exp(x)), rtol=1e-15)


@pytest.mark.parametrize("opset", [21, 27])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_scan_outputs_of_a_loop_get_one_leading_axis(opset, shape):
    """With opset 27 in the reference evaluator, whose own Loop makes a column of scalars and a longer matrix of matrices."""
    body = h.make_graph(
        [
            h.make_node("Identity", ["goes_on"], ["still"]),
            h.make_node("Add", ["state", "step"], ["next"]),
            h.make_node("Identity", ["state"], ["row"]),
        ],
        "body",
        [tensor("i", T.INT64, []), tensor("goes_on", T.BOOL, []), tensor("state", T.FLOAT, shape)],
        [tensor("still", T.BOOL, []), tensor("next", T.FLOAT, shape), tensor("row", T.FLOAT, shape)],
    )
    item = model(
        [h.make_node("Loop", ["count", "", "start"], ["end", "rows"], body=body)],
        [tensor("count", T.INT64, []), tensor("start", T.FLOAT, shape), tensor("step", T.FLOAT, [])],
        [tensor("end", T.FLOAT, shape), tensor("rows", T.FLOAT, [None, *shape])],
        opset=opset,
    )
    session = Session(item)
    assert session.backend == ("onnxruntime" if opset == 21 else "onnx.reference")
    start = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    end, rows = session.run({"count": np.asarray(3), "start": start, "step": np.float32(2)})
    np.testing.assert_array_equal(end, start + 6)
    np.testing.assert_array_equal(rows, np.stack([start, start + 2, start + 4]))


@pytest.mark.parametrize("opset", [23, 24])
def test_a_causal_mask_of_one_row_is_that_of_every_query(opset):
    """In the reference evaluator, which counts the queries by the mask; onnxruntime takes the mask in full alone."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(1, 2, 3, 4)).astype(np.float32) for _ in range(3))
    row = rng.normal(size=(1, 1, 1, 3)).astype(np.float32)
    node = h.make_node("Attention", ["q", "k", "v", "mask"], ["y"], is_causal=1, softcap=2.0)
    operands = [tensor(name, T.FLOAT, [1, 2, 3, 4]) for name in "qkv"]
    item = model([node], [*operands, tensor("mask", T.FLOAT, [1, 1, "R", 3])], [tensor("y", T.FLOAT)], opset=opset)
    full = Session(item)
    assert full.backend == "onnxruntime"
    feeds = {"q": q, "k": k, "v": v}
    expected = full.run({**feeds, "mask": np.repeat(row, 3, axis=2)})[0]
    given = Session(item, runtime="reference").run({**feeds, "mask": row})[0]
    np.testing.assert_allclose(given, expected, atol=1e-6)


@pytest.mark.parametrize("opset", [21, 27])
@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({}, "missing"),
        ({"x": np.zeros((2, 3), np.float32), "z": 0}, "unknown"),
        ({"x": np.zeros((2, 3), np.float64)}, "float64"),
        ({"x": np.zeros((2, 4), np.float32)}, "can't run on inputs of shapes"),
    ],
)
def test_inputs_that_do_not_fit(opset, feeds, words):
    weight = onnx.numpy_helper.from_array(np.ones((3, 2), np.float32), "w")
    item = model(
        [h.make_node("MatMul", ["x", "w"], ["y"])],
        [tensor("x", T.FLOAT, ["N", 3])],
        [tensor("y", T.FLOAT, ["N", 2])],
        opset=opset,
        initializers=[weight],
    )
    with pytest.raises(InvalidInputError, match=words):
        Session(item).run(feeds)


def test_python_numbers_and_widenings_are_taken():
    item = Session(model([h.make_node("Neg", ["x"], ["y"])], [tensor("x", T.DOUBLE)], [tensor("y", T.DOUBLE)]))
    assert item.run({"x": [1, 2]})[0].tolist() == [-1, -2]
    assert item.run({"x": np.asarray([1, 2], np.float32)})[0].tolist() == [-1, -2]


def test_a_model_that_nothing_runs():
    unknown = model(
        [h.make_node("Nope", ["x"], ["y"], domain="com.acme")], [tensor("x", T.FLOAT)], [tensor("y", T.FLOAT)]
    )
    unknown.opset_import.append(h.make_opsetid("com.acme", 1))
    with pytest.raises((InvalidModelError, InvalidInputError)):
        Session(unknown).run({"x": np.zeros(1, np.float32)})


def test_strings_that_come_as_bytes():
    """TensorFlow's strings are bytes; onnxruntime takes str() of them, which is "b'a'"."""
    session = Session(model([h.make_node("Identity", ["x"], ["y"])], [tensor("x", T.STRING)], [tensor("y", T.STRING)]))
    for given in (np.array([b"a", b"\xc3\xa9", b""], object), np.array([b"a", b"\xc3\xa9", b""])):
        (result,) = session.run({"x": given})
        assert list(result) == ["a", "é", ""]
    with pytest.raises(InvalidInputError, match="UTF-8"):
        session.run({"x": np.array([b"\xff"], object)})


def test_the_reference_evaluator_leaves_the_locale_of_the_process():
    """The one of onnx sets that of a StringNormalizer for good: files would be read in another encoding from then on."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (string[N] x) => (string[N] y)
        { y = StringNormalizer <case_change_action = "UPPER", locale = "C"> (x) }"""
    )
    before = locale.setlocale(locale.LC_ALL)
    try:
        wide = locale.setlocale(locale.LC_ALL, "C.UTF-8")
        (result,) = reference_evaluator(model).run(None, {"x": np.array(["a", "b"], dtype=object)})
        assert (result.tolist(), locale.setlocale(locale.LC_ALL)) == (["A", "B"], wide)
    finally:
        locale.setlocale(locale.LC_ALL, before)


@pytest.mark.parametrize("shape", ["", "[3]"])
def test_the_reference_evaluator_draws_anew_each_run_and_for_scalars_too(shape):
    kind = f"float{shape}"
    model = onnx.parser.parse_model(
        f"<ir_version: 8, opset_import: ['' : 17]> g ({kind} x) => ({kind} y)".replace("'", '"')
        + "{ y = RandomUniformLike<low = 2.0, high = 3.0, seed = 7.0>(x) }"
    )
    evaluator = reference_evaluator(model)
    x = np.zeros((3,) if shape else (), np.float32)
    first, second = (evaluator.run(None, {"x": x})[0] for _ in range(2))
    assert first.shape == second.shape == x.shape
    assert first.dtype == np.float32
    assert not np.any(first == second)
    assert np.all((first >= 2) & (first < 3))


def test_a_session_gives_the_bits_that_the_default_settings_give():
    """How its threads wait decides no number."""
    import onnxruntime

    rng = np.random.default_rng(0)
    weight = rng.standard_normal((64, 3, 5, 5)).astype(np.float32)
    nodes = [
        h.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[5, 5]),
        h.make_node("ReduceMean", ["c", "axes"], ["m"], keepdims=0),
        h.make_node("Softmax", ["m"], ["y"]),
    ]
    axes = onnx.numpy_helper.from_array(np.asarray([2, 3]), "axes")
    proto = model(
        nodes,
        [tensor("x", T.FLOAT, ("N", 3, 64, 64))],
        [tensor("y", T.FLOAT, ("N", 64))],
        initializers=[onnx.numpy_helper.from_array(weight, "w"), axes],
    )
    feeds = {"x": rng.standard_normal((4, 3, 64, 64)).astype(np.float32)}
    usual = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(Session(proto).run(feeds)[0], usual.run(None, feeds)[0])
