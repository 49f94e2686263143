"""What a device of a group adds up, by torch's operators that exchange tensors: no group is needed to price them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from profilerkit_torch.costs.pricing import Kind, classify, op_cost

if not torch.distributed.is_available():
    pytest.skip("this build of torch exchanges nothing", allow_module_level=True)

X, PART = torch.empty(4, 6, device="meta"), torch.empty(1, 6, device="meta")

#: By an operator, its arguments and its results: the additions of one of four devices. An all-reduce adds each of 24
#: elements once, around a ring; a reduce-scatter leaves 6 elements, each the sum of four.
ADDITIONS: dict[str, tuple[tuple[Any, ...], Any, int]] = {
    "_c10d_functional.all_reduce": ((X, "sum", "group"), X, 24),
    "_c10d_functional.all_reduce_coalesced": (([X, PART], "sum", "group"), [X, PART], 24 + 6),
    "_c10d_functional.reduce_scatter_tensor": ((X, "sum", 4, "group"), PART, 3 * 6),
    "_c10d_functional.reduce_scatter_tensor_coalesced": (([X, X], "sum", 4, "group"), [PART, PART], 2 * 3 * 6),
    "c10d.allreduce_": (([X], None, None, None), ([X], None), 24),
    "c10d._reduce_scatter_base_": ((PART, X, None, None), (PART, None), 3 * 6),
    "c10d.reduce_scatter_": (([PART], [[PART, PART, PART, PART]], None, None), ([PART], None), 3 * 6),
}
MOVES = (
    *("_c10d_functional.all_gather_into_tensor", "_c10d_functional.wait_tensor", "_c10d_functional.broadcast"),
    *("c10d._allgather_base_", "c10d.alltoall_base_", "c10d.broadcast_", "c10d.send", "c10d.recv_", "c10d.barrier"),
)


def find(name: str) -> Any:
    space, _, operator = name.partition(".")
    found = getattr(getattr(torch.ops, space), operator, None)
    if found is None:
        pytest.skip(f"this release of torch has no {name}")
    return found.default


@pytest.mark.parametrize("name", ADDITIONS)
def test_each_device_adds_up_its_share(name: str) -> None:
    args, out, additions = ADDITIONS[name]
    func = find(name)
    assert classify(func) is Kind.FORMULA
    assert op_cost(func, Kind.FORMULA, args, {}, out) == (0, additions)


@pytest.mark.parametrize("name", MOVES)
def test_moving_costs_nothing(name: str) -> None:
    assert classify(find(name)) is Kind.FREE
