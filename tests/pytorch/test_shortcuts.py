"""Branches in Python that save work where a tensor's values allow it: the file goes the way that is right for every value."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

import onnxport  # noqa: E402


class Masked(torch.nn.Module):
    def forward(self, x, mask):
        if not mask.all():
            x = x * mask
        return x.cumsum(1)


class Asked(torch.nn.Module):
    """Asks by ``item()``, in two places."""

    def forward(self, x, mask):
        if (mask == 0).any().item():
            x = x * mask
        if bool((x > 1000).any()):
            x = x.clamp(max=1000)
        return x + 1


class Other(torch.nn.Module):
    """No shortcut: the ways give other numbers."""

    def forward(self, x, mask):
        return x * 2 if mask.all() else x * mask


class OtherBelow(torch.nn.Module):
    """The ways agree on the example alone, whose numbers are positive."""

    def forward(self, x, mask):
        return x.abs() if mask.all() else x * 1


class Filled(torch.nn.Module):
    """Works on the usual way; on a mask of ones that changes nothing, and leaving it out would be wrong for others."""

    def forward(self, x, mask):
        return x.masked_fill(mask == 0, 0) if mask.any() else x + 0


class Unseen(torch.nn.Module):
    """Limits the usual numbers: which way is right for every value does not show on numbers within the limits."""

    def forward(self, x, mask):
        return x.clamp(max=1e9) if (x > -1e12).all() else x * 1


class Stops(torch.nn.Module):
    """Ends a loop early, where the values allow it: what it gives is shorter then."""

    def forward(self, x, mask):
        steps = []
        for _ in range(3):
            x = x * 0.5
            steps.append(x)
            if (x < 0.1).all():
                break
        return torch.stack(steps) * mask.sum()


def inputs(*zeros):
    mask = torch.ones(2, 6, dtype=torch.int64)
    mask[1, zeros] = 0
    return torch.rand(2, 6) + 0.5, mask


@pytest.mark.parametrize("net", [Masked(), Asked()])
def test_the_way_that_is_right_for_every_value(net):
    model = onnxport.convert(net.eval(), inputs=inputs())
    assert model.report.passed
    assert "asks for a tensor's value" in str(model.report.notes)
    for given in (inputs(), inputs(0, 1), inputs(5)):
        assert torch.allclose(torch.from_numpy(model(*[item.numpy() for item in given])), net(*given))


@pytest.mark.parametrize("net", [Other(), OtherBelow(), Filled(), Unseen()])
def test_a_branch_that_changes_the_numbers_is_no_shortcut(net):
    """The graph has both of its ways."""
    model = onnxport.convert(net.eval(), inputs=inputs())
    assert "computes both ways" in str(model.report.notes)
    x, mask = inputs(0, 1)
    for given in (inputs(), (x, mask), (-x, mask), (-1e13 * x, mask), (-x, 0 * mask + 1), (x, 0 * mask)):
        assert torch.allclose(torch.from_numpy(model(*[item.numpy() for item in given])), net(*given))


def test_a_loop_that_ends_early_gives_as_many_steps():
    model = onnxport.convert(Stops().eval(), inputs=inputs())
    assert "holds both ways (If)" in str(model.report.notes)
    x, mask = inputs(0, 1)
    lengths = []
    for given in (x, 0.2 * x, 0.01 * x):
        wanted = Stops()(given, mask)
        lengths.append(len(wanted))
        assert torch.allclose(torch.from_numpy(model(given.numpy(), mask.numpy())), wanted)
    assert lengths[0] == 3
    assert lengths[-1] == 1


class Divided(torch.nn.Module):
    def forward(self, x, n):
        if (n != 0).all():
            x = x // n  # which is x for the ones of the example
        return x + 1


def test_a_way_that_leaves_something_out_saves_no_work():
    x, ones = torch.arange(12).reshape(3, 4), torch.ones(3, 4, dtype=torch.int64)
    model = onnxport.convert(Divided(), inputs=(x, ones))
    assert "holds both ways (If)" in str(model.report.notes)
    for n in (ones, 2 * ones, 0 * ones, ones.triu()):
        assert torch.equal(torch.from_numpy(model(x.numpy(), n.numpy())), Divided()(x, n))
