"""Files of torch.onnx: both of its exporters, on tiny models of transformers, of timm, and plain ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from scripts.conformance.foreign_files import Write, drawn, that_run

ARCHITECTURES = (
    "bert vit swin roberta xlm_roberta big_bird gpt2 t5 llama whisper clip distilbert albert deberta electra mobilebert "
    "convnext resnet segformer wav2vec2 qwen2 opt mobilevit regnet deit lfm2 mistral gemma bart mpnet deberta_v2 layoutlm "
    "squeezebert funnel xlnet bloom gpt_neox phi dinov2 beit levit poolformer mobilenet_v2 efficientnet blip marian"
).split()
FAMILIES = (
    "resnet mobilenetv3 efficientnet convnext vision_transformer swin_transformer densenet regnet ghostnet mlp_mixer mobilevit"
).split()
ROWS = 3  # of the other batch size
LONGER = 2  # by how much the other length of words is longer


class Residual(nn.Module):
    """A block of a small ResNet."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two convolutions beside the input."""
        return F.relu(x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class Recurrent(nn.Module):
    """A recurrent layer of torch over embedded words."""

    def __init__(self, kind: type[nn.Module], **options: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.rnn = kind(8, 6, batch_first=True, **options)
        self.head = nn.Linear(6 * (2 if options.get("bidirectional") else 1), 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Scores of the last step."""
        return self.head(self.rnn(self.words(ids))[0][:, -1])


class Attending(nn.Module):
    """torch's own attention."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention of x to itself."""
        return self.attention(x, x, x, need_weights=False)[0]


class Asking(nn.Module):
    """A condition and a loop over values, for torch.jit.script."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Grows x until it is large."""
        if bool(x.sum() > 0):
            x = self.fc(x)
        for _ in range(3):
            x = x + 1
        return x


def _mobile() -> nn.Module:
    def step(a: int, b: int, stride: int) -> list[nn.Module]:
        depth = nn.Conv2d(a, a, 3, stride, 1, groups=a, bias=False)
        return [depth, nn.BatchNorm2d(a), nn.ReLU6(), nn.Conv2d(a, b, 1, bias=False), nn.BatchNorm2d(b), nn.Hardswish()]

    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1),
        *step(8, 16, 1),
        *step(16, 24, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 5),
    )


def _image(rows: int = 2, size: int = 16) -> torch.Tensor:
    return torch.randn(rows, 3, size, size)


def _words() -> torch.Tensor:
    return torch.randint(0, 30, (2, 5))


PLAIN: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "small_resnet": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            Residual(8),
            Residual(8),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 5),
        ),
        _image,
    ),
    "small_mobilenet": (_mobile, _image),
    "lstm": (lambda: Recurrent(nn.LSTM), _words),
    "lstm_two_ways": (lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True), _words),
    "gru": (lambda: Recurrent(nn.GRU), _words),
    "gru_two_ways": (lambda: Recurrent(nn.GRU, num_layers=2, bidirectional=True), _words),
    "rnn": (lambda: Recurrent(nn.RNN), _words),
    "attention": (Attending, lambda: torch.randn(2, 5, 8)),
    "encoder": (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False
        ),
        lambda: torch.randn(2, 5, 8),
    ),
    "norms": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3),
            nn.GroupNorm(2, 8),
            nn.PReLU(8),
            nn.Conv2d(8, 8, 3, groups=2),
            nn.InstanceNorm2d(8, affine=True),
            nn.ELU(),
            nn.ConvTranspose2d(8, 4, 3, 2, 1, 1),
            nn.LayerNorm(24),
            nn.GELU(),
        ),
        _image,
    ),
    "unet": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1),
            nn.LeakyReLU(),
            nn.AvgPool2d(2),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.ReflectionPad2d(1),
            nn.Conv2d(4, 2, 3),
            nn.PixelShuffle(1),
            nn.Upsample(scale_factor=2, mode="nearest"),
            nn.Tanh(),
        ),
        _image,
    ),
    "activations": (
        lambda: nn.Sequential(
            nn.Linear(4, 8),
            nn.SiLU(),
            nn.Linear(8, 8),
            nn.Mish(),
            nn.Linear(8, 8),
            nn.Softplus(),
            nn.Hardsigmoid(),
            nn.Linear(8, 8),
            nn.GELU(approximate="tanh"),
            nn.CELU(),
            nn.Softsign(),
            nn.LogSoftmax(-1),
        ),
        lambda: torch.randn(2, 4),
    ),
    "conv1d": (
        lambda: nn.Sequential(
            nn.Conv1d(4, 8, 3, dilation=2),
            nn.BatchNorm1d(8),
            nn.GLU(1),
            nn.MaxPool1d(2),
            nn.Flatten(),
            nn.Linear(16, 2),
        ),
        lambda: torch.randn(2, 4, 12),
    ),
}


