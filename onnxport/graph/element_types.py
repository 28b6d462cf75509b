"""ONNX's element types by name: the narrow ones came with releases of onnx-ir, of which an older one may be installed."""

from __future__ import annotations

import onnx_ir as ir


def element_types(names: str) -> frozenset[ir.DataType]:
    """Those of `names`, separated by spaces, that the installed onnx-ir has; no file that it reads has another.

    >>> sorted(dtype.name for dtype in element_types("INT4 UINT4 INT3"))
    ['INT4', 'UINT4']
    """
    return frozenset(ir.DataType[name] for name in names.split() if name in ir.DataType.__members__)
