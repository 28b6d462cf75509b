"""Heads of detectors and prompts of segmenters with what comes behind them, written by hand: each to a proved file."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType, ModuleType

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

from torch import nn  # noqa: E402

import onnxport  # noqa: E402
from tests import torchvision_operators  # noqa: E402

torchvision_operators.declare()


class GridHead(nn.Module):
    """Boxes on a grid with anchors, a filter of confidence, suppression within each class (as YOLO does)."""

    def __init__(self, confidence=0.5):
        super().__init__()
        self.confidence = confidence
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 3 * 8, 3, 4, 1))
        self.register_buffer("anchors", torch.tensor([[10.0, 13.0], [16.0, 30.0], [33.0, 23.0]]))

    def forward(self, image):
        cells = self.body(image)
        count, _, height, width = cells.shape
        cells = cells.view(count, 3, 8, height, width).permute(0, 1, 3, 4, 2).sigmoid()
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        middle = (cells[..., :2] * 2 - 0.5 + torch.stack((x, y), -1)) * 8
        size = (cells[..., 2:4] * 2) ** 2 * self.anchors.view(1, 3, 1, 1, 2)
        found = torch.cat((middle - size / 2, middle + size / 2, cells[..., 4:]), -1).reshape(-1, 8)
        found = found[found[:, 4] > self.confidence]
        scores, labels = (found[:, 5:] * found[:, 4:5]).max(1)
        kept = torch.ops.torchvision.nms(found[:, :4] + labels[:, None] * 4096.0, scores, 0.45)[:20]
        return {"boxes": found[kept, :4], "scores": scores[kept], "labels": labels[kept]}


def batched_nms(boxes, scores, idxs, iou_threshold):
    """As torchvision's is defined, where it is not installed."""
    if boxes.numel() > 4000:
        groups = [torch.where(idxs == number)[0] for number in torch.unique(idxs)]
        kept = torch.cat([x[torch.ops.torchvision.nms(boxes[x], scores[x], iou_threshold)] for x in groups])
        return kept[scores[kept].sort(descending=True)[1]]
    if boxes.numel() == 0:
        return torch.empty(0, dtype=torch.int64)
    apart = boxes + (idxs.to(boxes) * (boxes.max() + 1))[:, None]
    return torch.ops.torchvision.nms(apart, scores, iou_threshold)


@pytest.fixture
def boxes_of_torchvision(monkeypatch):
    if find_spec("torchvision"):
        return import_module("torchvision.ops.boxes")
    module = ModuleType("torchvision.ops.boxes")
    module.batched_nms = FunctionType(batched_nms.__code__, globals())
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def expand_masks(mask, padding):
    size = mask.shape[-1]
    return nn.functional.pad(mask, (padding,) * 4), float(size + 2 * padding) / size


def expand_boxes(boxes, scale):
    low, high = boxes.split(2, 1)
    middle, half = (high + low) * 0.5, (high - low) * 0.5 * scale
    return torch.cat((middle - half, middle + half), 1)


def paste_masks_in_image(masks, boxes, img_shape, padding=1):
    """As torchvision's is defined: each mask is enlarged to its box, one after the other."""
    masks, scale = expand_masks(masks, padding)
    result = masks.new_zeros(len(masks), 1, *img_shape)
    for picture, mask, (left, top, right, bottom) in zip(result, masks, expand_boxes(boxes, scale).long(), strict=True):
        size = (max(int(bottom - top) + 1, 1), max(int(right - left) + 1, 1))
        mask = nn.functional.interpolate(mask[None], size, mode="bilinear", align_corners=False)[0]
        y, x, down, across = max(top, 0), max(left, 0), min(bottom + 1, img_shape[0]), min(right + 1, img_shape[1])
        picture[:, y:down, x:across] = mask[:, y - top : down - top, x - left : across - left]
    return result


