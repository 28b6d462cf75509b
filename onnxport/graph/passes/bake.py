"""What ``optimize="inference"`` does to the weights: everything that can be computed before the first run is computed."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import InPlacePass, PassResult
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnxport.graph import limits
from onnxport.graph.folding import fold
from onnxport.graph.passes.rewriting import add_weight, replace_value


def bake(model: ir.Model) -> ir.Model:
    """The model with constant subgraphs evaluated and batch norms merged into the convolutions before them.

    Weights are no longer those of the source, nor do all of them keep their names.
    """
    for step in (FoldWeightsPass(), MergeBatchNormPass(), RemoveUnusedNodesPass()):
        model = step(model).model
    return model


class FoldWeightsPass(InPlacePass):
    """Evaluates every node of the main graph whose inputs are all initializers, in one walk."""

    def call(self, model: ir.Model) -> PassResult:
        """The model with those nodes replaced by initializers."""
        graph = model.graph
        opset = graph.opset_imports.get("", 1)
        modified = False
        for node in list(graph):
            if not node.inputs or any(value is not None and not _is_weight(value, graph) for value in node.inputs):
                continue
            if any(value.is_graph_output() for value in node.outputs):
                continue
            arrays = [None if value is None else _array(value) for value in node.inputs]
            most = max(limits.MAX_ELEMENTS, 2 * sum(array.size for array in arrays if array is not None))
            results = fold(node, arrays, opset, most)
            if results is None or len(results) != len(node.outputs):
                continue
            for value, array in zip(node.outputs, results, strict=True):
                _replace(graph, value, array)
            graph.remove(node, safe=True)
            modified = True
        return PassResult(model, modified=modified)


class MergeBatchNormPass(InPlacePass):
    """Merges BatchNormalization in inference mode into the Conv whose only reader it is.

    With s = scale / sqrt(var + epsilon): W' = s W, b' = s (b - mean) + B (Ioffe and Szegedy, arXiv:1502.03167, alg. 2).
    """

    def call(self, model: ir.Model) -> PassResult:
        """The model with those pairs merged."""
        graph = model.graph
        norms = [node for node in graph if node.op_type == "BatchNormalization" and not node.domain]
        merged = [_merge(graph, node) for node in norms]
        return PassResult(model, modified=any(merged))


def _merge(graph: ir.Graph, norm: ir.Node) -> bool:
    source = norm.inputs[0]
    conv = source.producer() if source is not None else None
    if source is None or conv is None or conv.op_type != "Conv" or conv.domain or conv.graph is not graph:
        return False
    parameters = [*norm.inputs[1:5], *conv.inputs[1:]]
    if norm.attributes.get_int("training_mode", 0) or len(source.uses()) != 1 or source.is_graph_output():
        return False
    if any(value is None or not _is_weight(value, graph) for value in parameters):
        return False
    arrays = [_array(value).astype(np.float64) for value in parameters if value is not None]
    scale, shift, mean, variance, weight, *bias = arrays
    factor = scale / np.sqrt(variance + norm.attributes.get_float("epsilon", 1e-5))
    dtype = _array(parameters[4]).dtype if parameters[4] is not None else weight.dtype
    new_weight = (weight * factor.reshape(-1, *[1] * (weight.ndim - 1))).astype(dtype)
    new_bias = (((bias[0] if bias else 0.0) - mean) * factor + shift).astype(dtype)
    stem = norm.outputs[0].name
    conv.resize_inputs(3)
    conv.replace_input_with(1, add_weight(graph, f"{stem}.weight", new_weight))
    conv.replace_input_with(2, add_weight(graph, f"{stem}.bias", new_bias))
    replace_value(norm.outputs[0], source)
    graph.remove(norm, safe=True)
    return True


def _is_weight(value: ir.Value, graph: ir.Graph) -> bool:
    return value.is_initializer() and value not in graph.inputs and value.const_value is not None


def _array(value: ir.Value) -> np.ndarray:
    if value.const_value is None:
        raise ValueError(f"{value.name!r} has no value")
    return value.const_value.numpy()


def _replace(graph: ir.Graph, value: ir.Value, array: np.ndarray) -> None:
    name = value.name or ""
    value.name = f"{name}.folded"
    ir.convenience.replace_all_uses_with(value, add_weight(graph, name, array))
