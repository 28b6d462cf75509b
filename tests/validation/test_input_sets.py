"""Changes that only some inputs show are seen: each set of the proof has a planted defect that needs it."""

import time

import numpy as np
import onnx_ir as ir
import pytest
import torch
from onnx import numpy_helper, parser

import onnxport
from onnxport.validation.input_sets.domains import defined_on_nan, index_limit, takes_empty
from onnxport.validation.input_sets.drawn import DrawnInputs
from onnxport.validation.input_sets.given import in_order_of, shorter_mask
from onnxport.validation.input_sets.sizes import plans
from onnxport.validation.runners.onnx import OnnxRunner
from tests.validation.graphs import graph

FLOAT, INT64, BOOL = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.BOOL
rng = np.random.default_rng(0)


X = ("x", FLOAT, ["N", 4])
T = ("x", FLOAT, ["N", "T", 3])
IDS = ("x", INT64, ["N", "T"])
ROWS = {"x": rng.standard_normal((3, 4)).astype(np.float32)}
STEPS = {"x": rng.standard_normal((3, 6, 3)).astype(np.float32)}
NUMBERS = {"x": np.arange(3, 15).reshape(3, 4)}
TABLE = rng.standard_normal((500, 2)).astype(np.float32)
VOCABULARY = rng.standard_normal((40_000, 2)).astype(np.float32)


def first_rows(op, x, count):
    return op.Mul(
        x, op.Cast(op.Less(op.Unsqueeze(op.Range(0, op.Squeeze(op.Shape(x, end=1)), 1), [1]), count), to=FLOAT)
    )


def first_steps(op, x, count):
    steps = op.Range(0, op.Squeeze(op.Shape(x, start=1, end=2)), 1)
    return op.Mul(x, op.Cast(op.Less(op.Unsqueeze(steps, [0, 2]), count), to=FLOAT))


def one_row_doubled(op, x):
    one = op.Cast(op.Equal(op.Shape(x, end=1), 1), to=FLOAT)
    return op.Mul(x, op.Add(one, 1.0))


def looked_up(row, table=TABLE):
    """What looks up the rows of a table of which one is off by a hundredth; None for the right table."""
    table = table.copy()
    if row is not None:
        table[row] *= 1.01
    return lambda op, x: op.ReduceMean(op.Gather(op.initializer("table", ir.tensor(table)), x), [1])


# What is wrong -> the right graph, the wrong one, their input and what the user gives.
PLANTED = {
    "more rows than eight": (lambda op, x: op.Neg(x), lambda op, x: op.Neg(first_rows(op, x, 8)), X, ROWS),
    "one row": (lambda op, x: op.Neg(x), lambda op, x: op.Neg(one_row_doubled(op, x)), X, ROWS),
    "more than twice as long": (lambda op, x: op.Neg(x), lambda op, x: op.Neg(first_steps(op, x, 13)), T, STEPS),
    "length 1": (
        lambda op, x: op.ReduceMean(x, [1]),
        lambda op, x: op.Div(op.ReduceSum(x, [1]), op.Cast(op.Max(op.Shape(x, start=1, end=2), 2), to=FLOAT)),
        T,
        STEPS,
    ),
    "zeros": (lambda op, x: op.Neg(x), lambda op, x: op.Where(op.Equal(x, 0.0), 1.0, op.Neg(x)), X, ROWS),
    "beyond 6": (lambda op, x: op.Relu(x), lambda op, x: op.Clip(x, 0.0, 6.0), X, ROWS),
    "beyond 100": (lambda op, x: op.Relu(x), lambda op, x: op.Clip(x, 0.0, 100.0), X, ROWS),
    "halves": (lambda op, x: op.Round(x), lambda op, x: op.Floor(op.Add(x, 0.5)), X, ROWS),
    "negative numbers": (
        lambda op, x: op.Abs(x),
        lambda op, x: op.Relu(x),
        X,
        {"x": np.abs(ROWS["x"])},
    ),
    "NaN": (lambda op, x: op.Neg(x), lambda op, x: op.Where(op.IsNaN(x), 0.0, op.Neg(x)), X, ROWS),
    "infinity": (lambda op, x: op.Neg(x), lambda op, x: op.Where(op.IsInf(x), 0.0, op.Neg(x)), X, ROWS),
    "negative integers": (lambda op, x: op.Add(x, 1), lambda op, x: op.Abs(op.Add(x, 1)), IDS, NUMBERS),
    "a row of a table": (looked_up(None), looked_up(417), IDS, NUMBERS),
    "a row of a vocabulary": (looked_up(None, VOCABULARY), looked_up(31_415, VOCABULARY), IDS, NUMBERS),
    "large integers": (
        lambda op, x: op.Add(x, 1),
        lambda op, x: op.Cast(op.Cast(op.Add(x, 1), to=ir.DataType.INT32), to=INT64),
        IDS,
        NUMBERS,
    ),
}


