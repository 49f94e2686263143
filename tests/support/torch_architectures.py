"""The shared architectures in PyTorch, as `profilerkit.testing.architectures` describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from profilerkit import Backend
from profilerkit.testing import architectures as sizes
from profilerkit.testing.architectures import DataFormat

pytest.importorskip("torch")  # doctests are looked for here too, in environments that lack it

import torch
from torch import nn

DATA_FORMAT: DataFormat = "channels_first"

#: A batch norm's mean and variance are buffers in torch.
STATISTICS_ARE_PARAMETERS = False

#: The kind of each layer type that the models are made of.
KINDS = {
    "AdaptiveAvgPool2d": "pooling",
    "Attention": "attention",
    "AvgPool2d": "pooling",
    "BatchNorm2d": "batch normalisation",
    "Conv2d": "convolution",
    "ConvolutionBlock": "block",
    "Dropout": "dropout",
    "Embedding": "embedding",
    "EncoderBlock": "block",
    "Flatten": "flatten",
    "GELU": "activation",
    "GRU": "gru",
    "LSTM": "lstm",
    "LayerNorm": "layer normalisation",
    "Linear": "linear",
    "ReLU": "activation",
    "ReLU6": "activation",
    "Tanh": "activation",
}


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first, second = sizes.MLP_HIDDEN
        self.first = nn.Linear(sizes.MLP_FEATURES, first)
        self.first_activation = nn.ReLU()
        self.dropout = nn.Dropout(0.5)
        self.second = nn.Linear(first, second)
        self.second_activation = nn.ReLU()
        self.classifier = nn.Linear(second, sizes.CLASSES)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.dropout(self.first_activation(self.first(x)))
        return self.classifier(self.second_activation(self.second(x)))


class LeNet5(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        height, width, channels = sizes.LENET_IMAGE
        first, second = sizes.LENET_CHANNELS
        wide, narrow = sizes.LENET_HIDDEN
        self.first = nn.Conv2d(channels, first, 5, padding=2)
        self.first_activation = nn.Tanh()
        self.first_pooling = nn.AvgPool2d(2)
        self.second = nn.Conv2d(first, second, 5)
        self.second_activation = nn.Tanh()
        self.second_pooling = nn.AvgPool2d(2)
        self.flatten = nn.Flatten()
        self.third = nn.Linear((height // 4 - 2) * (width // 4 - 2) * second, wide)
        self.third_activation = nn.Tanh()
        self.fourth = nn.Linear(wide, narrow)
        self.fourth_activation = nn.Tanh()
        self.classifier = nn.Linear(narrow, sizes.CLASSES)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.first_pooling(self.first_activation(self.first(x)))
        x = self.second_pooling(self.second_activation(self.second(x)))
        x = self.third_activation(self.third(self.flatten(x)))
        return self.classifier(self.fourth_activation(self.fourth(x)))


class DepthwiseCnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first, second = sizes.DEPTHWISE_CHANNELS
        self.stem = nn.Conv2d(sizes.DEPTHWISE_IMAGE[-1], first, 3, padding=1)
        self.stem_activation = nn.ReLU6()
        self.depthwise = nn.Conv2d(first, first, 3, stride=2, padding=1, groups=first, bias=False)
        self.norm = nn.BatchNorm2d(first)
        self.depthwise_activation = nn.ReLU6()
        self.pointwise = nn.Conv2d(first, second, 1)
        self.pointwise_activation = nn.ReLU6()
        self.pooling = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.classifier = nn.Linear(second, sizes.CLASSES)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.stem_activation(self.stem(x))
        x = self.depthwise_activation(self.norm(self.depthwise(x)))
        x = self.pointwise_activation(self.pointwise(x))
        return self.classifier(self.flatten(self.pooling(x)))


class ConvolutionBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.activation = nn.ReLU()

    def forward(self, x: torch.Tensor) -> Any:
        return self.activation(self.norm(self.convolution(x)))


class ResidualCnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(sizes.RESIDUAL_IMAGE[-1], sizes.RESIDUAL_CHANNELS, 3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(sizes.RESIDUAL_CHANNELS)
        self.block = ConvolutionBlock(sizes.RESIDUAL_CHANNELS)
        self.pooling = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.classifier = nn.Linear(sizes.RESIDUAL_CHANNELS, sizes.CLASSES)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.stem_norm(self.stem(x))
        for _ in range(2):
            x = x + self.block(x)
        return self.classifier(self.flatten(self.pooling(x)))


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(sizes.RECURRENT_FEATURES, sizes.RECURRENT_UNITS, bias=False, batch_first=True)
        self.classifier = nn.Linear(sizes.RECURRENT_UNITS, sizes.CLASSES)

    def forward(self, x: torch.Tensor) -> Any:
        steps, _ = self.recurrent(x)
        return self.classifier(steps[:, -1])


class Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.GRU(sizes.RECURRENT_FEATURES, sizes.RECURRENT_UNITS, batch_first=True)
        self.classifier = nn.Linear(sizes.RECURRENT_UNITS, sizes.CLASSES)

    def forward(self, x: torch.Tensor) -> Any:
        steps, _ = self.recurrent(x)
        return self.classifier(steps[:, -1])


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> Any:
        query, key, value = (self.apart(layer(x)) for layer in (self.query, self.key, self.value))
        scores = (query @ key.transpose(-2, -1)) * self.scale
        attended = torch.softmax(scores, dim=-1) @ value
        return self.output(attended.transpose(1, 2).reshape(x.shape))

    def apart(self, x: torch.Tensor) -> torch.Tensor:
        batch, steps, width = x.shape
        return x.reshape(batch, steps, self.heads, width // self.heads).transpose(1, 2)


class EncoderBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(sizes.ENCODER_WIDTH)
        self.attention = Attention(sizes.ENCODER_WIDTH, sizes.ENCODER_HEADS)
        self.second_norm = nn.LayerNorm(sizes.ENCODER_WIDTH)
        self.first = nn.Linear(sizes.ENCODER_WIDTH, sizes.ENCODER_HIDDEN)
        self.activation = nn.GELU()
        self.second = nn.Linear(sizes.ENCODER_HIDDEN, sizes.ENCODER_WIDTH)

    def forward(self, x: torch.Tensor) -> Any:
        x = x + self.attention(self.norm(x))
        return x + self.second(self.activation(self.first(self.second_norm(x))))


class TransformerEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(sizes.ENCODER_STEPS, sizes.ENCODER_WIDTH))
        self.first_block = EncoderBlock()
        self.second_block = EncoderBlock()
        self.norm = nn.LayerNorm(sizes.ENCODER_WIDTH)
        self.classifier = nn.Linear(sizes.ENCODER_WIDTH, sizes.CLASSES)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.second_block(self.first_block(x + self.positions))
        return self.classifier(self.norm(x).mean(dim=1))


class EmbeddingClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.EMBEDDING_WORDS, sizes.EMBEDDING_WIDTH)
        self.classifier = nn.Linear(sizes.EMBEDDING_WIDTH, sizes.CLASSES)

    def forward(self, words: torch.Tensor) -> Any:
        return self.classifier(self.embedding(words).mean(dim=1))


class DictInAndOut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        height, width, channels = sizes.DICT_IMAGE
        self.convolution = nn.Conv2d(channels, sizes.DICT_CHANNELS, 3, padding=1)
        self.activation = nn.ReLU()
        self.flatten = nn.Flatten()
        self.image_features = nn.Linear(height * width * sizes.DICT_CHANNELS, sizes.DICT_WIDTH)
        self.meta_features = nn.Linear(sizes.DICT_META, sizes.DICT_WIDTH)
        self.scores = nn.Linear(sizes.DICT_WIDTH, sizes.CLASSES)
        self.value = nn.Linear(sizes.DICT_WIDTH, 1)

    def forward(self, image: torch.Tensor, meta: torch.Tensor) -> Any:
        seen = self.flatten(self.activation(self.convolution(image)))
        both = self.image_features(seen) + self.meta_features(meta)
        return {"scores": self.scores(both), "value": self.value(both)}


#: What builds each architecture.
BUILDERS: Mapping[str, Callable[[], nn.Module]] = {
    "mlp": Mlp,
    "lenet5": LeNet5,
    "depthwise_cnn": DepthwiseCnn,
    "residual_cnn": ResidualCnn,
    "lstm": Lstm,
    "gru": Gru,
    "transformer_encoder": TransformerEncoder,
    "embedding_classifier": EmbeddingClassifier,
    "dict_in_and_out": DictInAndOut,
}


def build(name: str) -> nn.Module:
    """Return the model of an architecture, with its weights."""
    return BUILDERS[name]()


def backend() -> Backend:
    """Return the backend that is to find the numbers."""
    from profilerkit_torch import TorchBackend

    return TorchBackend()


def count_weights(model: nn.Module) -> tuple[int, int]:
    """Return the elements of the trainable weights and of the floating-point buffers, by torch alone."""
    trainable = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    return trainable, sum(buffer.numel() for buffer in model.buffers() if buffer.is_floating_point())
