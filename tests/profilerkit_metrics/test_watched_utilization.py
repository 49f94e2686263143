"""MFU and HFU of watched steps: accumulation, ranks and recomputation by hand, on a device that is made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from profilerkit import DeviceInfo, RunOptions, Unavailable
from profilerkit.devices import Figure
from profilerkit.times.steps import StepRecord, WatchedSteps
from profilerkit.trace.records import LayerRecord, ModelTrace, OpRecord, RankShare, TensorInfo
from profilerkit_metrics import ComputeWatchedUtilization
from profilerkit_torch import watch

TOY = DeviceInfo("toy", dense_peaks={"float32": Figure(1000.0, "made up")})
BACKEND: Any = SimpleNamespace(name="none")
REASONS = {"forward": "the model was not called", "backward": "no backward pass"}


def product(macs: int, **more: Any) -> OpRecord:
    return OpRecord("mm", "", 0, macs, 2 * macs, 0, 0, (TensorInfo((1,), "float32"),), **more)


def shares(
    steps: dict[int, StepRecord] | None, rank: RankShare | None = None, left_out: tuple[LayerRecord, ...] = ()
) -> dict[str, Any]:
    """Of a model with 60 MACs in a call and its gradients, and 20 that a checkpoint computes again."""
    operators = (product(20), product(40, phase="backward"), product(20, phase="backward", recomputed=True))
    trace = ModelTrace((LayerRecord("", "Model", 0),), operators, rank=rank, left_out=left_out)
    watched = None if steps is None else WatchedSteps((0,), steps, 1, reasons=REASONS)
    return ComputeWatchedUtilization()(None, BACKEND, trace, RunOptions(), watched, peaks_of=TOY)


def test_each_step_has_its_share_and_accumulated_calls_add_up() -> None:
    """120 FLOPs a call at 1,000 FLOP/s: 0.12 s. One call in 1 s, four in 2 s."""
    steps = {3: StepRecord(1.0, 0.2, 0.3, calls=1), 7: StepRecord(2.0, 0.2, 0.3, calls=4)}
    values = shares(steps)
    assert values["step_mfu"].value.samples == pytest.approx((0.12, 0.24))
    assert values["step_hfu"].value.samples == pytest.approx((0.16, 0.32))
    assert values["step_mfu"].note.endswith("attention counts in full; 1 to 4 calls of the model in a step")


def test_ranks_that_share_the_work_of_a_call_have_a_part_of_it_each() -> None:
    """Of four ranks under tensor parallelism; under data parallelism each does all the work of its own samples."""
    step = {0: StepRecord(1.0, 0.2, 0.3, calls=2)}
    value = shares(step, RankShare(1, 4, 10, 40, work_shared_by=4))["step_mfu"]
    assert value.value.median == pytest.approx(0.24 / 4)
    assert value.note.endswith("; 4 ranks share the work, each with this peak; 2 calls of the model in a step")
    value = shares(step, RankShare(1, 4, 40, 160))["step_mfu"]
    assert value.value.median == pytest.approx(0.24)
    assert "ranks" not in value.note


def test_steps_of_all_layers_have_no_share_of_some() -> None:
    for share in shares({0: StepRecord(1.0, 0.2, 0.3, calls=1)}, left_out=(LayerRecord("head", "Linear", 1),)).values():
        assert isinstance(share, Unavailable)
        assert share.reason.endswith("profile without ignore=")


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (None, "no training loop was watched"),
        ({}, "step 0 was requested, the loop ended after 1 step"),
        ({0: StepRecord(1.0)}, "the model was not called"),
        ({0: StepRecord(1.0, 0.2, None, calls=1)}, "no backward pass"),
    ],
)
def test_without_a_training_step_the_reason_is_given(steps: dict[int, StepRecord] | None, reason: str) -> None:
    for value in shares(steps).values():
        assert isinstance(value, Unavailable)
        assert value.reason.startswith(reason)


class Checkpointed(nn.Module):
    """8 -> 16 -> 4, the first of them computed again for its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Sequential(nn.Linear(8, 16), nn.Tanh()), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = checkpoint(self.first, x, use_reentrant=False)
        return self.second(hidden)  # type: ignore[no-any-return]


def test_a_real_loop_with_accumulation() -> None:
    """Of 3 samples: 3 * (8 * 16 + 16 * 4) MACs forward, the weights' gradients as many, the inputs' 3 * 16 * 4."""
    model = Checkpointed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, at_step=(1, 2)) as watched:
        for _ in range(3):
            for _ in range(2):
                model(torch.ones(3, 8)).sum().backward()
            optimizer.step()
            watched.step()
    records = list(watched.steps.steps.values())
    assert [record.calls for record in records] == [2, 2]
    report = watched.report(metrics=["step_mfu", "step_hfu"], peaks_of=TOY)
    macs = 2 * 3 * (8 * 16 + 16 * 4) + 3 * 16 * 4
    again = 3 * 8 * 16
    expected = [2 * 2 * macs / 1000 / record.seconds for record in records]
    assert report["step_mfu"].samples == pytest.approx(expected)
    assert report["step_hfu"].samples == pytest.approx([value * (macs + again) / macs for value in expected])
