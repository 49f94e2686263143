"""The tables of a joined profile as text: its layers, and the kernels without a layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.render.grids import Grid
from profilerkit.render.values import share_text
from profilerkit.trace.layer_table import LayerTable
from profilerkit.trace.table import Table

#: How many kernels without a layer are listed.
_KERNELS = 5
#: How much of a kernel's name a table shows: with the arguments of its templates some have thousands of characters.
_NAME = 60
#: The columns that need figures of a device, and all columns.
_DEVICE_TITLES = ("MFU", "Roofline")
_TITLES = ("Layer", "Type", "Time", "Share", "MACs", "Bytes", "FLOP/s", *_DEVICE_TITLES)


def draw_layers(title: str, layers: LayerTable, has_device: bool, depth: int | None, top: int | None) -> Grid:
    """Return the table of layers as a tree, or the table of the slowest layers with their whole paths.

    Without a device it has no columns of the device's figures.
    """
    rows = list(layers)
    is_tree = top is None
    if top is not None:
        rows = sorted(rows, key=lambda row: -row["own_seconds"])[:top]
    elif depth is not None:
        rows = [row for row in rows if row["depth"] <= depth]
    titles = _TITLES if has_device else _TITLES[: -len(_DEVICE_TITLES)]
    cells = tuple(tuple(_write_cells(row, is_tree))[: len(titles)] for row in rows)
    depths = tuple(row["depth"] for row in rows) if is_tree else ()
    return Grid(title, titles, cells, frozenset(range(2, len(_TITLES))), depths)


def _write_cells(row: Mapping[str, Any], is_tree: bool) -> Iterator[str]:
    """Yield the cells of a layer, in the order of the titles; in a tree its path is relative to the layer around it."""
    path = row["path"]
    yield (path.rpartition(".")[2] if is_tree else path) or "(model)"
    yield row["type"]
    # Work without time of its own is in another layer's kernel; that is no zero.
    yield format_seconds(row["seconds"]) if row["seconds"] or not row["flops"] else "-"
    yield "-" if row["share"] is None else share_text(row["share"])
    yield str(scale_value(row["macs"], "", Scale.SI))
    yield str(scale_value(row["bytes"], "B", Scale.IEC))
    rate = row["flops_per_second"]
    yield "-" if rate is None else str(scale_value(rate, "", Scale.SI))
    yield format_share(row["mfu"] if row["macs"] else None)
    yield f"{format_share(row['roofline'] or None)} {row['binds']}".rstrip()


def format_share(share: float | None) -> str:
    """Return a share as a percentage; above 1 it is marked, and a note says why."""
    return "-" if share is None else f"{share_text(share)}{' (!)' if share > 1 else ''}"


def draw_unattributed(kernels: Table) -> Grid:
    """Return the table of the kernels without a layer that take longest."""
    rows = tuple(
        (
            _shorten(row["kernel"]),
            _shorten(row["around"] or "-"),
            f"{row['calls']:.4g}",
            format_seconds(row["seconds"]),
        )
        for row in kernels[:_KERNELS]
    )
    more = len(kernels) - len(rows)
    title = "Kernels without a layer" + (f", the longest {len(rows)} of {len(rows) + more}" if more else "")
    return Grid(title, ("Kernel", "In", "Calls", "Time"), rows, frozenset((2, 3)))


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def format_seconds(value: float) -> str:
    """Return seconds with a prefix."""
    return str(scale_value(value, "s", Scale.TIME))
