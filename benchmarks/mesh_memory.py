"""The memory of Llama 3.1 8B under FSDP that torchtitan published, beside the trace of a rank.

``python benchmarks/mesh_memory.py`` prints the table of ``docs/meshes.rst``; it takes a minute. The model, its sharding
and its checkpoints are written as torchtitan had them then: blocks of ``fully_shard`` in bfloat16 that are reduced in
float32, and selective checkpoints that save attention and every second product.

Source: ``benchmarks/llama3_h100_202412_torchtitan.md`` at github.com/pytorch/torchtitan, tables 1 and 3, without
torch.compile and float8. Its figure is the memory that the allocator has reserved, which is more than it has given out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from profilerkit import profile

WIDTH, HEADS, KEY_HEADS, HIDDEN, WORDS, LAYERS, LENGTH = 4096, 32, 8, 14336, 128256, 32, 8192
#: The published GiB by the number of GPUs, with two samples on each.
PUBLISHED = {8: 82.4, 128: 67.0}
PRODUCT = torch.ops.aten.mm.default
SAVED = (PRODUCT, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default)


def rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * angles.view(1, LENGTH, 1, -1)).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wo = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.wk, self.wv = (nn.Linear(WIDTH, KEY_HEADS * WIDTH // HEADS, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> Any:
        batch, length, _ = x.shape
        q, k, v = (layer(x).view(batch, length, -1, WIDTH // HEADS) for layer in (self.wq, self.wk, self.wv))
        q, k = rotate(q, angles), rotate(k, angles)
        shape = batch, length, KEY_HEADS, HEADS // KEY_HEADS, WIDTH // HEADS
        k, v = (y.unsqueeze(3).expand(shape).reshape(batch, length, HEADS, -1) for y in (k, v))
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).contiguous().view(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.w2 = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(), FeedForward()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> Any:
        x = x + self.attention(self.attention_norm(x), angles)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    angles: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.output = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        angles = torch.empty(LENGTH, WIDTH // HEADS // 2, dtype=torch.complex64)
        self.register_buffer("angles", angles, persistent=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.tok_embeddings(words)
        for layer in self.layers:
            x = layer(x, self.angles)
        logits = self.output(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1).float(), words.flatten(0, 1))


def choose_saved() -> Any:
    """Return the contexts of a checkpoint that saves attention and every second product."""
    calls = {True: 0, False: 0}

    def choose(context: Any, func: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        if func is PRODUCT:
            calls[context.is_recompute] += 1
        is_saved = func in SAVED and not (func is PRODUCT and calls[context.is_recompute] % 2 == 0)
        return CheckpointPolicy.MUST_SAVE if is_saved else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(choose)


def shard(model: Llama, mesh: Any) -> None:
    """Checkpoint each block, and shard it."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for index, block in enumerate(model.layers):
        checkpointed = checkpoint_wrapper(block, context_fn=choose_saved, preserve_rng_state=False)
        fully_shard(checkpointed, mesh=mesh, mp_policy=policy, reshard_after_forward=index < LAYERS - 1)
        model.layers[index] = checkpointed
    fully_shard(model, mesh=mesh, mp_policy=policy)


def main() -> None:
    """Print the table."""
    words = torch.zeros(2, LENGTH, dtype=torch.long)
    print("GPUs  published  traced  traced / published")
    for ranks, published in PUBLISHED.items():
        report = profile(
            Llama,
            words,
            mesh={"dp_shard": ranks},
            parallelize=shard,
            optimizer="adamw",
            metrics=["rank_peak_memory"],
            strict=True,
        )
        traced = report["rank_peak_memory"] / 2**30
        print(f"{ranks:4}  {published:5.1f} GiB  {traced:5.1f} GiB  {traced / published:.0%}")


if __name__ == "__main__":
    main()
