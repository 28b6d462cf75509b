"""Architectures of random weights: ResNet-50, ViT-B/16 and deep MLPs in plain PyTorch, ResNet-50 in Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def bottleneck(inner: int, width: int, stride: int) -> Any:
    """ResNet's residual block with a 1x1, a 3x3 and a 1x1 convolution (He et al. 2015, arXiv:1512.03385)."""
    import torch
    from torch import nn

    out = 4 * width

    class Bottleneck(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inner, width, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, stride, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, out, 1, bias=False),
                nn.BatchNorm2d(out),
            )
            self.skip = (
                nn.Identity()
                if inner == out and stride == 1
                else nn.Sequential(nn.Conv2d(inner, out, 1, stride, bias=False), nn.BatchNorm2d(out))
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.body(x) + self.skip(x))

    return Bottleneck()


def resnet50() -> tuple[Any, tuple[Any, ...]]:
    """ResNet-50 with 25.6 million parameters, and an image batch."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers: list[Any] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inner = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(count):
            layers.append(bottleneck(inner, width, stride if index == 0 else 1))
            inner = 4 * width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    return model.eval(), (torch.randn(2, 3, 224, 224),)


def vit_b16() -> tuple[Any, tuple[Any, ...]]:
    """ViT-B/16 with 86 million parameters (Dosovitskiy et al. 2020, arXiv:2010.11929), and an image batch."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    width, heads = 768, 12

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            batch, tokens, _ = x.shape
            qkv = self.qkv(self.before(x)).reshape(batch, tokens, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
            return x + self.mlp(self.after(x))

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.token = nn.Parameter(torch.zeros(1, 1, width))
            self.position = nn.Parameter(torch.randn(1, 197, width) * 0.02)
            self.blocks = nn.Sequential(*(Block() for _ in range(12)))
            self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 1000)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            patches = self.patches(image).flatten(2).transpose(1, 2)
            tokens = torch.cat([self.token.expand(patches.shape[0], -1, -1), patches], 1) + self.position
            return self.head(self.norm(self.blocks(tokens))[:, 0])

    return ViT().eval(), (torch.randn(2, 3, 224, 224),)


def mlp(depth: int, width: int = 32) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    """A multi-layer perceptron of `depth` linear layers with ReLU between."""

    def build() -> tuple[Any, tuple[Any, ...]]:
        import torch
        from torch import nn

        torch.manual_seed(0)
        layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
        return nn.Sequential(*layers).eval(), (torch.randn(2, width),)

    return build


def keras_resnet50() -> tuple[Any, tuple[Any, ...]]:
    """ResNet-50 of keras.applications with random weights, and an image batch."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    return keras.applications.ResNet50(weights=None), (
        np.random.default_rng(0).normal(size=(2, 224, 224, 3)).astype("float32"),
    )


TORCH: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "ResNet-50": resnet50,
    "ViT-B/16": vit_b16,
    "MLP, 10 layers": mlp(10),
    "MLP, 100 layers": mlp(100),
    "MLP, 1000 layers": mlp(1000),
    "MLP, 1 GB": mlp(16, 4096),
}
KERAS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {"Keras ResNet-50": keras_resnet50}
