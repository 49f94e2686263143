"""What ``parallelize="fsdp2"`` shards, the buckets of ``"ddp"``, and memory of layers that stand in several places."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch.distributed.fsdp", reason="this torch has no fully_shard")

import torch
import torch.distributed as dist
from torch import nn

from profilerkit_torch.compat.tensors import FakeTensorMode
from profilerkit_torch.meshes import data_parallel
from profilerkit_torch.meshes.ranks import _allocate
from profilerkit_torch.meshes.schemes import _list_blocks

BLOCKS = [nn.Sequential(nn.Linear(4, 4)) for _ in range(4)]


def hold(**layers: nn.Module) -> nn.Module:
    module = nn.Module()
    for name, layer in layers.items():
        setattr(module, name, layer)
    return module


@pytest.mark.parametrize(
    ("model", "blocks"),
    [
        (hold(layers=nn.ModuleList(BLOCKS), head=nn.Linear(4, 4)), BLOCKS),
        (hold(encoder=hold(layers=nn.ModuleList(BLOCKS[:2])), layers=nn.ModuleList(BLOCKS[2:])), BLOCKS),
        (hold(stages=nn.ModuleList([nn.ModuleList(BLOCKS[:2]), nn.ModuleDict({"a": BLOCKS[2]})])), BLOCKS[:3]),
        (hold(stages=nn.ModuleList([hold(norm=BLOCKS[0], mlp=BLOCKS[1])])), BLOCKS[:2]),
        (nn.ModuleList(BLOCKS), BLOCKS),
        (hold(layers=nn.ModuleList([BLOCKS[0], BLOCKS[0]]), again=nn.ModuleList(BLOCKS[:1])), BLOCKS[:1]),
        (hold(body=nn.Sequential(nn.Linear(4, 4))), []),
    ],
    ids=["one list", "two lists", "lists in a list", "no forward", "the model", "shared", "none"],
)
def test_blocks_are_the_modules_of_lists_that_are_called(model: nn.Module, blocks: list[nn.Module]) -> None:
    """torch refuses to shard what has no ``forward``, and a module twice."""
    assert list(dict.fromkeys(_list_blocks(model))) == blocks


def test_a_layer_in_two_places_gets_memory_once() -> None:
    with torch.device("meta"):
        shared = nn.Linear(4, 4)
        model = hold(first=nn.Sequential(shared), second=nn.Sequential(shared))
    with FakeTensorMode(allow_non_fake_inputs=True):
        _allocate(model)
    assert [tuple(parameter.shape) for parameter in model.parameters()] == [(4, 4), (4,)]
    assert all(parameter.device.type == "cpu" for parameter in model.parameters())


@pytest.mark.parametrize("dtypes", [(torch.float32,), (torch.float32, torch.bfloat16)], ids=["one dtype", "two dtypes"])
def test_gradients_are_reduced_in_the_buckets_of_torch(
    dtypes: Sequence[torch.dtype], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of layers of 2 and 7 MiB and of 40 kB; a bucket ends at 1 MiB, later ones of the dtype at 25."""
    sizes = [2**21, 2**21, 40_000, 7 * 2**20] * 6
    kinds = [dtypes[index % len(dtypes)] for index in range(len(sizes))]
    tensors = [torch.empty(size // kind.itemsize, dtype=kind) for size, kind in zip(sizes, kinds, strict=True)]
    distributed: Any = dist
    expected, _ = distributed._compute_bucket_assignment_by_size(tensors, [2**20, 25 * 2**20], [False] * len(tensors))
    reduced: list[int] = []
    ends: list[Any] = []
    monkeypatch.setattr(data_parallel, "call_after_backward", ends.append)
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, group: reduced.append(tensor.nbytes))
    parameters = [nn.Parameter(tensor) for tensor in tensors]
    recorder: Any = SimpleNamespace(work_apart=lambda path, part: nullcontext())
    buckets = data_parallel._Buckets(nn.ParameterList(parameters), None, recorder)
    for parameter in parameters:
        buckets.take(parameter)
    ends[-1]()
    assert sorted(reduced) == sorted(sum(tensors[index].nbytes for index in bucket) for bucket in expected)
