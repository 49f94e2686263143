"""A joined profile as text: the table of its layers, the kernels without a layer, and notes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.render.grids import Grid
from profilerkit.render.values import share_text

if TYPE_CHECKING:
    from .result import JoinedProfile

#: The width of notes, in characters.
_WIDTH = 100
#: How many kernels without a layer are listed.
_KERNELS = 5
#: How much of a kernel's name a table shows: with the arguments of its templates some have thousands of characters.
_NAME = 60
#: The columns that need figures of a device, and all columns.
_DEVICE_TITLES = ("MFU", "Roofline")
_TITLES = ("Layer", "Type", "Time", "Share", "MACs", "Bytes", "FLOP/s", *_DEVICE_TITLES)


def write_joined(joined: JoinedProfile, depth: int | None, top: int | None) -> str:
    """Return the table of layers, the kernels without a layer, and notes."""
    from profilerkit.render.console import grid_text

    parts = [grid_text(_draw_layers(joined, depth, top))]
    if joined.unattributed:
        parts.append(grid_text(_draw_unattributed(joined)))
    parts.append("\n".join(textwrap.fill(line, _WIDTH, break_on_hyphens=False) for line in _write_notes(joined)))
    return "\n\n".join(parts)


def _draw_layers(joined: JoinedProfile, depth: int | None, top: int | None) -> Grid:
    """Return the table of layers as a tree, or the table of the slowest layers with their whole paths."""
    rows = list(joined.layers)
    is_tree = top is None
    if top is not None:
        rows = sorted(rows, key=lambda row: -row["own_seconds"])[:top]
    elif depth is not None:
        rows = [row for row in rows if row["depth"] <= depth]
    titles = _TITLES if joined.device is not None else _TITLES[: -len(_DEVICE_TITLES)]
    cells = tuple(tuple(_write_cells(row, is_tree))[: len(titles)] for row in rows)
    title = f"Layers of {joined.name} ({joined.profiler}, {joined.phase})"
    depths = tuple(row["depth"] for row in rows) if is_tree else ()
    return Grid(title, titles, cells, frozenset(range(2, len(_TITLES))), depths)


def _write_cells(row: Mapping[str, Any], is_tree: bool) -> Iterator[str]:
    """Yield the cells of a layer, in the order of the titles; in a tree its path is relative to the layer around it."""
    path = row["path"]
    yield (path.rpartition(".")[2] if is_tree else path) or "(model)"
    yield row["type"]
    # Work without time of its own is in another layer's kernel; that is no zero.
    yield _format_seconds(row["seconds"]) if row["seconds"] or not row["flops"] else "-"
    yield "-" if row["share"] is None else share_text(row["share"])
    yield str(scale_value(row["macs"], "", Scale.SI))
    yield str(scale_value(row["bytes"], "B", Scale.IEC))
    rate = row["flops_per_second"]
    yield "-" if rate is None else str(scale_value(rate, "", Scale.SI))
    yield _format_share(row["mfu"] if row["macs"] else None)
    yield f"{_format_share(row['roofline'] or None)} {row['binds']}".rstrip()


def _format_share(share: float | None) -> str:
    """Return a share as a percentage; above 1 it is marked, and a note says why."""
    return "-" if share is None else f"{share_text(share)}{' (!)' if share > 1 else ''}"


def _draw_unattributed(joined: JoinedProfile) -> Grid:
    """Return the table of the kernels without a layer that take longest."""
    rows = tuple(
        (
            _shorten(row["kernel"]),
            _shorten(row["around"] or "-"),
            f"{row['calls']:.4g}",
            _format_seconds(row["seconds"]),
        )
        for row in joined.unattributed[:_KERNELS]
    )
    more = len(joined.unattributed) - len(rows)
    title = "Kernels without a layer" + (f", the longest {len(rows)} of {len(rows) + more}" if more else "")
    return Grid(title, ("Kernel", "In", "Calls", "Time"), rows, frozenset((2, 3)))


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _write_notes(joined: JoinedProfile) -> Iterator[str]:
    """Yield the lines below the tables: the whole pass, the kernels without a layer, and notes on the numbers."""
    recording = joined.recording
    whole, inside, between = map(_format_seconds, (joined.pass_seconds, joined.seconds, recording.between))
    passes = len(recording.passes)
    yield f"One pass takes {whole} (mean of {passes}): {inside} in kernels, {between} between them."
    where = f" on {recording.device}" if recording.device else " on a device" if recording.on_device else " on the host"
    yield f"Kernels ran{where}; layers are known by {recording.by}."
    share = f"{share_text(joined.unattributed_share)} of the kernels' time"
    yield f"Without a layer: {_format_seconds(joined.unattributed_seconds)}, {share}."
    if joined.mfu is not None:
        yield f"MFU of the whole pass: {_format_share(joined.mfu)}."
    for path, remark in recording.remarks.items():
        yield f"{path or '(model)'} {remark}."
    yield from (f"{note[:1].upper()}{note[1:]}." for note in joined.notes)


def _format_seconds(value: float) -> str:
    return str(scale_value(value, "s", Scale.TIME))