class Flat(nn.Module):
    """A model of transformers whose outputs are a tuple, as a trace wants it."""

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, list(names)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The outputs that are tensors."""
        result = self.model(**dict(zip(self.names, inputs, strict=True)))
        return tuple(leaf for leaf in torch.utils._pytree.tree_leaves(dict(result)) if isinstance(leaf, torch.Tensor))


def export(
    path: Path, model: nn.Module, inputs: dict[str, Any], opset: int, dynamo: bool
) -> Sequence[Sequence[np.ndarray]]:
    """Writes a model, its batch and the length of its words dynamic where the exporter manages it; gives inputs of the file."""
    if hasattr(model, "config") and hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    model.eval()
    rows = {name: [0] for name in inputs}
    words = {name: [0, 1] if _holds_words(value) else [0] for name, value in inputs.items()}
    ways = [words, rows, {}] if words != rows else [rows, {}]
    for axes in ways:
        try:
            _export(path, model, inputs, opset, dynamo, axes)
            return that_run(path, _sets(path, inputs))
        except Exception:
            if not axes:
                raise
    raise AssertionError


def _sets(path: Path, inputs: dict[str, Any]) -> list[list[np.ndarray]]:
    """Two draws of the file's inputs, one with another batch size and one with another length where these are dynamic."""
    import onnx

    proto = onnx.load(path)
    shapes = {item.name: item.type.tensor_type.shape.dim for item in proto.graph.input}
    held = {name: value for name, value in inputs.items() if name in shapes}
    given = [value.numpy() for value in held.values()]
    if not shapes or not proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param:
        return drawn(given, None)
    sets = drawn(given, ROWS)
    if any(_holds_words(value) and shapes[name][1].dim_param for name, value in held.items()):
        longer = [
            np.concatenate([item, item[:, :LONGER]], 1) if _holds_words(value) else item
            for item, value in zip(sets[-1], held.values(), strict=True)
        ]
        sets.append(longer)
    return sets


def _holds_words(value: torch.Tensor) -> bool:
    """Whether an input is rows of words: their numbers, their mask or their kinds."""
    return value.ndim == 2 and not value.dtype.is_floating_point


def _export(
    path: Path, model: nn.Module, inputs: dict[str, Any], opset: int, dynamo: bool, axes: dict[str, list[int]]
) -> None:
    names = list(inputs)
    options: dict[str, Any] = {}
    args: tuple[Any, ...]
    given: dict[str, Any] | None
    if axes and dynamo:
        options["dynamic_shapes"] = {name: dict.fromkeys(held, torch.export.Dim.DYNAMIC) for name, held in axes.items()}
    elif axes:
        called = ("batch", "length")
        options["dynamic_axes"] = {name: {axis: called[axis] for axis in held} for name, held in axes.items()}
    if dynamo:
        options["external_data"] = False
    if not dynamo and hasattr(model, "config"):
        model, args, given = Flat(model, names), tuple(inputs.values()), None
    else:
        args, given = (), inputs
    torch.onnx.export(
        model,
        args,
        str(path),
        kwargs=given,
        input_names=names,
        opset_version=opset,
        dynamo=dynamo,
        verbose=False,
        **options,
    )


