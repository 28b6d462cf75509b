"""Arguments of tf2onnx and torch.onnx, each honoured or refused by name."""

import numpy as np
import onnxruntime
import pytest

from onnxport.compat import from_function, from_graph_def, from_keras, from_tflite, torch_onnx_export
from onnxport.compat.skl2onnx.common.data_types import FloatTensorType
from onnxport.compat.tf2onnx.keras2onnx_api import convert_keras

tf = pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
keras = pytest.importorskip("keras", reason="Keras is an extra")
torch = pytest.importorskip("torch", reason="PyTorch is an extra")

pytestmark = [pytest.mark.keras, pytest.mark.tensorflow, pytest.mark.pytorch]
IMAGES = np.random.default_rng(0).standard_normal((2, 4, 4, 3)).astype(np.float32)


@tf.function
def halved(x):
    return x[:, ::2] * 2.0


def net():
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((4, 4, 3), name="img"), keras.layers.Conv2D(2, 3)])


def spec(name=None):
    return [tf.TensorSpec((2, 4, 4, 3), name=name)]


TAKES = "it takes model, input_signature, opset"
# What a call answers.
CALLS = {
    f"tf2onnx.convert.from_keras: input_names=['x'] is not taken: {TAKES}": lambda: from_keras(None, input_names=["x"]),
    "from_keras: missing a required argument: 'model'": lambda: from_keras(),
    "from_keras: signature_def='f' is not taken: onnxport.convert(folder, signature=": lambda: from_keras(
        net(), signature_def="f"
    ),
    "from_keras: dequantize=True is not taken: from_tflite takes it": lambda: from_keras(net(), dequantize=True),
    "from_function: tag='serve' is not taken: onnxport tf2onnx --tag": lambda: from_function(halved, tag="serve"),
    "from_keras: input_signature holds 'abc': a tf.TensorSpec": lambda: from_keras(net(), "abc"),
    "from_keras: shape_override is a list: a dict, such as": lambda: from_keras(net(), shape_override=[1]),
    "from_keras: output_path=3: the path of a file": lambda: from_keras(net(), output_path=3),
    "from_function: inputs_as_nchw='x': a list of names": lambda: from_function(halved, spec(), inputs_as_nchw="x"),
    "from_graph_def: input_names='x:0': a list of names, such as ['x:0']": lambda: from_graph_def(
        None, input_names="x:0"
    ),
    "from_graph_def: tensors_to_rename is a list": lambda: from_graph_def(None, tensors_to_rename=["x"]),
    "from_tflite: tflite_path=None: the path of a file": lambda: from_tflite(None),
    "convert_keras: initial_types holds 3: names and types": lambda: convert_keras(net(), initial_types=[3]),
    "convert_keras: custom_op_conversions={'Op': 1} is not taken": lambda: convert_keras(
        net(), custom_op_conversions={"Op": 1}
    ),
    "example_outputs=1 is not taken: outputs follow": lambda: torch_onnx_export(None, (), example_outputs=1),
    "use_external_data_format=True is not taken: external_data=True": lambda: torch_onnx_export(
        None, (), use_external_data_format=True
    ),
    "opset_versio=17 is not taken: did you mean opset_version=?": lambda: torch_onnx_export(None, (), opset_versio=17),
    "torch_onnx_export: too many positional arguments: it takes model": lambda: torch_onnx_export(1, 2, 3, 4),
    "training='eval' is none of TrainingMode.EVAL": lambda: torch_onnx_export(None, (), training="eval"),
    "operator_export_type='ATEN' is none of OperatorExportTypes": lambda: torch_onnx_export(
        None, (), operator_export_type="ATEN"
    ),
    "kwargs is a list: a dict": lambda: torch_onnx_export(None, (), kwargs=[1]),
    "custom_opsets is a list: a dict": lambda: torch_onnx_export(None, (), custom_opsets=[1]),
    "verbose='yes': True or False": lambda: torch_onnx_export(None, (), verbose="yes"),
    "artifacts_dir=3: the path": lambda: torch_onnx_export(None, (), artifacts_dir=3),
    "dynamic_axes: 'batch' is neither axes with names": lambda: torch_onnx_export(
        torch.nn.ReLU(), (torch.ones(2),), dynamic_axes={"input": "batch"}
    ),
    "program.save: include_data=1 is not taken": lambda: torch_onnx_export(torch.nn.ReLU(), (torch.ones(2),)).save(
        "a.onnx", include_data=1
    ),
}


@pytest.mark.parametrize("message", CALLS)
def test_an_argument_that_does_not_fit_is_answered(message):
    with pytest.raises(ValueError) as caught:
        CALLS[message]()
    assert message in str(caught.value)


def run(proto, *inputs):
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {item.name: x for item, x in zip(session.get_inputs(), inputs, strict=True)}
    return session.run(None, feeds)[0]


@pytest.mark.parametrize("name", ["input", "input:0"])
@pytest.mark.parametrize("given", ["input", "input:0"])
def test_channels_go_by_an_inputs_name_with_its_place_or_without(name, given):
    proto, _ = from_function(halved, spec(name), inputs_as_nchw=[given], outputs_as_nchw=["Identity:0"])
    assert proto.graph.input[0].name == name
    np.testing.assert_allclose(
        run(proto, IMAGES.transpose(0, 3, 1, 2)), halved(IMAGES).numpy().transpose(0, 3, 1, 2), rtol=1e-5
    )


def test_keras2onnx_is_there_too():
    model = net()
    types = ["image", FloatTensorType([None, 4, 4, 3])]
    proto = convert_keras(model, "nets", "a text", 15, initial_types=types, channel_first_inputs=["image"])
    assert (proto.graph.name, proto.graph.doc_string, proto.opset_import[0].version) == ("nets", "a text", 15)
    assert proto.graph.input[0].name == "image"
    np.testing.assert_allclose(run(proto, IMAGES.transpose(0, 3, 1, 2)), model(IMAGES), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")  # of TFLite's converter
def test_quantised_numbers_become_floats(tmp_path):
    converter = tf.lite.TFLiteConverter.from_keras_model(net())
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: iter([[IMAGES[:1]], [IMAGES[1:]]])
    path = tmp_path / "net.tflite"
    path.write_bytes(converter.convert())
    proto, _ = from_tflite(path, dequantize=True)
    assert not {node.op_type for node in proto.graph.node} & {"QLinearConv", "ConvInteger", "QuantizeLinear"}
    np.testing.assert_allclose(run(proto, IMAGES[:1]), net()(IMAGES[:1]), atol=0.2)


def test_dimensions_of_a_program_are_renamed():
    x = torch.randn(3, 2)
    program = torch_onnx_export(torch.nn.ReLU(), (x,), dynamic_axes={"input": {0: "batch"}})
    program.rename_axes({"batch": "rows"})
    assert str(program.model.graph.inputs[0].shape[0]) == "rows"
    torch.testing.assert_close(program(x)[0], torch.relu(x))
    with pytest.raises(AttributeError, match=r"no compute_values here: program\.cut"):
        program.compute_values  # noqa: B018
