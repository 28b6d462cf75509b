"""Branches in Python on whether anything is selected: left out where they only save time, refused where they matter."""

import numpy as np
import pytest
import torch
from torch import nn

import onnxport
from onnxport.errors import TracingError


class Experts(nn.Module):
    """A gate and some experts; `way` says how the rows of an expert are picked."""

    def __init__(self, way):
        super().__init__()
        torch.manual_seed(0)
        self.gate, self.way = nn.Linear(8, 4), way
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.kept = torch.tensor([True, False])
        self.register_buffer("flags", torch.tensor([True, False]))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            self.way(self, x, weights, chosen == number, out, expert)
        return out


def by_places(model, x, weights, hit, out, expert):
    places = hit.any(-1).nonzero().squeeze(-1)
    if places.numel() == 0:
        return
    out.index_add_(0, places, expert(x[places]) * (weights * hit).sum(-1)[places, None])


def by_pairs(model, x, weights, hit, out, expert):
    rows, column = torch.where(hit)
    if rows.shape[0] > 0:
        out[rows] += expert(x[rows]) * weights[rows, column, None]


def by_mask(model, x, weights, hit, out, expert):
    mask = hit.any(-1)
    if mask.any():
        out[mask] += expert(x[mask]) * (weights * hit).sum(-1)[mask, None]


def by_count(model, x, weights, hit, out, expert):
    mask = hit[:, 0]
    if mask.sum() == 0:
        return
    out[mask] = expert(x[mask])


def by_share(model, x, weights, hit, out, expert):
    places = hit.any(-1).nonzero().squeeze(-1)
    count = places.shape[0]
    if count > 0:
        share = 1.0 / (count + 0.5)
        out.index_add_(0, places, expert(x[places]) * share)


@pytest.mark.parametrize("way", [by_places, by_pairs, by_mask, by_count, by_share])
def test_experts_without_rows_are_left_out(way):
    model = Experts(way).eval()
    converted = onnxport.convert(model, inputs=(torch.randn(6, 8),))
    assert converted.report.passed
    assert any("whether anything is selected" in note for note in converted.report.notes)
    for x in (torch.randn(1, 8), torch.zeros(3, 8), torch.randn(9, 8) - 2):
        with torch.no_grad():
            expected = model(x).numpy()
        np.testing.assert_allclose(converted(x.numpy()), expected, rtol=1e-4, atol=1e-5)
    assert model.kept.tolist() == model.flags.tolist() == [True, False]


def mean_or_zeros(model, x, weights, hit, out, expert):
    rows = torch.where(hit)[0]
    if rows.shape[0] == 0:
        return
    out += x[rows].mean(0)


def mean_or_zeros_by_length(model, x, weights, hit, out, expert):
    rows = torch.where(hit)[0]
    if len(rows) == 0:
        return
    out += x[rows].mean(0)


def mean_or_zeros_of_sums(model, x, weights, hit, out, expert):
    rows, count = torch.where(hit)[0], 0
    for item in (rows, rows):
        count += int(item.shape[0])
    if count > 0:
        out += x[rows].mean(0)


def counts_to_three(model, x, weights, hit, out, expert):
    rows = torch.where(hit)[0]
    if rows.shape[0] > 3:
        out[rows] += 1


def of_its_own(model, x, weights, hit, out, expert):
    if model.kept.any():
        out += torch.where(hit)[0].shape[0]
    if torch.where(hit)[0].numel() == 0:
        out += model.flags.sum()


@pytest.mark.parametrize(
    "way", [mean_or_zeros, mean_or_zeros_by_length, mean_or_zeros_of_sums, counts_to_three, of_its_own]
)
def test_branches_that_matter_are_refused(way):
    model = Experts(way).eval()
    with pytest.raises(TracingError, match=r"asks for the value of a tensor"):
        onnxport.convert(model, inputs=(torch.randn(6, 8),))
    assert model.kept.tolist() == model.flags.tolist() == [True, False]
