"""The models of ``docs/meshes.rst``, and how they are spread: Llama as torchtitan does it, GPT, Mixtral.

Each model is built by a function without arguments, as the process of a rank needs. Attention is the CPU's, which is
counted as the fused kernels of GPUs are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

POLICY = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
PRODUCT = torch.ops.aten.mm.default
SAVED = (PRODUCT, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default)


@dataclass(frozen=True)
class Sizes:
    """The sizes of a transformer, and how many matrices its feed-forward part has: three with a gate."""

    width: int
    hidden: int
    layers: int
    heads: int
    key_heads: int = 8
    words: int = 128_256
    length: int = 8192
    experts: int = 0
    chosen: int = 2
    matrices: int = 3

    @property
    def parameters(self) -> int:
        """The parameters that multiply each token: without the embedding, and of experts the chosen ones."""
        keys = self.width * self.key_heads // self.heads
        feed_forward = self.matrices * self.width * self.hidden * (self.chosen if self.experts else 1)
        return self.layers * (2 * self.width * (self.width + keys) + feed_forward) + self.width * self.words

    @property
    def flops_of_token(self) -> int:
        """The FLOPs of a training step for a token, as torchtitan counts them for its MFU."""
        return 6 * self.parameters + 12 * self.layers * self.width * self.length


LLAMA_8B = Sizes(4096, 14_336, 32, 32)
LLAMA_70B = Sizes(8192, 28_672, 80, 64)
LLAMA_405B = Sizes(16_384, 53_248, 126, 128)
MIXTRAL = Sizes(4096, 14_336, 32, 32, words=32_000, length=4096, experts=8)
#: The sizes of 22 billion parameters, by our reading: 48 layers of 12 * 6144**2.
GPT_22B = Sizes(6144, 4 * 6144, 48, 64, key_heads=64, words=51_200, length=2048, matrices=2)


def rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * angles.view(1, x.shape[1], 1, -1)).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width, self.head = sizes.width, sizes.width // sizes.heads
        self.repeats = sizes.heads // sizes.key_heads
        self.wq, self.wo = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.wk, self.wv = (nn.Linear(width, width // self.repeats, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> Any:
        batch, length, _ = x.shape
        q, k, v = (layer(x).view(batch, length, -1, self.head) for layer in (self.wq, self.wk, self.wv))
        q, k = rotate(q, angles), rotate(k, angles)
        if self.repeats > 1:
            k, v = (y.repeat_interleave(self.repeats, dim=2) for y in (k, v))
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).contiguous().view(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Linear(sizes.width, sizes.hidden, bias=False) for _ in range(2))
        self.w2 = nn.Linear(sizes.hidden, sizes.width, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class PlainFeedForward(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.w1 = nn.Linear(sizes.width, sizes.hidden, bias=False)
        self.w2 = nn.Linear(sizes.hidden, sizes.width, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        return self.w2(functional.gelu(self.w1(x)))


class Experts(nn.Module):
    """Experts of which each token has two; every expert gets as many tokens, since which ones is decided by values."""

    mesh: Any = None

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.chosen = sizes.chosen
        self.router = nn.Linear(sizes.width, sizes.experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(sizes) for _ in range(sizes.experts))

    def forward(self, x: torch.Tensor) -> Any:
        weights = self.router(x).softmax(-1).topk(self.chosen).values.flatten(0, 1)
        tokens = x.flatten(0, 1).repeat_interleave(self.chosen, dim=0)
        share = [tokens.shape[0] // self.mesh.size()] * self.mesh.size()
        received = all_to_all_single_autograd(tokens, share, share, self.mesh)
        parts = zip(self.experts, received.chunk(len(self.experts)), strict=True)
        answers = torch.cat([expert(part) for expert, part in parts])
        answers = all_to_all_single_autograd(answers, share, share, self.mesh)
        return (answers.view(-1, self.chosen, x.shape[-1]) * weights.unsqueeze(-1)).sum(1).view_as(x)


class Block(nn.Module):
    def __init__(self, sizes: Sizes, kind: Any) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(sizes), kind(sizes)
        self.attention_norm, self.ffn_norm = nn.RMSNorm(sizes.width), nn.RMSNorm(sizes.width)

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> Any:
        x = x + self.attention(self.attention_norm(x), angles)
        return x + self.feed_forward(self.ffn_norm(x))


class Transformer(nn.Module):
    """Returns the loss, as the mean over all tokens."""

    angles: torch.Tensor
    tok_embeddings: nn.Module
    norm: nn.Module
    output: nn.Module

    def __init__(self, sizes: Sizes, kind: Any = FeedForward) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(sizes.words, sizes.width)
        self.layers = nn.ModuleList(Block(sizes, kind) for _ in range(sizes.layers))
        self.norm, self.output = nn.RMSNorm(sizes.width), nn.Linear(sizes.width, sizes.words, bias=False)
        angles = torch.empty(sizes.length, sizes.width // sizes.heads // 2, dtype=torch.complex64)
        self.register_buffer("angles", angles, persistent=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.tok_embeddings(words)
        for layer in self.layers:
            x = layer(x, self.angles)
        logits = self.output(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1).float(), words.flatten(0, 1))


class Stage(Transformer):
    """Blocks in the middle of a pipeline, which get the same for each token; a rank has a part of the positions."""

    parts = 1

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(replace(sizes, words=8))
        self.tok_embeddings, self.norm, self.output = nn.Identity(), nn.Identity(), nn.Identity()
        self.start = nn.Parameter(torch.empty(1, 1, sizes.width))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.start.expand(words.shape[0], words.shape[1] // self.parts, -1)
        for layer in self.layers:
            x = layer(x, self.angles)
        return x


def llama_8b() -> nn.Module:
    return Transformer(LLAMA_8B)


def llama_70b() -> nn.Module:
    return Transformer(LLAMA_70B)


def llama_405b() -> nn.Module:
    return Transformer(LLAMA_405B)


def stage_of_405b() -> nn.Module:
    """Return eight of the 126 blocks: a stage of 16."""
    return Stage(replace(LLAMA_405B, layers=8))


def mixtral() -> nn.Module:
    return Transformer(MIXTRAL, Experts)


def gpt_22b() -> nn.Module:
    return Transformer(GPT_22B, PlainFeedForward).to(torch.bfloat16)


def choose_saved() -> Any:
    """Return the contexts of a checkpoint that saves attention and every second product."""
    calls = {True: 0, False: 0}

    def choose(context: Any, func: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        if func is PRODUCT:
            calls[context.is_recompute] += 1
        is_saved = func in SAVED and not (func is PRODUCT and calls[context.is_recompute] % 2 == 0)
        return CheckpointPolicy.MUST_SAVE if is_saved else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(choose)


def shard(model: Transformer, mesh: Any, keeps: bool = False, **checkpoints: Any) -> None:
    """Checkpoint each block, and shard it over "dp_shard"; the last stays whole, or with ``keeps`` all do."""
    for index, block in enumerate(model.layers):
        checkpointed = checkpoint_wrapper(block, preserve_rng_state=False, **checkpoints)
        reshards = not keeps and index < len(model.layers) - 1
        fully_shard(checkpointed, mesh=mesh["dp_shard"], mp_policy=POLICY, reshard_after_forward=reshards)
        model.layers[index] = checkpointed
    fully_shard(model, mesh=mesh["dp_shard"], mp_policy=POLICY)


def shard_selectively(model: Transformer, mesh: Any) -> None:
    shard(model, mesh, context_fn=choose_saved)


def spread_tensors(model: Transformer, mesh: Any) -> None:
    """Spread each block over "tp", and between the layers the positions."""
    between, whole = Shard(1), Replicate()
    into = {"input_layouts": between}
    plan: dict[str, Any] = {f"attention.{name}": ColwiseParallel() for name in ("wq", "wk", "wv")}
    plan |= {"attention.wo": RowwiseParallel(output_layouts=between), "attention_norm": SequenceParallel()}
    plan |= {"ffn_norm": SequenceParallel(), "feed_forward.w1": ColwiseParallel()}
    plan |= {"feed_forward.w2": RowwiseParallel(output_layouts=between), "feed_forward.w3": ColwiseParallel()}
    plan["attention"] = PrepareModuleInput(input_layouts=(between, None), desired_input_layouts=(whole, None))
    plan["feed_forward"] = PrepareModuleInput(input_layouts=(between,), desired_input_layouts=(whole,))
    for block in model.layers:
        has_gate = hasattr(block.feed_forward, "w3")
        parallelize_module(block, mesh["tp"], {name: plan[name] for name in plan if has_gate or "w3" not in name})
    if isinstance(model.tok_embeddings, nn.Embedding):
        ends = {"tok_embeddings": RowwiseParallel(input_layouts=whole, output_layouts=between)}
        head = ColwiseParallel(**into, output_layouts=Shard(-1), use_local_output=False)
        parallelize_module(model, mesh["tp"], {**ends, "norm": SequenceParallel(), "output": head})
        loss_parallel().__enter__()  # the loss on logits that stay spread; the process is this model's alone


def spread_and_shard(model: Transformer, mesh: Any) -> None:
    spread_tensors(model, mesh)
    shard(model, mesh)


def spread_stage(model: Stage, mesh: Any) -> None:
    """Spread over "tp"; the weights of all blocks stay gathered in the step."""
    model.parts = mesh["tp"].size()
    spread_tensors(model, mesh)
    for block in (*model.layers, model):
        fully_shard(block, mesh=mesh["dp_shard"], mp_policy=POLICY, reshard_after_forward=False)


def spread_experts(model: Transformer, mesh: Any) -> None:
    """Leave each rank of "ep" its experts, which "dp_shard" shards; all others share what is left, and reduce it."""
    group, both = mesh["ep"], mesh["ep", "dp_shard"]
    rank, size = group.get_local_rank(), group.size()
    for index, block in enumerate(model.layers):
        mixture: Any = block.feed_forward
        share = len(mixture.experts) // size
        mixture.experts = mixture.experts[rank * share : (rank + 1) * share]
        mixture.mesh = group
        for expert in mixture.experts:
            fully_shard(expert, mesh=mesh["dp_shard"], mp_policy=POLICY)
        checkpointed = checkpoint_wrapper(block, preserve_rng_state=False)
        fully_shard(checkpointed, mesh=both, mp_policy=POLICY)
        model.layers[index] = checkpointed
    fully_shard(model, mesh=both, mp_policy=POLICY)
