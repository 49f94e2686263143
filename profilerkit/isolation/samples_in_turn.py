"""In the process of a model: every measurement waits for the caller, who lets one process at a time take a sample.

`profilerkit.isolation.turns` is the caller's side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..process.collector import collector_paused
from ..times.conditions import MachineWatch
from ..times.measurement import Measurement
from ..times.run import Run
from ..times.sampling import Sampling, sample_by
from .channel import Channel
from .messages import Plan

__all__ = ["wait_for_turns"]

#: A call that takes less than this many seconds is made for so long before it is timed: between two turns the other
#: process has had the caches.
WARM_SECONDS = 0.002
#: The least duration of a call in the calculation: some clocks stand still for a while.
_LEAST_SECONDS = 1e-7


@contextmanager
def wait_for_turns(channel: Channel) -> Iterator[None]:
    """Make every measurement of this process wait for the caller's requests."""

    def sample(run: Run, plan: Sampling) -> Measurement:
        channel.send(ready={name: getattr(plan, name) for name in Plan.__struct_fields__})
        watch = MachineWatch()
        with collector_paused():
            last = WARM_SECONDS
            while True:
                message = channel.receive()
                if "finish" in message:
                    return Measurement(**message["finish"], conditions=watch.conditions())
                with watch:
                    last = _sample(run, plan, last)
                channel.send(sample=last)

    with sample_by(sample):
        yield


def _sample(run: Run, plan: Sampling, last: float) -> float:
    """Return the seconds of a pass; one that was short the last time is run several times before."""
    if last < WARM_SECONDS:
        spent = 0.0
        while spent < WARM_SECONDS:
            spent += max(run.seconds(plan.clock), _LEAST_SECONDS)
    return run.seconds(plan.clock)
