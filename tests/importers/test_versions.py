"""Every version of every ONNX operator is declared by an entry, and has no attributes of another version."""

import onnx
import pytest

import onnxport
from onnxport.errors import InvalidModelError
from onnxport.opset_maps import maps

# Nothing is ever added here without a reason; what gets an entry is taken out (a test sees to it).
EXCEPTIONS = {
    ("", "CausalConvWithState"): "said by its function body",
    ("", "LinearAttention"): "said by its function body",
    ("", "SequenceMap"): "said by its function body",
    ("", "SwiGLU"): "said by its function body",
    ("ai.onnx.ml", "CastMap"): "takes a map, which nothing but DictVectorizer's input has",
    ("ai.onnx.preview", "FlexAttention"): "said by its function body",
    (
        "ai.onnx.preview.training",
        "Gradient",
    ): "names values of the outer graph to differentiate; the imported module has gradients",
}

# Versions of a runtime's own in the domain of ONNX.
OF_RUNTIMES = {("", "LayerNormalization"): {1}}  # onnxruntime's optimiser, in files of opsets before 17


def declared():
    found = {}
    for table in (maps.onnx, maps.pytorch_native):
        for entry in table:
            found.setdefault((entry.domain, entry.op_type), set()).update(entry.versions)
    return found


def published():
    found = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.deprecated:
            found.setdefault((schema.domain, schema.name), set()).add(schema.since_version)
    return found


def test_every_schema_version_is_declared():
    entries = declared()
    missing = {
        f"{domain or 'ai.onnx'}::{name}": sorted(versions - entries.get((domain, name), set()))
        for (domain, name), versions in published().items()
        if (domain, name) not in EXCEPTIONS and versions - entries.get((domain, name), set())
    }
    assert not missing


def test_exceptions_only_shrink():
    assert not set(EXCEPTIONS) & set(declared())
    assert set(EXCEPTIONS) <= set(published())


def test_no_entry_declares_a_version_that_does_not_exist():
    known = {key: versions | OF_RUNTIMES.get(key, set()) for key, versions in published().items()}
    deprecated = {(s.domain, s.name): s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.deprecated}
    wrong = {
        f"{domain}::{name}": sorted(versions - known.get((domain, name), set()) - {deprecated.get((domain, name))})
        for (domain, name), versions in declared().items()
        if (domain, name) in known and versions - known[domain, name] - {deprecated.get((domain, name))}
    }
    assert not wrong


@pytest.mark.pytorch
@pytest.mark.parametrize(
    ("node", "opset"),
    [
        ("Clip <min = 0.5> (x)", 17),  # an attribute up to opset 6, an operand from 11 on
        ("Clip <cap = 0.5> (x)", 6),
        ("Relu <slope = 2.0> (x)", 14),
        ("Softmax <axes = [1]> (x)", 13),
    ],
)
def test_an_attribute_of_another_version_is_refused(node, opset):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    text = f'<ir_version: 8, opset_import: ["": {opset}]> g (float[2, 3] x) => (float[2, 3] y) {{ y = {node} }}'
    with pytest.raises(InvalidModelError, match="has no attribute"):
        onnxport.convert(onnx.parser.parse_model(text), to="pytorch")
