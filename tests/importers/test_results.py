"""What a function gives by its rule is what torch gives, on a meta tensor and on a real one."""

import itertools
import operator

import pytest
import torch
import torch.nn.functional as F

from onnxport.opset_maps.from_onnx.pytorch.results import form_of

F32, F16, I64, BOOL = torch.float32, torch.float16, torch.int64, torch.bool
SHAPES = [(), (1,), (3,), (2, 3), (3, 1), (2, 1, 3), (2, 3, 1, 1), (0, 3)]


def x(*shape, dtype=F32, device="cpu"):
    return torch.ones(shape, dtype=dtype, device=device)


PAIRS = [
    (x(*a, dtype=s), x(*b, dtype=t))
    for a, b in itertools.product(SHAPES, SHAPES)
    for s in (F32, I64)
    for t in (F32, F16)
]
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, torch.maximum, torch.pow, torch.eq, torch.lt]
MASKS = [x(*shape, dtype=BOOL) for shape in SHAPES]
CALLS = [
    *((f, pair) for f in [*BINARY, torch.logical_and, torch.matmul] for pair in PAIRS),
    *((f, (x(2, 3, dtype=t), n)) for f in BINARY if f is not torch.maximum for t in (F32, I64) for n in (2, 2.5, True)),
    *((f, (x(2, 3, dtype=t),)) for f in (torch.isnan, torch.isinf, torch.logical_not) for t in (F32, I64, BOOL)),
    *((torch.where, (mask, *pair)) for mask in MASKS for pair in PAIRS[::3]),
    *((torch.mean, (x(2, 3, 4, dtype=t), axes, keep)) for t in (F32, I64) for keep in (True, False)
      for axes in ((0,), (1, -1), (0, 1, 2), (), (5,), (1, 1))),
    *((torch.cat, ([x(*a), x(*b, dtype=t)], axis)) for a, b in itertools.product(SHAPES, SHAPES) for t in (F32, I64)
      for axis in (0, 1, -1)),
    *((F.linear, (x(*a), x(*b), bias)) for a in [*SHAPES, (4, 2, 3)] for b in ((4, 3), (3,), (4, 2))
      for bias in (None, x(4), x(4, dtype=F16), x(1))),
    *((F.layer_norm, (x(2, 3, 4), shape, weight, None, 1e-5)) for shape in ((4,), (3, 4), (3,), (1, 2, 3, 4))
      for weight in (None, x(4), x(3, 4))),
    *((F.batch_norm, (x(*a), v, v, w, w, False, 0.1, 1e-5)) for a in [*SHAPES, (2, 3, 4, 4)] for v in (x(3), x(2), None)
      for w in (x(3), None)),
    *((F.instance_norm, (x(*a), None, None, w, w, True, 0.1, 1e-5)) for a in [(2, 3, 4), (2, 3, 1), (3, 4), (2, 3, 4, 4)]
      for w in (x(3), None, x(2))),
]  # fmt: skip


def on(device, item):
    if isinstance(item, torch.Tensor):
        return item.to(device)
    return [on(device, part) for part in item] if isinstance(item, list) else item


@pytest.mark.pytorch
def test_a_rule_gives_type_and_shape_of_what_torch_computes():
    ruled = set()
    for function, args in CALLS:
        form = form_of(function, args, {})
        if form is None:
            continue
        ruled.add(function)
        for device in ("cpu", "meta"):
            result = function(*(on(device, item) for item in args))
            assert (tuple(form[0]), form[1]) == (tuple(result.shape), result.dtype), (function, args)
    assert ruled == {function for function, _ in CALLS}
