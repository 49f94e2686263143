"""A small transformer, ways to spread it over a mesh, and the sizes by which its numbers are worked out by hand."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional

WIDTH, HEADS, WORDS, BLOCKS, LENGTH, BATCH = 64, 8, 128, 2, 16, 2


class Attention(nn.Module):
    """Attention whose heads are those that its projections return; all of them where ``spread`` tensors come out."""

    def __init__(self, spread: bool = False) -> None:
        super().__init__()
        self.heads = HEADS if spread else -1
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, self.heads, WIDTH // HEADS).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        mixed: torch.Tensor = self.o(y.reshape(batch, length, -1))
        return mixed


class Block(nn.Module):
    def __init__(self, spread: bool = False) -> None:
        super().__init__()
        self.n1, self.n2, self.attn = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH), Attention(spread)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.n1(x))
        y: torch.Tensor = x + self.down(functional.relu(self.up(self.n2(x))))
        return y


class Net(nn.Module):
    def __init__(self, spread: bool = False) -> None:
        super().__init__()
        self.emb = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Block(spread) for _ in range(BLOCKS))
        self.n, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.emb(words)
        for layer in self.layers:
            x = layer(x)
        y: torch.Tensor = self.head(self.n(x))
        return y


def net_of_spread_heads() -> Net:
    return Net(spread=True)


def words() -> torch.Tensor:
    return torch.zeros(BATCH, LENGTH, dtype=torch.long)


def shard_tensors(model: Net, mesh: Any, prepares: bool = False, spread: bool = False) -> None:
    """Spread each block over "tp"; with ``prepares`` the input of attention is made ready once for three layers."""
    plan: dict[str, Any] = {f"attn.{name}": ColwiseParallel(use_local_output=not spread) for name in "qkv"}
    plan |= {"attn.o": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    if prepares:
        plan["attn"] = PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),))
    for block in model.layers:
        parallelize_module(block, mesh["tp"], plan)


def shard_with_input_prepared(model: Net, mesh: Any) -> None:
    shard_tensors(model, mesh, prepares=True)


def shard_heads(model: Net, mesh: Any) -> None:
    shard_tensors(model, mesh, prepares=True, spread=True)


def shard(model: Net, mesh: Any) -> None:
    """Spread each block over "tp", and its shards over "dp_shard"."""
    shard_tensors(model, mesh)
    for block in (*model.layers, model):
        fully_shard(block, mesh=mesh["dp_shard"])


def fail_to_shard(model: Net, mesh: Any) -> None:
    raise KeyError("no such plan")


def leave(model: Net, mesh: Any) -> None:
    os._exit(3)


class Asking(Net):
    """A network that asks for a value."""

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return super().forward(words) if words.sum().item() >= 0 else self.emb(words)


def no_module() -> int:
    return 3
