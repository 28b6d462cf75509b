"""Graphs node by node, as skl2onnx writes them."""

import numpy as np
import onnx
import onnx.helper as make
import onnx.numpy_helper as arrays

FLOAT, INT64, STRING = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.STRING
ML = frozenset(
    "Scaler Imputer OneHotEncoder LabelEncoder ArrayFeatureExtractor LinearClassifier SVMClassifier SVMRegressor "
    "TreeEnsembleClassifier ZipMap".split()
)


class Graph:
    """Nodes one by one; arrays among their inputs become initializers."""

    def __init__(self, **inputs):
        self.inputs = inputs or {"X": (FLOAT, 3)}
        self.nodes, self.constants = [], []

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [item if isinstance(item, str) else self.constant(item) for item in inputs]
        results = [f"v{len(self.nodes)}_{place}" for place in range(outputs)]
        domain = "ai.onnx.ml" if op in ML else ""
        self.nodes.append(make.make_node(op, names, results, domain=domain, **attributes))
        return results[0] if outputs == 1 else results

    def constant(self, value):
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        name = f"c{len(self.constants)}"
        if array.dtype.kind in "US":
            flat = [item.encode() for item in array.ravel().tolist()]
            self.constants.append(make.make_tensor(name, STRING, array.shape, flat))
        else:
            self.constants.append(arrays.from_array(np.ascontiguousarray(array), name))
        return name

    def label(self, best, classes):
        """The class of the greatest score."""
        place = self.add("ArgMax", best, axis=1)
        found = self.add("ArrayFeatureExtractor", np.asarray(classes), place)
        return self.add("Reshape", found, np.array([-1]))

    def model(self, label=None, **outputs):
        values = [(name, result) for name, result in (("label", label), *outputs.items()) if result is not None]
        for name, result in values:
            self.nodes.append(make.make_node("Identity", [result], [name]))
        kinds = {"label": STRING if label is not None and self.texts else INT64}
        outs = [
            make.make_tensor_value_info(name, kinds.get(name, FLOAT), [None] if name == "label" else [None, None])
            for name, _ in values
        ]
        ins = [make.make_tensor_value_info(name, kind, [None, width]) for name, (kind, width) in self.inputs.items()]
        graph = make.make_graph(self.nodes, "g", ins, outs, self.constants)
        opsets = [make.make_opsetid("", 17), make.make_opsetid("ai.onnx.ml", 2)]
        return make.make_model(graph, opset_imports=opsets, ir_version=8)

    texts = False


def min_max(g, fitted, rows="X"):
    return g.add("Add", g.add("Mul", rows, fitted.scale_), fitted.min_)


def scaler(g, fitted, rows="X"):
    return g.add("Scaler", rows, offset=fitted.mean_.tolist(), scale=(1 / fitted.scale_).tolist())


def one_hot(g, fitted, columns=None):
    parts = []
    for place, items in enumerate(fitted.categories_):
        column = columns[place] if columns else g.add("Gather", "X", np.array([place]), axis=1)
        text = items.dtype.kind in "OU"
        if not text:
            column = g.add("Cast", column, to=INT64)
        names = {"cats_strings": items.tolist()} if text else {"cats_int64s": items.astype(int).tolist()}
        part = g.add("OneHotEncoder", column, zeros=int(fitted.handle_unknown == "ignore"), **names)
        parts.append(g.add("Gather", part, np.arange(1, len(items)), axis=-1) if fitted.drop else part)
    width = sum(len(items) - bool(fitted.drop) for items in fitted.categories_)
    return g.add("Reshape", g.add("Concat", *parts, axis=-1), np.array([-1, width]))
