"""The moments of a clock become the seconds of calls: the time between two moments belongs to one call."""

from __future__ import annotations

from typing import Any, NamedTuple

from .clocks import EventClock, HostClock
from .timed_calls import Call

__all__ = ["Moments"]


class _Moment(NamedTuple):
    """A moment before its conversion to seconds, and the call whose time begins there."""

    moment: Any
    call: Call | None
    is_backward: bool


class Moments:
    """The moments of a clock: the time between two moments belongs to the call that runs after the first."""

    def __init__(self, clock: HostClock | EventClock) -> None:
        self._clock = clock
        self._moments: list[_Moment] = []

    def add(self, moment: Any, call: Call | None, is_backward: bool) -> None:
        """Note a moment at which the time of a call begins; None if no layer runs."""
        self._moments.append(_Moment(moment, call, is_backward))

    def drop_elapsed(self) -> None:
        """Take the time since the last moment away from its call."""
        if self._moments:
            self._moments[-1] = self._moments[-1]._replace(call=None)

    @property
    def are_ready(self) -> bool:
        """Whether the moments can become seconds without waiting for a device."""
        return bool(self._moments) and self._clock.has_passed(self._moments[-1].moment)

    def settle(self, goes_on: bool) -> None:
        """Convert the moments so far to seconds of their calls; the time of the last call may go on."""
        moments, self._moments = self._moments, []
        if not moments:
            return
        seconds = self._clock.seconds([moment.moment for moment in moments])
        for moment, start, end in zip(moments, seconds, seconds[1:], strict=False):
            if moment.call is not None:
                moment.call.get_elapsed(moment.is_backward).seconds += end - start
        if goes_on:
            self._moments.append(moments[-1])
