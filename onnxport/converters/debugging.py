"""The search for the operator that is wrong, and a folder that shows it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import onnx

from onnxport import frameworks
from onnxport.converters.convert import file_name, load
from onnxport.converters.isolation import isolated
from onnxport.converters.watching import watched
from onnxport.errors import InvalidInputError
from onnxport.graph import test_vectors
from onnxport.graph.atomic import atomic_file, check_folder_of
from onnxport.graph.provenance import PREFIX
from onnxport.model import OnnxModel, as_onnx_model
from onnxport.validation.inquiry import inquire
from onnxport.validation.node_verdicts import DIFFERS, node_verdicts, summary
from onnxport.validation.operators import Inquiry, reproducer
from onnxport.validation.parties import Party
from onnxport.validation.runners import Binding
from onnxport.validation.values import leaves_of

_MARKS = "onnxport"  # the domain of nodes that mark others in a picture


def debug(
    source: object,
    converted: object,
    inputs: object = None,
    *,
    kwargs: Mapping[str, object] | None = None,
    signature: str | None = None,
    allow_pickle: bool = False,
    allow_code: bool = False,
) -> Inquiry:
    """Every operator of `converted`, an ONNX model or file, on the values that `source`, live or in a file, computes.

    Raises:
        InvalidInputError: the source runs on no inputs, or tells of none of its inner values.
        InvalidModelError: a file is corrupt or of another kind.
    """
    framework = frameworks.get(frameworks.of_object(source, leaves_of(inputs, kwargs)))
    consents = {"allow_pickle": allow_pickle, "allow_code": allow_code}
    hub = as_onnx_model(converted)
    with isolated():
        framework.register_inputs(inputs, kwargs)
        live = load(source, framework.name, **consents)
        graphs = [item for item in (live, hub) if isinstance(item, OnnxModel)]
        foreign = any(isinstance(item, (str, os.PathLike)) for item in (source, converted))
        with watched(graphs if foreign else [], drawn=inputs is None and not kwargs):
            left, right = (
                Party(live, framework.name, file_name(source)),
                Party(hub, frameworks.HUB, file_name(converted)),
            )
            return inquire(left, right, Binding(inputs, kwargs, signature=signature))


def write_reproducer(inquiry: Inquiry, folder: str | os.PathLike[str]) -> Path:
    """Writes the worst operator's own model, its inputs and the output that the source gives; gives the model's path.

    ``onnxport validate <folder>/model.onnx`` replays it.

    Raises:
        InvalidInputError: no operator could be run by itself.
        SavingError: the folder can't be written.
    """
    run = inquiry.worst
    if run is None:
        raise InvalidInputError("no operator could be run by itself: there is nothing to reproduce")
    place = Path(folder)
    check_folder_of(place)
    place.mkdir(exist_ok=True)
    proto = onnx.ModelProto()
    proto.CopyFrom(run.model)
    output = onnx.helper.make_tensor_value_info(
        run.value.name or "", onnx.helper.np_dtype_to_tensor_dtype(run.expected.dtype), run.expected.shape
    )
    proto.graph.output[0].CopyFrom(output)
    OnnxModel(as_onnx_model(proto).model).save(place / "model.onnx")
    test_vectors.write(place / "model.onnx", [reproducer(run)])
    worst = next(item for item in inquiry.operators if item.output == (run.value.name or ""))
    facts = {"inputs": inquiry.inputs, **{key: str(value) for key, value in asdict(worst).items()}}
    with atomic_file(place / "operator.json") as file:
        file.write(json.dumps(facts, indent=2).encode())
    return place / "model.onnx"


def with_verdicts(inquiry: Inquiry, path: str | os.PathLike[str]) -> tuple[bytes, dict[str, int]]:
    """The file at `path`, with the verdict of `inquiry` on each node in its description; and how many have which verdict.

    Weights in data files stay there. A viewer that shows one line of a description has each number as a property of its own too,
    and the whole as properties of the graph. A viewer draws no properties: a node of ours, that gives nothing, hangs on each
    value that is wrong by itself.
    """
    verdicts = node_verdicts(as_onnx_model(path).model, inquiry)
    proto = onnx.load(os.fspath(path), load_external_data=False)
    for node in proto.graph.node:
        verdict = verdicts[next((name for name in node.output if name), "")]
        node.doc_string = "\n".join(filter(None, [verdict.text, node.doc_string]))
        _set(node, {f"{PREFIX}verdict": verdict.word, **dict(verdict.numbers)})
    counts = dict(Counter(item.word for item in verdicts.values()))
    about = summary(verdicts, inquiry)
    for described in (proto, proto.graph):
        described.doc_string = "\n".join(filter(None, [about, described.doc_string]))
    wrong = {f"differs {i}": item.node or item.output for i, item in enumerate(inquiry.wrong, start=1)}
    _set(proto.graph, {"outputs": "differ" if inquiry.failed else "agree", "on inputs": inquiry.inputs, **wrong})
    for item in inquiry.wrong:
        mark = proto.graph.node.add(op_type=DIFFERS, domain=_MARKS, input=[item.output])
        mark.name, mark.doc_string = f"{DIFFERS}: {item.node or item.output}", verdicts[item.output].text
        _set(mark, dict(verdicts[item.output].numbers))
    if inquiry.wrong:
        proto.opset_import.add(domain=_MARKS, version=1)
    return proto.SerializeToString(), counts


def _set(holder: onnx.NodeProto | onnx.GraphProto, properties: Mapping[str, str]) -> None:
    """Gives a node or graph properties of ours, instead of those that it has under these names; viewers cut long names."""
    for key, value in properties.items():
        entry = next((item for item in holder.metadata_props if item.key == key), None)
        entry = entry or holder.metadata_props.add(key=key)
        entry.value = value