@pytest.mark.parametrize("inputs", ["given", "drawn"])
@pytest.mark.parametrize("what", PLANTED)
def test_what_only_some_inputs_show_is_seen(what, inputs):
    right, wrong, signature, given = PLANTED[what]
    examples = tuple(given.values()) if inputs == "given" else None
    source = graph(right, signature)
    assert onnxport.validate(source, graph(right, signature), examples).passed
    report = onnxport.validate(source, graph(wrong, signature), examples)
    assert not report.passed
    assert inputs == "drawn" or report.sets[0].passed


@pytest.mark.parametrize("seconds", [0.1, 0.9])  # the second, twenty times over, is more than a file's runs may take
def test_a_first_run_that_takes_long_leaves_no_set_out(monkeypatch, tmp_path, seconds):
    """As in a fresh process: what is loaded once is not the price of every set."""
    right, wrong, signature, _ = PLANTED["a row of a table"]
    run, runs = OnnxRunner.run, []

    def slow_at_first(self, leaves):
        runs.append(self)
        until = time.process_time() + seconds
        while len(runs) == 1 and time.process_time() < until:
            pass
        return run(self, leaves)

    files = [tmp_path / "right.onnx", tmp_path / "wrong.onnx"]
    for file, write in zip(files, (right, wrong), strict=True):
        graph(write, signature).save(file)
    monkeypatch.setattr(OnnxRunner, "run", slow_at_first)
    report = onnxport.validate(*files)
    assert report.verdict == "failed"
    assert not any("left out for time" in note for note in report.notes)


def test_a_table_whose_rows_give_too_much_is_left_out_by_name():
    """40,000 rows of 1,000 numbers are 160 MB."""

    def write(op, x):
        table = op.Gather(op.initializer("table", ir.tensor(VOCABULARY)), x)
        return op.Tile(table, op.Constant(value_ints=[1, 1, 500]))

    report = onnxport.validate(graph(write, IDS), graph(write, IDS), (NUMBERS["x"],))
    assert report.passed
    assert any("left out" in note and "every row of tables (N=40000, T=1)" in note for note in report.notes)


def test_a_table_with_more_rows_than_the_inputs_have_elements_is_not_called_asked_whole():
    sizes = ("x", INT64, [3, 4])
    report = onnxport.validate(graph(looked_up(None), sizes), graph(looked_up(None), sizes), (NUMBERS["x"],))
    assert report.passed
    assert [item.name for item in report.sets if "tables" in item.name] == ["as many rows of tables as fit"]


@pytest.mark.parametrize("kept", ["Where", "Clip", "Max", "Mod"])
def test_every_row_is_asked_for_where_an_index_is_kept_within_its_table(kept):
    """As Keras' embeddings, which wrap what is below 0 around."""

    def through(row):
        def write(op, x):
            least, most = op.Constant(value_int=0), op.Constant(value_int=len(TABLE))
            forms = {
                "Where": lambda: op.Where(op.Less(x, least), op.Add(x, most), x),
                "Clip": lambda: op.Clip(x, least, op.Sub(most, op.Constant(value_int=1))),
                "Max": lambda: op.Max(x, least),
                "Mod": lambda: op.Mod(x, most),
            }
            return looked_up(row)(op, forms[kept]())

        return graph(write, IDS)

    assert onnxport.validate(through(None), through(None), tuple(NUMBERS.values())).passed
    assert onnxport.validate(through(None), through(417), tuple(NUMBERS.values())).verdict == "failed"


