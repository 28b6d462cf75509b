"""What the runtime's operators take at least of the time of text models, whatever graph is made of them."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxport.graph.builder import OpBuilder
from scripts.bench.latency import alternate, session

# Questions about the first letter, about any, and about all of them.
_QUESTIONS = ("[a-h].*", "(?s).*[a-h].*", "[a-h]*", "[^a-h]*")


def hashing(vectorizer: Any, documents: np.ndarray) -> tuple[str, float]:
    """What reading the words' letters takes at least: a sentence, and milliseconds.

    A hash depends on every letter, and a question to RegexFullMatch, the one operator that sees letters, tells at most a bit: of
    letters there are as many as their entropy (Shannon, A Mathematical Theory of Communication, 1948) says.
    """
    analyze = vectorizer.build_analyzer()
    words = np.array(sorted({word for text in documents for word in analyze(text)}), object)
    counts = np.array(list(Counter("".join(words)).values()))
    bits = float(np.sum(counts * np.log2(counts.sum() / counts)))
    each = min(_milliseconds(_asking(pattern), words) for pattern in _QUESTIONS) / len(words)
    said = (
        f"{len(words):,} words of {counts.sum():,} letters hold {bits:,.0f} bits, of which RegexFullMatch, the one operator "
        f"that sees letters, tells one in {1e6 * each:.0f} ns at least"
    )
    return said, bits * each


def array_of_terms(path: str, documents: np.ndarray) -> tuple[str, float]:
    """What the terms in our file of a vectorizer take, and zeros in the size of its result: a sentence, and milliseconds."""
    model = onnx.load(path)
    width = model.graph.output[0].type.tensor_type.shape.dim[1].dim_value
    writing = model.graph.node.pop()
    entries = next(node for node in writing.attribute[0].g.node if node.op_type == "Scan").input
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in entries)
    terms = _milliseconds(onnx.shape_inference.infer_shapes(model), documents)
    zeros = _milliseconds(_rows_of_zeros(width), np.zeros(len(documents)))
    size = 8e-6 * len(documents) * width
    said = f"the terms and their weights take {terms:.1f} ms, {size:.0f} MB of zeros, copied from the cache, {zeros:.1f} ms"
    return said, terms + zeros


def _asking(pattern: str) -> Any:
    def build(op: OpBuilder) -> ir.Value:
        return op.RegexFullMatch(op.input("x", ir.DataType.STRING, ["n"]), pattern=pattern)

    return build


def _rows_of_zeros(width: int) -> Any:
    def build(op: OpBuilder) -> ir.Value:
        zeros = op.initializer("zeros", ir.tensor(np.zeros(width)))

        def row(b: OpBuilder) -> list[ir.Value]:
            b.input("row", ir.DataType.DOUBLE, [])
            return [b.Identity(zeros)]

        return op.Scan(op.input("x", ir.DataType.DOUBLE, ["n"]), body=op.body(row), num_scan_inputs=1)

    return build


def _milliseconds(model: Any, given: np.ndarray) -> float:
    """Those of a run of a model, or of what a function builds."""
    if not isinstance(model, onnx.ModelProto):
        op = OpBuilder(21)
        model = ir.to_proto(ir.Model(op.graph([model(op)], name="graph", output_names=["y"]), ir_version=10))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(model, path)
        opened = session(path)
    name = opened.get_inputs()[0].name
    return 1000 * alternate([lambda: opened.run(None, {name: given})])[0]