@pytest.fixture
def regions_of_torchvision(monkeypatch):
    if find_spec("torchvision"):
        return import_module("torchvision.models.detection.roi_heads")
    module = ModuleType("torchvision.models.detection.roi_heads")
    held = {"expand_masks": expand_masks, "expand_boxes": expand_boxes, "nn": nn}
    module.__dict__.update(held)
    module.paste_masks_in_image = FunctionType(
        paste_masks_in_image.__code__, vars(module), "paste_masks_in_image", (1,)
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


class OneStage(nn.Module):
    """Chosen by score, suppressed within each class, the best kept (as RetinaNet, FCOS and SSD of torchvision do)."""

    def __init__(self, boxes):
        super().__init__()
        self.boxes = boxes

    def forward(self, corners, scores):
        scores, labels = scores.softmax(-1).max(-1)
        places = torch.where(scores > 0.95)[0]
        corners, scores, labels = corners[places], scores[places], labels[places]
        kept = self.boxes.batched_nms(corners, scores, labels, 0.5)[:20]
        return corners[kept], scores[kept], labels[kept]


class TwoStages(nn.Module):
    """Proposals, the features of their regions on two levels, and boxes, scores and masks of those (as torchvision's R-CNN)."""

    def __init__(self, boxes, regions):
        super().__init__()
        torch.manual_seed(0)
        self.boxes, self.regions = boxes, regions
        self.box, self.score, self.mask = nn.Linear(36, 12), nn.Linear(36, 3), nn.Conv2d(4, 3, 1)

    def pooled(self, levels, proposals):
        rois = torch.cat((torch.zeros_like(proposals[:, :1]), proposals), 1)
        level = ((proposals[:, 2:] - proposals[:, :2]).prod(1) > 100).long()
        result = torch.zeros(len(rois), 4, 3, 3)
        for number, features in enumerate(levels):
            places = torch.where(level == number)[0]
            pooled = torch.ops.torchvision.roi_align(features, rois[places], 0.5 / (number + 1), 3, 3, 2, False)
            result[places] = pooled
        return result

    def decoded(self, change, proposals):
        count = 0
        for item in [proposals]:
            count += item.size(0)
        if count > 0:
            change = change.reshape(count, -1)
        moved = proposals.repeat(1, 3) + change
        return moved.reshape(count, -1, 4) if count > 0 else moved

    def forward(self, fine, coarse, corners, objectness):
        kept = self.boxes.batched_nms(corners, objectness, torch.zeros_like(objectness).long(), 0.7)[:12]
        proposals = corners[kept]
        features = self.pooled((fine, coarse), proposals)
        scores = self.score(features.flatten(1)).softmax(-1)
        boxes = self.decoded(self.box(features.flatten(1)), proposals).clamp(0, 31)
        labels = torch.arange(3).expand_as(scores)
        boxes, scores, labels = boxes.reshape(-1, 4), scores.reshape(-1), labels.reshape(-1)
        places = torch.where(scores > 0.3)[0]
        boxes, scores, labels = boxes[places], scores[places], labels[places]
        kept = self.boxes.batched_nms(boxes, scores, labels, 0.5)[:5]
        boxes, scores, labels = boxes[kept], scores[kept], labels[kept]
        masks = self.mask(self.pooled((fine, coarse), boxes)).sigmoid()
        masks = masks[torch.arange(masks.shape[0]), labels][:, None]
        return boxes, scores, labels, self.regions.paste_masks_in_image(masks, boxes, (32, 32))


class SetHead(nn.Module):
    """The best class of each query but the last, which stands for none (as DETR does)."""

    def forward(self, logits, boxes, sizes):
        scores, labels = logits.softmax(-1)[..., :-1].max(-1)
        x, y, width, height = boxes.unbind(-1)
        corners = torch.stack((x - width / 2, y - height / 2, x + width / 2, y + height / 2), -1)
        height, width = sizes.unbind(1)
        return scores, labels, corners * torch.stack((width, height, width, height), 1)[:, None]


class Prompts(nn.Module):
    """Points and a box become tokens; masks are enlarged and scored by how stable they are (as Segment Anything does)."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", torch.randn(2, 8))
        self.kinds = nn.Embedding(4, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def encoded(self, points):
        angles = 2 * torch.pi * ((2 * points - 1) @ self.frequencies)
        return torch.cat((angles.sin(), angles.cos()), -1)

    def forward(self, image, points, labels, box):
        tokens = self.encoded((points + 0.5) / 32) * (labels != -1)[..., None]
        tokens = tokens + self.kinds((labels == 1).long()) * (labels != -1)[..., None]
        corners = self.encoded((box.reshape(-1, 2, 2) + 0.5) / 32) + self.kinds.weight[2:]
        tokens = torch.cat((tokens, corners), 1)
        pixels = image.flatten(2).transpose(1, 2)
        tokens = tokens + self.attention(tokens, pixels, pixels, need_weights=False)[0]
        masks = (tokens[:, -3:] @ pixels.transpose(1, 2)).unflatten(2, image.shape[2:])
        masks = nn.functional.interpolate(masks, (32, 32), mode="bilinear", align_corners=False)
        inner, outer = ((masks > limit).sum((-1, -2)) for limit in (1.0, -1.0))
        stability = inner / outer.clamp(min=1)
        best = stability.argmax(1)
        return masks[torch.arange(len(masks)), best] > 0, stability


def image(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("confidence", [0.5, 2.0], ids=["some", "none"])
def test_a_grid_of_boxes(confidence):
    torch.manual_seed(0)
    head = GridHead(confidence).eval()
    model = onnxport.convert(head, inputs=(image(1, 3, 64, 64),), validate=confidence < 1)
    assert [value.name for value in model.model.graph.outputs] == ["boxes", "scores", "labels"]
    for other in (image(1, 3, 64, 64), image(1, 3, 64, 64).flip(3)):
        expected = head(other)
        assert len(expected["boxes"]) == (20 if confidence < 1 else 0)
        for given, wanted in zip(model(other), expected.values(), strict=True):
            torch.testing.assert_close(torch.from_numpy(given), wanted)


def test_a_set_of_boxes():
    inputs = (image(2, 10, 5) * 6 - 3, image(2, 10, 4), torch.tensor([[480.0, 640.0], [96.0, 128.0]]))
    assert onnxport.convert(SetHead().eval(), inputs=inputs).report.verdict == "passed"


def test_prompts_of_points_and_a_box():
    torch.manual_seed(0)
    labels = torch.tensor([[1, 0, -1], [0, 1, 1]])
    inputs = (image(2, 16, 8, 8) * 2 - 1, image(2, 3, 2) * 32, labels, torch.tensor([[2.0, 3, 20, 30], [0, 0, 31, 9]]))
    assert onnxport.convert(Prompts().eval(), inputs=inputs).report.verdict == "passed"


@pytest.mark.parametrize("name, rest", [("ps_roi_align", (1.0, 2, 2, -1)), ("ps_roi_pool", (1.0, 2, 2))])
def test_no_regions(name, rest):
    pool = getattr(torch.ops.torchvision, name)
    regions = torch.tensor([[0.0, 1, 1, 6, 7], [1, 0, 0, 9, 9]])
    shapes = {"x": {}, "rois": {0: "regions"}}
    pooled, inputs = (lambda x, rois: pool(x, rois, *rest)[0]), (image(2, 8, 10, 10), regions)
    model = onnxport.convert(pooled, inputs=inputs, dynamic_shapes=shapes, validate=False)
    torch.testing.assert_close(torch.from_numpy(model(*inputs)), pooled(*inputs))
    assert model(image(2, 8, 10, 10), regions[:0]).shape == (0, 2, 2, 2)


def test_suppression_within_each_class(boxes_of_torchvision):
    own = boxes_of_torchvision.batched_nms.__code__
    corners, scores = image(1100, 4) * 20, 5 * image(1100, 3)
    corners[:, 2:] += corners[:, :2] + 1
    model = onnxport.convert(OneStage(boxes_of_torchvision), inputs=(corners, scores))
    assert model.report.passed
    assert boxes_of_torchvision.batched_nms.__code__ is own
    for factor in (1.0, 3.0, 0.0):  # none is left by the last
        expected = OneStage(boxes_of_torchvision)(corners, scores * factor)
        for given, wanted in zip(model(corners.numpy(), (scores * factor).numpy()), expected, strict=True):
            torch.testing.assert_close(torch.as_tensor(given), wanted)


def test_masks_in_a_picture(regions_of_torchvision):
    own = regions_of_torchvision.paste_masks_in_image
    code = own.__code__
    corners = image(4, 4) * 30
    corners[:, 2:] += corners[:, :2]
    corners[0] = torch.tensor([-9.0, 20, 3, 55])  # partly outside
    corners[1, 2:] = corners[1, :2]
    inputs = (image(4, 1, 7, 7), corners)
    names = ({0: "boxes"}, {0: "boxes"})
    model = onnxport.convert(lambda masks, boxes: own(masks, boxes, (40, 45)), inputs=inputs, dynamic_shapes=names)
    assert own.__code__ is code
    assert model.report.passed
    for count in (4, 1, 0):
        masks, boxes = (item[:count] for item in inputs)
        torch.testing.assert_close(torch.as_tensor(model(masks, boxes)), own(masks, boxes, (40, 45)))


def test_two_stages(boxes_of_torchvision, regions_of_torchvision):
    head = TwoStages(boxes_of_torchvision, regions_of_torchvision).eval()
    corners = image(30, 4) * 16
    corners[:, 2:] += corners[:, :2] + 1
    inputs = (image(1, 4, 16, 16) * 4 - 2, image(1, 4, 8, 8), corners, image(30))
    names = ({}, {}, {0: "boxes"}, {0: "boxes"})
    model = onnxport.convert(
        head, inputs=inputs, dynamic_shapes=names, validate=False
    )  # corners are cut to whole numbers
    for count in (30, 1, 0):
        given = (*inputs[:2], corners[:count], inputs[3][:count])
        with torch.no_grad():
            expected = head(*given)
        for result, wanted in zip(model(*(item.numpy() for item in given)), expected, strict=True):
            torch.testing.assert_close(torch.as_tensor(result), wanted, rtol=1e-4, atol=1e-5)


def test_boxes_that_the_operator_does_not_take(boxes_of_torchvision):
    """NonMaxSuppression is of float32: torchvision's own function is traced."""
    corners, scores = image(9, 4).double() * 20, image(9).double()
    corners[:, 2:] += corners[:, :2] + 1
    classes = torch.tensor([0, 1, 0, 1, 2, 0, 1, 0, 2])
    kept = lambda boxes, scores: boxes_of_torchvision.batched_nms(boxes, scores, classes, 0.3)  # noqa: E731
    report = onnxport.convert(kept, inputs=(corners, scores)).report
    assert report.passed
    assert "onnxport::batched_nms" not in str(report.notes)
