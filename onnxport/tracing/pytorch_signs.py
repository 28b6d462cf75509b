"""Whether a model's outputs depend on the signs of eigenvectors and singular vectors, which are LAPACK's choice.

A vector's sign may be turned, a singular pair's both together, and what spans the rest of the space may be turned in any way:
the model runs on its example inputs with other choices. Where its outputs stay, as those of a whitening by U f(S) V' do, any
choice is as good as LAPACK's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

_aten = torch.ops.aten
_EIGEN = (_aten.linalg_eigh.default, _aten._linalg_eigh.default)
_SINGULAR = (_aten.linalg_svd.default, _aten._linalg_svd.default, _aten.svd.default)
_CHOICES = 10  # random ones, after one that turns every vector
_SMALL = {torch.float32: 1e-4, torch.float64: 1e-9}


def signs_matter(program: ExportedProgram) -> bool:
    """Whether another choice of signs gives other outputs on the program's example inputs; true where that can't be seen."""
    if program.example_inputs is None:
        return True
    try:
        with torch.no_grad():
            outputs = [_outputs(program, choice) for choice in range(-1, _CHOICES + 1)]
    except Exception:  # whatever the model raises when it runs
        return True
    first, *others = outputs
    return not all(_equal(first, other) for other in others)


def _outputs(program: ExportedProgram, choice: int) -> list[Any]:
    """The outputs with LAPACK's own signs (-1), all turned (0), or a random choice."""
    draw = torch.Generator().manual_seed(max(choice, 0))

    def signs(count: int) -> torch.Tensor:
        return -torch.ones(count) if choice == 0 else 2.0 * torch.randint(0, 2, (count,), generator=draw) - 1.0

    class Choosing(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            if choice < 0 or n.target not in (*_EIGEN, *_SINGULAR):
                return result
            if n.target in _EIGEN:
                return result[0], result[1] * signs(result[1].shape[-1]).to(result[1])
            u, s, v = result
            turned = signs(s.shape[-1]).to(u)
            right = v if n.target is _aten.svd.default else v.mT
            right = _turned(right, turned, draw)
            return _turned(u, turned, draw), s, right if n.target is _aten.svd.default else right.mT

    args, kwargs = program.example_inputs or ((), {})
    leaves = pytree.tree_map_only(torch.Tensor, torch.clone, pytree.tree_leaves((args, kwargs)))
    return list(pytree.tree_leaves(Choosing(program.module()).run(*leaves)))


def _turned(columns: torch.Tensor, signs: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    """The first columns with other signs, the others turned within their space."""
    count = signs.shape[-1]
    rest = columns.shape[-1] - count
    first = columns[..., :count] * signs
    if not rest:
        return first
    turn = torch.linalg.qr(torch.randn(rest, rest, generator=draw, dtype=torch.float64))[0].to(columns)
    return torch.cat([first, columns[..., count:] @ turn], -1)


def _equal(first: list[Any], other: list[Any]) -> bool:
    for a, b in zip(first, other, strict=True):
        if not isinstance(a, torch.Tensor) or a.dtype not in _SMALL:
            same = torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        else:
            scale = float(a.abs().nan_to_num(0, 0, 0).max()) if a.numel() else 0.0
            same = torch.allclose(a, b, rtol=0.0, atol=_SMALL[a.dtype] * scale, equal_nan=True)
        if not same:
            return False
    return True
