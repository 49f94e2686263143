"""The TOML file of a calibrated device; `profilerkit.devices` reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from profilerkit.devices.info import DeviceInfo, Figure
from profilerkit.errors import ArgumentError


def write_toml(device: DeviceInfo) -> str:
    """Return the TOML file of a calibrated device; raises `ArgumentError` for one without a calibration."""
    content = device.calibration
    if content is None:
        raise ArgumentError(f"the device {device.name} has no calibration to write")
    lines = _write_values({name: getattr(device, name) for name in ("name", "title", "kind", "tier")})
    lines.append(f"aliases = [{', '.join(map(_quote, device.aliases))}]")
    lines += [f"{name} = {_write_figure(figure)}" for name, figure in device.figures.items()]
    lines += ["", "[dense_peaks]", *(f"{dtype} = {_write_figure(peak)}" for dtype, peak in device.dense_peaks.items())]
    lines += ["", "[facts]", *(f"{_quote(name)} = {_quote(fact)}" for name, fact in device.facts.items())]
    return "\n".join([*lines, *_list_lines(content)]) + "\n"


def _list_lines(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a calibration, of which `write_content` made the content."""
    yield from (
        "",
        "[calibration]",
        *_write_values({name: content[name] for name in ("format", "backend", "dispatch")}),
    )
    for name in ("host", "compiled"):
        if name in content:
            yield from ("", f"[calibration.{name}]", *_write_values(content[name]))
    for network in content["networks"]:
        yield from ("", "[[calibration.networks]]", *_write_values(network))
    for table in content["tables"]:
        yield from ("", "[[calibration.tables]]", *_write_values({name: table[name] for name in ("kind", "dtype")}))
        yield "# each: the sizes, FLOPs or bytes, seconds, spread of the repetitions, seconds of the host"
        rows = (", ".join(f"{number:.6g}" for number in point) for point in table["points"])
        yield from ("points = [", *(f"    [{row}]," for row in rows), "]")


def _write_values(values: Mapping[str, Any]) -> list[str]:
    """Return a line for each text or number."""
    return [f"{name} = {_quote(value) if isinstance(value, str) else repr(value)}" for name, value in values.items()]


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
