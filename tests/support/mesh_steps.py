"""Traces ranks of small networks, one after the other in a process of its own, and writes all steps to a file."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mesh_networks as networks
import torch
import torch.distributed as dist
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from profilerkit import ModelInputs
from profilerkit_predict.meshes.records import RankTrace
from profilerkit_torch.compat.meshes import make_fake_store
from profilerkit_torch.compat.tensors import FakeTensorMode
from profilerkit_torch.meshes import zero, zero_parameters
from profilerkit_torch.meshes.ranks import trace_rank

#: By name: what builds the model, the mesh, how it is spread, and the rank.
STEPS: Mapping[str, tuple[Callable[[], Any], Mapping[str, int], Any, int]] = {
    "alone": (networks.Net, {"dp_shard": 1}, None, 0),
    "fsdp2": (networks.Net, {"dp_shard": 4}, "fsdp2", 0),
    "last of fsdp2": (networks.Net, {"dp_shard": 3}, "fsdp2", 2),
    "tp": (networks.Net, {"tp": 2}, networks.shard_tensors, 0),
    "tp prepared": (networks.Net, {"tp": 2}, networks.shard_with_input_prepared, 1),
    "tp heads": (networks.net_of_spread_heads, {"tp": 2}, networks.shard_heads, 0),
    "sequences": (networks.Net, {"tp": 2}, networks.shard_sequences, 0),
    "ddp": (networks.Net, {"dp_replicate": 4}, "ddp", 0),
    "ddp of wide layers": (networks.Wide, {"dp_replicate": 4}, "ddp", 0),
    "hsdp": (networks.Net, {"dp_replicate": 2, "dp_shard": 4}, "fsdp2", 0),
    "bfloat16": (networks.Net, {"dp_shard": 4}, networks.shard_in_bfloat16, 0),
    "checkpoints": (networks.net_with_checkpoints, {"dp_shard": 4}, "fsdp2", 0),
    "fsdp2 and tp": (networks.Net, {"dp_shard": 4, "tp": 2}, networks.shard, 5),
    "idle": (networks.Net, {"dp_replicate": 2, "tp": 2}, networks.shard_tensors, 0),
    "pipeline": (networks.Net, {"pp": 2}, networks.make_pipeline, 0),
    "end of pipeline": (networks.Net, {"pp": 2}, networks.make_pipeline, 1),
    "short pipeline": (networks.Net, {"pp": 2}, networks.make_short_pipeline, 0),
    "1f1b": (networks.Net, {"pp": 2}, networks.make_alternating_pipeline, 0),
    "end of 1f1b": (networks.Net, {"pp": 2}, networks.make_alternating_pipeline, 1),
    "zero1": (networks.Net, {"dp_shard": 4}, "zero1", 0),
    "zero2": (networks.Net, {"dp_shard": 4}, "zero2", 3),
    "zero3": (networks.Net, {"dp_shard": 4}, "zero3", 0),
    "zero3 of wide layers": (networks.Wide, {"dp_shard": 4}, "zero3", 0),
    "zero3 without reuse": (networks.Wide, {"dp_shard": 4}, "zero3", 0),
    "zero3 in bfloat16": (networks.wide_in_bfloat16, {"dp_shard": 3}, "zero3", 0),
    "zero2 in small buckets": (networks.Wide, {"dp_shard": 4}, "zero2", 3),
    "zero2 in tiny buckets": (networks.Wide, {"dp_shard": 4}, "zero2", 3),
    "zero3 in small buckets": (networks.Wide, {"dp_shard": 4}, "zero3", 0),
    "zero3 in tiny buckets": (networks.Wide, {"dp_shard": 4}, "zero3", 0),
}
#: The elements of the bucket of gradients: for one layer of `networks.Wide`, for none of them, and DeepSpeed's.
BUCKETS = {"small": 3_000_000, "tiny": 1_000_000, "": 500_000_000}


def make_step(name: str) -> RankTrace:
    build, mesh, parallelize, rank = STEPS[name]
    is_bare = name == "zero3 without reuse"
    zero_parameters.RULES = zero_parameters.Rules(ahead=0, reuse=0) if is_bare else zero_parameters.Rules()
    zero.GradientBucket.ELEMENTS = next(elements for size, elements in BUCKETS.items() if size in name)
    inputs = ModelInputs(networks.words())
    if "pp" in mesh:
        samples = networks.words()[:1].expand(2 if name == "short pipeline" else 4, -1)
        inputs = ModelInputs(samples.clone(), target=samples.clone())
    try:
        return trace_rank(build, inputs, mesh, parallelize, rank)
    finally:
        dist.destroy_process_group()


def track_peak(name: str) -> int:
    """Return the peak of torch's own tracker in the same step, without the optimizer.

    It counts what torch runs to plan how tensors are spread; the first step here has that done.
    """
    build, mesh, parallelize, rank = STEPS[name]
    world = 1
    for size in mesh.values():
        world *= size
    dist.init_process_group("fake", store=make_fake_store(), rank=rank, world_size=world)
    device_mesh = init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
    with torch.device("meta"):
        model = build()
    if parallelize == "fsdp2":
        for module in (*model.layers, model):
            fully_shard(module, mesh=device_mesh)
    else:
        parallelize(model, device_mesh)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model.to_empty(device="cpu")
        words = networks.words()
        model(words).sum().backward()
        for parameter in model.parameters():
            parameter.grad = None
        tracker = FSDPMemTracker(model)
        tracker.track_inputs((words,))
        with tracker:
            output = model(words)  # which stays, as in a loop of training
            output.sum().backward()
    dist.destroy_process_group()
    return int(tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"])


if __name__ == "__main__":
    steps = {name: make_step(name) for name in STEPS}
    peaks = {name: track_peak(name) for name in ("fsdp2", "fsdp2 and tp")}
    Path(sys.argv[1]).write_bytes(pickle.dumps((steps, peaks)))
