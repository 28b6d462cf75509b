"""The shared table: what its columns name exists, and promotion is the frameworks' own."""

import ast
import itertools
from functools import reduce
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnxport
from onnxport.errors import UnsupportedOperator
from onnxport.graph.builder import OpBuilder
from onnxport.graph.provenance import Source
from onnxport.graph.result_types import Expected
from onnxport.opset_maps.elementwise import BY_ONNX, BY_TF, ROWS
from onnxport.opset_maps.lowerings.dtypes import common_dtype
from onnxport.opset_maps.lowerings.elementwise import COMPOSITIONS, lower_row
from onnxport.opset_maps.maps import onnx as SEMANTICS

NATIVE = [row for row in ROWS if row.since]


def test_rows_are_unique():
    assert len(BY_ONNX) == len(NATIVE)
    assert len(BY_TF) == sum(bool(row.tf) for row in ROWS)
    aten = [name for row in ROWS for name in row.aten]
    assert len(aten) == len(set(aten))


@pytest.mark.parametrize("row", NATIVE, ids=lambda row: row.onnx)
def test_since_is_the_first_version_with_these_semantics(row):
    versions = [
        s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == row.onnx and not s.domain
    ]
    assert row.since in versions
    assert len(onnx.defs.get_schema(row.onnx, row.since).inputs) in (row.arity, 1)


@pytest.mark.parametrize("row", NATIVE, ids=lambda row: row.onnx)
def test_versions_are_all_that_onnx_has(row):
    schemas = onnx.defs.get_all_schemas_with_history()
    assert row.versions == tuple(sorted(s.since_version for s in schemas if s.name == row.onnx and not s.domain))


def test_importers_know_the_versions_of_the_table():
    meanings = {}
    for entry in SEMANTICS:
        if not entry.domain:
            meanings.setdefault(entry.op_type, set()).update(entry.versions)
    assert {row.onnx: set(row.versions) for row in NATIVE} == {row.onnx: meanings[row.onnx] for row in NATIVE}


def test_compositions_are_the_lowerings_own():
    assert set(COMPOSITIONS) == {row.onnx for row in ROWS if not row.since}


# Rooms and modules that name ten operators of the table or more in one literal, and why the table can't be read there.
REPEATED = {
    "onnxport/graph/": "the graph room stands below the maps",
    "onnxport/validation/": "a proof imports no map",
    "onnxport/opset_maps/from_onnx/host.py": "operators on sizes, as Python computes them",
    "onnxport/opset_maps/from_onnx/semantics/elementwise.py": "registers a meaning for each version of an operator",
}


def is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Tuple) and all(map(is_literal, node.elts)))


def test_no_other_list_repeats_the_table():
    """A literal with ten names of the table or more is a second table."""
    names, home = {row.onnx for row in NATIVE}, Path(onnxport.__file__).parent
    repeated = set()
    for path in home.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Dict, ast.Tuple, ast.List, ast.Set)):
                children = node.keys if isinstance(node, ast.Dict) else node.elts
                if isinstance(node, ast.Dict) and not all(map(is_literal, node.values)):
                    continue  # a function an operator is no column of the table
                words = [child.value for child in children if isinstance(child, ast.Constant)]
            else:
                words = str(node.value).split() if isinstance(node, ast.Constant) else []
            if sum(word in names for word in words if isinstance(word, str)) >= 10:
                repeated.add(path.relative_to(home.parent).as_posix())
    assert sorted(path for path in repeated if not path.startswith(tuple(REPEATED))) == []


@pytest.mark.pytorch
def test_pytorch_columns():
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    for row in ROWS:
        for name in row.aten:
            packet, _, overload = name.removeprefix("aten::").partition(".")
            assert hasattr(torch.ops.aten, packet), name
            assert not overload or overload in getattr(torch.ops.aten, packet).overloads(), name
        if row.torch:
            assert callable(reduce(getattr, row.torch.split("."), torch)), row.torch


@pytest.mark.tensorflow
def test_tensorflow_columns():
    tf = pytest.importorskip("tensorflow")
    assert [row.tf for row in ROWS if row.tf and not hasattr(tf.raw_ops, row.tf)] == []


@pytest.mark.keras
def test_keras_columns():
    keras = pytest.importorskip("keras")
    missing = [row.keras for row in ROWS if row.keras and not (hasattr(keras.ops, row.keras))]
    assert missing == []


@pytest.mark.pytorch
def test_promotion_is_pytorchs():
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    from onnx_ir.tensor_adapters import from_torch_dtype

    dtypes = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
    dtypes += [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    values = [torch.zeros(shape, dtype=dtype) for shape in ((2,), ()) for dtype in dtypes]
    operands = [*values, True, 2, 2.5]
    for a, b in itertools.product(operands, operands):
        if not (isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor)):
            continue
        expected = from_torch_dtype(torch.result_type(a, b))
        said = common_dtype(
            tuple(
                ir.Value(name="v", type=ir.TensorType(from_torch_dtype(x.dtype)), shape=ir.Shape(x.shape))
                if isinstance(x, torch.Tensor)
                else x
                for x in (a, b)
            )
        )
        assert said == expected, (a, b)


def evaluate(row, *arrays):
    op = OpBuilder(21)
    dtype = ir.DataType.BOOL if row.result == "bool" else ir.DataType.from_numpy(arrays[0].dtype)
    with op.at(Source(row.onnx), [Expected(dtype)]):
        return op.constant(lower_row(row)(op, *(op.const(item) for item in arrays)))


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-20, -1e-20, 1e20, np.inf, -np.inf, np.nan])
NUMPY = {
    "square": np.square,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "trunc": np.trunc,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "not_equal": np.not_equal,
    "floor_div": np.floor_divide,
    "floor_mod": np.mod,
    "trunc_mod": np.fmod,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
}


@pytest.mark.parametrize("name", NUMPY)
def test_compositions_on_special_values(name):
    """Zeros of both signs, tiny and huge numbers, infinities and NaN give what NumPy gives."""
    row = next(row for row in ROWS if row.onnx == name)
    operands = (SPECIAL,) if row.arity == 1 else tuple(np.array(list(itertools.product(SPECIAL, SPECIAL))).T)
    with np.errstate(all="ignore"):
        expected = NUMPY[name](*operands)
    np.testing.assert_allclose(evaluate(row, *operands), expected, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("name", ["floor_div", "floor_mod", "trunc_mod"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_integer_division_rounds_as_the_source_does(name, dtype):
    row = next(row for row in ROWS if row.onnx == name)
    low = 0 if dtype == np.uint8 else -7
    a, b = np.array([(a, b) for a in range(low, 8) for b in range(low, 8) if b], dtype).T
    np.testing.assert_array_equal(evaluate(row, a, b), NUMPY[name](a, b))


def test_a_type_that_onnx_does_not_take_is_refused():
    op = OpBuilder(13)
    x = op.input("x", ir.DataType.STRING, [2])
    row = BY_ONNX["Add"]
    with op.at(Source("Add"), [Expected(ir.DataType.STRING)]), pytest.raises(UnsupportedOperator, match="no STRING"):
        lower_row(row)(op, x, x)
