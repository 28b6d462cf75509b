"""What two states of the code write for every entry's cases: a refactoring changes no byte.

    python -m scripts.conformance.fingerprints --results before.json          (in a checkout of the one state)
    python -m scripts.conformance.fingerprints --results after.json           (in a checkout of the other)
    python -m scripts.conformance.fingerprints --compare before.json after.json

A fingerprint is the hash of the file without its metadata, which names lines of the tests.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx

from onnxport.errors import OnnxportError
from scripts.conformance import runtimes

FRAMEWORKS = ("pytorch", "tensorflow", "keras", "sklearn")
OPSETS = (13, 21, 26)


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of its bodies."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from nodes(body)


def fingerprint(proto: onnx.ModelProto) -> str:
    """The hash of a model without its metadata."""
    del proto.metadata_props[:]
    for node in nodes(proto.graph):
        del node.metadata_props[:]
    for function in proto.functions:
        del function.metadata_props[:]
    return hashlib.sha256(proto.SerializeToString(deterministic=True)).hexdigest()[:16]


def measure(framework: str) -> dict[str, Any]:
    """The fingerprint, the file's bytes and the processor time of each case at each opset."""
    results: dict[str, Any] = {}
    for item in getattr(runtimes, framework)():
        try:
            ready = item.make()
        except OnnxportError as error:
            results[item.name] = type(error).__name__
            continue
        for opset in OPSETS:
            started = time.process_time()
            try:
                model = ready.export(opset)
                data = model.proto
            except OnnxportError as error:
                results[f"{item.name} {opset}"] = type(error).__name__
                continue
            seconds = time.process_time() - started
            results[f"{item.name} {opset}"] = [fingerprint(data), data.ByteSize(), round(seconds, 4)]
    return results


def compare(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Prints what differs, and the sums."""
    for framework in before:
        old, new = before[framework], after.get(framework, {})
        both = [key for key in old if key in new]
        written = [key for key in both if isinstance(old[key], list) and isinstance(new[key], list)]
        changed = [key for key in written if old[key][0] != new[key][0]]
        turned = [
            key for key in both if (isinstance(old[key], list) or isinstance(new[key], list)) and key not in written
        ]
        sizes = [sum(item[key][1] for key in written) for item in (old, new)]
        seconds = [sum(item[key][2] for key in written) for item in (old, new)]
        print(f"{framework}: {len(written)} files, {len(changed)} changed, bytes {sizes[0]:,} -> {sizes[1]:,}")
        print(
            f"  processor time {seconds[0]:.1f} s -> {seconds[1]:.1f} s; only before {len(old) - len(both)}, ", end=""
        )
        print(f"only after {len(new) - len(both)}")
        for key in changed:
            print(f"  changed: {key}: {old[key][1]} -> {new[key][1]} bytes")
        for key in turned:
            print(f"  {key}: {old[key]} -> {new[key]}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--framework", choices=FRAMEWORKS, action="append")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--compare", type=Path, nargs=2)
    arguments = parser.parse_args()
    if arguments.compare:
        compare(*(json.loads(path.read_text()) for path in arguments.compare))
        return
    warnings.simplefilter("ignore")
    results = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    for framework in arguments.framework or FRAMEWORKS:
        results[framework] = measure(framework)
        arguments.results.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
