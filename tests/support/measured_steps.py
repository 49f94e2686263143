"""What torch's own profiler sees a training step allocate."""

from __future__ import annotations

import torch
from ones_loss import go_back
from torch import nn
from torch.profiler import ProfilerActivity
from torch.profiler import profile as torch_profile
from torch_threads import one_thread


def measure_step(model: nn.Module, x: torch.Tensor) -> int:
    """Return by how many bytes torch's own profiler sees a step raise what is allocated."""

    def run() -> None:
        model.zero_grad()
        output = model(x)
        go_back(output)

    run()
    model.zero_grad()
    with (
        one_thread(),
        torch_profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler,
    ):
        run()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    alive = most = 0
    for event in sorted(events, key=lambda event: int(event.start_ns())):
        alive += event.nbytes()
        most = max(most, alive)
    return most
