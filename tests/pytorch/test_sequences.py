"""Sequences of several lengths: packed ones, and padding that an encoder takes out."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

from torch import Tensor, nn  # noqa: E402
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence  # noqa: E402

from tests.evidence import require_equal  # noqa: E402
from tests.pytorch.exporting import exported  # noqa: E402

pytestmark = pytest.mark.pytorch


class Packed(nn.Module):
    """Layers on packed sequences, with the padding that the second number stands for."""

    def __init__(self, first: nn.RNNBase, second: nn.RNNBase, padding: float = 0.0) -> None:
        super().__init__()
        self.first, self.second, self.padding = first, second, padding

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        steps, last = self.first(packed)
        steps, _ = self.second(steps)
        return *pad_packed_sequence(steps, batch_first=True, padding_value=self.padding), last


class OfTokens(nn.Module):
    """Computes with the packed tokens themselves, which hold no padding."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.lstm = nn.Linear(3, 5), nn.LSTM(5, 4)

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        tokens = self.layer(packed.data)
        given = PackedSequence(tokens, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        steps, _ = pad_packed_sequence(self.lstm(given)[0], total_length=x.shape[1])
        return tokens.mean(), packed.batch_sizes, steps


class WithStates(nn.Module):
    """A projected LSTM backwards too, from initial states, which follow the order of the lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True, bidirectional=True, proj_size=2)

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        states = x[:, 0, :2].repeat(2, 1, 1), x[:, 0, [0, 1, 2, 0]].repeat(2, 1, 1)
        steps, last = self.lstm(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False), states)
        return pad_packed_sequence(steps, batch_first=True)[0], last


PACKED: dict[str, nn.Module] = {
    "LSTM, two layers": Packed(
        nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), nn.LSTM(8, 2, batch_first=True), -1.0
    ),
    "GRU and RNN": Packed(nn.GRU(3, 4, bidirectional=True), nn.RNN(8, 2)),
    "tokens": OfTokens(),
    "initial states": WithStates(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("model", PACKED.values(), ids=PACKED)
def test_packed_sequences(model: nn.Module, dtype: torch.dtype) -> None:
    dynamic = ({0: "batch", 1: "time"}, {0: "batch"})
    model = model.to(dtype).eval()
    made = exported(model, torch.randn(3, 6, 3, dtype=dtype), torch.tensor([2, 6, 4]), dynamic_shapes=dynamic)
    require_equal(model, made, (torch.randn(4, 5, 3, dtype=dtype), torch.tensor([3, 1, 3, 4])))
    require_equal(model, made, (torch.randn(1, 2, 3, dtype=dtype), torch.tensor([2])))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, norm=nn.LayerNorm(8))

    def forward(self, x: Tensor, padding: Tensor) -> Any:
        hidden = x
        for layer in self.encoder.layers:
            hidden = layer(hidden, src_key_padding_mask=padding)
        mask = torch.zeros(5, 5)  # with one, torch leaves the padding in
        return self.encoder(x, src_key_padding_mask=padding), self.encoder(x, mask, padding), hidden


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:Support for mismatched")
def test_an_encoders_padding_is_what_it_is_without_gradients() -> None:
    model = Encoder().eval()
    x, padding = torch.randn(3, 5, 8), torch.arange(5) >= torch.tensor([[3], [5], [1]])
    made = exported(model, x, padding)
    for given in (padding, padding.flip(1)):  # behind the sequence, and before it, where torch leaves it in
        require_equal(model, made, (x + 1, given))
    assert not any(item._forward_hooks or item._forward_pre_hooks for item in model.modules())