def test_columns_of_whole_numbers_keep_what_they_mean():
    """As the fields of a table, of which each has rows of its own in one embedding."""
    offsets = np.array([0, 3, 100, 400])

    def through(row):
        return graph(lambda op, x: looked_up(row)(op, op.Add(x, op.Constant(value_ints=offsets.tolist()))), IDS)

    given = np.stack([rng.integers(size, size=6) for size in (3, 97, 300, 100)], axis=1)
    given[0] = 2, 96, 299, 99
    assert "many rows, shorter (N=11, T=4)" in [
        item.name for item in onnxport.validate(through(None), through(None), (given,)).sets
    ]
    assert onnxport.validate(through(None), through(int(given[3, 2]) + 100), (given,)).verdict == "failed"


def test_a_length_that_is_the_sum_of_two_others_stays_their_sum():
    for plan in plans({"batch": 2, "past": 3, "new": 4, "total": 7}, {"batch"}):
        assert all(sizes["total"] == sizes["past"] + sizes["new"] for sizes in plan.candidates if sizes["past"] != 1)


def test_a_decoder_that_needs_past_and_new_to_add_up_is_not_refused():
    write = lambda op, past, new, mask: op.Mul(op.Concat(past, new, axis=1), mask)  # noqa: E731
    model = graph(write, ("past", FLOAT, ["N", "P"]), ("new", FLOAT, ["N", "Q"]), ("mask", FLOAT, ["N", "total"]))
    given = (np.ones((2, 3), np.float32), np.full((2, 4), 2, np.float32), rng.random((2, 7)).astype(np.float32))
    report = onnxport.validate(model, model, given)
    assert report.passed
    assert any(item.inputs[2][2] == (11, 3) for item in report.sets), report


def test_a_decoder_of_one_token_at_a_time_is_not_refused():
    """Its source leaves a mask of ones out, as transformers' models do, and so runs on a mask of any length."""
    write = lambda op, past, ids, mask: op.Mul(op.Concat(past, op.Cast(ids, to=FLOAT), axis=1), mask)  # noqa: E731
    signature = (("past", FLOAT, ["N", "P"]), ("ids", ir.DataType.INT64, ["N", 1]), ("mask", FLOAT, ["N", "total"]))
    without = graph(lambda op, past, ids, mask: op.Concat(past, op.Cast(ids, to=FLOAT), axis=1), *signature)
    given = (np.full((2, 4), 2, np.float32), np.ones((2, 1), np.int64), np.ones((2, 5), np.float32))
    report = onnxport.validate(without, graph(write, *signature), given)
    assert {item.inputs[2][2][1] - item.inputs[0][2][1] for item in report.sets} == {1}, report


def test_offsets_stay_in_order_and_masks_keep_their_meaning():
    offsets = np.asarray([0, 2, 5, 9])
    assert list(in_order_of(offsets, np.asarray([3, 1, 2, 0]))) == [0, 1, 2, 3]
    mask = shorter_mask(np.ones((2, 6), np.int64))
    assert mask.tolist() == [[1] * 6, [1] * 4 + [0] * 2]


def test_integers_stay_within_the_table_they_look_up():
    table = ir.tensor(rng.standard_normal((5, 2)).astype(np.float32))
    model = graph(lambda op, x: op.Gather(op.initializer("table", table), x), IDS)
    inputs = DrawnInputs(model.model)
    assert index_limit(model.model.graph.inputs[0]) == 5
    next(inputs.first())
    edges = next(inputs.at("edges", {"N": 8, "T": 9}, "edges", 0)).leaves[0]
    assert edges.min() < 0
    assert edges.min() >= -5
    assert edges.max() <= 4


