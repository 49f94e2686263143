"""The predicted step of a rank as a timeline for Perfetto: its work, its collectives beside it, and where it waits.

The format is Google's Trace Event Format, as of `profilerkit.render.chrome_trace`. Each task begins when those that it
waits for have ended, and the one before it in its own lane; so the step may end later than ``rank_step_time`` says,
which is a lower bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from profilerkit import ModelTrace
from profilerkit.api import profile
from profilerkit.devices import DeviceInfo, DeviceInfoLike, device
from profilerkit.process.files import write_text
from profilerkit.render.chrome_trace import MICROSECONDS, name_event
from profilerkit.trace.records import LayerRecord

from ..prediction import Prediction, predict_trace
from ..prediction.bound import compute_bound
from ..rank_metrics import RankStep
from .layout import MESH, read_rank
from .step_time import Links, find_link
from .tasks import Task, list_tasks

__all__ = ["Slice", "schedule", "write_step_timeline"]

#: The lanes, in the order in which they are drawn.
LANES = ("work", "waiting", "collectives")


class Slice(NamedTuple):
    """A task in time, in seconds from the beginning of the step.

    "waiting" is no task: it has the one that can begin only then; at the end it has the last collective.
    """

    lane: str
    task: Task
    start: float
    seconds: float


def write_step_timeline(
    build: Any,
    inputs: Any = None,
    *,
    mesh: Any,
    on: DeviceInfoLike,
    path: str | PathLike[str],
    rank: int = 0,
    dtype: str | None = None,
    network: float | None = None,
    ranks_per_node: int = 8,
    **arguments: Any,
) -> float:
    """Write the predicted step of a rank as a Chrome trace, for https://ui.perfetto.dev; return the seconds of it.

    Args:
        build: The function that builds the model; see `profilerkit.profile` for this and for the inputs.
        inputs: What the rank gets.
        mesh: Names and sizes of the dimensions: ``{"dp_shard": 64, "tp": 8}``.
        on: The device of each rank: a name, a `DeviceInfo`, or the path of a file.
        path: The file.
        rank: The rank.
        dtype: The dtype of matrix products. Default: the dtype in the trace.
        network: Bytes per second between nodes, of each device in one direction; 400 Gbit/s are 50e9.
        ranks_per_node: How many devices a node has.
        arguments: Further arguments of `profilerkit.profile`: ``parallelize``, ``input_shape``.
    """
    sizes, target = MESH("mesh", mesh), device(on)
    number = read_rank(rank, sizes)
    report = profile(build, inputs, mesh=sizes, rank=number, metrics=[RankStep.NAME], strict=True, **arguments)
    tasks = list_tasks(report[RankStep.NAME])
    work = predict_trace(report[RankStep.NAME].trace, target, dtype=dtype)
    links = Links(sizes, number, find_link(target), network, ranks_per_node)
    slices = schedule(tasks, _find_seconds(tasks, work, links, dtype))
    write_text(Path(path), _write_events(slices, f"rank {number} of {report.name} on {target.name}"))
    return max((piece.start + piece.seconds for piece in slices), default=0.0)


def _find_seconds(tasks: Sequence[Task], work: Prediction, links: Links, dtype: str | None) -> list[float]:
    """Return the seconds of each task; those of work share what is predicted for all of it, by the bound of each."""
    bounds = [_find_bound(task, work.device, dtype) for task in tasks]
    scale = work.seconds / (sum(bounds) or 1.0)
    return [
        bound * scale if task.collective is None else links.find_seconds(task.collective)
        for task, bound in zip(tasks, bounds, strict=True)
    ]


def _find_bound(task: Task, target: DeviceInfo, dtype: str | None) -> float:
    """Return the seconds that a task takes at least if it reads and writes all that its operators do; 0 of none."""
    alone = ModelTrace((LayerRecord(task.layer, "", 0),), task.operators)
    products = compute_bound(alone, target, dtype).seconds if task.operators else 0.0
    return max(products, task.bytes / target.bandwidth if target.bandwidth else 0.0)


def schedule(tasks: Sequence[Task], seconds: Sequence[float]) -> list[Slice]:
    """Return when each task runs, and when the rank waits for collectives before its work goes on."""
    ends: list[float] = []
    free = {"work": 0.0, "collectives": 0.0}
    slices = []
    for task, takes in zip(tasks, seconds, strict=True):
        lane = "work" if task.collective is None else "collectives"
        start = max([free[lane], *(ends[before] for before in task.after)])
        if lane == "work" and start > free[lane]:
            slices.append(Slice("waiting", task, free[lane], start - free[lane]))
        slices.append(Slice(lane, task, start, takes))
        free[lane] = start + takes
        ends.append(free[lane])
    if slices and free["collectives"] > free["work"]:
        last = next(piece.task for piece in reversed(slices) if piece.lane == "collectives")
        slices.append(Slice("waiting", last, free["work"], free["collectives"] - free["work"]))
    return slices


def _write_events(slices: Sequence[Slice], title: str) -> str:
    events = [name_event("process_name", 1, 0, title)]
    events += [name_event("thread_name", 1, number, lane) for number, lane in enumerate(LANES, start=1)]
    events += _list_events(slices)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"exporter": "profilerkit"}})


def _list_events(slices: Sequence[Slice]) -> Iterator[dict[str, Any]]:
    for lane, task, start, seconds in slices:
        of_work = {"flops": task.flops, "bytes": task.bytes}
        facts = of_work if task.collective is None else {"sent_bytes": task.collective.sent_bytes}
        yield {
            "ph": "X",
            "name": f"waits: {task.name}" if lane == "waiting" else task.name,
            "cat": lane,
            "pid": 1,
            "tid": LANES.index(lane) + 1,
            "ts": start * MICROSECONDS,
            "dur": seconds * MICROSECONDS,
            "args": facts,
        }
