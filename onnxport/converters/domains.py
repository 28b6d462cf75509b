"""The versions of operator domains that a file declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxport.errors import InvalidInputError


def declare(model: Any, domains: Mapping[str, int], *, written: bool = False) -> None:
    """Sets the versions of domains beside ai.onnx that the user chose; of a file that is `written` none changes.

    ONNX's own domain of machine learning was written at its version from the start.

    Raises:
        InvalidInputError: the model has no operator of a domain, or has them at another version.
    """
    imports = model.model.opset_imports if domains and hasattr(model, "model") else {}
    for domain, version in domains.items():
        own = imports.get(domain)
        if domain == "ai.onnx.ml" and own in (None, version):
            continue
        if own is None:
            known = ", ".join(name for name in imports if name) or "none but ai.onnx"
            raise InvalidInputError(
                f"target_opset: {domain!r} at {version}: the model has no operator of it; it has {known}"
            )
        if own != version and (written or domain == "ai.onnx.ml"):
            raise InvalidInputError(
                f"target_opset: {domain!r} at {version}: the model has it at {own}, and only ai.onnx is converted"
            )
        imports[domain] = version
