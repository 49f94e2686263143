"""The TOML file of a calibrated device."""

from __future__ import annotations

import json

from profilerkit.devices.info import DeviceInfo, Figure
from profilerkit.errors import ArgumentError

from .calibration import Calibration, write_content

__all__ = ["write_toml"]


def write_toml(device: DeviceInfo) -> str:
    """Return the TOML file of a calibrated device; raises `ArgumentError` for one without a calibration."""
    calibration = Calibration.of(device)
    if calibration is None:
        raise ArgumentError(f"the device {device.name} has no calibration to write")
    content = write_content(calibration)
    lines = [f"{name} = {_quote(getattr(device, name))}" for name in ("name", "title", "kind", "tier")]
    lines.append(f"aliases = [{', '.join(map(_quote, device.aliases))}]")
    lines += [f"{name} = {_write_figure(figure)}" for name, figure in device.figures.items()]
    lines += ["", "[dense_peaks]", *(f"{dtype} = {_write_figure(peak)}" for dtype, peak in device.dense_peaks.items())]
    lines += ["", "[facts]", *(f"{_quote(name)} = {_quote(fact)}" for name, fact in device.facts.items())]
    lines += ["", "[calibration]", f"format = {content['format']}", f"backend = {_quote(content['backend'])}"]
    lines.append(f"dispatch = {content['dispatch']!r}")
    for name in ("host", "compiled"):
        if name in content:
            lines += ["", f"[calibration.{name}]", *(f"{key} = {value!r}" for key, value in content[name].items())]
    for network in content["networks"]:
        lines += ["", "[[calibration.networks]]"]
        lines += [
            f"{key} = {_quote(value) if isinstance(value, str) else repr(value)}" for key, value in network.items()
        ]
    for table in content["tables"]:
        lines += ["", "[[calibration.tables]]", f"kind = {_quote(table['kind'])}", f"dtype = {_quote(table['dtype'])}"]
        lines.append("# each: the sizes, FLOPs or bytes, seconds, spread of the repetitions, seconds of the host")
        rows = (", ".join(f"{number:.6g}" for number in point) for point in table["points"])
        lines += ["points = [", *(f"    [{row}]," for row in rows), "]"]
    return "\n".join(lines) + "\n"


def _write_figure(figure: Figure) -> str:
    """Return a figure as an inline table."""
    parts = [f"value = {figure.value!r}", f"source = {_quote(figure.source)}"]
    if figure.note:
        parts.append(f"note = {_quote(figure.note)}")
    if figure.spread is not None:
        parts.append(f"spread = {figure.spread:.4g}")
    return f"{{ {', '.join(parts)} }}"


def _quote(text: str) -> str:
    """Return a basic string of TOML, which is one of JSON; but TOML allows no raw delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
