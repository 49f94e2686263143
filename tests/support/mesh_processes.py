"""Trains a small network in real processes, each a rank, and writes the peak that the allocator of each has seen.

``mesh_processes.py STORE RANK RANKS FILE`` is one rank. ``mesh_processes.py FILE`` writes what is traced for the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mesh_networks as networks
import torch
import torch.distributed as dist
from ones_loss import go_back
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from profilerkit import ModelInputs
from profilerkit_torch.meshes.ranks import trace_rank
from profilerkit_torch.running.measured_memory import on_cpu

#: How many ranks there are.
SIZES = (2, 4)


def words() -> torch.Tensor:
    """Return samples with which activations are no small part of the memory."""
    return torch.zeros(8, 64, dtype=torch.long)


def reduce_gradients(model: torch.nn.Module, mesh: Any) -> torch.nn.Module:
    return DistributedDataParallel(model)


def shard_weights(model: Any, mesh: Any) -> torch.nn.Module:
    for module in (*model.layers, model):
        fully_shard(module, mesh=mesh)
    return model  # type: ignore[no-any-return]


def shard_tensors(model: Any, mesh: Any) -> torch.nn.Module:
    networks.shard_tensors(model, mesh)
    return model  # type: ignore[no-any-return]


#: By name: the dimension of the mesh, what spreads the model in real processes, and the scheme that is traced.
SCHEMES: dict[str, tuple[str, Callable[[Any, Any], torch.nn.Module], Any]] = {
    "ddp": ("dp_replicate", reduce_gradients, "ddp"),
    "fsdp2": ("dp_shard", shard_weights, "fsdp2"),
    "tp": ("tp", shard_tensors, networks.shard_tensors),
}


def train(name: str, ranks: int) -> None:
    """Build the network, spread it, and run three steps: those after the first have all that stays."""
    dimension, spread, _ = SCHEMES[name]
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=(dimension,))
    with torch.device("meta"):
        model = networks.Net()
    if name != "ddp":
        spread(model, mesh)
    model.to_empty(device="cpu")
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    if name == "ddp":
        model = spread(model, mesh)  # type: ignore[assignment]
    samples = words()
    for _ in range(3):
        for parameter in model.parameters():
            parameter.grad = None
        output = model(samples)
        go_back(output)


def measure(store: str, rank: int, ranks: int) -> dict[str, int]:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    cpu = torch.device("cpu")
    peaks = {f"{name} {ranks}": on_cpu(lambda name=name: train(name, ranks), cpu) for name in SCHEMES}  # type: ignore[misc]
    dist.destroy_process_group()
    return peaks


def trace() -> dict[str, int]:
    peaks = {}
    for name, (dimension, _, parallelize) in SCHEMES.items():
        for ranks in SIZES:
            step = trace_rank(networks.Net, ModelInputs(words()), {dimension: ranks}, parallelize, 0)
            dist.destroy_process_group()
            peaks[f"{name} {ranks}"] = step.trace.memory.peak_bytes()
    return peaks


if __name__ == "__main__":
    *rank, path = sys.argv[1:]
    answer = measure(rank[0], int(rank[1]), int(rank[2])) if rank else trace()
    Path(path).write_text(json.dumps(answer))
