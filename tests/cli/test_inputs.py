import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxport.cli.inputs import draw_inputs, read_inputs
from onnxport.cli.options import dynamic_shapes
from onnxport.errors import InvalidInputError, MissingDependencyError


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.sampled_from(["float32", "int64", "bool", "complex64"]))
def test_drawn_inputs_have_the_shape_and_type_that_was_asked_for(shape, dtype):
    (array,) = draw_inputs([f"{'x'.join(map(str, shape))}:{dtype}"])
    assert array.shape == tuple(shape)
    assert array.dtype == dtype


@pytest.mark.parametrize(
    "text", ["x", "x=", "1x", "axb", "3:float33", "3:object", "x=3:U5", "99999x99999x99999", "1,2"]
)
def test_shapes_that_make_no_sense_are_refused(text):
    with pytest.raises(InvalidInputError, match="shape"):
        draw_inputs([text])


def test_named_and_unnamed_shapes_do_not_mix():
    with pytest.raises(InvalidInputError, match="name all inputs or none"):
        draw_inputs(["x=1", "2"])


@pytest.mark.parametrize("text", ["x", "x:a", "x=batch", ":0", "x:0=two words"])
def test_dynamic_dimensions_that_make_no_sense_are_refused(text):
    with pytest.raises(InvalidInputError, match="x:0=batch"):
        dynamic_shapes([text])


def test_files(tmp_path):
    x, y = np.arange(6.0).reshape(2, 3), np.arange(4)
    np.savez(tmp_path / "named.npz", x=x, y=y)
    np.savez(tmp_path / "ordered.npz", x, y)
    np.save(tmp_path / "one.npy", x)
    (tmp_path / "lines.txt").write_text("first\nsecond\n")
    named = read_inputs(tmp_path / "named.npz", table=False)
    np.testing.assert_equal(named, {"x": x, "y": y})
    np.testing.assert_equal(read_inputs(tmp_path / "ordered.npz", table=False), (x, y))
    np.testing.assert_equal(read_inputs(tmp_path / "one.npy", table=False), (x,))
    np.testing.assert_equal(read_inputs(tmp_path / "one.npy", table=True), x)
    assert read_inputs(tmp_path / "lines.txt", table=True) == ["first", "second"]


@pytest.mark.sklearn
def test_a_table_comes_as_a_data_frame(tmp_path):
    pd = pytest.importorskip("pandas", reason="pandas comes with the extra sklearn")
    frame = pd.DataFrame({"age": [1.5, 2.0], "city": ["a", "b"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    pd.testing.assert_frame_equal(read_inputs(tmp_path / "t.csv", table=True), frame)


@pytest.mark.sklearn
def test_a_parquet_file_without_what_reads_it(tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas", reason="pandas comes with the extra sklearn")

    def missing(path):
        raise ImportError("no engine")

    monkeypatch.setattr(pd, "read_parquet", missing)
    (tmp_path / "t.parquet").touch()
    with pytest.raises(MissingDependencyError, match="pip install pyarrow"):
        read_inputs(tmp_path / "t.parquet", table=True)


@pytest.mark.parametrize("name", ["missing.npz", "broken.npz", "broken.npy", "model.onnx"])
def test_unreadable_files_are_refused(tmp_path, name):
    if not name.startswith("missing"):
        (tmp_path / name).write_bytes(b"not what it says")
    with pytest.raises(InvalidInputError, match=name):
        read_inputs(tmp_path / name, table=False)


def test_pickled_arrays_are_refused(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidInputError, match="objects.npy"):
        read_inputs(tmp_path / "objects.npy", table=False)
