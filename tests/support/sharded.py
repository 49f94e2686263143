"""Profiles a model that is spread over several processes, in each way there is, and prints what each found as JSON.

``python sharded.py RANKS``, in a process of its own: a process group is for all of it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from dataclasses import astuple
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import always_wrap_policy
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from profilerkit import profile


class Block(nn.Module):
    """An 8 x 8 linear layer, and a normalisation of 8 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, bias=False)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed: torch.Tensor = self.norm(self.linear(x))
        return normed


class Net(nn.Module):
    """Two blocks; the normalisation of the second is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.blocks[1].norm.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def spread(way: str, ranks: int) -> nn.Module:
    model: Any = Net()
    if way == "ddp":
        return DistributedDataParallel(model)
    if way == "fsdp2":
        mesh = init_device_mesh("cpu", (ranks,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        sharded: nn.Module = model
        return sharded
    if way == "tensors":
        plan: Any = {f"blocks.{block}.linear": ColwiseParallel(output_layouts=Replicate()) for block in range(2)}
        # The first block has a hook that spreads its inputs, and no parameters of its own.
        plan["blocks.0"] = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
        parallel: nn.Module = parallelize_module(model, init_device_mesh("cpu", (ranks,)), plan)
        return parallel
    originals = way == "fsdp-originals"
    return FullyShardedDataParallel(
        model, auto_wrap_policy=always_wrap_policy, use_orig_params=originals, device_id=torch.device("cpu")
    )


def state(model: nn.Module) -> list[Any]:
    """Return what must not change, by identity: classes, attributes, children, hooks, parameters."""
    return [
        (str(type(module)), module.training, name, id(value), inside)
        for module in model.modules()
        for name, value in vars(module).items()
        for inside in [[(key, id(held)) for key, held in value.items()] if isinstance(value, dict) else []]
    ]


def found_by_profiling(model: nn.Module) -> dict[str, Any]:
    x = torch.ones(4, 8)
    before = state(model)
    report = profile(model, x, metrics=["macs", "total_params", "trainable_params", "model_size", "trace"])
    untouched = state(model) == before
    with torch.no_grad():
        output = model.eval()(x)
    again = profile(model, x, metrics=["macs", "total_params"])
    unsampled = (
        profile(model, x, metrics=["execution_time"]).status("execution_time").missing
        if dist.get_world_size() > 1
        else ()
    )
    status = profile(model, x, metrics=["execution_time"], num_iters=6, warmup=0).status("execution_time")
    assert status.value is not None, status.missing
    timed = status.value.median > 0
    return {
        "numbers": [report[name] for name in ("macs", "total_params", "trainable_params", "model_size")],
        "again": [again["macs"], again["total_params"]],
        "layers": [[row["path"], row["type"], row["own_macs"], row["params"]] for row in report["trace"].table],
        "notes": list(report.notes),
        "rank": astuple(report["trace"].rank),
        "untouched": untouched,
        "ran": list(output.shape),
        "timed": timed,
        "unsampled": list(unsampled),
    }


def main(rank: int, ranks: int, folder: str) -> None:
    warnings.simplefilter("ignore")  # torch's own
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=ranks)
    found = {
        way: found_by_profiling(spread(way, ranks)) for way in ("ddp", "fsdp", "fsdp-originals", "fsdp2", "tensors")
    }
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def other_rank(index: int, ranks: int, folder: str) -> None:
    main(1 + index, ranks, folder)


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        others = mp.spawn(other_rank, (ranks, folder), ranks - 1, join=False)  # type: ignore[attr-defined,no-untyped-call]
        main(0, ranks, folder)
        while not others.join():
            pass
        everyone = [json.loads((Path(folder) / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    sys.stdout.write(json.dumps(everyone))
