"""ONNX models of one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.evidence import require_import

INT64, FLOAT, DOUBLE, STRING, BOOL = (
    TensorProto.INT64,
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.STRING,
    TensorProto.BOOL,
)


@dataclass(frozen=True)
class Node:
    """A model of one node with its inputs.

    Attributes:
        op: operator name.
        inputs: arrays; None leaves an input out.
        outputs: element types of the outputs.
        attributes: the node's attributes.
        domain: operator domain.
        opset: version of ai.onnx.
        ml: version of ai.onnx.ml.
        dynamic: whether the first dimension of the inputs is.
    """

    op: str
    inputs: Sequence[Any]
    outputs: Sequence[int] = (FLOAT,)
    attributes: dict[str, Any] = field(default_factory=dict)
    domain: str = ""
    opset: int = 17
    ml: int = 3
    dynamic: bool = True

    def model(self) -> onnx.ModelProto:
        """The model; the second of two batch sizes must do as well, so that the first dimension has no size in it."""
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        results = [f"y{i}" for i in range(len(self.outputs))]
        node = helper.make_node(self.op, names, results, domain=self.domain, **self.attributes)
        declared = [
            helper.make_tensor_value_info(
                name, element_type(x), [None, *x.shape[1:]] if self.dynamic and x.ndim else x.shape
            )
            for name, x in zip(names, self.inputs, strict=True)
            if x is not None
        ]
        graph = helper.make_graph(
            [node],
            self.op,
            declared,
            [helper.make_tensor_value_info(n, t, None) for n, t in zip(results, self.outputs, strict=True)],
        )
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("ai.onnx.ml", self.ml)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def ir(self) -> ir.Model:
        """The model as the importers take it."""
        return ir.from_proto(self.model())

    def arrays(self) -> list[np.ndarray]:
        """The inputs that are there."""
        return [x for x in self.inputs if x is not None]

    def truth(self) -> list[np.ndarray]:
        """What onnxruntime gives."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(
            self.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        feeds = {item.name: x for item, x in zip(session.get_inputs(), self.arrays(), strict=True)}
        return session.run(None, feeds)


def element_type(x: np.ndarray) -> int:
    """ONNX element type of an array."""
    return STRING if x.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(x.dtype)


def imported_to_tensorflow(rows: Sequence[Any], ids: Sequence[str], share: float) -> Callable[[Node], None]:
    """A test that imports nodes to TensorFlow and compares their results with the truth."""

    @pytest.mark.sampled(share)
    @pytest.mark.tensorflow
    @pytest.mark.parametrize("item", rows, ids=ids)
    def test(item: Node) -> None:
        require_import(item.ir(), "tensorflow", tuple(item.arrays()))

    return test
