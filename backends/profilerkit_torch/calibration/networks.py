"""Small networks of several families, which a calibration predicts and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit import ModelInputs
from profilerkit_predict.prediction.cases import CalibrationNetwork

__all__ = ["make_networks"]


class _Network(NamedTuple):
    """A network on the CPU, and its input."""

    name: str
    family: str
    model: nn.Module
    x: torch.Tensor


def make_networks(device: torch.device) -> Iterator[CalibrationNetwork]:
    """Yield the networks, with inputs on the device; for an accelerator also larger networks."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for network in chain(_make_small(), _make_large() if device.type != "cpu" else ()):
            inputs = ModelInputs(network.x.to(device))
            yield CalibrationNetwork(network.name, network.family, network.model.to(device), inputs)


def _make_small() -> Iterator[_Network]:
    """Make networks that run in a short time."""
    yield _Network("narrow layers", "dense", _make_dense(64, 6), torch.randn(4, 64))
    yield _Network("wide layers", "dense", _make_dense(768, 3), torch.randn(32, 768))
    yield _Network("plain convolutions", "convolutional", _make_convolutional(16, 4), torch.randn(4, 3, 32, 32))
    yield _Network("strided convolutions", "convolutional", _make_convolutional(48, 3), torch.randn(1, 3, 96, 96))
    yield _Network("residual blocks", "residual", _BlockNetwork(_Residual(32), 32, 3), torch.randn(2, 3, 32, 32))
    yield _Network("bottlenecks", "residual", _BlockNetwork(_Residual(64), 64, 4), torch.randn(1, 3, 56, 56))
    yield _Network("depthwise blocks", "depthwise", _BlockNetwork(_Separable(48), 48, 4), torch.randn(2, 3, 32, 32))
    yield _Network("short transformer", "transformer", _make_transformer(64, 4, 2), torch.randn(4, 32, 64))
    yield _Network("wide transformer", "transformer", _make_transformer(256, 8, 2), torch.randn(1, 128, 256))
    yield _Network("LSTM", "recurrent", _Then(nn.LSTM(64, 64, batch_first=True), itemgetter(0)), torch.randn(8, 24, 64))
    yield _Network("GRU", "recurrent", _Then(nn.GRU(48, 96, batch_first=True), itemgetter(0)), torch.randn(4, 16, 48))
    yield _Network("embedded words", "embedding", _make_word_model(), torch.randint(0, 2000, (8, 32)))


def _make_large() -> Iterator[_Network]:
    """Make networks that keep an accelerator busy: with the small networks, the host takes most of the time."""
    yield _Network("wide layers, many rows", "dense", _make_dense(4096, 3), torch.randn(4096, 4096))
    yield _Network(
        "strided convolutions, many images", "convolutional", _make_convolutional(48, 3), torch.randn(64, 3, 96, 96)
    )
    yield _Network(
        "residual blocks, many images", "residual", _BlockNetwork(_Residual(64), 64, 3), torch.randn(64, 3, 56, 56)
    )
    yield _Network(
        "depthwise blocks, many images", "depthwise", _BlockNetwork(_Separable(96), 96, 3), torch.randn(64, 3, 56, 56)
    )
    yield _Network("transformer, many tokens", "transformer", _make_transformer(768, 12, 4), torch.randn(16, 256, 768))
    yield _Network(
        "LSTM, many sequences",
        "recurrent",
        _Then(nn.LSTM(256, 256, batch_first=True), itemgetter(0)),
        torch.randn(128, 64, 256),
    )


def _make_dense(width: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers)


def _make_convolutional(width: int, depth: int) -> nn.Module:
    """Return a classifier with plain convolutions, of which each halves the image and doubles the channels."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU()]
        width *= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


class _BlockNetwork(nn.Module):
    """A convolution, and behind it one block several times, with the same weights."""

    def __init__(self, block: nn.Module, width: int, times: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.block = block
        self.times = times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for _ in range(self.times):
            x = self.block(x)
        return x


class _Residual(nn.Module):
    """Two convolutions with normalization, and a sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(width), nn.BatchNorm2d(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(inner)))


class _Separable(nn.Module):
    """A convolution within channels, and one across."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.within = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.across = nn.Conv2d(width, width, 1)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.across(self.within(x))))


def _make_transformer(width: int, heads: int, depth: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


class _Then(nn.Module):
    """A layer, and a function of what it returns: the outputs of a recurrent layer, or the mean over words."""

    def __init__(self, layer: nn.Module, function: Callable[[Any], torch.Tensor]) -> None:
        super().__init__()
        self.layer, self.function = layer, function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.layer(x))


def _make_word_model() -> nn.Module:
    mean_of_words = _Then(nn.LayerNorm(128), partial(torch.mean, dim=1))
    return nn.Sequential(nn.Embedding(2000, 128), mean_of_words, nn.Linear(128, 64), nn.ReLU())