def _made_to_move(model: nn.Module, inputs: dict[str, Any]) -> None:
    """Calibrates norms, and draws weights anew where the first ones give one result for all inputs, as a classifier of zeros."""
    torch.manual_seed(0)
    _calibrate(model, inputs)
    first, second = (_results(model, _redrawn(inputs)) for _ in range(2))
    if any(not torch.allclose(a, b, rtol=1e-3, atol=1e-6) for a, b in zip(first, second, strict=True)):
        return
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.kaiming_normal_(weight.data)
    for part in model.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.reset_parameters()
    _calibrate(model, inputs)


def _redrawn(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.randn_like(x) if x.dtype.is_floating_point else x.roll(1) for name, x in inputs.items()}


def _results(model: nn.Module, inputs: dict[str, Any]) -> list[torch.Tensor]:
    with torch.no_grad():
        leaves = torch.utils._pytree.tree_leaves(model.eval()(**inputs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dtype.is_floating_point]


def _calibrate(model: nn.Module, inputs: dict[str, Any]) -> None:
    """Gives batch norms the statistics of their inputs: without, deep models of random weights give one result for all images."""
    norms = [part for part in model.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = None  # the mean over all batches
        norm.reset_running_stats()
    if norms:
        model.train()
        with torch.no_grad():
            for _ in range(3):
                model(**_redrawn(inputs))
    model.eval()


def _transformer(name: str, opset: int, dynamo: bool, path: Path) -> Sequence[Sequence[np.ndarray]]:
    from scripts.conformance import zoo_models

    ready = zoo_models.ready(zoo_models.architectures()[name])
    _made_to_move(ready.model, ready.inputs)
    return export(path, ready.model, ready.inputs, opset, dynamo)


def _timm(name: str, opset: int, dynamo: bool, path: Path) -> Sequence[Sequence[np.ndarray]]:
    from scripts.conformance import zoo_timm

    _, model, (image,) = zoo_timm.ready(name)
    _made_to_move(model, {"x": image})
    return export(path, model, {"x": image}, opset, dynamo)


def _plain(name: str, opset: int, dynamo: bool, path: Path) -> Sequence[Sequence[np.ndarray]]:
    import inspect

    torch.manual_seed(0)
    make, draw = PLAIN[name]
    model = make()
    return export(path, model, {next(iter(inspect.signature(model.forward).parameters)): draw()}, opset, dynamo)


def _scripted(path: Path) -> Sequence[Sequence[np.ndarray]]:
    torch.manual_seed(0)
    x = torch.randn(2, 4)
    torch.onnx.export(
        torch.jit.script(Asking()),
        (x,),
        str(path),
        input_names=["x"],
        dynamic_axes={"x": {0: "batch"}},
        dynamo=False,
        opset_version=17,
    )
    return drawn([x.numpy()], ROWS)


def _bind(make: Callable[..., Any], *args: Any) -> Write:
    return lambda path: make(*args, path)


def recipes() -> Iterator[tuple[str, Write]]:
    """Every model through both exporters, at opsets in turn."""
    for dynamo, opsets in ((False, (11, 13, 14, 17)), (True, (18, 20, 21))):
        kind = "torch.onnx dynamo" if dynamo else "torch.onnx TorchScript"
        for make, names in ((_plain, list(PLAIN)), (_transformer, ARCHITECTURES), (_timm, FAMILIES)):
            for index, name in enumerate(names):
                opset = max(opsets[index % len(opsets)], 14 if make is _transformer else 0)
                yield f"{kind}/{make.__name__[1:]}_{name}_{opset}", _bind(make, name, opset, dynamo)
    yield "torch.onnx TorchScript/plain_scripted_17", _scripted
