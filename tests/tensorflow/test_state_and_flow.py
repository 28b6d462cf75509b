"""Variables written before they are read, TensorFlow 1's loops, branches, arrays and variables, lists of unknown shape."""

import numpy as np
import pytest
import tensorflow as tf

import onnxport
from onnxport.errors import UnsupportedOperator
from onnxport.tracing.tensorflow_functions import of_concrete

pytestmark = pytest.mark.tensorflow

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
ROWS = tf.TensorSpec([None, 3], tf.float32)
V1 = tf.compat.v1

UNNAMED = [tf.Variable(tf.ones([3])), tf.Variable([0.5, 1.0, 2.0])]


def module(compute, spec=ROWS):
    """A module with a variable `v`, whose function is `compute` of the variable and the input."""
    result = tf.Module()
    result.v = tf.Variable(tf.ones([3]), name="v")
    inner = tf.function(lambda x: compute(result.v, x))
    result.f = tf.function(lambda x: inner(x), input_signature=[spec])
    return result


def overwritten(v, x):
    v.assign(tf.reduce_sum(x, 0))
    before = v * x
    v.assign_add(tf.ones([3]))
    return before, v + x


def chosen(v, x):
    v.assign(x[0])
    if tf.reduce_sum(x) > 0:
        v.assign(x[1])
    return v + x


def counted(v, x):
    v.assign_add(tf.ones([3]))
    return x * 2.0


def grown(v, x):
    items = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    k = 0
    while tf.reduce_sum(tf.abs(x)) < 100.0:
        x = x * 1.5
        items = items.write(k, x[0])
        k += 1
    return items.stack(), k


def of_one_name(v, x):
    """TensorFlow calls every variable without a name "Variable"."""
    first, second = UNNAMED
    first.assign(tf.reduce_sum(x, 0))
    return x * first + second


def each(v, x):
    return tf.vectorized_map(lambda row: tf.linalg.matvec(tf.linalg.diag(v), row) * tf.reduce_sum(row), x)


@pytest.mark.parametrize("compute", [overwritten, of_one_name, counted, grown, each], ids=lambda item: item.__name__)
def test_state_and_lists(compute):
    assert onnxport.convert(module(compute), inputs=(X,)).report.verdict == "passed"


def test_unknown_rank():
    model = tf.function(lambda x: (tf.reduce_sum(x), tf.rank(x)), input_signature=[tf.TensorSpec(None, tf.float32)])
    assert onnxport.convert(model, inputs=(X,)).report.verdict == "passed"


@pytest.mark.parametrize("compute", [chosen, lambda v, x: (counted(v, x), v + x)[1]], ids=["in a branch", "counter"])
def test_writes_that_a_graph_can_not_hold_are_refused(compute):
    with pytest.raises(UnsupportedOperator, match="an ONNX graph has no state"):
        onnxport.convert(module(compute), inputs=(X,))


def loop(x):
    return V1.while_loop(lambda k, y: k < 4, lambda k, y: (k + 1, y * 1.1 + 1.0), [tf.constant(0), x])[1]


def nested(x):
    def outer(k, y):
        return k + 1, V1.while_loop(lambda j, z: j < k, lambda j, z: (j + 1, z * 0.5 + x), [tf.constant(0), y])[1]

    return V1.while_loop(lambda k, y: k < 3, outer, [tf.constant(0), x])[1]


def branches(x):
    inner = V1.cond(x[0, 0] > 9, lambda: x[:1], lambda: x - 1.0)
    return V1.cond(tf.reduce_sum(x) > 99, lambda: x * 2.0, lambda: tf.concat([inner, x], 0)), V1.cond(
        tf.reduce_sum(x) < 99, lambda: tf.constant(1.0), lambda: x[0, 0]
    )


def recurrence(x):
    kernel = V1.get_variable("kernel", [3, 3], use_resource=False)
    rows = tf.TensorArray(tf.float32, 4).unstack(x)

    def step(k, state, results):
        state = tf.tanh(rows.read(k)[tf.newaxis] + tf.matmul(state, kernel))
        return k + 1, state, results.write(k, state)

    states = [tf.constant(0), tf.zeros([1, 3]), tf.TensorArray(tf.float32, 4)]
    _, state, results = V1.while_loop(lambda k, *_: k < 4, step, states)
    return state, results.stack()


def looked_up(x):
    words = tf.lookup.KeyValueTensorInitializer(tf.constant([-1, 0, 1], tf.int64), tf.constant([5, 6, 7], tf.int64))
    return V1.lookup.StaticHashTable(words, -1).lookup(tf.cast(x, tf.int64))


@pytest.mark.parametrize("build", [loop, nested, branches, recurrence, looked_up], ids=lambda item: item.__name__)
def test_saved_models_of_tensorflow_1(tmp_path, build):
    graph = tf.Graph()
    with graph.as_default(), V1.Session() as session:
        V1.disable_control_flow_v2()
        try:
            x = V1.placeholder(tf.float32, [4, 3], name="x")
            results = tf.nest.flatten(build(x))
        finally:
            V1.enable_control_flow_v2()
        session.run([V1.global_variables_initializer(), V1.tables_initializer()])
        outputs = {f"y{k}": item for k, item in enumerate(results)}
        V1.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, outputs, V1.tables_initializer())
    assert onnxport.convert(str(tmp_path / "m"), inputs=(X,)).report.verdict == "passed"


def test_the_first_read_of_a_variable_reads_all_and_a_later_one_its_present_value(monkeypatch):
    first, second = tf.Variable([1.0]), tf.Variable([2.0])
    program = of_concrete(tf.function(lambda x: x * first + second).get_concrete_function(tf.TensorSpec([1])))
    handles, own = [], tf.raw_ops.ReadVariableOp
    monkeypatch.setattr(
        tf.raw_ops, "ReadVariableOp", lambda **kwargs: handles.append(id(kwargs["resource"])) or own(**kwargs)
    )
    variables = list(program.captured.values())
    assert [float(item.read()[0]) for item in variables] == [1.0, 2.0]
    assert len(handles) == 2, "each once, before any value is used"
    second.assign([5.0])
    assert float(variables[1].read()[0]) == 5.0


def test_a_variable_without_a_value_fails_where_its_value_is_read_alone(monkeypatch):
    empty, full = tf.Variable([1.0]), tf.Variable([2.0])
    program = of_concrete(tf.function(lambda x: x * empty + full).get_concrete_function(tf.TensorSpec([1])))
    own = tf.raw_ops.ReadVariableOp

    def read(resource, dtype):
        if resource is empty.handle:
            raise tf.errors.FailedPreconditionError(None, None, "no value")
        return own(resource=resource, dtype=dtype)

    monkeypatch.setattr(tf.raw_ops, "ReadVariableOp", read)
    unset, given = program.captured.values()
    assert float(given.read()[0]) == 2.0
    with pytest.raises(tf.errors.FailedPreconditionError):
        unset.read()
