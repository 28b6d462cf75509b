"""Pooling, transposed convolution and slices with awkward attributes, against onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import onnxport
from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.from_onnx.semantics.microsoft_blocked import block_size
from tests.evidence import require_import

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch


def run(op, x, weights=(), opset=21, **attributes):
    names = [f"w{i}" for i in range(len(weights))]
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *names], ["y"], **attributes)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x.shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, name) for weight, name in zip(weights, names, strict=True)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    require_import(proto, "pytorch", (x,))


def drawn(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (3, 1), (4, 3), (2, 2)])
@pytest.mark.parametrize("size", [7, 8, 9])
def test_pooling_pads_by_itself(op, auto_pad, kernel, stride, size):
    run(op, drawn(1, 2, size), kernel_shape=[kernel], strides=[stride], auto_pad=auto_pad)


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize(("kernel", "stride", "pads"), [(3, 2, (1, 1)), (3, 2, (0, 1)), (2, 3, (1, 0)), (4, 3, (2, 1))])
@pytest.mark.parametrize("size", [6, 7, 8])
def test_pooling_rounds_up(op, ceil_mode, kernel, stride, pads, size):
    run(op, drawn(1, 2, size), kernel_shape=[kernel], strides=[stride], pads=list(pads), ceil_mode=ceil_mode)


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize(("pads", "counted"), [((0, 0), 0), ((1, 0), 0), ((1, 2), 1)])
def test_a_window_larger_than_the_image_is_not_filled_up(op, pads, counted):
    """As torch.onnx writes EfficientNet's pooling of 2560 x 2560 elements with ceil_mode, over whatever image comes."""
    size = 100_000_000  # elements that no tensor here could be padded to, channel by channel
    more = {"count_include_pad": counted} if op == "AveragePool" else {}
    run(op, drawn(2, 40, 6), opset=22, kernel_shape=[size], strides=[size], pads=list(pads), ceil_mode=1, **more)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
@pytest.mark.parametrize(("kernel", "stride", "extra"), [(3, 2, 0), (3, 2, 1), (2, 2, 1), (4, 3, 2), (2, 3, 0)])
@pytest.mark.parametrize("size", [4, 5])
def test_transposed_convolution_pads_by_itself(auto_pad, kernel, stride, extra, size):
    weight = drawn(2, 3, kernel)
    run("ConvTranspose", drawn(1, 2, size), [weight], strides=[stride], auto_pad=auto_pad, output_padding=[extra])


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "NOTSET"])
@pytest.mark.parametrize("asked", [8, 9, 10, 11])
def test_transposed_convolution_gives_the_size_that_is_asked(auto_pad, asked):
    run("ConvTranspose", drawn(1, 2, 5), [drawn(2, 3, 3)], strides=[2], auto_pad=auto_pad, output_shape=[asked])


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        (-9, 100, 1),
        (9, -100, -1),
        (-9, -100, -1),
        (3, -9, -2),
        (-1, 0, -1),
        (2, 2, 1),
        (0, 5, 3),
        (-100, 100, 2),
        (4, -6, -3),
    ],
)
def test_slices_reach_beyond_the_ends(start, end, step):
    run("Slice", drawn(5, 2), [np.int64([item]) for item in (start, end, 0, step)])


def test_windows_that_leave_gaps_are_refused_where_runtimes_differ():
    with pytest.raises(onnxport.UnsupportedOperator, match="write the pads"):
        run("AveragePool", drawn(1, 2, 9), kernel_shape=[1], strides=[3], auto_pad="SAME_UPPER")


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_windows_with_gaps_are_not_padded_by_themselves(op, auto_pad):
    with pytest.raises(onnxport.UnsupportedOperator, match="write the pads"):
        run(op, drawn(1, 2, 9), opset=22, kernel_shape=[2], dilations=[2], auto_pad=auto_pad)


@pytest.mark.tensorflow
@pytest.mark.parametrize("to", ["tensorflow", "keras"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("width", [4, "W"])
def test_one_column_of_one_channel_is_right_in_a_batch(to, groups, width):
    """Whose numbers TensorFlow's own kernel gets wrong."""
    pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], strides=[1, 3], group=groups)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", groups, 5, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(drawn(2 * groups, 1, 2, 2), "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    require_import(proto, to, (drawn(4, groups, 5, 4),))


def test_blocks_of_another_processor_are_refused_by_name():
    """Channels that are filled up to other blocks than those of onnxruntime here."""
    size = block_size()
    text = f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft.nchwc": 1]>
    g (float[1, {3 * size // 2}, 4, 4] x) => (float[N, 4, h, v] y) {{
      a = Relu(x) y = com.microsoft.nchwc.ReorderOutput <channels = 4> (a) }}"""
    with pytest.raises(UnsupportedOperator, match="a processor of other blocks"):
        onnxport.convert(parser.parse_model(text), to="pytorch", validate=False)
