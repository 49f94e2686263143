"""Reports for pages, made by hand: small ones with known numbers, hostile ones, and one of ten thousand layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from profilerkit import Comparative, Comparison, Completeness, Measurement, Report, Scale
from profilerkit.piping.quantity import scale_value, write_measurement
from profilerkit.results.report import StatusRecord
from profilerkit.trace.records import LayerTable, MemoryTimeline
from profilerkit.trace.table import Table

#: A layer: its path, its type, its own parameters, and its own MACs.
Layer = tuple[str, str, int, int]

HOSTILE_NAMES = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "<!-- <script>",
    "a|b & c",
    "line\nbreak\ttab\x1b[31m",
    "\"quoted\" 'single' `back`",
    "\u202eright to left",
    "lone \ud800 surrogate",
    "каша 網 \U0001f600",
    "x" * 3000,
    "{{ 7 * 7 }} {% raw %}",
    "__proto__",
    "toString",
)


def unpack(values: Any) -> list[Any]:
    """Return a list that a page may have as its distinct values and their places."""
    return [values["of"][place] for place in values["at"]] if isinstance(values, dict) else values


def status(key: str, value: Any, shown: str, unit: str = "", **facts: Any) -> StatusRecord:
    facts = {"comparative": Comparative.RECIPROCAL, "completeness": Completeness.COMPLETE, **facts}
    return StatusRecord(key, key.replace("_", " ").title(), f"What {key} is.", value, shown, unit, **facts)


def layer_table(given: Sequence[Layer], **extra: Mapping[str, Any]) -> LayerTable:
    """Return the rows of layers, those inside added up; ``extra`` has further columns by path."""
    whole = {path: [0, 0] for path, *_ in given}
    for path, _, params, macs in given:
        for around in _outwards(path):
            if around in whole:
                whole[around][0] += params
                whole[around][1] += macs
    parents = {path.rpartition(".")[0] for path, *_ in given if path}
    return LayerTable(
        {
            "path": path,
            "type": kind,
            "depth": path.count(".") + 1 if path else 0,
            "is_leaf": path not in parents,
            "calls": 1,
            "params": whole[path][0],
            "macs": whole[path][1],
            "flops": 2 * whole[path][1],
            "own_macs": macs,
            "own_flops": 2 * macs,
            "input_shapes": ((1, 8),),
            "output_shapes": ((1, 4),),
            **{key: values[path] for key, values in extra.items()},
        }
        for path, kind, _, macs in given
    )


def _outwards(path: str) -> list[str]:
    parts = path.split(".") if path else []
    return [".".join(parts[:count]) for count in range(len(parts) + 1)]


#: Three innermost layers; `block` holds two of them.
SMALL: tuple[Layer, ...] = (
    ("", "Net", 0, 0),
    ("block", "Sequential", 0, 0),
    ("block.first", "Linear", 144, 128),
    ("block.act", "ReLU", 0, 0),
    ("second", "Conv2d", 68, 4096),
)


def small(name: str = "Teacher", seconds: float = 0.002, layers: Sequence[Layer] = SMALL, timed: bool = True) -> Report:
    """Return a report with everything that a page can draw, or (``timed=False``) one without layer times."""
    own = {path: 0.0 if kind in ("Net", "Sequential", "ReLU") else seconds / 2 for path, kind, *_ in layers}
    forward = {path: sum(own[inside] for inside in own if path in _outwards(inside)) for path in own}
    times = LayerTable(
        {
            "path": path,
            "type": kind,
            "depth": path.count(".") + 1 if path else 0,
            "is_leaf": True,
            "calls": 1,
            "forward_seconds": forward[path],
            "backward_seconds": None,
            "own_forward_seconds": own[path],
            "own_backward_seconds": None,
            "missing": "",
        }
        for path, kind, *_ in layers
    )
    samples = Measurement(tuple(seconds * (1 + place % 7 / 100) for place in range(40)), session=1, warmup=(seconds,))
    table = _add_traffic(layer_table(layers))
    records = [
        status("total_params", table[0]["params"], str(table[0]["params"]), scale=Scale.SI),
        status("macs", table[0]["macs"], f"{table[0]['macs']} MACs", "MACs", base_unit="MACs", scale=Scale.SI),
        status(
            "execution_time",
            samples,
            str(write_measurement(samples, scale_value(samples.median, "s", Scale.TIME))),
            "ms",
            base_unit="s",
            scale=Scale.TIME,
        ),
        status("flops", 9, "9", completeness=Completeness.PARTIAL, missing=("aten.odd (2 calls)",)),
        status("energy", None, "", completeness=Completeness.UNAVAILABLE, missing=("no counter here",)),
        status("crashed", None, "", completeness=Completeness.FAILED, missing=("ValueError: it broke",)),
    ]
    if timed:
        records.append(status("layer_times", times, f"{len(times)} layers"))
    return Report(
        name,
        "fake",
        "module.Net",
        {record.key: record for record in records},
        layers=table,
        batch_size=1,
        notes=("counted in a real run",),
        environment={"host": "somewhere"},
        created="2026-11-22T00:00:00+00:00",
        operators=_operators(layers),
        memory=MemoryTimeline(
            848,
            32,
            tuple(64 + 32 * (place % 3) for place in range(len(layers))),
            parts={"inputs": 32, "activations": 96, "other": 0},
        ),
    )


def with_bounds() -> Report:
    """Return a report whose counts of MACs are bounds of all kinds; only a branch that is not counted runs `act`."""
    ends = {"": (4224, None), "block": (0, 128), "block.first": (100, 200), "block.act": (0, 7), "second": (4096, 4096)}
    own_ends = {path: ends[path] if kind in ("Linear", "ReLU", "Conv2d") else (0, 0) for path, kind, *_ in SMALL}
    columns = {
        f"{part}macs_{end}": {path: pair[place] for path, pair in pairs.items()}
        for part, pairs in (("", ends), ("own_", own_ends))
        for place, end in enumerate(("low", "high"))
    }
    return replace(small(), layers=layer_table(SMALL, **columns))


def _add_traffic(table: LayerTable) -> LayerTable:
    """Return the layers with the bytes of their operators, one for each layer: see `_operators`."""
    inside = {row["path"]: sum(row["path"] in _outwards(other["path"]) for other in table) for row in table}
    return LayerTable(
        {**row, "bytes_read": 100 * inside[row["path"]], "bytes_written": 28 * inside[row["path"]]} for row in table
    )


def _operators(layers: Sequence[Layer]) -> Table:
    """Return one operator for each layer, which reads 100 bytes and writes 28."""
    return Table(
        {
            "operator": f"op.{kind.lower()}",
            "layer": path,
            "call": 0,
            "phase": "forward",
            "macs": macs,
            "flops": 2 * macs,
            "bytes_read": 100,
            "bytes_written": 28,
            "live_bytes": 64,
        }
        for path, kind, _, macs in layers
    )


def with_operator_times(backward: bool = True) -> Report:
    """Return `small` with a table of timed operators, the slowest first: 10 ms forward, and 10 ms backward.

    Forward, block.first takes 3 ms, block.act 1, block itself 0.5, second 3.5 and the model itself 2; backward, second
    takes 6 ms and block.first 4.
    """
    rows = [
        ("conv_back", "second", "backward", 5, 1, 0.006, 8192, ""),
        ("mm_back", "block.first", "backward", 6, 1, 0.004, 256, ""),
        ("conv", "second", "forward", 3, 1, 0.0035, 4096, ""),
        ("mm", "block.first", "forward", 0, 2, 0.003, 128, ""),
        ("cat", "", "forward", 4, 1, 0.002, 0, ""),
        ("relu", "block.act", "forward", 1, 1, 0.001, 0, ""),
        ("odd", "block", "forward", 2, 1, 0.0005, None, "no formula"),
    ]
    names = ("operator", "layer", "phase", "order", "calls", "seconds", "macs", "missing")
    table = Table(dict(zip(names, row, strict=True)) for row in rows if backward or row[2] == "forward")
    report = small()
    record = status("operator_table", table, f"{len(table)} operators")
    return replace(report, statuses={**report.statuses, "operator_table": record})


def pair() -> Comparison:
    """Return two models: one layer is the same, two changed, one was removed, and one added."""
    other: tuple[Layer, ...] = (
        ("", "Net", 0, 0),
        ("block", "Sequential", 0, 0),
        ("block.first", "Linear", 144, 128),
        ("second", "Conv2d", 34, 2048),
        ("third", "LayerNorm", 8, 0),
    )
    return Comparison(small(), (small("Student", 0.001, other),))


def hostile() -> Report:
    """Return a report in which every name is one that a page could trip over, and values that are no numbers."""
    layers: list[Layer] = [("", HOSTILE_NAMES[0], 1, 1)]
    layers += [(name.replace(".", ""), name, 1, 1) for name in HOSTILE_NAMES]
    records = {
        name: replace(status(name, name, name), friendly_name=name, description=name, unit=name)
        for name in HOSTILE_NAMES
    }
    records["part"] = status("part", 1, "1", completeness=Completeness.PARTIAL, missing=HOSTILE_NAMES)
    table = layer_table(layers)
    return Report(
        HOSTILE_NAMES[1],
        HOSTILE_NAMES[0],
        HOSTILE_NAMES[0],
        records,
        inputs=HOSTILE_NAMES[1],
        layers=table,
        notes=HOSTILE_NAMES,
        environment=dict.fromkeys(HOSTILE_NAMES, HOSTILE_NAMES[1]),
        arguments=dict.fromkeys(HOSTILE_NAMES, HOSTILE_NAMES[1]),
        operators=_operators([(path, kind, 0, 0) for path, kind, *_ in layers]),
        memory=MemoryTimeline(10, 2, tuple(range(1, len(layers) + 1)), note=HOSTILE_NAMES[1]),
    )


def odd_numbers() -> Report:
    """Return a report whose values are nan and infinite, in metrics, samples and layers alike."""
    samples = Measurement((math.inf, math.inf, -math.inf, 1.0, 2.0, 3.0, 4.0, 5.0))
    records = {
        "nan": status("nan", math.nan, "nan"),
        "inf": status("inf", math.inf, "inf", base_unit="s", scale=Scale.TIME),
        "execution_time": status("execution_time", samples, "inf s", "s", base_unit="s", scale=Scale.TIME),
    }
    strange = {"": math.nan, "a": math.inf, "b": -math.inf}
    table = layer_table([("", "Net", 0, 0), ("a", "Linear", 1, 10**30), ("b", "Linear", 1, 5)], forward_seconds=strange)
    return Report("Odd", "fake", "m.M", records, layers=table)


def empty() -> Report:
    """Return a report of a model that was not traced, and of which nothing is known."""
    return Report("Empty", "fake", "m.M", {})


def many(blocks: int = 1000) -> Report:
    """Return a report of blocks of nine layers each; 1000 of them are 10,001 layers with the outermost."""
    layers: list[Layer] = [("", "Net", 0, 0)]
    for block in range(blocks):
        layers.append((f"block{block}", "Block", 0, 0))
        kinds = ("Linear", "ReLU", "Conv2d", "LayerNorm", "Linear", "GELU", "Dropout", "Linear", "Identity")
        layers += [
            (f"block{block}.{place}", kind, 3 * (block + place), 100 * block + place)
            for place, kind in enumerate(kinds)
        ]
    return replace(small(), layers=layer_table(layers), operators=_operators(layers), statuses={}, name="Many")
