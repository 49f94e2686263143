"""The networks of ``predicted.py``: nine families of five sizes each, made of torch's layers, with random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

SIZES = range(5)


class Subject(NamedTuple):
    """A network, and a function that makes its inputs for a batch size."""

    name: str
    family: str
    model: nn.Module
    inputs: Callable[[int], Any]


def subjects() -> Iterator[Subject]:
    """Yield all networks."""
    for family, make in FAMILIES.items():
        for size in SIZES:
            torch.manual_seed(size)
            model, inputs = make(size)
            yield Subject(f"{family} {size}", family, model.eval(), inputs)


def _floats(*shape: int) -> Callable[[int], Any]:
    return lambda batch: torch.randn(batch, *shape)


def _ids(length: int, words: int) -> Callable[[int], Any]:
    return lambda batch: torch.randint(0, words, (batch, length))


def dense(size: int) -> tuple[nn.Module, Any]:
    width, depth = (32, 128, 256, 512, 1024)[size], (8, 3, 6, 2, 4)[size]
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), (nn.ReLU, nn.GELU, nn.Tanh)[size % 3]()]
    return nn.Sequential(*layers, nn.Linear(width, 10)), _floats(width)


def plain_convolutions(size: int) -> tuple[nn.Module, Any]:
    width, depth, image = (8, 16, 24, 32, 64)[size], (3, 4, 3, 2, 3)[size], (32, 32, 64, 64, 48)[size]
    layers, channels = [], 3
    for index in range(depth):
        layers += [nn.Conv2d(channels, width << index, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        channels = width << index
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)), _floats(
        3, image, image
    )


class Residual(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()),
            *(nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)),
        )
        same = channels == out and stride == 1
        self.skip = nn.Identity() if same else nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.relu(self.body(x) + self.skip(x))


def residual(size: int) -> tuple[nn.Module, Any]:
    width, stages, image = (16, 16, 32, 48, 64)[size], (2, 3, 2, 3, 2)[size], (32, 48, 56, 32, 64)[size]
    blocks = [Residual(width << max(0, i - 1), width << i, 1 + (i > 0)) for i in range(stages)]
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width << (stages - 1), 10)
    return nn.Sequential(nn.Conv2d(3, width, 3, padding=1), *blocks, *head), _floats(3, image, image)


def depthwise(size: int) -> tuple[nn.Module, Any]:
    width, depth, image = (16, 32, 48, 64, 96)[size], (3, 4, 2, 3, 2)[size], (32, 32, 56, 28, 28)[size]
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 2, 1)]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, 3, padding=1, groups=width), nn.BatchNorm2d(width), nn.Hardswish()]
        layers += [nn.Conv2d(width, width, 1), nn.BatchNorm2d(width)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)), _floats(3, image, image)


def encoder(size: int) -> tuple[nn.Module, Any]:
    width, heads, depth, length = ((64, 4, 2, 16), (128, 4, 2, 64), (192, 6, 1, 48), (256, 8, 3, 32), (384, 6, 2, 64))[
        size
    ]
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
    body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(1000, width), body, nn.Linear(width, 10)), _ids(length, 1000)


class Causal(nn.Module):
    """Blocks of causal attention spelt out, as decoders have them."""

    def __init__(self, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.words, self.heads = nn.Embedding(2000, width), heads
        self.projections = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(depth))
        self.outputs = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))
        self.gates = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(depth))
        self.downs = nn.ModuleList(nn.Linear(4 * width, width, bias=False) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.head = nn.Linear(width, 2000, bias=False)

    def forward(self, ids: torch.Tensor) -> Any:
        x = self.words(ids)
        batch, length, width = x.shape
        for index, projection in enumerate(self.projections):
            q, k, v = projection(self.norms[2 * index](x)).chunk(3, -1)
            q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.outputs[index](y.transpose(1, 2).reshape(batch, length, width))
            x = x + self.downs[index](nn.functional.silu(self.gates[index](self.norms[2 * index + 1](x))))
        return self.head(x)


def decoder(size: int) -> tuple[nn.Module, Any]:
    width, heads, depth, length = ((64, 4, 2, 16), (96, 4, 3, 32), (128, 8, 2, 64), (256, 8, 2, 32), (256, 4, 1, 128))[
        size
    ]
    return Causal(width, heads, depth), _ids(length, 2000)


class Last(nn.Module):
    """A recurrent layer, and a classifier of its last output."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(self.layer(x)[0][:, -1])


def recurrent(size: int) -> tuple[nn.Module, Any]:
    width, length, kind = (
        (32, 16, nn.LSTM),
        (64, 16, nn.GRU),
        (64, 48, nn.LSTM),
        (128, 24, nn.LSTM),
        (192, 12, nn.GRU),
    )[size]
    return Last(kind(width, width, batch_first=True), width), _floats(length, width)


class Patches(nn.Module):
    """Patches of an image, mixed across places and channels."""

    def __init__(self, width: int, patch: int, depth: int, places: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, patch, patch)
        self.across = nn.ModuleList(nn.Linear(places, places) for _ in range(depth))
        self.within = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.stem(x).flatten(2).transpose(1, 2)
        for across, within, norm in zip(self.across, self.within, self.norms, strict=True):
            x = x + nn.functional.gelu(across(norm(x).transpose(1, 2))).transpose(1, 2)
            x = x + nn.functional.gelu(within(x))
        return self.head(x.mean(1))


def mixer(size: int) -> tuple[nn.Module, Any]:
    width, patch, depth, image = (
        (64, 8, 4, 32),
        (128, 8, 4, 64),
        (192, 16, 6, 96),
        (256, 8, 3, 64),
        (384, 16, 4, 128),
    )[size]
    return Patches(width, patch, depth, (image // patch) ** 2), _floats(3, image, image)


class Upwards(nn.Module):
    """An encoder and a decoder of images, with connections between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.third, self.up = nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.Upsample(scale_factor=2)
        self.last = nn.Conv2d(3 * width, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> Any:
        x = torch.relu(self.first(x))
        y = torch.relu(self.third(torch.relu(self.second(x))))
        return self.last(torch.cat([x, self.up(y)], 1))


def upwards(size: int) -> tuple[nn.Module, Any]:
    width, image = ((8, 32), (16, 32), (16, 64), (32, 48), (48, 32))[size]
    return Upwards(width), _floats(3, image, image)


FAMILIES: dict[str, Callable[[int], tuple[nn.Module, Any]]] = {
    "dense": dense,
    "plain convolutions": plain_convolutions,
    "residual": residual,
    "depthwise": depthwise,
    "encoder": encoder,
    "decoder": decoder,
    "recurrent": recurrent,
    "mixer": mixer,
    "encoder-decoder": upwards,
}
