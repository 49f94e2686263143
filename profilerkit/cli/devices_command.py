"""``profilerkit devices``: the list of described devices, or the figures of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..errors import DeviceFileError, DeviceNotKnownError
from ..piping.titles import split_words
from .printing import emit

if TYPE_CHECKING:
    from ..devices import DeviceInfo, Figure

__all__ = ["command"]

#: The dtypes whose peaks are listed, and their short names, so that the list fits a narrow terminal.
_DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8": "fp8", "int8": "int8"}


@click.command("devices")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the devices that times can be predicted for, or show one with the source of each figure.

    NAME is a device's name, one of its other names, or the path of a TOML file. '-' stands for what is not known.
    """
    from ..devices import device, devices

    if name is None:
        _list(devices())
        return
    try:
        _show(device(name))
    except (DeviceNotKnownError, DeviceFileError) as error:
        raise click.BadParameter(str(error), param_hint="NAME") from error


def _list(every: tuple[DeviceInfo, ...]) -> None:
    """Print a row for each device: dense peaks in TFLOP/s, bandwidth and size of the memory."""
    from ..render.console import grid_text
    from ..render.grids import Grid

    rows = tuple(
        (
            device.name,
            *(_divide(device.peak(dtype), 1e12) for dtype in _DTYPES),
            _divide(device.bandwidth, 1e9),
            _divide(device.memory, 1e9),
            device.tier,
        )
        for device in every
    )
    titles = ("Device", *_DTYPES.values(), "GB/s", "GB", "Tier")
    title = "Devices: dense peaks in TFLOP/s, memory in GB/s and GB"
    emit(grid_text(Grid(title, titles, rows, frozenset(range(1, 8)), least_needed=("Tier",))))


def _show(device: DeviceInfo) -> None:
    """Print every figure of a device, each with its source below it."""
    from ..devices.reading import FIGURES

    emit(f"{device.name}: {device.title or device.kind}, {device.tier}", bold=True)
    if device.aliases:
        emit(f"  other names: {', '.join(device.aliases)}")
    for name, figure in device.all_figures():
        emit(_line(" ".join(split_words(name)).replace(".", ", "), figure, FIGURES.get(name, "FLOP/s")))
        emit(f"      {figure.source}")
    for name, fact in device.facts.items():
        emit(f"  {' '.join(split_words(name))}: {fact}")


def _line(name: str, figure: Figure, unit: str) -> str:
    from ..piping.quantity import Scale, scale_value

    scale = Scale.TIME if unit == "s" else Scale.SI
    spread = f" ± {figure.spread:.0%}" if figure.spread is not None else ""
    note = f"  ({figure.note})" if figure.note else ""
    return f"  {name}: {scale_value(figure.value, unit, scale)}{spread}{note}"


def _divide(value: float | None, unit: float) -> str:
    from ..piping.quantity import format_number

    return "-" if value is None else format_number(value / unit)
