"""Times of several models, each in a separate process, sampled in turn: the caller requests each sample.

In a child, `take_turns` replaces sampling: the child prepares the model, then runs it once for each request, and
measures the time by its own clock. The caller treats these samples as those of models in its own process
(`profilerkit.times.sampling.measure_interleaved`), so the pairs and the interval of the ratio are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from ..process.collector import collector_paused
from ..times.conditions import Watch
from ..times.measurement import Measurement
from ..times.run import Run
from ..times.sampling import Sampling
from ..times.turns import use_conductor
from .channel import Channel, ChannelError

__all__ = ["Plan", "take_turns"]

#: A call that takes less than this many seconds is made for so long before it is timed: between two turns the other
#: process has had the caches.
WARM_SECONDS = 0.002
#: What a call is taken to last at the least: some clocks stand still for a while.
_LEAST_SECONDS = 1e-7


class Plan(msgspec.Struct, forbid_unknown_fields=True):
    """The part of `Sampling` that a child tells the caller, who decides how many samples there are."""

    num_iters: int | None
    warmup: int | None
    relative_precision: float
    max_seconds: float
    min_samples: int
    confidence: float

    def read(self) -> Sampling:
        """Return it as `Sampling`; raises `ChannelError` for a value that no plan has."""
        try:
            return Sampling(**msgspec.structs.asdict(self))
        except (TypeError, ValueError) as error:
            raise ChannelError(f"a plan for sampling: {error}") from error


@contextmanager
def take_turns(channel: Channel) -> Iterator[None]:
    """Make every measurement of this process wait for the caller's requests."""

    def conduct(run: Run, plan: Sampling) -> Measurement:
        channel.send(ready={name: getattr(plan, name) for name in Plan.__struct_fields__})
        watch = Watch()
        with collector_paused():
            last = WARM_SECONDS
            while True:
                message = channel.receive()
                if "finish" in message:
                    return Measurement(**message["finish"], conditions=watch.conditions())
                with watch:
                    last = _sample(run, plan, last)
                channel.send(sample=last)

    with use_conductor(conduct):
        yield


def _sample(run: Run, plan: Sampling, last: float) -> float:
    """Return the seconds of a pass; one that was short the last time is run several times before."""
    if last < WARM_SECONDS:
        spent = 0.0
        while spent < WARM_SECONDS:
            spent += max(run.seconds(plan.clock), _LEAST_SECONDS)
    return run.seconds(plan.clock)
