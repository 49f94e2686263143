"""A run on devices that still work when a call has returned: it waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ..times.run import Run

__all__ = ["DevicePass"]


class DevicePass(Run):
    """A run whose call returns when every device is done.

    Args:
        call: Runs one pass; devices may still work when it returns.
        wait: Returns when every device is done.
        in_parts: Runs one training step, and calls the function that it is given between the forward and the backward
            part; None for a pass without such parts.
        first_call_seconds: The seconds of the first pass, with tracing and compilation; None if nothing is compiled.

    >>> step = DevicePass(lambda: None, wait=lambda: None, in_parts=lambda between: between())
    >>> list(step.parts())
    ['forward', 'backward']
    """

    def __init__(
        self,
        call: Callable[[], Any],
        wait: Callable[[], object],
        in_parts: Callable[[Callable[[], None]], object] | None = None,
        first_call_seconds: float | None = None,
    ) -> None:
        super().__init__(call, first_call_seconds)
        self.wait = wait
        self.in_parts = in_parts

    def __call__(self) -> Any:
        """Run one pass."""
        returned = self.call()
        self.wait()
        return returned

    def parts(self, clock: Callable[[], float] = time.perf_counter) -> Mapping[str, float]:
        """Run one training step and return the seconds of its "forward" and "backward" part; empty without parts."""
        if self.in_parts is None:
            return {}

        def mark() -> None:
            self.wait()
            marks.append(clock())

        marks: list[float] = []
        mark()
        self.in_parts(mark)
        mark()
        begin, middle, end = marks
        return {"forward": middle - begin, "backward": end - middle}
