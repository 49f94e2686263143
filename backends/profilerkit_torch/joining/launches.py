"""What the host has started on a device: which operator, or call of the driver, each kernel is from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .trace_events import DeviceEvent, Frame, Kind

__all__ = ["Launches"]


class Launches:
    """The frames that start kernels: calls of the device's driver, and operators.

    A kernel has the correlation of the driver's call, and the id of the operator that made this call.
    """

    def __init__(self, frames: Iterable[Frame]) -> None:
        self._calls: dict[Any, Frame] = {}
        self._operators: dict[Any, Frame] = {}
        for frame in frames:
            args = frame.event.args
            if frame.event.kind is Kind.DRIVER:
                self._calls[args.get("correlation")] = frame
            elif frame.is_work:
                self._operators[args.get("External id", args.get("external id"))] = frame
        self._calls.pop(None, None)
        self._operators.pop(None, None)

    def find(self, kernel: DeviceEvent) -> Frame | None:
        """Return the frame that started what ran on a device; None if the profile does not tell."""
        call = self._calls.get(kernel.correlation)
        if call is None:
            return self._operators.get(kernel.external)
        if call.outer is None:  # another thread may have made the call for an operator
            return self._operators.get(call.event.args.get("External id"), call)
        return call
