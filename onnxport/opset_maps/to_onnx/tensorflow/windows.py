"""Where the windows of convolutions and pools lie, from the attributes of TensorFlow's operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Required, TypedDict

import onnx_ir as ir

from onnxport.errors import UnsupportedOperator
from onnxport.opset_maps.to_onnx.tensorflow.operands import spatial, static_sizes


class Layout(TypedDict, total=False):
    """Attributes of TensorFlow's operators with windows, by its names; lists have an entry, or a pair, an axis."""

    strides: Required[Sequence[int]]
    padding: Required[str]
    explicit_paddings: Sequence[int]
    data_format: str
    dilations: Sequence[int]


@dataclass(frozen=True)
class Windows:
    """Windows on the spatial axes.

    Attributes:
        kernel: elements of a window.
        strides: from one window to the next.
        dilations: from one element of a window to the next.
        padding: ``"VALID"``, ``"SAME"`` or ``"EXPLICIT"``.
        explicit: pairs of padding before and after.
        data_format: the order of the axes (``NHWC``, ``NCDHW``, ...).
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    padding: str
    explicit: list[tuple[int, int]]
    data_format: str

    def pads(self, x: ir.Value) -> dict[str, Any]:
        """ONNX's `pads`, or `auto_pad` where the size of `x` (channels first) is not known."""
        if self.padding == "VALID":
            return {}
        if self.padding == "EXPLICIT":
            return {"pads": [*(begin for begin, _ in self.explicit), *(end for _, end in self.explicit)]}
        if self.padding != "SAME":
            raise UnsupportedOperator(f"padding={self.padding!r} has no ONNX form")
        sizes = static_sizes(list(x.shape)[2:]) if x.shape is not None else None
        if sizes is None:
            return {"auto_pad": "SAME_UPPER"}
        totals = [  # of which the odd element is at the end (tf.nn, "Notes on padding")
            max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            for size, k, s, d in zip(sizes, self.kernel, self.strides, self.dilations, strict=True)
        ]
        pads = [*(total // 2 for total in totals), *(total - total // 2 for total in totals)]
        return {"pads": pads} if any(totals) else {}

    def transposed_pads(self, in_sizes: Sequence[int], out_sizes: Sequence[int]) -> tuple[list[int], list[int]]:
        """ONNX's `pads` and `output_padding` of the transposed convolution that gives `in_sizes` of `out_sizes`."""
        begins, ends, extras = [], [], []
        rows = zip(in_sizes, out_sizes, self.kernel, self.strides, self.dilations, strict=True)
        for i, (n, m, k, s, d) in enumerate(rows):
            full = (m - 1) * s + (k - 1) * d + 1
            total = max(full - n, 0) if self.padding == "SAME" else 0
            begin, end = self.explicit[i] if self.padding == "EXPLICIT" else (total // 2, total - total // 2)
            extra = n - (full - begin - end)
            if extra < 0:  # a forward VALID convolution that did not reach the end
                end, extra = end - extra, 0
            begins.append(begin)
            ends.append(end)
            extras.append(extra)
        return [*begins, *ends], extras


def windows_of(kernel: Sequence[int], layout: Layout) -> Windows:
    """The windows of a kernel."""
    named = {"CHANNELS_FIRST": "NC", "CHANNELS_LAST": "N_C"}  # by the operator Conv, of any number of axes
    data_format = layout.get("data_format", "NHWC")
    data_format = named.get(data_format, data_format)
    strides, explicit = layout["strides"], layout.get("explicit_paddings", ())
    pairs = list(zip(explicit[::2], explicit[1::2], strict=True))
    return Windows(
        list(kernel),
        spatial(strides, data_format),
        spatial(layout.get("dilations") or [1] * len(strides), data_format),
        layout["padding"],
        pairs[2:] if data_format.startswith("NC") else pairs[1:-1],
        data_format,
    )
