"""The predicted step of a rank as a timeline for Perfetto: its work, its collectives, and its waits for them.

The rank's step is traced, each task gets its seconds, and each task begins when the tasks that it waits for have ended
(`schedule`). A lane has one task at a time: the step may end later than ``rank_step_time`` says, a lower bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from os import PathLike
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
from .records import RankTrace
from .step_time import NETWORK, RANKS_PER_NODE, Links, find_links
from .tasks import Task, list_tasks

#: The lanes, in the order in which they are drawn.
LANES = ("work", "waiting", "collectives")


def write_step_timeline(
    build: Any,
    inputs: Any = None,
    *,
    mesh: Any,
    on: DeviceInfoLike,
    path: str | PathLike[str],
    **arguments: Any,
) -> float:
    """Write the predicted step of a rank as a Chrome trace, for https://ui.perfetto.dev; return its seconds.

    Notes, such as of dimensions of the mesh over which nothing is exchanged, are in the file (``otherData``).

    Args:
        build: The function that builds the model; see `profilerkit.profile` for this and for the inputs.
        inputs: The inputs of the rank.
        mesh: Names and sizes of the dimensions: ``{"dp_shard": 64, "tp": 8}``.
        on: The device of each rank: a name, a `DeviceInfo`, or the path of a file.
        path: The file.
        arguments: Further arguments of `profilerkit.profile`: ``rank``, ``dtype`` (of matrix products), ``network``
            (bytes per second between nodes, of each device in one direction; 400 Gbit/s are 50e9), ``ranks_per_node``
            (default: 8), ``parallelize``, ``input_shape``, and others.

    Raises:
        ArgumentError: An argument is invalid, or the rank exchanges data and the device's link is not known.
        DeviceNotKnownError: No device has the name.
        NotOfferedError: It is not known in which order the rank exchanges data, or how much.
    """
    sizes, target = MESH("mesh", mesh), device(on)
    rank = read_rank(arguments.pop("rank", 0), sizes)
    dtype = arguments.pop("dtype", None)
    network = NETWORK("network", arguments.pop("network", None))
    ranks_per_node = RANKS_PER_NODE("ranks_per_node", arguments.pop("ranks_per_node", 8))
    report = profile(build, inputs, mesh=sizes, rank=rank, metrics=[RankStep.NAME], strict=True, **arguments)
    step: RankTrace = report[RankStep.NAME]
    links = find_links(step, target, sizes, rank, network, ranks_per_node)
    tasks = list_tasks(step)
    slices = schedule(tasks, _find_seconds(tasks, predict_trace(step.trace, target, dtype=dtype), links, dtype))
    events = [name_event("process_name", 1, 0, f"rank {rank} of {report.name} on {target.name}")]
    events += [name_event("thread_name", 1, number, lane) for number, lane in enumerate(LANES, start=1)]
    notes = [*step.trace.notes, *links.list_unknown(step.collectives)]
    content = {"traceEvents": [*events, *_list_events(slices)], "displayTimeUnit": "ms"}
    write_text(path, json.dumps({**content, "otherData": {"exporter": "profilerkit", "notes": notes}}))
    return max((piece.start + piece.seconds for piece in slices), default=0.0)


def _find_seconds(tasks: Sequence[Task], work: Prediction, links: Links, dtype: str | None) -> list[float]:
    """Return the seconds of each task; tasks of work share the seconds of all work, in proportion to their bounds."""
    bounds = [_find_bound(task, work.device, dtype) if task.operators else 0.0 for task in tasks]
    scale = work.seconds / sum(bounds) if any(bounds) else 0.0
    return [
        bound * scale if task.collective is None else links.find_seconds(task.collective)
        for task, bound in zip(tasks, bounds, strict=True)
    ]


def _find_bound(task: Task, target: DeviceInfo, dtype: str | None) -> float:
    """Return the seconds that work takes at least if it reads and writes all that its operators do."""
    alone = ModelTrace((LayerRecord(task.layer, "", 0),), task.operators)
    traffic = task.bytes / target.bandwidth if target.bandwidth else 0.0
    return max(compute_bound(alone, target, dtype).seconds, traffic)


class Slice(NamedTuple):
    """A task in time, in seconds from the start of the step; in the lane "waiting" the task that the work waits for."""

    lane: str
    task: Task
    start: float
    seconds: float


def schedule(tasks: Sequence[Task], seconds: Sequence[float]) -> list[Slice]:
    """Return when each task runs, and when the work waits for collectives: before it goes on, and at the end."""
    ends: list[float] = []  # when each task so far ends, by its number
    free = {"work": 0.0, "collectives": 0.0}  # when each lane has nothing more to do
    slices = []
    for task, takes in zip(tasks, seconds, strict=True):
        lane = "work" if task.collective is None else "collectives"
        latest = max(task.after, key=lambda number: ends[number], default=None)  # of the tasks that it waits for
        start = free[lane] if latest is None else max(free[lane], ends[latest])
        if lane == "work" and latest is not None and start > free["work"]:
            slices.append(Slice("waiting", tasks[latest], free["work"], start - free["work"]))
        slices.append(Slice(lane, task, start, takes))
        free[lane] = start + takes
        ends.append(free[lane])
    if free["collectives"] > free["work"]:
        last = next(piece.task for piece in reversed(slices) if piece.lane == "collectives")
        slices.append(Slice("waiting", last, free["work"], free["collectives"] - free["work"]))
    return slices


def _list_events(slices: Sequence[Slice]) -> Iterator[dict[str, Any]]:
    """Yield the slices as events of Google's Trace Event Format, like `profilerkit.render.chrome_trace`."""
    for lane, task, start, seconds in slices:
        of_work = {"flops": task.flops, "bytes": task.bytes}
        yield {
            "ph": "X",
            "name": f"waits for {task.name}" if lane == "waiting" else task.name,
            "cat": lane,
            "pid": 1,
            "tid": LANES.index(lane) + 1,
            "ts": start * MICROSECONDS,
            "dur": seconds * MICROSECONDS,
            "args": of_work if task.collective is None else {"sent_bytes": task.collective.sent_bytes},
        }
