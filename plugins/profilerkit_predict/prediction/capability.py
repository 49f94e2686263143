"""The capability that a calibration asks of a backend: it provides what is measured."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from profilerkit.backend import DeviceLike
from profilerkit.protocols import Capability

from .cases import CalibrationCase, CalibrationNetwork, HostSeconds


@runtime_checkable
class Calibrates(Protocol):
    """Provides the measurements of a device from which times on the device are predicted."""

    @abstractmethod
    def calibration_cases(self, device: DeviceLike, dtype: str) -> Iterable[CalibrationCase]:
        """Yield single operators over many shapes in a dtype ("float32"): products, and traffic of each family."""

    @abstractmethod
    def calibration_networks(self, device: DeviceLike) -> Iterable[CalibrationNetwork]:
        """Yield small networks of several families, to be predicted and run."""

    @abstractmethod
    def use_threads(self, num_threads: int | None) -> AbstractContextManager[int]:
        """Return a context in which cases run on so many threads, or as they are for None; it yields the number."""

    @abstractmethod
    def host_seconds(self, device: DeviceLike, compiled: bool, seconds: float) -> HostSeconds:
        """Return the seconds of the host besides operators: layer calls, views, gradients; ``compiled`` adds graphs.

        ``seconds`` is the approximate limit of the measurement; compiling takes longer.
        """


CALIBRATES = Capability(Calibrates, "calibration of a device", "provides nothing to calibrate a device with")
