"""Devices from TOML files, one device to a file."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ..error_text import shown
from ..errors import ArgumentError, DeviceFileError, nearest
from ..process.files import read_toml
from .info import DeviceInfo, Figure

__all__ = ["FIGURES", "devices_in", "parse_device", "parse_figure", "read_device"]

#: The figures of a device beside its peaks, with their units.
FIGURES = {
    "memory_bandwidth": "B/s",
    "memory_size": "B",
    "link_bandwidth": "B/s",
    "launch_overhead": "s",
    "dispatch": "s",
    "clock": "Hz",
    "memory_clock": "Hz",
    "power": "W",
}
_ENTRIES = ("name", "title", "kind", "tier", "aliases", "dense_peaks", "sparse_peaks", *FIGURES, "facts", "calibration")


def read_device(path: str | PathLike[str]) -> DeviceInfo:
    """Read a device from a TOML file; raises `DeviceFileError`, with the reason, for a file that holds no device."""
    content = read_toml(path, f"the device {path}", DeviceFileError)
    try:
        return parse_device(content)
    except ArgumentError as error:
        raise DeviceFileError(f"the device in {path} cannot be read: {error}") from error


def devices_in(folder: str | PathLike[str]) -> list[DeviceInfo]:
    """Return the devices of all ``*.toml`` files in a folder, by name.

    Raises `DeviceFileError` if there is no such folder, or a file in it holds no device.
    """
    path = Path(folder)
    if not path.is_dir():
        raise DeviceFileError(f"there is no folder of devices {path}; make it, or correct its name")
    return sorted(map(read_device, path.glob("*.toml")), key=lambda device: device.name)


def parse_device(content: Mapping[str, Any]) -> DeviceInfo:
    """Return the device that the content of a file describes; raises `ArgumentError` for an unknown or wrong entry."""
    for key in content:
        if key not in _ENTRIES:
            likely = nearest(key, _ENTRIES)
            hint = f"did you mean {likely!r}?" if likely else f"there are: {', '.join(_ENTRIES)}"
            raise ArgumentError(f"{key!r} is no entry of a device; {hint}")
    aliases = content.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise ArgumentError(f"aliases={shown(aliases)}: give a list of texts")
    return DeviceInfo(
        name=_text(content, "name"),
        title=_text(content, "title", ""),
        kind=_text(content, "kind", "gpu"),
        aliases=tuple(aliases),
        dense_peaks=_table("dense_peaks", content.get("dense_peaks", {})),
        sparse_peaks=_table("sparse_peaks", content.get("sparse_peaks", {})),
        tier=_text(content, "tier", "data sheet"),
        figures={name: parse_figure(name, content[name]) for name in FIGURES if name in content},
        facts={str(name): str(value) for name, value in _require_mapping("facts", content.get("facts", {})).items()},
        calibration=_require_mapping("calibration", content["calibration"]) if "calibration" in content else None,
    )


def parse_figure(name: str, entry: Any) -> Figure:
    """Return a figure as a file has it: a table with ``value``, ``source`` and perhaps ``note`` and ``spread``."""
    fields = dict(_require_mapping(name, entry))
    unknown = fields.keys() - {"value", "source", "note", "spread"}
    if unknown or not {"value", "source"} <= fields.keys():
        raise ArgumentError(
            f"{name} = {shown(entry)}: give its value and the address it was read from: "
            f'{{ value = 1e12, source = "https://..." }}, and perhaps a note'
        )
    try:
        return Figure(**fields)
    except ArgumentError as error:
        raise ArgumentError(f"{name}: {error}") from error


def _table(name: str, entry: Any) -> dict[str, Figure]:
    return {dtype: parse_figure(f"{name}.{dtype}", figure) for dtype, figure in _require_mapping(name, entry).items()}


def _require_mapping(name: str, entry: Any) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise ArgumentError(f"{name} = {shown(entry)}: give a table")
    return entry


def _text(content: Mapping[str, Any], name: str, default: str | None = None) -> str:
    if name not in content and default is not None:
        return default
    value = content.get(name)
    if not isinstance(value, str) or not value:
        raise ArgumentError(f"{name} = {shown(value)}: give a text")
    return value
