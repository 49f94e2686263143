"""A report with numbers by hand for every kind of figure."""

from collections.abc import Mapping
from typing import Any

from profilerkit import Comparative, Comparison, Completeness, Measurement, Report, Scale
from profilerkit.results.report import StatusRecord
from profilerkit.times.layer_times import LayerTime, layer_time_table
from profilerkit.trace.records import LayerTable, MemoryTimeline
from profilerkit.trace.table import Table


def bars(axis: Any) -> list[list[float]]:
    """Return the width of every bar, those of one colour together."""
    return [[patch.get_width() for patch in container] for container in axis.containers]


def record(
    key: str, value: Any, unit: str = "", scale: Scale = Scale.NONE, missing: tuple[str, ...] = ()
) -> StatusRecord:
    title = key.replace("_", " ").title()
    state = Completeness.UNAVAILABLE if value is None else Completeness.COMPLETE
    return StatusRecord(key, title, "", value, "", unit, Comparative.NONE, state, missing, unit, "", scale)


def row(path: str, kind: str, own: int, inside: int = 0) -> Mapping[str, Any]:
    """Return a layer of so many MACs of its own, and so many inside."""
    where = {"path": path, "type": kind, "depth": path.count(".") + 1 if path else 0}
    return {
        **where,
        "is_leaf": not inside,
        "calls": 1,
        "params": own + inside,
        "macs": own + inside,
        "flops": 2 * (own + inside),
        "own_macs": own,
        "own_flops": 2 * own,
    }


#: 1000 MACs: a block of 200 + 400, a head of 300, and 100 of the network's own.
LAYERS = LayerTable(
    [
        row("", "Net", 100, 900),
        row("block", "Block", 0, 600),
        row("block.a", "Linear", 200),
        row("block.b", "Conv", 400),
        row("head", "Linear", 300),
    ]
)


#: Own milliseconds: 1 of the network's, 2 and 3 in the block, 4 in the head; backward twice that.
TIMES = layer_time_table(
    [
        LayerTime("", "Net", 1, (0.001,), (0.002,)),
        LayerTime("block", "Block", 1, (0.0,), (0.0,)),
        LayerTime("block.a", "Linear", 1, (0.002,), (0.004,)),
        LayerTime("block.b", "Conv", 1, (0.003,), (0.006,)),
        LayerTime("head", "Linear", 1, (0.004,), (0.008,)),
    ]
)


def operator(layer: str, flops: int, moved: int, phase: str = "forward") -> Mapping[str, Any]:
    numbers = {"macs": flops // 2, "flops": flops, "bytes_read": moved // 2, "bytes_written": moved - moved // 2}
    return {"operator": f"op_{layer[-1:]}", "layer": layer, "call": 0, "phase": phase, **numbers, "live_bytes": 0}


OPERATORS = Table(
    [operator("block.a", 400, 100), operator("block.b", 800, 50), operator("head", 600, 600), operator("", 0, 8)]
)


SWEEP = [
    {"batch_size": size, "execution_time": Measurement((time,) * 6), "throughput": size / time, "is_knee": size == 8}
    for size, time in ((1, 0.01), (8, 0.02), (16, 0.04))
]


def report(name: str = "net", **given: Any) -> Report:
    statuses = {
        "layer_times": record("layer_times", TIMES),
        "execution_time": record("execution_time", Measurement((0.004, 0.001, 0.002, 0.003)), "s", Scale.TIME),
        "batch_sweep": record("batch_sweep", SWEEP),
    }
    memory = MemoryTimeline(1024, 512, (1024, 3072, 2048, 512), "on demand")
    facts = {"statuses": statuses, "layers": LAYERS, "operators": OPERATORS, "memory": memory, "batch_size": 1}
    return Report(name, "fake", "module.Net", **{**facts, **given})


REPORT = report()


BOTH = Comparison(REPORT, (report("other"),))


def texts(figure: Any) -> list[str]:
    """Return what a figure says, as it is drawn."""
    from matplotlib.text import Text

    figure.draw_without_rendering()
    return [text.get_text().replace(r"\$", "$") for text in figure.findobj(Text) if text.get_visible()]
