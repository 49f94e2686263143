"""The models that counting tools differ about. It needs torch alone: each tool builds them in its own process."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from models import resnet18, vit_b_16


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Sample(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.attention = Attention(16, heads=4)
        self.encoder = nn.TransformerEncoderLayer(16, nhead=4, dim_feedforward=32, batch_first=True)
        self.lstm = nn.LSTM(16, 12, batch_first=True)
        self.head = nn.Linear(12, 10)

    def forward(self, image):
        x = self.pool(self.relu(self.norm(self.conv(image))))
        x = x.flatten(2).mT.contiguous()
        x = self.encoder(x + self.attention(x))
        x, _ = self.lstm(x)
        return F.softmax(self.head(x.mean(1)), dim=-1)


#: What builds each model, and the size of its images.
MODELS = {"Sample": (Sample, 16), "ResNet-18": (resnet18, 224), "ViT-B/16": (vit_b_16, 224)}


def built(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Return a model in eval mode, and one image for it."""
    build, size = MODELS[name]
    return build().eval(), torch.zeros(1, 3, size, size)