def test_what_is_cast_between_floats_is_drawn_as_any_number():
    """As a float16 model is that takes float32; what becomes whole needs numbers beyond 1."""
    half = graph(lambda op, x: op.Tanh(op.Cast(x, to=ir.DataType.FLOAT16)), X)
    whole = graph(lambda op, x: op.Cast(x, to=INT64), X)
    small, large = (np.abs(next(DrawnInputs(item.model).first()).leaves[0]).max() for item in (half, whole))
    assert small < 6
    assert large > 6


@pytest.mark.parametrize(
    ("nodes", "settled"),
    [
        ("y = Cast <to = 1> (x)", True),
        ("e = Cast <to = 24> (x) y = Cast <to = 1> (e)", False),
        ('y = ScatterND <reduction = "add"> (x, i, u)', True),
        ('y = ScatterND <reduction = "max"> (x, i, u)', False),
    ],
)
def test_forms_that_leave_nan_open(nodes, settled):
    head = '<ir_version: 13, opset_import: ["": 24]> g (float[4] x, int64[2, 1] i, float[2] u) => (float[4] y) '
    graph = ir.from_proto(parser.parse_model(f"{head} {{ {nodes} }}")).graph
    assert defined_on_nan(graph) == settled


@pytest.mark.pytorch
@pytest.mark.parametrize("function", [torch.var_mean, torch.std_mean])
def test_infinities_are_not_tried_where_their_place_decides(function):
    """What torch gives as mean beside a variance is infinite for one as the last number, NaN for one before."""

    class Both(torch.nn.Module):
        def forward(self, x):
            return function(x, 1)

    for seed in range(4):
        report = onnxport.convert(Both(), inputs=(torch.randn(2, 3 + seed),)).report
        assert report.passed
        assert not any(item.name.startswith("not finite") for item in report.sets)


def test_edges_of_what_becomes_half_precision_do_not_overflow_there():
    """As a model of mixed precision is that takes float32: the runtime keeps sums of float32 between its operators."""
    half = graph(lambda op, x: op.Tanh(op.Cast(x, to=ir.DataType.FLOAT16)), X)
    for item, most in ((half, 12.0), (graph(lambda op, x: op.Tanh(x), X), 1000.0)):
        inputs = DrawnInputs(item.model)
        inputs.settle(next(inputs.first()))
        edges = next(inputs.at("edges", {"N": 8}, "edges", 0)).leaves[0]
        assert most / 4 < np.abs(edges).max() <= most


DRAWN = {
    "Reshape": (lambda op, x, s: op.Reshape(x, s), [X, ("s", INT64, [2])]),
    "Slice": (lambda op, x, a, b: op.Slice(x, a, b, [1]), [X, ("a", INT64, [1]), ("b", INT64, [1])]),
    "TopK": (lambda op, x, k: op.TopK(x, k)[0], [X, ("k", INT64, [1])]),
    "Pad": (lambda op, x, p: op.Pad(x, p), [X, ("p", INT64, [4])]),
    "Tile": (lambda op, x, r: op.Tile(x, r), [X, ("r", INT64, [2])]),
    "ReduceSum": (lambda op, x, axes: op.ReduceSum(x, axes), [X, ("axes", INT64, [1])]),
    "CumSum": (lambda op, x, axis: op.CumSum(x, axis), [X, ("axis", INT64, [])]),
    "GatherElements": (lambda op, x, i: op.GatherElements(x, i, axis=1), [X, ("i", INT64, ["N", 2])]),
    "Div": (lambda op, x, y: op.Div(x, y), [IDS, ("y", INT64, ["N", "T"])]),
}


@pytest.mark.parametrize("name", DRAWN)
def test_operands_are_drawn_as_their_operator_takes_them(name):
    write, signature = DRAWN[name]
    model = graph(write, *signature)
    report = onnxport.validate(model, model)
    assert report.passed, report
    assert len(report.sets) > 2, report


