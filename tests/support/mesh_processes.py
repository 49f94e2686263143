"""Trains a small network in real processes, each a rank, and writes the peak that the allocator of each has seen.

``mesh_processes.py STORE RANK RANKS FILE`` is one rank. ``mesh_processes.py FILE`` writes what is traced for the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import mesh_networks as networks
import torch
import torch.distributed as dist
from ones_loss import go_back
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

from profilerkit import ModelInputs
from profilerkit_predict.meshes.layout import RankModel
from profilerkit_torch.meshes.ranks import trace_rank
from profilerkit_torch.running.measured_memory import measure_cpu_peak

#: How many ranks there are.
SIZES = (2, 4)
#: How often each network is trained.
TRIALS = 3


def words() -> torch.Tensor:
    """Return samples with which activations are no small part of the memory."""
    return torch.zeros(8, 64, dtype=torch.long)


def reduce_gradients(model: torch.nn.Module, mesh: Any) -> torch.nn.Module:
    return DistributedDataParallel(model)


def shard_weights(model: Any, mesh: Any) -> torch.nn.Module:
    for module in (*model.layers, model):
        fully_shard(module, mesh=mesh)
    return model  # type: ignore[no-any-return]


class Scheme(NamedTuple):
    """The dimension of the mesh, what is traced, what builds the model, and the passes of a step.

    ``spread`` is what spreads the model in real processes, where it is not what is traced.
    """

    dimension: str
    traced: Any
    build: Callable[[], Any] = networks.Net
    passes: int = 1
    spread: Callable[[Any, Any], torch.nn.Module] | None = None


SCHEMES: dict[str, Scheme] = {
    "ddp": Scheme("dp_replicate", "ddp", spread=reduce_gradients),
    "fsdp2": Scheme("dp_shard", "fsdp2", spread=shard_weights),
    "tp": Scheme("tp", networks.shard_tensors),
    "sequences": Scheme("tp", networks.shard_sequences),
    "bfloat16": Scheme("dp_shard", networks.shard_in_bfloat16),
    "checkpoints": Scheme("dp_shard", "fsdp2", networks.net_with_checkpoints, spread=shard_weights),
    "ddp of three passes": Scheme("dp_replicate", "ddp", passes=3, spread=reduce_gradients),
    "fsdp2 of three passes": Scheme("dp_shard", "fsdp2", passes=3, spread=shard_weights),
    "many blocks": Scheme("dp_shard", "fsdp2", networks.deepen, spread=shard_weights),
    "positions": Scheme("cp", networks.spread_positions, networks.net_of_positions),
    "experts": Scheme("ep", networks.spread_experts, networks.Mixture),
}


def train(scheme: Scheme, ranks: int) -> None:
    """Build the network, spread it, and run three steps: those after the first have all that stays."""
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=(scheme.dimension,))
    spread = scheme.spread or scheme.traced
    with torch.device("meta"):
        model = scheme.build()
    if spread is not reduce_gradients:
        spread(model, mesh)
    model.to_empty(device="cpu")
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    if spread is reduce_gradients:
        model = spread(model, mesh)
    samples = words()
    for _ in range(3):
        for parameter in model.parameters():
            parameter.grad = None
        output: Any = None
        for number in range(scheme.passes):
            with synchronize(model, number == scheme.passes - 1):
                output = model(samples)
                go_back(output)
        del output


def synchronize(model: torch.nn.Module, is_last: bool) -> AbstractContextManager[None]:
    """Have the gradients reduced in the last pass alone."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(is_last)
    return model.no_sync() if isinstance(model, DistributedDataParallel) and not is_last else nullcontext()


def measure(store: str, rank: int, ranks: int) -> dict[str, int]:
    """Return the least peak of some trials: now and then a thread of gloo gives a buffer back late."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    cpu = torch.device("cpu")
    peaks = {
        f"{name} {ranks}": min(measure_cpu_peak(partial(train, scheme, ranks), cpu) for _ in range(TRIALS))
        for name, scheme in SCHEMES.items()
    }
    dist.destroy_process_group()
    return peaks


def trace() -> dict[str, int]:
    peaks = {}
    for name, scheme in SCHEMES.items():
        for ranks in SIZES:
            mesh = {scheme.dimension: ranks}
            model = RankModel(scheme.build, mesh, scheme.traced, passes=scheme.passes)
            step = trace_rank(model, ModelInputs(words()))
            dist.destroy_process_group()
            peaks[f"{name} {ranks}"] = step.trace.memory.peak_bytes()
    return peaks


if __name__ == "__main__":
    *rank, path = sys.argv[1:]
    answer = measure(rank[0], int(rank[1]), int(rank[2])) if rank else trace()
    Path(path).write_text(json.dumps(answer))
