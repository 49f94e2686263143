"""A small transformer, ways to spread it over a mesh, and the sizes by which its numbers are worked out by hand."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed._functional_collectives import all_gather_tensor_autograd, all_to_all_single_autograd
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

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


def tied_net() -> Net:
    """Return a network whose head is its embedding, and whose norms share a buffer of ten numbers."""
    net = Net()
    net.head.weight = net.emb.weight
    shared = torch.zeros(10)
    for part in (net.n, net.emb):
        part.register_buffer("shared", shared)
    return net


class Checkpointed(Block):
    """A block whose activations are computed again in the backward pass."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = checkpoint(super().forward, x, use_reentrant=False)
        return y


def net_with_checkpoints() -> Net:
    net = Net()
    net.layers = nn.ModuleList(Checkpointed() for _ in range(BLOCKS))
    return net


class Losing(Net):
    """A network that returns its loss, on logits that may be spread."""

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(super().forward(words).flatten(0, 1), words.flatten())


def spread_loss(model: Losing, mesh: Any) -> None:
    """Spread the head over "tp", and leave its logits so; the loss on them is torch's as long as the process is."""
    parallelize_module(model, mesh, {"head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)})
    loss_parallel().__enter__()


def deepen() -> Net:
    """Return a network of twelve blocks."""
    net = Net()
    net.layers = nn.ModuleList(Block() for _ in range(12))
    return net


class GatheringAttention(Attention):
    """Attention of a part of the positions to all: keys and values are gathered over a mesh."""

    mesh: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        k, v = (all_gather_tensor_autograd(part.contiguous(), 2, self.mesh) for part in (k, v))
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        mixed: torch.Tensor = self.o(y.reshape(batch, length, -1))
        return mixed


def net_of_positions() -> Net:
    net = Net()
    for block in net.layers:
        block.attn = GatheringAttention()
    return net


def spread_positions(model: Net, mesh: Any) -> None:
    """Give each rank a part of the positions: it gets that part as its input."""
    block: Any
    for block in model.layers:
        block.attn.mesh = mesh["cp"]


class Experts(nn.Module):
    """An expert for each rank, who gets as many positions from every rank."""

    mesh: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH, bias=False))
            for _ in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sent = x.reshape(-1, WIDTH)
        share = [sent.shape[0] // self.mesh.size()] * self.mesh.size()
        (expert,) = self.experts
        answers = expert(all_to_all_single_autograd(sent, share, share, self.mesh))
        y: torch.Tensor = all_to_all_single_autograd(answers, share, share, self.mesh).view_as(x)
        return y


class Mixture(Net):
    """A network whose blocks have experts instead of their feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Experts() for _ in range(BLOCKS))


def spread_experts(model: Mixture, mesh: Any) -> None:
    """Leave each rank its own expert of each block."""
    rank = mesh["ep"].get_local_rank()
    block: Any
    for block in model.layers:
        block.experts = block.experts[rank : rank + 1]
        block.mesh = mesh["ep"]


class Wide(nn.Module):
    """Three layers of 10 MiB each, and buffers that are broadcast."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(WORDS, 1024)
        self.layers = nn.Sequential(*(nn.Linear(1024, 2560, bias=False) for _ in range(1)))
        self.back = nn.Linear(2560, 1024, bias=False)
        self.last = nn.Linear(1024, 2560, bias=False)
        self.register_buffer("scale", torch.ones(10))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(self.back(self.layers(self.emb(words))))
        return y


def tiny_llama() -> nn.Module:
    """Return a model of transformers of the same sizes, whose feed-forward part has a gate."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes: dict[str, Any] = {"hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "num_attention_heads": HEADS}
    model: nn.Module = LlamaForCausalLM(
        LlamaConfig(vocab_size=WORDS, num_hidden_layers=BLOCKS, num_key_value_heads=HEADS, use_cache=False, **sizes)
    )
    return model


def tiny_mixtral() -> nn.Module:
    """Return a model of transformers that has experts."""
    from transformers import MixtralConfig, MixtralForCausalLM

    sizes: dict[str, Any] = {"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_attention_heads": HEADS}
    model: nn.Module = MixtralForCausalLM(
        MixtralConfig(vocab_size=WORDS, num_hidden_layers=1, num_key_value_heads=HEADS, num_local_experts=4, **sizes)
    )
    return model


@dataclass
class Settings:
    """Settings that nobody knows."""

    size: int = 2


def wide_in_bfloat16() -> nn.Module:
    return Wide().to(torch.bfloat16)


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


def shard_sequences(model: Net, mesh: Any) -> None:
    """Spread the layers over "tp", and between them the positions of the samples: norms see half of these."""
    between, whole = Shard(1), Replicate()
    outside = {"emb": RowwiseParallel(input_layouts=whole, output_layouts=between), "n": SequenceParallel()}
    head = ColwiseParallel(input_layouts=between, output_layouts=Shard(-1))
    parallelize_module(model, mesh["tp"], {**outside, "head": head})
    plan: dict[str, Any] = {f"attn.{name}": ColwiseParallel() for name in "qkv"}
    plan |= {"n1": SequenceParallel(), "n2": SequenceParallel(), "up": ColwiseParallel(input_layouts=between)}
    plan |= {"attn": PrepareModuleInput(input_layouts=(between,), desired_input_layouts=(whole,))}
    plan |= {"attn.o": RowwiseParallel(output_layouts=between), "down": RowwiseParallel(output_layouts=between)}
    for block in model.layers:
        parallelize_module(block, mesh["tp"], plan)


def shard(model: Net, mesh: Any) -> None:
    """Spread each block over "tp", and its shards over "dp_shard"."""
    shard_tensors(model, mesh)
    for block in (*model.layers, model):
        fully_shard(block, mesh=mesh["dp_shard"])


def shard_in_bfloat16(model: Net, mesh: Any) -> None:
    """Gather and compute in bfloat16, reduce in float32."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in (*model.layers, model):
        fully_shard(block, mesh=mesh, mp_policy=policy)


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


class Part(nn.Module):
    """A stage of the network: with the embedding if it is the first, with the head if it is the last."""

    def __init__(self, net: Net, stage: int, stages: int) -> None:
        super().__init__()
        share = BLOCKS // stages
        self.layers = net.layers[stage * share : (stage + 1) * share]
        self.emb = net.emb if stage == 0 else nn.Identity()
        self.head = nn.Sequential(net.n, net.head) if stage == stages - 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.emb(x)
        for layer in self.layers:
            x = layer(x)
        y: torch.Tensor = self.head(x)
        return y


def sum_up(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return output.sum()


def make_pipeline(model: Net, mesh: Any, kind: Any = ScheduleGPipe, microbatches: int = 4) -> Any:
    """Return the rank's stage, and a schedule of so many microbatches of one sample."""
    rank, stages = mesh.get_local_rank(), mesh.size()
    hidden = torch.empty(1, LENGTH, WIDTH, device="meta", requires_grad=True)
    first, last = words()[:1], torch.empty(1, LENGTH, WORDS, device="meta", requires_grad=True)
    stage = PipelineStage(
        Part(model, rank, stages),
        rank,
        stages,
        torch.device("cpu"),
        input_args=first if rank == 0 else hidden,
        output_args=last if rank == stages - 1 else hidden,
        group=mesh.get_group(),
    )
    return stage, kind(stage, microbatches, loss_fn=sum_up)


def make_short_pipeline(model: Net, mesh: Any) -> Any:
    return make_pipeline(model, mesh, microbatches=2)


def make_alternating_pipeline(model: Net, mesh: Any) -> Any:
    return make_pipeline(model, mesh, Schedule1F1B)


def make_pipeline_without_shapes(model: Net, mesh: Any) -> Any:
    stage = PipelineStage(Part(model, 0, 2), 0, 2, torch.device("cpu"), group=mesh.get_group())
    return stage, ScheduleGPipe(stage, 2, loss_fn=sum_up)


def make_stages_of_nothing(model: Net, mesh: Any) -> Any:
    return model, None


class InParts(Net):
    """A network whose attention sees parts of the samples."""

    mesh: Any = None

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        with context_parallel(self.mesh, buffers=[words], buffer_seq_dims=[1]):
            return super().forward(words)


def keep_mesh(model: InParts, mesh: Any) -> None:
    model.mesh = mesh
