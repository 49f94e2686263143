"""Small networks of several families, which a calibration predicts and runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs
from profilerkit_predict.prediction.cases import CalibrationNetwork

__all__ = ["networks"]


def networks(device: torch.device) -> Iterator[CalibrationNetwork]:
    """Yield the networks, with inputs on the device; larger ones as well for a device of its own."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for name, family, model, inputs in chain(_make_networks(), _large() if device.type != "cpu" else ()):
            yield CalibrationNetwork(name, family, model.to(device), ModelInputs(inputs.to(device)))


def _make_networks() -> Iterator[tuple[str, str, nn.Module, torch.Tensor]]:
    yield "narrow layers", "dense", _dense(64, 6), torch.randn(4, 64)
    yield "wide layers", "dense", _dense(768, 3), torch.randn(32, 768)
    yield "plain convolutions", "convolutional", _plain(16, 4), torch.randn(4, 3, 32, 32)
    yield "strided convolutions", "convolutional", _plain(48, 3), torch.randn(1, 3, 96, 96)
    yield "residual blocks", "residual", _Stem(_Residual(32), 32, 3), torch.randn(2, 3, 32, 32)
    yield "bottlenecks", "residual", _Stem(_Residual(64), 64, 4), torch.randn(1, 3, 56, 56)
    yield "depthwise blocks", "depthwise", _Stem(_Separable(48), 48, 4), torch.randn(2, 3, 32, 32)
    yield "short transformer", "transformer", _transformer(64, 4, 2), torch.randn(4, 32, 64)
    yield "wide transformer", "transformer", _transformer(256, 8, 2), torch.randn(1, 128, 256)
    yield "LSTM", "recurrent", _First(nn.LSTM(64, 64, batch_first=True)), torch.randn(8, 24, 64)
    yield "GRU", "recurrent", _First(nn.GRU(48, 96, batch_first=True)), torch.randn(4, 16, 48)
    yield "embedded words", "embedding", _words(), torch.randint(0, 2000, (8, 32))


def _large() -> Iterator[tuple[str, str, nn.Module, torch.Tensor]]:
    """Make networks that keep a device of its own busy: of the small ones, the host takes most of the time."""
    yield "wide layers, many rows", "dense", _dense(4096, 3), torch.randn(4096, 4096)
    yield "strided convolutions, many images", "convolutional", _plain(48, 3), torch.randn(64, 3, 96, 96)
    yield "residual blocks, many images", "residual", _Stem(_Residual(64), 64, 3), torch.randn(64, 3, 56, 56)
    yield "depthwise blocks, many images", "depthwise", _Stem(_Separable(96), 96, 3), torch.randn(64, 3, 56, 56)
    yield "transformer, many tokens", "transformer", _transformer(768, 12, 4), torch.randn(16, 256, 768)
    yield "LSTM, many sequences", "recurrent", _First(nn.LSTM(256, 256, batch_first=True)), torch.randn(128, 64, 256)


def _dense(width: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers)


def _plain(width: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
    for index in range(depth):
        layers += [nn.Conv2d(width << index, width << (index + 1), 3, 2, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width << depth, 10))


class _Stem(nn.Module):
    """A convolution, and a block several times."""

    def __init__(self, block: nn.Module, width: int, times: int) -> None:
        super().__init__()
        self.stem, self.block, self.times = nn.Conv2d(3, width, 3, padding=1), block, times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for _ in range(self.times):
            x = self.block(x)
        return x


class _Residual(nn.Module):
    """Two convolutions with normalization, and a sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList([nn.BatchNorm2d(width), nn.BatchNorm2d(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(inner)))


class _Separable(nn.Module):
    """A convolution within channels, and one across."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.within = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.across, self.norm = nn.Conv2d(width, width, 1), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.across(self.within(x))))


def _transformer(width: int, heads: int, depth: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


class _First(nn.Module):
    """A recurrent layer, and its outputs alone."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x)[0]


class _Mean(nn.Module):
    """The mean over the words."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)


def _words() -> nn.Module:
    return nn.Sequential(nn.Embedding(2000, 128), nn.LayerNorm(128), _Mean(), nn.Linear(128, 64), nn.ReLU())
