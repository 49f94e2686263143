"""Prints how many of 8 processes share the work of a pass, for each way to spread a model over a mesh of 2 x 4.

``python shared_work.py``, in a process of its own: a process group is for all of it. This one asks no other process.
"""

from __future__ import annotations

import json
import sys

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from profilerkit_torch.compat.meshes import make_fake_store
from profilerkit_torch.model.inventory import Inventory
from profilerkit_torch.model.rank_shares import rank_share


def spread(gathered: str, parallel: str) -> nn.Module:
    """Return two linear layers, of which these are gathered and computed in parts; "all" is the model itself."""
    model = nn.Sequential(nn.Linear(16, 16, bias=False), nn.Linear(16, 32, bias=False))
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("samples", "parts"))
    layers: dict[str, nn.Module] = {"first": model[0], "second": model[1], "all": model}
    if parallel:
        parallelize_module(layers[parallel], mesh["parts"], ColwiseParallel())
    if gathered:
        fully_shard(layers[gathered], mesh=mesh["samples"])
    return model


def main() -> None:
    """Print the numbers by what is gathered and what is parallel."""
    dist.init_process_group("fake", rank=0, world_size=8, store=make_fake_store())
    ways = [("all", ""), ("", "second"), ("all", "second"), ("first", "second"), ("second", "second")]
    work_shared_by: dict[str, int | None] = {}
    for gathered, parallel in ways:
        share = rank_share(Inventory(spread(gathered, parallel)))
        work_shared_by[f"{gathered}, {parallel}"] = None if share is None else share.work_shared_by
    sys.stdout.write(json.dumps(work_shared_by))


if __name__ == "__main__":
    main()
