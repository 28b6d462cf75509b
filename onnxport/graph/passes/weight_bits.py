"""Weights of products in few bits: MatMulNBits of com.microsoft, or ONNX's own DequantizeLinear in blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnxport.graph.bit_blocks import BitBlocks
from onnxport.graph.passes.rewriting import node_from, replace_value

MICROSOFT = "com.microsoft"
_FEWEST = 1024  # numbers of a weight that is worth it
_INT4 = {4: ir.DataType.INT4, 8: ir.DataType.INT8}


@dataclass
class WeightBits:
    """One model whose weights of MatMul and Gemm become blocks of few bits, in place.

    Attributes:
        rounded: by the name of each such weight, its blocks.
        left: weights of products that other nodes read too, as tied embeddings.
        written: names of the initializers that hold blocks and scales.
    """

    model: ir.Model
    bits: int
    size: int
    direct: bool = False  # ONNX's own operators instead of com.microsoft's
    rounded: dict[str, BitBlocks] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Rewrites the products."""
        for value in list(self.model.graph.initializers.values()):
            uses = [(use.node, use.idx) for use in value.uses()]
            products = [node for node, place in uses if place == 1 and _is_product(node)]
            if not products or not _is_matrix(value):
                continue
            layouts = {_is_transposed(node) for node in products}
            if len(products) < len(uses) or len(layouts) > 1 or value in self.model.graph.inputs:
                self.left.append(value.name or "")
                continue
            self._round(value, products, transposed=layouts.pop())
        if self.rounded and not self.direct:
            self.model.graph.opset_imports[MICROSOFT] = 1

    def _round(self, value: ir.Value, products: list[ir.Node], *, transposed: bool) -> None:
        tensor, name = value.const_value, value.name or ""
        assert tensor is not None
        blocks = BitBlocks(tensor, self.bits, self.size, transposed)
        self.rounded[name] = blocks
        if self.direct:
            self._direct(name, blocks, products)
        else:
            self._packed(name, blocks, products)
        self.model.graph.initializers.pop(name)

    def _packed(self, name: str, blocks: BitBlocks, products: list[ir.Node]) -> None:
        shape = [blocks.columns, blocks.count, blocks.size * blocks.bits // 8]
        packed = self._weight(f"{name}.blocks", ir.DataType.UINT8, shape, blocks.packed)
        scales = self._weight(f"{name}.scales", ir.DataType.FLOAT, [blocks.columns, blocks.count], blocks.scales)
        numbers = {"K": blocks.width, "N": blocks.columns, "bits": blocks.bits, "block_size": blocks.size}

        for node in products:
            attributes = [ir.AttrInt64(key, number) for key, number in numbers.items()]
            result = self._node(node, "MatMulNBits", [node.inputs[0], packed, scales], attributes, domain=MICROSOFT)
            replace_value(node.outputs[0], self._with_bias(node, result))
            self.model.graph.remove(node, safe=True)

    def _direct(self, name: str, blocks: BitBlocks, products: list[ir.Node]) -> None:
        def steps() -> np.ndarray:
            whole = blocks.steps().reshape(blocks.columns, -1)[:, : blocks.width]
            return whole if blocks.transposed else np.ascontiguousarray(whole.T)

        def scales() -> np.ndarray:
            factors = blocks.scales()
            return factors if blocks.transposed else np.ascontiguousarray(factors.T)

        ends = [blocks.columns, blocks.count] if blocks.transposed else [blocks.count, blocks.columns]
        shape = list(blocks.tensor.shape.numpy())
        small = self._weight(f"{name}.blocks", _INT4[blocks.bits], shape, steps)
        factor = self._weight(f"{name}.scales", ir.DataType.FLOAT, ends, scales)

        attributes = [ir.AttrInt64("axis", 1 if blocks.transposed else 0), ir.AttrInt64("block_size", blocks.size)]
        for node in products:
            kind, label = ir.TensorType(ir.DataType.FLOAT), f"{node.name}/{name}"
            wide = node_from(
                node, "DequantizeLinear", [small, factor], attributes, name=label, type=kind, shape=tuple(shape)
            )
            self.model.graph.insert_before(node, wide)
            node.replace_input_with(1, wide.outputs[0])

    def _node(
        self, node: ir.Node, op: str, inputs: list[ir.Value | None], attributes: list[ir.Attr], *, domain: str = ""
    ) -> ir.Value:
        old = node.outputs[0]
        name = f"{old.name}/{op}"
        shape = None if old.shape is None else ir.Shape(old.shape)
        result = ir.Value(name=name, type=old.type, shape=shape)
        props = dict(node.metadata_props)
        made = ir.Node(domain, op, inputs, attributes, outputs=[result], name=name, metadata_props=props)
        self.model.graph.insert_before(node, made)
        return result

    def _with_bias(self, node: ir.Node, product: ir.Value) -> ir.Value:
        bias = node.inputs[2] if node.op_type == "Gemm" and len(node.inputs) > 2 else None
        return product if bias is None else self._node(node, "Add", [product, bias], [])

    def _weight(self, name: str, dtype: ir.DataType, shape: list[int], content: Callable[[], np.ndarray]) -> ir.Value:
        def read() -> ir.TensorProtocol:
            return ir.tensor(content().astype(dtype.numpy()), dtype=dtype, name=name)

        tensor = ir.LazyTensor(read, dtype, ir.Shape(shape), name=name)
        value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape), const_value=tensor)
        self.model.graph.register_initializer(value)
        self.written.append(name)
        return value


def with_rounded_weights(model: ir.Model, rounded: Mapping[str, BitBlocks]) -> None:
    """Puts the weights as their blocks have them into a model, in place: what the source gives with such weights."""
    for name, blocks in rounded.items():
        value = model.graph.initializers[name]
        value.const_value = rounded_tensor(name, blocks)


def rounded_tensor(name: str, blocks: BitBlocks) -> ir.TensorProtocol:
    """A weight as its blocks have it."""
    shape, props = ir.Shape(blocks.tensor.shape.numpy()), dict(blocks.tensor.metadata_props)
    read = lambda: ir.tensor(blocks.rounded(), name=name)  # noqa: E731
    return ir.LazyTensor(read, ir.DataType.FLOAT, shape, name=name, metadata_props=props)


def _is_product(node: ir.Node) -> bool:
    if node.domain or node.graph is None:
        return False
    if node.op_type == "MatMul":
        return True
    numbers = {name: item.value for name, item in node.attributes.items()}
    plain = numbers.get("alpha", 1.0) == 1.0 and numbers.get("beta", 1.0) == 1.0 and not numbers.get("transA")
    return node.op_type == "Gemm" and plain


def _is_transposed(node: ir.Node) -> bool:
    item = node.attributes.get("transB")
    return item is not None and bool(item.value)


def _is_matrix(value: ir.Value) -> bool:
    tensor = value.const_value
    return (
        tensor is not None and tensor.dtype == ir.DataType.FLOAT and len(tensor.shape) == 2 and tensor.size >= _FEWEST
    )
