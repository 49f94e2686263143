"""The devices that can be named: those of plugins, profilerkit's own among them, and those of the user's folders."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from ..error_text import shown
from ..errors import DeviceNotKnownError, RegistrationConflictError, by_likeness
from ..plugging.offers import claimed_once, offers
from .info import DeviceInfo
from .reading import devices_in, read_device

__all__ = ["FOLDERS", "DeviceInfoLike", "device", "device_names", "devices", "packaged"]

#: The environment variable that names folders of the user's own devices, separated as in ``PATH``.
FOLDERS = "PROFILERKIT_DEVICES"
#: A device: a name, a `DeviceInfo`, or the path of a TOML file.
DeviceInfoLike: TypeAlias = "str | DeviceInfo | PathLike[str]"


def packaged() -> list[DeviceInfo]:
    """Return the devices that come with profilerkit."""
    return devices_in(Path(__file__).parent / "files")


def devices() -> tuple[DeviceInfo, ...]:
    """Return every device that can be named, by name.

    A device in a folder of ``PROFILERKIT_DEVICES`` replaces one of plugins with the same name. Raises
    `RegistrationConflictError` if two plugins, or two of those folders, have a device of the same name.
    """
    offered = claimed_once("device", offers("profilerkit_devices", DeviceInfo))
    by_name = {offer.item.name: offer.item for offer in offered}
    by_name.update(_of_folders())
    return tuple(by_name[name] for name in sorted(by_name))


def device_names() -> tuple[str, ...]:
    """Return the names of the devices, without their aliases."""
    return tuple(each.name for each in devices())


def device(name: DeviceInfoLike) -> DeviceInfo:
    """Return a device by its name, one of its aliases, or the path of a TOML file; a `DeviceInfo` unchanged.

    >>> device("H100").name
    'h100-sxm'

    Capitals, spaces, hyphens and underscores make no difference. Raises `DeviceNotKnownError` for an unknown name, with
    the nearest, and `DeviceFileError` for a file that holds no device.
    """
    if isinstance(name, DeviceInfo):
        return name
    if isinstance(name, PathLike) or (isinstance(name, str) and name.endswith(".toml")):
        return read_device(name)
    every = devices()
    requested = _plain(name) if isinstance(name, str) else ""
    named = [each for each in every if requested == _plain(each.name)]
    matching = named or [each for each in every if requested in map(_plain, each.aliases)]
    if len(matching) > 1:
        raise DeviceNotKnownError(
            f"{name!r} may be each of these devices: {', '.join(each.name for each in matching)}; give one of them"
        )
    if not matching:
        nearest_names = by_likeness(str(name), [each.name for each in every])[:8]
        raise DeviceNotKnownError(
            f"no device {shown(name)}; the nearest of {len(every)} are: {', '.join(nearest_names)}; or give the path "
            f"of a TOML file, or a folder of them in {FOLDERS}"
        )
    return matching[0]


def _of_folders() -> dict[str, DeviceInfo]:
    by_name: dict[str, DeviceInfo] = {}
    for folder in filter(None, os.environ.get(FOLDERS, "").split(os.pathsep)):
        for each in devices_in(folder):
            if each.name in by_name:
                raise RegistrationConflictError(
                    f"two files in the folders of {FOLDERS} describe a device {each.name!r}; rename one of them"
                )
            by_name[each.name] = each
    return by_name


def _plain(name: str) -> str:
    return "".join(name.lower().replace("-", " ").replace("_", " ").split())
