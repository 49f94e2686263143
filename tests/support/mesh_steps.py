"""Traces ranks of small networks, one after the other in a process of its own, and writes all steps to a file."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import mesh_networks as networks
import torch
import torch.distributed as dist
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from profilerkit import ModelInputs
from profilerkit_predict.meshes.layout import RankModel
from profilerkit_predict.meshes.records import RankTrace
from profilerkit_torch.compat.meshes import make_fake_store
from profilerkit_torch.compat.tensors import FakeTensorMode
from profilerkit_torch.meshes import gathered_weights, gradient_bucket
from profilerkit_torch.meshes.ranks import trace_rank


def make_config(**sizes: Any) -> Any:
    """Return what transformers spreads its models by."""
    from transformers.distributed.configuration_utils import DistributedConfig

    return DistributedConfig(**sizes)


class Step(NamedTuple):
    """What builds the model, the mesh, how it is spread, the rank, and the passes of a step."""

    build: Callable[[], Any]
    mesh: Mapping[str, int]
    parallelize: Any
    rank: int = 0
    passes: int = 1


TWO_OF_TENSORS = {"tp": 2}
FOUR_OF_SHARDS = {"dp_shard": 4}
#: The steps by name.
STEPS: dict[str, Step] = {
    "alone": Step(networks.Net, {"dp_shard": 1}, None, 0),
    "fsdp2": Step(networks.Net, {"dp_shard": 4}, "fsdp2", 0),
    "last of fsdp2": Step(networks.Net, {"dp_shard": 3}, "fsdp2", 2),
    "tp": Step(networks.Net, {"tp": 2}, networks.shard_tensors, 0),
    "tp prepared": Step(networks.Net, {"tp": 2}, networks.shard_with_input_prepared, 1),
    "tp heads": Step(networks.net_of_spread_heads, {"tp": 2}, networks.shard_heads, 0),
    "sequences": Step(networks.Net, {"tp": 2}, networks.shard_sequences, 0),
    "ddp": Step(networks.Net, {"dp_replicate": 4}, "ddp", 0),
    "tied alone": Step(networks.tied_net, {"dp_shard": 1}, None),
    "tied ddp": Step(networks.tied_net, {"dp_replicate": 4}, "ddp"),
    "tied zero1": Step(networks.tied_net, {"dp_shard": 4}, "zero1"),
    "tied zero3": Step(networks.tied_net, {"dp_shard": 4}, "zero3"),
    "tied fsdp2": Step(networks.tied_net, {"dp_shard": 4}, "fsdp2"),
    "tied tp": Step(networks.tied_net, {"tp": 2}, networks.shard_tensors),
    "ddp of wide layers": Step(networks.Wide, {"dp_replicate": 4}, "ddp", 0),
    "hsdp": Step(networks.Net, {"dp_replicate": 2, "dp_shard": 4}, "fsdp2", 0),
    "bfloat16": Step(networks.Net, {"dp_shard": 4}, networks.shard_in_bfloat16, 0),
    "checkpoints": Step(networks.net_with_checkpoints, {"dp_shard": 4}, "fsdp2", 0),
    "fsdp2 and tp": Step(networks.Net, {"dp_shard": 4, "tp": 2}, networks.shard, 5),
    "idle": Step(networks.Net, {"dp_replicate": 2, "tp": 2}, networks.shard_tensors, 0),
    "pipeline": Step(networks.Net, {"pp": 2}, networks.make_pipeline, 0),
    "end of pipeline": Step(networks.Net, {"pp": 2}, networks.make_pipeline, 1),
    "short pipeline": Step(networks.Net, {"pp": 2}, networks.make_short_pipeline, 0),
    "1f1b": Step(networks.Net, {"pp": 2}, networks.make_alternating_pipeline, 0),
    "end of 1f1b": Step(networks.Net, {"pp": 2}, networks.make_alternating_pipeline, 1),
    "zero1": Step(networks.Net, {"dp_shard": 4}, "zero1", 0),
    "zero2": Step(networks.Net, {"dp_shard": 4}, "zero2", 3),
    "zero3": Step(networks.Net, {"dp_shard": 4}, "zero3", 0),
    "zero3 of wide layers": Step(networks.Wide, {"dp_shard": 4}, "zero3", 0),
    "zero3 without reuse": Step(networks.Wide, {"dp_shard": 4}, "zero3", 0),
    "zero3 in bfloat16": Step(networks.wide_in_bfloat16, {"dp_shard": 3}, "zero3", 0),
    "zero2 in small buckets": Step(networks.Wide, {"dp_shard": 4}, "zero2", 3),
    "zero2 in tiny buckets": Step(networks.Wide, {"dp_shard": 4}, "zero2", 3),
    "zero3 in small buckets": Step(networks.Wide, {"dp_shard": 4}, "zero3", 0),
    "zero3 in tiny buckets": Step(networks.Wide, {"dp_shard": 4}, "zero3", 0),
    "fsdp2 of three passes": Step(networks.Net, FOUR_OF_SHARDS, "fsdp2", passes=3),
    "bfloat16 of three passes": Step(networks.Net, FOUR_OF_SHARDS, networks.shard_in_bfloat16, passes=3),
    "tp of three passes": Step(networks.Net, TWO_OF_TENSORS, networks.shard_tensors, passes=3),
    "ddp of three passes": Step(networks.Net, {"dp_replicate": 4}, "ddp", passes=3),
    "alone of three passes": Step(networks.Net, {"dp_shard": 1}, None, passes=3),
    "zero1 of three passes": Step(networks.Net, FOUR_OF_SHARDS, "zero1", passes=3),
    "zero2 of three passes": Step(networks.Net, FOUR_OF_SHARDS, "zero2", 3, passes=3),
    "zero3 of three passes": Step(networks.Net, FOUR_OF_SHARDS, "zero3", passes=3),
    "zero3 of wide layers in three passes": Step(networks.Wide, FOUR_OF_SHARDS, "zero3", passes=3),
    "positions": Step(networks.net_of_positions, {"cp": 2}, networks.spread_positions),
    "experts": Step(networks.Mixture, {"ep": 4}, networks.spread_experts, 1),
    "spread loss": Step(networks.Losing, TWO_OF_TENSORS, networks.spread_loss),
}
#: Those that slow tests alone look at.
FURTHER = [
    *(name for name in STEPS if "three passes" in name and name != "fsdp2 of three passes"),
    *(name for name in STEPS if "buckets" in name or "1f1b" in name),
    *("zero3 without reuse", "zero3 in bfloat16", "short pipeline"),
]
if find_spec("transformers") is not None and hasattr(torch.cpu.Stream, "record_event"):  # not for torch 2.6
    FURTHER += ["transformers in tensors", "transformers in shards"]
    STEPS |= {
        "transformers in tensors": Step(networks.tiny_llama, TWO_OF_TENSORS, make_config(tp_size=2)),
        "transformers in shards": Step(networks.tiny_llama, FOUR_OF_SHARDS, make_config(fsdp_size=4)),
    }
#: The elements of the bucket of gradients: for one layer of `networks.Wide`, for none of them, and DeepSpeed's.
BUCKETS = {"small": 3_000_000, "tiny": 1_000_000, "": 500_000_000}


def make_step(name: str, step: Step) -> RankTrace:
    is_bare = name == "zero3 without reuse"
    gathered_weights.AHEAD, gathered_weights.REUSE = (0, 0) if is_bare else (50_000_000, 1_000_000_000)
    gradient_bucket.GradientBucket.ELEMENTS = next(elements for size, elements in BUCKETS.items() if size in name)
    inputs = ModelInputs(networks.words())
    if "pp" in step.mesh:
        samples = networks.words()[:1].expand(2 if name == "short pipeline" else 4, -1)
        inputs = ModelInputs(samples.clone(), target=samples.clone())
    try:
        return trace_rank(RankModel(*step), inputs)
    finally:
        dist.destroy_process_group()


#: The steps whose peak torch's own tracker is asked for.
TRACKED = (
    "fsdp2",
    "fsdp2 and tp",
    "hsdp",
    "bfloat16",
    "checkpoints",
    "fsdp2 of three passes",
    "bfloat16 of three passes",
)


def track_peak(name: str) -> int:
    """Return the peak of torch's own tracker in the same step, without the optimizer.

    It counts what torch runs to plan how tensors are spread; the first step here has that done.
    """
    step = STEPS[name]
    dist.init_process_group("fake", store=make_fake_store(), rank=step.rank, world_size=prod(step.mesh.values()))
    mesh = init_device_mesh("cpu", tuple(step.mesh.values()), mesh_dim_names=tuple(step.mesh))
    with torch.device("meta"):
        model = step.build()
    if step.parallelize == "fsdp2":
        for module in (*model.layers, model):
            fully_shard(module, mesh=mesh)
    else:
        step.parallelize(model, mesh)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model.to_empty(device="cpu")
        words = networks.words()

        def train(tracker: FSDPMemTracker | None = None) -> None:
            output = None
            for number in range(step.passes):
                if tracker is not None and number:
                    tracker.reset_mod_stats()  # it follows no module twice
                model.set_requires_gradient_sync(number == step.passes - 1)
                output = model(words)  # which stays, as in a loop of training
                output.sum().backward()

        train()
        for parameter in model.parameters():
            parameter.grad = None
        tracker = FSDPMemTracker(model)
        tracker.track_inputs((words,))
        with tracker:
            train(tracker)
    dist.destroy_process_group()
    return int(tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"])


def make_steps(further: bool = False) -> dict[str, RankTrace]:
    return {name: make_step(name, step) for name, step in STEPS.items() if (name in FURTHER) is further}


def track_peaks() -> dict[str, int]:
    """Return the peaks of torch's tracker."""
    make_step("tp", STEPS["tp"])  # the first, see `track_peak`
    return {name: track_peak(name) for name in TRACKED}


if __name__ == "__main__":
    what, path = sys.argv[1:]
    answers: dict[str, Callable[[], Any]] = {
        "steps": make_steps,
        "further steps": lambda: make_steps(further=True),
        "peaks": track_peaks,
    }
    Path(path).write_bytes(pickle.dumps(answers[what]()))
