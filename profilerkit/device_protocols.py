"""The capabilities of a backend that concern devices; they are imported from `profilerkit.protocols`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .backend import DeviceLike

if TYPE_CHECKING:
    from .devices.info import DeviceInfo
    from .prediction.cases import CalibrationCase, CalibrationNetwork, HostSeconds
    from .times.ceiling_work import CeilingWork

__all__ = ["Calibrates", "MeasuresCeilings", "NamesDevices"]


@runtime_checkable
class NamesDevices(Protocol):
    """Names the devices of this machine."""

    @abstractmethod
    def device_info(self, device: DeviceLike = None) -> DeviceInfo:
        """Return what is known of a device of this machine; of the one that the framework uses first for None.

        `profilerkit.devices.here.described` finds a device by the name that its driver reports. Raises
        `DeviceNotAvailableError` for a device that this machine does not have.
        """


@runtime_checkable
class Calibrates(Protocol):
    """Provides what is measured of a device, so that times on it can be predicted."""

    @abstractmethod
    def calibration_cases(self, device: DeviceLike, dtype: str) -> Iterable[CalibrationCase]:
        """Yield single operators over many shapes in a dtype ("float32"): products, and traffic of each family."""

    @abstractmethod
    def calibration_networks(self, device: DeviceLike) -> Iterable[CalibrationNetwork]:
        """Yield small networks of several families, to be predicted and run."""

    @abstractmethod
    def calibrating(self, num_threads: int | None) -> AbstractContextManager[int]:
        """Return a context in which cases run on so many threads, or as they are for None; it yields the number."""

    @abstractmethod
    def host_seconds(self, device: DeviceLike, compiled: bool, seconds: float) -> HostSeconds:
        """Return what the host takes besides operators: calls of layers, views, gradients; with ``compiled`` graphs.

        ``seconds`` is about how long it may take; compiling takes longer.
        """


@runtime_checkable
class MeasuresCeilings(Protocol):
    """Provides what the ceilings of a roofline are measured with on the CPU."""

    @abstractmethod
    def ceiling_work(self, num_threads: int | None) -> AbstractContextManager[Iterable[CeilingWork]]:
        """Return a context in which the work runs on so many threads, or as it is for None; it yields the work.

        The work is what the framework computes and moves fastest in float32: its best products and convolutions, in
        its best layouts, and traffic, in caches and outside them. All of it together takes less than a second.
        """