def test_a_given_zero_point_far_from_zero_is_varied_at_the_edges():
    write = lambda op, x, point: op.QuantizeLinear(x, 0.25, point)  # noqa: E731
    model = graph(write, X, ("point", ir.DataType.UINT8, []))
    report = onnxport.validate(model, model, (ROWS["x"], np.asarray(100, np.uint8)))
    assert report.passed
    assert any(item.name.startswith("edges") for item in report.sets), report


@pytest.mark.pytorch
def test_indices_that_count_from_the_end_are_drawn_only_for_a_source_that_takes_them():
    import torch

    module = torch.nn.Sequential(torch.nn.Embedding(20, 6), torch.nn.Linear(6, 3)).eval()
    converted = onnxport.convert(module, inputs=(torch.arange(14).reshape(2, 7),), validate=False)
    assert onnxport.validate(module, converted).passed
    drawn = next(DrawnInputs(converted.model).first()).leaves[0]
    assert drawn.min() < 0
    assert onnxport.validate(converted, converted).passed


def test_what_runtimes_do_not_run_without_rows_is_not_tried():
    assert takes_empty(graph(lambda op, x: op.Relu(x), X).model.graph)
    assert not takes_empty(graph(lambda op, x: op.CumSum(x, 0), X).model.graph)


@pytest.mark.pytorch
@pytest.mark.parametrize("opset", [11, 18])
def test_sums_over_the_last_axis_of_a_file_are_proved(opset):
    """Of no rows onnxruntime leaves an axis that is counted from the last."""
    form = "<axes = [-1], keepdims = 0>(x)" if opset == 11 else "<keepdims = 0>(x, a)"
    body = (
        f"{{ a = Constant<value_ints = [-1]>() y = ReduceSum{form} }}" if opset > 11 else f"{{ y = ReduceSum{form} }}"
    )
    head = f'<ir_version: 7, opset_import: ["" : {opset}]> g (float[N, 4] x) => (float[N] y)'
    model = onnxport.OnnxModel(ir.from_proto(parser.parse_model(f"{head} {body}")))
    onnxport.convert(model, to="pytorch")
    assert not takes_empty(model.model.graph)


