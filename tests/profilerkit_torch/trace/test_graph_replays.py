"""A CUDA graph that a model replays is said to be missing from counts and memory; with a graph that is made up."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones
from torch import nn

from profilerkit import ModelInputs, profile


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replays of any graph, by the name of the thread's work: without a GPU none can be captured."""
    seen: list[str] = []
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda self: seen.append("replayed"))
    return seen


def replaying(self: Any, x: torch.Tensor) -> Any:
    torch.cuda.CUDAGraph.replay(self)
    return self.layer(x)


def test_a_replay_is_not_counted_and_its_memory_is_unknown(replayed: list[str]) -> None:
    """Of 2 x 4 x 4 multiply-accumulates beside it; nothing is replayed on tensors without values."""
    report = profile(Call(replaying, layer=nn.Linear(4, 4)), ones(2, 4), metrics=["macs", "memory_footprint"])
    assert report["macs"] == 32
    for key in ("macs", "memory_footprint"):
        status = report.status(key)
        assert status.completeness.value == "partial"
        assert "torch.cuda.CUDAGraph.replay" in " ".join(status.missing)
    assert replayed == []


def test_a_real_run_replays_it(replayed: list[str]) -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        x.sum().item()  # only a run can tell
        return replaying(self, x)

    trace = BACKEND.trace(Call(run, layer=nn.Linear(4, 4)), ModelInputs(ones(2, 4)))
    assert (trace.method, trace.uncounted) == ("a real run", {"torch.cuda.CUDAGraph.replay": 1})
    assert set(replayed) == {"replayed"}, "twice where the first pass has imported torch's compiler"


def test_a_step_of_training_says_it_too(replayed: list[str]) -> None:
    trace = BACKEND.trace_training(Call(replaying, layer=nn.Linear(4, 4)), ModelInputs(ones(2, 4)))
    assert trace.uncounted == {"torch.cuda.CUDAGraph.replay": 1}


def test_graphs_come_back_after_an_error(replayed: list[str]) -> None:
    replay = torch.cuda.CUDAGraph.replay

    def fail(self: Any, x: torch.Tensor) -> Any:
        raise ValueError("no")

    profile(Call(fail, layer=nn.Linear(4, 4)), ones(2, 4), metrics=["macs"])
    assert torch.cuda.CUDAGraph.replay is replay
