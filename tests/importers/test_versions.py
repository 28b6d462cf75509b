"""Every version of every ONNX operator is declared by an entry, so that a new ONNX release is noticed."""

import onnx

from onnxport.opset_maps import maps

# Nothing is ever added here without a reason; what gets an entry is taken out (a test sees to it).
EXCEPTIONS = {
    ("", "AffineGrid"): "said by its function body",
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
    known = published()
    deprecated = {(s.domain, s.name): s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.deprecated}
    wrong = {
        f"{domain}::{name}": sorted(versions - known.get((domain, name), set()) - {deprecated.get((domain, name))})
        for (domain, name), versions in declared().items()
        if (domain, name) in known and versions - known[domain, name] - {deprecated.get((domain, name))}
    }
    assert not wrong
