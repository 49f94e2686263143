"""Models spread over several processes: the whole model is reported, and what one rank holds beside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from source_tree import SUPPORT
from time_limits import run_program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed"),
]

WEIGHTS = 2 * (8 * 8 + 2 * 8)  # two linear layers, and scale and shift of two normalisations
BUFFERS = 2 * (2 * 8 * 4 + 8)  # bytes: mean, variance, and the counter of 8 bytes
UNSAMPLED = (
    "the model runs in 2 processes, which must call it equally often, and not until each has seen enough: give "
    "num_iters= and warmup="
)


@pytest.fixture(scope="module", params=[1, 2])
def ranks(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """What each rank found, by the way in which the model is spread."""
    for _ in range(3):  # on a busy machine threads of torch's own sometimes abort a process that ends
        done = run_program(
            [sys.executable, str(SUPPORT / "sharded.py"), str(request.param)],
            check=False,
            seconds=240,
            variables={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        )
        if "SIGABRT" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


#: The parameters that one of several ranks holds: all, an equal part, an equal part of the linear layers.
HELD: dict[str, Callable[[int], int]] = {
    "ddp": lambda ranks: WEIGHTS,
    "fsdp": lambda ranks: WEIGHTS // ranks,
    "fsdp-originals": lambda ranks: WEIGHTS // ranks,
    "fsdp2": lambda ranks: WEIGHTS // ranks,
    "tensors": lambda ranks: 2 * (8 * 8 // ranks + 2 * 8),
}


@pytest.mark.parametrize("way", HELD)
def test_the_whole_model_is_reported_and_what_a_rank_holds(way: str, ranks: list[dict[str, Any]]) -> None:
    held = HELD[way](len(ranks))
    for rank, everything in enumerate(ranks):
        found = everything[way]
        assert found["numbers"] == [2 * 4 * 8 * 8, WEIGHTS, WEIGHTS - 16, 4 * WEIGHTS + BUFFERS]
        assert found["again"] == [2 * 4 * 8 * 8, WEIGHTS]
        assert found["layers"] == [
            ["", "Net", 0, WEIGHTS],
            ["blocks", "ModuleList", 0, WEIGHTS],
            *(
                row
                for block in range(2)
                for row in (
                    [f"blocks.{block}", "Block", 0, 80],
                    [f"blocks.{block}.linear", "Linear", 256, 64],
                    [f"blocks.{block}.norm", "BatchNorm1d", 0, 16],
                )
            ),
        ]
        sharing = len(ranks) if way == "tensors" else 1  # the others run the whole model on samples of their own
        assert found["rank"] == [rank, len(ranks), held, 4 * held + BUFFERS, sharing]
        said = f"rank {rank} of {len(ranks)} holds {held:,} parameters, with the buffers {4 * held + BUFFERS:,} bytes"
        assert said in found["notes"]
        assert found["untouched"]
        assert found["ran"] == [4, 8]
        assert found["timed"]
        assert found["unsampled"] == ([UNSAMPLED] if len(ranks) > 1 else [])
