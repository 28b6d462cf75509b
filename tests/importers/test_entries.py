"""The cases of the importers' entries: each is imported by every framework and judged by onnxruntime."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxport
from onnxport.opset_maps import maps
from onnxport.opset_maps.from_onnx.cases import graph
from onnxport.opset_maps.from_onnx.namespace import OperandKind, signature

# Inputs of a proof are drawn; what is random is compared on the case's own, which leave it no choice.
RANDOM = ("Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform")
# onnxruntime refuses a map that is handed from operator to operator; columns that change places need none.
BY_NUMPY = {
    "DictVectorizer": lambda x: np.stack([x[:, 1], 0 * x[:, 0], x[:, 0]], 1),
    "ZipMap": lambda x: np.stack([x[:, 1], 0 * x[:, 0], x[:, 0]], 1),
}
TABLES = {"pytorch": maps.pytorch_native, "tensorflow": maps.tensorflow_native, "keras": maps.keras_native}
FRAMEWORKS = {
    "pytorch": [pytest.mark.pytorch],
    "tensorflow": [pytest.mark.tensorflow],
    "keras": [pytest.mark.keras, pytest.mark.tensorflow],
}


def rows():
    for framework, marks in FRAMEWORKS.items():
        own = framework if framework != "keras" else None  # Keras records TensorFlow's primitives
        for table in [TABLES[framework], *([maps.onnx] if own else [])]:
            for entry in table:
                for index, case in enumerate(entry.cases):
                    name = f"{framework}-{entry.op_type}-{entry.versions[0]}-{index}"
                    yield pytest.param(framework, entry, case, id=name, marks=marks)


def wanted(entry, model, inputs):
    if entry.op_type in BY_NUMPY:
        return [BY_NUMPY[entry.op_type](*inputs)]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([item.name for item in session.get_inputs()], inputs, strict=True)))


def computed(model, framework, inputs):
    converted = onnxport.convert(model, to=framework, inputs=inputs, validate=False)
    if framework == "pytorch":
        torch = pytest.importorskip("torch", reason="PyTorch is an extra")
        inputs = tuple(torch.tensor(item) for item in inputs)
    result = converted(*inputs)
    return [item.numpy() for item in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize(("framework", "entry", "case"), list(rows()))
def test_an_entry_computes_what_onnxruntime_computes(framework, entry, case):
    model, inputs = case.call(), case.draw()
    if entry.op_type not in (*RANDOM, *BY_NUMPY):
        converted = onnxport.convert(model, to=framework, inputs=inputs)
        assert converted.onnxport_report.verdict == "passed"
        return
    for ours, theirs in zip(computed(model, framework, inputs), wanted(entry, model, inputs), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_a_case_is_valid_onnx():
    """Of what onnxruntime writes in the domain of ONNX and ONNX does not have, its checker knows nothing."""
    for framework in TABLES:
        for table in (TABLES[framework], maps.onnx):
            for entry in table:
                for case in entry.cases:
                    model = case.call()
                    opset = model.opset_import[0].version
                    if entry.domain or onnx.defs.has(entry.op_type, opset, entry.domain):
                        onnx.checker.check_model(model)


@pytest.mark.pytorch
@pytest.mark.parametrize(
    ("call", "message"),
    [("FusedConv (x, x, , , x)", "more inputs than are known"), ("QLinearSigmoid <alpha = 1.0> (x, x, x, x)", "alpha")],
)
def test_what_an_operator_does_not_have_is_refused(call, message):
    model = graph(f"(float[1, 1, 3, 3] x) => (float[1, 1, 1, 1] y) {{y = com.microsoft.{call}}}").call()
    with pytest.raises(onnxport.UnsupportedOperator, match=message):
        onnxport.convert(model, to="pytorch")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_annotation_of_a_parameter_says_in_what_form_it_takes_its_operand(framework):
    for entry in TABLES[framework]:
        shared = maps.onnx.find(entry.domain, entry.op_type, max(entry.versions))
        if shared is None or signature(entry.function).variadic or signature(shared.function).variadic:
            continue
        for ours, theirs in zip(signature(entry.function).kinds, signature(shared.function).kinds, strict=False):
            # A native spelling may take a constant where the shared one takes a tensor, never the other way round.
            assert OperandKind.HOST not in (ours, theirs) or ours == theirs, entry.op_type