def test_sets_that_take_too_long_are_left_out_and_named(monkeypatch):
    from onnxport.validation.input_sets import ledger

    monkeypatch.setattr(ledger, "_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "_TIMES", 0.0)
    model = graph(lambda op, x: op.Relu(x), X)
    report = onnxport.validate(model, model, (ROWS["x"],))
    assert [item.name for item in report.sets] == ["given"]
    assert "left out for time: many rows, shorter (N=11)" in str(report)


def test_of_what_there_is_no_time_for_one_candidate_a_set_is_drawn(monkeypatch):
    from onnxport.validation.input_sets import ledger

    monkeypatch.setattr(ledger, "_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "_TIMES", 0.0)
    drawn = []
    model = graph(lambda op, x: op.Relu(x), X)
    draw = DrawnInputs._draw
    monkeypatch.setattr(DrawnInputs, "_draw", lambda self, *rest: drawn.append(rest) or draw(self, *rest))
    report = onnxport.validate(model, model)
    left_out = next(note for note in report.notes if note.startswith("left out for time"))
    assert len(drawn) <= len(report.sets) + left_out.count(",") + 2


def test_a_set_of_other_sizes_for_which_there_is_no_time_is_not_drawn(monkeypatch):
    from onnxport.validation.input_sets import given, ledger

    monkeypatch.setattr(ledger, "_BYTES", 3 * ROWS["x"].nbytes)
    monkeypatch.setattr(ledger, "_BYTES_TIMES", 1)
    drawn = []
    vary = given.vary
    monkeypatch.setattr(given, "vary", lambda leaf, rng: drawn.append(leaf.shape[0]) or vary(leaf, rng))
    model = graph(lambda op, x: op.Relu(x), X)
    report = onnxport.validate(model, model, (ROWS["x"],))
    assert "left out for time: many rows, shorter (N=11)" in str(report)
    assert drawn
    assert 11 not in drawn


@pytest.mark.keras
def test_where_a_window_is_larger_than_the_image_the_file_may_stop():
    """TensorFlow goes on with no elements; the mean of these, a bias and a softmax give numbers."""
    import keras

    keras.utils.set_random_seed(0)
    x = keras.Input((None, None, 3))
    hidden = keras.layers.DepthwiseConv2D(3, strides=2)(keras.layers.ZeroPadding2D(((0, 1), (0, 1)))(x))
    model = keras.Model(x, keras.layers.Dense(2)(keras.layers.ReLU()(keras.layers.GlobalAveragePooling2D()(hidden))))
    report = onnxport.convert(model, inputs=(np.ones((2, 8, 8, 3), np.float32),)).report
    assert report.passed
    assert any("left out, the converted model can't run" in note for note in report.notes), report.notes


@pytest.mark.pytorch
@pytest.mark.keras
def test_convolutions_of_no_rows_are_not_asked_of_a_target_that_has_none():
    import torch

    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU()).eval()
    image = torch.ones(2, 1, 5, 5)
    sets = [onnxport.convert(net, to=to, inputs=(image,)).onnxport_report.sets for to in ("pytorch", "keras")]
    assert [any(item.name.startswith("no rows") for item in ran) for ran in sets] == [True, False]


def test_lengths_that_are_sorted_before_a_recurrent_layer_are_lengths():
    class Packed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.GRU(4, 5, batch_first=True)

        def forward(self, steps, lengths):
            packed = torch.nn.utils.rnn.pack_padded_sequence(steps, lengths, batch_first=True, enforce_sorted=False)
            padded, _ = torch.nn.utils.rnn.pad_packed_sequence(self.body(packed)[0], batch_first=True, total_length=7)
            return padded.sum(1) / lengths[:, None]

    model = onnxport.convert(Packed().eval(), inputs=(torch.randn(2, 7, 4), torch.tensor([7, 3])))
    report = onnxport.convert(model, to="pytorch").onnxport_report  # nothing given: all lengths are drawn
    assert report.verdict == "passed"
    assert not [note for note in report.notes if "onnx.reference" in note]


# Models that run at few of the sizes that their files leave free, as optimum exports them; kernels are the weights w.
FEW_SIZES = {
    "channels": (
        "(float[n, c, h, w_] x) => (float[n, 4, p, q] y) { a = Cast<to = 1>(x) y = Conv<strides = [2, 2]>(a, w) }",
        {"w": (4, 3, 2, 2)},
    ),
    "a picture of one size": (
        """(float[n, c, h, w_] x) => (float[n, 16, 5] y)
        { p = Conv<kernel_shape = [6, 6], strides = [6, 6]>(x, w) s = Shape<end = 2>(p) minus = Constant<value_ints = [-1]>()
          t = Concat<axis = 0>(s, minus) r = Reshape(p, t) q = Transpose<perm = [0, 2, 1]>(r) y = Add(q, places) }""",
        {"w": (5, 3, 6, 6), "places": (1, 16, 5)},
    ),
    "channels of a kernel in a node": (
        """(float[n, c, h, v] x) => (float[n, 1, p, q] y)
        { w = Constant<value = float[1, 2, 1, 1] {1.0, 2.0}>() two = Constant<value = float {2.0}>()
          a = Mul(x, two) y = Conv(a, w) }""",
        {},
    ),
    "a long sound": (
        """(float[n, samples] x) => (float[n, 4, l] y)
        { one = Constant<value_ints = [1]>() a = Unsqueeze(x, one) y = Conv<strides = [160]>(a, w) }""",
        {"w": (4, 1, 400)},
    ),
}


@pytest.mark.pytorch
@pytest.mark.parametrize("name", FEW_SIZES)
def test_a_model_that_runs_at_few_sizes_is_proved_in_the_users_runtime(name):
    text, weights = FEW_SIZES[name]
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {text}')
    for key, shape in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(rng.random(shape, np.float32), key))
    onnxport.convert(model, to="pytorch")  # a source that ran elsewhere would be warned about
