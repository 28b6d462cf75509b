"""The nodes of a graph with those of the graphs inside: as onnx-ir walks them."""

import onnx
import onnx_ir as ir

from onnxport.graph import bodies

NESTED = """
<ir_version: 8, opset_import: ["" : 17, "acme" : 1]>
graph (float[n] x, bool c, bool d) => (float[n] y) {
  a = Neg (x)
  b = If (c) <
    then_branch = then () => (float[n] t) { s = If (d) <
      then_branch = inner () => (float[n] i) { i = Abs (a) },
      else_branch = other () => (float[n] o) { o = Exp (a) }
    > t = Neg (s) },
    else_branch = rest () => (float[n] e) { e = Log (a) }
  >
  z = acme.Held (b) < body = held () => (float[n] h) { h = Sin (a) } >
  y = Cos (z)
}
"""


def test_every_node_is_walked_in_the_order_of_onnx_ir():
    graph = ir.serde.deserialize_model(onnx.parser.parse_model(NESTED)).graph
    walked = [node.op_type for node in bodies.every_node(graph)]
    assert walked == [node.op_type for node in graph.all_nodes()]
    assert {"Abs", "Exp", "Log", "Sin", "Cos"} < set(walked)


def test_operators_that_hold_graphs_are_known():
    holds = {
        schema.name
        for schema in onnx.defs.get_all_schemas_with_history()
        if not schema.domain
        and any(item.type == onnx.defs.OpSchema.AttrType.GRAPH for item in schema.attributes.values())
    }
    assert holds == bodies._HOLDERS
