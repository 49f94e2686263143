"""The devices of this machine, as a backend reports them: described devices by name, others with known figures."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import DeviceNotKnownError
from ..process.environment import machine
from .catalog import device
from .info import DeviceInfo, Figure

__all__ = ["describe_device", "processor"]


def describe_device(name: str, kind: str, figures: Mapping[str, Figure] | None = None) -> DeviceInfo:
    """Return the device of that name; if none is described, one with the ``figures`` that its driver reports.

    >>> describe_device("Pocket calculator", "cpu").peak("float32") is None
    True
    """
    try:
        return device(name)
    except DeviceNotKnownError:
        return DeviceInfo(name, kind=kind, figures=figures or {})


def processor() -> DeviceInfo:
    """Return the CPU of this machine: calibrated if a folder of the user has its file, else without peaks."""
    facts = machine()
    figures = {}
    if "memory_bytes" in facts:
        figures["memory_size"] = Figure(float(facts["memory_bytes"]), "the operating system")
    return describe_device(facts["cpu"], "cpu", figures)
