"""The devices with names: profilerkit's own, those of plugins and in the user's folders, and those of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from ..error_text import shown
from ..errors import DeviceNotKnownError, RegistrationConflictError, by_likeness
from ..hooks.manager import find_offer, list_infos
from ..process.environment import machine
from .info import DeviceInfo, Figure
from .reading import devices_in, read_device

__all__ = [
    "FOLDERS",
    "DeviceInfoLike",
    "describe_device",
    "device",
    "device_names",
    "devices",
    "list_packaged",
    "processor",
]

#: The environment variable that names folders of the user's own devices, separated as in ``PATH``.
FOLDERS = "PROFILERKIT_DEVICES"
#: A device: a name, a `DeviceInfo`, or the path of a TOML file.
DeviceInfoLike: TypeAlias = "str | DeviceInfo | PathLike[str]"


def list_packaged() -> list[DeviceInfo]:
    """Return the devices that come with profilerkit."""
    return devices_in(Path(__file__).parent / "files")


def devices() -> tuple[DeviceInfo, ...]:
    """Return every device that can be named, by name.

    A device in a folder of ``PROFILERKIT_DEVICES`` replaces a plugin's device of the same name. Raises
    `RegistrationConflictError` if two folders have a device of the same name; for two plugins, `device` raises it.
    """
    by_name = {offer.item.name: offer.item for offer in list_infos(DeviceInfo)} | _read_folders()
    return tuple(by_name[name] for name in sorted(by_name))


def device_names() -> tuple[str, ...]:
    """Return the names of the devices, without their aliases."""
    return tuple(info.name for info in devices())


def device(name: DeviceInfoLike) -> DeviceInfo:
    """Return a device by its name, one of its aliases, or the path of a TOML file; a `DeviceInfo` unchanged.

    >>> device("H100").name
    'h100-sxm'

    Capitals, spaces, hyphens and underscores make no difference. Raises `DeviceNotKnownError` for an unknown name, with
    the nearest, `DeviceFileError` for a file that holds no device, and `RegistrationConflictError` for a name that two
    plugins have a device of.
    """
    if isinstance(name, DeviceInfo):
        return name
    if isinstance(name, PathLike) or (isinstance(name, str) and name.endswith(".toml")):
        return read_device(name)
    info = _find_device(name)
    if any(offer.item is info for offer in list_infos(DeviceInfo)):  # and no folder replaces it
        find_offer(DeviceInfo, info.name)
    return info


def _find_device(name: Any) -> DeviceInfo:
    """Return the device of exactly this name, or else the only one of a like name, or else with a like alias.

    Raises `DeviceNotKnownError` for none, and for several.
    """
    infos = devices()
    requested = _simplify(name) if isinstance(name, str) else ""
    matching = (
        [info for info in infos if info.name == name]
        or [info for info in infos if requested == _simplify(info.name)]
        or [info for info in infos if requested in map(_simplify, info.aliases)]
    )
    if len(matching) > 1:
        raise DeviceNotKnownError(
            f"{name!r} may be each of these devices: {', '.join(info.name for info in matching)}; give one of them"
        )
    if not matching:
        nearest_names = by_likeness(str(name), [info.name for info in infos])[:8]
        raise DeviceNotKnownError(
            f"no device {shown(name)}; the nearest of {len(infos)} are: {', '.join(nearest_names)}; or give the path "
            f"of a TOML file, or a folder of them in {FOLDERS}"
        )
    return matching[0]


def _read_folders() -> dict[str, DeviceInfo]:
    """Return the devices in the user's folders, by their names."""
    by_name: dict[str, DeviceInfo] = {}
    folders = [Path(folder).resolve() for folder in os.environ.get(FOLDERS, "").split(os.pathsep) if folder]
    for folder in dict.fromkeys(folders):  # one that is named twice is one
        for info in devices_in(folder):
            if info.name in by_name:
                raise RegistrationConflictError(
                    f"two files in the folders of {FOLDERS} describe a device {info.name!r}; rename one of them"
                )
            by_name[info.name] = info
    return by_name


def _simplify(name: str) -> str:
    """Return a name in small letters, without spaces, hyphens and underscores."""
    return "".join(name.lower().replace("-", " ").replace("_", " ").split())


# The devices of this machine, as a backend reports them --------------------------------------------------------------


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
